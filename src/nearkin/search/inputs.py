"""What users hand over, checked: vectors, the ids of their rows, and columns of feedback that speak of these ids."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from nearkin.arrays import Array, Index, Mask
from nearkin.errors import InputError, Option, Row
from nearkin.settings import Integer, OneOf, check_argument
from nearkin.tables import open_table, read_labels, read_matrix

__all__ = ["IdTable", "Log", "as_ids", "as_vectors", "check_lengths", "read_vectors", "zero_rows"]

#: Columns that are taken for ids.
_IDS = ("id", "ids")
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
        id_column = next((name for name in _IDS if name in table.names), None)
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
        repeated = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
        if len(repeated):
            row = self._order[repeated[0] + 1]
            raise InputError(f"{{row}} repeats the id {self.ids[row].item()!r}.", place=name, row=Row(row))

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, wanted: ArrayLike) -> Index:
        """Return the rows of ids, -1 for an unknown one; numbers match the same numbers written as text."""
        wanted = as_ids(wanted, self.name)
        if not len(self) or not len(wanted):
            return np.full(len(wanted), -1, dtype=np.int64)
        if wanted.dtype.kind != self.ids.dtype.kind:
            if wanted.dtype.kind == "U":
                return IdTable(self.ids.astype(str), self.name).find(wanted)
            wanted = wanted.astype(str)
        at = np.minimum(np.searchsorted(self._sorted, wanted), len(self) - 1)
        return np.where(self._sorted[at] == wanted, self._order[at], -1).astype(np.int64)


def as_ids(ids: ArrayLike, name: str) -> NDArray[Any]:
    """Return ids as an array of int64 or of text."""
    found = _as_column(ids, name)
    if found.dtype.kind == "U":
        return found
    if found.dtype.kind == "O" and all(isinstance(one, str) for one in found.tolist()):
        return found.astype(str)
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


class Log:
    """Columns of feedback, the rows kept so far, and the number of those left out, by reason.

    ``bad`` ("raise" or "skip") says what `drop` does, ``duplicates`` ("raise", "skip" or "keep") what `drop_repeated`
    does.
    """

    def __init__(
        self, query_ids: ArrayLike | int, item_ids: ArrayLike | int, bad: str, duplicates: str, **columns: ArrayLike
    ):
        check_argument("feedback", "bad", bad, OneOf(("raise", "skip")))
        check_argument("feedback", "duplicates", duplicates, OneOf(("raise", "skip", "keep")))
        self.bad, self.duplicates = bad, duplicates
        self.columns = {name: _as_column(values, f"feedback, {name!r}") for name, values in columns.items()}
        lengths = {name: len(values) for name, values in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"columns must be equally long; got {lengths}.", owner="feedback")
        self.n_rows = next(iter(lengths.values()))
        if not self.n_rows:
            raise InputError("there are no rows to learn from.", owner="feedback")
        self.queries = IdTable(query_ids, "queries")
        self.items = IdTable(item_ids, "items")
        self.kept = np.ones(self.n_rows, dtype=bool)
        self.skipped: dict[str, int] = {}

    def find(self, name: str) -> Index:
        """Return the queries or items of a column by number, and drop rows with an unknown one."""
        known, reason = (self.queries, "unknown query") if name == "query" else (self.items, "unknown item")
        found = known.find(self.columns[name])
        first = self.value(name, int(((found < 0) & self.kept).argmax()))
        self.drop(found < 0, f"{name} {first!r} is not among the {len(known):,} {known.name}", reason)
        return found

    def value(self, name: str, row: int) -> Any:
        """Return one value of a column as Python writes it."""
        value = self.columns[name][row]
        return value.item() if hasattr(value, "item") else value

    def flags(self, name: str) -> Mask:
        """Return a column of true and false, however they are written."""
        values = self.columns[name]
        if values.dtype.kind == "b":
            return values
        try:
            numbers = values.astype(np.float64) if values.dtype.kind in "iufOU" else np.full(self.n_rows, np.nan)
        except (TypeError, ValueError):
            numbers = np.array([_WORDS.get(str(one).strip().lower(), np.nan) for one in values.tolist()])
        needed = "1 or 0, true or false are needed. Turn grades into flags first, as in grade >= 2."
        self._refuse(name, ~np.isin(numbers, (0.0, 1.0)), needed)
        return numbers == 1.0

    def whole_numbers(self, name: str) -> Index:
        """Return a column of whole numbers."""
        numbers, wrong = _as_whole(self.columns[name])
        self._refuse(name, wrong, "whole numbers are needed.")
        return numbers

    def _refuse(self, name: str, which: Mask, needed: str) -> None:
        if which.any():
            row = int(which.argmax())
            problem = f"{{row}} holds {self.value(name, row)!r} in {name!r}; {needed}"
            raise InputError(problem, owner="feedback", row=Row(row))

    def drop(self, which: Mask, problem: str, reason: str, groups: Index | None = None) -> None:
        """Skip and count rows (or the groups they belong to), or raise for the first of them."""
        which = which & self.kept
        if not which.any():
            return
        if self.bad == "raise":
            raise InputError(
                f"{{row}}: {problem} ({int(which.sum()):,} of {self.n_rows:,} rows). Correct them, or skip and count "
                "them with {skip}.",
                owner="feedback", row=Row(which.argmax()), skip=Option("bad", "skip"),
            )  # fmt: skip
        count = int(which.sum()) if groups is None else len(np.unique(groups[which]))
        self.skipped[reason] = self.skipped.get(reason, 0) + count
        self.kept &= ~which

    def drop_repeated(self, *keys: Index) -> None:
        """Skip and count, keep, or refuse rows whose keys occur in an earlier row."""
        if self.duplicates == "keep":
            return
        rows = np.flatnonzero(self.kept)
        order = rows[np.lexsort((rows, *(one[rows] for one in reversed(keys))))]
        same = np.ones(max(0, len(order) - 1), dtype=bool)
        for one in keys:
            same &= one[order[1:]] == one[order[:-1]]
        repeated = order[1:][same]
        if not len(repeated):
            return
        if self.duplicates == "raise":
            raise InputError(
                f"{{row}} repeats an earlier one ({len(repeated):,} of {self.n_rows:,} rows). Skip and count such rows "
                "with {skip}, or let each of them count with {keep}.",
                owner="feedback", row=Row(repeated.min()),
                skip=Option("duplicates", "skip"), keep=Option("duplicates", "keep"),
            )  # fmt: skip
        self.skipped["duplicate"] = len(repeated)
        self.kept[repeated] = False
