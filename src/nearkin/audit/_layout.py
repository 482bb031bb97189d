"""A flat picture in which neighbours of the learned space are neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearkin import progress
from nearkin.kernels import one_blas_thread

__all__ = ["kl_gradient", "neighbour_layout"]

Array = NDArray[np.floating]

#: Rows that are laid out; the others are put beside them.
_LANDMARKS = 600
_PERPLEXITY = 30.0
_STEPS, _EARLY, _EXAGGERATION = 300, 100, 12.0
#: Landmarks between which another row is put.
_BESIDE = 3


def neighbour_layout(rows: Array, start: Array, seed: int = 0) -> Array:
    """Two coordinates for every row, by t-SNE of some rows; the others are put beside their nearest ones.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_components)
        Rows in the learned space.
    start : ndarray of shape (n_samples, 2)
        Where to begin, so that what is far apart there stays apart.
    seed : int
        Of the choice of rows that are laid out.

    Notes
    -----
    Van der Maaten and Hinton (Visualizing data using t-SNE, 2008). Exact, since the rows that are laid out are few.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = np.repeat(np.eye(3), 20, axis=0) + 0.05 * rng.normal(size=(60, 3))
    >>> flat = neighbour_layout(rows, rows[:, :2])
    >>> flat.shape
    (60, 2)
    """
    n = len(rows)
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.permutation(n)[:_LANDMARKS])
    points, place = rows[chosen].astype(np.float32), start[chosen].astype(np.float32)
    squares = _squares(points, points)
    shared = _affinities(squares, min(_PERPLEXITY, (len(chosen) - 1) / 3))
    with one_blas_thread():  # the matrices are too small to share
        flat = _descended(shared, 1e-2 * (place - place.mean(axis=0)) / max(float(place.std()), 1e-9))
    out = np.empty((n, 2), dtype=np.float32)
    out[chosen] = flat
    others = np.setdiff1d(np.arange(n), chosen)
    if len(others):
        far = _squares(rows[others].astype(np.float32), points)
        near = np.argpartition(far, _BESIDE - 1, axis=1)[:, :_BESIDE]
        closeness = 1.0 / (np.take_along_axis(far, near, axis=1) + 1e-12)
        closeness /= closeness.sum(axis=1, keepdims=True)
        middle = (closeness[:, :, None] * flat[near]).sum(axis=1)
        # So that rows with the same neighbours do not hide each other.
        spread = np.abs(flat[near] - middle[:, None]).mean(axis=(1, 2))
        out[others] = middle + 0.5 * spread[:, None] * rng.normal(size=(len(others), 2))
    return out


def _squares(left: Array, right: Array) -> Array:
    norms = (left * left).sum(axis=1)[:, None] + (right * right).sum(axis=1)
    found: Array = np.maximum(norms - 2.0 * left @ right.T, 0.0)
    return found


def _affinities(squares: Array, perplexity: float) -> Array:
    """Symmetric probabilities of pairs; every row has about ``perplexity`` neighbours."""
    n = len(squares)
    scaled = squares / np.maximum(squares.mean(axis=1, keepdims=True), 1e-12)
    low, high = np.zeros(n), np.full(n, np.inf)
    sharpness = np.ones(n)
    wanted = np.log(perplexity)
    for _ in range(40):
        weights = np.exp(-scaled * sharpness[:, None])
        np.fill_diagonal(weights, 0.0)
        total = np.maximum(weights.sum(axis=1), 1e-300)
        entropy = np.log(total) + sharpness * (weights * scaled).sum(axis=1) / total
        too_flat = entropy > wanted
        low = np.where(too_flat, sharpness, low)
        high = np.where(too_flat, high, sharpness)
        sharpness = np.where(np.isinf(high), 2.0 * sharpness, (low + np.minimum(high, 1e300)) / 2.0)
    weights /= total[:, None]
    both = (weights + weights.T) / (2.0 * n)
    # Numbers that single precision can hardly hold make every step slow.
    return np.where(both > 1e-12, both, 0.0).astype(np.float32)


def kl_gradient(shared: Array, flat: Array) -> Array:
    """Slope of the divergence of the flat picture's affinities from those of the space."""
    closeness = 1.0 / (1.0 + _squares(flat, flat))
    np.fill_diagonal(closeness, 0.0)
    pull = (shared - closeness / closeness.sum()) * closeness
    found: Array = 4.0 * (pull.sum(axis=1)[:, None] * flat - pull @ flat)
    return found


def _descended(shared: Array, flat: Array) -> Array:
    """Gradient descent with momentum, and gains that grow while a coordinate keeps its direction."""
    rate = max(len(flat) / _EXAGGERATION / 4.0, 50.0)
    velocity, gains = np.zeros_like(flat), np.ones_like(flat)
    for step in range(_STEPS):
        early = step < _EARLY
        slope = kl_gradient(shared * _EXAGGERATION if early else shared, flat)
        gains = np.maximum(np.where(slope * velocity < 0, gains + 0.2, gains * 0.8), 0.01)
        velocity = (0.5 if early else 0.8) * velocity - rate * gains * slope
        flat = flat + velocity
        progress.advance("drawing the map", step + 1, _STEPS)
    return flat
