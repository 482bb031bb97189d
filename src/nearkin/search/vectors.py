"""Vectors as an index holds them (dense, finite, of one width), and the ids of their rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from nearkin.arrays import Array, Index
from nearkin.errors import InputError, Row

__all__ = ["IdTable", "as_ids", "as_vectors", "zero_rows"]


def as_vectors(X: ArrayLike, name: str, width: int | None = None, dtype: np.dtype | None = None) -> Array:
    """Return vectors as a finite array of shape (n, width); error messages call them ``name``.

    Without a ``dtype``, float32 stays, float16 becomes float32 and everything else float64.

    Examples
    --------
    >>> as_vectors([[1, 2]], "queries").dtype.name, as_vectors(np.ones((2, 3), np.float16), "items").dtype.name
    ('float64', 'float32')
    """
    found = _as_matrix(X, name)
    if width is not None and found.shape[1] != width:
        raise InputError(f"vectors have {found.shape[1]} features, but {width} are expected.", place=name)
    if not found.shape[1]:
        raise InputError(f"vectors have no features; got shape {found.shape}.", place=name)
    if dtype is None:
        dtype = np.dtype(np.float32 if found.dtype in (np.float16, np.float32) else np.float64)
    with np.errstate(over="ignore"):
        vectors = np.ascontiguousarray(found, dtype=dtype)
    if not np.isfinite(vectors).all():
        row, column = (int(one) for one in np.argwhere(~np.isfinite(vectors))[0])
        problem = f"{{row}} holds {vectors[row, column]} in column {column}; every number must be finite."
        raise InputError(problem, place=name, row=Row(row))
    return vectors


def _as_matrix(X: ArrayLike, name: str) -> NDArray[Any]:
    """Return numbers of two dimensions."""
    if sparse.issparse(X):
        raise InputError(f"vectors must be dense, as in an index; use {name}.toarray().", place=name)
    try:
        found = np.asarray(X)
    except ValueError:
        raise InputError("all vectors must have the same length.", place=name) from None
    if found.ndim != 2:
        hint = " For a single vector pass [vector]." if found.ndim == 1 else ""
        raise InputError(f"vectors must be the rows of a matrix; got shape {found.shape}.{hint}", place=name)
    if found.dtype.kind not in "fiub":
        raise InputError(f"vectors must be numbers; got dtype {found.dtype}.", place=name)
    return found


def zero_rows(X: Array) -> Index:
    """Return the numbers of the rows that are zero: they have no direction, and all their scores are 0.

    Examples
    --------
    >>> zero_rows(np.array([[1.0, 0.0], [0.0, 0.0]])).tolist()
    [1]
    """
    return np.flatnonzero(~X.any(axis=1))


class IdTable:
    """Ids (whole numbers or text, all different) in the order of the rows that they name.

    A number n stands for 0, 1, ..., n - 1; error messages call the rows ``name``.

    Examples
    --------
    >>> IdTable(["b", "a"], "items").find(["a", "x"]).tolist()
    [1, -1]
    """

    def __init__(self, ids: ArrayLike | int, name: str):
        self.ids = as_ids(np.arange(ids) if isinstance(ids, (int, np.integer)) else ids, name)
        self.name = name
        self._order = np.argsort(self.ids, kind="stable")
        self._sorted = self.ids[self._order]
        repeated = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
        if len(repeated):
            row = self._order[repeated[0] + 1]
            raise InputError(f"{{row}} repeats the id {self.ids[row].item()!r}.", place=name, row=Row(row))

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, wanted: ArrayLike) -> Index:
        """Return the rows of ids, -1 for an unknown one; numbers match the same numbers written as text."""
        wanted = as_ids(wanted, self.name)
        if not len(self) or not len(wanted):
            return np.full(len(wanted), -1, dtype=np.int64)
        if wanted.dtype.kind != self.ids.dtype.kind:
            if wanted.dtype.kind == "U":
                return IdTable(self.ids.astype(str), self.name).find(wanted)
            wanted = wanted.astype(str)
        at = np.minimum(np.searchsorted(self._sorted, wanted), len(self) - 1)
        return np.where(self._sorted[at] == wanted, self._order[at], -1).astype(np.int64)


def as_ids(ids: ArrayLike, name: str) -> NDArray[Any]:
    """Return ids as an array of int64 or of text."""
    found = np.asarray(ids)
    if found.ndim != 1:
        raise InputError(f"one id per row is needed; got shape {found.shape}.", place=name)
    if found.dtype.kind == "U":
        return found
    if found.dtype.kind == "O" and all(isinstance(one, str) for one in found.tolist()):
        return found.astype(str)
    if found.dtype.kind not in "iuf":
        raise InputError(f"ids must be whole numbers or text; got dtype {found.dtype}.", place=name)
    if found.dtype.kind == "f":
        fractional = ~(np.isfinite(found) & (found == np.floor(found)))
        if fractional.any():
            row = int(fractional.argmax())
            problem = f"ids must be whole numbers or text; {{row}} holds {found[row]}."
            raise InputError(problem, place=name, row=Row(row))
    return found.astype(np.int64)
