"""What users hand over, checked: vectors, the ids of their rows, and columns of feedback that speak of these ids."""

from __future__ import annotations

import os
import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from nearkin.arrays import Array, Index, Mask
from nearkin.errors import InputError, Option, Row
from nearkin.settings import Integer, OneOf, check_argument
from nearkin.tables import NO_LABEL, open_table, read_labels, read_matrix

__all__ = [
    "ID_COLUMNS", "IdTable", "Log", "Tally", "as_ids", "as_vectors", "check_lengths", "parse_times", "read_vectors",
    "zero_rows",
]  # fmt: skip

#: Columns that are taken for ids.
ID_COLUMNS = ("id", "ids")
#: Largest grade of a click, or seconds of its dwell time; more is a time or an id.
_LARGEST = 1e9
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", re.ASCII)
#: Words for true and false.
_WORDS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0, "1": 1.0, "0": 0.0}


def as_vectors(X: ArrayLike, name: str, width: int | None = None, dtype: np.dtype | None = None) -> Array:
    """Return vectors as a finite array of shape (n, width); error messages call them ``name``.

    Without a ``dtype``, float32 stays, float16 becomes float32 and everything else float64.
    """
    found = _as_matrix(X, name)
    if width is not None and found.shape[1] != width:
        raise InputError(f"vectors have {found.shape[1]} features, but {width} are expected.", place=name)
    if not found.shape[1]:
        raise InputError(f"vectors have no features; got shape {found.shape}.", place=name)
    if dtype is None:
        dtype = np.dtype(np.float32 if found.dtype in (np.float16, np.float32) else np.float64)
    with np.errstate(over="ignore"):
        vectors = np.ascontiguousarray(found, dtype=dtype)
    if not np.isfinite(vectors).all():
        row, column = (int(one) for one in np.argwhere(~np.isfinite(vectors))[0])
        problem = f"{{row}} holds {vectors[row, column]} in column {column}; every number must be finite."
        raise InputError(problem, place=name, row=Row(row))
    return vectors


def _as_matrix(X: ArrayLike, name: str) -> NDArray[Any]:
    """Return numbers of two dimensions."""
    if sparse.issparse(X):
        raise InputError(f"vectors must be dense, as in an index; use {name}.toarray().", place=name)
    try:
        found = np.asarray(X)
    except ValueError:
        raise InputError("all vectors must have the same length.", place=name) from None
    if found.ndim != 2:
        hint = " For a single vector pass [vector]." if found.ndim == 1 else ""
        raise InputError(f"vectors must be the rows of a matrix; got shape {found.shape}.{hint}", place=name)
    if found.dtype.kind not in "fiub":
        raise InputError(f"vectors must be numbers; got dtype {found.dtype}.", place=name)
    return found


def check_lengths(X: Array, name: str) -> None:
    """Refuse vectors so long that inner products or distances overflow, since infinite scores have no order."""
    with np.errstate(over="ignore"):
        squares = np.einsum("ij,ij->i", X, X)
    too_long = ~(squares <= np.finfo(X.dtype).max / 4)
    if too_long.any():
        problem = f"{{row}} is so long that its square overflows {X.dtype}; divide all vectors by a number."
        raise InputError(problem, place=name, row=Row(too_long.argmax()))


def zero_rows(X: Array) -> Index:
    """Return the numbers of the rows that are zero: they have no direction, and all their scores are 0."""
    return np.flatnonzero(~X.any(axis=1))


def read_vectors(
    path: str | os.PathLike[str], ids: str | os.PathLike[str] | None = None, id_column: str | None = None
) -> tuple[Array, NDArray[Any] | int]:
    r"""Read vectors and the ids of their rows.

    Parameters
    ----------
    path : path-like
        npy, npz, CSV or Parquet file; all columns but the ids are the vectors.
    ids : path-like or None, default=None
        File of ids: npy, or text with one id a line.
    id_column : str or None, default=None
        Column (or array of an npz file) of ids; None finds one called id or ids.

    Returns
    -------
    vectors : ndarray of shape (n, n_features)
        One vector per row.
    ids : ndarray of shape (n,) or int
        Their ids; the number of rows if there are none.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "items.csv"
    ...     _ = path.write_text("id,x,y\na,0,1\nb,2,3\n")
    ...     read_vectors(path)
    (array([[0., 1.],
           [2., 3.]]), array(['a', 'b'], dtype='<U1'))
    """
    if ids is not None and id_column is not None:
        raise InputError(f"ids of {path} are given as a column and as a file; give one of them.")
    table = open_table(Path(path))
    if id_column is None and ids is None:
        id_column = next((name for name in ID_COLUMNS if name in table.names), None)
    X = read_matrix(table, drop=[] if id_column is None else [id_column])
    if ids is None and id_column is None:
        return X, len(X)
    found, missing = read_labels(Path(ids)) if ids is not None else table.labels(str(id_column))
    title = str(ids) if ids is not None else f"column {id_column!r} of {path}"
    if len(found) != len(X):
        raise InputError(f"{title} holds {len(found):,} ids for {len(X):,} vectors.")
    if missing.any():
        raise InputError(f"{title} holds no id in {{row}}; every vector needs one.", row=Row(missing.argmax()))
    IdTable(found, title)  # repeated ids are named here, where their file is known
    return X, found


class IdTable:
    """Ids (whole numbers or text, all different) in the order of the rows that they name.

    A number n stands for 0, 1, ..., n - 1; error messages call the rows ``name``.
    """

    def __init__(self, ids: ArrayLike | int, name: str):
        if isinstance(ids, (int, np.integer)):
            check_argument(name, "ids", ids, Integer(0))
            ids = np.arange(ids)
        self.ids = as_ids(ids, name)
        self.name = name
        self._order = np.argsort(self.ids, kind="stable")
        self._sorted = self.ids[self._order]
        self._rows: dict[str, int] | None = None
        repeated = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
        if len(repeated):
            row = self._order[repeated[0] + 1]
            raise InputError(f"{{row}} repeats the id {self.ids[row].item()!r}.", place=name, row=Row(row))

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, wanted: ArrayLike) -> Index:
        """Return the rows of ids, -1 for an unknown one; numbers match the same numbers written as text.

        Arrays must hold ids only. Lists come from logs, where any value may stand; what cannot be an id is unknown.
        """
        if isinstance(wanted, (list, tuple)):
            return self._find_values(wanted)
        wanted = as_ids(wanted, self.name)
        if not len(self) or not len(wanted):
            return np.full(len(wanted), -1, dtype=np.int64)
        if wanted.dtype.kind != self.ids.dtype.kind:
            if wanted.dtype.kind == "U":
                return IdTable(self.ids.astype(str), self.name).find(wanted)
            wanted = wanted.astype(str)
        at = np.minimum(np.searchsorted(self._sorted, wanted), len(self) - 1)
        return np.where(self._sorted[at] == wanted, self._order[at], -1).astype(np.int64)

    def _find_values(self, wanted: Sequence[Any]) -> Index:
        if self._rows is None:
            self._rows = {str(one): row for row, one in enumerate(self.ids.tolist())}
        get = self._rows.get
        try:
            found = np.fromiter((get(one, -1) for one in wanted), np.int64, len(wanted))
        except TypeError:  # a value that cannot be a key, such as a list
            found = np.full(len(wanted), -1, np.int64)
        for at in np.flatnonzero(found < 0).tolist():
            written = _write_id(wanted[at])
            found[at] = -1 if written is None else get(written, -1)
        return found


def _write_id(value: Any) -> str | None:
    """Return an id as its table writes it: tools write 7 as 7.0 where a column has gaps, and put spaces around text."""
    if isinstance(value, str):
        text = value.strip()
        return text[: text.index(".")] if re.fullmatch(r"-?(0|[1-9]\d*)\.0+", text, re.ASCII) else text
    return str(int(value)) if Integer(-(2**63)).allows(value) or _is_whole_float(value) else None


def _is_whole_float(value: Any) -> bool:
    return isinstance(value, float) and abs(value) <= 2.0**53 and value == int(value)


def as_ids(ids: ArrayLike, name: str) -> NDArray[Any]:
    """Return ids as an array of int64 or of text."""
    found = _as_column(ids, name)
    if found.dtype.kind == "U":
        return found
    if found.dtype.kind == "O" and any(isinstance(one, str) for one in found.tolist()):
        texts = [_write_id(one) if not isinstance(one, str) else one for one in found.tolist()]
        if None not in texts:
            return np.array(texts)
    if found.dtype.kind not in "iufO":
        raise InputError(f"ids must be whole numbers or text; got dtype {found.dtype}.", place=name)
    numbers, wrong = _as_whole(found)
    if wrong.any():
        row = int(wrong.argmax())
        problem = f"ids must be whole numbers or text; {{row}} holds {found[row]!r}, which 64 bits do not hold exactly."
        raise InputError(problem, place=name, row=Row(row))
    return numbers


def _as_column(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return one value per row."""
    try:
        found = np.asarray(values)
    except ValueError:
        raise InputError("one value per row is needed; got lists of different lengths.", place=name) from None
    if found.ndim != 1:
        raise InputError(f"one value per row is needed; got shape {found.shape}.", place=name)
    return found


def _as_whole(values: NDArray[Any]) -> tuple[Index, Mask]:
    """Return values as int64, and where they are not whole numbers that fit there without a change."""
    if values.dtype.kind in "iu":
        wrong = values > np.iinfo(np.int64).max if values.dtype == np.uint64 else np.zeros(len(values), dtype=bool)
    elif values.dtype.kind == "f":  # beyond 2**53 a float stands for several whole numbers
        wrong = ~((np.abs(values) <= 2.0**53) & (values == np.floor(values)))
    else:
        wrong = np.array([not _is_whole(one) for one in values.tolist()], dtype=bool)
    numbers = np.zeros(len(values), dtype=np.int64)
    numbers[~wrong] = values[~wrong].astype(np.int64)
    return numbers, wrong


def _is_whole(value: Any) -> bool:
    if isinstance(value, str):
        value = int(value) if re.fullmatch(r"[+-]?\d{1,18}", value.strip(), re.ASCII) else None
    return Integer(-(2**63)).allows(value) and value < 2**63


@dataclass
class Tally:
    """What was left out of a log, by reason: how many rows, and where the first of them stands, if that is known.

    ``name_row`` says where a row stands by its number.
    """

    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)
    name_row: Callable[[int], str] = "row {}".format

    def add(self, reason: str, count: int, place: str) -> None:
        """Count rows."""
        self.counts[reason] = self.counts.get(reason, 0) + count
        if place:
            self.first.setdefault(reason, place)


class Log:
    """Columns of feedback, and the rows kept so far.

    Parameters
    ----------
    queries, items : IdTable
        What the columns speak of.
    bad : {"raise", "skip"}
        Whether `drop` raises an error or counts.
    columns : dict of str to array or list
        By role; lists come from files and may hold anything.
    tally : Tally
        Counts what is dropped.
    rows : ndarray of int64 or None, default=None
        Numbers of the rows in their file; None for 0, 1, ...
    place : str, default=""
        The file, for the places of the tally.
    """

    def __init__(
        self, queries: IdTable, items: IdTable, bad: str, columns: Mapping[str, Any], tally: Tally,
        rows: Index | None = None, place: str = "",
    ):  # fmt: skip
        check_argument("feedback", "bad", bad, OneOf(("raise", "skip")))
        self.queries, self.items, self.bad, self.tally, self.place = queries, items, bad, tally, place
        self.columns = {
            name: one if isinstance(one, (list, tuple)) else _as_column(one, f"feedback, {name!r}")
            for name, one in columns.items()
        }
        lengths = {name: len(values) for name, values in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"columns must be equally long; got {lengths}.", owner="feedback")
        self.n_rows = next(iter(lengths.values()))
        self.rows = np.arange(self.n_rows) if rows is None else rows
        self.kept = np.ones(self.n_rows, dtype=bool)
        self._error: tuple[int, InputError] | None = None

    @classmethod
    def of_arrays(
        cls, query_ids: ArrayLike | int, item_ids: ArrayLike | int, bad: str, duplicates: str, **columns: Any
    ) -> Log:
        """Make a log of arrays that a program hands over, which hold at least one row."""
        check_argument("feedback", "bad", bad, OneOf(("raise", "skip")))
        check_argument("feedback", "duplicates", duplicates, OneOf(("raise", "skip", "keep")))
        arrays = {name: _as_column(one, f"feedback, {name!r}") for name, one in columns.items() if one is not None}
        log = cls(IdTable(query_ids, "queries"), IdTable(item_ids, "items"), bad, arrays, Tally())
        if not log.n_rows:
            raise InputError("there are no rows to learn from.", owner="feedback")
        return log

    def find(self, name: str) -> Index:
        """Return the queries or items of a column by number, and drop rows with none or an unknown one."""
        known, noun = (self.queries, "query") if name == "query" else (self.items, "item")
        values = self.columns[name]
        found = known.find(values)
        unknown = found < 0
        if isinstance(values, (list, tuple)) and unknown.any():
            missing = np.zeros(self.n_rows, dtype=bool)
            missing[[at for at in np.flatnonzero(unknown) if _is_missing(values[at])]] = True
            self.drop(missing, f"column {name!r} holds nothing", f"missing {noun}")
        first = self.value(name, int((unknown & self.kept).argmax())) if self.n_rows else None
        self.drop(unknown, f"{name} {first!r} is not among the {len(known):,} {known.name}", f"unknown {noun}", name)
        return found

    def need(self, name: str) -> None:
        """Drop rows that hold nothing in a column."""
        values = self.columns[name]
        if isinstance(values, (list, tuple)):
            plain = _without_lists(values)
            nothing = {one for one in set(plain) if _is_missing(one)}
            if nothing:
                missing = np.fromiter((one in nothing or one != one for one in plain), bool, self.n_rows)
                self.drop(missing, f"column {name!r} holds nothing", f"missing {name}")

    def value(self, name: str, row: int) -> Any:
        """Return one value of a column as Python writes it."""
        value = self.columns[name][row]
        return value.item() if hasattr(value, "item") else value

    def grades(self, name: str, *, missing: float = np.nan) -> Array:
        """Return a column of true and false, however they are written, or of grades from 0 up, as numbers.

        A value that is missing counts as ``missing``; NaN drops the row, as any other value does.
        """
        numbers = self._numbers(name, missing)
        wrong = ~((numbers >= 0) & (numbers <= _LARGEST))
        self._drop_odd(name, wrong, "1 or 0, true or false, or a grade from 0 up to a thousand million")
        return numbers

    def ranks(self, name: str) -> Index:
        """Return a column of positions: whole numbers from 0 up."""
        values = self.columns[name]
        if isinstance(values, (list, tuple)):
            numbers = self._numbers(name, np.nan)
            wrong = ~((np.abs(numbers) <= 2.0**53) & (numbers == np.floor(numbers)))
            whole = np.where(wrong, 0.0, numbers).astype(np.int64)
        else:
            whole, wrong = _as_whole(values)
        self._drop_odd(name, wrong | (whole < 0), "a whole number from 0 up")
        return whole

    def times(self, name: str) -> Array:
        """Return a column of times in seconds since 1970."""
        seconds = parse_times(self.columns[name])
        self._drop_odd(name, ~np.isfinite(seconds), "a time, as in 2026-03-01T12:00 or in seconds since 1970,")
        return seconds

    def _numbers(self, name: str, missing: float) -> Array:
        """Return numbers, NaN for what is none."""
        values = self.columns[name]
        if not isinstance(values, (list, tuple)) and values.dtype.kind in "biuf":
            return values.astype(np.float64)
        plain = list(values) if isinstance(values, (list, tuple)) else values.tolist()
        try:  # at once, if all are numbers
            if plain and isinstance(plain[0], str):
                return np.array(plain).astype(np.float64)
            if not any(one is None or isinstance(one, complex) for one in plain):
                return np.array(plain, dtype=np.float64)
        except (TypeError, ValueError):
            pass
        return np.array([_as_number(one, missing) for one in plain], dtype=np.float64)

    def _drop_odd(self, name: str, which: Mask, needed: str) -> None:
        if (which & self.kept).any():
            value = self.value(name, int((which & self.kept).argmax()))
            self.drop(which, f"holds {value!r} in {name!r}; {needed} is needed", f"odd {name!r}", name, verb="")

    def drop(self, which: Mask, problem: str, reason: str, column: str | None = None, verb: str = ":") -> None:
        """Skip and count rows, or keep an error for the first of them, which `check` raises."""
        which = which & self.kept
        if not which.any():
            return
        row, count = int(which.argmax()), int(which.sum())
        self.kept &= ~which
        if self.bad == "raise":
            error = InputError(
                f"{{row}}{verb} {problem} ({count:,} of {self.n_rows:,} rows). Correct them; {{skip}} skips and counts "
                "them.",
                owner="feedback", row=Row(self.rows[row]), skip=Option("bad", "skip"),
            )  # fmt: skip
            self._error = (row, error) if self._error is None or row < self._error[0] else self._error
            return
        shown = "" if column is None else f": {reprlib.repr(self.value(column, row))}"
        place = f"{self.place}, data row {self.rows[row] + 1:,}" if self.place else f"row {self.rows[row]}"
        self.tally.add(reason, count, place + shown)

    def check(self) -> Mask:
        """Return the rows to use, once all columns were read; if odd rows are errors, raise that of the first."""
        if self._error is not None:
            raise self._error[1]
        return self.kept


def _without_lists(values: Sequence[Any]) -> Sequence[Any]:
    """Return values of which each can be a key, with None in place of lists and objects."""
    return [None if isinstance(one, (list, dict)) else one for one in values]


def _is_missing(value: Any) -> bool:
    return value is None or value != value or (isinstance(value, str) and value.strip() in NO_LABEL)


def _as_number(value: Any, missing: float) -> float:
    if _is_missing(value):
        return missing
    if isinstance(value, str):
        value = _WORDS.get(value.strip().lower(), value)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def parse_times(values: Sequence[Any] | NDArray[Any]) -> Array:
    """Return times in seconds since 1970, NaN for what is none.

    Numbers beyond 1e11 are milliseconds, beyond 1e14 microseconds, beyond 1e17 nanoseconds. Text is a date as ISO 8601
    writes it, in UTC unless it says otherwise.

    Examples
    --------
    >>> parse_times(["2026-01-01", 1767225600000, "soon"]).tolist()
    [1767225600.0, 1767225600.0, nan]
    """
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        values = values.astype("M8[us]").astype(np.int64) / 1e6
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
        seconds = values.astype(np.float64)
    else:
        plain = _without_lists(values.tolist() if isinstance(values, np.ndarray) else values)
        known = {one: _as_seconds(one) for one in set(plain)}  # rows of a list have one time
        seconds = np.fromiter(map(known.__getitem__, plain), np.float64, len(plain))
    for size, unit in ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3)):
        large = np.abs(seconds) > size
        seconds[large] /= unit
    return seconds


def _as_seconds(value: Any) -> float:
    if isinstance(value, str) and not _NUMBER.fullmatch(value.strip()):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return np.nan
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    return _as_number(value, np.nan)
