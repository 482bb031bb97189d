"""Parquet, one row group after the other.

`ParquetFile.iter_batches` without pre-buffering holds one batch of one row group; the reader of whole datasets would
hold many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from nearkin.streams.arrow import Layout, check_column, layout_of, require_pyarrow, to_chunk
from nearkin.streams.batch import Chunk
from nearkin.streams.units import Unit

__all__ = ["ParquetReader"]


class ParquetReader:
    """Reads the row groups of Parquet files with the same columns.

    Parameters
    ----------
    layout : Layout
        Which columns.
    n_bytes : int
        Most bytes that a row group takes as it is stored.
    """

    kind = "parquet"

    def __init__(self, layout: Layout, n_bytes: int = 0):
        self.layout = layout
        self.n_bytes = n_bytes

    @property
    def names(self) -> list[str] | None:
        """Of the features."""
        return self.layout.names

    @classmethod
    def plan(
        cls, paths: Sequence[str], label: str | None, features: Sequence[str] | None, drop: Sequence[str]
    ) -> tuple[ParquetReader, list[Unit]]:
        """Reader of the files, and their row groups."""
        layout: Layout | None = None
        units, largest = [], 0
        for path in paths:
            with _opened(path) as file:
                if layout is None:
                    layout = layout_of(file.schema_arrow, lambda n, f=file: _width(f, n), path, label, features, drop)
                for name in layout.needed:
                    check_column(name, file.schema_arrow.names, path)
                first = 0
                for group in range(file.metadata.num_row_groups):
                    n = file.metadata.row_group(group).num_rows
                    largest = max(largest, _stored(file.metadata.row_group(group), layout))
                    if n:
                        units.append(Unit(path, n, first, (group,)))
                    first += n
        assert layout is not None
        return cls(layout, largest), units

    def read(self, unit: Unit, start: int, size: int) -> Iterator[Chunk]:
        """Rows of a row group from ``start`` on, at most ``size`` at a time."""
        pa = require_pyarrow(unit.path)
        where = f"{unit.path}, row group {unit.at[0]}"
        with _opened(unit.path) as file:
            if unit.at[0] >= file.num_row_groups or file.metadata.row_group(unit.at[0]).num_rows != unit.n_rows:
                raise ValueError(f"{where}: the file has changed since the stream was opened.")
            batches = file.iter_batches(size, row_groups=list(unit.at), columns=self.layout.needed, use_threads=False)
            skip = start
            while True:
                try:
                    batch = next(batches, None)
                except (pa.ArrowException, OSError) as error:
                    raise ValueError(f"{where} cannot be read, it is damaged ({error}).") from None
                if batch is None:
                    return
                if skip >= batch.num_rows:
                    skip -= batch.num_rows
                    continue
                yield to_chunk(batch.slice(skip), self.layout, where)
                skip = 0


def _opened(path: str) -> Any:
    pa = require_pyarrow(path)
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(path, pre_buffer=False)
    except pa.ArrowException as error:
        raise ValueError(f"{path} is not a Parquet file, or it is damaged ({error}).") from None


def _stored(group: Any, layout: Layout) -> int:
    columns = (group.column(i) for i in range(group.num_columns))
    return sum(one.total_compressed_size for one in columns if one.path_in_schema.split(".")[0] in layout.needed)


def _width(file: Any, name: str) -> int:
    """Length of the first vector in a column whose type does not tell."""
    for batch in file.iter_batches(64, columns=[name], use_threads=False):
        for one in batch.column(0):
            if one.is_valid:
                return len(one)
    raise ValueError(f"column {name!r} holds no vector at all; leave it out.")
