"""Who votes: one contract, and neighbours in the input space or in learned spaces. Regressions are in `ridge`.

Learned spaces are cross-fitted: each is learned from half of the rows and judges the other half.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from nearkin import progress
from nearkin.accelerator import computing_device, keep_there
from nearkin.arrays import Array, Codes, Index, Mask
from nearkin.jury.copies import Groups
from nearkin.jury.local_scaling import (
    FAR,
    N_CANDIDATES,
    LocalNeighbours,
    is_far,
    narrow,
    search_from_afar,
    spread_rows,
)
from nearkin.jury.outside import split_groups
from nearkin.kernels import FEW_ROWS, worker_pool
from nearkin.learners import OnlineLearner, RobustLODML
from nearkin.noise.model import VotesOn, split_rows
from nearkin.stored import ArrayOf, Count, Either, Items, Maybe, Number, Part, Text, stored

__all__ = [
    "WIDE", "CrossFittedVoter", "Embedding", "LearnedSpace", "NeighbourVoter", "NeighbourhoodVoter", "SearchingVoter",
    "Voter", "default_learner", "learn_spaces", "neighbours_in", "rank_votes",
]  # fmt: skip

#: Neighbours of a row that vote, and bandwidths that are tried, in ranks.
N_VOTING = 60
BANDWIDTHS = (2.0, 4.0, 8.0, 16.0, 32.0)

#: Directions from which spaces are learned; of very many features a quarter as many, if there are.
_AXES = 128

#: Most rows on which the bandwidth is chosen, most votes that this may take, and most rows that a space learns from.
_JUDGES = 1 << 14
_JUDGED = 1 << 24
_LEARNED = 1 << 13

#: Rows whose candidates are ranked at the same time.
_AT_ONCE = 1 << 11
_VOTES_AT_ONCE = 1 << 20

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

    def answers(self, queries: Array, weights: Array) -> Array | None:
        """Votes on new scaled rows, of shape (n_queries, n_classes); None abstains, and the others count for more."""


@runtime_checkable
class NeighbourhoodVoter(Voter, Protocol):
    """A voter whose votes are cast by rows near the one in question."""

    def neighbours_left_out(self, rows: Index, weights: Array) -> list[tuple[Index, Array]]:
        """Neighbours of training rows in each space that judges them, nearest first, with their parts of the vote."""

    def neighbours(self, queries: Array, weights: Array, found: Index | None = None) -> list[tuple[Index, Array]]:
        """The same for new scaled rows, where known among candidates that another voter has found."""

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
    if (device := computing_device()) is not None:
        from nearkin.accelerator.device_votes import count_ranks

        return count_ranks(index, codes, weights, n_classes, bandwidth, device)
    votes = np.empty((len(index), n_classes))
    step = min(_AT_ONCE, max(1, _VOTES_AT_ONCE // n_classes))
    for start in range(0, len(index), step):
        some = index[start : start + step]
        cells = np.arange(len(some))[:, None] * n_classes + codes[some]
        counted = np.bincount(cells.ravel(), _cast(some, weights, bandwidth).ravel(), len(some) * n_classes)
        votes[start : start + step] = counted.reshape(len(some), n_classes)
    total = votes.sum(axis=1, keepdims=True)
    votes /= np.where(total > 0, total, 1.0)
    votes[total[:, 0] <= 0] = 1.0 / n_classes
    return votes


def _cast(index: Index, weights: Array, bandwidth: float) -> Array:
    """Weight of the vote of each neighbour."""
    cast: Array = np.exp(-np.arange(index.shape[1]) / bandwidth) * weights[index]
    return cast


class SearchingVoter:
    """A voter whose neighbours are found, or chosen among candidates that are found, by one search."""

    @property
    def searches_input(self) -> bool:
        """Whether candidates are those of the input space, which several voters share."""
        raise NotImplementedError

    def find(self, queries: Array) -> Index:
        """Training rows near new scaled rows, the nearest first."""
        raise NotImplementedError

    def answers(self, queries: Array, weights: Array, found: Index | None = None) -> Array:
        """Votes on new scaled rows; where ``found`` is given it has candidates of the input space."""
        raise NotImplementedError


class _RankVoter(SearchingVoter):
    """Neighbours of training rows that vote with weights falling by rank; how they are found is left to its kinds."""

    # Found again when needed, and not stored.
    _among: Index | None = None

    name: str
    codes: Codes
    n_classes: int
    bandwidth: float

    @property
    def among(self) -> Index:
        """Neighbours of every training row outside its group, of shape (n_samples, 60), found at the first use."""
        return self.candidates[:, :N_VOTING]

    @property
    def candidates(self) -> Index:
        """The same, and more of them where others choose among them."""
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
        return find_others(self.near, self._n_found, self.groups).astype(np.int32, copy=False)

    @property
    def searches_input(self) -> bool:
        """Whether the space is the input space."""
        return self.space is None

    @property
    def _n_found(self) -> int:
        return N_CANDIDATES if self.space is None else N_VOTING

    def _best_bandwidth(self) -> float:
        among, ones, right = self.among, np.ones(len(self.codes)), np.zeros(len(BANDWIDTHS))
        some = spread_rows(len(self.codes), min(_JUDGES, max(1, _JUDGED // self.n_classes)))
        for part in split_rows(len(some), self.n_classes):
            rows = some[part]
            for i, one in enumerate(BANDWIDTHS):
                progress.pause()
                shares = rank_votes(among[rows], self.codes, ones, self.n_classes, one)
                right[i] += np.count_nonzero(shares.argmax(axis=1) == self.codes[rows])
        return BANDWIDTHS[int(np.argmax(right))]

    def find(self, queries: Array) -> Index:
        """Training rows near new scaled rows, the nearest first."""
        return self.near.query(self.map_rows(queries), self._n_found).astype(np.int32, copy=False)

    def answers(self, queries: Array, weights: Array, found: Index | None = None) -> Array:
        """Votes on new scaled rows by their neighbours, which `find` may have found before."""
        index = self._known(queries, found)
        return rank_votes(index, self.codes, weights, self.n_classes, self.bandwidth)

    def neighbours(self, queries: Array, weights: Array, found: Index | None = None) -> list[tuple[Index, Array]]:
        """Neighbours of new scaled rows and their parts of the vote."""
        return [self._weigh(self._known(queries, found), weights)]

    def _known(self, queries: Array, found: Index | None) -> Index:
        # Candidates that another voter has found are those of the input space.
        found = found if found is not None and self.space is None else self.find(queries)
        return found[:, :N_VOTING]

    def map_rows(self, rows: Array) -> Array:
        """Scaled rows in the space."""
        return map_rows(self.space, rows)


@stored(space=ArrayOf("e", "d"), rows=ArrayOf("n", "e", dtype="T"), _center=ArrayOf("d"))
class LearnedSpace:
    """A learned space and the training rows in it.

    Parameters
    ----------
    space : ndarray of shape (n_components, n_features)
        Map from scaled rows.
    rows : ndarray of shape (n_samples, n_features)
        Scaled training rows.

    Examples
    --------
    >>> space = LearnedSpace(np.array([[1.0, 0.0]]), np.array([[0.0, 0.0], [3.0, 0.0], [1.0, 9.0]]))
    >>> space.rank(np.array([[0, 1, 2]], np.int32), space.map_rows(np.array([[0.9, 0.0]])), 2).tolist()
    [[2, 0]]
    """

    def __init__(self, space: Array, rows: Array):
        self.space, self._center = space, rows.mean(axis=0, dtype=np.float64)
        self.rows = np.ascontiguousarray(narrow(self.map_rows(rows)))

    def map_rows(self, rows: Array) -> Array:
        """Scaled rows in the space, as seen from the centre of the training rows."""
        kind = rows.dtype
        return (rows - self._center.astype(kind)) @ self.space.T.astype(kind)

    def rank(self, candidates: Index, mapped: Array, k: int) -> Index:
        """The k candidates of every mapped row that are nearest to it, the nearest first."""
        k = min(k, candidates.shape[1])
        with np.errstate(over="ignore"):  # what overflows is far
            queries = np.ascontiguousarray(mapped, dtype=self.rows.dtype)
        if (there := self._there()) is not None:
            chosen: Index = there.rank(candidates, queries, k)
            return self._mend(chosen, candidates, mapped, is_far(queries, self.rows))
        chosen = np.empty((len(candidates), k), np.int32)
        rank = _rank_few if len(self.rows) <= FEW_ROWS else _rank_many
        parts = [slice(start, start + _AT_ONCE) for start in range(0, len(candidates), _AT_ONCE)]
        with worker_pool() as run:
            run(lambda part: rank(candidates[part], queries[part], self.rows, chosen[part]), parts)
        return self._mend(chosen, candidates, mapped, is_far(queries, self.rows))

    def rank_new(self, candidates: Index, queries: Array, k: int) -> Index:
        """The k candidates of every new scaled row that are nearest to it in the space, the nearest first."""
        if (there := self._there()) is None:
            return self.rank(candidates, self.map_rows(queries), k)
        mapped = there.map_rows(queries)
        chosen = there.rank(candidates, mapped, min(k, candidates.shape[1]))
        if not (far := there.are_far(mapped, FAR)).any():
            return chosen
        return self._mend(chosen, candidates, self.map_rows(queries), far)

    def _mend(self, chosen: Index, candidates: Index, mapped: Array, far: Mask) -> Index:
        """Rank the candidates of rows again that lie so far away that rounding hides differences."""
        for i in np.flatnonzero(far):
            near = search_from_afar(mapped[i : i + 1], self.rows[candidates[i]], chosen.shape[1])
            chosen[i] = candidates[i, near[0]]
        return chosen

    def _there(self) -> Any:
        """The rows on the device where the jury computes; None on the processor."""
        if (device := computing_device()) is None:
            return None
        from nearkin.accelerator.device_votes import DeviceSpace

        return keep_there(self, "rows", device, DeviceSpace, self.rows, self.space, self._center)


def _rank_few(candidates: Index, queries: Array, rows: Array, chosen: Index) -> None:
    """Write the nearest of every query's candidates, the nearest first; equals go by their number."""
    far = np.zeros(candidates.shape, rows.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        for x, z in zip(queries.T, rows.T, strict=True):
            far += (x[:, None] - z[candidates]) ** 2
    at = np.lexsort((candidates, far), axis=1)[:, : chosen.shape[1]]
    chosen[:] = np.take_along_axis(candidates, at, axis=1)


def _rank_many(candidates: Index, queries: Array, rows: Array, chosen: Index) -> None:
    from nearkin.kernels.nearest import rank_candidates

    rank_candidates(np.ascontiguousarray(candidates), queries, rows, chosen)


@stored(
    name=Text(),
    near=Part(NeighbourVoter, n="n", c="c", d="d"),
    spaces=Items(Part(LearnedSpace, n="n", d="d"), "v", least=1),
    judge=ArrayOf("n", of="codes", low=0, below="v"),
    codes=ArrayOf("n", of="codes", low=0, below="c"),
    n_classes=Count(2, size="c"),
    bandwidth=Number(0.0, is_open=True),
)
class CrossFittedVoter(_RankVoter):
    """Neighbours in learned spaces; each training row is judged in a space that was learned without its label.

    A space that has seen a wrong label may have moved the row to where its label looks right. Neighbours in a learned
    space are the nearest of 120 that are near in the input space: no second search is needed, and what is far in the
    input space does not become near by chance.

    Parameters
    ----------
    name : str
        Of the voter.
    near : NeighbourVoter
        Neighbours in the input space, with the bandwidth.
    spaces : sequence of LearnedSpace
        Spaces that judge.
    judge : ndarray of int64 of shape (n_samples,)
        Number of the space that judges each training row. All of them judge new rows.

    Examples
    --------
    >>> from nearkin.jury import LocalNeighbours
    >>> rows, codes = np.array([[0.0], [0.1], [0.3], [5.0], [5.1], [5.3]]), np.array([0, 0, 1, 1, 1, 1])
    >>> near = NeighbourVoter("input space", LocalNeighbours(rows), codes, 2, bandwidth=1.0)
    >>> spaces = [LearnedSpace(np.array([[s]]), rows) for s in (1.0, 2.0)]
    >>> both = CrossFittedVoter("learned spaces", near, spaces, np.array([0, 1, 0, 1, 0, 1]))
    >>> both.left_out(np.ones(6))(slice(None)).argmax(axis=1).tolist()
    [0, 0, 0, 1, 1, 1]
    """

    searches_input = True

    def __init__(self, name: str, near: NeighbourVoter, spaces: Sequence[LearnedSpace], judge: Index):
        self.name, self.near, self.spaces, self.judge = name, near, list(spaces), judge
        self.codes, self.n_classes, self.bandwidth = near.codes, near.n_classes, near.bandwidth

    @property
    def votes_with(self) -> str:
        """What the votes rest on."""
        return f"{self.near.votes_with}, in {len(self.spaces)} spaces, each learned without the rows it judges"

    def _find_among(self) -> Index:
        candidates = self.near.candidates
        found = np.empty((len(self.codes), min(N_VOTING, candidates.shape[1])), np.int32)
        for i, space in enumerate(self.spaces):
            rows = np.flatnonzero(self.judge == i)
            found[rows] = space.rank(candidates[rows], space.rows[rows], N_VOTING)
        return found

    def find(self, queries: Array) -> Index:
        """Training rows near new scaled rows in the input space, the nearest first."""
        return self.near.find(queries)

    def _rank(self, queries: Array, found: Index | None) -> list[Index]:
        """Neighbours of new scaled rows in every space."""
        found = self.find(queries) if found is None else found
        return [space.rank_new(found, queries, N_VOTING) for space in self.spaces]

    def answers(self, queries: Array, weights: Array, found: Index | None = None) -> Array:
        """Votes on new scaled rows: the mean over the spaces. `find` may have found candidates before."""
        ranked = self._rank(queries, found)
        total = rank_votes(ranked[0], self.codes, weights, self.n_classes, self.bandwidth)
        for index in ranked[1:]:
            total += rank_votes(index, self.codes, weights, self.n_classes, self.bandwidth)
        return total / len(ranked)

    def neighbours(self, queries: Array, weights: Array, found: Index | None = None) -> list[tuple[Index, Array]]:
        """Neighbours of new scaled rows in every space and their parts of the vote."""
        ranked = [self._weigh(index, weights) for index in self._rank(queries, found)]
        return [(index, part / len(ranked)) for index, part in ranked]

    def map_rows(self, rows: Array) -> Array:
        """Scaled rows in all spaces side by side: squared distances are the means of those in the spaces."""
        return np.concatenate([one.map_rows(rows) for one in self.spaces], axis=1) / math.sqrt(len(self.spaces))


def find_others(near: LocalNeighbours, k: int, groups: Groups | None) -> Index:
    """The k nearest rows of every training row that belong to other groups, or fewer where there are not that many."""
    if groups is None:
        return near.candidates()[:, :k] if k == N_CANDIDATES else near.among(k)
    group = groups.group
    n, size = len(group), groups.size[group]
    k = min(k, n - int(size.max()))
    found = np.empty((n, k), np.int64)
    few = np.flatnonzero(size <= _MANY)
    if len(few):
        near_by = near.among(k + int(size[few].max()) - 1, None if len(few) == n else few)
        is_own = group[near_by] == group[few, None]
        found[few] = np.take_along_axis(near_by, np.argsort(is_own, axis=1, kind="stable")[:, :k], axis=1)
    for one in np.unique(group[size > _MANY]):
        found[group == one] = near.among(k, np.flatnonzero(group == one), np.flatnonzero(group != one))
    return found


def neighbours_in(space: Array | Embedding, name: str, scaled: Array, near: NeighbourVoter) -> NeighbourVoter:
    """Neighbours in a learned space, with the bandwidth of the input space."""
    found = LocalNeighbours(narrow(map_rows(space, scaled)))
    return NeighbourVoter(name, found, near.codes, near.n_classes, near.bandwidth, space, near.groups)


def learn_spaces(scaled: Array, near: NeighbourVoter, random_state: Any, axes: Array | None = None) -> CrossFittedVoter:
    """Neighbours in two spaces, each learned from one half of the rows, or 8,192 of it, and judging the other.

    Where there are many features, ``axes`` are the leading directions of rows; spaces are learned from some of them.
    """
    codes = near.codes
    axes = None if axes is None else axes[: max(_AXES, scaled.shape[1] // 4)]
    judge = split_groups(codes, near.groups, 2)
    spaces, rng = [], np.random.default_rng([len(codes), 2])
    for own in (0, 1):
        other = np.flatnonzero(judge != own)
        if len(other) > _LEARNED:
            other = np.sort(rng.permutation(other)[:_LEARNED])
        if len(np.unique(codes[other])) < 2:  # too few rows to halve
            other = np.arange(len(codes))
        learner = default_learner(random_state).set_params(scale=None, rescore=False)
        seen = scaled[other] if axes is None else scaled[other] @ axes.T
        space = learner.fit(seen, codes[other]).components_
        spaces.append(LearnedSpace(space if axes is None else space @ axes, scaled))
    return CrossFittedVoter("learned spaces", near, spaces, judge)


def default_learner(random_state: Any = None) -> OnlineLearner:
    """Return an unfitted learner of the kind that learns spaces where none is given."""
    return RobustLODML(random_state=random_state)
