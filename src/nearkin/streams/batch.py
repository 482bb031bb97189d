"""Labelled rows as they come from a stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array
from nearkin.errors import InputError, Option
from nearkin.tables import Chunk, find_gap

__all__ = ["Batch", "Place", "check_chunk"]


@dataclass(frozen=True)
class Place:
    """Where a row stands, for messages."""

    source: str
    row: int

    def __str__(self) -> str:
        return f"{self.source}, data row {self.row + 1:,}"


@dataclass(frozen=True)
class Batch:
    """Rows to learn from.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features, all finite.
    y : ndarray of shape (n_samples,)
        Labels, none missing.
    kept : ndarray of bool of shape (n_rows,)
        Which rows of the stream these are; the others were dropped.
    first : Place
        Where it begins.

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

    @property
    def n_rows(self) -> int:
        """Rows of the stream behind it."""
        return len(self.kept)

    @property
    def n_dropped(self) -> int:
        """Rows that were dropped."""
        return len(self.kept) - len(self.X)


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
        return Batch(chunk.X, chunk.y, kept, place(0))
    if missing == "error":
        row = int(np.argmin(kept))
        if not whole[row]:
            problem = find_gap(chunk.X[row : row + 1], names)[1]
        else:
            problem = f"column {label!r} holds no label" if label else "there is no label"
        raise InputError(
            f"{problem}. Fill the gap, or drop and count such rows ({{fix}}).",
            place=str(place(row)),
            fix=Option("missing", "drop"),
        )
    return Batch(chunk.X[kept], chunk.y[kept], kept, place(0))
