"""Nearest neighbours under a learned measure: on scikit-learn's search where there is one map, in blocks otherwise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from nearkin.measures import Measure

__all__ = ["BlockSearch", "NeighbourSearch"]

Array = NDArray[np.floating]

#: Most scores held at once, and most items that they belong to.
_TABLE = 1 << 22
_ITEMS = 1 << 14


class NeighbourSearch:
    """Index over mapped items.

    Distances are searched as they are. For similarities an additional coordinate turns the largest inner product into
    the smallest distance: with ``y~ = (y, sqrt(R^2 - |y|^2))`` and ``q~ = (q, 0)``, ``|q~ - y~|^2 = |q|^2 + R^2 - 2
    q'y``, exactly, and also when the two sides are mapped differently.

    Parameters
    ----------
    items : ndarray of shape (n_items, n_components)
        Mapped by `map_items` of a learner.
    measure : Measure
        Distance or similarity.

    Examples
    --------
    >>> from nearkin.measures import SIMILARITY
    >>> search = NeighbourSearch(np.array([[1.0, 0.0], [0.0, 3.0]]), SIMILARITY)
    >>> values, index = search.query(np.array([[1.0, 1.0]]), 2)
    >>> index.tolist(), values.round(6).tolist()
    ([[1, 0]], [[3.0, 1.0]])
    """

    def __init__(self, items: Array, measure: Measure):
        self.items = items
        self.measure = measure
        indexed = items
        if not measure.is_distance:
            norms = (items * items).sum(axis=1)
            missing = np.sqrt(np.maximum(norms.max(initial=0.0) - norms, 0.0))
            indexed = np.column_stack([items, missing])
        self._index = NearestNeighbors().fit(indexed)

    def query(self, queries: Array, k: int) -> tuple[Array, NDArray[np.intp]]:
        """Return distances or similarities to the k nearest items of every mapped query, and which these are."""
        if self.measure.is_distance:
            values, index = self._index.kneighbors(queries, k)
            return values, index
        padded = np.column_stack([queries, np.zeros(len(queries), dtype=queries.dtype)])
        index = self._index.kneighbors(padded, k, return_distance=False)
        values = np.einsum("ij,ikj->ik", queries, self.items[index])
        order = np.argsort(-values, axis=1, kind="stable")
        return np.take_along_axis(values, order, axis=1), np.take_along_axis(index, order, axis=1)


class BlockSearch:
    """Search for measures without one map: all scores, a block of queries with a block of items at a time.

    Parameters
    ----------
    items : ndarray of shape (n_items, n_features)
        Scaled rows.
    codes : ndarray of int64 of shape (n_items,)
        Class of each item as the learner numbers it.
    item_scores : callable
        ``(queries, items, codes) -> scores`` of all pairs, larger is closer.
    measure : Measure
        Distance, whose scores are minus the squares, or similarity.

    Examples
    --------
    >>> from nearkin.measures import SIMILARITY
    >>> search = BlockSearch(np.array([[1.0], [3.0]]), np.array([0, 1]), lambda q, y, codes: q @ y.T, SIMILARITY)
    >>> values, index = search.query(np.array([[2.0]]), 2)
    >>> index.tolist(), values.tolist()
    ([[1, 0]], [[6.0, 2.0]])
    """

    def __init__(
        self,
        items: Array,
        codes: NDArray[np.int64],
        item_scores: Callable[[Array, Array, NDArray[np.int64]], Array],
        measure: Measure,
    ):
        self.items = items
        self.codes = codes
        self.item_scores = item_scores
        self.measure = measure

    def query(self, queries: Array, k: int) -> tuple[Array, NDArray[np.intp]]:
        """Return distances or similarities to the k nearest items of every scaled query, and which these are."""
        step = max(1, _TABLE // min(_ITEMS, len(self.items)))
        found = [self._nearest(queries[start : start + step], k) for start in range(0, len(queries), step)]
        values = np.concatenate([values for values, _ in found])
        index = np.concatenate([index for _, index in found])
        return (np.sqrt(np.maximum(-values, 0.0)) if self.measure.is_distance else values), index

    def _nearest(self, queries: Array, k: int) -> tuple[Array, NDArray[np.intp]]:
        """Best scores and their items, block after block of items."""
        best = np.empty((len(queries), 0), queries.dtype)
        which = np.empty((len(queries), 0), np.intp)
        for start in range(0, len(self.items), _ITEMS):
            part = slice(start, start + _ITEMS)
            scores = self.item_scores(queries, self.items[part], self.codes[part])
            numbers = np.broadcast_to(np.arange(start, start + scores.shape[1]), scores.shape)
            best = np.concatenate([best, scores], axis=1)
            which = np.concatenate([which, numbers], axis=1)
            if best.shape[1] > k:
                at = np.argpartition(-best, k - 1, axis=1)[:, :k]
                best, which = np.take_along_axis(best, at, axis=1), np.take_along_axis(which, at, axis=1)
        order = np.lexsort((which, -best), axis=1)
        return np.take_along_axis(best, order, axis=1), np.take_along_axis(which, order, axis=1)
