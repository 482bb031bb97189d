"""Frames of pandas and polars, Arrow tables and arrays, seen as tables."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.errors import InputError
from nearkin.tables.cells import BadCell
from nearkin.tables.raw import Cells, RawColumn, stack_vectors
from nearkin.tables.table import ArrowTable, Labels, Table

__all__ = ["FrameTable", "as_table", "is_frame", "is_mixed"]


def is_frame(X: Any) -> bool:
    """Whether X has named columns: a frame of pandas or polars, or an Arrow table."""
    return isinstance(X, Table) or (hasattr(X, "columns") and hasattr(X, "shape") and hasattr(X, "__getitem__"))


def is_mixed(X: Any) -> bool:
    """Whether X has named columns and holds something else than finite numbers."""
    if not is_frame(X):
        return False
    if isinstance(X, Table):
        return True
    table = as_table(X)
    if len(set(table.names)) < len(table.names):
        return False  # which scikit-learn takes or refuses
    for name in table.names:
        try:
            column = table.raw(name)
        except (BadCell, InputError):
            return True  # to be refused by name
        if column.numbers is None or column.kind in ("true or false", "durations") or column.numbers.ndim > 1:
            if column.kind != "true or false":
                return True
        elif np.isnan(column.numbers).any():
            return True
    return False


def as_table(X: Any) -> Table:
    """Return anything with named columns as a table."""
    if isinstance(X, Table):
        return X
    if hasattr(X, "column_names"):  # of Arrow
        if len(set(X.column_names)) < len(X.column_names):
            raise InputError("the table names a column twice; give every column its own name.")
        return ArrowTable("the table", X.column_names, X.num_rows, X.column)
    if is_frame(X):
        return FrameTable(X)
    array = np.asarray(X)
    if array.ndim != 2:
        raise InputError(f"a table is needed, with one row per example; got shape {array.shape}.")
    return ArrayTable(array)


class FrameTable(Table):
    """A frame of pandas or polars."""

    def __init__(self, frame: Any):
        held = list(frame.columns)
        super().__init__("the frame", [str(one) for one in held], len(frame), folder="")
        self.names = [str(one) for one in held]
        self._frame, self._held = frame, {str(one): one for one in held}
        self._has_twins = len(self._held) < len(held)

    def _column(self, name: str) -> Any:
        if self._has_twins and self.names.count(name) > 1:
            raise InputError(f"{self.path} names column {name!r} twice; give every column its own name.")
        return self._frame[self._held[name]]

    def numbers(self, name: str) -> NDArray[Any]:
        found = self.raw(name).numbers
        if found is None:
            raise BadCell(f"holds {self.raw(name).kind}, not numbers")
        return found

    def labels(self, name: str, kind: str | None = None) -> Labels:
        values = self.values(name)
        missing = np.array(
            [one is None or type(one).__name__ == "NAType" or one != one or not str(one).strip() for one in values],
            dtype=bool,
        )
        held = [one for one, gap in zip(values, missing.tolist(), strict=True) if not gap]
        if not held:
            return np.zeros(len(values), dtype=np.int64), missing
        if all(isinstance(one, float) and one.is_integer() for one in held) and missing.any():
            values, held = [one if one != one else int(one) for one in values], [int(one) for one in held]
        filled = [held[0] if gap else one for one, gap in zip(values, missing.tolist(), strict=True)]
        return np.asarray(filled) if len({type(one) for one in held}) == 1 else _objects(filled), missing

    def values(self, name: str) -> list[Any]:
        return self._column(name).to_list()

    def some_values(self, name: str, rows: NDArray[np.int64]) -> list[Any]:
        column = self._column(name)
        return (column.iloc[rows] if hasattr(column, "iloc") else column[rows.tolist()]).to_list()

    def raw(self, name: str) -> RawColumn:
        series = self._column(name)
        return _raw_pandas(name, series) if hasattr(series, "iloc") else _raw_polars(name, series)


class ArrayTable(Table):
    """An array of two dimensions, whose columns are called x0, x1, ..."""

    def __init__(self, array: NDArray[Any]):
        super().__init__("X", [f"x{i}" for i in range(array.shape[1])], len(array))
        self._array = array

    def numbers(self, name: str) -> NDArray[Any]:
        return np.asarray(self._array[:, int(name[1:])], dtype=np.float64)

    def labels(self, name: str, kind: str | None = None) -> Labels:
        raise InputError("an array has no column of labels; give them on their own.")

    def values(self, name: str) -> list[Any]:
        return self._array[:, int(name[1:])].tolist()

    def raw(self, name: str) -> RawColumn:
        column = self._array[:, int(name[1:])]
        if column.dtype.kind == "O" and all(isinstance(one, (int, float)) for one in column.tolist()):
            column = column.astype(np.float64)
        return RawColumn.of_array(name, column)


def _objects(values: list[Any]) -> NDArray[Any]:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def _raw_pandas(name: str, series: Any) -> RawColumn:
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "fiubMm":
        return RawColumn.of_array(name, series.to_numpy())
    if hasattr(dtype, "categories"):
        texts = [None if one != one else str(one) for one in dtype.categories.tolist()]
        return RawColumn.of_cells(name, Cells.numbered(texts, np.asarray(series.cat.codes, dtype=np.int64)))
    if hasattr(dtype, "tz"):
        return RawColumn.of_array(name, series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
    if getattr(dtype, "kind", "O") in "fiub" and not isinstance(dtype, np.dtype):
        numbers = series.to_numpy(dtype=np.float64, na_value=np.nan)
        return RawColumn(name, len(series), "true or false" if dtype.kind == "b" else str(dtype), numbers)
    if getattr(dtype, "kind", "O") in "Mm":  # of Arrow
        return RawColumn.of_array(
            name, series.to_numpy(dtype=f"{'datetime' if dtype.kind == 'M' else 'timedelta'}64[us]")
        )
    return _raw_objects(name, series.tolist())


def _raw_polars(name: str, series: Any) -> RawColumn:
    kind = str(series.dtype)
    if kind.startswith(("Datetime", "Date")):
        return RawColumn.of_array(name, series.cast(_polars_datetime(series)).to_numpy())
    if kind.startswith("Duration"):
        return RawColumn.of_array(name, series.to_numpy())
    if kind == "Boolean" or kind.startswith(("Int", "UInt", "Float", "Decimal")):
        listed = series.to_numpy() if not series.null_count() and kind != "Boolean" and "Dec" not in kind else None
        if listed is not None:
            return RawColumn.of_array(name, listed)
        numbers = np.array([np.nan if one is None else float(one) for one in series.to_list()])
        return RawColumn(name, len(series), "true or false" if kind == "Boolean" else kind, numbers)
    return _raw_objects(name, series.to_list())


def _polars_datetime(series: Any) -> Any:
    import polars

    if getattr(series.dtype, "time_zone", None):
        return polars.Datetime("us", "UTC")
    return polars.Datetime("us")


def _raw_objects(name: str, values: list[Any]) -> RawColumn:
    first = next((one for one in values if one is not None and one is not np.nan), None)
    if isinstance(first, (list, tuple, np.ndarray)):
        try:
            held = [None if one is None or one is np.nan else one for one in values]
            return RawColumn(name, len(values), "vectors", stack_vectors(held))
        except (TypeError, ValueError):
            raise InputError(f"column {name!r} holds lists that are not vectors of one length.") from None
    if first is not None and not any(isinstance(one, str) for one in values):
        with suppress(TypeError, ValueError):  # numbers as objects
            return RawColumn(name, len(values), "numbers", np.array(values, dtype=np.float64))
    return RawColumn.of_cells(name, Cells.of(values))
