"""Learned spaces as a voter, cross-fitted: each is learned from half of the rows and judges the other half."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nearkin.accelerator import computing_device, keep_there
from nearkin.arrays import Array, Index, Mask
from nearkin.jury.local_scaling import FAR, is_far, narrow, search_from_afar
from nearkin.jury.neighbour_voter import NeighbourVoter
from nearkin.jury.outside import split_groups
from nearkin.jury.voters import N_VOTING, RankVoter, rank_votes
from nearkin.kernels import FEW_ROWS, worker_pool
from nearkin.learners import OnlineLearner, RobustLODML
from nearkin.stored import ArrayOf, Count, Items, Number, Part, Text, stored

__all__ = ["CrossFittedVoter", "LearnedSpace", "default_learner", "learn_spaces"]

#: Most rows that a space learns from.
_LEARNED = 1 << 13

#: Rows whose candidates are ranked at the same time.
_AT_ONCE = 1 << 11

#: Directions from which spaces are learned; of very many features a quarter as many, if there are.
_AXES = 128


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
class CrossFittedVoter(RankVoter):
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
