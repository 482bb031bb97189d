"""One thread for torch, so that tests that run beside each other do not wait for each other."""

import importlib.util

import numpy as np
import pytest

if importlib.util.find_spec("torch"):
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def rings(rng):
    """Maker of two rings around each other: no linear map separates them."""

    def make(n=120, d=4):
        y = rng.permutation(np.arange(n) % 2)
        angle = rng.uniform(0, 2 * np.pi, n)
        radius = np.where(y == 0, 1.0, 2.5) + 0.15 * rng.normal(size=n)
        X = 0.1 * rng.normal(size=(n, d))
        X[:, 0], X[:, 1] = radius * np.cos(angle), radius * np.sin(angle)
        return X, y

    return make
