"""Parquet, whole or one row group at a time; columns of vectors become one feature per entry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar

from nearkin.errors import InputError
from nearkin.tables.batches import COLUMN_BYTES, Chunk, Layout, Unit, layout_of, note_others
from nearkin.tables.table import ArrowTable, Table, decoding, require_pyarrow

__all__ = ["ParquetReader", "open_parquet", "read_parquet", "read_parquet_names"]

#: Columns read together if there are many.
_TOGETHER = 256
#: Rows from which an encoder is learned.
_FIRST = 1 << 16


def read_parquet(path: Path) -> Table:
    """Open a whole file; a column is read when it is used."""
    file = open_parquet(path)
    if not file.metadata.num_rows:
        raise InputError(f"{path} holds no rows.")

    names = file.schema_arrow.names
    numbers = {name: i for i, name in enumerate(names)}

    @lru_cache(maxsize=1)
    def block(number: int) -> Any:  # of many columns some are read together, which is much faster
        return file.read(columns=names[number * _TOGETHER : (number + 1) * _TOGETHER])

    def column(name: str) -> Any:
        if len(names) > 4 * _TOGETHER:
            with suppress(*_errors()):  # to be named below
                return block(numbers[name] // _TOGETHER).column(name)
        with decoding(f"{path}, column {name!r}"):
            return file.read(columns=[name]).column(0)

    return ArrowTable(str(path), names, file.metadata.num_rows, column)


def read_parquet_names(path: Path) -> list[str]:
    """Read the names of the columns."""
    with open_parquet(path) as file:
        return ArrowTable(str(path), file.schema_arrow.names, 0, lambda name: None).names


@dataclass(frozen=True)
class ParquetReader:
    """Reads the row groups of Parquet files with the same columns.

    `ParquetFile.iter_batches` without pre-buffering holds one batch of one row group; the reader of whole datasets
    would hold many. ``n_bytes`` is the most that a row group takes as it is stored, and what reading its columns
    takes.
    """

    layout: Layout
    n_bytes: int = 0
    kind: ClassVar[str] = "parquet"

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        return self.layout.names

    @classmethod
    def plan(
        cls, paths: Sequence[str], label: str | None, features: Sequence[str] | None, drop: Sequence[str],
        *, text: Sequence[str] = (), fills: bool = False,
    ) -> tuple[ParquetReader, list[Unit]]:  # fmt: skip
        """Return a reader of the files and their row groups.

        An encoder is learned from the first rows where these are not all numbers; see `Layout.encoded`.
        """
        layout: Layout | None = None
        units, largest = [], 0
        names: dict[str, list[str]] = {}
        for path in paths:
            with open_parquet(path) as file:
                schema, metadata = file.schema_arrow, file.metadata
                if layout is None:
                    layout = layout_of(
                        schema, path, partial(_width, file, path), label, features, drop,
                        partial(_first_rows, file, path), text=text, fills=fills,
                    )  # fmt: skip
                table = ArrowTable(path, schema.names, 0, schema.empty_table().column)
                table.check_known(layout.needed)
                names[path] = table.names
                first = 0
                for number in range(metadata.num_row_groups):
                    group = metadata.row_group(number)
                    # Not the sizes of its columns: in a damaged file pyarrow's row_group.column(i) ends the process.
                    largest = max(largest, group.total_byte_size * len(layout.needed) // max(1, group.num_columns))
                    if group.num_rows:
                        units.append(Unit(path, group.num_rows, first, (number,)))
                    first += group.num_rows
        assert layout is not None
        if features is None:
            note_others(names, [*layout.columns, layout.label], drop)
        return cls(layout, largest + COLUMN_BYTES * len(layout.needed)), units

    def read(self, unit: Unit, start: int, size: int) -> Iterator[Chunk]:
        """Yield the rows of a row group from ``start`` on, at most ``size`` at a time."""
        where = f"{unit.path}, row group {unit.at[0]}"
        with open_parquet(unit.path) as file:
            if unit.at[0] >= file.num_row_groups or file.metadata.row_group(unit.at[0]).num_rows != unit.n_rows:
                raise InputError(f"{where}: the file has changed since the stream was opened.")
            with decoding(where):
                batches = file.iter_batches(
                    size, row_groups=list(unit.at), columns=self.layout.needed, use_threads=False
                )
            at = 0
            while at < unit.n_rows:
                with decoding(where):
                    batch = next(batches, None)
                if batch is None:
                    raise InputError(f"{where} is damaged: it holds {at:,} rows and says {unit.n_rows:,}.")
                skip, at = min(max(start - at, 0), batch.num_rows), at + batch.num_rows
                if skip < batch.num_rows:
                    part, first = batch.slice(skip), unit.first_row + at - batch.num_rows + skip
                    table = ArrowTable(unit.path, part.schema.names, part.num_rows, part.column, first_row=first)
                    yield self.layout.chunk(table)


def _errors() -> tuple[type[Exception], ...]:
    """Damage may come as any of these."""
    import pyarrow

    return pyarrow.ArrowException, OSError


def open_parquet(path: str | Path) -> Any:
    """Open a file; its rows are read when they are needed."""
    require_pyarrow(path)
    from pyarrow import parquet

    with decoding(path, "a Parquet file"):
        file = parquet.ParquetFile(path, pre_buffer=False)
        file.schema_arrow.empty_table()  # which fails if names or types are damaged
        return file


def _first_rows(file: Any, path: str, columns: Sequence[str]) -> Table:
    """Return the first rows of some columns."""
    with decoding(path):
        batch = next(file.iter_batches(_FIRST, columns=list(columns), use_threads=False), None)
    if batch is None:
        raise InputError(f"{path} holds no rows.")
    return ArrowTable(path, batch.schema.names, batch.num_rows, batch.column)


def _width(file: Any, path: str, name: str) -> int:
    """Return the length of the first vector in a column whose type does not tell it."""
    with decoding(f"{path}, column {name!r}"):
        for batch in file.iter_batches(64, columns=[name], use_threads=False):
            for one in batch.column(0):
                if one.is_valid:
                    return len(one)
    raise InputError(f"{path}: column {name!r} holds no vector at all; leave it out.")
