"""A flat map of the learned space: which rows are drawn, and where."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearkin import progress
from nearkin.arrays import Array, Index

__all__ = ["choose_rows", "draw_map", "fit_frame"]

#: Rows laid out by t-SNE; the others are placed beside them.
_LANDMARKS = 600
_PERPLEXITY, _STEPS = 30.0, 400

#: Landmarks between which another row is placed.
_BESIDE = 3

#: Points beyond these percentiles are drawn at the edge.
_EDGES = (0.5, 99.5)


def draw_map(rows: Array, seed: int = 0) -> Array:
    """Return two coordinates in [0, 1] for every row, by t-SNE of some rows; the others lie beside their nearest ones.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> draw_map(np.repeat(np.eye(3), 20, axis=0) + 0.05 * rng.normal(size=(60, 3))).shape
    (60, 2)
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    n, rng = len(rows), np.random.default_rng(seed)
    chosen = np.sort(rng.permutation(n)[:_LANDMARKS])
    points, perplexity = rows[chosen].astype(np.float32), min(_PERPLEXITY, (len(chosen) - 1) / 3)
    # PCA needs two columns and some spread; without them a random start does.
    init = "pca" if min(points.shape) > 1 and points.std() > 0.0 else "random"
    progress.advance("drawing the map", 0, 1)
    with threadpool_limits(1):  # there is too little work to share
        layout = TSNE(perplexity=perplexity, init=init, max_iter=_STEPS, random_state=seed, n_jobs=1)
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


def fit_frame(flat: Array) -> Array:
    """Scale coordinates to [0, 1]; the few that are far out are drawn at the edge.

    Examples
    --------
    >>> fit_frame(np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0]]))[:, 0].round(2).tolist()
    [0.0, 0.5, 1.0]
    """
    low, high = np.percentile(flat, _EDGES, axis=0)
    return np.clip((flat - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)


def choose_rows(is_suspect: NDArray[np.bool_], order: Index, most: int, seed: int = 0) -> Index:
    """Choose rows to draw: the most doubtful suspects, up to a third, and a uniform sample of the others, shuffled."""
    suspects = order[: min(int(is_suspect.sum()), most // 3)]
    rng = np.random.default_rng(seed)
    others = rng.permutation(np.flatnonzero(~is_suspect))[: most - len(suspects)]
    return rng.permutation(np.concatenate([suspects, others]))
