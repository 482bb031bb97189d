"""Two engines of `Index`: all rows by matrix products, or faiss, which looks into a few cells around centroids."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nearkin.arrays import Array, Index, Mask
from nearkin.measures import SIMILARITY
from nearkin.neighbors import BlockSearch

__all__ = ["FaissCells", "add_lengths", "require_faiss", "search_exactly"]

#: Training rows per centroid: fewer do not determine it, more change nothing.
_FEWEST, _MOST = 39, 256


# ---------------------------------------------------------------------- exact search


def add_lengths(rows: Array, centre: Array) -> Array:
    """Return rows whose inner product ranks them by distance.

    With ``y~ = (y - c, -|y - c|^2 / 2)`` and ``q~ = (q - c, 1)``, ``q~' y~`` falls as the distance grows.
    """
    rows = rows - centre
    return np.column_stack([rows, -0.5 * np.einsum("ij,ij->i", rows, rows)])


def search_exactly(rows: Array, centre: Array | None, queries: Array, k: int, keep: Mask) -> tuple[Array, Index]:
    """Return the k best rows to keep: by inner product, or by distance if rows come from `add_lengths`."""
    if centre is None:
        return BlockSearch(rows, keep.astype(np.int64), _score_kept, SIMILARITY).query(queries, k)
    queries = np.column_stack([queries - centre, np.ones(len(queries), queries.dtype)])
    _, at = BlockSearch(rows, keep.astype(np.int64), _score_kept, SIMILARITY).query(queries, k)
    # From the differences of the few found: the inner product loses the digits of small distances.
    values = np.sqrt(np.square(queries[:, None, :-1] - rows[at, :-1]).sum(axis=2))
    order = np.argsort(values, axis=1, kind="stable")
    return np.take_along_axis(values, order, axis=1), np.take_along_axis(at, order, axis=1)


def _score_kept(queries: Array, items: Array, keep: Index) -> Array:
    """Return inner products, minus infinity for rows that are not kept."""
    scores = queries @ items.T
    if not keep.all():
        scores[:, keep == 0] = -np.inf
    return scores


# ---------------------------------------------------------------------- faiss


def require_faiss() -> Any:
    """Return the module faiss, or raise an error that says how to get it."""
    try:
        import faiss
    except ImportError:
        raise ImportError("faiss is not installed; use pip install 'nearkin[faiss]', or engine='exact'.") from None
    return faiss


class FaissCells:
    """Rows in cells around centroids (IVF-Flat), searched by distance or by inner product.

    Without centroids of an earlier build, k-means with the given seed finds them.
    """

    def __init__(self, rows: Array, is_distance: bool, centroids: Array | None, seed: int, n_probe: int):
        self._faiss = faiss = require_faiss()
        self.is_distance = is_distance
        rows = np.ascontiguousarray(rows, dtype=np.float32)
        d = rows.shape[1]
        self.centroids = _find_centroids(faiss, rows, seed) if centroids is None else centroids
        metric = faiss.METRIC_L2 if is_distance else faiss.METRIC_INNER_PRODUCT
        self._quantizer = faiss.IndexFlatL2(d) if is_distance else faiss.IndexFlatIP(d)  # faiss does not keep it alive
        self._quantizer.add(self.centroids)
        self._index = faiss.IndexIVFFlat(self._quantizer, d, len(self.centroids), metric)
        self.n_probe = n_probe
        self.add(rows)

    def add(self, rows: Array) -> None:
        """Add rows, numbered on."""
        self._index.add(np.ascontiguousarray(rows, dtype=np.float32))

    def query(self, queries: Array, k: int, keep: Mask | None) -> tuple[Array, Index]:
        """Return values and rows of the k best found, -1 where the cells visited hold too few."""
        options: dict[str, Any] = {"nprobe": self.n_probe}
        if keep is not None:
            # Where fewer rows count, the best ones lie farther out.
            options["nprobe"] = min(len(self.centroids), math.ceil(self.n_probe / keep.mean()))
            bits = np.packbits(keep, bitorder="little")
            options["sel"] = self._faiss.IDSelectorBitmap(bits)
        parameters = self._faiss.SearchParametersIVF(**options)
        values, rows = self._index.search(np.ascontiguousarray(queries, dtype=np.float32), k, params=parameters)
        return (np.sqrt(np.maximum(values, 0.0)) if self.is_distance else values), rows

    def reach_recall(self, wanted: float, queries: Array, best: Index, own: Index) -> float:
        """Visit more cells, at most half of them, until enough of the best rows are found; return the recall.

        ``own[i]`` is the row that query i is made of, or -1: a row that finds itself proves nothing.
        """
        counts = best != own[:, None]
        while True:
            _, found = self.query(queries, best.shape[1], None)
            hits = (best[:, :, None] == found[:, None, :]).any(axis=2)
            recall = float(hits[counts].mean()) if counts.any() else 1.0
            if recall >= wanted or 2 * self.n_probe > max(1, len(self.centroids) // 2):
                return recall
            self.n_probe *= 2


def _find_centroids(faiss: Any, rows: Array, seed: int) -> Array:
    n = len(rows)
    n_cells = max(1, min(int(4 * np.sqrt(n)), n // _FEWEST))
    sample = rows
    if n > _MOST * n_cells:
        sample = rows[np.sort(np.random.default_rng(seed).choice(n, _MOST * n_cells, replace=False))]
    means = faiss.Kmeans(rows.shape[1], n_cells, niter=10, seed=seed + 1, min_points_per_centroid=1)
    means.train(np.ascontiguousarray(sample))
    return np.array(means.centroids, dtype=np.float32)
