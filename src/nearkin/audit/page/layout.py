"""t-SNE of a few hundred rows, exact: every pair counts, so it needs matrix products and no trees."""

from __future__ import annotations

import numpy as np

from nearkin import progress
from nearkin.arrays import Array

__all__ = ["lay_out"]

#: Steps in which near rows attract each other more than they should, by which factor, and all steps.
_EARLY, _EXAGGERATION, _STEPS = 250, 12.0, 400
#: Halvings in which the reach of a row is found.
_HALVINGS = 50


def lay_out(rows: Array, perplexity: float, seed: int) -> Array:
    """Return two coordinates for every row; near rows lie near each other (van der Maaten and Hinton, 2008).

    Time and memory grow with the square of the rows: 600 take half a second.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = np.concatenate([rng.normal(size=(30, 5)), 9.0 + rng.normal(size=(30, 5))])
    >>> flat = lay_out(rows, 10.0, 0)
    >>> far = np.linalg.norm(flat[:, None] - flat, axis=2) + np.diag(np.full(60, np.inf))
    >>> bool(((far.argmin(axis=1) < 30) == (np.arange(60) < 30)).all())
    True
    """
    n = len(rows)
    wanted = _attract(rows.astype(np.float64), perplexity).astype(np.float32)
    flat = _begin(rows, np.random.default_rng(seed)).astype(np.float32)
    rate = max(n / _EXAGGERATION / 4.0, 50.0)
    progress.begin("drawing the map")
    for number in range(_STEPS):
        is_early = number < _EARLY
        if number in (0, _EARLY):
            step, gain = np.zeros_like(flat), np.ones_like(flat)
        squares = np.einsum("ij,ij->i", flat, flat)
        near = 1.0 / (1.0 + np.maximum(squares[:, None] + squares - 2.0 * flat @ flat.T, 0.0))
        np.fill_diagonal(near, 0.0)
        force = ((_EXAGGERATION if is_early else 1.0) * wanted - near / near.sum()) * near
        slope = 4.0 * (force.sum(axis=1)[:, None] * flat - force @ flat)
        gain = np.maximum(np.where(step * slope < 0.0, gain + 0.2, gain * 0.8), 0.01)
        step = (0.5 if is_early else 0.8) * step - rate * gain * slope
        flat += step
        progress.advance("drawing the map", number + 1, _STEPS)
    return flat


def _begin(rows: Array, rng: np.random.Generator) -> Array:
    """Return the first two principal components, or a random start where rows do not spread in two directions."""
    centred = rows - rows.mean(axis=0, dtype=np.float64)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    if len(sizes) < 2 or not sizes[0] > 0.0:
        return 1e-4 * rng.standard_normal((len(rows), 2))
    flat = left[:, :2] * sizes[:2]
    start: Array = 1e-4 * flat / flat[:, 0].std()
    return start


def _attract(rows: Array, perplexity: float) -> Array:
    """Return how much each pair of rows belongs together, all sums one; each row has about as many near ones."""
    squares = np.einsum("ij,ij->i", rows, rows)
    far = np.maximum(squares[:, None] + squares - 2.0 * rows @ rows.T, 0.0)
    np.fill_diagonal(far, np.inf)
    far -= far.min(axis=1, keepdims=True)
    finite = np.where(np.isfinite(far), far, 0.0)
    low, high, sharp = np.zeros(len(rows)), np.full(len(rows), np.inf), np.ones(len(rows))
    for _ in range(_HALVINGS):
        share = np.exp(-far * sharp[:, None])
        total = share.sum(axis=1)
        entropy = np.log(total) + sharp * (share * finite).sum(axis=1) / total
        is_wide = entropy > np.log(perplexity)
        low, high = np.where(is_wide, sharp, low), np.where(is_wide, high, sharp)
        sharp = np.where(np.isinf(high), 2.0 * sharp, 0.5 * (low + high))
    share /= total[:, None]
    both = share + share.T
    found: Array = np.maximum(both / both.sum(), np.finfo(np.float64).eps)
    return found
