"""Labelled rows in batches, and streams of them from chunks that the caller makes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array
from nearkin.errors import InputError, Option, Row, placed_at
from nearkin.labels import as_labels
from nearkin.streams.columns import Columns, note_new
from nearkin.streams.identity import digest_rows
from nearkin.tables import ArrowTable, Chunk, Layout, TableEncoder, find_gap, is_mixed, layout_of

__all__ = ["Batch", "IteratorStream", "Place", "Stream", "check_chunk"]


@dataclass(frozen=True)
class Place:
    """Where a row stands, for messages."""

    source: str
    row: int

    def __str__(self) -> str:
        return f"{self.source}, data row {self.row + 1:,}"


@dataclass(frozen=True)
class Batch:
    """Rows to learn from: finite features, labels, which rows of the stream they are, and where the batch begins.

    Examples
    --------
    >>> from nearkin import streams
    >>> chunks = [(np.array([[1.0], [np.nan], [3.0]]), ["a", "b", "a"])]
    >>> batch = next(streams.open(chunks, missing="drop").batches(epoch=0))
    >>> batch.y.tolist(), batch.n_dropped, str(batch.first)
    (['a', 'a'], 1, 'the stream, data row 1')
    """

    X: Array
    y: NDArray[Any]
    kept: NDArray[np.bool_]
    first: Place
    n_waiting: int = 0  # that have no label yet
    place: Callable[[int], Place] | None = field(default=None, repr=False)  # of a row behind it

    @property
    def n_rows(self) -> int:
        """Rows of the stream behind it."""
        return len(self.kept)

    @property
    def n_dropped(self) -> int:
        """Rows that were dropped."""
        return len(self.kept) - len(self.X) - self.n_waiting

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Let every error of the block say where it is: in which row, if it knows that, or in which batch."""
        try:
            with placed_at(f"{self.first} and the {self.n_rows - 1:,} rows after it"):
                yield
        except InputError as error:
            row = error.options.get("row")
            if isinstance(row, Row) and self.place is not None and row.value < len(self.X):
                error.place = str(self.place(int(np.flatnonzero(self.kept)[row.value])))
                error.problem = error.problem.replace("{row}", "it")
            raise


class Stream(Protocol):
    """A source of labelled batches: `FileStream`, or an iterator."""

    batch_rows: int
    label: str | None

    @property
    def names(self) -> list[str] | None:
        """Names of the features, if known."""

    @property
    def columns(self) -> Columns | None:
        """Columns of the features, if they have names and these are known."""

    @property
    def n_rows(self) -> int | None:
        """Rows of one pass, if known."""

    def batches(self, epoch: int, first: int = 0) -> Iterator[Batch]:
        """Yield the batches of a pass over the data, from number ``first`` on."""

    def identity(self) -> dict[str, Any]:
        """Return what must be the same for a checkpoint to go on."""

    def arranged(self, learned: Columns, labels: str) -> Self:
        """Return the same rows with these columns in this order; see `nearkin.streams.columns.Named`."""


def check_chunk(
    chunk: Chunk, missing: str, place: Callable[[int], Place], names: list[str] | None, label: str | None
) -> Batch:
    """Return the rows that are complete; refuse or drop the others."""
    with np.errstate(over="ignore", invalid="ignore"):
        whole = np.isfinite(chunk.X.sum(axis=1, dtype=np.float64))
    if not whole.all():  # a sum may overflow where every number is finite
        whole = np.isfinite(chunk.X).all(axis=1)
    kept = whole & ~chunk.no_label
    if kept.all():
        return Batch(chunk.X, chunk.y, kept, place(0), place=place)
    if missing in ("drop", "fill"):
        return Batch(chunk.X[kept], chunk.y[kept], kept, place(0), place=place)
    row = int(np.argmin(kept))
    problem = f"column {label!r} holds no label" if label else "there is no label"
    if not whole[row]:
        problem = find_gap(chunk.X[row : row + 1], names)[1]
    advice = "Fill the gap, or drop and count such rows ({fix})."
    raise InputError(f"{problem}. {advice}", place=str(place(row)), fix=Option("missing", "drop"))


@dataclass(eq=False, repr=False)
class IteratorStream:
    """Batches of `batch_rows` rows from chunks of any size: pairs (X, y) or Arrow record batches.

    A function gives fresh chunks for every pass. Columns of record batches and of frames are matched by name: in the
    order that a model has learned, or in that of the first of them.
    """

    chunks: Iterable[Any] | Callable[..., Iterable[Any]]
    label: str | None
    features: Sequence[str] | None
    drop: Sequence[str]
    _: KW_ONLY
    batch_rows: int
    missing: str
    n_rows: int | None = field(default=None, init=False)  # not known
    _layout: Layout | None = field(default=None, init=False)
    _learned: Columns | None = field(default=None, init=False)
    _labels: str = field(default="", init=False)  # how the labels of a model are written
    _used: bool = field(default=False, init=False)
    _begun: tuple[list[Batch], Iterator[Batch]] | None = field(default=None, init=False)  # read ahead, and the rest

    @property
    def names(self) -> list[str] | None:
        """Of Arrow columns, once the first chunk was seen."""
        return None if self._layout is None else self._layout.names

    @property
    def columns(self) -> Columns | None:
        """Once the first chunk was seen, if it has names."""
        return self._learned if self._layout is None else Columns.of_layout(self._layout)

    def arranged(self, learned: Columns, labels: str) -> Self:
        """Return the same rows with these columns in this order; see `nearkin.streams.columns.Named`."""
        self._learned, self._labels = learned, labels
        if self._layout is not None:
            self._layout = self._layout.arranged(learned.widths, labels, "the stream", learned.encoder)
        return self

    def batches(self, epoch: int, first: int = 0) -> Iterator[Batch]:
        """Yield the batches of a pass; those before ``first`` are skipped."""
        begins_anywhere = callable(self.chunks) and bool(inspect.signature(self.chunks).parameters)
        if self._begun and not (begins_anywhere and first):
            found, self._begun = chain(*self._begun), None
            yield from islice(found, first, None)
            return
        skipped = first if begins_anywhere else 0
        start = skipped * self.batch_rows
        chunks = iter(self.chunks(start)) if begins_anywhere else self._fresh()  # type: ignore[operator]
        for number, (at, chunk) in enumerate(self._cut(chunks, start), skipped):
            if number >= first:
                yield check_chunk(chunk, self.missing, partial(_place, at), self.names, self.label)

    def identity(self) -> dict[str, Any]:
        """Return what must be the same for a checkpoint to go on; of the rows, this reads the first batch ahead."""
        if self._begun is None:
            found = self.batches(0)
            self._begun = list(islice(found, 1)), found
        first = [digest_rows(one.X, one.y) for one in self._begun[0]]
        held = self.chunks if isinstance(self.chunks, (list, tuple)) else ()
        pairs = [one for one in held if isinstance(one, tuple) and len(one) == 2]
        return {
            "first_batch": first, "chunks": [digest_rows(*map(np.asarray, one)) for one in pairs],
            "features": self.names, "label": self.label, "batch_rows": self.batch_rows, "missing": self.missing,
        }  # fmt: skip

    def _fresh(self) -> Iterator[Any]:
        if callable(self.chunks):
            return iter(self.chunks())
        once = iter(self.chunks)
        if once is self.chunks:  # an iterator, not something that can be iterated over again
            if self._used:
                raise InputError(
                    "the iterator is used up. For several passes, or to go on after an error, give a list or a "
                    "function that returns a fresh iterator.",
                    owner="streams.open",
                )
            self._used = True
        return once

    def _cut(self, chunks: Iterator[Any], start: int) -> Iterator[tuple[int, Chunk]]:
        """Yield chunks of `batch_rows` rows (the last may be shorter), with the number of their first row."""
        held: list[Chunk] = []
        size = 0
        for number, one in enumerate(chunks):
            chunk = self._chunk(one, f"chunk {number} of the stream")
            held.append(chunk)
            size += len(chunk)
            while size >= self.batch_rows:
                whole = Chunk.join(held)
                yield start, whole[: self.batch_rows]
                held = [whole[self.batch_rows :]]
                start += self.batch_rows
                size -= self.batch_rows
        if size:
            yield start, Chunk.join(held)

    def _chunk(self, one: Any, where: str) -> Chunk:
        if hasattr(one, "schema") and hasattr(one, "num_rows"):  # an Arrow record batch or table
            if self._layout is None:
                learned = self._learned
                features = self.features if learned is None else list(learned.widths)
                self._layout = layout_of(
                    one.schema, where, lambda name: len(one.column(name)[0]), self.label, features, self.drop,
                    lambda names: ArrowTable(where, names, one.num_rows, one.column), fills=self.missing == "fill",
                )  # fmt: skip
                if learned is not None:
                    note_new(where, one.schema.names, learned, self.label, *self.drop)
                    self._layout = self._layout.arranged(learned.widths, self._labels, where, learned.encoder)
            return self._layout.chunk(ArrowTable(where, one.schema.names, one.num_rows, one.column))
        if not (isinstance(one, tuple) and len(one) == 2):
            raise InputError(f"{where}: a pair (X, y) or an Arrow record batch was expected; got {type(one).__name__}.")
        X = np.asarray(self._by_name(one[0], where))
        if X.ndim != 2 or X.dtype.kind not in "fiub":
            raise InputError(f"{where}: X must be numbers of shape (rows, features); got {X.dtype} of {X.shape}.")
        X = X.astype(np.float32 if X.dtype in (np.float16, np.float32) else np.float64, copy=False)
        y, no_label = _labels(one[1], where)
        if len(y) != len(X):
            raise InputError(f"{where}: X has {len(X)} rows but y has {len(y)} labels.")
        return Chunk(X, y, no_label)

    def _by_name(self, X: Any, where: str) -> Any:
        """Return a frame with its columns in the order of those before; anything else as it is."""
        if not hasattr(X, "columns") or not all(isinstance(one, str) for one in X.columns):
            return X
        names = [str(one) for one in X.columns]
        if self._learned is None:
            self._learned = Columns(dict.fromkeys(names, 0), "number")
            if self.missing == "fill" or is_mixed(X):
                encoder = TableEncoder(drop=[one for one in self.drop if one in names]).fit(X)
                self._learned = Columns(dict.fromkeys(encoder.codes_, 0), "number", encoder)
        if self._learned.encoder is not None:
            note_new(where, names, self._learned)
            return self._learned.encoder.transform(X)
        if names == list(self._learned.widths):
            return X
        layout = Layout(names, [0] * len(names), "", self._learned.labels, "float64")
        note_new(where, names, self._learned)
        return X[list(layout.arranged(self._learned.widths, None, where).columns)]


def _place(start: int, row: int) -> Place:
    return Place("the stream", start + row)


def _labels(y: Any, where: str) -> tuple[Any, Any]:
    """Return labels and which are missing."""
    labels = np.asarray(y)
    if labels.dtype.kind == "f":
        missing = np.isnan(labels)
        return np.where(missing, 0, labels), missing
    if labels.dtype.kind == "O":
        missing = np.array([one is None or one != one for one in labels])
        if missing.any():
            labels = labels.copy()
            labels[missing] = labels[~missing][0] if (~missing).any() else 0
        return labels, missing
    return as_labels(labels, where), np.zeros(len(labels), dtype=bool)
