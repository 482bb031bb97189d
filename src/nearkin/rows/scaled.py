"""Scaled rows, dense where they are read, sparse where they lie."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nearkin.arrays import Array
from nearkin.rows.scaling import Scaling

__all__ = ["Rows"]

#: Most bytes that one dense block of a sparse matrix may take.
_BLOCK_BYTES = 1 << 24


class Rows:
    """Scaled rows, read in dense pieces.

    A dense matrix is scaled once; a sparse one stays sparse, and every piece is scaled as it is read.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_samples, n_features)
        Validated rows.
    scaling : Scaling
        Applied to every row.
    early : CSR matrix of the shape of X or None
        What `Change` says of columns that sleep.

    Examples
    --------
    >>> rows = Rows(sparse.csr_array(np.eye(3)))
    >>> len(rows), rows.take(slice(0, 1)).tolist()
    (3, [[1.0, 0.0, 0.0]])
    """

    def __init__(
        self, X: Array | sparse.csr_array, scaling: Scaling | None = None, early: sparse.csr_array | None = None
    ):
        self.scaling = scaling if scaling is not None else Scaling()
        self.is_dense = not sparse.issparse(X)
        self._X = _plain(self.scaling.apply(X, early)) if self.is_dense else X
        self._early = None if self.is_dense else early
        self._place: Callable[[Array], Array] | None = None
        #: All rows, unless they are sparse: then `take` and `blocks` read them in pieces.
        self.dense: Any = self._X if self.is_dense else None
        self.n_features, self.dtype = int(self._X.shape[1]), self._X.dtype
        #: Rows that a dense piece may have.
        self.block_size = max(1, _BLOCK_BYTES // max(1, self.n_features * self.dtype.itemsize))

    def __len__(self) -> int:
        return int(self._X.shape[0])

    def take(self, which: slice | NDArray[np.integer]) -> Array:
        """Rows of a slice or index array, dense and scaled."""
        piece = self._X[which]
        if self.is_dense:
            return piece
        early = None if self._early is None else self._early[which]
        scaled = self.scaling.apply(piece, early)
        return np.ascontiguousarray(scaled if self._place is None else self._place(scaled))

    def placed(self, place: Callable[[Array], Array], n_features: int) -> Rows:
        """The same rows after a map to ``n_features`` features."""
        out = copy.copy(self)
        if self.is_dense:
            out._X = out.dense = _plain(place(self._X))
        else:
            out._place = place
        out.n_features = n_features
        return out

    def reordered(self, order: NDArray[np.integer]) -> Rows:
        """The same rows in another order."""
        out = copy.copy(self)
        out._X = np.take(self._X, order, axis=0) if self.is_dense else self._X[order]
        out.dense = out._X if self.is_dense else None
        out._early = None if self._early is None else self._early[order]
        return out

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Slices with their dense rows."""
        step = len(self) if self.is_dense else self.block_size
        for start in range(0, len(self), max(1, step)):
            part = slice(start, min(len(self), start + step))
            yield part, self.take(part)


def _plain(X: Array) -> Array:
    """C-ordered and writeable, so that compiled loops meet one kind of array; copied only if it is not."""
    X = np.ascontiguousarray(X)
    return X if X.flags.writeable else X.copy()
