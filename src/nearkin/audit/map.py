"""A flat picture of the learned space."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["flat_map", "framed", "shown_rows"]

Array = NDArray[np.floating]

#: Rows from which the view is computed.
_ROWS = 20000
#: Share of the within-class scatter that is replaced by its mean, so that it can be inverted.
_SHRINK = 0.1
#: Points beyond these percentiles are drawn at the edge.
_EDGES = (0.5, 99.5)


def flat_map(rows: Array, codes: NDArray[np.int64], weights: Array, seed: int = 0) -> Array:
    """Two coordinates for every row: the linear view in which classes lie farthest apart.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_components)
        Rows in the learned space.
    codes : ndarray of int64 of shape (n_samples,)
        Classes.
    weights : ndarray of shape (n_samples,)
        How much each class is trusted.
    seed : int
        Of the sample, and of the second coordinate where there is but one dimension.

    Notes
    -----
    Fisher's discriminant directions; with two classes there is one of them, and the second coordinate is the direction
    of largest variance besides it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> codes = np.repeat([0, 1, 2], 50)
    >>> rows = 5 * np.eye(3)[codes] + rng.normal(size=(150, 3))
    >>> flat_map(rows, codes, np.ones(150)).shape
    (150, 2)
    """
    rng = np.random.default_rng(seed)
    some = np.arange(len(rows)) if len(rows) <= _ROWS else np.sort(rng.permutation(len(rows))[:_ROWS])
    directions = _directions(rows[some].astype(np.float64), codes[some], weights[some])
    flat = rows @ directions
    if flat.shape[1] < 2:
        flat = np.column_stack([flat, rng.uniform(size=len(rows))])
    return flat


def framed(flat: Array) -> Array:
    """Coordinates in [0, 1]; a few that are far out are drawn at the edge.

    Examples
    --------
    >>> framed(np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0]]))[:, 0].round(2).tolist()
    [0.0, 0.5, 1.0]
    """
    low, high = np.percentile(flat, _EDGES, axis=0)
    return np.clip((flat - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)


def _directions(rows: Array, codes: NDArray[np.int64], weights: Array) -> Array:
    """At most two columns."""
    n_classes = int(codes.max()) + 1
    size = np.maximum(np.bincount(codes, weights, n_classes), 1e-12)
    means = np.zeros((n_classes, rows.shape[1]))
    np.add.at(means, codes, rows * weights[:, None])
    means /= size[:, None]
    inner = (rows - means[codes]) * np.sqrt(weights)[:, None]
    within = inner.T @ inner / weights.sum()
    within = (1.0 - _SHRINK) * within + _SHRINK * max(np.trace(within) / len(within), 1e-12) * np.eye(len(within))
    values, vectors = np.linalg.eigh(within)
    white = vectors / np.sqrt(values)
    # Every class counts alike, so that a rare one is not hidden behind a frequent one.
    between = (means - means.mean(axis=0)) @ white
    best = np.linalg.svd(between, full_matrices=False)[2]
    n_found = min(2, n_classes - 1, len(best))
    found = best[:n_found].T
    if n_found < 2 and rows.shape[1] > 1:
        rest = (rows - rows.mean(axis=0)) @ white
        rest -= (rest @ found) @ found.T
        found = np.column_stack([found, np.linalg.svd(rest.T @ rest)[0][:, :1]])
    return white @ found


def shown_rows(is_suspect: NDArray[np.bool_], order: NDArray[np.int64], most: int, seed: int = 0) -> NDArray[np.int64]:
    """Rows to draw: the most doubtful suspects, up to a third, and a uniform sample of the others; in random order."""
    suspects = order[: min(int(is_suspect.sum()), most // 3)]
    rng = np.random.default_rng(seed)
    others = rng.permutation(np.flatnonzero(~is_suspect))[: most - len(suspects)]
    return rng.permutation(np.concatenate([suspects, others]))
