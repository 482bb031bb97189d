"""CSV with a header row, whole or some thousand lines at a time.

pyarrow reads it where it is installed. Python reads what pyarrow cannot, and finds the row to blame.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, TextIO

import numpy as np

from nearkin.errors import InputError
from nearkin.tables.batches import COLUMN_BYTES, Chunk, Layout, Unit, note_others
from nearkin.tables.cells import NO_NUMBER, label_kind, unquote_formula
from nearkin.tables.output import CsvDialect
from nearkin.tables.table import ArrowTable, CellTable, Table, decoding, require_pyarrow

__all__ = ["CsvReader", "open_csv", "read_csv", "read_csv_dialect", "read_csv_layout", "read_csv_names"]

_DELIMITERS = (",", ";", "\t")
#: Lines from which the delimiter is guessed.
_PROBE = 20
#: Bytes searched for line ends at once, and about the size of a unit.
_BLOCK = 1 << 22
#: Longest field that Python's reader takes; its own limit is less than a line of 20,000 columns.
_FIELD = 1 << 30
#: First bytes of UTF-16.
_WIDE = (b"\xff\xfe", b"\xfe\xff")


def read_csv(path: Path) -> Table:
    """Read a whole file; ``.gz`` is decompressed."""
    with _readable(path):
        header, delimiter = _header(path)
        names = _names(header)
        types = dict.fromkeys(header, "string")
        table = None if _is_wide(path) else _parse(path, delimiter, types)
        if table is not None and table.column_names == header and table.num_rows:
            columns = dict(zip(names, table.columns, strict=True))
            return ArrowTable(str(path), names, table.num_rows, columns.__getitem__, holds_cells=True)
        with open_csv(path) as file:
            rows = _rows(file, names, delimiter, str(path), n_headers=1)
    if not rows:
        raise InputError(f"{path} holds a header but no rows.")
    return CellTable(str(path), _columns(names, rows), len(rows))


def read_csv_names(path: Path) -> list[str]:
    """Read the names of the columns."""
    return read_csv_layout(path)[0]


def read_csv_layout(path: Path, errors: str = "strict") -> tuple[list[str], str]:
    """Read the names of the columns, and the delimiter; ``errors`` says what becomes of bytes that are not UTF-8."""
    with _readable(path):
        header, delimiter = _header(path, errors)
        return _names(header), delimiter


def read_csv_dialect(path: Path) -> CsvDialect:
    """Return how a file is written, so that another can be written alike."""
    delimiter = read_csv_layout(path)[1]
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        begins = file.read(3)
    encoding = "utf-16" if begins[:2] in _WIDE else "utf-8-sig" if begins == codecs.BOM_UTF8 else "utf-8"
    with open_csv(path) as text:
        line = next((one for one in text if one.strip("\r\n")), "")
    return CsvDialect(delimiter, encoding, "\r\n" if line.endswith("\r\n") else "\n")


@dataclass(frozen=True)
class CsvReader:
    """Reads blocks of lines of CSV files with the same columns; ``headers`` holds names and delimiter of each."""

    layout: Layout
    headers: dict[str, Sequence[Any]]
    kind: ClassVar[str] = "csv"

    @property
    def n_bytes(self) -> int:
        """Bytes of a block of text and its numbers."""
        return 3 * _BLOCK + COLUMN_BYTES * max(len(names) for names, _ in self.headers.values())

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        return self.layout.names

    @classmethod
    def plan(
        cls,
        paths: Sequence[str],
        label: str | None,
        features: Sequence[str] | None,
        drop: Sequence[str],
        *,
        text_labels: bool = False,
        text: Sequence[str] = (),
        fills: bool = False,
    ) -> tuple[CsvReader, list[Unit]]:
        """Return a reader of the files and their blocks of lines; ``text_labels`` keeps labels as they are written.

        An encoder is learned from the first block where that is not all numbers; see `Layout.encoded`.
        """
        headers: dict[str, Sequence[Any]] = {}
        takes_all = features is None
        units: list[Unit] = []
        for path in paths:
            require_pyarrow(path)
            with _readable(Path(path)):
                if _is_wide(Path(path)):
                    raise InputError(f"{path} is UTF-16, which cannot be read in pieces; save it as UTF-8.")
                header, delimiter = _header(Path(path))
                units += _find_units(path)
            names = _names(header)
            headers[path] = names, delimiter
            table = CellTable(path, {name: [] for name in names}, 0)
            if path == paths[0]:
                table.check_known([*(features or ()), *drop, *text])
                features = table.choose(table.check_label(label), features, drop)
            table.check_known([*(features or ()), str(label)])
        layout = Layout(list(features or ()), [0] * len(features or ()), str(label), "text", "float64")
        if takes_all:
            note_others({path: names for path, (names, _) in headers.items()}, [*layout.columns, layout.label], drop)
        reader = cls(layout, headers)
        if not units:
            return reader, units
        first = reader._table(units[0], as_text=True)
        layout = layout.encoded(first, is_named=not takes_all, text=text, fills=fills)
        kind = layout.kind if text_labels else label_kind(first.values(str(label)))
        return cls(replace(layout, kind=kind), headers), units

    def read(self, unit: Unit, start: int, size: int) -> Iterator[Chunk]:
        """Yield the rows of a unit from ``start`` on, at most ``size`` at a time."""
        table = self._table(unit)
        if table.n_rows != unit.n_rows:
            raise InputError(
                f"{unit.path}: {table.n_rows:,} rows where {unit.n_rows:,} were counted; has the file changed?"
            )
        chunk = self.layout.chunk(table)
        for at in range(start, unit.n_rows, size):
            yield chunk[at : at + size]

    def _table(self, unit: Unit, *, as_text: bool = False) -> Table:
        names, delimiter = self.headers[unit.path]
        with Path(unit.path).open("rb") as file:
            file.seek(unit.at[0])
            text = file.read(unit.at[1] - unit.at[0])
        numbers = "string" if as_text or self.layout.encoder is not None else "float64"
        types = {**dict.fromkeys(self.layout.needed, numbers), self.layout.label: "string"}
        table = _parse(text, delimiter, types, names)
        if table is not None:
            return ArrowTable(
                unit.path, names, table.num_rows, table.column, first_row=unit.first_row, holds_cells=True
            )
        with _readable(Path(unit.path)):
            rows = _rows(_text(io.BytesIO(text)), names, delimiter, unit.path, first_row=unit.first_row)
        return CellTable(unit.path, _columns(names, rows), len(rows), unit.first_row)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Name the file in errors, and let fields of any size through while the block lasts."""
    limit = csv.field_size_limit(_FIELD)
    try:
        with decoding(path, "a readable CSV file"):
            yield
    finally:
        csv.field_size_limit(limit)


def open_csv(path: Path, errors: str = "strict") -> TextIO:
    """Open a file as text; ``.gz`` is decompressed, and ``errors`` says what becomes of bytes that are not text."""
    return _text(gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb"), errors)


def _text(file: Any, errors: str = "strict") -> TextIO:
    begins = file.read(2)
    file.seek(0)
    return io.TextIOWrapper(file, encoding="utf-16" if begins in _WIDE else "utf-8-sig", errors=errors, newline="")


def _is_wide(path: Path) -> bool:
    """Whether a file is UTF-16, as spreadsheets write it, by its first bytes."""
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        return file.read(2) in _WIDE


def _header(path: Path, errors: str = "strict") -> tuple[list[str], str]:
    """Return the first row, and the delimiter that splits the first rows most evenly."""
    sample: list[str] = []
    with open_csv(path, errors) as file:
        for line in file:
            if "\0" in line:
                raise InputError(f"{path} is not a CSV file: it holds binary data.")
            if line.strip("\r\n"):
                sample.append(line)
            if len(sample) == _PROBE:
                break
    if not sample:
        raise InputError(f"{path} is empty; a CSV file with a header row was expected.")
    best, header, delimiter = (False, 0), [""], ","
    for candidate in _DELIMITERS:
        rows = list(csv.reader(sample, delimiter=candidate))
        fit = (len({len(row) for row in rows[:-1] or rows}) == 1 and len(rows[0]) > 1, len(rows[0]))
        if fit > best:
            best, header, delimiter = fit, rows[0], candidate
    _check_header(path, _names(header))
    return header, delimiter


def _names(header: Sequence[str]) -> list[str]:
    return [unquote_formula(name.strip()) for name in header]


def _check_header(path: Path, names: list[str]) -> None:
    repeated = next((name for name, count in Counter(names).items() if name and count > 1), None)
    try:
        numbers = [float(name) for name in names]
    except ValueError:
        numbers = []
    if numbers and (repeated is not None or not all(one.is_integer() and one >= 0 for one in numbers)):
        raise InputError(
            f"the first row of {path} holds numbers ({', '.join(names[:3])}, ...); a header row is needed."
        )
    if repeated is not None:
        raise InputError(f"the header of {path} names {repeated!r} twice; give every column its own name.")


def _parse(source: Path | bytes, delimiter: str, types: dict[str, str], names: list[str] | None = None) -> Any:
    """Return an Arrow table with columns of these types; None where pyarrow is missing or stumbles.

    Without ``names`` the first row is the header, and all columns are read.
    """
    try:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv
    except ImportError:
        return None
    reading = arrow_csv.ReadOptions()
    if isinstance(source, bytes):  # one block, and other threads may be reading other blocks
        reading = arrow_csv.ReadOptions(use_threads=False, column_names=names, block_size=len(source) + 2)
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(source) if isinstance(source, bytes) else source,
            reading,
            arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            arrow_csv.ConvertOptions(
                column_types=types, include_columns=None if names is None else list(types),
                null_values=sorted(NO_NUMBER), strings_can_be_null=False,
            ),
        )  # fmt: skip
    except (pa.ArrowException, OSError):
        return None
    texts = [column for column in table.columns if pa.types.is_string(column.type) and len(column)]
    if any("\n" in column[-1].as_py() for column in texts):  # perhaps a quote that is never closed
        return None
    return table


def _rows(
    file: TextIO, names: list[str], delimiter: str, path: str, *, n_headers: int = 0, first_row: int = 0
) -> list[list[str]]:
    """Return the rows as Python reads them; each must be as long as the header."""
    reader = csv.reader(file, delimiter=delimiter, strict=True)
    rows = [row for row in reader if row][n_headers:]
    for number, row in enumerate(rows, first_row + 1):
        if len(row) != len(names):
            raise InputError(f"{path}, data row {number:,}: {len(row)} fields, but the header has {len(names)}.")
    return rows


def _columns(names: list[str], rows: list[list[str]]) -> dict[str, list[str]]:
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def _find_units(path: str) -> list[Unit]:
    """Return units of whole lines; a line break in quotes ends no line, and empty lines are not rows."""
    units: list[Unit] = []
    with Path(path).open("rb") as file:
        at = start = line = _end_of_header(file)
        in_quotes, rows, first = False, 0, 0
        while block := _read_block(file):
            stops, in_quotes = _find_stops(block, in_quotes)
            stops += at
            if len(stops):
                data = np.frombuffer(block, np.uint8)
                rows = _count_rows(data, at, np.concatenate([[line], stops[:-1]]), stops)
                line = int(stops[-1])
                units.append(Unit(path, rows, first, (start, line)))
                first, start = first + rows, line
            at += len(block)
        if at > line:  # the last line need not end
            file.seek(line)
            if file.read(at - line).strip():
                units.append(Unit(path, 1, first, (line, at)))
    return [one for one in units if one.n_rows]


def _end_of_header(file: BinaryIO) -> int:
    """Move to the first byte after the header row."""
    header = b""
    while block := _read_block(file):
        header += block
        stops, _ = _find_stops(header, False)
        stops = stops[stops > len(header) - len(header.lstrip())]
        if len(stops):
            return file.seek(int(stops[0]))
    return len(header)


def _read_block(file: BinaryIO) -> bytes:
    """Return the next bytes, which do not end between the two that end a line."""
    block = file.read(_BLOCK)
    return block + file.read(1) if block.endswith(b"\r") else block


def _find_stops(block: bytes, in_quotes: bool) -> tuple[Any, bool]:
    """Return where lines stop, be it by LF, CR LF or CR alone, and whether the block ends in quotes."""
    data = np.frombuffer(block, np.uint8)
    ends = data == ord("\n")
    returns = np.flatnonzero(data == ord("\r"))
    ends[returns] = np.append(data, 0)[returns + 1] != ord("\n")
    quotes = data == ord('"')
    if in_quotes or quotes.any():
        inside = (np.cumsum(quotes) + in_quotes) % 2 == 1
        in_quotes = bool(inside[-1])
        ends &= ~inside
    return np.flatnonzero(ends) + 1, in_quotes


def _count_rows(data: Any, at: int, starts: Any, stops: Any) -> int:
    """Return how many lines hold anything; one that began before this block does."""
    sizes = stops - starts
    empty = sizes == 1
    short = np.flatnonzero((sizes == 2) & (starts >= at))
    empty[short] = data[starts[short] - at] == ord("\r")
    return int(len(sizes) - empty.sum())
