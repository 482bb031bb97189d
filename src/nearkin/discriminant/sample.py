"""A bounded sample of the rows of a stream, in which old ones fade and every class has its share."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array, Codes, Index
from nearkin.stored import ArrayOf, stored

__all__ = ["FARTHEST", "SAMPLE", "WITNESSES", "Sample", "choose_rows", "draw_keys", "most_witnesses", "share_room"]

#: Rows in the sample, unless there are more witnesses. Witnesses: their usual number, that for each class, the most.
SAMPLE = 2048
WITNESSES, _OF_EACH, _MOST_WITNESSES = 512, 10, 4096

#: Most rows between two renewals.
FARTHEST = 1024


@stored(
    rows=ArrayOf("m", "p", of="doubles"),
    codes=ArrayOf("m", of="codes", low=0, below="K"),
    keys=ArrayOf("m", of="doubles"),
    n_seen=ArrayOf("K", of="doubles", low=0.0),
    bars=ArrayOf("K", of="doubles", is_finite=False),
)
@dataclass(frozen=True)
class Sample:
    """A sample of the rows seen: those with the largest keys of each class. Later rows have larger keys by and by.

    ``bars`` are keys below which a row of the class cannot get in.
    """

    rows: Array
    codes: Codes
    keys: Array
    n_seen: Array
    bars: Array
    room: _Room | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "room": None}

    def plus(self, X: Array, codes: Codes, keys: Array) -> Sample:
        """Return the sample with those of the rows whose keys are above the bars of their classes."""
        n_classes = max(len(self.n_seen), int(codes.max(initial=0)) + 1)
        more = n_classes - len(self.n_seen)
        bars, n_seen = self.bars, np.bincount(codes, minlength=n_classes).astype(np.float64)
        n_seen[: len(self.n_seen)] += self.n_seen
        if more:
            bars = np.pad(bars, (0, more), constant_values=-np.inf)
        fits = keys > bars[codes]
        if not fits.any():
            return replace(self, n_seen=n_seen, bars=bars)
        n, n_new, room = len(self.codes), int(fits.sum()), self.room
        if room is None or not room.take(n, n_new):
            room = _Room(self, n_new + FARTHEST)
            room.take(n, n_new)
        rows, all_codes, all_keys = room.put(n, X[fits], codes[fits], keys[fits])
        return Sample(rows, all_codes, all_keys, n_seen, bars, room)

    def trimmed(self, least: int = WITNESSES) -> Sample:
        """Keep what `choose` says."""
        kept, quotas = self.choose(least)
        bars = np.full(len(quotas), np.inf)
        np.minimum.at(bars, self.codes[kept], self.keys[kept])
        bars[np.ceil(self.n_seen) <= quotas] = -np.inf  # there is room for all
        bars[(quotas > 0) & np.isinf(bars)] = -np.inf  # there is room again
        return Sample(self.rows[kept], self.codes[kept], self.keys[kept], self.n_seen, bars)

    def choose(self, least: int) -> tuple[Index, Index]:
        """Rows of each class for which there is room, and how many may be: this, or more where classes are many."""
        room = max(least, most_witnesses(int(np.count_nonzero(self.n_seen))))
        quotas = share_room(self.n_seen, room)
        return choose_rows(self.codes, self.keys, quotas), quotas

    def times(self, share: float) -> Sample:
        """Return the sample with the counts of rows seen faded to this share."""
        return replace(self, n_seen=share * self.n_seen)

    def merged(self, shards: Sequence[Sample], codes: Sequence[Codes], n_classes: int) -> Sample:
        """The sample of all rows that the shards have seen, each of which began with this one."""
        parts = [(one.rows, table[one.codes], one.keys) for one, table in zip(shards, codes, strict=True)]
        rows, owners, keys = (np.concatenate(part) for part in zip(*parts, strict=True))
        together = np.column_stack([rows, owners, keys])
        _, first = np.unique(together, axis=0, return_index=True)  # what they began with counts once
        first.sort()
        n_seen = np.zeros(n_classes)
        n_seen[: len(self.n_seen)] = self.n_seen
        for one, table in zip(shards, codes, strict=True):
            before = np.pad(self.n_seen, (0, len(one.n_seen) - len(self.n_seen)))
            np.add.at(n_seen, table[: len(one.n_seen)], one.n_seen - before)
        return Sample(rows[first], owners[first], keys[first], n_seen, np.full(n_classes, -np.inf)).trimmed(SAMPLE)


class _Room:
    """Memory for the rows of a sample and of those that follow from it, so that a batch does not copy them all.

    A sample sees the first rows of its room, which are never written again. Behind them only one other may begin.
    """

    _lock = threading.Lock()

    def __init__(self, sample: Sample, n_more: int):
        n = self.n_taken = len(sample.codes)
        self._arrays = []
        for one in (sample.rows, sample.codes, sample.keys):
            self._arrays.append(np.empty((n + n_more, *one.shape[1:]), one.dtype))
            self._arrays[-1][:n] = one

    def take(self, n: int, n_more: int) -> bool:
        """Reserve the rows behind the first n, unless another sample has them or there are too few."""
        with self._lock:
            is_free = self.n_taken == n and n + n_more <= len(self._arrays[0])
            if is_free:
                self.n_taken = n + n_more
            return is_free

    def put(self, n: int, *more: NDArray[Any]) -> list[NDArray[Any]]:
        """Write rows behind the first n, and return all until there."""
        for one, new in zip(self._arrays, more, strict=True):
            one[n : n + len(new)] = new
        return [one[: n + len(more[0])] for one in self._arrays]


def choose_rows(codes: Codes, keys: Array, quotas: Index) -> Index:
    """The rows with the largest keys of each class, class by class."""
    order = np.lexsort((-keys, codes))
    first = np.searchsorted(codes[order], np.arange(len(quotas)))
    rank = np.arange(len(order)) - first[codes[order]]
    kept: Index = order[rank < quotas[codes[order]]]
    return kept


def most_witnesses(n_classes: int) -> int:
    """Rows that all classes together may have beyond the usual number."""
    return min(_MOST_WITNESSES, _OF_EACH * n_classes)


def share_room(sizes: Array, room: int) -> Index:
    """Half of the room by size, half to all classes alike, to none more than it has; what is left goes round again."""
    whole: Index = np.ceil(sizes).astype(np.int64)
    quotas: Index = np.zeros_like(whole)
    for _ in range(8):
        wants = quotas < whole
        left = room - quotas.sum()
        if left <= 0 or not wants.any():
            break
        share = left * (0.5 * wants / wants.sum() + 0.5 * whole * wants / (whole * wants).sum())
        quotas = np.minimum(whole, quotas + np.ceil(share).astype(np.int64))
    if np.count_nonzero(quotas) > room:  # one row of each class would be too many
        quotas[np.argsort(-sizes, kind="stable")[room:]] = 0
        quotas = np.minimum(quotas, 1)
    return quotas


def draw_keys(seed: int, first: int, n: int, horizon: float) -> Array:
    """Keys of rows by their numbers in the stream: Gumbel numbers, which grow by 1 in every ``horizon`` rows."""
    number = np.arange(first, first + n, dtype=np.uint64)
    state = (number + np.uint64(seed % 2**32 * 2**20 + 1)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    uniform = ((state ^ (state >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return number / horizon - np.log(-np.log(np.clip(uniform, 1e-300, 1.0 - 2.0**-53)))
