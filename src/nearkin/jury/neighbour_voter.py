"""Neighbours in one space as a voter."""

from __future__ import annotations

import numpy as np

from nearkin import progress
from nearkin.arrays import Array, Codes, Index
from nearkin.jury.copies import Groups
from nearkin.jury.local_scaling import N_CANDIDATES, LocalNeighbours, narrow, spread_rows
from nearkin.jury.voters import N_VOTING, Embedding, RankVoter, map_rows, rank_votes
from nearkin.noise.model import split_rows
from nearkin.stored import ArrayOf, Count, Either, Maybe, Number, Part, Text, stored

__all__ = ["BANDWIDTHS", "NeighbourVoter", "neighbours_in"]

#: Bandwidths that are tried, in ranks; most rows on which one is chosen, and most votes that this may take.
BANDWIDTHS = (2.0, 4.0, 8.0, 16.0, 32.0)
_JUDGES = 1 << 14
_JUDGED = 1 << 24

#: Most rows of a group for which its members are found and dropped; of larger groups only other rows are searched.
_MANY = 64


@stored(
    name=Text(),
    near=Part(LocalNeighbours, n="n", e="d"),
    codes=ArrayOf("n", of="codes", low=0, below="c"),
    n_classes=Count(2, size="c"),
    bandwidth=Number(0.0, is_open=True),
    groups=Maybe(Part(Groups, n="n")),
    space=Maybe(Either(ArrayOf("e", "d"), Part("MappedParameter", d="d"))),
)
class NeighbourVoter(RankVoter):
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
        return _find_others(self.near, self._n_found, self.groups).astype(np.int32, copy=False)

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


def _find_others(near: LocalNeighbours, k: int, groups: Groups | None) -> Index:
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
