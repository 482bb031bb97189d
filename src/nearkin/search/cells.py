"""Approximate search by faiss: cells around centroids, of which a few are looked into."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.measures import Measure

__all__ = ["FaissCells", "has_faiss", "require_faiss"]

Array = NDArray[np.floating]

#: Rows per centroid in training: fewer are too few to find it, more change nothing.
_FEWEST, _MOST = 39, 256


def require_faiss() -> Any:
    """The module, or one line that says how to get it."""
    try:
        import faiss
    except ImportError:
        raise ImportError("faiss is not installed; use pip install 'nearkin[faiss]', or engine='exact'.") from None
    return faiss


def has_faiss() -> bool:
    """Whether it can be used."""
    try:
        require_faiss()
    except ImportError:
        return False
    return True


class FaissCells:
    """Rows in cells (IVF-Flat); row numbers are places.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        Mapped items.
    measure : Measure
        Distance or similarity (inner product).
    centroids : ndarray of shape (n_cells, d) or None
        From an earlier build; None finds them by k-means.
    seed : int
        Of the k-means.
    """

    def __init__(self, rows: Array, measure: Measure, centroids: Array | None, seed: int):
        self._faiss = faiss = require_faiss()
        self.measure = measure
        rows = np.ascontiguousarray(rows, dtype=np.float32)
        d = rows.shape[1]
        self.centroids = _centroids(faiss, rows, seed) if centroids is None else centroids
        metric = faiss.METRIC_L2 if measure.is_distance else faiss.METRIC_INNER_PRODUCT
        quantizer = faiss.IndexFlatL2(d) if measure.is_distance else faiss.IndexFlatIP(d)
        quantizer.add(self.centroids)
        self._quantizer = quantizer  # faiss does not keep it alive
        self._index = faiss.IndexIVFFlat(quantizer, d, len(self.centroids), metric)
        self.n_probe = 1
        self.add(rows)

    def add(self, rows: Array) -> None:
        """More rows, numbered on."""
        self._index.add(np.ascontiguousarray(rows, dtype=np.float32))

    def query(self, queries: Array, k: int, keep: NDArray[np.bool_] | None) -> tuple[Array, NDArray[np.int64]]:
        """Distances or similarities and rows, -1 where the cells that were looked into hold too few."""
        faiss = self._faiss
        options: dict[str, Any] = {"nprobe": self.n_probe}
        if keep is not None:
            # Where fewer rows count, the best ones lie farther out.
            options["nprobe"] = min(len(self.centroids), math.ceil(self.n_probe / keep.mean()))
            bits = np.packbits(keep, bitorder="little")
            options["sel"] = faiss.IDSelectorBitmap(bits)
        found = faiss.SearchParametersIVF(**options)
        values, rows = self._index.search(np.ascontiguousarray(queries, dtype=np.float32), k, params=found)
        return (np.sqrt(np.maximum(values, 0.0)) if self.measure.is_distance else values), rows


def _centroids(faiss: Any, rows: Array, seed: int) -> Array:
    n = len(rows)
    n_cells = max(1, min(int(4 * np.sqrt(n)), n // _FEWEST))
    sample = rows
    if n > _MOST * n_cells:
        sample = rows[np.sort(np.random.default_rng(seed).choice(n, _MOST * n_cells, replace=False))]
    means = faiss.Kmeans(rows.shape[1], n_cells, niter=10, seed=seed + 1, min_points_per_centroid=1)
    means.train(np.ascontiguousarray(sample))
    return np.array(means.centroids, dtype=np.float32)
