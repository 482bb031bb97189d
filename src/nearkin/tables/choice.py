"""Which code a column gets, and the words that tell what became of it."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from nearkin.arrays import Array
from nearkin.errors import InputError, printable
from nearkin.tables.cells import BadCell
from nearkin.tables.codes import (
    CategoryCode,
    Code,
    DateCode,
    NumberCode,
    PictureCode,
    TextCode,
    VectorCode,
    read_numbers,
)
from nearkin.tables.images import PICTURES
from nearkin.tables.kinds import (
    DATES,
    NUMBERS,
    counts_rows,
    find_spelling,
    find_unit,
    is_free_text,
    looks_like_id,
    share_of_numbers,
    without_unit,
)
from nearkin.tables.raw import Cells, RawColumn

__all__ = ["REVIEWED", "Decision", "are_pictures", "as_pictures", "as_text", "choose_code"]

#: Columns that ``nearkin apply`` adds to a table: they tell the label.
REVIEWED = ("row", "given_label", "decision")

#: Categories up to which each has a column of its own, whatever share of the rows it has.
_FEW = 30
#: Share of the rows that differ from which texts are names of rows.
_NAMES = 0.95
#: Dimensions of many categories, by whether they are names of several words or codes, and the fewest and most of texts.
_OF_NAMES, _OF_CODES, _OF_TEXTS = 20, 6, (8, 100)
#: Words of a name, and of a text from which it deserves the most dimensions.
_NAME, _LONG = 1.5, 20

#: The code, if the column is used; the kind of column; what became of it.
Decision = tuple[Code | None, str, str]


def choose_code(column: RawColumn, spelled: tuple[str, bool] | None, *, is_named: bool, has_commas: bool) -> Decision:
    """Decide what becomes of a column that is neither declared a text nor pictures.

    Parameters
    ----------
    column : RawColumn
        Its cells, numbers or dates.
    spelled : tuple or None
        How its cells are spelled, if they are all numbers or dates, and whether another reading fits too.
    is_named : bool
        Whether the features were named, so that even names of rows count as such.
    has_commas : bool
        Whether another column of the table has decimal commas.

    Returns
    -------
    tuple
        The code or None, the kind, and the words.
    """
    if spelled is not None:
        name, is_open = spelled
        if name in DATES:
            return _as_date(column, name, is_open=is_open)
        return _as_number(column, "comma" if is_open and has_commas else name, is_named)
    if column.cells is not None:
        if unit := find_unit(column.cells):
            return _as_quantity(column, unit, is_named=is_named, has_commas=has_commas)
        return _as_category(column, is_named)
    if column.dates is not None:
        return _as_date(column, "plain")
    if column.numbers is None:
        return None, "unknown", f"left out: it holds {column.kind}, of which nothing is made"
    if column.numbers.ndim == 2:
        return _as_vectors(column)
    comma = has_commas and column.texts is not None and _has_thousands(column.texts())
    return _as_number(column, "comma" if comma else "plain", is_named)


def _as_number(column: RawColumn, spelling: str, is_named: bool) -> Decision:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the words below tell the same
        numbers = read_numbers(column, spelling)
    gaps = np.isnan(numbers)
    n_gaps = int(gaps.sum())
    if n_gaps == len(numbers):
        return None, "empty", "left out: it is empty"
    present = numbers[~gaps]
    code = NumberCode.learn(numbers, spelling)
    if (present == present[0]).all() and not code.is_only_flag:
        return None, "constant", f"left out: it is {_brief(present[0])} in all rows"
    if not is_named and not n_gaps and spelling == "plain" and column.kind != "true or false":
        if counts_rows(numbers):
            return None, "id", "left out: it counts the rows"
        if looks_like_id(column.name) and len(numbers) > 20 and _all_differ(numbers):
            return None, "id", "left out: it names the rows"
    if code.is_only_flag:
        return (
            code,
            "number",
            f"whether it is there: it is {_brief(present[0])} in all {len(present):,} rows that hold it",
        )
    words = ["true or false" if column.kind == "true or false" else "number"]
    if spelling == "comma":
        words[0] += " with decimal comma"
    elif spelling == "time":
        words[0] = "time of the day, in hours"
    n_bad = 0 if column.cells is None else n_gaps - int((column.cells.codes < 0).sum())
    if n_gaps:
        kinds = f"{n_gaps:,} gap{'s' * (n_gaps > 1)}" + (f" ({n_bad:,} of them no number)" if n_bad else "")
        words.append(f"{kinds} filled with {_brief(code.fill)}" + (" and marked" if code.is_flagged else ""))
    return code, "number", "; ".join(words)


def _as_quantity(column: RawColumn, unit: str, *, is_named: bool, has_commas: bool) -> Decision:
    """Decide about numbers with a unit behind them."""
    assert column.cells is not None
    bare = RawColumn.of_cells(column.name, without_unit(column.cells, unit))
    assert bare.cells is not None
    spelled = find_spelling(bare.cells)
    if spelled is None or spelled[0] not in NUMBERS:
        return _as_category(column, is_named)
    code, kind, told = _as_number(bare, "comma" if spelled[1] and has_commas else spelled[0], is_named)
    if not isinstance(code, NumberCode):
        return code, kind, told
    return replace(code, unit=unit), kind, told.replace("number", f"number of {unit}", 1)


def _all_differ(numbers: Array) -> bool:
    return bool((numbers == np.floor(numbers)).all()) and len(np.unique(numbers)) == len(numbers)


def _as_category(column: RawColumn, is_named: bool) -> Decision:
    cells = column.cells
    assert cells is not None
    n, k = cells.n_present, len(cells.distinct)
    if not k:
        return None, "empty", "left out: it is empty"
    n_gaps = len(cells.codes) - n
    if k == 1:
        code = CategoryCode.learn(cells)
        if not code.is_flagged:
            return None, "constant", f"left out: it is {printable(cells.distinct[0], 30)!r} in all rows"
    if is_free_text(cells):
        return as_text(cells, "text")
    if k >= _NAMES * n and k > 5 and not is_named:
        if are_pictures(cells):
            return None, "id", "left out: it names picture files, learned only if you say so"
        _warn_of_numbers(column, "left out, since it seems to name the rows")
        return None, "id", "left out: it names the rows"
    if k > _FEW:
        _warn_of_numbers(column, "taken for categories")
        decided = as_text(cells, "many categories")
        return decided if decided[0] is not None else (None, "id", "left out: it names the rows")
    code = CategoryCode.learn(cells)
    shown = " or ".join(printable(one, 20) for one in code.values.tolist()) if k == 2 else f"{k:,} values"
    words = f"category, {shown}"
    if code.has_rest or (k > 2 and len(code.values) < k):
        words += f", the {len(code.values):,} most frequent one by one"
    if n_gaps:
        words += f"; {n_gaps:,} gap{'s' * (n_gaps > 1)}" + (" marked" if code.is_flagged else "")
    return code, "category", words


def are_pictures(cells: Cells) -> bool:
    """Whether all cells name picture files."""
    return bool(cells.distinct) and all(one.lower().endswith(PICTURES) for one in cells.distinct)


def _warn_of_numbers(column: RawColumn, taken: str) -> None:
    """Warn of a column of numbers, by more than half, that is not taken for one."""
    assert column.cells is not None
    if 4 * share_of_numbers(Cells.of(column.cells.distinct[:1000])) < 1:  # to read all may take long
        return
    share = share_of_numbers(column.cells)
    if 2 * share > 1:
        unread = next((one for one in column.cells.distinct if not share_of_numbers(Cells.of([one]))), "")
        problem = f"column {column.name!r} is {taken}, though {100 * share:.0f} % of its cells are numbers"
        warnings.warn(problem + (f"; others are like {unread[:40]!r}." if unread else "."), stacklevel=6)


def as_text(cells: Cells, kind: str) -> Decision:
    """Decide about texts, or about categories too many to have a column each."""
    if not cells.n_present:
        return None, "empty", "left out: it is empty"
    if len(cells.distinct) == 1:
        return None, "constant", f"left out: it is {printable(cells.distinct[0], 30)!r} in all rows"
    some = cells.distinct[:1000]
    length = sum(len(one.split()) for one in some) / len(some)
    if kind == "text":
        most = np.sqrt(cells.n_present) * min(1.0, length / _LONG)
        n_dimensions = int(np.clip(most, *_OF_TEXTS))
    else:
        most = _OF_NAMES if length >= _NAME else _OF_CODES
        n_dimensions = min(most, max(2, int(np.sqrt(cells.n_present) / 2)))
    code = TextCode.learn(cells, n_dimensions, has_words=kind == "text")
    n_gaps = len(cells.codes) - cells.n_present
    how = "words and letters" if kind == "text" else "spelling"
    what = kind if kind == "text" else f"{len(cells.distinct):,} categories"
    words = f"{what}, as {len(code.space):,} numbers by {how}"
    if n_gaps:
        words += f"; {n_gaps:,} gap{'s' * (n_gaps > 1)}" + (" marked" if code.is_flagged else "")
    return code, kind, words


def _as_date(column: RawColumn, spelling: str, *, is_open: bool = False) -> Decision:
    dates = column.dates
    if dates is not None and np.isnat(dates).all():
        return None, "empty", "left out: it is empty"
    code = DateCode.learn(column, spelling)
    if not code.names(""):
        return None, "constant", "left out: it is one date in all rows"
    parts = ["days"] * code.has_age + [f"place in the {one}" for one in code.rounds]
    order = (
        f" ({spelling}{', though day first fits too' * is_open})" if spelling in ("month first", "day first") else ""
    )
    return code, "date", f"date{order}, as " + ", ".join(parts) + ("; gaps marked" if code.is_flagged else "")


def _as_vectors(column: RawColumn) -> Decision:
    vectors = column.numbers
    assert vectors is not None
    if not vectors.size or np.isnan(vectors).all():
        return None, "empty", "left out: it is empty"
    code = VectorCode.learn(vectors)
    n_gaps = int(np.isnan(vectors).any(axis=1).sum())
    return code, "vectors", f"vectors of {vectors.shape[1]:,} numbers" + (f"; {n_gaps:,} gaps filled" if n_gaps else "")


def as_pictures(column: RawColumn) -> Decision:
    """Decide about a column of picture files."""
    n_dimensions = int(np.clip(1.5 * np.sqrt(column.n_rows), *_OF_TEXTS))
    try:
        code, n_bad = PictureCode.learn(column, n_dimensions)
    except BadCell as cell:
        raise InputError(f"column {column.name!r} {cell}.") from None
    except ImportError as error:
        raise ImportError(f"column {column.name!r}: {error}") from None
    words = f"pictures, as {len(code.space):,} numbers by edges and colours"
    return code, "pictures", words + (f"; {n_bad:,} cannot be read" if n_bad else "")


def _has_thousands(cells: Cells) -> bool:
    """Whether points stand before three digits wherever they stand, as between thousands."""
    dotted = [one for one in cells.distinct if "." in one]
    return bool(dotted) and all(_is_grouped(one) for one in dotted)


def _is_grouped(text: str) -> bool:
    first, *groups = text.lstrip("+-").split(".")
    return 1 <= len(first) <= 3 and first != "0" and all(len(one) == 3 and one.isdigit() for one in groups)


def _brief(value: Any) -> str:
    return f"{float(value):.6g}"
