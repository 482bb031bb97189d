"""Vectors as an index holds them: dense, finite, of one width; and ids as places in it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

__all__ = ["Places", "as_vectors", "zero_rows"]

Array = NDArray[np.floating]


def as_vectors(X: ArrayLike, name: str, width: int | None = None, dtype: np.dtype | None = None) -> Array:
    """Finite numbers of shape (n, width), float32 or float64; a message names the row that is not.

    Parameters
    ----------
    X : array-like of shape (n_vectors, n_features)
        Vectors, one per row.
    name : str
        What they are called in messages.
    width : int or None
        How many features they must have.
    dtype : dtype or None
        What to make of them; None keeps float32, widens float16 to it, and makes everything else float64.

    Examples
    --------
    >>> as_vectors([[1, 2]], "queries").dtype.name, as_vectors(np.ones((2, 3), np.float16), "items").dtype.name
    ('float64', 'float32')
    """
    if sparse.issparse(X):
        raise ValueError(f"{name}: sparse vectors came; an index holds dense ones. Use {name}.toarray().")
    try:
        found = np.asarray(X)
    except ValueError:
        raise ValueError(f"{name}: rows of different lengths came; every vector needs equally many numbers.") from None
    if found.ndim != 2:
        raise ValueError(
            f"{name}: one row per vector is needed, an array of two dimensions; got shape {found.shape}."
            + (" For a single vector pass [vector]." if found.ndim == 1 else "")
        )
    if found.dtype.kind not in "fiub":
        raise ValueError(f"{name}: vectors of numbers are needed; got dtype {found.dtype}.")
    if width is not None and found.shape[1] != width:
        raise ValueError(f"{name}: vectors have {found.shape[1]} features, but {width} are expected.")
    if not found.shape[1]:
        raise ValueError(f"{name}: vectors have no features; got shape {found.shape}.")
    if dtype is None:
        dtype = np.dtype(np.float32 if found.dtype in (np.float16, np.float32) else np.float64)
    with np.errstate(over="ignore"):
        made = np.ascontiguousarray(found, dtype=dtype)
    if not np.isfinite(made).all():
        row, column = (int(one) for one in np.argwhere(~np.isfinite(made))[0])
        raise ValueError(
            f"{name}: row {row} holds {made[row, column]} in column {column}; every number must be finite."
        )
    return made


def zero_rows(X: Array) -> NDArray[np.intp]:
    """Rows that are zero throughout: they have no direction, and every score with them is 0.

    Examples
    --------
    >>> zero_rows(np.array([[1.0, 0.0], [0.0, 0.0]])).tolist()
    [1]
    """
    return np.flatnonzero(~X.any(axis=1))


class Places:
    """Where every id is found; ids are whole numbers or text, each once.

    Parameters
    ----------
    ids : array-like of shape (n,)
        Ids in the order of the rows that they name.
    name : str
        What the rows are called in messages.

    Examples
    --------
    >>> places = Places(["b", "a"], "items")
    >>> places.of(["a", "x"]).tolist()
    [1, -1]
    """

    def __init__(self, ids: ArrayLike, name: str):
        self.ids = as_ids(ids, name)
        self.name = name
        self._order = np.argsort(self.ids, kind="stable")
        self._sorted = self.ids[self._order]
        again = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
        if len(again):
            twice = self._order[again[0] + 1]
            raise ValueError(f"{name}: row {twice} repeats the id {self.ids[twice].item()!r}; every id may stand once.")

    def __len__(self) -> int:
        return len(self.ids)

    def of(self, wanted: ArrayLike) -> NDArray[np.int64]:
        """Rows of ids; -1 where there is none."""
        asked = as_ids(wanted, self.name)
        if not len(self) or not len(asked):
            return np.full(len(asked), -1, dtype=np.int64)
        if asked.dtype.kind != self.ids.dtype.kind:
            if asked.dtype.kind == "U":
                return self._of_text(asked)
            asked = asked.astype(str)
        at = np.minimum(np.searchsorted(self._sorted, asked), len(self) - 1)
        return np.where(self._sorted[at] == asked, self._order[at], -1).astype(np.int64)

    def _of_text(self, asked: NDArray[Any]) -> NDArray[np.int64]:
        """Numbers written as text, as some files have them."""
        return Places(self.ids.astype(str), self.name).of(asked)


def as_ids(ids: ArrayLike, name: str) -> NDArray[Any]:
    """Ids as an array of int64 or of text."""
    found = np.asarray(ids)
    if found.ndim != 1:
        raise ValueError(f"{name}: ids must be one per row; got shape {found.shape}.")
    if found.dtype.kind in "iu":
        return found.astype(np.int64)
    if found.dtype.kind == "f":
        whole = np.isfinite(found) & (found == np.floor(found))
        if whole.all():
            return found.astype(np.int64)
        row = int((~whole).argmax())
        raise ValueError(f"{name}: ids must be whole numbers or text; row {row} holds {found[row]}.")
    if found.dtype.kind == "O" and all(isinstance(one, str) for one in found.tolist()):
        return found.astype(str)
    if found.dtype.kind == "U":
        return found
    raise ValueError(f"{name}: ids must be whole numbers or text; got dtype {found.dtype}.")
