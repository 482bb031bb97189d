"""Neighbours in several spaces that vote together, with weights that fall by rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Jury", "Neighbours", "rank_votes"]

Array = NDArray[np.floating]
Codes = NDArray[np.int64]

#: Neighbours that are asked, and bandwidths that are tried, in ranks.
N_ASKED = 60
BANDWIDTHS = (2.0, 4.0, 8.0, 16.0, 32.0)


class Neighbours(Protocol):
    """Rows of one space and who is near whom."""

    def among(self, k: int) -> NDArray[np.int64]:
        """The k nearest others of every row, the nearest first."""

    def query(self, queries: Array, k: int) -> NDArray[np.int64]:
        """The k nearest rows of every query, the nearest first."""


def rank_votes(index: NDArray[np.int64], codes: Codes, weights: Array, n_classes: int, bandwidth: float) -> Array:
    """Shares of the votes of neighbours, the j-th nearest with ``exp(-j / bandwidth)`` times its weight.

    Parameters
    ----------
    index : ndarray of shape (n_queries, k)
        Neighbours, the nearest first.
    codes : ndarray of shape (n_samples,)
        Class of each row that may be a neighbour.
    weights : ndarray of shape (n_samples,)
        Weight of its vote.
    n_classes : int
        Number of classes.
    bandwidth : float
        In ranks; the nearest ``bandwidth`` neighbours hold two thirds of the votes.

    Returns
    -------
    ndarray of shape (n_queries, n_classes)
        Rows sum to 1; where no neighbour has any weight, all classes have the same share.

    Examples
    --------
    >>> votes = rank_votes(np.array([[0, 1, 2]]), np.array([0, 1, 1]), np.ones(3), 2, 2.0)
    >>> votes.round(3).tolist()
    [[0.506, 0.494]]
    """
    n, k = index.shape
    counts = np.exp(-np.arange(k) / bandwidth) * weights[index]
    cells = np.arange(n)[:, None] * n_classes + codes[index]
    votes = np.bincount(cells.ravel(), counts.ravel(), n * n_classes).reshape(n, n_classes)
    total = votes.sum(axis=1, keepdims=True)
    return np.divide(votes, total, out=np.full_like(votes, 1.0 / n_classes), where=total > 0)


class Jury:
    """Neighbours of the same rows in several spaces; their votes are averaged.

    Each space covers the failures of the others: a learned one where features differ in worth, the input space where
    too little is there to learn from.

    Parameters
    ----------
    views : sequence of Neighbours
        Spaces, all with the same rows in the same order.
    codes : ndarray of int64 of shape (n_samples,)
        Labels as whole numbers below ``n_classes``.
    n_classes : int
        Number of classes.
    bandwidth : float or None, default=None
        None chooses among 2, 4, 8, 16 and 32 the one whose votes in the first space agree best with the labels as
        given. Uniform noise lowers all agreements alike, so that wrong labels do not mislead the choice; a learned
        space has seen the labels, so that the choice there would.

    Attributes
    ----------
    bandwidth : float
        As chosen.

    Examples
    --------
    >>> from nearkin.neighbors import LocalNeighbours
    >>> rows = np.array([[0.0], [0.1], [0.3], [5.0], [5.1], [5.3]])
    >>> jury = Jury([LocalNeighbours(rows)], np.array([0, 0, 1, 1, 1, 1]), 2, bandwidth=1.0)
    >>> jury.votes(np.ones(6)).argmax(axis=1).tolist()  # the third label is contradicted by its neighbours
    [0, 0, 0, 1, 1, 1]
    """

    # Neighbours of the rows themselves, which are found again when somebody asks, and not saved.
    _transient = ("_among",)
    _among: list[NDArray[np.int64]] | None = None

    def __init__(self, views: Sequence[Neighbours], codes: Codes, n_classes: int, bandwidth: float | None = None):
        self.views = list(views)
        self.codes = codes
        self.n_classes = n_classes
        self.bandwidth = self._best_bandwidth() if bandwidth is None else bandwidth

    def _best_bandwidth(self) -> float:
        ones, nearest = np.ones(len(self.codes)), self._neighbours()[0]
        agreement = [
            (rank_votes(nearest, self.codes, ones, self.n_classes, one).argmax(axis=1) == self.codes).mean()
            for one in BANDWIDTHS
        ]
        return BANDWIDTHS[int(np.argmax(agreement))]

    def join(self, view: Neighbours) -> None:
        """One more space."""
        self.views.append(view)

    def votes(self, weights: Array) -> Array:
        """What the neighbours of every row say, the row itself left out, of shape (n_samples, n_classes)."""
        return self._mean(self._neighbours(), weights)

    def votes_for(self, queries: Sequence[Array], weights: Array) -> Array:
        """What the neighbours of new rows say; ``queries`` holds them once per space."""
        found = [view.query(one, N_ASKED) for view, one in zip(self.views, queries, strict=True)]
        return self._mean(found, weights)

    def _neighbours(self) -> list[NDArray[np.int64]]:
        """Of every row in every space, found when first asked for."""
        known = self._among or []
        self._among = known + [view.among(N_ASKED) for view in self.views[len(known) :]]
        return self._among

    def _mean(self, index: Sequence[NDArray[np.int64]], weights: Array) -> Array:
        total = np.zeros((len(index[0]), self.n_classes))
        for one in index:
            total += rank_votes(one, self.codes, weights, self.n_classes, self.bandwidth)
        return total / len(index)
