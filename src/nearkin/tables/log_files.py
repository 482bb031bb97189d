"""Logs, some thousand rows at a time: CSV, JSON lines, Parquet and npz. Odd rows are counted, and reading goes on."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nearkin.errors import InputError, quote_names
from nearkin.tables.csv_files import open_csv, read_csv_layout
from nearkin.tables.labelled import kind_of
from nearkin.tables.numpy_files import read_arrays
from nearkin.tables.parquet_files import open_parquet
from nearkin.tables.table import check_regular, decoding

__all__ = ["LogFile", "LogPart", "open_log"]

#: Rows of a part.
_PART = 1 << 16
#: Objects that tell the names of the columns of JSON lines.
_PROBE = 200
#: Characters of a field of CSV; more is a quote that was never closed. And how often reading begins anew after one.
_FIELD, _RESTARTS = 1 << 20, 20
#: Bytes that are not UTF-8 are kept: the id that they are in is unknown, and that row is counted.
_BYTES = "surrogateescape"
_LINES = (".jsonl", ".ndjson", ".json")


@dataclass
class LogPart:
    """Some rows of a log: values by column, the number of each row in the file (from 0), and rows that are none.

    Whole numbers of Parquet and npz come as arrays, times of Parquet as seconds; all else is lists of Python's values,
    with None for what is missing. ``odd`` holds a row number and a reason for every row that could not be read.
    """

    columns: Mapping[str, Sequence[Any] | NDArray[Any]]
    rows: NDArray[np.int64]
    odd: list[tuple[int, str]] = field(default_factory=list)


@dataclass(frozen=True)
class LogFile:
    """A log: its path, the names of its columns, and its kind ("csv", "lines", "parquet" or "arrays")."""

    path: Path
    names: list[str]
    kind: str

    def parts(self, columns: Sequence[str], size: int = _PART) -> Iterator[LogPart]:
        """Yield the rows part by part, with these columns only."""
        read = {"csv": _csv_parts, "lines": _line_parts, "parquet": _parquet_parts, "arrays": _array_parts}
        yield from read[self.kind](self.path, list(columns), size)


def open_log(path: Path) -> LogFile:
    """Open a log; its name tells the format, and ``.gz`` is decompressed."""
    check_regular(path)
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(_LINES):
        return LogFile(path, _line_names(path), "lines")
    kind = kind_of(path)
    if kind == "csv":
        return LogFile(path, read_csv_layout(path, _BYTES)[0], kind)
    if kind == "parquet":
        with open_parquet(path) as file:
            return LogFile(path, [one for one in file.schema_arrow.names if not one.startswith("__index_level_")], kind)
    if kind == "excel":
        raise InputError(f"{path} is a spreadsheet, which is not read as a log; save it as CSV.")
    names = read_arrays(path).names
    if not names:
        raise InputError(f"{path}: the array has no name; feedback needs named columns: CSV, JSONL, Parquet or npz.")
    return LogFile(path, names, kind)


def _open(path: Path) -> BinaryIO:
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


# ---------------------------------------------------------------------- CSV


def _csv_parts(path: Path, columns: list[str], size: int) -> Iterator[LogPart]:
    names, delimiter = read_csv_layout(path, _BYTES)
    at = [names.index(one) for one in columns]
    limit = csv.field_size_limit(_FIELD)
    try:
        with decoding(path, "a readable CSV file"), closing(_CsvRows(path, delimiter, len(names))) as source:
            source.take(1)  # the header
            number = 0
            while rows := source.take(size):
                yield _csv_part(rows, columns, at, len(names), number)
                number += len(rows)
    finally:
        csv.field_size_limit(limit)


class _CsvRows:
    """Rows that hold anything; one that cannot be split is a row of nothing.

    A quote that is never closed would take all that follows for one field. Where a row of several lines is odd, only
    its first line is given up, and reading begins anew with the next one.
    """

    def __init__(self, path: Path, delimiter: str, n_fields: int):
        self._path, self._delimiter, self._n_fields = path, delimiter, n_fields
        self._n_restarts = 0
        self._open(0)

    def _open(self, line: int) -> None:
        self._file = open_csv(self._path, _BYTES)
        self._before = line
        for _ in islice(self._file, line):
            pass
        self._reader = csv.reader(self._file, delimiter=self._delimiter, strict=True)

    def close(self) -> None:
        self._file.close()

    def take(self, size: int) -> list[list[str]]:
        """Return the next rows, at most that many."""
        rows: list[list[str]] = []
        last = self._reader.line_num
        while len(rows) < size:
            try:
                for row in self._reader:
                    n_lines, last = self._reader.line_num - last, self._reader.line_num
                    if n_lines > 1 and len(row) != self._n_fields and self._n_restarts < _RESTARTS:
                        last = self._restart(last - n_lines)
                        rows.append([])
                        break
                    if row:
                        rows.append(row)
                        if len(rows) == size:
                            break
                else:
                    break
            except csv.Error:
                if self._n_restarts == _RESTARTS:
                    raise InputError(f"{self._path} is not a readable CSV file: its quotes do not fit.") from None
                last = self._restart(last)
                rows.append([])
        return rows

    def _restart(self, line: int) -> int:
        """Go on after a line of this reader; return how many lines the new reader has read."""
        self._n_restarts += 1
        self.close()
        self._open(self._before + line + 1)
        return 0


def _csv_part(rows: list[list[str]], columns: list[str], at: list[int], n_fields: int, number: int) -> LogPart:
    whole = np.fromiter(map(len, rows), np.int64, len(rows)) == n_fields
    odd = [(number + int(i), "wrong number of fields") for i in np.flatnonzero(~whole)]
    if odd:
        rows = [row for row in rows if len(row) == n_fields]
    turned = list(zip(*rows, strict=True)) if rows else [()] * n_fields
    return LogPart({name: turned[i] for name, i in zip(columns, at, strict=True)}, np.flatnonzero(whole) + number, odd)


# ---------------------------------------------------------------------- JSON lines


def _objects(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the number of each line that holds anything, and its object; a text says why there is none."""
    number = 0
    with decoding(path, "a readable file of JSON lines"), _open(path) as file:
        for raw in file:
            line = raw.strip().removeprefix(b"\xef\xbb\xbf")
            if not line:
                continue
            if number == 0 and line.startswith(b"["):
                raise InputError(f"{path} holds one JSON array; write one object a line, as in: jq -c '.[]'.")
            try:
                one = json.loads(line)
            except (ValueError, RecursionError):
                yield number, "line that is not JSON"
            else:
                yield number, one if isinstance(one, dict) else "line that is not a JSON object"
            number += 1


def _line_names(path: Path) -> list[str]:
    names: dict[str, None] = {}
    n_objects = 0
    for number, one in _objects(path):
        if isinstance(one, dict):
            n_objects += 1
            names |= dict.fromkeys(_dotted(one))
        if number == _PROBE:
            break
    if not n_objects:
        raise InputError(f"{path} holds no JSON object; one object a line is needed.")
    return list(names)


def _dotted(one: dict[str, Any], before: str = "") -> list[str]:
    """Return the names of all values; one inside another object has the names of both, as in ``request.query``."""
    found = []
    for name, value in one.items():
        found.append(before + name)
        if isinstance(value, dict):
            found += _dotted(value, f"{before}{name}.")
    return found


def _value(one: dict[str, Any], name: str) -> Any:
    if name in one or "." not in name:
        return one.get(name)
    first, _, rest = name.partition(".")
    inner = one.get(first)
    return _value(inner, rest) if isinstance(inner, dict) else None


def _line_parts(path: Path, columns: list[str], size: int) -> Iterator[LogPart]:
    objects = _objects(path)
    while some := list(islice(objects, size)):
        odd = [(number, one) for number, one in some if isinstance(one, str)]
        whole = [(number, one) for number, one in some if isinstance(one, dict)]
        found = {name: [_value(one, name) for _, one in whole] for name in columns}
        yield LogPart(found, np.array([number for number, _ in whole], np.int64), odd)


# ---------------------------------------------------------------------- Parquet, npz


def _parquet_parts(path: Path, columns: list[str], size: int) -> Iterator[LogPart]:
    number = 0
    with open_parquet(path) as file, decoding(path, "a Parquet file"):
        for batch in file.iter_batches(size, columns=columns, use_threads=False):
            found = {name: _arrow_values(batch.column(name)) for name in columns}
            yield LogPart(found, np.arange(number, number + batch.num_rows))
            number += batch.num_rows


def _arrow_values(column: Any) -> Sequence[Any] | NDArray[Any]:
    import pyarrow as pa
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_timestamp(column.type) or types.is_date(column.type):
        whole = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        return whole.to_numpy(zero_copy_only=False).astype(np.float64) / 1e6
    if not column.null_count and (types.is_signed_integer(column.type) or types.is_boolean(column.type)):
        return column.to_numpy(zero_copy_only=False)
    return column.to_pylist()


def _array_parts(path: Path, columns: list[str], size: int) -> Iterator[LogPart]:
    source = read_arrays(path)
    arrays = {name: source.array(name) for name in columns}
    lengths = {name: one.shape for name, one in arrays.items()}
    if len(set(lengths.values())) > 1 or any(one.ndim != 1 for one in arrays.values()):
        raise InputError(f"{path}: arrays must have one dimension and be equally long; got {quote_shapes(lengths)}.")
    for start in range(0, next(iter(lengths.values()))[0], size):
        some = {name: one[start : start + size] for name, one in arrays.items()}
        n_rows = len(next(iter(some.values())))
        plain = {name: _array_values(one) for name, one in some.items()}
        yield LogPart(plain, np.arange(start, start + n_rows))


def _array_values(values: NDArray[Any]) -> Sequence[Any] | NDArray[Any]:
    if values.dtype.kind in "iub":
        return values if values.dtype != np.uint64 else values.tolist()
    if values.dtype.kind == "M":
        seconds = values.astype("M8[us]").astype(np.int64) / 1e6
        return np.where(np.isnat(values), np.nan, seconds)
    return values.tolist()


def quote_shapes(lengths: dict[str, Any]) -> str:
    """Return names with shapes for a message."""
    return ", ".join(f"{quote_names([name])} {shape}" for name, shape in lengths.items())
