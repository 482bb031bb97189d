"""More rows than a jury needs: some are its members, and the others are only judged, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin import progress
from nearkin.accelerator import keep_device
from nearkin.arrays import Array, Codes, Index
from nearkin.jury.copies import number_equal_rows
from nearkin.jury.jury import CastVotes, Jury, Votes
from nearkin.kernels import worker_pool
from nearkin.noise.model import VotesOn
from nearkin.stored import ArrayOf, stored

__all__ = ["MOST_MEMBERS", "JudgedRows", "choose_members", "count_members", "has_others"]

#: Most rows that vote, and rows of every class that vote where it has that many.
MOST_MEMBERS = 3 << 14
_OF_CLASS = 30

#: Rows that a thread judges at once, and most such blocks that are held.
_AT_ONCE = 1 << 13
_TOGETHER = 16


def has_others(n: int) -> bool:
    """Whether only some of n rows are members of their jury."""
    return n > MOST_MEMBERS


def choose_members(codes: Codes, n_classes: int, groups: Index | None = None) -> Index | None:
    """Choose the rows that vote: at most 49,152, every class as its size, but 30 rows of each; None for all rows.

    ``groups`` are numbers of rows that may not vouch for each other; such rows are chosen together.

    Examples
    --------
    >>> choose_members(np.array([0, 1, 0, 1]), 2) is None
    True
    >>> codes = np.repeat([0, 1], [99_990, 10])
    >>> np.bincount(codes[choose_members(codes, 2)]).tolist()
    [49142, 10]
    """
    n = len(codes)
    if not has_others(n):
        return None
    group = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    its_code = codes[np.unique(group, return_index=True)[1]]
    size = np.bincount(its_code, minlength=n_classes)
    # Seeds of their own: a sample by seed 0 would be the rows that `flip_labels` flips with seed 0.
    order = np.lexsort((np.random.default_rng([n, 16]).random(len(its_code)), its_code))
    rank = np.empty(len(its_code), np.int64)
    rank[order] = np.arange(len(its_code)) - np.repeat(np.cumsum(size) - size, size)
    is_member = rank < count_members(size, MOST_MEMBERS * len(its_code) / n)[its_code]
    return np.flatnonzero(is_member[group])


def count_members(size: Index, most: float = MOST_MEMBERS) -> Index:
    """How many rows of each class vote: every class as its size, but 30 rows of each, if it has them.

    >>> count_members(np.array([99_990, 10])).tolist(), count_members(np.array([40, 10])).tolist()
    ([49142, 10], [40, 10])
    """
    few = np.minimum(size, _OF_CLASS)
    share = min(1.0, max(0.0, most - few.sum()) / max(1, (size - few).sum()))
    return few + np.floor(share * (size - few)).astype(np.int64)


@stored(
    rows=ArrayOf("n", "d"),
    members=ArrayOf("r", of="codes", low=0, below="n"),
)
class JudgedRows:
    """All training rows: members of the jury, judged without their own labels, and others, judged like new rows.

    Parameters
    ----------
    members : ndarray of int64 of shape (n_members,)
        Numbers of the rows that the jury knows, in its order.
    rows : ndarray of float32 of shape (n_samples, n_features)
        All rows, scaled; they are kept, and must not be changed.

    Examples
    --------
    >>> judged = JudgedRows(np.array([0, 2]), np.array([[0.0], [1.0], [2.0]]))
    >>> judged.others.tolist()
    [1]
    """

    _at: Index | None = None

    def __init__(self, members: Index, rows: Array):
        self.members, self.rows = members, rows

    @classmethod
    def beside(cls, jury_rows: Array, rows: Array) -> JudgedRows:
        """Rows that are not those of the jury; one that equals a row of the jury is judged as that one, left out.

        Otherwise the row itself, or a copy of it, would vouch for it.

        >>> judged = JudgedRows.beside(np.float32([[0.0], [2.0]]), np.float32([[1.0], [2.0]]))
        >>> [part.tolist() for part in judged._split(slice(None))]
        [[1], [1], [0], [0]]
        """
        n = len(jury_rows)
        _, first, which = np.unique(
            number_equal_rows(np.concatenate([jury_rows, rows])), return_index=True, return_inverse=True
        )
        first = first[which[n:]]
        made = cls(np.arange(n), rows)
        made._at = np.where(first < n, first, -1)
        return made

    def check_stored(self) -> None:
        """Refuse members that are the same row."""
        if len(np.unique(self.members)) < len(self.members):
            raise ValueError("a row is a member twice")

    @property
    def others(self) -> Index:
        """Numbers of the rows that are not members."""
        return np.flatnonzero(self._member_of_row < 0)

    @property
    def _member_of_row(self) -> Index:
        """Number in the jury of every row, -1 for the others."""
        if self._at is None:
            self._at = np.full(len(self.rows), -1)
            self._at[self.members] = np.arange(len(self.members))
        return self._at

    def _split(self, rows: Any) -> tuple[Index, Index, Index, Index]:
        """Positions of members among some rows, and their numbers in the jury; positions and numbers of the others."""
        at = self._member_of_row[rows]
        inside, outside = np.flatnonzero(at >= 0), np.flatnonzero(at < 0)
        numbers = np.arange(len(self.rows))[rows]
        return inside, at[inside], outside, numbers[outside]

    def votes_on(self, jury: Jury, weights: Array) -> VotesOn:
        """Votes on all rows, by members that count as much as ``weights`` says."""
        left_out = jury.left_out(weights)
        # Voters solve and find at the first use what they need for all others, so that comes before threads.
        left_out(np.arange(1))
        jury.answers(self.rows[:1], weights)

        def votes(part: Any) -> Array:
            inside, members, outside, others = self._split(part)
            found: Array | None = None
            for at, numbers, ask in (
                (inside, members, left_out),
                (outside, others, lambda some: jury.answers(self.rows[some], weights)),
            ):
                for some, said in _judge_blocks(numbers, ask):
                    if found is None:
                        found = np.empty((len(inside) + len(outside), said.shape[1]))
                    found[at[some]] = said
                    if numbers is others:
                        progress.advance("judging rows", int(numbers[some][-1]) + 1, len(self.rows))
            return jury.answers(self.rows[:0], weights) if found is None else found

        return votes

    def poll(self, jury: Jury, rows: Index, weights: Array, classes: NDArray[Any]) -> Votes:
        """What every voter says about some rows."""
        inside, members, outside, others = self._split(rows)
        ours, theirs = jury.poll_left_out(members, weights, classes), jury.poll(self.rows[others], weights, classes)
        votes = np.concatenate([ours.votes, theirs.votes], axis=1)
        return Votes(ours.voters, ours.shares, votes[:, np.argsort(np.concatenate([inside, outside]))], classes)

    def cast(self, jury: Jury, rows: Index, weights: Array, k: int) -> CastVotes:
        """Who votes on some rows, by their numbers among all rows."""
        inside, members, outside, others = self._split(rows)
        ours, theirs = jury.cast_left_out(members, weights, k), jury.cast(self.rows[others], weights, k)
        order = np.argsort(np.concatenate([inside, outside]))
        voting = np.concatenate([ours.rows, theirs.rows])[order]
        parts = np.concatenate([ours.parts, theirs.parts], axis=1)[:, order]
        nearest = np.concatenate([ours.is_nearest, theirs.is_nearest], axis=1)[:, order]
        return CastVotes(ours.voters, self.members[voting], parts, nearest)


def _judge_blocks(numbers: Index, ask: Callable[[Index], Array]) -> Iterator[tuple[slice, Array]]:
    """Yield blocks of rows with the votes on them; several threads judge."""
    parts = [slice(start, start + _AT_ONCE) for start in range(0, len(numbers), _AT_ONCE)]
    ask = keep_device(ask)
    with worker_pool() as run:
        for some in (parts[i : i + _TOGETHER] for i in range(0, len(parts), _TOGETHER)):
            yield from zip(some, run(lambda part: ask(numbers[part]), some), strict=True)
