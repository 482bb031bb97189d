"""Neighbours in several spaces and smooth functions of the rows that vote together on labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nearkin.noise._votes import Ask, parts

__all__ = [
    "CrossVotes",
    "Jury",
    "NeighbourVotes",
    "Neighbours",
    "Space",
    "Voter",
    "into",
    "mixed",
    "rank_votes",
    "stacked",
]

Array = NDArray[np.floating]
Codes = NDArray[np.int64]

#: Neighbours that are asked, and bandwidths that are tried, in ranks.
N_ASKED = 60
BANDWIDTHS = (2.0, 4.0, 8.0, 16.0, 32.0)


class Space(Protocol):
    """A map of scaled rows."""

    def embed(self, X: Array) -> Array:
        """Mapped rows."""


class Neighbours(Protocol):
    """Rows of one space and who is near whom."""

    def among(self, k: int, which: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """The k nearest others of every row, or of some, the nearest first."""

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


class Voter(Protocol):
    """Somebody who says which class a row belongs to."""

    def left_out(self, weights: Array) -> Ask:
        """What is said about training rows, each by all others, if their labels count as much as ``weights`` says."""

    def answers(self, queries: Array, weights: Array) -> Array:
        """What is said about new rows, of shape (n_queries, n_classes)."""


class NeighbourVotes:
    """Neighbours of a row in one space, the nearest first, with weights that fall by rank.

    Parameters
    ----------
    view : Neighbours
        Who is near whom in that space.
    codes : ndarray of int64 of shape (n_samples,)
        Labels as whole numbers below ``n_classes``.
    n_classes : int
        Number of classes.
    bandwidth : float or None, default=None
        In ranks. None chooses among 2, 4, 8, 16 and 32 the one that agrees best with the labels as given. Uniform noise
        lowers all agreements alike, so that wrong labels do not mislead the choice; a learned space has seen the
        labels, so that the choice there would.
    space : ndarray of shape (n_components, n_features), Space or None, default=None
        Map from scaled rows into the space; None for the scaled rows themselves.

    Examples
    --------
    >>> from nearkin.jury import LocalNeighbours
    >>> rows = np.array([[0.0], [0.1], [0.3], [5.0], [5.1], [5.3]])
    >>> near = NeighbourVotes(LocalNeighbours(rows), np.array([0, 0, 1, 1, 1, 1]), 2, bandwidth=1.0)
    >>> near.left_out(np.ones(6))(slice(None)).argmax(axis=1).tolist()  # the third label is contradicted
    [0, 0, 0, 1, 1, 1]
    """

    # Neighbours of the rows themselves, which are found again when somebody asks, and not saved.
    _transient = ("_among",)
    _among: NDArray[np.int64] | None = None

    def __init__(
        self,
        view: Neighbours,
        codes: Codes,
        n_classes: int,
        bandwidth: float | None = None,
        space: Array | Space | None = None,
    ):
        self.view, self.codes, self.n_classes, self.space = view, codes, n_classes, space
        self.bandwidth = self._best_bandwidth() if bandwidth is None else bandwidth

    @property
    def among(self) -> NDArray[np.int64]:
        """Neighbours of every row, found when first asked for."""
        if self._among is None:
            self._among = self.view.among(N_ASKED)
        return self._among

    def _best_bandwidth(self) -> float:
        ones, right = np.ones(len(self.codes)), np.zeros(len(BANDWIDTHS))
        for part in parts(len(self.codes), self.n_classes):
            for i, one in enumerate(BANDWIDTHS):
                shares = rank_votes(self.among[part], self.codes, ones, self.n_classes, one)
                right[i] += np.count_nonzero(shares.argmax(axis=1) == self.codes[part])
        return BANDWIDTHS[int(np.argmax(right))]

    def left_out(self, weights: Array) -> Ask:
        """Shares of the classes for each row of a part, by its neighbours."""
        return lambda part: rank_votes(self.among[part], self.codes, weights, self.n_classes, self.bandwidth)

    def answers(self, queries: Array, weights: Array) -> Array:
        """Shares of the classes for new scaled rows."""
        index = self.view.query(into(self.space, queries), N_ASKED)
        return rank_votes(index, self.codes, weights, self.n_classes, self.bandwidth)


class CrossVotes:
    """Neighbours in learned spaces, each row judged in one that was learned without its label.

    A space that has seen a wrong label may have moved the row to where its label is right.

    Parameters
    ----------
    voters : sequence of NeighbourVotes
        Neighbours in one space each.
    judge : ndarray of int64 of shape (n_samples,)
        Number of the voter that judges each training row. New rows are judged by all.

    Examples
    --------
    >>> from nearkin.jury import LocalNeighbours
    >>> rows, codes = np.array([[0.0], [0.1], [0.3], [5.0], [5.1], [5.3]]), np.array([0, 0, 1, 1, 1, 1])
    >>> near = [NeighbourVotes(LocalNeighbours(s * rows), codes, 2, 1.0, np.array([[s]])) for s in (1.0, 2.0)]
    >>> both = CrossVotes(near, np.array([0, 1, 0, 1, 0, 1]))
    >>> both.left_out(np.ones(6))(slice(None)).argmax(axis=1).tolist()
    [0, 0, 0, 1, 1, 1]
    """

    # Found again when somebody asks, and not saved.
    _transient = ("_among",)
    _among: NDArray[np.int64] | None = None

    def __init__(self, voters: Sequence[NeighbourVotes], judge: NDArray[np.int64]):
        self.voters, self.judge = list(voters), judge

    @property
    def among(self) -> NDArray[np.int64]:
        """Neighbours of every row in the space of its judge, found when first asked for."""
        if self._among is None:
            rows = [np.flatnonzero(self.judge == i) for i in range(len(self.voters))]
            near = [one.view.among(N_ASKED, some) for one, some in zip(self.voters, rows, strict=True)]
            self._among = np.concatenate(near)[np.argsort(np.concatenate(rows))]
        return self._among

    def left_out(self, weights: Array) -> Ask:
        """Shares of the classes for each row of a part, by its neighbours."""
        one = self.voters[0]
        return lambda part: rank_votes(self.among[part], one.codes, weights, one.n_classes, one.bandwidth)

    def answers(self, queries: Array, weights: Array) -> Array:
        """Shares of the classes for new scaled rows."""
        said = [one.answers(queries, weights) for one in self.voters]
        return mixed([one.__getitem__ for one in said], [1.0 / len(said)] * len(said))(slice(None))


def into(space: Array | Space | None, rows: Array) -> Array:
    """Scaled rows in a space.

    Examples
    --------
    >>> into(np.array([[1.0, 1.0]]), np.array([[2.0, 3.0]])).tolist()
    [[5.0]]
    """
    if space is None:
        return rows
    return rows @ space.T if isinstance(space, np.ndarray) else space.embed(rows)


class Jury:
    """Voters whose shares are averaged.

    Each covers the failures of the others: neighbours in a learned space where features differ in worth, in the input
    space where too little is there to learn from, smooth functions where classes overlap widely.

    Parameters
    ----------
    voters : sequence of Voter
        All of the same rows.
    shares : sequence of float
        What the word of each counts.
    codes : ndarray of int64 of shape (n_samples,)
        Labels as whole numbers below ``n_classes``.
    n_classes : int
        Number of classes.

    Examples
    --------
    >>> from nearkin.jury import LocalNeighbours
    >>> rows, codes = np.array([[0.0], [0.1], [0.3], [5.0], [5.1], [5.3]]), np.array([0, 0, 1, 1, 1, 1])
    >>> jury = Jury([NeighbourVotes(LocalNeighbours(rows), codes, 2, bandwidth=1.0)], [1.0], codes, 2)
    >>> jury.votes(np.ones(6)).argmax(axis=1).tolist()
    [0, 0, 0, 1, 1, 1]
    >>> jury.answers(np.array([[0.2]]), np.ones(6)).argmax(axis=1).tolist()
    [0]
    """

    def __init__(self, voters: Sequence[Voter], shares: Sequence[float], codes: Codes, n_classes: int):
        self.voters, self.codes, self.n_classes = list(voters), codes, n_classes
        total = float(sum(shares))
        self.shares = [float(one) / total for one in shares]

    @property
    def neighbours(self) -> list[NeighbourVotes]:
        """Neighbours in all spaces, those of the input space first."""
        found: list[NeighbourVotes] = []
        for voter in self.voters:
            if isinstance(voter, CrossVotes):
                found += voter.voters
            elif isinstance(voter, NeighbourVotes):
                found.append(voter)
        return found

    def left_out(self, weights: Array) -> Ask:
        """What is said about the rows of a part, each by all others."""
        heard = self._heard()
        return mixed([voter.left_out(weights) for _, voter in heard], [share for share, _ in heard])

    def answers(self, queries: Array, weights: Array) -> Array:
        """What is said about new scaled rows, of shape (n_queries, n_classes)."""
        heard = self._heard()
        said = [voter.answers(queries, weights) for _, voter in heard]
        return mixed([one.__getitem__ for one in said], [share for share, _ in heard])(slice(None))

    def votes(self, weights: Array) -> Array:
        """What is said about all rows at once, of shape (n_samples, n_classes)."""
        return self.left_out(weights)(slice(None))

    def _heard(self) -> list[tuple[float, Voter]]:
        return [(share, voter) for share, voter in zip(self.shares, self.voters, strict=True) if share > 0.0]


def mixed(asked: Sequence[Ask], shares: Sequence[float] | Array) -> Ask:
    """What voters say together.

    Examples
    --------
    >>> yes, no = np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]])
    >>> mixed([yes.__getitem__, no.__getitem__], [0.75, 0.25])(slice(None)).tolist()
    [[0.25, 0.75]]
    """

    def ask(part: Any) -> Array:
        total = shares[0] * asked[0](part)
        for share, one in zip(shares[1:], asked[1:], strict=True):
            total += share * one(part)
        return total

    return ask


def stacked(asked: Sequence[Ask], codes: Codes, n_classes: int) -> Array:
    """Shares of voters with which their sum comes nearest to the indicators of the labels, in squares; none negative.

    Voters must not have seen the label of the row they judge. Uniform noise shrinks what all of them say alike, so
    labels as given tell who is right more often.

    Parameters
    ----------
    asked : sequence of callable
        What each voter says about a part of the rows.
    codes : ndarray of int64 of shape (n_samples,)
        Labels as whole numbers below ``n_classes``.
    n_classes : int
        Number of classes.

    Returns
    -------
    ndarray of shape (n_voters,)
        Sums to 1; equal shares if nobody says anything of use.

    Examples
    --------
    >>> codes = np.array([0, 1, 0, 1])
    >>> knows = lambda part: np.array([[0.9, 0.1], [0.2, 0.8], [0.8, 0.2], [0.1, 0.9]])[part]
    >>> guesses = lambda part: np.array([[0.9, 0.1], [0.9, 0.1], [0.2, 0.8], [0.1, 0.9]])[part]
    >>> stacked([knows, guesses], codes, 2).round(2).tolist()
    [1.0, 0.0]
    """
    from scipy.optimize import nnls

    prior = np.bincount(codes, minlength=n_classes) / len(codes)
    gram, right = np.zeros((len(asked), len(asked))), np.zeros(len(asked))
    for part in parts(len(codes), n_classes * len(asked)):
        said = np.stack([one(part) - prior for one in asked])
        target = -np.tile(prior, (said.shape[1], 1))
        target[np.arange(said.shape[1]), codes[part]] += 1.0
        gram += np.einsum("ank,bnk->ab", said, said)
        right += np.einsum("ank,nk->a", said, target)
    # Least squares by the root of the Gram matrix, which is small.
    values, vectors = np.linalg.eigh(gram)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    known = values > 1e-12 * max(values[-1], 1e-300)
    shares, _ = nnls(root[known], (vectors.T @ right)[known] / np.sqrt(values[known])) if known.any() else (None, 0.0)
    if shares is None or shares.sum() <= 0.0:
        return np.full(len(asked), 1.0 / len(asked))
    found: Array = shares / shares.sum()
    return found
