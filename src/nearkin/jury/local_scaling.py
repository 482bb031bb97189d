"""Neighbours by locally scaled distances, in tiles of bounded memory: exact, or in the nearest cells of many rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearkin import progress
from nearkin.accelerator import computing_device, keep_there
from nearkin.arrays import Array, Index, Mask
from nearkin.errors import InputError
from nearkin.jury.cells import Cells, group_rows
from nearkin.kernels import FEW_ROWS, worker_pool
from nearkin.stored import ArrayOf, Maybe, Part, stored

__all__ = ["FAR", "N_CANDIDATES", "LocalNeighbours", "is_far", "narrow", "search_from_afar", "spread_rows"]

#: Neighbours of a row that are found: those that vote, and others among which learned spaces choose.
N_CANDIDATES = 120

#: Most rows among which neighbours are exact. More are grouped into cells, and the nearest cells are searched; the
#: scale of a row is found in fewer.
_EXACT = 1 << 13
_PROBES = 12
_SCALE_PROBES = 3

#: Rows whose cells are searched at the same time.
_ASKED = 1 << 13

#: Rows and columns of one tile, which fits into the second-level cache.
_BLOCK = 512

#: Most features with which computing a tile costs less than transposing it.
_FEW = 64

#: Most rows that are searched for at the same time, each with its candidates so far.
_AT_ONCE = 1 << 16

#: Blocks of queries between reports of progress.
_TOGETHER = 16

#: Most rows among which the scale is exact.
_SCALED = 2048

#: Rows of the sample that tells the scale of more rows, and that bounds the distance of the k-th neighbour, used where
#: there are many times as many rows; the bound is that many standard errors above what k neighbours need.
_SAMPLE = 1024
_SAMPLED = 4
_AMPLE = 3.0

#: Candidates that a row holds beyond k before the nearest are selected.
_SPARE = 208
_SPARE_IN_CELLS = 160

#: Squared distance from the centre, as a multiple of the largest among the rows, beyond which a query is far: single
#: precision no longer tells its distances apart.
FAR = 1e4

#: Smallest scale of a row, as a share of the median: otherwise rows with many duplicates would be near everything.
_LEAST = 1e-3


@stored(
    _center=ArrayOf("d", dtype="T"),
    _rows=ArrayOf("n", "d", dtype="T"),
    _norms=ArrayOf("n", low=0.0, dtype="T"),
    _factors=ArrayOf("n", low=0.0, dtype="T"),
    scale=ArrayOf("n", low=0.0),
    _cells=Maybe(Part(Cells, n="n", d="d")),
    _numbers=Maybe(ArrayOf("n", of="codes", low=0, below="n")),
)
class LocalNeighbours:
    """Neighbours of rows by ``d2(x, z) / s(z)`` where ``s(z)`` is the distance of z to about its own 7th neighbour.

    Rows in sparse regions are then as good neighbours as rows in dense ones. Labels play no part, so wrong ones do no
    harm. (The scale of x would not change the order.)

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_features)
        Scaled, or mapped by a learner.
    n_scale : int, default=7
        Which neighbour gives the scale. Of more than 2,048 rows it is found among 1,024, at the same quantile, and is
        at least the second neighbour there; beyond 8,192 it is found in the 3 nearest cells.

    Attributes
    ----------
    scale : ndarray of shape (n_samples,)
        ``s`` of every row.

    Notes
    -----
    Zelnik-Manor and Perona (Self-tuning spectral clustering, NIPS 2004) introduced the scale by the 7th neighbour. It
    need not be exact: a sample finds the same wrong labels. Neighbours among up to 8,192 rows are exact: all pairs are
    compared, ``O(n^2 d)`` by matrix products, and no more than a tile of them is held at once. More rows are grouped
    into cells of about 256 (an inverted file), and a row is compared with those of the 12 cells whose centres are
    nearest, so that the cost of a row does not depend on their number.

    Examples
    --------
    >>> rows = np.array([[0.0], [0.1], [0.2], [3.0], [4.0], [5.0]])
    >>> near = LocalNeighbours(rows, n_scale=1)
    >>> near.scale.round(1).tolist()
    [0.1, 0.1, 0.1, 1.0, 1.0, 1.0]
    >>> near.query(np.array([[1.2]]), 2)[0].tolist()   # 3.0 is farther than 0.2, but its neighbours are farther apart
    [3, 4]
    """

    # Found at the first use, and not stored; squared distances to a sample are needed for the first search only.
    _known: NDArray[np.int32] | None = None
    _sampled: Array | None = None

    def __init__(self, rows: Array, n_scale: int = 7):
        with np.errstate(over="ignore", invalid="ignore"):
            self._center = rows.mean(axis=0, dtype=np.float64).astype(rows.dtype)
            self._rows = np.ascontiguousarray(rows - self._center)
            self._norms = (self._rows * self._rows).sum(axis=1)
            if not np.isfinite(4.0 * self._norms.max()):
                raise InputError("distances of these rows are too large to compute with. Are these values right?")
        n = len(rows)
        self._factors = np.ones(n, rows.dtype)
        self._cells: Cells | None = None
        self._numbers: Index | None = None
        if n > _EXACT:
            self._cells, self._numbers = group_rows(self._rows)
            self._rows, self._norms = self._rows[self._numbers], self._norms[self._numbers]
        far = self._scales(n_scale)
        self.scale = np.empty(n)
        self.scale[self._items.numbers] = np.sqrt(far)
        positive = self.scale[self.scale > 0]
        least = _LEAST * (np.median(positive) if len(positive) else 1.0)
        self._factors = (1.0 / np.maximum(self.scale[self._items.numbers], least)).astype(rows.dtype)

    def _scales(self, n_scale: int) -> Array:
        """Squared distances to the neighbour that gives the scale, in the order of `_items`."""
        every, n = self._items, len(self._rows)
        if self._cells is not None:
            return self._search_cells(every, n_scale, _SCALE_PROBES, lambda values, _: values[:, -1])
        with worker_pool() as run:
            if n <= _SCALED:
                rank = min(n_scale, n - 1)
                return np.concatenate(run(lambda part: _search(every.at(part), every, rank)[0][:, -1], _blocks(n)))
            some, rank = every.at(spread_rows(n, _SAMPLE)), max(2, round(n_scale * _SAMPLE / n))
            self._sampled = np.concatenate(run(lambda part: _distances(every.at(part), some), _blocks(n)))
            return _smallest(self._sampled, rank, run)

    @property
    def _items(self) -> _Rows:
        """All rows, in the order of their cells where there are cells."""
        numbers = np.arange(len(self._rows)) if self._numbers is None else self._numbers
        return _Rows(self._rows, self._norms, self._factors, numbers.astype(np.int32))

    def candidates(self) -> Index:
        """The 120 nearest others of every row, or all others; kept as long as this object is in use."""
        if self._known is None:
            self._known = self.among(N_CANDIDATES)
        return self._known

    def among(self, k: int, which: Index | None = None, candidates: Index | None = None) -> Index:
        """The k nearest others of every row, or of some, the nearest first, of shape (n_rows, k).

        Where some rows are ``candidates``, only these are found.
        """
        items, n = self._items, len(self._rows)
        k = min(k, n - 1)
        if candidates is None and self._known is not None and k <= self._known.shape[1]:
            return self._known[:, :k] if which is None else self._known[which, :k]
        at = np.empty(n, np.int64)
        at[items.numbers] = np.arange(n)
        if candidates is not None:
            rows = items if which is None else items.at(at[which])
            return _search_blocks(rows, items.at(at[candidates]), min(k, len(candidates)))
        if self._numbers is not None:
            found = np.empty((n if which is None else len(which), k), np.int32)
            if which is None:
                found[items.numbers] = self._search_cells(items, k, _PROBES)
            else:
                found[:] = self._search_cells(items.at(at[which]), k, _PROBES)
            return found
        if which is not None or n > _AT_ONCE or n <= FEW_ROWS:
            return _search_blocks(items if which is None else items.at(which), items, k)
        blocks = [items.at(part) for part in _blocks(n)]
        held = _Reservoirs(n, k, items.rows.dtype)
        parts = [held.at(part) for part in _blocks(n)]

        def compare(pair: tuple[int, int]) -> None:
            (one, other), (its, others) = (blocks[i] for i in pair), (parts[i] for i in pair)
            products = one.rows @ other.rows.T
            if pair[0] != pair[1]:
                # With few features, computing the other half is faster than transposing this one.
                turned = products.T.copy() if one.rows.shape[1] > _FEW else other.rows @ one.rows.T
                others.gather(turned, other, one)
            its.gather(products, one, other)

        # Every product serves both of its rows. In a round each block meets one other, so no two parallel tiles write
        # to the same reservoir.
        with worker_pool() as run:
            if self._sampled is not None:
                held.bounds[:] = _smallest(
                    self._sampled * items.factors[spread_rows(n, _SAMPLE)], _ample_rank(k, n), run
                )
                self._sampled = None
            for i, pairs in enumerate(_rounds(len(blocks))):
                run(compare, pairs)
                progress.advance("comparing rows", min(n, (i + 1) * _BLOCK), n)
        _, found, few = held.collect()
        if len(few):
            found[few] = _search(items.at(few), items, k)[1]
        return found

    def distances(self, found: Index) -> Array:
        """Plain distances of every row to the rows that ``found`` names for it, of the same shape.

        >>> LocalNeighbours(np.array([[0.0], [1.0], [3.0]])).distances(np.array([[2], [0], [1]])).tolist()
        [[3.0], [1.0], [2.0]]
        """
        rows = self._rows
        if self._numbers is not None:
            rows = np.empty_like(self._rows)
            rows[self._numbers] = self._rows
        apart, step = np.empty(found.shape), max(1, _AT_ONCE * 16 // max(1, found.shape[1] * rows.shape[1]))
        for start in range(0, len(found), step):
            part = slice(start, start + step)
            difference = rows[found[part]] - rows[part, None]
            apart[part] = np.sqrt(np.einsum("ijk,ijk->ij", difference, difference))
        return apart

    def query(self, queries: Array, k: int) -> Index:
        """The k nearest rows of every query, the nearest first, of shape (n_queries, k)."""
        shifted, items, k = queries - self._center, self._items, min(k, len(self._rows))
        with np.errstate(over="ignore"):  # what overflows is far
            rows = np.ascontiguousarray(shifted, dtype=self._rows.dtype)
            norms, nobody = (rows * rows).sum(axis=1), np.full(len(rows), -1, np.int32)
        far = _are_far(norms, self._norms.max())
        whole = _Rows(rows, norms, norms, nobody)
        if not far.any():
            return self._search_whole(whole, k)
        found = np.empty((len(rows), k), np.int32)
        found[~far] = self._search_whole(whole.at(np.flatnonzero(~far)), k)
        found[far] = items.numbers[search_from_afar(shifted[far], items.rows, k, items.factors)]
        return found

    def _search_whole(self, rows: _Rows, k: int) -> Index:
        """Numbers of the k nearest of all rows."""
        return _search_blocks(rows, self._items, k) if self._cells is None else self._search_cells(rows, k, _PROBES)

    def _search_cells(self, rows: _Rows, k: int, n_probes: int, take: Any = lambda _, found: found) -> NDArray[Any]:
        """Numbers of the k nearest of the rows in the cells nearest to each row; or what ``take`` makes of them."""
        cells, items, n = self._cells, self._items, len(rows.rows)
        assert cells is not None
        if (device := computing_device()) is not None:
            return take(*self._there(device).nearest(rows.rows, rows.numbers, k, n_probes))
        tiles = [items.at(part) for part in cells.parts]

        def look(asked: _Rows, guess: bool) -> tuple[Array, Index, Index]:
            held = _Reservoirs(len(asked.rows), k, asked.rows.dtype, _SPARE_IN_CELLS)
            if guess:
                held.guess(asked, items)
            for cell, slots in cells.visits(asked.rows, n_probes):
                some = asked.at(slots)
                held.gather(some.rows @ tiles[cell].rows.T, some, tiles[cell], slots)
            return held.collect()

        def search(part: slice) -> NDArray[Any]:
            asked = rows.at(part)
            values, found, few = look(asked, guess=k > _SPARE_IN_CELLS // 4)
            if len(few):  # the bound was too low
                values[few], found[few], still = look(asked.at(few), guess=False)
                few = few[still]
            if len(few):  # the cells hold fewer than k rows
                values[few], found[few] = _search(asked.at(few), items, k)
            return take(values, found)

        made, parts = [], [slice(start, min(start + _ASKED, n)) for start in range(0, n, _ASKED)]
        with worker_pool() as run:
            for start in range(0, len(parts), _TOGETHER):
                made += run(search, parts[start : start + _TOGETHER])
                progress.advance("comparing rows", parts[min(start + _TOGETHER, len(parts)) - 1].stop, n)
        return np.concatenate(made) if made else take(np.empty((0, k)), np.empty((0, k), np.int32))

    def _there(self, device: Any) -> Any:
        """All rows on a device."""
        from nearkin.accelerator.device_cells import DeviceCells

        cells = self._cells
        assert cells is not None
        return keep_there(
            self, "cells", device, DeviceCells, self._rows, self._norms, self._factors, self._numbers, cells.centres,
            cells.sizes,
        )  # fmt: skip


def narrow(rows: Array) -> Array:
    """Rows in single precision; what overflows is refused by `LocalNeighbours`."""
    with np.errstate(over="ignore"):
        return rows.astype(np.float32, copy=False)


def is_far(queries: Array, rows: Array) -> Mask:
    """Whether queries lie so far from the rows, as seen from about their centre, that rounding hides differences."""
    with np.errstate(over="ignore"):
        return _are_far((queries * queries).sum(axis=1), np.einsum("ij,ij->i", rows, rows).max())


def _are_far(norms: Array, largest: float) -> Mask:
    return ~(norms <= FAR * max(largest, float(np.finfo(norms.dtype).tiny)))


class _Rows(NamedTuple):
    """Rows with their squared lengths, the factors of squared distances to them, and their numbers."""

    rows: Array
    norms: Array
    factors: Array
    numbers: NDArray[np.int32]

    def at(self, part: slice | Index) -> _Rows:
        """Some of them."""
        return _Rows(self.rows[part], self.norms[part], self.factors[part], self.numbers[part])


class _Reservoirs:
    """Candidates for the k nearest of many rows."""

    def __init__(self, n: int, k: int, dtype: np.dtype, spare: int | None = None):
        self.k, width = k, k + (_SPARE if spare is None else spare)
        self.values, self.found = np.empty((n, width), dtype), np.empty((n, width), np.int32)
        self.size, self.bounds = np.zeros(n, np.int64), np.full(n, np.inf, dtype)

    def at(self, part: slice) -> _Reservoirs:
        """Those of some rows, in the same memory."""
        some = object.__new__(_Reservoirs)
        some.k, some.values, some.found = self.k, self.values[part], self.found[part]
        some.size, some.bounds = self.size[part], self.bounds[part]
        return some

    def gather(self, products: Array, rows: _Rows, items: _Rows, slots: Index | None = None) -> None:
        """Offer items to reservoirs, all or some, by their inner products with the rows, which are overwritten."""
        from nearkin.kernels.nearest import gather

        slots = np.arange(len(self.size)) if slots is None else slots
        gather(
            products, self.k, slots, rows.norms, rows.numbers, items.norms, items.factors, items.numbers,
            self.values, self.found, self.size, self.bounds,
        )  # fmt: skip

    def guess(self, rows: _Rows, items: _Rows) -> None:
        """Set a first bound from a sample; it most likely admits k neighbours."""
        n = len(items.rows)
        if n >= _SAMPLED * _SAMPLE:
            some = items.at(spread_rows(n, _SAMPLE))
            self.bounds[:] = _search(rows, some, _ample_rank(self.k, n))[0][:, -1]

    def collect(self) -> tuple[Array, Index, Index]:
        """Values and numbers of the nearest, in order, and the rows whose bound was too low to admit that many."""
        from nearkin.kernels.nearest import settle

        settle(self.k, self.values, self.found, self.size)
        few = np.flatnonzero(self.size < self.k)
        return self.values[:, : self.k].copy(), self.found[:, : self.k].copy(), few


def _ample_rank(k: int, n: int) -> int:
    """Rank in a sample whose distance most likely admits k of n neighbours."""
    expected = k * _SAMPLE / n
    return min(_SAMPLE - 1, int(np.ceil(expected + _AMPLE * np.sqrt(expected) + 1.0)))


def _distances(rows: _Rows, items: _Rows) -> Array:
    """Squared distances of rows to items; infinite from an item to itself."""
    found: Array = rows.rows @ items.rows.T
    found *= -2.0
    found += rows.norms[:, None]
    found += items.norms
    np.maximum(found, 0.0, out=found)
    found[rows.numbers[:, None] == items.numbers] = np.inf
    return found


def _smallest(values: Array, rank: int, run: Any) -> Array:
    """The value of this rank, from 1, in every row."""
    return np.concatenate(run(lambda part: np.partition(values[part], rank - 1)[:, rank - 1], _blocks(len(values))))


def _search(rows: _Rows, items: _Rows, k: int, guess: bool = False) -> tuple[Array, Index]:
    """Values and numbers of the k nearest items of every row, except an item with the row's own number."""
    if len(items.rows) <= FEW_ROWS:
        with np.errstate(over="ignore", invalid="ignore"):
            table = _distances(rows, items) * items.factors
        at = np.argsort(table, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(table, at, axis=1), items.numbers[at]
    held = _Reservoirs(len(rows.rows), k, rows.rows.dtype)
    if guess:
        held.guess(rows, items)
    for part in _blocks(len(items.rows)):
        some = items.at(part)
        held.gather(rows.rows @ some.rows.T, rows, some)
    values, found, few = held.collect()
    if guess and len(few):
        values[few], found[few] = _search(rows.at(few), items, k)
    return values, found


def search_from_afar(queries: Array, rows: Array, k: int, factors: Array | float = 1.0) -> Index:
    """Numbers of the k rows with the smallest ``d2(x, z) * factor(z)`` for queries x that lie far from all rows.

    There ``d2(x, z) = |x|^2 (1 + u)`` with a small ``u = (|z|^2 - 2 x'z) / |x|^2``, and rows differ by their factors
    first. So ``factor (1 + u)`` is kept as a sum of two numbers, which orders rows that one double would call equal.
    """
    found, rows = np.empty((len(queries), k), np.int64), np.asarray(rows, dtype=np.float64)
    norms, factors = np.einsum("ij,ij->i", rows, rows), np.full(len(rows), factors, dtype=np.float64)
    for i, query in enumerate(np.asarray(queries, dtype=np.float64)):
        largest = np.abs(query).max()
        x = query / largest  # nothing overflows
        part = factors * ((norms / largest - 2.0 * (rows @ x)) / (x @ x) / largest)
        total = factors + part
        near = np.flatnonzero(total <= np.partition(total, k - 1)[k - 1])
        rest = (factors[near] - total[near]) + part[near]
        found[i] = near[np.lexsort((near, rest, total[near]))[:k]]
    return found


def _search_blocks(rows: _Rows, items: _Rows, k: int) -> Index:
    """Numbers of the k nearest items of every row, block by block."""
    found, blocks = [np.empty((0, k), np.int32)], _blocks(len(rows.rows))
    with worker_pool() as run:
        for start in range(0, len(blocks), _TOGETHER):
            some = blocks[start : start + _TOGETHER]
            found += run(lambda part: _search(rows.at(part), items, k, guess=True)[1], some)
            progress.advance("comparing rows", some[-1].stop, len(rows.rows))
    return np.concatenate(found)


def _blocks(n: int) -> list[slice]:
    return [slice(start, min(start + _BLOCK, n)) for start in range(0, n, _BLOCK)]


def spread_rows(n: int, most: int) -> Index:
    """At most ``most`` of n rows, evenly spread."""
    return np.linspace(0, n - 1, min(n, most)).astype(np.int64)


def _rounds(n: int) -> Iterator[list[tuple[int, int]]]:
    """All pairs of n things, first each with itself, in rounds in which nothing occurs twice (a round robin)."""
    yield [(i, i) for i in range(n)]
    last = n - 1 + n % 2
    for turn in range(last):
        pairs = [(last, turn), *(((turn + i) % last, (turn - i) % last) for i in range(1, (last + 1) // 2))]
        yield [pair for pair in pairs if max(pair) < n]
