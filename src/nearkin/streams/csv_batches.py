"""CSV, some thousand lines at a time.

The lines are counted once when the stream is opened, so that any part can be read again without the ones before it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nearkin.streams.arrow import Layout, layout_of, require_pyarrow, to_chunk
from nearkin.streams.batch import Chunk
from nearkin.streams.units import Unit

__all__ = ["CsvReader"]

#: Bytes that are looked at together while lines are counted, and about as many as a unit has.
_BLOCK = 1 << 22
_DELIMITERS = (",", ";", "\t")
#: Cells that say that there is nothing, as in the tables that are read whole.
_NOTHING = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "null", "NULL"]
_NO_NUMBER = [*_NOTHING, "-nan", "-NaN", "None", "none", "?"]
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})", re.ASCII)


class CsvReader:
    """Reads lines of CSV files with the same columns.

    Parameters
    ----------
    layout : Layout
        Which columns.
    headers : dict
        Names of the columns of every file, and what stands between them.
    """

    kind = "csv"
    n_bytes = 3 * _BLOCK  # the text, and its numbers

    def __init__(self, layout: Layout, headers: dict[str, tuple[list[str], str]]):
        self.layout = layout
        self.headers = headers

    @property
    def names(self) -> list[str] | None:
        """Of the features."""
        return self.layout.names

    @classmethod
    def plan(
        cls,
        paths: Sequence[str],
        label: str | None,
        features: Sequence[str] | None,
        drop: Sequence[str],
        *,
        text: bool,
    ) -> tuple[CsvReader, list[Unit]]:
        """Reader of the files, and where their lines are; ``text`` keeps labels that look like numbers as they are."""
        pa = require_pyarrow(paths[0])
        headers, units = {}, []
        layout: Layout | None = None
        for path in paths:
            names, delimiter, begin = _header(path)
            headers[path] = names, delimiter
            units += _lines(path, begin)
            schema = pa.schema([(n, pa.string() if n == label else pa.float64()) for n in names if n])
            if layout is None:
                layout = layout_of(schema, None, path, label, features, drop)
            else:
                layout_of(schema, None, path, label, layout.columns, ())
        assert layout is not None
        reader = cls(layout, headers)
        if units and not text:
            sample = reader._cells(units[0]).column(label).drop_null().to_pylist()
            layout = replace(layout, text=not all(_WHOLE.fullmatch(one) for one in sample))
        return cls(layout, headers), units

    def read(self, unit: Unit, start: int, size: int) -> Iterator[Chunk]:
        """Rows of a unit from ``start`` on, at most ``size`` at a time."""
        table = self._table(unit)
        if table.num_rows != unit.n_rows:
            raise ValueError(
                f"{unit.path}: {table.num_rows:,} rows where {unit.n_rows:,} were counted; has the file changed?"
            )
        where = f"{unit.path}, from data row {unit.first_row + 1:,} on"
        for at in range(start, unit.n_rows, size):
            (batch,) = table.slice(at, size).combine_chunks().to_batches()
            yield to_chunk(batch, self.layout, where)

    def _table(self, unit: Unit) -> Any:
        """Features as numbers and the label by its kind."""
        pa = require_pyarrow(unit.path)
        layout = self.layout
        kinds = dict.fromkeys(layout.columns, pa.float64())
        kinds[str(layout.label)] = pa.string() if layout.text else pa.int64()
        try:
            return self._parsed(unit, kinds, _NO_NUMBER)
        except pa.ArrowInvalid as error:
            raise ValueError(self._complaint(unit, str(error))) from None

    def _cells(self, unit: Unit) -> Any:
        """All cells that are needed, as text."""
        pa = require_pyarrow(unit.path)
        try:
            return self._parsed(unit, dict.fromkeys(self.layout.needed, pa.string()), _NOTHING)
        except pa.ArrowInvalid as error:
            raise ValueError(f"{unit.path}, from data row {unit.first_row + 1:,} on: {error}") from None

    def _parsed(self, unit: Unit, kinds: dict[str, Any], nothing: list[str]) -> Any:
        from pyarrow import BufferReader
        from pyarrow import csv as reader

        names, delimiter = self.headers[unit.path]
        with Path(unit.path).open("rb") as file:
            file.seek(unit.at[0])
            text = file.read(unit.at[1] - unit.at[0])
        return reader.read_csv(
            BufferReader(text),
            reader.ReadOptions(use_threads=False, column_names=names, block_size=max(len(text), 1) + 1),
            reader.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            reader.ConvertOptions(
                column_types=kinds, include_columns=self.layout.needed, null_values=nothing, strings_can_be_null=True
            ),
        )

    def _complaint(self, unit: Unit, error: str) -> str:
        """Which cell is wrong."""
        cells, layout = self._cells(unit), self.layout
        for name in layout.needed:
            is_label = name == layout.label
            for row, cell in enumerate(cells.column(name).to_pylist()):
                if cell is None or (not is_label and (cell.strip() in _NO_NUMBER or _is_number(cell))):
                    continue
                if is_label and (layout.text or _WHOLE.fullmatch(cell.strip())):
                    continue
                where = f"{unit.path}, data row {unit.first_row + row + 1:,}"
                if is_label:
                    return (
                        f"{where}: label {cell!r} in column {name!r}, where the first rows hold whole numbers. "
                        "Open the stream with text_labels=True."
                    )
                return (
                    f"{where}: column {name!r} holds {cell!r}, which is no number; leave it out with drop=[{name!r}]."
                )
        return f"{unit.path}, from data row {unit.first_row + 1:,} on: {error}"


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _header(path: str) -> tuple[list[str], str, int]:
    """Names of the columns, the delimiter, and the byte at which the rows begin."""
    with Path(path).open("rb") as file:
        line = file.readline()
        begin = file.tell()
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text; save it as UTF-8.") from None
    read = {one: next(csv.reader([text], delimiter=one), []) for one in _DELIMITERS}
    delimiter = max(_DELIMITERS, key=lambda one: len(read[one]))
    names = [name.strip() for name in read[delimiter]]
    if len(names) < 2:
        raise ValueError(f"{path}: a header row with at least two columns is needed; the first line is {text[:60]!r}.")
    twice = [name for name in names if name and names.count(name) > 1]
    if twice:
        raise ValueError(f"{path}: column {twice[0]!r} stands twice in the header; rename one.")
    return names, delimiter, begin


def _lines(path: str, begin: int) -> list[Unit]:
    """Units of whole lines; a line break inside quotes does not end one, and empty lines do not count."""
    units: list[Unit] = []
    in_quotes, rows, first, start, line = False, 0, 0, begin, begin
    with Path(path).open("rb") as file:
        file.seek(begin)
        at = begin
        while block := file.read(_BLOCK):
            data = np.frombuffer(block, np.uint8)
            ends = data == ord("\n")
            quotes = data == ord('"')
            if in_quotes or quotes.any():
                inside = (np.cumsum(quotes) + in_quotes) % 2 == 1
                in_quotes = bool(inside[-1])
                ends &= ~inside
            places = np.flatnonzero(ends)
            if len(places):
                stops = at + places + 1
                rows += _full(data, at, np.concatenate([[line], stops[:-1]]), stops)
                line = int(stops[-1])
                units.append(Unit(path, rows, first, (start, line)))
                first, rows, start = first + rows, 0, line
            at += len(block)
        if at > line:  # the last line need not end
            file.seek(line)
            if file.read(at - line).strip():
                units.append(Unit(path, 1, first, (line, at)))
    return [one for one in units if one.n_rows]


def _full(data: Any, at: int, starts: Any, stops: Any) -> int:
    """How many of the lines hold anything; one that began before this block does."""
    sizes = stops - starts
    empty = sizes == 1
    short = np.flatnonzero((sizes == 2) & (starts >= at))
    empty[short] = data[starts[short] - at] == ord("\r")
    return int(len(sizes) - empty.sum())
