"""A bounded sample of a stream with equally many rows of each class."""

from __future__ import annotations

import copy

import numpy as np

from nearkin.arrays import Array, Codes
from nearkin.stored import ArrayOf, Count, Draws, Maybe, Number, stored

__all__ = ["Reservoir"]


@stored(
    n_per_class=Count(1),
    max_rows=Count(1),
    rng=Draws(),
    rows=ArrayOf("n", "d"),
    codes=ArrayOf("n", of="codes", low=0, below="c"),
    numbers=ArrayOf("n", of="codes", low=0),
    seen=ArrayOf("c", of="codes", low=0),
    n_rows_seen=Count(),
    n_changes=Count(),
    half_life=Maybe(Number(1.0)),
)
class Reservoir:
    """Rows of a stream, at most ``n_per_class`` of each class and ``max_rows`` in all.

    Within a class every row of the stream is held with the same probability (Vitter's algorithm R); with a
    ``half_life`` in rows of the stream, one that came so much earlier than another with half of it. When classes become
    many, each may hold fewer, and surplus rows are dropped at random.

    ``rows``, ``codes`` and ``numbers`` are the rows held, their classes and their numbers in the stream; ``n_changes``
    rows came in so far. Every class may hold at least one.
    """

    half_life: float | None = None

    def __init__(self, n_per_class: int, max_rows: int, rng: np.random.Generator, half_life: float | None = None):
        self.n_per_class, self.max_rows, self.rng, self.half_life = n_per_class, max_rows, rng, half_life
        self.rows: Array = np.empty((0, 0))
        self.codes = np.empty(0, dtype=np.int64)
        self.numbers = np.empty(0, dtype=np.int64)
        self.seen = np.empty(0, dtype=np.int64)
        self.n_rows_seen = 0
        self.n_changes = 0

    def __len__(self) -> int:
        return len(self.codes)

    def copy(self) -> Reservoir:
        """Return one that goes on while this one stays; both share arrays, which are never written to."""
        other = copy.copy(self)
        other.rng, other.seen = copy.deepcopy(self.rng), self.seen.copy()
        return other

    @property
    def share(self) -> int:
        """Rows that a class may hold now."""
        return min(self.n_per_class, max(1, self.max_rows // max(1, len(self.seen))))

    def add(self, rows: Array, codes: Codes) -> None:
        """Offer the next rows of the stream."""
        grown = int(codes.max()) + 1 - len(self.seen)
        if grown > 0:
            self.seen = np.concatenate([self.seen, np.zeros(grown, dtype=np.int64)])
        self._shrink()
        share = self.share
        places = {int(code): np.flatnonzero(self.codes == code).tolist() for code in np.unique(codes)}
        # Position of every row that comes in; those from len(self) on are new, and a later row may replace an earlier
        # one.
        taken: dict[int, int] = {}
        free = len(self)
        for row, code in enumerate(codes.tolist()):
            self.seen[code] += 1
            held = places[code]
            if len(held) < share:
                held.append(free)
                taken[free] = row
                free += 1
            elif (drawn := int(self.rng.integers(self._n_among(code, row, share)))) < share:
                taken[held[drawn]] = row
        self._put(taken, free, rows, codes)
        self.n_rows_seen += len(codes)

    def _n_among(self, code: int, row: int, share: int) -> int:
        """Rows among which those held are drawn: all of a class, or about as many as count."""
        n = int(self.seen[code])
        if self.half_life is None:
            return n
        part = n / (self.n_rows_seen + row + 1)
        return min(n, max(share, round(self.half_life * part / np.log(2.0))))

    def _shrink(self) -> None:
        """Drop surplus rows of classes that hold more than they may."""
        size = np.bincount(self.codes, minlength=len(self.seen))
        drop = [
            self.rng.permutation(np.flatnonzero(self.codes == code))[self.share :]
            for code in np.flatnonzero(size > self.share)
        ]
        if drop:
            kept = np.setdiff1d(np.arange(len(self)), np.concatenate(drop))
            self.rows, self.codes, self.numbers = self.rows[kept], self.codes[kept], self.numbers[kept]

    def _put(self, taken: dict[int, int], size: int, rows: Array, codes: Codes) -> None:
        if not taken:
            return
        at, which = np.array(list(taken)), np.array(list(taken.values()))
        new = size - len(self)
        empty = np.empty((new, rows.shape[1]), rows.dtype)
        self.rows = (
            np.concatenate([self.rows, empty]) if self.rows.size else np.empty((size, rows.shape[1]), rows.dtype)
        )
        self.codes = np.concatenate([self.codes, np.zeros(new, dtype=np.int64)])
        self.numbers = np.concatenate([self.numbers, np.zeros(new, dtype=np.int64)])
        self.rows[at], self.codes[at], self.numbers[at] = rows[which], codes[which], self.n_rows_seen + which
        self.n_changes += len(at)
