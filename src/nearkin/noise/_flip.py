"""Put wrong labels into data on purpose, to see what they do."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.checks import Real, generator
from nearkin.labels import as_labels, sorted_classes

__all__ = ["flip_labels"]


def flip_labels(y: ArrayLike, rate: float, *, random_state: Any = None) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Replace a share of the labels by another class, drawn uniformly.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Right labels.
    rate : float
        Share to replace; ``round(rate * n_samples)`` rows are, chosen uniformly.
    random_state : int, Generator, RandomState or None
        Seed.

    Returns
    -------
    noisy : ndarray of shape (n_samples,)
        Labels, some of them wrong.
    is_wrong : ndarray of bool of shape (n_samples,)
        Which ones.

    Examples
    --------
    >>> noisy, is_wrong = flip_labels([0, 1, 2, 0, 1], 0.4, random_state=0)
    >>> int(is_wrong.sum()), bool((noisy[is_wrong] != np.array([0, 1, 2, 0, 1])[is_wrong]).all())
    (2, True)
    """
    if not Real(0.0, 1.0).allows(rate):
        raise ValueError(f"flip_labels: `rate` must be {Real(0.0, 1.0)}; got {rate!r}.")
    labels = as_labels(y, "flip_labels")
    rng = generator(random_state)
    classes, codes = sorted_classes(labels)
    if len(classes) < 2:
        raise ValueError("flip_labels: y holds one class, so no label can be wrong.")
    chosen = rng.permutation(len(labels))[: round(rate * len(labels))]
    noisy = labels.copy()
    noisy[chosen] = classes[(codes[chosen] + rng.integers(1, len(classes), len(chosen))) % len(classes)]
    is_wrong = np.zeros(len(labels), dtype=bool)
    is_wrong[chosen] = True
    return noisy, is_wrong
