"""What a cell of text means: a number, a label, or a missing value. Every reader of CSV follows these rules."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "NO_LABEL", "NO_NUMBER", "BadCell", "label_kind", "parse_labels", "parse_numbers", "quote_formula",
    "unquote_formula", "unquote_formulas",
]  # fmt: skip

#: Cells that hold no label, and no number. "None" and "?" may be names of classes.
NO_LABEL = frozenset(("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "null", "NULL"))
NO_NUMBER = NO_LABEL | {"-nan", "-NaN", "None", "none", "?"}

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|infinity)", re.IGNORECASE | re.ASCII)
#: Text that a spreadsheet would run as a formula, perhaps behind quotes of ours; numbers are not.
_FORMULA = re.compile(r"'*[=+\-@\t\r]", re.DOTALL)
_BEGINS = ("=", "+", "-", "@", "\t", "\r")
#: Labels with leading zeros are names, not numbers.
_DECIMAL = re.compile(rf"(?![+-]?0\d)({_NUMBER.pattern})", re.IGNORECASE | re.ASCII)
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})", re.ASCII)
#: How labels of a kind are written, and what becomes of them.
_KINDS: dict[str, tuple[re.Pattern[str], Any]] = {
    "whole": (_WHOLE, np.int64),
    "decimal": (_DECIMAL, np.float64),
    "text": (re.compile(".*", re.DOTALL), np.str_),
}


class BadCell(ValueError):
    """A column holds something that cannot be used, in ``row`` (counted from 0) or by its type."""

    def __init__(self, words: str, row: int | None = None):
        super().__init__(words)
        self.row = row


def parse_numbers(cells: Sequence[str]) -> NDArray[np.float64]:
    """Return the numbers of a column, NaN where a cell is missing.

    >>> parse_numbers(["1", " 2.5", "NA"]).tolist()
    [1.0, 2.5, nan]
    """
    out = np.empty(len(cells))
    for row, cell in enumerate(cells):
        text = cell.strip()
        if _NUMBER.fullmatch(text):
            out[row] = float(text)
        elif text in NO_NUMBER:
            out[row] = np.nan
        else:
            raise BadCell(f"holds {reprlib.repr(text)}, which is not a number{_hint(text)}", row)
    return out


def _hint(text: str) -> str:
    """Say what may be meant by text in a column of numbers."""
    if re.fullmatch(r"[+-]?\d*,\d+([eE][+-]?\d+)?", text):
        return " (is it a decimal comma? write 1.5, not 1,5)"
    if re.fullmatch(r"[+-]?\d{1,3}([,' ]\d{3})+(\.\d*)?", text):
        return " (write numbers without separators of thousands)"
    if text.endswith("%"):
        return " (write numbers without a unit)"
    return ""


def label_kind(cells: Sequence[str]) -> str:
    """Return how labels are written: "whole" numbers, "decimal" numbers, or "text", as with leading zeros.

    >>> label_kind(["1", "2", ""]), label_kind(["1.0", "2"]), label_kind(["01", "2"])
    ('whole', 'decimal', 'text')
    """
    known = {cell.strip() for cell in cells} - NO_LABEL
    if known and all(_WHOLE.fullmatch(one) for one in known):
        return "whole"
    if any("." in one for one in known) and all(_DECIMAL.fullmatch(one) for one in known):
        return "decimal"
    return "text"


def parse_labels(cells: Sequence[str], kind: str | None = None) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the labels of a column, as numbers where all are numbers, and which are missing.

    ``kind`` is how labels are written, as `label_kind` returns it; None infers it from these cells. Labels of text keep
    the spaces around them, as in all other formats.

    >>> parse_labels(["1", "2", ""])
    (array([1, 2, 0]), array([False, False,  True]))
    """
    places = {cell: place for place, cell in enumerate(dict.fromkeys(cells))}
    pattern, dtype = _KINDS[kind or label_kind(list(places))]
    values, missing = [], []
    for cell in places:
        text = cell.strip()
        if text not in NO_LABEL and not pattern.fullmatch(text):
            raise BadCell(f"holds the label {text!r}, where the first rows hold numbers", list(cells).index(cell))
        missing.append(text in NO_LABEL)
        values.append((text if missing[-1] else cell) if dtype is np.str_ else "0" if missing[-1] else text)
    rows = np.fromiter((places[cell] for cell in cells), np.int64, len(cells))
    return np.array(values, dtype=np.str_).astype(dtype)[rows], np.array(missing, dtype=bool)[rows]


def quote_formula(text: str) -> str:
    """Return text that no spreadsheet runs: what would begin a formula gets an apostrophe in front."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def unquote_formula(text: str) -> str:
    """Undo `quote_formula`."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def unquote_formulas(cells: Sequence[str]) -> list[str]:
    """Undo `quote_formula` in a column; one in which text begins a formula was not written by nearkin.

    >>> unquote_formulas(["'=a", "b"]), unquote_formulas(["'=a", "=a"])
    (['=a', 'b'], ["'=a", '=a'])
    """
    if any(cell.startswith(_BEGINS) and not _NUMBER.fullmatch(cell) for cell in cells):
        return list(cells)
    return [unquote_formula(cell) for cell in cells]
