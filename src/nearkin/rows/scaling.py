"""The scale on which the margin 1 means something: learned from the first batch, then the same for all rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from nearkin.arrays import Array, Index
from nearkin.rows.checks import LARGEST
from nearkin.rows.late import MOMENT_NUMBERS, STRETCH, LateColumns
from nearkin.stored import ArrayOf, Flag, Maybe, Part, stored

__all__ = ["Change", "Scaling", "without_noise"]

#: Standard deviations from the mean beyond which a number is far, and the most that it counts where it is tamed.
_FAR = 2.0
_FARTHEST = 10.0

#: Sparse matrices up to this many numbers have their moments taken as if they were dense, to the same bits.
_AS_IF_DENSE = 1 << 24


@stored(
    shift=Maybe(ArrayOf("d", dtype="T")),
    factor=Maybe(ArrayOf("d", dtype="T")),
    unit_rows=Flag(),
    late=Maybe(Part("LateColumns")),
    is_tame=Flag(),
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
        Columns that were constant in the first batch, which get a factor when they vary; see `follow`.
    is_tame : bool
        Whether numbers more than two standard deviations from the mean grow by the logarithm only, so that a few values
        of a heavy-tailed column do not decide distances; none counts for more than ten.

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
    is_tame: bool = False

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
            constant, value = _find_constant(X)
            return cls(late=LateColumns.begin(constant, value, 1.0))
        return cls.of_moments(*_moments(X), X.dtype, how)

    @classmethod
    def of_moments(cls, mean: Array, std: Array, dtype: Any, how: str) -> Scaling:
        """Scaling by the moments of all columns, for rows of a dtype; see `learn`."""
        live = std > 0
        factor = np.where(live, 1.0 / np.where(live, std, 1.0), 0.0)
        if how == "pairs":
            factor /= np.sqrt(2.0 * max(1, int(np.count_nonzero(live))))
        shift, factor = mean.astype(dtype), _representable(factor, dtype)
        unit = 1.0 if how == "unit" else (2.0 * np.count_nonzero(factor)) ** -0.5 if factor.any() else 0.0
        late = LateColumns.begin(np.flatnonzero(factor == 0), shift, unit)
        return cls(shift, factor, how == "unit", late)

    def follow(self, X: Array | sparse.csr_array, n_seen: int | None) -> Iterator[Change]:
        """Look for late columns in the next rows of a stream; say after which of them the scaling changes.

        Columns wake where the rows of the stream, ``n_seen`` of which came before, fill a stretch. The last change is
        the scaling after the last row. Where rows are not numbered (None), a column may wake there as well. Rows seen
        before had the shift in this column, which stays at zero, so that what was learned from them stays true.
        """
        scaling, late, n, at = self, self.late, int(X.shape[0]), 0
        among = np.empty(0, np.int64) if late is None else late.find_moving(X)
        early: list[Any] = []
        while late is not None and len(among) and at < n:
            stop = min(n, at + STRETCH - ((n_seen or 0) + at) % STRETCH)
            late = late.take(X[at:stop], among)
            if self.factor is not None:
                early.append(late.place_early(stop - at, X.shape[1], X.dtype))
            at = stop
            if ((n_seen or 0) + at) % STRETCH and (n_seen is not None or at < n):
                continue
            late, wakes, sample = late.wake(X.dtype)
            if wakes.any():
                factor = scaling.factor
                if factor is not None:
                    factor = factor.copy()
                    factor[late.columns[wakes]] = late.factors[wakes]
                    sample = sample * late.factors[wakes]
                scaling = replace(self, factor=factor, late=late)
                among = among[~late.is_awake[among]]
                yield Change(at, scaling, _stack(early), late.columns[wakes], sample)
                early = []
        if early and at < n:
            early.append(sparse.csr_array((n - at, X.shape[1]), dtype=X.dtype))
        yield Change(n, replace(scaling, late=late), _stack(early))

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

    def apply(self, X: Array | sparse.csr_array, early: sparse.csr_array | None = None) -> Array:
        """Scaled rows as a dense array of the same dtype; ``early`` is added where a factor is not known yet."""
        dense: Array = X.toarray() if sparse.issparse(X) else X  # type: ignore[union-attr]
        if self.shift is not None and self.factor is not None:
            with np.errstate(over="ignore", invalid="ignore"):  # what does not fit is refused by its owner
                dense = dense - self.shift
                dense *= self.factor
                if self.is_tame:
                    _tame(dense, (2.0 * max(1, int(np.count_nonzero(self.factor)))) ** -0.5)
        if early is not None:
            places = early.tocoo()
            dense[places.row, places.col] += places.data
        if self.unit_rows:
            # Dividing by the largest entry first keeps the squares in range.
            largest = np.abs(dense).max(axis=1, keepdims=True)
            dense = dense / np.where(largest > 0, largest, 1)
            norm = np.sqrt((dense * dense).sum(axis=1, keepdims=True))
            dense /= np.where(norm > 0, norm, 1)
        return dense


class Change(NamedTuple):
    """What a scaling is after the first ``stop`` of some rows; the columns that wake there, and their latest rows."""

    stop: int
    scaling: Scaling
    #: What the rows since the last change have in columns that sleep, on the scale that was known of them then.
    early: sparse.csr_array | None = None
    woken: Index = np.empty(0, np.int64)
    #: Of shape (n, len(woken)): how far they were from the constants, on the new scale.
    sample: Array = np.empty((0, 0))


def _stack(parts: list[Any]) -> sparse.csr_array | None:
    """Sparse rows one below the other; None if there is nothing in them."""
    if not any(one.nnz for one in parts):
        return None
    return parts[0] if len(parts) == 1 else sparse.vstack(parts, format="csr")


def _tame(scaled: Array, unit: float) -> None:
    """Let numbers grow by the logarithm from two standard deviations, of ``unit`` each, to ten, in place."""
    size = np.abs(scaled)
    # What is too large to compute with stays as it is, and is refused by its owner.
    far = np.nonzero((size > _FAR * unit) & (size <= LARGEST[scaled.dtype]))
    tame = np.minimum(_FAR + np.log1p(size[far] / unit - _FAR), _FARTHEST)
    scaled[far] = np.copysign(unit * tame, scaled[far])


def _find_constant(X: Array | sparse.csr_array) -> tuple[Index, Array]:
    """Columns that hold a single number, and the smallest number of each column, right where it is the only one."""
    if sparse.issparse(X):
        low, high = (one.toarray().ravel() for one in (X.min(axis=0), X.max(axis=0)))
        return np.flatnonzero(low == high), low
    first: Array = X[0]
    same = np.flatnonzero((X[:STRETCH] == first).all(axis=0))  # most columns vary at once
    return same[(X[:, same] == first[same]).all(axis=0)] if len(same) else same, first


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
        size = max(1, MOMENT_NUMBERS // max(1, X.shape[1]))  # all rows at once would be a second, larger X
        parts = [slice(start, start + size) for start in range(0, X.shape[0], size)]

        def blocks() -> Iterator[Array]:
            return (X[part].toarray() if is_sparse else X[part] for part in parts)

        largest = np.max([np.maximum(one.max(axis=0), -one.min(axis=0)) for one in blocks()], axis=0)
        safe = np.where(largest > 0, largest, 1.0).astype(np.float64)
        mean = np.sum([(one / safe).sum(axis=0) for one in blocks()], axis=0) / X.shape[0]
        variance = np.sum([np.square(one / safe - mean).sum(axis=0) for one in blocks()], axis=0) / X.shape[0]
    return mean * safe, without_noise(mean, np.sqrt(variance), X.dtype) * safe


def without_noise(mean: Array, std: Array, dtype: Any) -> Array:
    """Standard deviations, zero where a column is constant up to rounding, which would be blown up to pure noise."""
    return np.where(std > 8 * np.finfo(dtype).eps * (np.abs(mean) + 1e-300), std, 0.0)


def _representable(values: Array, dtype: np.dtype) -> Array:
    """Cast without overflow: a factor too large for the dtype belongs to a column that is constant in it."""
    limit = np.finfo(dtype).max
    return np.where(values > limit, 0.0, values).astype(dtype)
