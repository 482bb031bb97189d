"""Neighbours by locally scaled distances: exact, in tiles of bounded memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearkin import progress
from nearkin.kernels.threads import one_blas_thread

__all__ = ["LocalNeighbours"]

Array = NDArray[np.floating]

#: Queries and items of one tile, which fits into the second cache.
_QUERIES = 256
_ITEMS = 1024

#: Least scale of a row, as a share of the median one: rows with many equals would be next to everything.
_LEAST = 1e-3


class LocalNeighbours:
    """Neighbours of rows by ``d2(x, z) / s(z)`` where ``s(z)`` is the distance of z to its own 7th neighbour.

    A row in a sparse region is then no worse a neighbour than one in a dense region. Labels play no part, so wrong
    ones cannot hurt. (The scale of x would not change the order, so it is left out.)

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_features)
        Scaled, or mapped by a learner.
    n_scale : int, default=7
        Which neighbour gives the scale.

    Attributes
    ----------
    scale : ndarray of shape (n_samples,)
        ``s`` of every row.

    Notes
    -----
    Zelnik-Manor and Perona (Self-tuning spectral clustering, NIPS 2004) introduced the scale by the 7th neighbour. All
    pairs are compared, ``O(n^2 d)`` by matrix products, and no more than a tile of them is held at once.

    Examples
    --------
    >>> rows = np.array([[0.0], [0.1], [0.2], [3.0], [4.0], [5.0]])
    >>> near = LocalNeighbours(rows, n_scale=1)
    >>> near.scale.round(1).tolist()
    [0.1, 0.1, 0.1, 1.0, 1.0, 1.0]
    >>> near.query(np.array([[1.2]]), 2)[0].tolist()   # 3.0 is farther than 0.2, but its neighbours are farther apart
    [3, 4]
    """

    def __init__(self, rows: Array, n_scale: int = 7):
        self._center = rows.mean(axis=0, dtype=np.float64).astype(rows.dtype)
        self._rows = np.ascontiguousarray(rows - self._center)
        self._norms = (self._rows * self._rows).sum(axis=1)
        n = len(rows)
        far = self._search(self._rows, min(n_scale, n - 1), np.ones(n, rows.dtype), np.arange(n))[0][:, -1]
        self.scale = np.sqrt(far)
        some = self.scale[self.scale > 0]
        least = _LEAST * (np.median(some) if len(some) else 1.0)
        self._factors = (1.0 / np.maximum(self.scale, least)).astype(rows.dtype)

    def among(self, k: int) -> NDArray[np.int64]:
        """The k nearest others of every row, the nearest first, of shape (n_samples, k)."""
        n = len(self._rows)
        return self._search(self._rows, min(k, n - 1), self._factors, np.arange(n))[1]

    def query(self, queries: Array, k: int) -> NDArray[np.int64]:
        """The k nearest rows of every query, the nearest first, of shape (n_queries, k)."""
        shifted = np.ascontiguousarray(queries - self._center, dtype=self._rows.dtype)
        return self._search(shifted, min(k, len(self._rows)), self._factors, np.full(len(queries), -1))[1]

    def _search(
        self, queries: Array, k: int, factors: Array, own: NDArray[np.int64]
    ) -> tuple[Array, NDArray[np.int64]]:
        from nearkin.kernels.nearest import offer, settle

        values = np.full((len(queries), k), np.inf, self._rows.dtype)
        found = np.full((len(queries), k), len(self._rows), np.int64)
        with one_blas_thread():
            for start in range(0, len(queries), _QUERIES):
                part = slice(start, start + _QUERIES)
                norms = (queries[part] * queries[part]).sum(axis=1)
                for first in range(0, len(self._rows), _ITEMS):
                    items = slice(first, first + _ITEMS)
                    products = queries[part] @ self._rows[items].T
                    offer(
                        products, norms, self._norms[items], factors[items], first, own[part], values[part], found[part]
                    )
                progress.advance("comparing rows", min(start + _QUERIES, len(queries)), len(queries))
            settle(values, found)
        return values, found
