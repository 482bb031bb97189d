"""Columns that were constant in the first batch of a stream, and get a scale when they vary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from nearkin.arrays import Array, Index, Mask
from nearkin.stored import ArrayOf, stored

__all__ = ["MOMENT_NUMBERS", "STRETCH", "LateColumns"]

#: Numbers in double precision from which moments are taken at once.
MOMENT_NUMBERS = 1 << 20

#: Fewest rows, from the first in which a late column varies, from which its scale is learned: fewer could be far too
#: near to each other by chance.
_LATE_ROWS = 8

#: What other columns say of the scale of one that has just begun counts like that many rows, and changes it by at
#: most that much.
_AS_ROWS = 2
_AT_MOST = 4.0

#: Columns wake only where the number of rows of the stream is a multiple of this, so that chunks do not matter.
STRETCH = 64


@stored(
    columns=ArrayOf("k", of="codes", low=0),
    value=ArrayOf("k"),
    group=ArrayOf("k", of="codes"),
    unit=ArrayOf("k", low=0.0),
    n_rows=ArrayOf("k", of="codes", low=0, high=2**53),
    root=ArrayOf("k", low=0.0, is_finite=False),
    is_awake=ArrayOf("k", of="flags"),
    moving=ArrayOf("m", of="codes", low=0, below="k"),
    recent=ArrayOf(None, "m", of="doubles", is_finite=False),
)
@dataclass(frozen=True)
class LateColumns:
    """Columns that were constant in the first batch, and what was seen of them since they first varied.

    Examples
    --------
    >>> from nearkin.rows import Scaling
    >>> scaling = Scaling.learn(np.array([[0.0, 5.0], [2.0, 5.0]]), "unit")
    >>> *_, change = scaling.follow(np.array([[1.0, 4.0], [1.0, 6.0]] * 40), 2)
    >>> scaling.factor.tolist(), change.scaling.factor.tolist()
    ([1.0, 0.0], [1.0, 1.0])
    """

    columns: Index
    value: Array
    #: Columns of one group share a unit, what one standard deviation becomes; 0 while nothing varies in the group.
    group: Index
    unit: Array
    #: Rows since the column first varied, and the root of the sum of their squared deviations from its value, up to the
    #: end of the last stretch.
    n_rows: Index
    root: Array
    is_awake: Mask
    #: Places of the columns that have varied and sleep, in order, and their deviations in the rows since.
    moving: Index
    recent: Array

    def check_stored(self) -> None:
        """Columns are told once; moving ones are in order, asleep, and all that were counted, of few rows."""
        if (np.diff(self.columns) <= 0).any():
            raise ValueError("late columns are told twice, or not in order")
        if len(self.recent) >= STRETCH + _LATE_ROWS:
            raise ValueError(f"{len(self.recent)} rows of late columns wait to be counted")
        counted = np.flatnonzero(~self.is_awake & (self.n_rows > 0))
        if (np.diff(self.moving) <= 0).any() or self.is_awake[self.moving].any() or set(counted) - set(self.moving):
            raise ValueError("columns that have begun to vary do not agree with what was counted of them")

    @classmethod
    def begin(cls, columns: Index, shift: Array, unit: float) -> LateColumns | None:
        """Watch columns, if there are any."""
        n = len(columns)
        if not n:
            return None
        zeros, none = np.zeros(n, np.int64), np.zeros(n, bool)
        nothing = np.empty(0, np.int64), np.empty((0, 0))
        return cls(columns, shift[columns], zeros, np.full(n, unit), zeros, np.zeros(n), none, *nothing)

    def regroup(self, columns: Index, group: int, unit: float) -> LateColumns:
        """Make some columns a group of their own."""
        inside = np.isin(self.columns, columns)
        return replace(self, group=np.where(inside, group, self.group), unit=np.where(inside, unit, self.unit))

    @property
    def factors(self) -> Array:
        """Unit over the root mean square of the deviations."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return self.unit * np.sqrt(self.n_rows) / self.root

    def find_moving(self, X: Any) -> Index:
        """Places of the sleeping columns that have varied before, or do in these rows."""
        sleeps = ~self.is_awake
        if sparse.issparse(X):  # an absent entry is zero, which is what most sleeping columns hold
            sleeps &= np.isin(self.columns, np.unique(X.indices)) | (self.value != 0)
        places = np.flatnonzero(sleeps)
        step = max(1, MOMENT_NUMBERS // X.shape[0])
        blocks = [places[start : start + step] for start in range(0, len(places), step)]
        found = [at[self._deviations(X, at)[1].any(axis=0)] for at in blocks]
        return np.union1d(self.moving, np.concatenate(found)) if found else self.moving

    def _deviations(self, X: Any, at: Index) -> tuple[Array, Mask]:
        """Deviations of some columns from their values, and whether each is more than rounding."""
        block = X[:, self.columns[at]]
        dense = np.asarray(block.toarray() if sparse.issparse(block) else block, dtype=np.float64)
        value, limit = self.value[at].astype(np.float64), np.finfo(X.dtype)
        with np.errstate(over="ignore"):
            gaps = dense - value
        return gaps, np.abs(gaps) > np.maximum(8 * limit.eps * np.abs(value), 1.0 / limit.max)

    def take(self, X: Any, among: Index) -> LateColumns:
        """Note what the next rows show of some sleeping columns, all that are moving among them."""
        gaps, moved = self._deviations(X, among)
        is_moving = np.isin(among, self.moving)
        first = np.where(is_moving, 0, np.where(moved.any(axis=0), moved.argmax(axis=0), len(gaps)))
        gaps[np.arange(len(gaps))[:, None] < first] = 0.0
        begun = first < len(gaps)
        if not begun.any():
            return self
        gaps = gaps[0 if is_moving.any() else first.min() :, begun]
        n_before = len(self.recent)
        recent = np.zeros((n_before + len(gaps), gaps.shape[1]))
        recent[:n_before, is_moving[begun]] = self.recent
        recent[n_before:] = gaps
        return replace(self, moving=among[begun], recent=recent)

    def place_early(self, n: int, n_features: int, dtype: np.dtype) -> sparse.csr_array:
        """The last n rows in the columns that are moving, each on the scale that it and the rows before it give.

        So no row can lie far from the constant, however small the first deviations were.
        """
        at, gaps = self.moving, self.recent
        if not len(gaps):
            return sparse.csr_array((n, n_features), dtype=dtype)
        begun = np.logical_or.accumulate((gaps != 0.0) | (self.n_rows[at] > 0), axis=0)
        n_rows = np.maximum(self.n_rows[at] + np.cumsum(begun, axis=0), 1)
        largest = max(np.abs(gaps).max(), self.root[at].max())
        safe = largest if np.isfinite(largest) else 1.0
        square = (self.root[at] / safe) ** 2 + np.cumsum((gaps / safe) ** 2, axis=0)
        mean = square / n_rows
        unit = np.broadcast_to(self.unit[at], gaps.shape).copy()
        typical = np.empty_like(mean)
        for group in np.unique(self.group[at]):
            inside = self.group[at] == group
            n_begun = np.maximum(begun[:, inside].sum(axis=1, keepdims=True), 1)
            typical[:, inside] = mean[:, inside].sum(axis=1, keepdims=True) / n_begun
            unit[:, inside & (self.unit[at] == 0.0)] = (2.0 * n_begun) ** -0.5
        few = (square + _AS_ROWS * typical) / (n_rows + _AS_ROWS)
        mean = np.clip(few, mean / _AT_MOST**2, mean * _AT_MOST**2)
        with np.errstate(invalid="ignore"):  # what does not fit is refused by its owner
            scaled = unit * (gaps / safe) / np.sqrt(np.where(mean > 0.0, mean, 1.0))
        m = min(n, len(gaps))
        row, col = np.nonzero(scaled[len(gaps) - m :])
        data = scaled[len(gaps) - m :][row, col].astype(dtype)
        return sparse.csr_array((data, (row + n - m, self.columns[at][col])), shape=(n, n_features))

    def fold(self) -> LateColumns:
        """Add what was noted to the counts."""
        at, gaps = self.moving, self.recent
        n_rows, root = self.n_rows.copy(), self.root.copy()
        if len(gaps):
            n_rows[at] += len(gaps) - np.where(n_rows[at] > 0, 0, (gaps != 0.0).argmax(axis=0))
            largest = np.abs(gaps).max(axis=0)
            safe = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)
            root[at] = np.hypot(root[at], safe * np.sqrt(((gaps / safe) ** 2).sum(axis=0)))
        return replace(self, n_rows=n_rows, root=root, recent=np.empty((0, len(at))))

    def wake(self, dtype: np.dtype) -> tuple[LateColumns, Mask, Array]:
        """Wake the columns of which enough was seen; return which these are, and their latest deviations."""
        if len(self.recent) < _LATE_ROWS:
            return self, np.zeros(len(self.columns), bool), self.recent[:, :0]
        folded = self.fold()
        ready = ~self.is_awake & (folded.n_rows >= _LATE_ROWS) & np.isfinite(folded.root)
        unit = self.unit.copy()
        for group in np.unique(self.group[ready & (unit == 0.0)]):
            inside = self.group == group
            unit[inside] = (2.0 * np.count_nonzero(ready & inside)) ** -0.5
        made = replace(folded, unit=unit)
        wakes = ready & (made.factors <= np.finfo(dtype).max)
        left = self.moving[~wakes[self.moving]]
        made = replace(made, is_awake=self.is_awake | wakes, moving=left, recent=np.empty((0, len(left))))
        return made, wakes, self.recent[:, wakes[self.moving]]

    def merged(self, shards: Sequence[LateColumns]) -> LateColumns:
        """What all shards have seen since they began with this."""
        base, shards = self.fold(), [one.fold() for one in shards]
        n_rows, root = base.n_rows.copy(), base.root.copy()
        unit, is_awake = self.unit, self.is_awake.copy()
        for one in shards:
            n_rows += one.n_rows - base.n_rows
            with np.errstate(invalid="ignore"):
                share = np.sqrt(np.maximum(one.root - base.root, 0.0)) * np.sqrt(one.root + base.root)
            root = np.hypot(root, share)
            unit = np.where(unit > 0.0, unit, one.unit)
            is_awake |= one.is_awake
        moving = np.flatnonzero(~is_awake & (n_rows > 0))
        recent = np.empty((0, len(moving)))
        return replace(self, unit=unit, n_rows=n_rows, root=root, is_awake=is_awake, moving=moving, recent=recent)
