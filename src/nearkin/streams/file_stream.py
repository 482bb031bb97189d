"""A stream of labelled rows: the same rows in the same batches, whoever reads them and from wherever on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from nearkin.streams.batch import Batch, Chunk, Place, checked
from nearkin.streams.units import Order, Piece, Unit

__all__ = ["FileStream", "Reader", "Stream"]


class Stream(Protocol):
    """What can be learned from: `FileStream`, or an iterator of batches.

    Examples
    --------
    >>> from nearkin import streams
    >>> stream = streams.open([([[0.0], [1.0]], ["a", "b"])])
    >>> stream.n_rows is None, [len(batch.X) for batch in stream.batches(epoch=0)]
    (True, [2])
    """

    batch_rows: int
    label: str | None

    @property
    def names(self) -> list[str] | None:
        """Names of the features; None where nobody knows them."""

    @property
    def n_rows(self) -> int | None:
        """Rows of one pass; None where nobody knows."""

    def batches(self, epoch: int, first: int = 0) -> Iterator[Batch]:
        """Batches of a pass over the data, from number ``first`` on."""

    def identity(self) -> dict[str, Any]:
        """What must be the same for a checkpoint to go on."""


class Reader(Protocol):
    """Reads units of one kind of file."""

    kind: str
    n_bytes: int

    @property
    def names(self) -> list[str] | None:
        """Of the features."""

    def read(self, unit: Unit, start: int, size: int) -> Iterator[Chunk]:
        """Rows of a unit from ``start`` on, at most ``size`` at a time."""


class FileStream:
    """Batches of files; made by `nearkin.streams.open`.

    Every batch is `batch_rows` rows of the files laid end to end, so that it can be named by a number and read by
    anybody who sees the same files.

    Parameters
    ----------
    reader : Reader
        For these files.
    units : sequence of Unit
        What the files hold.
    label : str or None
        Name of the label column.
    batch_rows : int
        Rows of a batch.
    seed : int or None
        None to read in the order of the files; otherwise every pass draws the order of the units anew.
    missing : {"error", "drop"}
        What to do with rows that lack something.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import nearkin
    >>> from nearkin import streams
    >>> with tempfile.TemporaryDirectory() as here:
    ...     np.save(f"{here}/X.npy", np.eye(100, 5))
    ...     np.save(f"{here}/y.npy", np.arange(100) % 2)
    ...     stream = streams.open(f"{here}/X.npy", label=f"{here}/y.npy", batch_rows=30)
    ...     stream.n_rows, stream.n_batches
    (100, 4)
    """

    def __init__(
        self,
        reader: Reader,
        units: Sequence[Unit],
        label: str | None,
        *,
        batch_rows: int,
        seed: int | None,
        missing: str,
    ):
        self.reader = reader
        self.units = tuple(units)
        self.label = label
        self.batch_rows = batch_rows
        self.seed = seed
        self.missing = missing
        self._order: tuple[int, Order] | None = None

    @property
    def names(self) -> list[str] | None:
        """Names of the features."""
        return self.reader.names

    @property
    def n_rows(self) -> int:
        """Rows of one pass."""
        return sum(one.n_rows for one in self.units)

    @property
    def n_batches(self) -> int:
        """Batches of one pass."""
        return -(-self.n_rows // self.batch_rows)

    @property
    def paths(self) -> list[str]:
        """Files in order."""
        return list(dict.fromkeys(one.path for one in self.units))

    def pieces(self, epoch: int, number: int) -> list[Piece]:
        """Where the rows of a batch are."""
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, Order([one.n_rows for one in self.units], epoch, self.seed)
        first = number * self.batch_rows
        return self._order[1].pieces(first, min(first + self.batch_rows, self.n_rows))

    def batches(self, epoch: int, first: int = 0) -> Iterator[Batch]:
        """Batches of a pass over the data, from number ``first`` on."""
        cursor = self.cursor()
        for number in range(first, self.n_batches):
            yield self.batch(self.pieces(epoch, number), cursor)

    def batch(self, pieces: Sequence[Piece], cursor: Cursor | None = None) -> Batch:
        """The rows at some places; a cursor that stands there already need not look for them."""
        cursor = self.cursor() if cursor is None else cursor
        chunk = Chunk.join([cursor.take(self.units[one.unit], one.start, one.stop) for one in pieces])

        def place(row: int) -> Place:
            for piece in pieces:
                if row < piece.stop - piece.start:
                    break
                row -= piece.stop - piece.start
            unit = self.units[piece.unit]
            return Place(unit.path, unit.first_row + piece.start + row)

        return checked(chunk, self.missing, place, self.names, self.label)

    def cursor(self) -> Cursor:
        """Something to read pieces with."""
        return Cursor(self.reader, self.batch_rows)

    def of_file(self, path: str) -> FileStream:
        """The rows of one file, in its order."""
        units = [one for one in self.units if one.path == path]
        return FileStream(self.reader, units, self.label, batch_rows=self.batch_rows, seed=None, missing=self.missing)

    def identity(self) -> dict[str, Any]:
        """Files by name and size, columns and batches."""
        files = [[Path(one).name, Path(one).stat().st_size] for one in self.paths]
        digest = hashlib.sha256(json.dumps([files, self.names, self.n_rows]).encode()).hexdigest()
        return {
            "files": digest,
            "label": self.label,
            "batch_rows": self.batch_rows,
            "order": self.seed,
            "missing": self.missing,
        }


class Cursor:
    """Reads pieces one after the other; a piece that follows the last one is read on, not looked for.

    Parameters
    ----------
    reader : Reader
        For the files.
    size : int
        Most rows to read at a time.
    """

    def __init__(self, reader: Reader, size: int):
        self.reader = reader
        self.size = size
        self.at: tuple[Unit | None, int] = (None, 0)
        self._chunks: Iterator[Chunk] = iter(())
        self._rest: Chunk | None = None

    def take(self, unit: Unit, start: int, stop: int) -> Chunk:
        """Rows of a unit."""
        here, at = self.at
        self.at = (None, 0)  # until all is well
        if here != unit or at > start:
            self._chunks, self._rest = self.reader.read(unit, start, self.size), None
        elif at < start:
            self._next(start - at, unit)
        parts = self._next(stop - start, unit)
        self.at = (unit, stop)
        return Chunk.join(parts)

    def _next(self, wanted: int, unit: Unit) -> list[Chunk]:
        parts = []
        while wanted:
            chunk = self._rest if self._rest is not None else next(self._chunks, None)
            if chunk is None:
                raise ValueError(f"{unit.path} ended before its last row; has the file changed?")
            parts.append(chunk[:wanted])
            self._rest = chunk[wanted:] if len(chunk) > wanted else None
            wanted -= len(parts[-1])
        return parts
