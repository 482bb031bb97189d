"""A stream of files: the same rows in the same batches for every reader, from any batch on."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearkin.errors import InputError
from nearkin.saving import read_tree, write_tree
from nearkin.streams.batch import Batch, Place, check_chunk
from nearkin.streams.columns import Columns, note_new
from nearkin.streams.identity import describe_file
from nearkin.tables import Chunk, CsvReader, Layout, NpyReader, ParquetReader, Reader, Unit

if TYPE_CHECKING:
    from nearkin.streams.late import LabelJoin

__all__ = ["Cursor", "FileStream", "Order", "Piece", "sample_rows"]

#: Most batches to read.
_BATCHES = 256


class Piece(NamedTuple):
    """Rows ``start`` to ``stop`` of the unit with this number."""

    unit: int
    start: int
    stop: int


class Order:
    """Units laid end to end for one pass over the data, in file order or in an order drawn for every pass."""

    def __init__(self, sizes: Sequence[int], epoch: int, seed: int | None):
        n = len(sizes)
        self._units = np.arange(n) if seed is None else np.random.default_rng([seed, epoch]).permutation(n)
        self._ends = np.cumsum(np.asarray(sizes, dtype=np.int64)[self._units])

    def pieces(self, first: int, last: int) -> list[Piece]:
        """Return the pieces that hold rows ``first`` to ``last``."""
        found = []
        at = int(np.searchsorted(self._ends, first, side="right"))
        while first < last and at < len(self._ends):
            begin = int(self._ends[at - 1]) if at else 0
            stop = min(last, int(self._ends[at]))
            found.append(Piece(int(self._units[at]), first - begin, stop - begin))
            first, at = stop, at + 1
        return found


@dataclass(eq=False, repr=False)
class FileStream:
    r"""Batches of files; made by `nearkin.streams.open`.

    Every batch is `batch_rows` rows of the files laid end to end, so its number says which rows it holds, in any
    process that sees the same files.

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
    missing : {"error", "drop", "fill"}
        What to do with rows that lack a number or a label.
    join : LabelJoin or None, default=None
        Puts labels in the place of the ids that were read instead.

    Examples
    --------
    >>> import tempfile
    >>> from nearkin import streams
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     print("x,y", *(f"{i},{i % 2}" for i in range(100)), sep="\n", file=file, flush=True)
    ...     stream = streams.open(file.name, label="y", batch_rows=30)
    >>> stream.n_rows, stream.n_batches
    (100, 4)
    """

    reader: Reader
    units: Sequence[Unit]
    label: str | None
    _: KW_ONLY
    batch_rows: int
    seed: int | None
    missing: str
    join: LabelJoin | None = None
    _order: tuple[int, Order] | None = field(default=None, init=False)

    @property
    def names(self) -> list[str] | None:
        """Names of the features."""
        return self.reader.names

    @property
    def columns(self) -> Columns | None:
        """Columns of the features, if they have names."""
        if isinstance(self.reader, NpyReader):
            return None
        found = Columns.of_layout(self.reader.layout)  # type: ignore[attr-defined]
        return found if self.join is None else replace(found, labels=self.join.table.kind)

    def arranged(self, learned: Columns, labels: str) -> FileStream:
        """Return the same rows with these columns in this order; see `nearkin.streams.columns.Named`."""
        if isinstance(self.reader, NpyReader):
            return self
        layout = self.reader.layout  # type: ignore[attr-defined]
        note_new(self.paths[0], layout.columns, learned)
        kind = labels if self.join is None else layout.kind
        layout = layout.arranged(learned.widths, kind, self.paths[0], learned.encoder)
        return replace(self, reader=replace(self.reader, layout=layout))  # type: ignore[type-var]

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

    @property
    def files(self) -> list[str]:
        """All files that are read: those of rows, and npy files of labels."""
        return [*self.paths, *(self.reader.labels.values() if isinstance(self.reader, NpyReader) else ())]

    def pieces(self, epoch: int, number: int) -> list[Piece]:
        """Return where the rows of a batch are."""
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, Order([one.n_rows for one in self.units], epoch, self.seed)
        first = number * self.batch_rows
        return self._order[1].pieces(first, min(first + self.batch_rows, self.n_rows))

    def batches(self, epoch: int, first: int = 0) -> Iterator[Batch]:
        """Yield the batches of a pass over the data, from number ``first`` on."""
        cursor = self.cursor()
        for number in range(first, self.n_batches):
            batch = self.batch(self.pieces(epoch, number), cursor)
            yield batch if self.join is None else self.join(batch, is_first_pass=epoch == 0)

    def batch(self, pieces: Sequence[Piece], cursor: Cursor | None = None) -> Batch:
        """Read the rows of some pieces; a cursor that stands there already reads on."""
        cursor = self.cursor() if cursor is None else cursor
        chunk = Chunk.join([cursor.take(self.units[one.unit], one.start, one.stop) for one in pieces])

        def place(row: int) -> Place:
            for piece in pieces:
                if row < piece.stop - piece.start:
                    break
                row -= piece.stop - piece.start
            unit = self.units[piece.unit]
            return Place(unit.path, unit.first_row + piece.start + row)

        return check_chunk(chunk, self.missing, place, self.names, self.label)

    def cursor(self) -> Cursor:
        """Return a fresh cursor to read pieces with."""
        return Cursor(self.reader, self.batch_rows)

    def of_file(self, path: str) -> FileStream:
        """Return the stream of one file, in its order."""
        units = [one for one in self.units if one.path == path]
        return replace(self, units=units, seed=None)

    def identity(self) -> dict[str, Any]:
        """Return what must be the same for a checkpoint to go on: files by content and in order, columns, options."""
        own = _plain(self.reader)
        layout, labels = own.get("layout", own), own.get("labels", {})
        files = [describe_file(one) for path in self.paths for one in (path, labels.get(path)) if one is not None]
        return {
            "files": files, "rows": self.n_rows, "features": self.names, "numbers": layout["dtype"],
            "label": self.label, "kind_of_labels": layout.get("kind"), "batch_rows": self.batch_rows,
            "shuffle": self.seed is not None and f"seed {self.seed}", "missing": self.missing,
        }  # fmt: skip

    def describe(self, batches: Sequence[Sequence[Piece]]) -> dict[str, Any]:
        """Return as plain values what another process needs to read some batches, and no more."""
        numbers = list(dict.fromkeys(piece.unit for pieces in batches for piece in pieces))
        place = {number: i for i, number in enumerate(numbers)}
        return {
            "reader": {"kind": self.reader.kind, **_plain(self.reader)}, "encoder": _pack_encoder(self.reader),
            "units": [asdict(self.units[number]) for number in numbers],
            "label": self.label, "batch_rows": self.batch_rows, "missing": self.missing,
            "batches": [[[place[one.unit], one.start, one.stop] for one in pieces] for pieces in batches],
        }  # fmt: skip

    @classmethod
    def from_description(cls, plain: dict[str, Any]) -> tuple[FileStream, list[list[Piece]]]:
        """Return the stream that `describe` described, and the batches."""
        own = dict(plain["reader"])
        kind: Any = {one.kind: one for one in (CsvReader, NpyReader, ParquetReader)}[own.pop("kind")]
        if "layout" in own:
            encoder = None if plain["encoder"] is None else read_tree(io.BytesIO(plain["encoder"]))
            own["layout"] = Layout(**{**own["layout"], "encoder": encoder})
        units = [Unit(**{**one, "at": tuple(one["at"])}) for one in plain["units"]]
        options = {name: plain[name] for name in ("label", "batch_rows", "missing")}
        stream = cls(kind(**own), units, seed=None, **options)
        return stream, [[Piece(*one) for one in pieces] for pieces in plain["batches"]]


def _plain(reader: Any) -> dict[str, Any]:
    """Return the values of a reader, without its encoder."""
    layout = getattr(reader, "layout", None)
    return asdict(reader if layout is None else replace(reader, layout=replace(layout, encoder=None)))


def _pack_encoder(reader: Any) -> bytes | None:
    """Return the encoder of a reader as another process reads it."""
    encoder = getattr(getattr(reader, "layout", None), "encoder", None)
    if encoder is None:
        return None
    file = io.BytesIO()
    write_tree(encoder, file)
    return file.getvalue()


@dataclass(eq=False)
class Cursor:
    """Reads pieces one after the other, and reads on where a piece follows the last one."""

    reader: Reader
    size: int
    at: tuple[Unit | None, int] = (None, 0)
    _chunks: Iterator[Chunk] = field(default_factory=lambda: iter(()), init=False)
    _rest: Chunk | None = field(default=None, init=False)

    def take(self, unit: Unit, start: int, stop: int) -> Chunk:
        """Return rows of a unit."""
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
                raise InputError(f"{unit.path} ended before its last row; has the file changed?")
            parts.append(chunk[:wanted])
            self._rest = chunk[wanted:] if len(chunk) > wanted else None
            wanted -= len(parts[-1])
        return parts


def sample_rows(stream: FileStream, n_rows: int, seed: int = 0) -> tuple[NDArray[np.floating], NDArray[Any]]:
    r"""Draw rows from all over the files, in their order; the same seed draws the same rows.

    Parameters
    ----------
    stream : FileStream
        From `nearkin.streams.open`.
    n_rows : int
        Number of rows, if the stream has that many.
    seed : int
        For the draw.

    Returns
    -------
    X, y : ndarray
        Features and labels.

    Examples
    --------
    >>> import tempfile
    >>> from nearkin import streams
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     print("x,y", *(f"{i},{i % 2}" for i in range(100)), sep="\n", file=file, flush=True)
    ...     streams.sample_rows(streams.open(file.name, label="y"), 3)[0].ravel().tolist()
    [20.0, 36.0, 82.0]
    """
    rng = np.random.default_rng(seed)
    numbers = np.sort(rng.permutation(stream.n_batches)[:_BATCHES])
    sizes = [min(stream.batch_rows, stream.n_rows - number * stream.batch_rows) for number in numbers.tolist()]
    wanted = np.sort(rng.permutation(sum(sizes))[:n_rows])
    cursor = stream.cursor()
    X, y, at = [], [], 0
    for number, size in zip(numbers.tolist(), sizes, strict=True):
        batch = stream.batch(stream.pieces(0, number), cursor)
        picked = np.zeros(size, dtype=bool)
        picked[wanted[(wanted >= at) & (wanted < at + size)] - at] = True
        X.append(batch.X[picked[batch.kept]])
        y.append(batch.y[picked[batch.kept]])
        at += size
    return np.concatenate(X), np.concatenate(y)
