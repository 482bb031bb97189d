"""Who votes: one contract, and neighbours in the input space or in learned spaces. Regressions are in `ridge`.

Learned spaces are cross-fitted: each is learned from half of the rows and judges the other half.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from nearkin.arrays import Array, Codes, Index
from nearkin.jury.copies import Groups
from nearkin.jury.local_scaling import LocalNeighbours, narrow
from nearkin.learners import OnlineLearner, RobustLODML
from nearkin.noise.model import VotesOn, split_rows
from nearkin.stored import ArrayOf, Count, Either, Items, Maybe, Number, Part, Text, stored

__all__ = [
    "WIDE", "CrossFittedVoter", "Embedding", "NeighbourVoter", "NeighbourhoodVoter", "Voter", "default_learner",
    "learn_spaces", "neighbours_in", "rank_votes",
]  # fmt: skip

#: Neighbours of a row that vote, and bandwidths that are tried, in ranks.
N_VOTING = 60
BANDWIDTHS = (2.0, 4.0, 8.0, 16.0, 32.0)

#: Most rows of a group for which its members are found and dropped; of larger groups only other rows are searched.
_MANY = 64

#: Most features for which matrices of all pairs of features are formed.
WIDE = 1024


class Voter(Protocol):
    """Votes on the class of a row, never counting the row's own label.

    Attributes
    ----------
    name : str
        Short and unique in its jury.
    votes_with : str
        What the votes rest on, in words.

    Examples
    --------
    >>> from nearkin.jury import Jury
    >>> class Prior:
    ...     name, votes_with = "prior", "the shares of the labels"
    ...
    ...     def __init__(self, codes):
    ...         self.codes = codes
    ...
    ...     def left_out(self, weights):
    ...         total = np.bincount(self.codes, weights, 2)
    ...         shares = (total - np.eye(2)[self.codes] * weights[:, None]) / (total.sum() - weights)[:, None]
    ...         return shares.__getitem__
    ...
    ...     def answers(self, queries, weights):
    ...         return np.tile(np.bincount(self.codes, weights, 2) / weights.sum(), (len(queries), 1))
    >>> Jury([Prior(np.array([0, 0, 0, 1]))], [1.0]).answers(np.zeros((1, 2)), np.ones(4)).tolist()
    [[0.75, 0.25]]
    """

    name: str

    @property
    def votes_with(self) -> str:
        """What the votes rest on, in words."""

    def left_out(self, weights: Array) -> VotesOn:
        """Votes on training rows, each by all others, whose labels count as much as ``weights`` says."""

    def answers(self, queries: Array, weights: Array) -> Array:
        """Votes on new scaled rows, of shape (n_queries, n_classes)."""


@runtime_checkable
class NeighbourhoodVoter(Voter, Protocol):
    """A voter whose votes are cast by rows near the one in question."""

    def neighbours_left_out(self, rows: Index, weights: Array) -> list[tuple[Index, Array]]:
        """Neighbours of training rows in each space that judges them, nearest first, with their parts of the vote."""

    def neighbours(self, queries: Array, weights: Array) -> list[tuple[Index, Array]]:
        """The same for new scaled rows."""

    def map_rows(self, rows: Array) -> Array:
        """Scaled rows in the space where nearness is judged."""


class Embedding(Protocol):
    """A learned map of scaled rows."""

    def embed(self, X: Array) -> Array:
        """Mapped rows."""


def map_rows(space: Array | Embedding | None, rows: Array) -> Array:
    """Map scaled rows by a matrix of shape (n_components, n_features) or an `Embedding`; None leaves them."""
    if space is None:
        return rows
    return rows @ space.T if isinstance(space, np.ndarray) else space.embed(rows)


def rank_votes(index: Index, codes: Codes, weights: Array, n_classes: int, bandwidth: float) -> Array:
    """Count the votes of neighbours, the j-th nearest with ``exp(-j / bandwidth)`` times its weight.

    ``index`` has one row of neighbours for each query, the nearest first; ``codes`` and ``weights`` belong to all rows.
    The nearest ``bandwidth`` neighbours hold two thirds of the votes. Where no neighbour has any weight, all classes
    have the same share.

    Examples
    --------
    >>> votes = rank_votes(np.array([[0, 1, 2]]), np.array([0, 1, 1]), np.ones(3), 2, 2.0)
    >>> votes.round(3).tolist()
    [[0.506, 0.494]]
    """
    n = len(index)
    cells = np.arange(n)[:, None] * n_classes + codes[index]
    cast = _cast(index, weights, bandwidth)
    votes = np.bincount(cells.ravel(), cast.ravel(), n * n_classes).reshape(n, n_classes)
    total = votes.sum(axis=1, keepdims=True)
    return np.divide(votes, total, out=np.full_like(votes, 1.0 / n_classes), where=total > 0)


def _cast(index: Index, weights: Array, bandwidth: float) -> Array:
    """Weight of the vote of each neighbour."""
    cast: Array = np.exp(-np.arange(index.shape[1]) / bandwidth) * weights[index]
    return cast


class _RankVoter:
    """Neighbours of training rows that vote with weights falling by rank; how they are found is left to its kinds."""

    # Found again when needed, and not stored.
    _among: Index | None = None

    #: Rows that do not vote on each other.
    groups: Groups | None
    name: str
    codes: Codes
    n_classes: int
    bandwidth: float

    @property
    def among(self) -> Index:
        """Neighbours of every training row outside its group, of shape (n_samples, 60), found at the first use."""
        if self._among is None:
            self._among = self._find_among()
        return self._among

    def _find_among(self) -> Index:
        raise NotImplementedError

    def left_out(self, weights: Array) -> VotesOn:
        """Votes on training rows by their neighbours."""
        return lambda part: rank_votes(self.among[part], self.codes, weights, self.n_classes, self.bandwidth)

    def neighbours_left_out(self, rows: Index, weights: Array) -> list[tuple[Index, Array]]:
        """Neighbours of training rows and their parts of the vote."""
        return [self._weigh(self.among[rows], weights)]

    def _weigh(self, index: Index, weights: Array) -> tuple[Index, Array]:
        """Neighbours with their parts of the vote, which sum to 1."""
        cast = _cast(index, weights, self.bandwidth)
        total = cast.sum(axis=1, keepdims=True)
        return index, np.divide(cast, total, out=np.full_like(cast, 1.0 / cast.shape[1]), where=total > 0)


@stored(
    name=Text(),
    near=Part(LocalNeighbours, n="n", e="d"),
    codes=ArrayOf("n", of="codes", low=0, below="c"),
    n_classes=Count(2, size="c"),
    bandwidth=Number(0.0, is_open=True),
    groups=Maybe(Part(Groups, n="n")),
    space=Maybe(Either(ArrayOf("e", "d"), Part("MappedParameter", d="d"))),
)
class NeighbourVoter(_RankVoter):
    """Neighbours of a row in one space, the nearest first, with weights that fall by rank.

    Parameters
    ----------
    name : str
        Name of the space.
    near : LocalNeighbours
        Search among the training rows in that space.
    codes : ndarray of int64 of shape (n_samples,)
        Labels as whole numbers below ``n_classes``.
    n_classes : int
        Number of classes.
    bandwidth : float or None, default=None
        In ranks. None chooses among 2, 4, 8, 16 and 32 the one that agrees best with the labels as given. Uniform noise
        lowers all agreements alike, so wrong labels do not mislead the choice; a learned space has seen the labels, so
        there they would.
    space : ndarray of shape (n_components, n_features), Embedding or None, default=None
        Map from scaled rows into the space; None for the scaled rows themselves.
    groups : Groups or None, default=None
        Rows that do not vote on each other.

    Examples
    --------
    >>> from nearkin.jury import LocalNeighbours
    >>> rows = np.array([[0.0], [0.1], [0.3], [5.0], [5.1], [5.3]])
    >>> voter = NeighbourVoter("input space", LocalNeighbours(rows), np.array([0, 0, 1, 1, 1, 1]), 2, bandwidth=1.0)
    >>> voter.left_out(np.ones(6))(slice(None)).argmax(axis=1).tolist()  # the third label is contradicted
    [0, 0, 0, 1, 1, 1]
    """

    def __init__(
        self,
        name: str,
        near: LocalNeighbours,
        codes: Codes,
        n_classes: int,
        bandwidth: float | None = None,
        space: Array | Embedding | None = None,
        groups: Groups | None = None,
    ):
        self.name, self.near, self.codes, self.n_classes = name, near, codes, n_classes
        self.space, self.groups = space, groups
        self.bandwidth = self._best_bandwidth() if bandwidth is None else bandwidth

    @property
    def votes_with(self) -> str:
        """What the votes rest on."""
        return f"the {N_VOTING} nearest rows, weights falling by rank (bandwidth {self.bandwidth:g})"

    def check_stored(self) -> dict[str, int]:
        """Return the number of features of a row, which without a map is that of the space."""
        return {"d": len(self.near._center)} if self.space is None else {}

    def _find_among(self) -> Index:
        return find_others(self.near, self.groups)

    def _best_bandwidth(self) -> float:
        among, ones, right = self.among, np.ones(len(self.codes)), np.zeros(len(BANDWIDTHS))
        for part in split_rows(len(self.codes), self.n_classes):
            for i, one in enumerate(BANDWIDTHS):
                shares = rank_votes(among[part], self.codes, ones, self.n_classes, one)
                right[i] += np.count_nonzero(shares.argmax(axis=1) == self.codes[part])
        return BANDWIDTHS[int(np.argmax(right))]

    def answers(self, queries: Array, weights: Array) -> Array:
        """Votes on new scaled rows by their neighbours."""
        index = self.near.query(self.map_rows(queries), N_VOTING)
        return rank_votes(index, self.codes, weights, self.n_classes, self.bandwidth)

    def neighbours(self, queries: Array, weights: Array) -> list[tuple[Index, Array]]:
        """Neighbours of new scaled rows and their parts of the vote."""
        return [self._weigh(self.near.query(self.map_rows(queries), N_VOTING), weights)]

    def map_rows(self, rows: Array) -> Array:
        """Scaled rows in the space."""
        return map_rows(self.space, rows)


@stored(
    name=Text(),
    voters=Items(Part(NeighbourVoter, n="n", c="c", d="d"), "v", least=1),
    judge=ArrayOf("n", of="codes", low=0, below="v"),
    codes=ArrayOf("n", of="codes", low=0, below="c"),
    n_classes=Count(2, size="c"),
    bandwidth=Number(0.0, is_open=True),
    groups=Maybe(Part(Groups, n="n")),
)
class CrossFittedVoter(_RankVoter):
    """Neighbours in learned spaces; each training row is judged in a space that was learned without its label.

    A space that has seen a wrong label may have moved the row to where its label looks right.

    Parameters
    ----------
    name : str
        Of the voter.
    voters : sequence of NeighbourVoter
        Neighbours in one space each, with equal bandwidths.
    judge : ndarray of int64 of shape (n_samples,)
        Number of the voter that judges each training row. All of them judge new rows.

    Examples
    --------
    >>> from nearkin.jury import LocalNeighbours
    >>> rows, codes = np.array([[0.0], [0.1], [0.3], [5.0], [5.1], [5.3]]), np.array([0, 0, 1, 1, 1, 1])
    >>> halves = [NeighbourVoter("", LocalNeighbours(s * rows), codes, 2, 1.0, np.array([[s]])) for s in (1.0, 2.0)]
    >>> both = CrossFittedVoter("learned spaces", halves, np.array([0, 1, 0, 1, 0, 1]))
    >>> both.left_out(np.ones(6))(slice(None)).argmax(axis=1).tolist()
    [0, 0, 0, 1, 1, 1]
    """

    def __init__(self, name: str, voters: Sequence[NeighbourVoter], judge: Index):
        self.name, self.voters, self.judge, one = name, list(voters), judge, voters[0]
        self.codes, self.n_classes, self.bandwidth = one.codes, one.n_classes, one.bandwidth
        self.groups = one.groups

    @property
    def votes_with(self) -> str:
        """What the votes rest on."""
        return f"{self.voters[0].votes_with}, in {len(self.voters)} spaces, each learned without the rows it judges"

    def _find_among(self) -> Index:
        rows = [np.flatnonzero(self.judge == i) for i in range(len(self.voters))]
        near = [find_others(one.near, self.groups, some) for one, some in zip(self.voters, rows, strict=True)]
        return np.concatenate(near)[np.argsort(np.concatenate(rows))]

    def answers(self, queries: Array, weights: Array) -> Array:
        """Votes on new scaled rows: the mean over the spaces."""
        share = 1.0 / len(self.voters)
        total = share * self.voters[0].answers(queries, weights)
        for one in self.voters[1:]:
            total += share * one.answers(queries, weights)
        return total

    def neighbours(self, queries: Array, weights: Array) -> list[tuple[Index, Array]]:
        """Neighbours of new scaled rows in every space and their parts of the vote."""
        found = [pair for one in self.voters for pair in one.neighbours(queries, weights)]
        return [(index, part / len(found)) for index, part in found]

    def map_rows(self, rows: Array) -> Array:
        """Scaled rows in all spaces side by side: squared distances are the means of those in the spaces."""
        return np.concatenate([one.map_rows(rows) for one in self.voters], axis=1) / math.sqrt(len(self.voters))


def find_others(near: LocalNeighbours, groups: Groups | None, which: Index | None = None) -> Index:
    """Nearest rows of every training row, or of some, that belong to other groups, 60 where there are that many."""
    if groups is None:
        return near.among(N_VOTING, which)
    rows = np.arange(len(groups.group)) if which is None else which
    group = groups.group[rows]
    size = groups.size[group]
    k = min(N_VOTING, len(groups.group) - int(groups.size.max()))
    found = np.empty((len(rows), k), np.int64)
    few = np.flatnonzero(size <= _MANY)
    if len(few):
        near_by = near.among(k + int(size[few].max()) - 1, None if len(few) == len(groups.group) else rows[few])
        is_own = groups.group[near_by] == group[few, None]
        found[few] = np.take_along_axis(near_by, np.argsort(is_own, axis=1, kind="stable")[:, :k], axis=1)
    for one in np.unique(group[size > _MANY]):
        at = np.flatnonzero(group == one)
        found[at] = near.among(k, rows[at], np.flatnonzero(groups.group != one))
    return found


def neighbours_in(space: Array | Embedding, name: str, scaled: Array, near: NeighbourVoter) -> NeighbourVoter:
    """Neighbours in a learned space, with the bandwidth of the input space."""
    found = LocalNeighbours(narrow(map_rows(space, scaled)))
    return NeighbourVoter(name, found, near.codes, near.n_classes, near.bandwidth, space, near.groups)


def learn_spaces(scaled: Array, near: NeighbourVoter, random_state: Any) -> CrossFittedVoter:
    """Neighbours in two spaces, each learned from one half of the rows and judging the other."""
    codes = near.codes
    judge = _halve(codes, near.groups)
    voters = []
    for own in (0, 1):
        other = np.flatnonzero(judge != own)
        if len(np.unique(codes[other])) < 2:  # too few rows to halve
            other = np.arange(len(codes))
        learner = default_learner(random_state).set_params(scale=None, rescore=False)
        space = learner.fit(scaled[other], codes[other]).components_
        voters.append(neighbours_in(space, f"half {own}", scaled, near))
    return CrossFittedVoter("learned spaces", voters, judge)


def _halve(codes: Codes, groups: Groups | None) -> Index:
    """Half of each row, 0 or 1: every other row of a class, or group by its first row, in random order."""
    group = np.arange(len(codes)) if groups is None else groups.group
    its_code = codes[np.unique(group, return_index=True)[1]]
    order, half = np.lexsort((np.random.default_rng(0).random(len(its_code)), its_code)), np.empty_like(its_code)
    half[order] = np.arange(len(its_code)) % 2
    return half[group]


def default_learner(random_state: Any = None) -> OnlineLearner:
    """Return an unfitted learner of the kind that learns spaces where none is given."""
    return RobustLODML(random_state=random_state)
