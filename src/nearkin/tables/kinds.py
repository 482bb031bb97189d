"""What a column of text is: numbers in some spelling, dates, categories, codes of rows, or texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array
from nearkin.tables.raw import Cells

__all__ = [
    "DATES",
    "NUMBERS",
    "counts_rows",
    "find_spelling",
    "find_unit",
    "is_free_text",
    "looks_like_id",
    "read_cells",
    "read_column",
    "share_of_numbers",
    "without_unit",
]

#: Share of the cells that a spelling must read; the others count as missing.
_MOST = 0.95
#: Words up to which numbers of more than half of the cells, and of that many different ones, are numbers all the same.
_WORDS, _MANY = 5, 30
#: Cells of which the spelling is guessed before all are read.
_PROBE = 200

_SPACES = " \u00a0\u202f\u2009"
_MONEY = r"[$\u20ac\u00a3\u00a5%]?"
#: How numbers are written, by the sign before their decimals; the other signs separate thousands.
_SPELLED = {
    ".": re.compile(
        rf"{_MONEY}\s*([+-]?(?:[1-9]\d{{0,2}}(?:[,'\u2019{_SPACES}]\d{{3}})+|\d+)?(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*{_MONEY}"
    ),
    ",": re.compile(
        rf"{_MONEY}\s*([+-]?(?:[1-9]\d{{0,2}}(?:[.'\u2019{_SPACES}]\d{{3}})+|\d+)?(?:,\d*)?(?:[eE][+-]?\d+)?)\s*{_MONEY}"
    ),
}
#: A minus sign as accountants write it.
_MINUS = re.compile(rf"({_MONEY})\s*\(([^()+-]*)\)\s*({_MONEY})")
#: A number with letters behind it, which may be a unit; without a space between them small letters only.
_WITH_UNIT = re.compile(rf"([(+-]?\d[\d.,'\u2019{_SPACES}]*?)(?:\s+([^\W\d_]{{1,8}})|([^\W\d_A-Z][^\W\d_]{{0,7}}))\.?")
_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:[.,]\d+)?)?")
_ISO = re.compile(
    r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:[T ]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,]\d+)?)?)?\s*"
    r"(?:Z|UTC|[+-]\d{2}:?\d{2})?"
)
_OTHER = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d{2})(?:[T ,]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,]\d+)?)?)?")
_ID_NAME = re.compile(r"(.*[\s_.-])?(id|idx|index|uuid|guid|key|no|nr|number|rownames?)|.*[a-z](Id|ID)", re.ASCII)


def _number(text: str, decimal: str) -> float:
    text = text.replace("\u2212", "-")
    if (minus := _MINUS.fullmatch(text)) is not None:
        return -_number("".join(minus.groups()), decimal)
    found = _SPELLED[decimal].fullmatch(text)
    if found is None or not any(one.isdigit() for one in found[1]):
        return np.nan
    plain = re.sub(rf"[{'.' if decimal == ',' else ','}'\u2019{_SPACES}]", "", found[1])
    try:
        return float(plain.replace(",", "."))
    except ValueError:
        return np.nan


def _hours(text: str) -> float:
    found = _TIME.fullmatch(text)
    return np.nan if found is None else int(found[1]) + int(found[2]) / 60 + int(found[3] or 0) / 3600


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
    try:
        return datetime(int(year), int(month), int(day), hour, minute, min(second, 59))  # 60 is a leap second
    except ValueError:  # the 30th of February
        return None


#: Spellings of numbers and dates by name; of the dates the first that reads most cells counts.
NUMBERS: dict[str, Callable[[str], float]] = {
    "point": lambda text: _number(text, "."),
    "comma": lambda text: _number(text, ","),
    "time": _hours,
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
    return np.array(found, dtype="datetime64[us]")


def read_column(cells: Cells, spelling: str) -> NDArray[Any]:
    """Return what the distinct cells of a column mean; read once, however often the caller needs it."""
    if spelling not in cells.memo:
        cells.memo[spelling] = read_cells(cells.distinct, spelling)
    found: NDArray[Any] = cells.memo[spelling]
    return found


def find_spelling(cells: Cells) -> tuple[str, bool] | None:
    """Return the spelling in which nearly all cells are numbers or dates, and whether another reads as many.

    Many different numbers with a few words among them, such as "free", are numbers if they are more than half.

    >>> find_spelling(Cells.of(["3,25", "1.004,50"])), find_spelling(Cells.of(["a", "b"]))
    (('comma', False), None)
    """
    some = cells.distinct[:: max(1, len(cells.distinct) // _PROBE)]
    if not any(sign.isdigit() for one in some for sign in one):
        return None
    for spellings in (NUMBERS, DATES):
        probe = {name: int((~_is_unread(read_cells(some, name))).sum()) for name in spellings}
        likely = [name for name, n in probe.items() if n >= 0.9 * _MOST * max(probe.values()) and 2 * n >= len(some)]
        shares = {name: _share_read(cells, name) for name in likely}
        best = max(shares, key=lambda name: shares[name], default="")
        if shares.get(best, 0.0) >= _MOST or (best in NUMBERS and _has_few_words(cells, best)):
            return best, list(shares.values()).count(shares[best]) > 1
    return None


def _is_unread(values: NDArray[Any]) -> NDArray[np.bool_]:
    return np.isnat(values) if values.dtype.kind == "M" else np.isnan(values)


def _share_read(cells: Cells, spelling: str) -> float:
    return float(cells.counts[~_is_unread(read_column(cells, spelling))].sum() / cells.n_present)


def find_unit(cells: Cells) -> str:
    """Return the unit that nearly all cells have behind a number, "" if there is none.

    >>> find_unit(Cells.of(["170 cm", "165 cm", "180cm"])), find_unit(Cells.of(["1 kg", "500 g"]))
    ('cm', '')
    """
    some = [_unit(one) for one in cells.distinct[:: max(1, len(cells.distinct) // _PROBE)]]
    unit = max(set(some), key=some.count, default="")
    if not unit or some.count(unit) < 0.9 * _MOST * len(some):
        return ""
    has = np.array([_unit(one) == unit for one in cells.distinct])
    return unit if cells.counts[has].sum() >= _MOST * cells.n_present else ""


def _unit(text: str) -> str:
    found = _WITH_UNIT.fullmatch(text)
    return "" if found is None else found[2] or found[3]


def without_unit(cells: Cells, unit: str) -> Cells:
    """Return cells without the unit behind their numbers; those of another unit stay as they are."""
    found = [_WITH_UNIT.fullmatch(one) if _unit(one) == unit else None for one in cells.distinct]
    texts = [one if match is None else match[1] for one, match in zip(cells.distinct, found, strict=True)]
    return Cells.numbered([*texts, None], cells.codes)


def _has_few_words(cells: Cells, spelling: str) -> bool:
    n_words = int(_is_unread(read_column(cells, spelling)).sum())
    return n_words <= _WORDS and len(cells.distinct) - n_words > _MANY and 2 * _share_read(cells, spelling) > 1


def share_of_numbers(cells: Cells) -> float:
    """Return the share of the cells that are numbers in one spelling."""
    return max(_share_read(cells, name) for name in NUMBERS)


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
