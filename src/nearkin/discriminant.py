"""A start worth learning from: a map that brings the neighbours of a row's class near and sends others away.

The map is found in closed form from a bounded sample of the rows seen, in which old ones fade. Some of them are
witnesses; with the weight ``w`` of each row by its label's plausibility, for every row x of the sample

    ``near += w w' (x - x')(x - x')' / 2`` over the nearest witnesses x' of its own class,
    ``far  += w w' (x - x')(x - x')' / 2`` over the nearest witnesses of other classes,

beside the weighted count and sum of each class. `near`, shrunk towards a multiple of the identity, is whitened; then
directions in which class means differ, and in which `far` is larger than `near`, are stretched, and all others are kept
at a fraction. ``w`` is the weight that the learner's loss gives to the margin of the votes of a row's neighbours: 1 for
the hinge, falling with the votes against the label for the rescaled hinge (Eq. 17).
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dtrtri

from nearkin.arrays import Array, Codes, Index
from nearkin.directions import principal_directions
from nearkin.gradual import Gradual, finish
from nearkin.kernels import worker_pool
from nearkin.kernels.neighbours import Neighbours, Panels, judge, pack, sum_by_class, sum_pairs
from nearkin.losses import Loss, RescaledHinge
from nearkin.rows import Rows
from nearkin.stored import ArrayOf, Count, Maybe, Number, Part, stored

__all__ = ["Discriminant", "Sample", "Sums", "Witnesses"]

#: Rows in the sample, unless there are more witnesses. Witnesses: their usual number, that for each class, the most.
_SAMPLE = 2048
_WITNESSES, _OF_EACH, _MOST_WITNESSES = 512, 10, 4096

#: Nearest witnesses that vote, and those of each kind that make a pair with a row.
_VOTERS, _PAIRS = 10, 10

#: Nearest witnesses that vote on a label in the end, when order counts and not speed; and its hinge without any vote.
_JUDGES, _CONTRADICTED = 30, 2.5

#: What is left of a direction that tells nothing, as a share of the best one's squared length.
_FLOOR = 0.07

#: What decides between directions that tell the same: far above rounding, far below what matters.
_TIE = 1e-6

#: Rows by which the first map is found: at least, for each feature, and at most; between these a quarter of all.
_ALL_ROWS, _ROWS_EACH_FEATURE, _MOST_ROWS = 1024, 16, 16_384

#: Rows between two renewals: a quarter of those seen within these limits; and rows after which old ones fade.
_FEWEST, _FARTHEST, _HORIZON = 64, 1024, 2048

#: Rows between two pauses on the way to a map.
_AT_ONCE = 256

#: Features beyond which the sample is kept as a sketch, and its size.
_WIDE, _SKETCH = 256, 256

#: Longest rows of a similarity.
_LONGEST = 10.0

#: Distances that one thread computes at a time.
_TABLE = 1 << 20


@dataclass(frozen=True)
class Sums:
    """Sums over the rows of a sample: by class their weight and sum, and the scatter of pairs of neighbours."""

    counts: Array
    totals: Array
    near: Array
    far: Array
    near_weight: float = 0.0
    far_weight: float = 0.0

    @classmethod
    def none(cls, n_classes: int, p: int) -> Sums:
        return cls(np.zeros(n_classes), np.zeros((n_classes, p)), np.zeros((p, p)), np.zeros((p, p)))

    @classmethod
    def pooled(cls, X: Array, codes: Codes) -> Sums:
        """Sums before there are neighbours: rows are compared with the mean of their class."""
        n_classes = int(codes.max()) + 1
        counts = np.bincount(codes, minlength=n_classes).astype(np.float64)
        totals = sum_by_class(X, codes, np.ones(len(X)), n_classes)
        rest = X - (totals / np.maximum(counts, 1.0)[:, None])[codes]
        return cls(counts, totals, rest.T @ rest, np.zeros((X.shape[1],) * 2), float(len(X)))

    def plus(self, X: Array, codes: Codes, weight: Array, witnesses: Witnesses, own: Index, other: Index) -> Sums:
        """Add rows, their weights and their nearest witnesses of both kinds."""
        n_classes = max(len(self.counts), int(codes.max(initial=0)) + 1)
        more = n_classes - len(self.counts)
        (near, near_weight), (far, far_weight) = _scatter(X, weight, witnesses, own[:, :_PAIRS], other[:, :_PAIRS])
        return Sums(
            np.pad(self.counts, (0, more)) + np.bincount(codes, weight, n_classes),
            np.pad(self.totals, ((0, more), (0, 0))) + sum_by_class(X, codes, weight, n_classes),
            self.near + near, self.far + far, self.near_weight + near_weight, self.far_weight + far_weight,
        )  # fmt: skip

    def find_map(self, r: int) -> Array:
        """The map of shape (r, p), the most telling directions first; the mean squared distance to a neighbour of the
        same class is 1. Before there are two classes, or anything to tell, it changes nothing.
        """
        p = len(self.near)
        live = self.counts > 0
        near = self.near / max(self.near_weight, np.finfo(np.float64).tiny)
        size = float(np.trace(near))
        if np.count_nonzero(live) < 2 or not 0.0 < size < np.inf or not np.isfinite(near).all():
            return np.eye(r, p)
        n_live = int(np.count_nonzero(np.diag(near) > 1e-12 * np.diag(near).max()))
        shrinkage = np.clip(n_live / max(1.0, self.counts.sum()), 0.1, 0.9)
        whole = (1.0 - shrinkage) * near
        whole[np.diag_indices(p)] += shrinkage * size / n_live
        white = _whiten(whole)
        share = self.counts[live] / self.counts[live].sum()
        means = self.totals[live] / self.counts[live][:, None]
        means = ((means - share @ means) @ white) * np.sqrt(share)[:, None]
        between = means.T @ means
        between /= max(float(np.linalg.eigvalsh(_smaller(means))[-1]), np.finfo(np.float64).tiny)
        near_white = white.T @ near @ white
        if self.far_weight > 0.0:
            between = 0.5 * (between + _excess(white.T @ self.far @ white, near_white))
        between += _TIE * near_white  # of directions that tell nothing those come first in which rows vary most
        if not np.isfinite(between).all():
            return np.eye(r, p)
        telling, turn = np.linalg.eigh(between)
        telling, turn = np.maximum(telling[::-1], 0.0), turn[:, ::-1]
        found = ((white @ turn) * np.sqrt(_FLOOR + telling / max(telling[0], np.finfo(np.float64).tiny))).T[:r]
        found /= np.sqrt(2.0 * np.vdot(found @ near, found))
        return found if np.isfinite(found).all() else np.eye(r, p)


def _scatter(X: Array, weight: Array, witnesses: Witnesses, *lists: Index) -> list[tuple[Array, float]]:
    """Half the weighted scatter of all pairs of a row with its witnesses, -1 for none, and the weight of all pairs.

    For every list of witnesses. With the weights C of all pairs, their sums by row D and by witness E, the scatter is
    ``X'(D X - C W) + W'(E W - C'X)``, the part of which that mixes both is half in each.
    """
    W = witnesses.rows
    centre = W.mean(axis=0)  # far from the origin little would be left of the differences
    X, W = X - centre, W - centre
    pulls, shares = sum_pairs(X, weight, W, witnesses.weight, lists)
    found, p = [], X.shape[1]
    crossed = X.T @ pulls.reshape(len(X), len(lists) * p)
    for i, share in enumerate(shares):
        mixed = crossed[:, i * p : (i + 1) * p]
        found.append((0.5 * (mixed + mixed.T + (W.T * share) @ W), float(share.sum())))
    return found


def _whiten(A: Array) -> Array:
    """A matrix B with ``B' A B = 1``, triangular where rounding has left A positive definite."""
    factor, failed = dpotrf(A, lower=0, clean=1)
    inverse, singular = dtrtri(factor, lower=0)
    if not failed and not singular:
        return inverse
    values, vectors = np.linalg.eigh(A)
    return vectors / np.sqrt(np.maximum(values, 1e-12 * values[-1]))


def _smaller(A: Array) -> Array:
    """The smaller one of ``A A'`` and ``A'A``, which have the same largest eigenvalue."""
    return A @ A.T if len(A) <= A.shape[1] else A.T @ A


def _excess(far: Array, near: Array) -> Array:
    """Where pairs of other classes scatter more than pairs of the own, both in whole; the largest excess is 1."""
    difference = far / max(np.trace(far), 1e-300) - near / max(np.trace(near), 1e-300)
    if not np.isfinite(difference).all():
        return np.zeros_like(difference)
    values, vectors = np.linalg.eigh(difference)
    values = np.maximum(values, 0.0)
    return (vectors * (values / max(values[-1], 1e-300))) @ vectors.T


@stored(
    rows=ArrayOf("m", "p", of="doubles"),
    codes=ArrayOf("m", of="codes", low=0),
    weight=ArrayOf("m", of="doubles", low=0.0, high=1.0),
    placed=ArrayOf("m", "r", dtype="T"),
)
@dataclass(frozen=True)
class Witnesses:
    """Rows that speak for their classes, with the weight of each, before and after the map."""

    rows: Array
    codes: Codes
    weight: Array
    placed: Array

    def vote(self, scores: Array) -> Codes:
        """Class with most votes of the witnesses with the largest scores, for every row of a table of scores."""
        classes, place = np.unique(self.codes, return_inverse=True)
        k = min(_VOTERS, len(place))
        nearest = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        votes = np.zeros((len(scores), len(classes)))
        np.add.at(votes, (np.arange(len(scores))[:, None], place[nearest]), self.weight[nearest])
        chosen: Codes = classes[votes.argmax(axis=1)]
        return chosen

    @cached_property
    def _panels(self) -> Panels:
        return pack(self.placed, self.codes, self.weight)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_panels"}

    def judge(self, mapped: Array, codes: Codes, k: int = _PAIRS, voters: tuple[int, ...] = (_VOTERS,)) -> Neighbours:
        """Nearest witnesses of both kinds of mapped rows, and margins; see `nearkin.kernels.neighbours.judge`."""
        panels = self._panels
        step = max(1, _TABLE // max(1, len(self.rows)))
        if len(mapped) <= step:
            return judge(mapped, codes, panels, k, voters)
        parts = [slice(start, start + step) for start in range(0, len(mapped), step)]
        with worker_pool() as run:
            found = run(lambda part: judge(mapped[part], codes[part], panels, k, voters), parts)
        *lists, margins = zip(*found, strict=True)
        own, other, near, far = (np.concatenate(part) for part in lists)
        return Neighbours(own, other, near, far, np.concatenate(margins, axis=1))


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
            room = _Room(self, n_new + _FARTHEST)
            room.take(n, n_new)
        rows, all_codes, all_keys = room.put(n, X[fits], codes[fits], keys[fits])
        return Sample(rows, all_codes, all_keys, n_seen, bars, room)

    def trimmed(self, least: int = _WITNESSES) -> Sample:
        """Keep what `choose` says."""
        kept, quotas = self.choose(least)
        bars = np.full(len(quotas), np.inf)
        np.minimum.at(bars, self.codes[kept], self.keys[kept])
        bars[np.ceil(self.n_seen) <= quotas] = -np.inf  # there is room for all
        bars[(quotas > 0) & np.isinf(bars)] = -np.inf  # there is room again
        return Sample(self.rows[kept], self.codes[kept], self.keys[kept], self.n_seen, bars)

    def choose(self, least: int) -> tuple[Index, Index]:
        """Rows of each class for which there is room, and how many may be: this, or more where classes are many."""
        room = max(least, min(_MOST_WITNESSES, _OF_EACH * int(np.count_nonzero(self.n_seen))))
        quotas = _share_room(self.n_seen, room)
        return _choose(self.codes, self.keys, quotas), quotas

    def times(self, share: float) -> Sample:
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
        return Sample(rows[first], owners[first], keys[first], n_seen, np.full(n_classes, -np.inf)).trimmed(_SAMPLE)


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


def _choose(codes: Codes, keys: Array, quotas: Index) -> Index:
    """The rows with the largest keys of each class, class by class."""
    order = np.lexsort((-keys, codes))
    first = np.searchsorted(codes[order], np.arange(len(quotas)))
    rank = np.arange(len(order)) - first[codes[order]]
    kept: Index = order[rank < quotas[codes[order]]]
    return kept


def _share_room(sizes: Array, room: int) -> Index:
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


def _draw_keys(seed: int, first: int, n: int, horizon: float) -> Array:
    """Keys of rows by their numbers in the stream: Gumbel numbers, which grow by 1 in every ``horizon`` rows."""
    number = np.arange(first, first + n, dtype=np.uint64)
    state = (number + np.uint64(seed % 2**32 * 2**20 + 1)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    uniform = ((state ^ (state >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return number / horizon - np.log(-np.log(np.clip(uniform, 1e-300, 1.0 - 2.0**-53)))


@stored(
    map=ArrayOf("r", "d", dtype="T"),
    sketch=Maybe(ArrayOf("p", "d", of="doubles"), else_equal=("p", "d")),
    length=Number(0.0, _LONGEST),
    sample=Part(Sample, p="p"),
    witnesses=Part(Witnesses, p="p", r="r", T="T"),
    loss=Part(RescaledHinge),
    seed=Count(),
    n_rows=Count(),
    next_row=Count(),
    n_base=Count(),
    base_seen=Maybe(ArrayOf(None, of="doubles", low=0.0)),
)
@dataclass(frozen=True)
class Discriminant:
    """The start of a learner: its map, and all that is needed to renew it as rows come.

    It changes only at certain numbers of rows along the stream (`next_row`), so that the chunks in which rows come do
    not matter. Nothing is ever written to; every change makes another one.

    A map of many rows takes milliseconds, as long as many small batches. So it is made from the sample as it was at the
    renewal before, a little with every batch, and is ready when it is needed. Which rows it is made from does not
    depend on how far it has come, so a start that was saved and loaded begins it anew.
    """

    map: Array
    sketch: Array | None
    #: Length to which mapped rows are brought, for similarities; 0 leaves theirs.
    length: float
    sample: Sample
    witnesses: Witnesses
    loss: Loss
    seed: int
    n_rows: int
    next_row: int
    #: Rows of the sample, the first ones, from which the next map is made, and how many of each class had been seen by
    #: then; 0 for all rows, at the renewal itself.
    n_base: int = 0
    base_seen: Array | None = None
    making: Gradual[Array] | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "making": None}

    def check_stored(self) -> None:
        """Classes, witnesses and directions are some of those that there are; rows were counted, and more may come."""
        n_classes, n_seen = len(self.sample.n_seen), float(self.sample.n_seen.sum())
        codes = self.witnesses.codes
        if not len(codes) or codes.max() >= n_classes:
            raise ValueError(f"there are no witnesses, or some of more than the {n_classes} classes seen")
        if (np.diff(codes) < 0).any():
            raise ValueError("witnesses are not ordered by class")
        if len(self.map) > self.sample.rows.shape[1]:
            raise ValueError(f"a map to {len(self.map)} features is made from {self.sample.rows.shape[1]}")
        if not max(len(self.sample.rows), n_seen * (1.0 - 1e-9)) <= self.n_rows < self.next_row:
            raise ValueError(
                f"of {self.n_rows} rows seen, {len(self.sample.rows)} are in the sample and {n_seen:g} were counted by "
                f"class; the next renewal is at {self.next_row}"
            )
        n_base, seen = self.n_base, self.base_seen
        if n_base and (n_base > len(self.sample.rows) or seen is None or self.sample.codes[:n_base].max() >= len(seen)):
            raise ValueError(f"the next map is made from {n_base} rows, which the sample does not have")

    @classmethod
    def begin(
        cls, rows: Rows, codes: Codes, r: int, is_unit: bool, loss: Loss, rng: np.random.Generator
    ) -> Discriminant:
        """Find the map of the first rows."""
        seed, n = int(rng.integers(2**31)), len(rows)
        keys = _draw_keys(seed, 0, n, np.inf) + n / _HORIZON  # no row of the first batch is later than another
        most = min(_MOST_ROWS, max(_ALL_ROWS, _ROWS_EACH_FEATURE * min(rows.n_features, _WIDE), n // 4))
        n_seen = np.bincount(codes).astype(np.float64)
        which = np.sort(_choose(codes, keys, _share_room(n_seen, most)))
        sketch = _find_sketch(rows, r, rng) if rows.n_features > _WIDE else None
        X, y = _look(rows.take(which), sketch), codes[which]
        whole = Sample(X, y, keys[which], np.bincount(y).astype(np.float64), np.full(int(y.max()) + 1, -np.inf))
        nothing = Witnesses(X[:0], codes[:0], np.zeros(0), np.empty((0, r), rows.dtype))
        made = cls(np.empty((r, 0), rows.dtype), sketch, float(is_unit), whole, nothing, loss, seed, n, 0)
        inner = finish(made._find_map(n))
        sample = replace(whole, n_seen=n_seen).trimmed(_SAMPLE)
        return replace(made, sample=sample)._with_map(inner)

    def _find_map(self, at_once: int) -> Generator[None, None, Array]:
        """The map by the rows of the sample, in rounds: weigh rows, find neighbours, then the map.

        The first round sees the witnesses only, the second all rows. It pauses after that many rows.
        """
        X, y, r = self.sample.rows, self.sample.codes, len(self.map)
        at, _ = self.sample.choose(_WITNESSES)
        at = at[np.lexsort((at, y[at]))]
        weight: Array = np.ones(len(X))
        sums = Sums.pooled(X[at], y[at])
        inner = sums.find_map(r)
        yield
        for some in (at, np.arange(len(X))):
            placed = _place(X[some], inner, self.length)
            by = placed if some is at else placed[at]
            witnesses = Witnesses(X[at], y[at], weight[at], by)
            parts = [slice(start, start + at_once) for start in range(0, len(some), at_once)]
            found = []
            for part in parts:
                found.append(witnesses.judge(placed[part], y[some[part]]))
                yield
            weight[some] = self.loss.plausibility(np.concatenate([one.margins[0] for one in found]))
            witnesses = replace(witnesses, weight=weight[at])
            seen = Sums.none(len(sums.counts), X.shape[1])
            for part, one in zip(parts, found, strict=True):
                rows = some[part]
                seen = seen.plus(X[rows], y[rows], weight[rows], witnesses, one.own, one.other)
                yield
            if seen.near_weight > 0.0:
                sums = seen
            inner = sums.find_map(r)
            yield
        return inner

    def _find_next_map(self) -> Generator[None, None, Array]:
        """The map that follows, turned so that it is as near to this one as it can be."""
        base, n = self.sample, self.n_base
        if n and self.base_seen is not None:
            base = Sample(base.rows[:n], base.codes[:n], base.keys[:n], self.base_seen, base.bars)
        else:
            base = base.trimmed(_SAMPLE)
        inner = yield from replace(self, sample=base)._find_map(_AT_ONCE)
        whole = inner if self.sketch is None else inner @ self.sketch
        both = self.map.astype(np.float64) @ whole.T
        if np.isfinite(both).all():
            left, _, right = np.linalg.svd(both)
            inner = (left @ right) @ inner
        return inner

    def _with_map(self, inner: Array) -> Discriminant:
        """Place the witnesses by a new map and weigh them by each other."""
        dtype = self.map.dtype
        if not np.abs(inner).max() < 1e-2 * float(np.finfo(dtype).max) ** 0.5:  # of rows all but 0
            inner = np.eye(*inner.shape)
        whole = (inner if self.sketch is None else inner @ self.sketch).astype(dtype)
        chosen = self.sample.trimmed()
        length = float(self.length > 0.0)
        placed = _place(chosen.rows, inner, length)
        witnesses = Witnesses(chosen.rows, chosen.codes, np.ones(len(placed)), placed)
        found = witnesses.judge(placed, chosen.codes)
        witnesses = replace(witnesses, weight=self.loss.plausibility(found.margins[0]))
        if length:
            nearest = found.near[:, 0][found.own[:, 0] >= 0]
            mean = float(nearest.mean()) if len(nearest) else 1.0
            length = float(np.clip(1.0 / np.sqrt(max(mean, 1e-300)), 1.0, _LONGEST))
        witnesses = replace(witnesses, placed=(placed * (length or 1.0)).astype(dtype))
        step = int(np.clip(self.n_rows // 4, _FEWEST, _FARTHEST))
        return replace(
            self, map=np.ascontiguousarray(whole), length=length, witnesses=witnesses, next_row=self.n_rows + step
        )

    def place(self, rows: Array) -> Array:
        """Scaled rows as the learner sees them."""
        return _place(rows, self.map, self.length)

    def judge(self, mapped: Array, codes: Codes) -> tuple[Neighbours, Array, Array]:
        """Nearest witnesses of mapped rows, of their own class and of others; the weight and the score of each row.

        The score is that of `score_labels`.
        """
        found = self.witnesses.judge(mapped, codes, voters=(_VOTERS, _JUDGES))
        return found, self.loss.plausibility(found.margins[0]), self._score(found.margins[1])

    def score_labels(self, mapped: Array, codes: Codes) -> Array:
        """How plausible the labels of mapped rows are by the votes of more witnesses.

        Every vote against a label counts, so few labels are equally plausible.
        """
        return self._score(self.witnesses.judge(mapped, codes, 0, (_JUDGES,)).margins[0])

    def _score(self, margin: Array) -> Array:
        return self.loss.plausibility(1.0 - _CONTRADICTED * (1.0 - (margin + 1.5) / 4.0))

    def observe(self, rows: Rows, codes: Codes) -> Discriminant:
        """Take in the next rows of the stream, of which none is beyond `next_row`; the map stays."""
        sample, n = self.sample, self.n_rows
        is_shard = self.next_row - n > _FARTHEST  # one that is not renewed is trimmed as well
        for part, block in rows.blocks():
            X, y = _look(block, self.sketch), codes[part]
            keys = _draw_keys(self.seed, n, len(y), _HORIZON)
            while len(y):
                stop = _FARTHEST - n % _FARTHEST if is_shard else len(y)
                sample = sample.plus(X[:stop], y[:stop], keys[:stop])
                n += len(y[:stop])
                sample = sample.trimmed(_SAMPLE) if is_shard and n % _FARTHEST == 0 else sample
                X, y, keys = X[stop:], y[stop:], keys[stop:]
        seen = replace(self, sample=sample, n_rows=n)
        if not self.n_base or n >= self.next_row:
            return seen
        n_pauses = 5 + (self.n_base + _WITNESSES) // (_AT_ONCE // 2) * 9 // 8  # more than there are: ready in time
        making = self.making or Gradual(seen._find_next_map, n_pauses)
        making.advance((n - self.n_rows) / (self.next_row - self.n_rows))
        return replace(seen, making=making)

    def renewed(self) -> Discriminant:
        """The start with its next map, and witnesses among the rows seen until now."""
        made = replace(self, sample=self.sample.trimmed(_SAMPLE), n_base=0, base_seen=None, making=None)
        is_whole = len(made.sample.rows) == self.n_rows
        inner = finish(self._find_next_map()) if self.making is None else self.making.finish()
        made = made._with_map(inner)
        if len(made.sample.rows) > _WITNESSES:
            made = replace(made, n_base=len(made.sample.rows), base_seen=made.sample.n_seen)
        if is_whole:
            return made
        return replace(made, sample=made.sample.times(np.exp(-float(made.next_row - made.n_rows) / _HORIZON)))

    def rescaled(self, ratio: Array) -> Discriminant:
        """The same map of raw rows, for rows whose features are that many times as large."""
        map = np.ascontiguousarray((self.map / ratio).astype(self.map.dtype))
        if self.sketch is not None:
            return replace(self, map=map, sketch=self.sketch / ratio, making=None)
        sample = replace(self.sample, rows=self.sample.rows * ratio, room=None)
        witnesses = replace(self.witnesses, rows=self.witnesses.rows * ratio)
        return replace(self, map=map, sample=sample, witnesses=witnesses, making=None)

    def turn_from(self, before: Discriminant) -> Array:
        """The matrix that brings rows mapped by an earlier map to this one, as nearly as can be.

        Those of one length keep it in the mean.
        """
        matrix = self.map @ np.linalg.pinv(before.map)
        if self.length > 0.0:
            turned = before.witnesses.placed @ matrix.T
            matrix *= self.length / np.sqrt(max(1e-300, float((turned**2).sum(axis=1).mean())))
        return matrix

    @staticmethod
    def n_bytes(d: int, r: int, n_classes: int, itemsize: int) -> int:
        """Most bytes that a start takes: map and sketch, sample and witnesses."""
        p = d if d <= _WIDE else min(max(_SKETCH, r), d)
        most = min(_MOST_WITNESSES, _OF_EACH * n_classes)
        n, n_witnesses = max(_SAMPLE, most) + _FARTHEST, max(_WITNESSES, most)
        maps = r * d * itemsize + (p * d * 8 if d > _WIDE else 0)
        return maps + n * (p + 2) * 8 + n_witnesses * ((p + 2) * 8 + r * itemsize)

    def for_shard(self, number: int) -> Discriminant:
        """One that keeps its map, and draws keys of its own."""
        return replace(self, next_row=2**52, seed=self.seed + 1 + number, n_base=0, base_seen=None, making=None)

    def merged(self, shards: Sequence[Discriminant], codes: Sequence[Codes], n_classes: int) -> Discriminant:
        """The start of all rows that the shards have seen; the map stays until it is renewed."""
        return replace(
            self,
            sample=self.sample.merged([one.sample for one in shards], codes, n_classes),
            n_rows=self.n_rows + sum(one.n_rows - self.n_rows for one in shards),
            n_base=0,
            base_seen=None,
            making=None,
        )


def _place(rows: Array, map: Array, length: float) -> Array:
    placed: Array = rows @ map.T
    if length > 0.0:
        own = np.sqrt(np.einsum("ij,ij->i", placed, placed))
        placed *= (length / np.where(own > 0.0, own, 1.0)).astype(placed.dtype)[:, None]
    return placed


def _look(block: Array, sketch: Array | None) -> Array:
    """Rows in double precision, as sums see them."""
    return block.astype(np.float64, copy=False) if sketch is None else block @ sketch.T


def _find_sketch(rows: Rows, r: int, rng: np.random.Generator) -> Array:
    """Principal directions of the first rows; columns that are still constant get a small random place."""
    found = principal_directions(rows, min(max(_SKETCH, r), rows.n_features), rng)
    asleep = ~found.any(axis=0)
    found[:, asleep] = rng.standard_normal((len(found), int(asleep.sum()))) / np.sqrt(len(found))
    return found
