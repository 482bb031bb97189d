"""Batches that somebody else makes: an iterator of (X, y), of Arrow record batches, or a function that gives one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from nearkin.labels import as_labels
from nearkin.streams.arrow import Layout, layout_of, to_chunk
from nearkin.streams.batch import Batch, Chunk, Place, checked

__all__ = ["IteratorStream"]

_OWNER = "streams.open"


class IteratorStream:
    """Batches of `batch_rows` rows from chunks of any size.

    Parameters
    ----------
    chunks : iterable or callable
        Chunks, or a function that gives a fresh iterator of them for every pass: a function without arguments, or of
        the number of the row to begin with.
    label, features, drop
        Columns, for Arrow record batches.
    batch_rows : int
        Rows of a batch.
    missing : {"error", "drop"}
        What to do with rows that lack something.
    """

    def __init__(
        self,
        chunks: Iterable[Any] | Callable[..., Iterable[Any]],
        label: str | None,
        features: Sequence[str] | None,
        drop: Sequence[str],
        *,
        batch_rows: int,
        missing: str,
    ):
        self.chunks = chunks
        self.label = label
        self.features = features
        self.drop = drop
        self.batch_rows = batch_rows
        self.missing = missing
        self._layout: Layout | None = None
        self._used = False

    @property
    def names(self) -> list[str] | None:
        """Of Arrow columns, once the first chunk was seen."""
        return None if self._layout is None else self._layout.names

    @property
    def n_rows(self) -> int | None:
        """Nobody knows."""
        return None

    def batches(self, epoch: int, first: int = 0) -> Iterator[Batch]:
        """Batches of a pass; those before ``first`` are read and left."""
        skipped = first if self._can_begin_anywhere else 0
        chunks = self._fresh(skipped * self.batch_rows)
        for number, (start, chunk) in enumerate(self._cut(chunks, skipped * self.batch_rows), skipped):
            if number >= first:
                yield checked(chunk, self.missing, partial(_place, start), self.names, self.label)

    def identity(self) -> dict[str, Any]:
        """The chunks must be the same again; that cannot be told from here."""
        return {"files": None, "label": self.label, "batch_rows": self.batch_rows, "missing": self.missing}

    @property
    def _can_begin_anywhere(self) -> bool:
        return callable(self.chunks) and bool(inspect.signature(self.chunks).parameters)

    def _fresh(self, first_row: int) -> Iterator[Any]:
        if callable(self.chunks):
            return iter(self.chunks(first_row) if self._can_begin_anywhere else self.chunks())
        once = iter(self.chunks)
        if once is self.chunks:  # an iterator, not something that can be iterated over again
            if self._used:
                raise ValueError(
                    "the iterator given to streams.open was used up. For several passes, or to go on after an error, "
                    "give a list or a function that returns a fresh iterator."
                )
            self._used = True
        return once

    def _cut(self, chunks: Iterator[Any], start: int) -> Iterator[tuple[int, Chunk]]:
        """Chunks of exactly `batch_rows` rows, the last one perhaps fewer, with the number of their first row."""
        held: list[Chunk] = []
        size = 0
        for number, one in enumerate(chunks):
            chunk = self._chunk(one, number)
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

    def _chunk(self, one: Any, number: int) -> Chunk:
        where = f"chunk {number} of the stream"
        if hasattr(one, "schema") and hasattr(one, "num_rows"):  # an Arrow record batch or table
            if self._layout is None:
                self._layout = layout_of(
                    one.schema, lambda n: len(one.column(n)[0]), where, self.label, self.features, self.drop
                )
            if hasattr(one, "combine_chunks"):
                parts = [to_chunk(part, self._layout, where) for part in one.to_batches()]
                return Chunk.join(parts) if parts else to_chunk(_no_rows(one), self._layout, where)
            return to_chunk(one, self._layout, where)
        if not (isinstance(one, tuple) and len(one) == 2):
            raise ValueError(f"{where}: a pair (X, y) or an Arrow record batch was expected; got {type(one).__name__}.")
        X = np.asarray(one[0])
        if X.ndim != 2 or X.dtype.kind not in "fiub":
            raise ValueError(f"{where}: X must be numbers of shape (rows, features); got {X.dtype} of {X.shape}.")
        X = X.astype(np.float32 if X.dtype in (np.float16, np.float32) else np.float64, copy=False)
        y, no_label = _given(one[1], where)
        if len(y) != len(X):
            raise ValueError(f"{where}: X has {len(X)} rows but y has {len(y)} labels.")
        return Chunk(X, y, no_label)


def _place(start: int, row: int) -> Place:
    return Place("the stream", start + row)


def _given(y: Any, where: str) -> tuple[Any, Any]:
    """Labels as given and which are missing."""
    labels = np.asarray(y)
    if labels.dtype.kind == "f":
        missing = np.isnan(labels)
        return np.where(missing, 0, labels), missing
    if labels.dtype.kind == "O":
        missing = np.array([one is None or one != one for one in labels])
        if missing.any():
            filler = labels[~missing][0] if (~missing).any() else 0
            labels = labels.copy()
            labels[missing] = filler
        return labels, missing
    return as_labels(labels, where), np.zeros(len(labels), dtype=bool)


def _no_rows(table: Any) -> Any:
    from pyarrow import RecordBatch

    return RecordBatch.from_arrays([c.combine_chunks() for c in table.columns], schema=table.schema)
