"""Nearest neighbours under a learned measure, on scikit-learn's search."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from nearkin.measures import Measure

__all__ = ["NeighbourSearch"]

Array = NDArray[np.floating]


class NeighbourSearch:
    """Index over mapped items.

    Distances are searched as they are. For similarities one coordinate more makes the largest inner product the
    smallest distance: with ``y~ = (y, sqrt(R^2 - |y|^2))`` and ``q~ = (q, 0)``, ``|q~ - y~|^2 = |q|^2 + R^2 - 2 q'y``,
    exactly, and also when the two sides are mapped differently.

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
        """The k nearest items of every query, nearest first: distances, or similarities.

        ``queries`` are mapped by `map_queries` of the learner.
        """
        if self.measure.is_distance:
            values, index = self._index.kneighbors(queries, k)
            return values, index
        padded = np.column_stack([queries, np.zeros(len(queries), dtype=queries.dtype)])
        index = self._index.kneighbors(padded, k, return_distance=False)
        values = np.einsum("ij,ikj->ik", queries, self.items[index])
        order = np.argsort(-values, axis=1, kind="stable")
        return np.take_along_axis(values, order, axis=1), np.take_along_axis(index, order, axis=1)
