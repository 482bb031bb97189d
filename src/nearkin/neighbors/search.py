"""Nearest neighbours under a learned measure: on scikit-learn's search where there is one map, in blocks otherwise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array, Codes
from nearkin.jury.local_scaling import search_from_afar
from nearkin.measures import Measure

__all__ = ["BlockSearch", "NeighbourSearch"]

#: Squared length of a query, as a multiple of the largest among the items, beyond which distances hardly differ.
_FAR = 1e10

#: Most scores held at once, and most items that they belong to.
_TABLE = 1 << 22
_ITEMS = 1 << 14


class NeighbourSearch:
    """Index over mapped items.

    Distances are searched as they are. For similarities an additional coordinate turns the largest inner product into
    the smallest distance: with ``y~ = (y, sqrt(R^2 - |y|^2))`` and ``q~ = (q, 0)``, ``|q~ - y~|^2 = |q|^2 + R^2 - 2
    q'y``, exactly, and also when the two sides are mapped differently.
    """

    def __init__(self, items: Array, measure: Measure):
        from sklearn.neighbors import NearestNeighbors  # brings a third of scikit-learn with it

        self.items, self.measure, indexed = items, measure, items
        norms = (items * items).sum(axis=1)
        self._largest = norms.max(initial=0.0)
        if not measure.is_distance:
            missing = np.sqrt(np.maximum(self._largest - norms, 0.0))
            indexed = np.column_stack([items, missing])
        self._index = NearestNeighbors().fit(indexed)

    def query(self, queries: Array, k: int) -> tuple[Array, NDArray[np.intp]]:
        """Return distances or similarities to the k nearest items of every mapped query, and which these are."""
        if self.measure.is_distance:
            values, index = self._index.kneighbors(queries, k)
            far = np.flatnonzero(~((queries * queries).sum(axis=1) <= _FAR * self._largest))
            if len(far):
                index[far] = search_from_afar(queries[far], self.items, k)
                values[far] = np.linalg.norm(queries[far, None] - self.items[index[far]], axis=2)
            return values, index
        padded = np.column_stack([queries, np.zeros(len(queries), dtype=queries.dtype)])
        index = self._index.kneighbors(padded, k, return_distance=False)
        values = np.einsum("ij,ikj->ik", queries, self.items[index])
        order = np.argsort(-values, axis=1, kind="stable")
        return np.take_along_axis(values, order, axis=1), np.take_along_axis(index, order, axis=1)


class BlockSearch:
    """Search for measures without one map: all scores, a block of queries with a block of items at a time.

    Items are scaled rows, their codes the classes as the learner numbers them. ``item_scores(queries, items, codes)``
    gives the scores of all pairs, larger is closer; those of a distance are minus the squares.
    """

    def __init__(
        self, items: Array, codes: Codes, item_scores: Callable[[Array, Array, Codes], Array], measure: Measure
    ):
        self.items, self.codes, self.item_scores, self.measure = items, codes, item_scores, measure

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
