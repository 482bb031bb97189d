"""What a column of text is: numbers in some spelling, dates, categories, codes of rows, or texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array
from nearkin.tables.raw import Cells

__all__ = ["DATES", "NUMBERS", "counts_rows", "find_spelling", "is_free_text", "looks_like_id", "read_cells"]

#: Share of the cells that a spelling must read; the others count as missing.
_MOST = 0.95
#: Cells of which the spelling of dates is guessed before all are read.
_PROBE = 200

_SPACES = " \u00a0\u202f\u2009"
_MONEY = r"[$\u20ac\u00a3\u00a5%]?"
#: How numbers are written, by the sign before their decimals; the other signs separate thousands.
_SPELLED = {
    ".": re.compile(
        rf"{_MONEY}\s*([+-]?(?:\d{{1,3}}(?:[,'\u2019{_SPACES}]\d{{3}})+|\d+)?(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*{_MONEY}"
    ),
    ",": re.compile(
        rf"{_MONEY}\s*([+-]?(?:\d{{1,3}}(?:[.'\u2019{_SPACES}]\d{{3}})+|\d+)?(?:,\d*)?(?:[eE][+-]?\d+)?)\s*{_MONEY}"
    ),
}
_ISO = re.compile(
    r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:[T ]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,]\d+)?)?)?\s*"
    r"(?:Z|UTC|[+-]\d{2}:?\d{2})?"
)
_OTHER = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d{2})(?:[T ,]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,]\d+)?)?)?")
_ID_NAME = re.compile(r"(.*[\s_.-])?(id|idx|index|uuid|guid|key|no|nr|number|rownames?)|.*[a-z](Id|ID)", re.ASCII)


def _number(text: str, decimal: str) -> float:
    found = _SPELLED[decimal].fullmatch(text.replace("\u2212", "-"))
    if found is None or not any(one.isdigit() for one in found[1]):
        return np.nan
    plain = re.sub(rf"[{'.' if decimal == ',' else ','}'\u2019{_SPACES}]", "", found[1])
    try:
        return float(plain.replace(",", "."))
    except ValueError:
        return np.nan


def _iso_date(text: str) -> Any:
    found = _ISO.fullmatch(text)
    return None if found is None else _moment(found[1], found[2], found[3], found[4], found[5], found[6])


def _other_date(text: str, day: int, month: int) -> Any:
    found = _OTHER.fullmatch(text)
    if found is None or (found[2] == "." and day == 1):  # with points the day comes first everywhere
        return None
    parts = found[1], found[3]
    year = found[4] if len(found[4]) == 4 else str((1900 if int(found[4]) > 68 else 2000) + int(found[4]))
    return _moment(year, parts[month], parts[day], found[5], found[6], found[7])


def _moment(year: str, month: str, day: str, *time: str | None) -> Any:
    hour, minute, second = (int(one or 0) for one in time)
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31 and hour < 24 and minute < 60 and second <= 60):
        return None
    try:
        found = np.datetime64(f"{year}-{int(month):02d}-{int(day):02d}", "us")
    except ValueError:  # the 30th of February
        return None
    return found + np.timedelta64((hour * 60 + minute) * 60 + second, "s")


#: Spellings of numbers and dates by name; of the dates the first that reads most cells counts.
NUMBERS: dict[str, Callable[[str], float]] = {
    "point": lambda text: _number(text, "."),
    "comma": lambda text: _number(text, ","),
}
DATES: dict[str, Callable[[str], Any]] = {
    "year first": _iso_date,
    "month first": lambda text: _other_date(text, 1, 0),
    "day first": lambda text: _other_date(text, 0, 1),
}


def read_cells(distinct: Sequence[str], spelling: str) -> NDArray[Any]:
    """Return what texts mean in a spelling: numbers, NaN where it is none, or dates, NaT where it is none.

    >>> read_cells(["1.234,5", "7", "x"], "comma").tolist()
    [1234.5, 7.0, nan]
    >>> read_cells(["24.12.2025 18:30", "x"], "day first").astype(str).tolist()
    ['2025-12-24T18:30:00.000000', 'NaT']
    """
    if spelling in NUMBERS:
        return np.array([NUMBERS[spelling](one) for one in distinct], dtype=np.float64)
    found = [DATES[spelling](one) for one in distinct]
    return np.array([np.datetime64("NaT") if one is None else one for one in found], dtype="datetime64[us]")


def find_spelling(cells: Cells) -> tuple[str, bool] | None:
    """Return the spelling in which nearly all cells are numbers or dates, and whether another reads as many.

    >>> find_spelling(Cells.of(["3,25", "1.004,50"])), find_spelling(Cells.of(["a", "b"]))
    (('comma', False), None)
    """
    total = cells.n_present
    some = cells.distinct[: _PROBE // 10]
    if any(any(sign.isdigit() for sign in one) for one in some) and total:
        read = {name: _share_read(cells, name) for name in NUMBERS}
        best = max(read, key=lambda name: read[name])
        if read[best] >= _MOST:
            return best, read["point"] == read["comma"]
        probe = Cells(cells.distinct[:_PROBE], np.arange(min(_PROBE, len(cells.distinct))))
        likely = {name: _share_read(probe, name) for name in DATES}
        best = max(likely, key=lambda name: likely[name])
        if likely[best] >= _MOST / 2:  # the days of the rest may tell days from months
            best = max(DATES, key=lambda name: _share_read(cells, name) if likely[name] >= _MOST / 2 else 0.0)
            if _share_read(cells, best) >= _MOST:
                return best, False
    return None


def _share_read(cells: Cells, spelling: str) -> float:
    found = read_cells(cells.distinct, spelling)
    is_read = ~(np.isnat(found) if found.dtype.kind == "M" else np.isnan(found))
    return float(cells.counts[is_read].sum() / cells.n_present)


def is_free_text(cells: Cells) -> bool:
    """Whether cells are sentences rather than names of something: of several words, and mostly different."""
    if len(cells.distinct) < 20 or 2 * len(cells.distinct) < cells.n_present:
        return False
    some = cells.distinct[:1000]
    return sum(len(one.split()) for one in some) >= 3 * len(some)


def looks_like_id(name: str) -> bool:
    """Whether a column is called like a key of the rows.

    >>> looks_like_id("PassengerId"), looks_like_id("row_id"), looks_like_id("paid")
    (True, True, False)
    """
    return _ID_NAME.fullmatch(name.strip()) is not None or _ID_NAME.fullmatch(name.strip().lower()) is not None


def counts_rows(numbers: Array) -> bool:
    """Whether whole numbers count the rows, perhaps beginning anew in every part of the table."""
    if len(numbers) < 20 or not (numbers == np.floor(numbers)).all():
        return False
    return float(np.mean(np.diff(numbers) == 1.0)) >= _MOST
