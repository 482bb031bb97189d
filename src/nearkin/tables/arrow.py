"""Arrow columns as numbers and labels: Parquet, record batches, and cells of CSV that Arrow has read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.errors import InputError, Option, quote_names
from nearkin.tables.cells import BadCell, parse_labels, parse_numbers
from nearkin.tables.table import Labels, Layout, Table, choose_columns, single_or_double

__all__ = ["ArrowTable", "layout_of", "require_pyarrow"]

#: What pandas calls an index that has no name.
_INDEX = "__index_level_"


def require_pyarrow(what: object) -> Any:
    """Return the module pyarrow, or say how to get it."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError(f"{what} needs pyarrow; install it with: pip install 'nearkin[arrow]'") from None
    return pyarrow


class ArrowTable(Table):
    """Columns that Arrow holds.

    Parameters
    ----------
    path, names, n_rows, first_row
        As for `Table`; a column that pandas wrote for an index has no name.
    column : callable
        Returns the column of a name.
    holds_cells : bool
        Whether text stands for what it says, as in CSV.
    """

    def __init__(
        self,
        path: str,
        names: Sequence[str],
        n_rows: int,
        column: Callable[[str], Any],
        *,
        first_row: int = 0,
        holds_cells: bool = False,
    ):
        super().__init__(path, ["" if one.startswith(_INDEX) else one for one in names], n_rows, first_row)
        self.holds_cells = holds_cells
        self._column = column

    def numbers(self, name: str) -> NDArray[Any]:
        """Return a column of numbers, NaN where one is missing; a column of vectors as a matrix."""
        column = self._whole(name)
        if self.holds_cells and _is_text(column.type):
            fast = _cast_cells(column)
            return parse_numbers(column.to_pylist()) if fast is None else fast
        return _vectors(column) if _is_list(column.type) else _numbers(column)

    def labels(self, name: str, kind: str | None = None) -> Labels:
        """Return a column of labels and which are missing."""
        import pyarrow as pa

        column = self._whole(name)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if self.holds_cells and _is_text(column.type):
            return parse_labels(column.to_pylist(), kind)
        _check_label_type(column.type, f"column {name!r}", self.path)
        if kind is not None and _is_text(column.type) != (kind == "text"):
            raise InputError(
                f"{self.path}: label column {name!r} holds {column.type} here and "
                f"{'text' if kind == 'text' else 'numbers'} elsewhere; write it as one type."
            )
        missing = np.asarray(column.is_null(nan_is_null=True))
        if _is_text(column.type):
            return np.array(column.fill_null("").to_pylist(), dtype=np.str_), missing
        return np.asarray(column.fill_null(False if pa.types.is_boolean(column.type) else 0)), missing

    def values(self, name: str) -> list[Any]:
        """Return a column as Python has it."""
        return self._column(name).to_pylist()

    def _whole(self, name: str) -> Any:
        column = self._column(name)
        return column.combine_chunks() if hasattr(column, "combine_chunks") else column


def layout_of(
    schema: Any, path: str, width: Callable[[str], int], label: str | None, features: Sequence[str] | None,
    drop: Sequence[str],
) -> Layout:  # fmt: skip
    """Return the layout of tables with a schema.

    Parameters
    ----------
    schema : pyarrow.Schema
        Columns and types.
    path : str
        For messages.
    width : callable
        Returns the length of the vectors in a column whose type does not tell it.
    label, features, drop
        As the user gave them.
    """
    import pyarrow as pa

    empty = ArrowTable(path, schema.names, 0, schema.empty_table().column)
    label = check_chosen(empty, label, features, drop)
    chosen = choose_columns(empty, label, features, drop)
    empty.features([name for name in chosen if not _is_list(schema.field(name).type)])
    widths, dtypes = [], []
    for name in chosen:
        kind = schema.field(name).type
        widths.append(0 if not _is_list(kind) else getattr(kind, "list_size", None) or width(name))
        kind = kind.value_type if _is_list(kind) else kind
        dtypes.append(kind.to_pandas_dtype() if pa.types.is_floating(kind) else np.float64)
    kind = schema.field(label).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    _check_label_type(kind, f"column {label!r}", path)
    return Layout(chosen, widths, label, "text" if _is_text(kind) else "number", single_or_double(dtypes))


def check_chosen(table: Table, label: str | None, features: Sequence[str] | None, drop: Sequence[str]) -> str:
    """Return the label column; it must be named, and all columns that are named must be there."""
    table.check_known([*(features or ()), *drop, *([label] if label else [])])
    if not label:
        held = quote_names(name for name in table.names if name)
        raise InputError(
            f"{{label}} is needed: which column of {table.path} holds the labels? It holds {held}.",
            label=Option("label"),
        )
    return label


def _check_label_type(kind: Any, title: str, path: str) -> None:
    import pyarrow as pa

    types = pa.types
    if not (_is_text(kind) or types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)):
        raise InputError(f"{path}: label {title} holds {kind}; whole numbers or text are needed.")


def _cast_cells(column: Any) -> NDArray[Any] | None:
    """Return finite numbers of a column of text at Arrow's speed; None if it holds anything else."""
    import pyarrow as pa
    from pyarrow import compute

    try:
        numbers = compute.cast(compute.utf8_trim_whitespace(column), pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        return None
    return numbers if np.isfinite(numbers).all() else None


def _numbers(column: Any) -> NDArray[Any]:
    import pyarrow as pa

    types, kind = pa.types, column.type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)):
        raise BadCell(f"holds {'text' if _is_text(kind) else kind}, not numbers")
    if types.is_floating(kind) or (types.is_integer(kind) and not column.null_count):
        return column.to_numpy(zero_copy_only=False)
    return column.cast(pa.float64()).to_numpy(zero_copy_only=False)


def _vectors(column: Any) -> NDArray[Any]:
    """Return the rows of a column of vectors, NaN where there is none."""
    from pyarrow import compute

    valid = np.asarray(column.is_valid())
    lengths = np.asarray(compute.list_value_length(column).fill_null(-1))
    width = getattr(column.type, "list_size", None) or (int(lengths[valid.argmax()]) if valid.any() else 0)
    other = valid & (lengths != width)
    if other.any():
        row = int(other.argmax())
        raise BadCell(f"holds vectors that differ in length: {width} first, {lengths[row]} here", row)
    flat = _numbers(column.flatten()).reshape(-1, width) if width else np.empty((len(column), 0))
    if valid.all():
        return flat
    out = np.full((len(column), width), np.nan, flat.dtype if flat.dtype.kind == "f" else np.float64)
    out[valid] = flat[valid] if len(flat) == len(column) else flat
    return out


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
