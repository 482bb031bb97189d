"""A flat map of the learned space: which rows are drawn, and where."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearkin import progress
from nearkin.arrays import Array, Codes, Index

__all__ = ["choose_rows", "draw_map", "fit_frame", "separate_classes"]

#: Rows laid out by t-SNE; the others are placed beside them.
_LANDMARKS = 600
_PERPLEXITY, _STEPS = 30.0, 400

#: Landmarks between which another row is placed.
_BESIDE = 3

#: Rows from which the linear view is computed.
_ROWS = 20000

#: Share of the within-class scatter that is replaced by its mean, so that it can be inverted.
_SHRINK = 0.1

#: Points beyond these percentiles are drawn at the edge.
_EDGES = (0.5, 99.5)


def draw_map(rows: Array, start: Array, seed: int = 0) -> Array:
    """Return two coordinates in [0, 1] for every row, by t-SNE of some rows; the others lie beside their nearest ones.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_components)
        Rows in the learned space.
    start : ndarray of shape (n_samples, 2)
        Where to begin, so that groups that are far apart there stay apart.
    seed : int
        Of the choice of landmarks.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = np.repeat(np.eye(3), 20, axis=0) + 0.05 * rng.normal(size=(60, 3))
    >>> draw_map(rows, rows[:, :2]).shape
    (60, 2)
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    n, rng = len(rows), np.random.default_rng(seed)
    chosen = np.sort(rng.permutation(n)[:_LANDMARKS])
    if len(chosen) < 5:
        return fit_frame(start)
    points, begin = rows[chosen].astype(np.float32), start[chosen].astype(np.float32)
    begin = 1e-2 * (begin - begin.mean(axis=0)) / max(float(begin.std()), 1e-9)
    perplexity = min(_PERPLEXITY, (len(chosen) - 1) / 3)
    progress.advance("drawing the map", 0, 1)
    with threadpool_limits(1):  # there is too little work to share
        layout = TSNE(perplexity=perplexity, init=begin, max_iter=_STEPS, random_state=seed, n_jobs=1)
        flat = layout.fit_transform(points)
    progress.advance("drawing the map", 1, 1)
    out = np.empty((n, 2), dtype=np.float32)
    out[chosen] = flat
    others = np.setdiff1d(np.arange(n), chosen)
    if len(others):
        out[others] = _place_beside(rows[others].astype(np.float32), points, flat, rng)
    return fit_frame(out)


def _place_beside(rows: Array, points: Array, flat: Array, rng: np.random.Generator) -> Array:
    """Place rows between their nearest landmarks, spread a little so that they do not hide each other."""
    norms = (rows * rows).sum(axis=1)[:, None] + (points * points).sum(axis=1)
    far = np.maximum(norms - 2.0 * rows @ points.T, 0.0)
    near = np.argpartition(far, _BESIDE - 1, axis=1)[:, :_BESIDE]
    closeness = 1.0 / (np.take_along_axis(far, near, axis=1) + 1e-12)
    closeness /= closeness.sum(axis=1, keepdims=True)
    middle = (closeness[:, :, None] * flat[near]).sum(axis=1)
    spread = np.abs(flat[near] - middle[:, None]).mean(axis=(1, 2))
    found: Array = middle + 0.5 * spread[:, None] * rng.normal(size=(len(rows), 2))
    return found


def separate_classes(rows: Array, codes: Codes, weights: Array, seed: int = 0) -> Array:
    """Return two coordinates for every row: the linear view in which classes lie farthest apart.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_components)
        Rows in the learned space.
    codes : ndarray of int64 of shape (n_samples,)
        Classes.
    weights : ndarray of shape (n_samples,)
        How much each class is trusted.
    seed : int
        Of the sample, and of the second coordinate where there is only one dimension.

    Notes
    -----
    Fisher's discriminant directions; with two classes there is one of them, and the second coordinate is the direction
    of largest variance besides it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> codes = np.repeat([0, 1, 2], 50)
    >>> rows = 5 * np.eye(3)[codes] + rng.normal(size=(150, 3))
    >>> separate_classes(rows, codes, np.ones(150)).shape
    (150, 2)
    """
    rng = np.random.default_rng(seed)
    some = np.arange(len(rows)) if len(rows) <= _ROWS else np.sort(rng.permutation(len(rows))[:_ROWS])
    directions = _directions(rows[some].astype(np.float64), codes[some], weights[some])
    flat = rows @ directions
    if flat.shape[1] < 2:
        flat = np.column_stack([flat, rng.uniform(size=len(rows))])
    return flat


def fit_frame(flat: Array) -> Array:
    """Scale coordinates to [0, 1]; the few that are far out are drawn at the edge.

    Examples
    --------
    >>> fit_frame(np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0]]))[:, 0].round(2).tolist()
    [0.0, 0.5, 1.0]
    """
    low, high = np.percentile(flat, _EDGES, axis=0)
    return np.clip((flat - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)


def _directions(rows: Array, codes: Codes, weights: Array) -> Array:
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
    # Every class counts alike, so that a frequent one does not hide a rare one.
    between = (means - means.mean(axis=0)) @ white
    best = np.linalg.svd(between, full_matrices=False)[2]
    n_found = min(2, n_classes - 1, len(best))
    found = best[:n_found].T
    if n_found < 2 and rows.shape[1] > 1:
        rest = (rows - rows.mean(axis=0)) @ white
        rest -= (rest @ found) @ found.T
        found = np.column_stack([found, np.linalg.svd(rest.T @ rest)[0][:, :1]])
    return white @ found


def choose_rows(is_suspect: NDArray[np.bool_], order: Index, most: int, seed: int = 0) -> Index:
    """Choose rows to draw: the most doubtful suspects, up to a third, and a uniform sample of the others, shuffled."""
    suspects = order[: min(int(is_suspect.sum()), most // 3)]
    rng = np.random.default_rng(seed)
    others = rng.permutation(np.flatnonzero(~is_suspect))[: most - len(suspects)]
    return rng.permutation(np.concatenate([suspects, others]))
