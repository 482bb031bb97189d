"""Parquet, by pyarrow; columns of vectors become one feature per entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.cli._cells import NotNumbers
from nearkin.cli._errors import UserError

__all__ = ["ParquetColumns", "read_parquet", "require_pyarrow"]

#: What pandas calls an index that has no name.
_INDEX = "__index_level_"


def require_pyarrow(path: Path) -> tuple[Any, Any, Any]:
    """The modules pyarrow, pyarrow.parquet and pyarrow.compute, or a message how to get them."""
    try:
        import pyarrow
        from pyarrow import compute, parquet
    except ImportError:
        raise UserError(f"{path}: Parquet needs pyarrow; install it with: pip install 'nearkin[arrow]'") from None
    return pyarrow, parquet, compute


class ParquetColumns:
    """Columns of a Parquet file, read when asked for."""

    def __init__(self, path: Path, file: Any, pyarrow: Any, compute: Any):
        self.path = path
        self.names = ["" if name.startswith(_INDEX) else name for name in file.schema_arrow.names]
        self.n_rows = file.metadata.num_rows
        self._file = file
        self._pa = pyarrow
        self._compute = compute

    def numbers(self, name: str) -> NDArray[np.floating]:
        """Column of numbers, NaN where one is missing; two-dimensional for vectors."""
        pa, column = self._pa, self._read(name)
        kind = column.type
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            return self._vectors(name, column)
        if not _is_number(pa, kind):
            raise NotNumbers(0, column[0].as_py())
        if pa.types.is_floating(kind) and not column.null_count:
            return column.to_numpy(zero_copy_only=False)
        return column.cast(pa.float64()).to_numpy(zero_copy_only=False)

    def labels(self, name: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Labels and which are missing."""
        pa, column = self._pa, self._read(name)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        kind, missing = column.type, np.asarray(column.is_null(nan_is_null=True))
        if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return np.asarray(column.fill_null(False if pa.types.is_boolean(kind) else 0)), missing
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
            raise UserError(f"label column {name!r} of {self.path} holds {kind}; whole numbers or text are needed.")
        return np.array(column.fill_null("").to_pylist(), dtype=np.str_), missing

    def raw(self, name: str) -> list[Any]:
        """Values as Python has them."""
        return self._read(name).to_pylist()

    def _read(self, name: str) -> Any:
        try:
            column = self._file.read(columns=[name]).column(0).combine_chunks()
        except (self._pa.ArrowException, OSError) as error:
            raise UserError(f"{self.path}: column {name!r} cannot be read ({error}).") from None
        return column.combine_chunks() if isinstance(column, self._pa.ChunkedArray) else column

    def _vectors(self, name: str, column: Any) -> NDArray[np.floating]:
        pa = self._pa
        if not _is_number(pa, column.type.value_type):
            raise NotNumbers(0, column[0].as_py())
        if column.null_count:
            row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
            raise UserError(
                f"column {name!r} of {self.path} has no vector in data row {row + 1}; fill or drop the row."
            )
        lengths = np.asarray(self._compute.list_value_length(column))
        other = np.flatnonzero(lengths != lengths[0])
        if len(other):
            raise UserError(
                f"the vectors in column {name!r} of {self.path} differ in length: {lengths[0]} in data row 1, "
                f"{lengths[other[0]]} in data row {other[0] + 1}."
            )
        entries = column.flatten()
        if not pa.types.is_floating(entries.type) or entries.null_count:
            entries = entries.cast(pa.float64())
        return entries.to_numpy(zero_copy_only=False).reshape(len(column), -1)


def read_parquet(path: Path) -> ParquetColumns:
    """Columns of a Parquet file."""
    pyarrow, parquet, compute = require_pyarrow(path)
    try:
        file = parquet.ParquetFile(path)
    except PermissionError:
        raise
    except (pyarrow.ArrowException, OSError) as error:  # damage may come as either
        raise UserError(f"{path} is not a Parquet file, or it is damaged ({error}).") from None
    if not file.metadata.num_rows:
        raise UserError(f"{path} holds no rows.")
    return ParquetColumns(path, file, pyarrow, compute)


def _is_number(pa: Any, kind: Any) -> bool:
    types = pa.types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
