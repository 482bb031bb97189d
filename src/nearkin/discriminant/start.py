"""The start of a learner: the map of a sample, renewed as rows come."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nearkin.arrays import Array, Codes
from nearkin.directions import principal_directions
from nearkin.discriminant.sample import (
    FARTHEST,
    SAMPLE,
    WITNESSES,
    Sample,
    choose_rows,
    draw_keys,
    most_witnesses,
    share_room,
)
from nearkin.discriminant.sums import Sums
from nearkin.discriminant.witnesses import VOTERS, Witnesses
from nearkin.gradual import Gradual, finish
from nearkin.kernels.neighbours import Neighbours
from nearkin.losses import Loss, RescaledHinge
from nearkin.rows import Rows
from nearkin.stored import ArrayOf, Count, Maybe, Number, Part, stored

__all__ = ["Discriminant"]

#: Nearest witnesses that vote on a label in the end, when order counts and not speed; and its hinge without any vote.
_JUDGES, _CONTRADICTED = 30, 2.5

#: Rows by which the first map is found: at least, for each feature, and at most; between these a quarter of all.
_ALL_ROWS, _ROWS_EACH_FEATURE, _MOST_ROWS = 1024, 16, 16_384

#: Fewest rows between two renewals, which take a quarter of those seen; and rows after which old ones fade.
_FEWEST, _HORIZON = 64, 2048

#: Rows between two pauses on the way to a map.
_AT_ONCE = 256

#: Features beyond which the sample is kept as a sketch, and its size.
_WIDE, _SKETCH = 256, 256

#: Longest rows of a similarity.
_LONGEST = 10.0


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
        keys = draw_keys(seed, 0, n, np.inf) + n / _HORIZON  # no row of the first batch is later than another
        most = min(_MOST_ROWS, max(_ALL_ROWS, _ROWS_EACH_FEATURE * min(rows.n_features, _WIDE), n // 4))
        n_seen = np.bincount(codes).astype(np.float64)
        which = np.sort(choose_rows(codes, keys, share_room(n_seen, most)))
        sketch = _find_sketch(rows, r, rng) if rows.n_features > _WIDE else None
        X, y = _look(rows.take(which), sketch), codes[which]
        whole = Sample(X, y, keys[which], np.bincount(y).astype(np.float64), np.full(int(y.max()) + 1, -np.inf))
        nothing = Witnesses(X[:0], codes[:0], np.zeros(0), np.empty((0, r), rows.dtype))
        made = cls(np.empty((r, 0), rows.dtype), sketch, float(is_unit), whole, nothing, loss, seed, n, 0)
        inner = finish(made._find_map(n))
        sample = replace(whole, n_seen=n_seen).trimmed(SAMPLE)
        return replace(made, sample=sample)._with_map(inner)

    def _find_map(self, at_once: int) -> Generator[None, None, Array]:
        """The map by the rows of the sample, in rounds: weigh rows, find neighbours, then the map.

        The first round sees the witnesses only, the second all rows. It pauses after that many rows.
        """
        X, y, r = self.sample.rows, self.sample.codes, len(self.map)
        at, _ = self.sample.choose(WITNESSES)
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
            base = base.trimmed(SAMPLE)
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
        step = int(np.clip(self.n_rows // 4, _FEWEST, FARTHEST))
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
        found = self.witnesses.judge(mapped, codes, voters=(VOTERS, _JUDGES))
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
        is_shard = self.next_row - n > FARTHEST  # one that is not renewed is trimmed as well
        for part, block in rows.blocks():
            X, y = _look(block, self.sketch), codes[part]
            keys = draw_keys(self.seed, n, len(y), _HORIZON)
            while len(y):
                stop = FARTHEST - n % FARTHEST if is_shard else len(y)
                sample = sample.plus(X[:stop], y[:stop], keys[:stop])
                n += len(y[:stop])
                sample = sample.trimmed(SAMPLE) if is_shard and n % FARTHEST == 0 else sample
                X, y, keys = X[stop:], y[stop:], keys[stop:]
        seen = replace(self, sample=sample, n_rows=n)
        if not self.n_base or n >= self.next_row:
            return seen
        n_pauses = 5 + (self.n_base + WITNESSES) // (_AT_ONCE // 2) * 9 // 8  # more than there are: ready in time
        making = self.making or Gradual(seen._find_next_map, n_pauses)
        making.advance((n - self.n_rows) / (self.next_row - self.n_rows))
        return replace(seen, making=making)

    def renewed(self) -> Discriminant:
        """The start with its next map, and witnesses among the rows seen until now."""
        made = replace(self, sample=self.sample.trimmed(SAMPLE), n_base=0, base_seen=None, making=None)
        is_whole = len(made.sample.rows) == self.n_rows
        inner = finish(self._find_next_map()) if self.making is None else self.making.finish()
        made = made._with_map(inner)
        if len(made.sample.rows) > WITNESSES:
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
        most = most_witnesses(n_classes)
        n, n_witnesses = max(SAMPLE, most) + FARTHEST, max(WITNESSES, most)
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
