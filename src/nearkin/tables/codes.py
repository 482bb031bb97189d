"""From a column to numbers: one small class for each kind of column, fitted to plain arrays that a file can hold."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array
from nearkin.stored import ArrayOf, Flag, Items, Number, Text, stored
from nearkin.tables.cells import BadCell, parse_numbers
from nearkin.tables.images import describe_pictures, n_numbers
from nearkin.tables.kinds import DATES, NUMBERS, find_spelling, read_column, without_unit
from nearkin.tables.raw import Cells, RawColumn
from nearkin.tables.texts import GramSpace, n_buckets

__all__ = [
    "CategoryCode", "Code", "DateCode", "NumberCode", "PictureCode", "TextCode", "VectorCode", "as_cells", "flag_pays",
    "read_numbers",
]  # fmt: skip

#: Gaps and categories of fewer rows, or of a smaller share of them, get no column of their own.
_FEWEST, _LEAST = 5, 0.01
#: Most categories with a column of their own.
_CATEGORIES = 30
#: Parts of a date that return: how long a round takes in hours, and the names of its two numbers.
_ROUNDS = {"year": 24 * 365.25, "week": 24 * 7.0, "day": 24.0}


#: Truth as text, where numbers were learned from truth values.
_TRUTH = {"true": 1.0, "false": 0.0}


class Code(Protocol):
    """Turns a column into columns of numbers."""

    def names(self, name: str) -> list[str]:
        """Return the names of the numbers."""

    def apply(self, column: RawColumn) -> Array:
        """Return one row of finite numbers for each row."""


def flag_pays(n_rows: int, n: int) -> bool:
    """Whether that many rows deserve a column that tells them from the others, and leave enough others."""
    return min(n, n_rows - n) >= max(_FEWEST, _LEAST * n_rows)


def read_numbers(column: RawColumn, spelling: str) -> Array:
    """Return a column as numbers, NaN where there is none; more cells of something else than numbers are refused."""
    if spelling != "plain" and column.texts is not None:
        column = RawColumn.of_cells(column.name, column.texts())
    if column.numbers is not None and column.numbers.ndim == 1:
        return column.numbers
    if column.cells is None:
        raise BadCell(f"holds {column.kind}, where numbers were learned")
    cells = column.cells
    known = _plain(cells.distinct) if spelling == "plain" else read_column(cells, spelling)
    known = _read_otherwise(cells, known, NUMBERS)
    _check_read(column, np.isnan(known), "number")
    return np.append(known, np.nan)[cells.codes]


def _read_otherwise(cells: Cells, known: NDArray[Any], spellings: Collection[str]) -> NDArray[Any]:
    """Return what cells mean in another spelling, if that is the only one that reads most of them."""
    unread = np.isnat(known) if known.dtype.kind == "M" else np.isnan(known)
    if 2 * cells.counts[unread].sum() <= cells.n_present:
        return known
    other = find_spelling(cells)
    if other is None or other[0] not in spellings or other[1]:
        return known
    return read_column(cells, other[0])


def _plain(distinct: Sequence[str]) -> Array:
    out = np.full(len(distinct), np.nan)
    for i, one in enumerate(distinct):
        with suppress(BadCell):
            out[i] = _TRUTH[one.casefold()] if one.casefold() in _TRUTH else parse_numbers([one])[0]
    return out


def _check_read(column: RawColumn, unread: NDArray[np.bool_], what: str) -> None:
    """Warn of cells that are not what the column holds; refuse it if most are."""
    cells = column.cells
    assert cells is not None
    n_bad = int(cells.counts[unread].sum())
    if not n_bad:
        return
    example = cells.distinct[int(unread.argmax())][:40]
    if 2 * n_bad > cells.n_present:
        row = int(np.isin(cells.codes, np.flatnonzero(unread)).argmax())
        raise BadCell(f"holds {example!r}, which is not a {what}{_tell_spelling(cells, what)}", row)
    those = "1 cell is" if n_bad == 1 else f"{n_bad:,} cells are"
    warnings.warn(f"column {column.name!r}: {those} not a {what} ({example!r}) and counted as missing.", stacklevel=4)


def _tell_spelling(cells: Cells, what: str) -> str:
    """Say why cells that can be read are refused all the same."""
    other = find_spelling(cells)
    if other is None or (other[0] in DATES) != (what == "date"):
        return ""
    return " in the spelling that was learned, and it can be read in two others" if other[1] else ""


@stored(spelling=Text("plain", *NUMBERS), fill=Number(), is_flagged=Flag(), is_only_flag=Flag(), unit=Text())
@dataclass(frozen=True)
class NumberCode:
    """A number, without its unit if it has one; a missing one becomes ``fill``, and one more column may tell where."""

    spelling: str
    fill: float
    is_flagged: bool
    is_only_flag: bool = False
    unit: str = ""

    @classmethod
    def learn(cls, numbers: Array, spelling: str = "plain") -> NumberCode:
        """Fill with the median; a column of one number only is told by where it is missing."""
        present = numbers[~np.isnan(numbers)]
        is_flagged = flag_pays(len(numbers), len(numbers) - len(present))
        is_constant = bool((present == present[0]).all())
        return cls(spelling, float(np.median(present)), is_flagged, is_constant and is_flagged)

    @property
    def is_plain(self) -> bool:
        """Whether nothing is done to the numbers."""
        return self.spelling == "plain" and not self.is_flagged

    def names(self, name: str) -> list[str]:
        """Return the names of the numbers."""
        own = [] if self.is_only_flag else [name]
        return own + ([f"{name} is missing"] if self.is_flagged else [])

    def read(self, column: RawColumn) -> Array:
        """Return the numbers as they are, without their unit; NaN is missing."""
        if self.unit and column.cells is not None:
            column = RawColumn.of_cells(column.name, without_unit(column.cells, self.unit))
        return read_numbers(column, self.spelling)

    def apply(self, column: RawColumn) -> Array:
        """Return one row of finite numbers for each row."""
        numbers = self.read(column)
        _check_finite(numbers)
        gaps = np.isnan(numbers)
        filled = np.where(gaps, self.fill, numbers)
        return np.column_stack(([] if self.is_only_flag else [filled]) + ([gaps] if self.is_flagged else []))


def _check_finite(numbers: Array) -> None:
    bad = np.isinf(numbers)
    if bad.any():
        row = int(bad.reshape(len(bad), -1).any(axis=1).argmax())
        value = numbers[bad][0]
        raise BadCell(f"holds an infinite value ({value})", row)


@stored(
    values=ArrayOf("k", of="labels"), has_rest=Flag(), is_flagged=Flag(), is_pair=Flag(), rare=Items(Text()),
)  # fmt: skip
@dataclass(frozen=True)
class CategoryCode:
    """One column for each frequent value, one for all others, one for gaps; a single one where there are two values.

    ``rare`` are the values that were seen and have no column.
    """

    values: NDArray[np.str_]
    has_rest: bool
    is_flagged: bool
    is_pair: bool = False
    rare: tuple[str, ...] = ()

    def check_stored(self) -> None:
        """Values are texts, and a pair is two of them."""
        if self.values.dtype.kind != "U" or (self.is_pair and len(self.values) != 2):
            raise ValueError("categories are not texts, or a pair is not two of them")

    @classmethod
    def learn(cls, cells: Cells, most: int = _CATEGORIES) -> CategoryCode:
        """Find the frequent values; of two one column is enough, the second in their order."""
        n = len(cells.codes)
        order = np.argsort(-cells.counts, kind="stable")
        is_flagged = flag_pays(n, n - cells.n_present)
        if len(order) == 2:
            pair = sorted(cells.distinct)
            return cls(np.array(pair, dtype=np.str_), False, is_flagged, is_pair=True)
        frequent = [i for i in order[:most].tolist() if cells.counts[i] >= max(_FEWEST, _LEAST * n)] or [int(order[0])]
        n_rest = cells.n_present - int(cells.counts[frequent].sum())
        names = sorted(cells.distinct[i] for i in frequent)
        rare = sorted({*cells.distinct} - {*names})
        return cls(np.array(names, dtype=np.str_), flag_pays(n, n_rest), is_flagged, rare=tuple(rare))

    def names(self, name: str) -> list[str]:
        """Return the names of the numbers."""
        own = [f"{name}={one}" for one in (self.values[1:] if self.is_pair else self.values)]
        more = [f"{name} is another"] * self.has_rest + [f"{name} is missing"] * self.is_flagged
        return own + more

    def apply(self, column: RawColumn) -> Array:
        """Return one row of finite numbers for each row."""
        cells = as_cells(column)
        place = {one: i for i, one in enumerate(self.values.tolist())}
        _note_unseen(column.name, cells, {*place, *self.rare}, is_open=bool(self.rare))
        codes = np.array([*(place.get(one, -1) for one in cells.distinct), -2])[cells.codes]
        codes = np.where(cells.codes < 0, -2, codes)
        if self.is_pair:
            own = np.where(codes < 0, 0.5, codes)[:, None]
        else:
            own = (codes[:, None] == np.arange(len(self.values))).astype(np.float64)
        more = [codes == -1] * self.has_rest + [codes == -2] * self.is_flagged
        return np.column_stack([own, *more])


def _note_unseen(name: str, cells: Cells, seen: set[str], *, is_open: bool) -> None:
    """Warn of categories that were not there when the column was learned; not of rare ones if it ``is_open``."""
    new = [i for i, one in enumerate(cells.distinct) if one not in seen]
    n = int(cells.counts[new].sum())
    if n and (not is_open or cells.counts[new].max() >= max(_FEWEST, _LEAST * len(cells.codes))):
        example, more = cells.distinct[new[0]][:40], f" and {len(new) - 1:,} more" * (len(new) > 1)
        those = f"{n:,} of {len(cells.codes):,} cells hold{'s' * (n == 1)}"
        words = "a value that was" if len(new) == 1 else "values that were"
        warnings.warn(f"column {name!r}: {those} {words} not learned ({example!r}{more}).", stacklevel=4)


def as_cells(column: RawColumn) -> Cells:
    """Return a column as text, whatever it holds."""
    if column.cells is not None:
        return column.cells
    if column.texts is not None:
        return column.texts()
    values = column.numbers if column.numbers is not None else column.dates
    if values is None or values.ndim > 1:
        raise BadCell(f"holds {column.kind}, where text was learned")
    if values.dtype.kind == "M":
        return Cells.of([None if np.isnat(one) else str(one) for one in values])
    if column.kind == "true or false":
        return Cells.of([None if one != one else str(bool(one)) for one in values.tolist()])
    return Cells.of([int(one) if one == one and float(one).is_integer() else one for one in values.tolist()])


@stored(
    spelling=Text("plain", *DATES), fill=Number(), is_flagged=Flag(), has_age=Flag(),
    rounds=Items(Text(*_ROUNDS)),
)  # fmt: skip
@dataclass(frozen=True)
class DateCode:
    """A date as days since 1970, and as places on the rounds of year, week and day where these vary."""

    spelling: str
    fill: float
    is_flagged: bool
    has_age: bool
    rounds: tuple[str, ...]

    @classmethod
    def learn(cls, column: RawColumn, spelling: str) -> DateCode:
        """Take the rounds of which the dates see a good part."""
        days = _days(column, spelling)
        present = days[~np.isnan(days)]
        span = float(np.ptp(present))
        has_times = len(np.unique(np.round(present % 1.0 * 24))) > 2
        rounds = ["year"] * (span > 90) + ["week"] * (span > 6) + ["day"] * has_times
        gaps = len(days) - len(present)
        return cls(spelling, float(np.median(present)), flag_pays(len(days), gaps), span > 0, tuple(rounds))

    def names(self, name: str) -> list[str]:
        """Return the names of the numbers."""
        turns = [f"{name} {part} of {one}" for one in self.rounds for part in ("sin", "cos")]
        return [name] * self.has_age + turns + [f"{name} is missing"] * self.is_flagged

    def read(self, column: RawColumn) -> Array:
        """Return days since 1970; NaN is missing."""
        return _days(column, self.spelling)

    def apply(self, column: RawColumn) -> Array:
        """Return one row of finite numbers for each row."""
        days = self.read(column)
        gaps = np.isnan(days)
        filled = np.where(gaps, self.fill, days)
        angles = [2.0 * np.pi * 24.0 / _ROUNDS[one] * filled for one in self.rounds]
        turns = [np.where(gaps, 0.0, turn(one)) for one in angles for turn in (np.sin, np.cos)]
        return np.column_stack([filled] * self.has_age + turns + [gaps] * self.is_flagged)


def _days(column: RawColumn, spelling: str) -> Array:
    dates = column.dates
    if dates is None:
        if column.cells is None or not column.cells.n_present:
            if column.numbers is not None and not np.isnan(column.numbers).all():
                raise BadCell(f"holds {column.kind}, where dates were learned")
            return np.full(column.n_rows, np.nan)
        if spelling == "plain":
            spelling = (find_spelling(column.cells) or ("",))[0]
            spelling = spelling if spelling in DATES else "year first"
        known = _read_otherwise(column.cells, read_column(column.cells, spelling), DATES)
        _check_read(column, np.isnat(known), "date")
        dates = np.append(known, np.datetime64("NaT", "us"))[column.cells.codes]
    days = dates.astype("datetime64[us]").astype(np.float64) / (86400.0 * 1e6)
    return np.where(np.isnat(dates), np.nan, days)


@stored(fill=ArrayOf("k", of="doubles"), is_flagged=Flag())
@dataclass(frozen=True)
class VectorCode:
    """Vectors as they are; a missing one, or a missing number in one, becomes the mean."""

    fill: Array
    is_flagged: bool

    @classmethod
    def learn(cls, vectors: Array) -> VectorCode:
        """Fill with the mean."""
        gaps = np.isnan(vectors)
        n = np.maximum((~gaps).sum(axis=0), 1)
        mean = np.where(gaps, 0.0, vectors).sum(axis=0, dtype=np.float64) / n
        return cls(mean, flag_pays(len(vectors), int(gaps.any(axis=1).sum())))

    def names(self, name: str) -> list[str]:
        """Return the names of the numbers."""
        return [f"{name}[{i}]" for i in range(len(self.fill))] + [f"{name} is missing"] * self.is_flagged

    def apply(self, column: RawColumn) -> Array:
        """Return one row of finite numbers for each row."""
        if column.numbers is None or column.numbers.ndim != 2 or column.numbers.shape[1] != len(self.fill):
            held = "no vectors" if column.numbers is None else f"{column.numbers.shape[1:] or 'single'} numbers a row"
            raise BadCell(f"holds {held}, where vectors of {len(self.fill):,} were learned")
        _check_finite(column.numbers)
        gaps = np.isnan(column.numbers)
        filled = np.where(gaps, self.fill, column.numbers)
        return np.column_stack([filled, *([gaps.any(axis=1)] * self.is_flagged)])


@stored(space=ArrayOf("k", "b", of="floats"), weight=ArrayOf("b", of="floats"), has_words=Flag(), is_flagged=Flag())
@dataclass(frozen=True)
class TextCode:
    """Texts by the words and letters in them, weighed by how rare these are, in a space of few dimensions."""

    space: Array
    weight: Array
    has_words: bool
    is_flagged: bool

    def check_stored(self) -> None:
        """There is a weight for every bucket."""
        if len(self.weight) != n_buckets(has_words=self.has_words):
            raise ValueError(f"{len(self.weight)} buckets of words and letters; others are counted")

    @classmethod
    def learn(cls, cells: Cells, n_dimensions: int, *, has_words: bool) -> TextCode:
        """Learn weights and space from all rows."""
        found, place = GramSpace.learn(cells.distinct, cells.counts, n_dimensions, has_words=has_words)
        cells.memo["texts"] = place
        n = len(cells.codes)
        return cls(found.space, found.weight, has_words, flag_pays(n, n - cells.n_present))

    def names(self, name: str) -> list[str]:
        """Return the names of the numbers."""
        return [f"{name}[{i}]" for i in range(len(self.space))] + [f"{name} is missing"] * self.is_flagged

    def apply(self, column: RawColumn) -> Array:
        """Return one row of finite numbers for each row."""
        cells = as_cells(column)
        found = cells.memo.get("texts")
        if found is None:
            found = GramSpace(self.space, self.weight, has_words=self.has_words).place(cells.distinct)
        placed = np.vstack([found, np.zeros((1, len(self.space)))])[cells.codes]
        return np.column_stack([placed, *([cells.codes < 0] * self.is_flagged)])


@stored(space=ArrayOf("k", "b", of="floats"), mean=ArrayOf("b", of="floats"), is_flagged=Flag())
@dataclass(frozen=True)
class PictureCode:
    """Pictures by the directions of their edges and by their colours, in a space of few dimensions."""

    space: Array
    mean: Array
    is_flagged: bool

    def check_stored(self) -> None:
        """There is a mean for every number of a picture."""
        if len(self.mean) != n_numbers():
            raise ValueError(f"{len(self.mean)} numbers of a picture; {n_numbers()} are made")

    @classmethod
    def learn(cls, column: RawColumn, n_dimensions: int) -> tuple[PictureCode, int]:
        """Learn the space from all rows; return also how many pictures could not be read."""
        from sklearn.utils.extmath import randomized_svd

        cells = as_cells(column)
        found = cells.memo["pictures"] = _describe(cells, column.folder)
        is_read = ~np.isnan(found[:, 0])
        if not is_read.any():
            example = Path(column.folder) / cells.distinct[0] if cells.distinct else "an empty cell"
            raise BadCell(f"holds no picture that can be read ({example})")
        mean = found[is_read].mean(axis=0)
        k = max(1, min(n_dimensions, int(is_read.sum()) - 1))
        _, _, space = randomized_svd(found[is_read] - mean, k, n_iter=3, random_state=0)
        n_bad = len(cells.codes) - int(is_read[cells.codes[cells.codes >= 0]].sum())
        return cls(space.astype(np.float32), mean.astype(np.float32), flag_pays(len(cells.codes), n_bad)), n_bad

    def names(self, name: str) -> list[str]:
        """Return the names of the numbers."""
        return [f"{name}[{i}]" for i in range(len(self.space))] + [f"{name} is missing"] * self.is_flagged

    def apply(self, column: RawColumn) -> Array:
        """Return one row of finite numbers for each row."""
        cells = as_cells(column)
        found = cells.memo["pictures"] if "pictures" in cells.memo else _describe(cells, column.folder)
        unread = np.isnan(found[:, 0])
        _check_read(column, unread, "picture that can be read")
        placed = np.where(unread[:, None], 0.0, np.nan_to_num(found - self.mean) @ self.space.T)
        placed = np.vstack([placed, np.zeros((1, len(self.space)))])[cells.codes]
        gaps = np.append(unread, True)[cells.codes]
        return np.column_stack([placed, *([gaps] * self.is_flagged)])


def _describe(cells: Cells, folder: str) -> Array:
    return describe_pictures([Path(folder) / one for one in cells.distinct])
