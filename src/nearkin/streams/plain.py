"""A part of a stream as plain lists and text, for whoever is to read it elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from nearkin.streams.arrow import Layout
from nearkin.streams.csv_batches import CsvReader
from nearkin.streams.file_stream import FileStream, Reader
from nearkin.streams.npy_batches import NpyReader
from nearkin.streams.parquet_batches import ParquetReader
from nearkin.streams.units import Piece, Unit

__all__ = ["from_plain", "to_plain"]


def to_plain(stream: FileStream, batches: Sequence[Sequence[Piece]]) -> dict[str, Any]:
    """What is needed to read some batches, and no more."""
    numbers = list(dict.fromkeys(piece.unit for pieces in batches for piece in pieces))
    place = {number: i for i, number in enumerate(numbers)}
    return {
        "reader": _reader_to_plain(stream.reader),
        "units": [asdict(stream.units[number]) for number in numbers],
        "label": stream.label,
        "batch_rows": stream.batch_rows,
        "missing": stream.missing,
        "batches": [[[place[one.unit], one.start, one.stop] for one in pieces] for pieces in batches],
    }


def from_plain(plain: dict[str, Any]) -> tuple[FileStream, list[list[Piece]]]:
    """The stream of those units, and the batches."""
    units = [Unit(**{**one, "at": tuple(one["at"])}) for one in plain["units"]]
    stream = FileStream(
        _reader_from_plain(plain["reader"]), units, plain["label"],
        batch_rows=plain["batch_rows"], seed=None, missing=plain["missing"],
    )  # fmt: skip
    return stream, [[Piece(*one) for one in pieces] for pieces in plain["batches"]]


def _reader_to_plain(reader: Reader) -> dict[str, Any]:
    if isinstance(reader, NpyReader):
        return {"kind": reader.kind, "labels": reader.labels, "dtype": reader.dtype}
    assert isinstance(reader, (ParquetReader, CsvReader))
    more = {"headers": reader.headers} if isinstance(reader, CsvReader) else {}
    return {"kind": reader.kind, "layout": asdict(reader.layout), **more}


def _reader_from_plain(plain: dict[str, Any]) -> Reader:
    if plain["kind"] == NpyReader.kind:
        return NpyReader(plain["labels"], plain["dtype"])
    layout = Layout(
        **{**plain["layout"], "columns": tuple(plain["layout"]["columns"]), "widths": tuple(plain["layout"]["widths"])}
    )
    if plain["kind"] == CsvReader.kind:
        return CsvReader(layout, {path: (list(names), mark) for path, (names, mark) in plain["headers"].items()})
    return ParquetReader(layout)
