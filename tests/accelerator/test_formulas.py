"""The formulas in CUDA C against those of `nearkin.steps`."""

import math

import numpy as np
import pytest

from accelerator import emulator
from nearkin import steps
from nearkin.accelerator.device import step_settings
from nearkin.losses import RescaledHinge, exponential_weight

N = 60


@pytest.fixture
def stepped(device):
    """Calls the step of a card for many triplets, one thread block each."""
    import torch

    factored = emulator.device_function("factored", device, 0, N_HQ=3, REAL_IS_DOUBLE=None)

    def call(numbers):
        out = torch.full((len(numbers), 4), math.nan, dtype=torch.float64)
        factored(len(numbers), 32, torch.tensor(numbers), out)
        return out.numpy()

    return call


@pytest.mark.parametrize("eta", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("C", [0.05, 1.0, 20.0, math.inf])
def test_low_rank_steps_agree(stepped, rng, C, eta):
    loss = RescaledHinge(eta)
    numbers, expected = [], []
    for i in range(N):
        d, r = rng.choice([1, 2, 5]), rng.choice([1, 3])
        g, h = rng.normal(size=(2, d)) * rng.choice([0.1, 1.0, 3.0])
        if i % 10 < 2:  # against each other, or along each other
            h = (-0.5, 0.7)[i % 2] * g
        L = rng.normal(size=(d, r)) * rng.choice([0.1, 0.5, 1.0])
        p, q = L.T @ g, L.T @ h
        one = g @ g, h @ h, g @ h, p @ p, q @ q, p @ q
        numbers.append([*one, *step_settings(C, loss.params)])
        expected.append((0.0, 0.0, 0.0, 1.0))
        if p @ q < 1.0:
            curve = steps.factored_curve(*one)
            with np.errstate(all="ignore"):
                tau, w = steps.half_quadratic(
                    steps.factored_z, curve, steps.factored_kink(curve), C, exponential_weight, loss.params, 3
                )
                a1, a2, _, b2 = steps.factored_update(tau, curve, *one[:3])
            expected[-1] = (
                (a1, a2, b2, w / loss.slope) if math.isfinite(a1 + a2 + b2) else (0.0, 0.0, 0.0, w / loss.slope)
            )
    found, expected = stepped(numbers), np.array(expected)
    # Opposite vectors have an m_plus of pure rounding; with no cap on the step nothing can be told there.
    keep = np.ones(N, bool) if math.inf > C else np.arange(N) % 10 >= 2
    scale = np.maximum(np.abs(expected[keep]).max(axis=1, keepdims=True), 1e-300)  # a weight may underflow
    assert np.abs((found - expected)[keep] / scale).max() < 1e-11
