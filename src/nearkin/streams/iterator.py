"""Batches of chunks that the caller makes: pairs (X, y) or Arrow record batches."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from nearkin.errors import InputError
from nearkin.labels import as_labels
from nearkin.streams.batch import Batch, Place, check_chunk
from nearkin.tables import ArrowTable, Chunk, Layout, layout_of

__all__ = ["IteratorStream"]


class IteratorStream:
    """Batches of `batch_rows` rows from chunks of any size; a function gives fresh chunks for every pass."""

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
        """Not known."""
        return None

    def batches(self, epoch: int, first: int = 0) -> Iterator[Batch]:
        """Yield the batches of a pass; those before ``first`` are skipped."""
        skipped = first if self._can_begin_anywhere else 0
        chunks = self._fresh(skipped * self.batch_rows)
        for number, (start, chunk) in enumerate(self._cut(chunks, skipped * self.batch_rows), skipped):
            if number >= first:
                yield check_chunk(chunk, self.missing, partial(_place, start), self.names, self.label)

    def identity(self) -> dict[str, Any]:
        """Return what must be the same for a checkpoint to go on; that the chunks are the same is up to the caller."""
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
                    one.schema, where, lambda name: len(one.column(name)[0]), self.label, self.features, self.drop
                )
            return self._layout.chunk(ArrowTable(where, one.schema.names, one.num_rows, one.column))
        if not (isinstance(one, tuple) and len(one) == 2):
            raise InputError(f"{where}: a pair (X, y) or an Arrow record batch was expected; got {type(one).__name__}.")
        X = np.asarray(one[0])
        if X.ndim != 2 or X.dtype.kind not in "fiub":
            raise InputError(f"{where}: X must be numbers of shape (rows, features); got {X.dtype} of {X.shape}.")
        X = X.astype(np.float32 if X.dtype in (np.float16, np.float32) else np.float64, copy=False)
        y, no_label = _labels(one[1], where)
        if len(y) != len(X):
            raise InputError(f"{where}: X has {len(X)} rows but y has {len(y)} labels.")
        return Chunk(X, y, no_label)


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
