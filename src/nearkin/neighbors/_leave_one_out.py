"""What the neighbours of training rows say, each row itself left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.measures import DISTANCE, Measure
from nearkin.neighbors.robust_knn import vote
from nearkin.neighbors.search import NeighbourSearch

__all__ = ["leave_one_out_votes"]

Array = NDArray[np.floating]


def leave_one_out_votes(
    rows: Array,
    codes: NDArray[np.int64],
    n_classes: int,
    *,
    which: NDArray[np.integer] | None = None,
    n_neighbors: int = 60,
    bandwidth: float = 8.0,
    search: Callable[[Array, Measure], Any] = NeighbourSearch,
) -> Array:
    """Votes of Euclidean neighbours, the j-th nearest with weight ``exp(-j / bandwidth)``.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_features)
        Scaled rows.
    codes : ndarray of shape (n_samples,)
        Class of each row as a whole number below ``n_classes``.
    n_classes : int
        Number of classes.
    which : ndarray of int or None
        Rows to ask for; None for all.
    n_neighbors : int, default=60
        Neighbours that are asked.
    bandwidth : float, default=8.0
        In ranks.
    search : callable, default=NeighbourSearch
        Makes an index of rows with `query`.

    Returns
    -------
    ndarray of shape (n_asked, n_classes)
        Rows sum to 1.

    Examples
    --------
    >>> rows = np.array([[0.0], [0.1], [0.3], [5.0], [5.1], [5.3]])
    >>> votes = leave_one_out_votes(rows, np.array([0, 0, 1, 1, 1, 1]), 2, n_neighbors=2)
    >>> votes.argmax(axis=1).tolist()  # the third label is contradicted by both neighbours
    [0, 0, 0, 1, 1, 1]
    """
    asked = np.arange(len(rows)) if which is None else which
    k = min(n_neighbors, len(rows) - 1)
    _, index = search(rows, DISTANCE).query(rows[asked], k + 1)
    # Drop the row itself; among equal rows it may come later, or not at all, and then the farthest goes.
    others = index != asked[:, None]
    others[others.all(axis=1), -1] = False
    index = index[others].reshape(len(asked), k)
    weights = np.broadcast_to(np.exp(-np.arange(k) / bandwidth), index.shape)
    return vote(codes[index], weights, n_classes)
