"""Labelled rows as learners and triplet sources see them: scaled, dense where they are read, sparse where they lie."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nearkin.arrays import Array
from nearkin.errors import InputError, Row
from nearkin.stored import ArrayOf, Flag, Maybe, stored

__all__ = ["LARGEST", "Rows", "Scaling", "check_range"]

#: Largest scaled feature for which every product of a step stays finite.
LARGEST = {np.dtype(np.float32): 1e9, np.dtype(np.float64): 1e50}

#: Most bytes that one dense block of a sparse matrix may take.
_BLOCK_BYTES = 1 << 24

#: Numbers in double precision from which moments are taken at once.
_MOMENT_NUMBERS = 1 << 20


@stored(shift=Maybe(ArrayOf("d", dtype="T")), factor=Maybe(ArrayOf("d", dtype="T")), unit_rows=Flag())
@dataclass(frozen=True)
class Scaling:
    """Map from raw features to the scale on which the margin 1 means something: ``(x - shift) * factor``.

    Parameters
    ----------
    shift, factor : ndarray of shape (n_features,) or None
        None leaves the numbers as they come.
    unit_rows : bool
        Whether every row is then divided by its length (a zero row stays zero).

    Examples
    --------
    >>> scaling = Scaling.learn(np.array([[0.0, 10.0], [2.0, 30.0]]), "pairs")
    >>> X = scaling.apply(np.array([[0.0, 10.0], [2.0, 30.0]]))
    >>> round(float(((X[0] - X[1]) ** 2).sum()), 6)   # the mean over all ordered pairs is 1
    2.0
    """

    shift: Array | None = None
    factor: Array | None = None
    unit_rows: bool = False

    @classmethod
    def learn(cls, X: Array | sparse.csr_array, how: str | None) -> Scaling:
        """Scaling of the first batch.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            First batch.
        how : {"pairs", "unit", None}
            "pairs": every feature to unit variance, then all by one number so that the mean squared distance between
            two rows is 1. "unit": every feature to zero mean and unit variance, then every row to length 1.
        """
        if how is None:
            return cls()
        mean, std = _moments(X)
        live = std > 0
        factor = np.where(live, 1.0 / np.where(live, std, 1.0), 0.0)
        if how == "pairs":
            factor /= np.sqrt(2.0 * max(1, int(np.count_nonzero(live))))
        dtype = X.dtype
        return cls(mean.astype(dtype), _representable(factor, dtype), unit_rows=how == "unit")

    def apply(self, X: Array | sparse.csr_array) -> Array:
        """Scaled rows as a dense array of the same dtype."""
        dense: Array = X.toarray() if sparse.issparse(X) else X  # type: ignore[union-attr]
        if self.shift is not None and self.factor is not None:
            with np.errstate(over="ignore", invalid="ignore"):  # what does not fit is refused by its owner
                dense = dense - self.shift
                dense *= self.factor
        if self.unit_rows:
            # Dividing by the largest entry first keeps the squares in range.
            largest = np.abs(dense).max(axis=1, keepdims=True)
            dense = dense / np.where(largest > 0, largest, 1)
            norm = np.sqrt((dense * dense).sum(axis=1, keepdims=True))
            dense /= np.where(norm > 0, norm, 1)
        return dense


def _plain(X: Array) -> Array:
    """C-ordered and writeable, so that compiled loops meet one kind of array; copied only if it is not."""
    X = np.ascontiguousarray(X)
    return X if X.flags.writeable else X.copy()


def _representable(values: Array, dtype: np.dtype) -> Array:
    """Cast without overflow: a factor too large for the dtype belongs to a column that is constant in it."""
    limit = np.finfo(dtype).max
    return np.where(values > limit, 0.0, values).astype(dtype)


def _moments(X: Any) -> tuple[Array, Array]:
    """Mean and standard deviation of every column in double precision, for any magnitude a double can hold."""
    if sparse.issparse(X):
        from sklearn.utils.sparsefuncs import mean_variance_axis

        largest = abs(X).max(axis=0).toarray().ravel().astype(np.float64)
        safe = np.where(largest > 0, largest, 1.0)
        scaled = X.astype(np.float64)
        scaled.data /= safe[scaled.indices]
        mean, variance = mean_variance_axis(scaled, axis=0)
    else:
        largest = np.maximum(X.max(axis=0), -X.min(axis=0)).astype(np.float64)
        safe = np.where(largest > 0, largest, 1.0)
        mean, variance = np.empty_like(safe), np.empty_like(safe)
        step = max(1, _MOMENT_NUMBERS // len(X))
        for start in range(0, len(safe), step):  # all columns at once would be a second, larger X
            part = slice(start, start + step)
            scaled = X[:, part] / safe[part]
            mean[part] = scaled.mean(axis=0)
            scaled -= mean[part]
            scaled *= scaled
            variance[part] = scaled.mean(axis=0)
    std = np.sqrt(variance)
    # A column that is constant up to rounding would be blown up to pure rounding noise.
    noise = 8 * np.finfo(X.dtype).eps * (np.abs(mean) + 1e-300)
    return mean * safe, np.where(std > noise, std, 0.0) * safe


class Rows:
    """Scaled rows, read in dense pieces.

    A dense matrix is scaled once; a sparse one stays sparse, and every piece is scaled as it is read.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_samples, n_features)
        Validated rows.
    scaling : Scaling
        Applied to every row.
    """

    def __init__(self, X: Array | sparse.csr_array, scaling: Scaling | None = None):
        self.scaling = scaling if scaling is not None else Scaling()
        self.is_dense = not sparse.issparse(X)
        self._X = _plain(self.scaling.apply(X)) if self.is_dense else X
        self.n_features, self.dtype = int(self._X.shape[1]), self._X.dtype

    def __len__(self) -> int:
        return int(self._X.shape[0])

    @property
    def dense(self) -> Array:
        """All rows; only for rows that are dense already."""
        if not self.is_dense:
            raise TypeError("sparse rows are read in pieces: use take() or blocks().")
        return self._X

    @property
    def block_size(self) -> int:
        """Rows that a dense piece may have."""
        return max(1, _BLOCK_BYTES // max(1, self.n_features * self.dtype.itemsize))

    def take(self, which: slice | NDArray[np.integer]) -> Array:
        """Rows of a slice or index array, dense and scaled."""
        piece = self._X[which]
        return piece if self.is_dense else np.ascontiguousarray(self.scaling.apply(piece))

    def reordered(self, order: NDArray[np.integer]) -> Rows:
        """The same rows in another order."""
        out = copy.copy(self)
        out._X = np.take(self._X, order, axis=0) if self.is_dense else self._X[order]
        return out

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Slices with their dense rows."""
        step = len(self) if self.is_dense else self.block_size
        for start in range(0, len(self), max(1, step)):
            part = slice(start, min(len(self), start + step))
            yield part, self.take(part)


def check_range(rows: Rows, owner: object, hint: str) -> None:
    """Refuse scaled rows that are too large to compute with."""
    limit = LARGEST[np.dtype(rows.dtype)]
    for part, block in rows.blocks():
        if -limit <= block.min(initial=0.0) and block.max(initial=0.0) <= limit:
            continue
        largest = np.abs(block).max(axis=1, initial=0.0)
        bad = np.flatnonzero(~(largest <= limit))
        if len(bad):
            raise InputError(
                f"{{row}} holds a value of {largest[bad[0]]:.3g} after scaling; the largest that "
                f"{np.dtype(rows.dtype).name} arithmetic allows is {limit:g}. {hint}",
                owner=owner, row=Row(part.start + bad[0]),
            )  # fmt: skip
