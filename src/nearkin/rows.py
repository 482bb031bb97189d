"""Labelled rows as learners and triplet sources see them: scaled, dense where they are read, sparse where they lie."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis
from sklearn.utils.validation import validate_data

from nearkin.arrays import Array, Index, Mask
from nearkin.errors import InputError, Row
from nearkin.stored import ArrayOf, Flag, Maybe, Part, stored

__all__ = ["LARGEST", "LateColumns", "Rows", "Scaling", "check_finite", "check_range", "check_rows"]

#: Largest scaled feature for which every product of a step stays finite.
LARGEST = {np.dtype(np.float32): 1e9, np.dtype(np.float64): 1e50}

#: Most bytes that one dense block of a sparse matrix may take.
_BLOCK_BYTES = 1 << 24

#: Numbers in double precision from which moments are taken at once.
_MOMENT_NUMBERS = 1 << 20

#: Sparse matrices up to this many numbers have their moments taken as if they were dense, to the same bits.
_AS_IF_DENSE = 1 << 24

#: Rows from the first in which a late column varies, until its scale is learned: fewer could be far too near to each
#: other by chance.
_LATE_ROWS = 8


def check_rows(estimator: Any, X: Any, *, dtype: Any, reset: bool) -> Any:
    """Finite numbers as a dense array or CSR matrix, by scikit-learn's rules; every message names the estimator."""
    if _is_plain(X, dtype) and not hasattr(estimator, "feature_names_in_"):
        if reset:
            estimator.n_features_in_ = X.shape[1]
        if estimator.n_features_in_ == X.shape[1]:
            return X
    kinds = [] if hasattr(X, "iloc") else [str(one) for one in getattr(X, "dtypes", ())]
    if kinds and set(kinds) == {"Float32"} and isinstance(dtype, list):
        dtype = np.float32  # a polars frame, which would be widened
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            checked = validate_data(
                estimator, X, accept_sparse="csr", dtype=dtype, reset=reset, ensure_all_finite=False
            )  # fmt: skip
    except ValueError as error:
        is_named = type(estimator).__name__ in str(error)
        raise InputError(str(error), owner=None if is_named else estimator) from error
    check_finite(checked, estimator, getattr(X, "columns", None))
    return checked


def check_finite(X: Any, owner: object | None = None, names: Sequence[Any] | None = None) -> None:
    """Refuse rows, dense or CSR, that lack a number, and name the first place; ``names`` are those of the columns.

    >>> check_finite(np.array([[0.0, 1.0], [2.0, np.nan]]), "RobustODML")
    Traceback (most recent call last):
    nearkin.errors.InputError: RobustODML: row 1 holds NaN in column 1; fill the gaps, or drop such rows or columns.
    """
    bad = ~np.isfinite(X.data if sparse.issparse(X) else X)
    if not bad.any():
        return
    at = int(bad.argmax())
    if sparse.issparse(X):
        row, column, value = int(np.searchsorted(X.indptr, at, side="right")) - 1, int(X.indices[at]), X.data[at]
    else:
        row, column = divmod(at, X.shape[1])
        value = X[row, column]
    what = "NaN" if np.isnan(value) else f"infinity, or a number too large for {X.dtype},"
    name = column if names is None else repr(str(names[column]))
    raise InputError(
        f"{{row}} holds {what} in column {name}; fill the gaps, or drop such rows or columns.",
        owner=owner,
        row=Row(row),
    )


def _is_plain(X: Any, dtype: Any) -> bool:
    """Whether scikit-learn would find nothing to do or to say; asking it costs more than a small batch."""
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.size > 0
        and X.dtype in (dtype if isinstance(dtype, list) else (dtype,))
        and bool(np.isfinite(X).all())
    )


@stored(
    shift=Maybe(ArrayOf("d", dtype="T")),
    factor=Maybe(ArrayOf("d", dtype="T")),
    unit_rows=Flag(),
    late=Maybe(Part("LateColumns")),
)
@dataclass(frozen=True)
class Scaling:
    """Map from raw features to the scale on which the margin 1 means something: ``(x - shift) * factor``.

    Parameters
    ----------
    shift, factor : ndarray of shape (n_features,) or None
        None leaves the numbers as they come.
    unit_rows : bool
        Whether every row is then divided by its length (a zero row stays zero).
    late : LateColumns or None
        Columns that were constant in the first batch, which get a factor when they vary; see `watch`.

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
    late: LateColumns | None = None

    def check_stored(self) -> None:
        """Late columns are columns."""
        if self.late is not None and self.factor is not None and not (self.late.columns < len(self.factor)).all():
            raise ValueError(
                f"late columns {self.late.columns[-5:].tolist()} are beyond the {len(self.factor)} columns"
            )

    @classmethod
    def learn(cls, X: Array | sparse.csr_array, how: str | None) -> Scaling:
        """Scaling by the first batch.

        "pairs": every feature to unit variance, then all by one number so that the mean squared distance between two
        rows is 1. "unit": every feature to zero mean and unit variance, then every row to length 1. None: as it is.
        """
        if how is None:
            low, high = (
                one.toarray().ravel() if sparse.issparse(one) else one for one in (X.min(axis=0), X.max(axis=0))
            )
            return cls(late=LateColumns.begin(np.flatnonzero(low == high), low, 1.0))
        mean, std = _moments(X)
        live, dtype = std > 0, X.dtype
        factor = np.where(live, 1.0 / np.where(live, std, 1.0), 0.0)
        if how == "pairs":
            factor /= np.sqrt(2.0 * max(1, int(np.count_nonzero(live))))
        shift, factor = mean.astype(dtype), _representable(factor, dtype)
        unit = 1.0 if how == "unit" else (2.0 * np.count_nonzero(factor)) ** -0.5 if factor.any() else 0.0
        late = LateColumns.begin(np.flatnonzero(factor == 0), shift, unit)
        return cls(shift, factor, how == "unit", late)

    def watch(self, X: Array | sparse.csr_array) -> tuple[Scaling, Index]:
        """Look for late columns in the next batch; return the scaling from now on, and the columns that wake in it.

        A column wakes with the batch that holds, or follows, the first rows in which it varies. Rows seen before had
        the shift in this column, which stays at zero, so that what was learned from them stays true.
        """
        none = np.empty(0, np.int64)
        if self.late is None or self.late.is_awake.all():
            return self, none
        late = self.late.count(X)
        late, wakes = late.wake(X.dtype)
        woken = late.columns[wakes]
        factor = self.factor
        if factor is not None and len(woken):
            factor = factor.copy()
            factor[woken] = late.factors[wakes]
        return replace(self, factor=factor, late=late), woken

    def merged(self, shards: Sequence[Scaling]) -> Scaling:
        """Scaling of shards of the rows, all of which began with this one: what they saw of late columns, together."""
        if self.late is None or all(one.late is self.late for one in shards):
            return self
        late = self.late.merged([one.late for one in shards if one.late is not None])
        factor = self.factor
        if factor is not None:
            factor = factor.copy()
            factor[late.columns[late.is_awake]] = late.factors[late.is_awake]
        return replace(self, factor=factor, late=late)

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


@stored(
    columns=ArrayOf("k", of="codes", low=0),
    value=ArrayOf("k"),
    group=ArrayOf("k", of="codes"),
    unit=ArrayOf("k", low=0.0),
    n_rows=ArrayOf("k", of="codes", low=0),
    root=ArrayOf("k", low=0.0, is_finite=False),
    is_awake=ArrayOf("k", of="flags"),
)
@dataclass(frozen=True)
class LateColumns:
    """Columns that were constant in the first batch, and what was seen of them since they first varied.

    Examples
    --------
    >>> scaling = Scaling.learn(np.array([[0.0, 5.0], [2.0, 5.0]]), "unit")
    >>> later, woken = scaling.watch(np.array([[1.0, 4.0], [1.0, 6.0]] * 4))
    >>> scaling.factor.tolist(), later.factor.tolist(), woken.tolist()
    ([1.0, 0.0], [1.0, 1.0], [1])
    """

    columns: Index
    value: Array
    #: Columns of one group share a unit, what one standard deviation becomes; 0 while nothing varies in the group.
    group: Index
    unit: Array
    #: Rows since the column first varied, and the root of the sum of their squared deviations from its value.
    n_rows: Index
    root: Array
    is_awake: Mask

    @classmethod
    def begin(cls, columns: Index, shift: Array, unit: float) -> LateColumns | None:
        """Watch columns, if there are any."""
        n = len(columns)
        if not n:
            return None
        zeros, none = np.zeros(n, np.int64), np.zeros(n, bool)
        return cls(columns, shift[columns], zeros, np.full(n, unit), zeros, np.zeros(n), none)

    def regroup(self, columns: Index, group: int, unit: float) -> LateColumns:
        """Make some columns a group of their own."""
        inside = np.isin(self.columns, columns)
        return replace(self, group=np.where(inside, group, self.group), unit=np.where(inside, unit, self.unit))

    @property
    def factors(self) -> Array:
        """Unit over the root mean square of the deviations."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return self.unit * np.sqrt(self.n_rows) / self.root

    def count(self, X: Any) -> LateColumns:
        """Take in what a batch shows of the columns that sleep."""
        n_rows, root = self.n_rows.copy(), self.root.copy()
        sleeping = np.flatnonzero(~self.is_awake)
        step = max(1, _MOMENT_NUMBERS // X.shape[0])
        if sparse.issparse(X):
            seen = np.unique(X.indices)
            # An absent entry is zero, which is what most sleeping columns hold.
            there = np.isin(self.columns, seen) | (self.value != 0) | (n_rows > 0)
            sleeping = np.flatnonzero(~self.is_awake & there)
        for start in range(0, len(sleeping), step):
            at = sleeping[start : start + step]
            block = X[:, self.columns[at]]
            dense = np.asarray(block.toarray() if sparse.issparse(block) else block, dtype=np.float64)
            with np.errstate(over="ignore", invalid="ignore"):
                gap = np.abs(dense - self.value[at])
            limit = np.finfo(X.dtype)
            moved = gap > np.maximum(8 * limit.eps * np.abs(self.value[at].astype(np.float64)), 1.0 / limit.max)
            first = np.where(n_rows[at] > 0, 0, moved.argmax(axis=0))
            n_rows[at] += np.where(moved.any(axis=0) | (n_rows[at] > 0), len(gap) - first, 0)
            largest = gap.max(axis=0)
            safe = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)
            root[at] = np.hypot(root[at], safe * np.sqrt(((gap / safe) ** 2).sum(axis=0)))
        return replace(self, n_rows=n_rows, root=root)

    def wake(self, dtype: np.dtype) -> tuple[LateColumns, Mask]:
        """Wake the columns of which enough was seen; return which these are."""
        ready = ~self.is_awake & (self.n_rows >= _LATE_ROWS) & np.isfinite(self.root)
        unit = self.unit.copy()
        for group in np.unique(self.group[ready & (unit == 0.0)]):
            inside = self.group == group
            unit[inside] = (2.0 * np.count_nonzero(ready & inside)) ** -0.5
        made = replace(self, unit=unit)
        wakes = ready & (made.factors <= np.finfo(dtype).max)
        return replace(made, is_awake=self.is_awake | wakes), wakes

    def merged(self, shards: Sequence[LateColumns]) -> LateColumns:
        """What all shards have seen since they began with this."""
        n_rows, root = self.n_rows.copy(), self.root.copy()
        unit, is_awake = self.unit, self.is_awake.copy()
        for one in shards:
            n_rows += one.n_rows - self.n_rows
            with np.errstate(invalid="ignore"):
                share = np.sqrt(np.maximum(one.root - self.root, 0.0)) * np.sqrt(one.root + self.root)
            root = np.hypot(root, share)
            unit = np.where(unit > 0.0, unit, one.unit)
            is_awake |= one.is_awake
        return replace(self, unit=unit, n_rows=n_rows, root=root, is_awake=is_awake)


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
    is_sparse = sparse.issparse(X)
    if is_sparse and X.shape[0] * X.shape[1] > _AS_IF_DENSE:
        largest = abs(X).max(axis=0).toarray().ravel().astype(np.float64)
        safe = np.where(largest > 0, largest, 1.0)
        scaled = X.astype(np.float64)
        scaled.data /= safe[scaled.indices]
        mean, variance = mean_variance_axis(scaled, axis=0)
    else:
        X = X.tocsc() if is_sparse else X
        safe, mean, variance = np.empty((3, X.shape[1]))
        step = max(1, _MOMENT_NUMBERS // X.shape[0])
        for start in range(0, len(safe), step):  # all columns at once would be a second, larger X
            part = slice(start, start + step)
            block = X[:, part].toarray(order="C") if is_sparse else X[:, part]
            largest = np.maximum(block.max(axis=0), -block.min(axis=0)).astype(np.float64)
            safe[part] = np.where(largest > 0, largest, 1.0)
            scaled = block / safe[part]
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

    Examples
    --------
    >>> rows = Rows(sparse.csr_array(np.eye(3)))
    >>> len(rows), rows.take(slice(0, 1)).tolist()
    (3, [[1.0, 0.0, 0.0]])
    """

    def __init__(self, X: Array | sparse.csr_array, scaling: Scaling | None = None):
        self.scaling = scaling if scaling is not None else Scaling()
        self.is_dense = not sparse.issparse(X)
        self._X = _plain(self.scaling.apply(X)) if self.is_dense else X
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
        return piece if self.is_dense else np.ascontiguousarray(self.scaling.apply(piece))

    def reordered(self, order: NDArray[np.integer]) -> Rows:
        """The same rows in another order."""
        out = copy.copy(self)
        out._X = np.take(self._X, order, axis=0) if self.is_dense else self._X[order]
        out.dense = out._X if self.is_dense else None
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
            value = f"{largest[bad[0]]:.3g}" if np.isfinite(largest[bad[0]]) else "more than can be represented"
            raise InputError(
                f"{{row}} holds a value of {value} after scaling; the largest that {np.dtype(rows.dtype).name} "
                f"arithmetic allows is {limit:g}. {hint}",
                owner=owner, row=Row(part.start + bad[0]),
            )  # fmt: skip
