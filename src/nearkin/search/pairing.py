"""Comparisons that feedback implies: what was clicked beside what was skipped, or beside random items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from nearkin.arrays import Index
from nearkin.memory import check_memory

if TYPE_CHECKING:
    from nearkin.search.feedback import Feedback

__all__ = ["PAIR_BYTES", "pair_with_random", "pair_within_lists"]

#: Most bytes that it takes to draw one random item.
PAIR_BYTES = 100.0

#: Longest list whose pairs are all formed; most pairs formed at once.
_LONG = 64
_PAIRS = 1 << 22

#: Number of a list, its clicked item and the skipped one, of every pair.
Pairs = tuple[Index, Index, Index]


def pair_within_lists(feedback: Feedback, rng: np.random.Generator, most: int) -> Iterator[Pairs]:
    """Yield pairs of a clicked and a skipped item of the same list, at most ``most`` per list."""
    lengths = np.diff(feedback.start)
    for length in np.unique(lengths[lengths <= _LONG]):
        same = np.flatnonzero(lengths == length)
        step = max(1, _PAIRS // max(1, int(length) ** 2))
        for begin in range(0, len(same), step):
            yield _pair_equally_long(feedback, same[begin : begin + step], int(length), rng, most)
    for one in np.flatnonzero(lengths > _LONG):
        yield _draw_from_long(feedback, int(one), rng, most)


def _pair_equally_long(
    feedback: Feedback, lists: Index, length: int, rng: np.random.Generator, most: int
) -> Pairs:  # fmt: skip
    rows = feedback.start[lists][:, None] + np.arange(length)
    relevant = feedback.relevant[rows]
    allowed = relevant[:, :, None] & ~relevant[:, None, :]
    if feedback.ranked:
        above = np.tri(length, k=-1, dtype=bool)
        n_skipped = np.cumsum(~relevant, axis=1)  # the next skipped item raises the count by one
        following = (n_skipped[:, None, :] == n_skipped[:, :, None] + 1) & ~above
        allowed &= above | following
    at, better, worse = np.nonzero(allowed)
    if len(at) and np.bincount(at).max() > most:
        shuffled = np.lexsort((rng.random(len(at)), at))
        begin = np.concatenate([[0], np.cumsum(np.bincount(at))])
        first = np.arange(len(at)) - begin[at] < most  # `at` is sorted, and so is at[shuffled]
        chosen = np.sort(shuffled[first])
        at, better, worse = at[chosen], better[chosen], worse[chosen]
    return lists[at], feedback.item[rows[at, better]], feedback.item[rows[at, worse]]


def _draw_from_long(feedback: Feedback, at: int, rng: np.random.Generator, most: int) -> Pairs:
    rows = np.arange(feedback.start[at], feedback.start[at + 1])
    clicked, other = rows[feedback.relevant[rows]], rows[~feedback.relevant[rows]]
    if feedback.ranked:  # users have surely seen only what stands above the last click
        other = other[other < clicked.max(initial=-1)]
    n_pairs = len(clicked) * len(other)
    drawn = rng.integers(0, n_pairs, size=most) if n_pairs else np.empty(0, np.int64)
    better, worse = clicked[drawn // max(1, len(other))], other[drawn % max(1, len(other))]
    if feedback.ranked:
        better, worse = better[worse < better], worse[worse < better]
    return np.full(len(better), at, dtype=np.int64), feedback.item[better], feedback.item[worse]


def pair_with_random(feedback: Feedback, rng: np.random.Generator, n_random: int) -> Pairs:
    """Pair every click with ``n_random`` random items, except those that some list calls relevant to the query."""
    clicks = np.flatnonzero(feedback.relevant)
    what = f"{n_random:,} random items for {len(clicks):,} clicks"
    check_memory(PAIR_BYTES * len(clicks) * n_random, what, "Lower `n_random`.", "feedback")
    rows = np.repeat(clicks, n_random)
    drawn = rng.integers(0, feedback.n_items, size=len(rows))
    query = feedback.row_query
    known = np.unique(query[clicks] * feedback.n_items + feedback.item[clicks])
    key = query[rows] * feedback.n_items + drawn
    sound = known[np.minimum(np.searchsorted(known, key), len(known) - 1)] != key
    at = np.repeat(np.arange(len(feedback)), np.diff(feedback.start))[rows]
    return at[sound], feedback.item[rows[sound]], drawn[sound]
