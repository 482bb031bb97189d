"""Robust-kNN as printed (Algorithm 5): drop the least plausible rows, vote among the nearest of the rest."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from nearkin.accelerator import find
from nearkin.arrays import Array, Codes, Index
from nearkin.jury.local_scaling import spread_rows
from nearkin.jury.suspects import lowest_share
from nearkin.jury.voters import rank_votes
from nearkin.learners import OnlineLearner
from nearkin.measures import DISTANCE, Measure
from nearkin.neighbors.search import BlockSearch, NeighbourSearch
from nearkin.noise import NoiseModel, estimate_noise_rate
from nearkin.stored import ArrayOf, Count, Maybe, Part, stored

__all__ = ["RobustKNN", "estimate_rate", "leave_one_out_votes", "vote"]

#: Share of a vote that decides between classes with equal votes: the nearest neighbour among them wins.
_TIE = 1e-9

#: Most rows whose neighbours vote on the noise rate.
_VOTED = 5000

#: Most numbers of a sparse matrix that are made dense to estimate the rate.
_DENSE = 1 << 24


@stored(
    learner=Part(OnlineLearner, d="d"),
    plausibility=ArrayOf("n", low=0.0, high=1.0),
    noise=Part(NoiseModel, c="c"),
    n_neighbors=Count(1),
    is_suspect=ArrayOf("n", of="flags"),
    kept=ArrayOf("k", of="codes", low=0, below="n"),
    _codes=ArrayOf("k", of="codes", low=0, below="c"),
    _weights=ArrayOf("k", low=0.0, high=1.0),
    _items=ArrayOf("k", None),
    _item_codes=Maybe(ArrayOf("k", of="codes", low=0)),
)
class RobustKNN:
    """Algorithm 5 with a fitted learner.

    Sort the rows by weight, drop the lowest `noise_rate` share, vote among the k nearest of the rest with the weights
    as votes. A row of plausibility 1 is never dropped, so the order of such rows does not matter.

    Parameters
    ----------
    learner : OnlineLearner
        Fitted.
    X : array-like or CSR matrix of shape (n_samples, n_features)
        Training rows as the learner takes them.
    labels, codes : ndarray of shape (n_samples,)
        Their labels as given, and as whole numbers.
    plausibility : ndarray of shape (n_samples,)
        Weights of the rows.
    noise : NoiseModel
        Its rate is the share to drop.
    n_neighbors : int
        Neighbours that vote.
    is_weighted : bool
        Whether the weights count in the vote; otherwise all kept rows count alike.

    Examples
    --------
    >>> from nearkin.learners import RobustLODML
    >>> X, y = np.array([[0.0], [0.1], [0.2], [3.0], [3.1], [3.2]]), np.array([0, 0, 1, 1, 1, 1])  # the third is wrong
    >>> learner = RobustLODML(random_state=0).fit(X, y)
    >>> knn = RobustKNN(learner, X, y, y, learner.plausibility_, NoiseModel(1 / 6, 2), 2, is_weighted=True)
    >>> knn.kept.tolist(), knn.predict_proba(np.array([[0.25]])).round(2).tolist()
    ([0, 1, 3, 4, 5], [[1.0, 0.0]])
    """

    # The index over the kept rows is made again after loading.
    _search: Any = None

    def __init__(
        self, learner: OnlineLearner, X: ArrayLike, labels: NDArray[Any], codes: Codes, plausibility: Array,
        noise: NoiseModel, n_neighbors: int, *, is_weighted: bool,
    ):  # fmt: skip
        self.learner, self.plausibility, self.noise, self.n_neighbors = learner, plausibility, noise, n_neighbors
        self.is_suspect = lowest_share(plausibility, noise.rate) & (plausibility < 1.0)
        kept = self.kept = np.flatnonzero(~self.is_suspect)
        self._codes = codes[kept]
        self._weights = plausibility[kept] if is_weighted else np.ones(len(kept))
        has_one_space = learner.state_.parameter.has_one_space
        self._items = (learner.map_items(X) if has_one_space else learner.map_blocks(X, np.asarray))[kept]
        numbering, owner = learner.state_.labels, type(learner).__name__
        self._item_codes = None if has_one_space else numbering.encode(labels, owner, grow=False)[kept]
        self._search = self._index()

    def predict_proba(self, X: ArrayLike) -> Array:
        """Share of the votes of each class."""
        _, index = self._nearest(X, self.n_neighbors)
        return vote(self._codes[index], self._weights[index], self.noise.n_classes)

    def kneighbors(self, X: ArrayLike, k: int) -> tuple[Array, Index]:
        """Distances or similarities of the nearest kept rows, and their numbers in the training data."""
        values, index = self._nearest(X, k)
        return values, self.kept[index]

    def embed(self, X: ArrayLike) -> Array:
        """Rows in the learned space."""
        return np.asarray(self.learner.transform(X))

    def _nearest(self, X: ArrayLike, k: int) -> tuple[Array, NDArray[np.intp]]:
        if self._search is None:  # after loading
            self._search = self._index()
        is_mapped = self._item_codes is None
        queries = self.learner.map_queries(X) if is_mapped else self.learner.map_blocks(X, np.asarray)
        return self._search.query(queries, min(k, len(self._items)))

    def _index(self) -> Any:
        if self._item_codes is None:
            return search_on(self.learner, self._items, self.learner.measure)
        scores = self.learner.state_.parameter.item_scores
        return BlockSearch(self._items, self._item_codes, scores, self.learner.measure)


def search_on(learner: OnlineLearner, items: Array, measure: Measure) -> Any:
    """Return a search among items where the learner learns: on the processor or on its device."""
    if learner.device == "cpu":
        return NeighbourSearch(items, measure)
    from nearkin.accelerator.device_search import DeviceSearch

    return DeviceSearch(items, measure, find(learner.device, "RobustKNeighborsClassifier"))


def estimate_rate(learner: OnlineLearner, X: Any, codes: Codes, n_classes: int) -> float:
    """Estimate the share of wrong labels from neighbours before any metric was learned, of at most 5,000 rows."""
    if sparse.issparse(X):  # dense rows are needed: as many as fit into a bounded block
        some = spread_rows(len(codes), max(1000, _DENSE // X.shape[1]))
        X, codes = X[some], codes[some]
    which = spread_rows(len(codes), _VOTED)
    rows = learner.scaling_.apply(X)
    votes = leave_one_out_votes(rows, codes, n_classes, which=which, search=partial(search_on, learner))
    return estimate_noise_rate(votes, codes[which])


def leave_one_out_votes(
    rows: Array, codes: Codes, n_classes: int, *, which: Index | None = None, n_neighbors: int = 60,
    bandwidth: float = 8.0, search: Callable[[Array, Measure], Any] = NeighbourSearch,
) -> Array:  # fmt: skip
    """Count the votes of the nearest other rows by Euclidean distance on some rows, with weights that fall by rank.

    ``search`` makes an index with ``query``; for ``bandwidth`` see `nearkin.jury.voters.rank_votes`.
    """
    which = np.arange(len(rows)) if which is None else which
    k = min(n_neighbors, len(rows) - 1)
    _, index = search(rows, DISTANCE).query(rows[which], k + 1)
    # Drop the row itself; among equal rows it may come later, or not at all, and then the farthest goes.
    others = index != which[:, None]
    others[others.all(axis=1), -1] = False
    index = index[others].reshape(len(which), k)
    return rank_votes(index, codes, np.ones(len(rows)), n_classes, bandwidth)


def vote(codes: Codes, weights: Array, n_classes: int) -> Array:
    """Count the votes of neighbours (Algorithm 5, step 3.2).

    Parameters
    ----------
    codes : ndarray of shape (n_queries, k)
        Class of each neighbour, nearest first.
    weights : ndarray of shape (n_queries, k)
        Weight of each neighbour's vote, positive.
    n_classes : int
        Number of classes.

    Returns
    -------
    ndarray of shape (n_queries, n_classes)
        Rows sum to 1. Nearness breaks ties, in the ninth digit.

    Examples
    --------
    >>> shares = vote(np.array([[1, 0]]), np.array([[1.0, 1.0]]), 2)
    >>> int(shares.argmax()), shares.round(6).tolist()
    (1, [[0.5, 0.5]])
    """
    n, k = codes.shape
    largest = weights.max(axis=1, keepdims=True)
    relative = weights / largest + _TIE * 0.5 ** np.arange(k)
    votes = np.zeros((n, n_classes))
    np.add.at(votes, (np.arange(n)[:, None], codes), relative)
    return votes / votes.sum(axis=1, keepdims=True)
