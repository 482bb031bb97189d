"""Labelled rows as they come from a stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Batch", "Chunk", "Place", "checked"]

Array = NDArray[np.floating]


@dataclass(frozen=True)
class Place:
    """Where a row stands, for messages."""

    source: str
    row: int

    def __str__(self) -> str:
        return f"{self.source}, data row {self.row + 1:,}"


@dataclass(frozen=True)
class Chunk:
    """Rows as a reader gives them: a missing number is NaN, a missing label is marked."""

    X: Array
    y: NDArray[Any]
    no_label: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, part: slice) -> Chunk:
        return Chunk(self.X[part], self.y[part], self.no_label[part])

    @classmethod
    def join(cls, parts: list[Chunk]) -> Chunk:
        """One chunk from several."""
        if len(parts) == 1:
            return parts[0]
        X = np.concatenate([one.X for one in parts])
        return cls(X, _joined([one.y for one in parts]), np.concatenate([one.no_label for one in parts]))


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Labels end to end; numbers and text together stay what they are."""
    if len({one.dtype.kind in "USO" for one in parts}) > 1:
        parts = [one.astype(object) for one in parts]
    return np.concatenate(parts)


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
        Which of the rows of the stream these are; the others were dropped.
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
        """Rows that were left out."""
        return len(self.kept) - len(self.X)


def checked(
    chunk: Chunk, missing: str, place: Callable[[int], Place], names: list[str] | None, label: str | None
) -> Batch:
    """The rows that are whole; one that is not is an error, or dropped.

    Parameters
    ----------
    chunk : Chunk
        Rows as read.
    missing : {"error", "drop"}
        What to do with a row that lacks a number or a label.
    place : callable
        Where a row of the chunk stands.
    names : list of str or None
        Of the features, for messages.
    label : str or None
        Name of the label column, for messages.
    """
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
            column = int(np.argmin(np.isfinite(chunk.X[row])))
            name = repr(names[column]) if names else f"number {column + 1}"
            value = chunk.X[row, column]
            what = f"feature {name} has {'no value' if np.isnan(value) else f'an infinite value ({value})'}"
        else:
            what = f"there is no label{f' in {label!r}' if label else ''}"
        raise ValueError(f"{place(row)}: {what}. Mend the row, or have such rows dropped and counted (missing='drop').")
    return Batch(chunk.X[kept], chunk.y[kept], kept, place(0))
