"""Labelled rows as learners and triplet sources see them: scaled, dense where they are read, sparse where they lie."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis
from sklearn.utils.validation import validate_data

from nearkin.arrays import Array, Index, Mask
from nearkin.errors import InputError, Row
from nearkin.settings import OneOf, Real, check_argument
from nearkin.stored import ArrayOf, Flag, Maybe, Number, Part, Text, stored

__all__ = [
    "LARGEST",
    "Change",
    "LateColumns",
    "Moments",
    "MovingScale",
    "Rows",
    "Scaling",
    "check_finite",
    "check_range",
    "check_rows",
    "explain_rows",
    "is_plain",
]

#: Standard deviations from the mean beyond which a number is far, and the most that it counts where it is tamed.
_FAR = 2.0
_FARTHEST = 10.0

#: Largest scaled feature for which every product of a step stays finite.
LARGEST = {np.dtype(np.float32): 1e9, np.dtype(np.float64): 1e50}

#: Most bytes that one dense block of a sparse matrix may take.
_BLOCK_BYTES = 1 << 24

#: Numbers in double precision from which moments are taken at once.
_MOMENT_NUMBERS = 1 << 20

#: Sparse matrices up to this many numbers have their moments taken as if they were dense, to the same bits.
_AS_IF_DENSE = 1 << 24

#: Fewest rows, from the first in which a late column varies, from which its scale is learned: fewer could be far too
#: near to each other by chance.
_LATE_ROWS = 8

#: What other columns say of the scale of one that has just begun counts like that many rows, and changes it by at
#: most that much.
_AS_ROWS = 2
_AT_MOST = 4.0

#: Columns wake only where the number of rows of the stream is a multiple of this, so that chunks do not matter.
_STRETCH = 64


def check_rows(estimator: Any, X: Any, *, dtype: Any, reset: bool) -> Any:
    """Finite numbers as a dense array or CSR matrix, by scikit-learn's rules; every message names the estimator."""
    is_ready = is_plain(X, dtype) and (_are_below(X, np.inf) or bool(np.isfinite(X).all()))
    if is_ready and not hasattr(estimator, "feature_names_in_"):
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
    except (ValueError, np.exceptions.DTypePromotionError) as error:
        problem = explain_rows(X, error)
        is_named = type(estimator).__name__ in problem
        raise InputError(problem, owner=None if is_named else estimator) from error
    check_finite(checked, estimator, getattr(X, "columns", None))
    return checked


def explain_rows(X: Any, error: Exception) -> str:
    """Say why X is not a table of numbers; in scikit-learn's words where they are clear."""
    if found := _name_other_column(X):
        return found
    shape = np.shape(X) if hasattr(X, "__array__") else ()
    if len(shape) > 2:
        return f"X has shape {shape}; one row per example and one column per feature are needed: X.reshape(len(X), -1)."
    lines = str(error).splitlines() or [type(error).__name__]
    if lines[0].startswith("The feature names should match"):
        return str(error)  # and the names
    first, last = lines[0].removesuffix(" instead:"), lines[-1] if lines[-1].startswith("Reshape") else ""
    return f"{first}. {last}".strip() if len(lines) > 1 else first  # without the array itself


def _name_other_column(X: Any) -> str:
    """Say which column of a frame holds something else than numbers; nothing if there is none."""
    for name in getattr(X, "columns", ()):
        kind = str(getattr(X[name], "dtype", "")).lower()
        try:
            np.asarray(X[name], dtype=float)
            is_other = kind.startswith(("date", "time", "duration"))  # which numpy would read as numbers
        except (TypeError, ValueError):
            is_other = True
        if is_other:
            return f"column {str(name)!r} ({kind}) holds something else than numbers; encode it as numbers, or drop it."
    return ""


def check_finite(X: Any, owner: object | None = None, names: Sequence[Any] | None = None, first: int = 0) -> None:
    """Refuse rows, dense or CSR, that lack a number, and name the first place.

    ``names`` are those of the columns, and ``first`` is the number of the first row.

    >>> check_finite(np.array([[0.0, 1.0], [2.0, np.nan]]), "RobustODML")
    Traceback (most recent call last):
    nearkin.errors.InputError: RobustODML: row 1 holds NaN in column 1; fill the gaps, or drop such rows or columns.
    """
    if not sparse.issparse(X) and _are_below(X, np.inf):
        return
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
        row=Row(first + row),
    )


def is_plain(X: Any, dtype: Any) -> bool:
    """Whether scikit-learn would find nothing to do; asking it costs more than a small batch.

    At the numbers nobody has looked then: they may lack one.
    """
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.size > 0
        and X.dtype in (dtype if isinstance(dtype, list) else (dtype,))
    )


def _are_below(X: Array, limit: float) -> bool:
    """Whether all numbers are surely finite and below a limit, by the sum of their squares: a single pass."""
    if not X.flags.c_contiguous or X.dtype.kind != "f":
        return False
    flat = X.reshape(-1)
    return float(np.vdot(flat, flat)) < min(0.25 * limit**2, np.inf)


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
            stop = min(n, at + _STRETCH - ((n_seen or 0) + at) % _STRETCH)
            late = late.take(X[at:stop], among)
            if self.factor is not None:
                early.append(late.place_early(stop - at, X.shape[1], X.dtype))
            at = stop
            if ((n_seen or 0) + at) % _STRETCH and (n_seen is not None or at < n):
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


def _find_constant(X: Array | sparse.csr_array) -> tuple[Index, Array]:
    """Columns that hold a single number, and the smallest number of each column, right where it is the only one."""
    if sparse.issparse(X):
        low, high = (one.toarray().ravel() for one in (X.min(axis=0), X.max(axis=0)))
        return np.flatnonzero(low == high), low
    first: Array = X[0]
    same = np.flatnonzero((X[:_STRETCH] == first).all(axis=0))  # most columns vary at once
    return same[(X[:, same] == first[same]).all(axis=0)] if len(same) else same, first


@stored(half_life=Number(1.0), kind=Text("auto", "pairs", "unit"))
@dataclass(frozen=True)
class MovingScale:
    """Scale of a stream that changes, as the ``scale`` of a learner; with it centres and voters forget.

    Parameters
    ----------
    half_life : float
        Rows after which older ones count half, at least 100: for the spread of every feature, to which the scale is
        brought whenever the discriminant start is renewed (without a start the scale stays); for the centres of
        ``triplets="octg"``; and for the rows that a classifier holds to vote.
    kind : {"auto", "pairs", "unit"}, default="auto"
        As the ``scale`` of a learner.

    Examples
    --------
    >>> import nearkin
    >>> nearkin.RobustLODML(scale=nearkin.MovingScale(2000.0)).half_life
    2000.0
    """

    half_life: float
    kind: str = "auto"

    def __post_init__(self) -> None:
        check_argument("MovingScale", "half_life", self.half_life, Real(100.0, 1e12))
        check_argument("MovingScale", "kind", self.kind, OneOf(("auto", "pairs", "unit")))


#: How much a factor may change at once, and in all, either way.
_AT_ONCE, _IN_ALL = 4.0, 1e6


@stored(
    half_life=Number(1.0),
    unit=Number(0.0),
    first=ArrayOf("d", of="doubles", low=0.0),
    weight=Number(0.0),
    mean=ArrayOf("d", of="doubles"),
    variance=ArrayOf("d", of="doubles", low=0.0),
)
@dataclass(frozen=True)
class Moments:
    """Mean and variance of scaled rows in which older rows count for less, and what a standard deviation should be.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 2)) * [1.0, 3.0]
    >>> scaling = Scaling(np.zeros(2), np.ones(2))
    >>> scaling, ratio, _ = Moments.begin(scaling, 1.0, 500.0).plus(X).follow(scaling)
    >>> scaling.factor.round(1).tolist()
    [1.0, 0.3]
    """

    half_life: float
    unit: float
    first: Array  # factors at first; columns that had none are left alone
    weight: float
    mean: Array
    variance: Array

    @classmethod
    def begin(cls, scaling: Scaling, unit: float, half_life: float) -> Moments:
        """Return what is known before any row."""
        assert scaling.factor is not None
        first = scaling.factor.astype(np.float64)
        return cls(float(half_life), float(unit), first, 0.0, np.zeros(len(first)), np.zeros(len(first)))

    def plus(self, X: Array) -> Moments:
        """Take in the next rows; how they are cut into pieces matters up to rounding only."""
        n = len(X)
        decay = 2.0 ** (-1.0 / self.half_life)
        each = decay ** np.arange(n - 1, -1, -1.0)
        new, old = float(each.sum()), self.weight * decay**n
        weight = old + new
        # Deviations from the mean before stay small where the mean is large.
        gaps = X - self.mean
        step = each @ gaps / new
        mean = self.mean + new / weight * step
        square = each @ (gaps * gaps)
        variance = (old * self.variance + square) / weight - (mean - self.mean) ** 2
        return replace(self, weight=weight, mean=mean, variance=np.maximum(variance, 0.0))

    def merged(self, shards: Sequence[Moments]) -> Moments:
        """Return the mean of shards of the rows, all of which began with this one."""
        mean = np.mean([one.mean for one in shards], axis=0)
        square = np.mean([one.variance + one.mean**2 for one in shards], axis=0)
        weight = float(np.mean([one.weight for one in shards]))
        return replace(self, weight=weight, mean=mean, variance=np.maximum(square - mean**2, 0.0))

    def follow(self, scaling: Scaling) -> tuple[Scaling, Array, Moments]:
        """Return a scaling with the present spread, by how much each factor grows, and the moments on that scale."""
        assert scaling.factor is not None
        spread, factor = np.sqrt(self.variance), scaling.factor.astype(np.float64)
        live = (self.first > 0) & (spread > 0)
        ratio = np.where(live, self.unit / np.where(live, spread, 1.0), 1.0)
        ratio = np.clip(ratio, 1.0 / _AT_ONCE, _AT_ONCE)
        held = np.clip(factor * ratio, self.first / _IN_ALL, self.first * _IN_ALL)
        ratio = np.where(live, held / np.where(live, factor, 1.0), 1.0)
        made = replace(scaling, factor=(factor * ratio).astype(scaling.factor.dtype))
        return made, ratio, replace(self, mean=self.mean * ratio, variance=self.variance * ratio**2)


def _tame(scaled: Array, unit: float) -> None:
    """Let numbers grow by the logarithm from two standard deviations, of ``unit`` each, to ten, in place."""
    size = np.abs(scaled)
    # What is too large to compute with stays as it is, and is refused by its owner.
    far = np.nonzero((size > _FAR * unit) & (size <= LARGEST[scaled.dtype]))
    tame = np.minimum(_FAR + np.log1p(size[far] / unit - _FAR), _FARTHEST)
    scaled[far] = np.copysign(unit * tame, scaled[far])


class Change(NamedTuple):
    """What a scaling is after the first ``stop`` of some rows; the columns that wake there, and their latest rows."""

    stop: int
    scaling: Scaling
    #: What the rows since the last change have in columns that sleep, on the scale that was known of them then.
    early: sparse.csr_array | None = None
    woken: Index = np.empty(0, np.int64)
    #: Of shape (n, len(woken)): how far they were from the constants, on the new scale.
    sample: Array = np.empty((0, 0))


@stored(
    columns=ArrayOf("k", of="codes", low=0),
    value=ArrayOf("k"),
    group=ArrayOf("k", of="codes"),
    unit=ArrayOf("k", low=0.0),
    n_rows=ArrayOf("k", of="codes", low=0, high=2**53),
    root=ArrayOf("k", low=0.0, is_finite=False),
    is_awake=ArrayOf("k", of="flags"),
    moving=ArrayOf("m", of="codes", low=0, below="k"),
    recent=ArrayOf(None, "m", of="doubles", is_finite=False),
)
@dataclass(frozen=True)
class LateColumns:
    """Columns that were constant in the first batch, and what was seen of them since they first varied.

    Examples
    --------
    >>> scaling = Scaling.learn(np.array([[0.0, 5.0], [2.0, 5.0]]), "unit")
    >>> *_, change = scaling.follow(np.array([[1.0, 4.0], [1.0, 6.0]] * 40), 2)
    >>> scaling.factor.tolist(), change.scaling.factor.tolist()
    ([1.0, 0.0], [1.0, 1.0])
    """

    columns: Index
    value: Array
    #: Columns of one group share a unit, what one standard deviation becomes; 0 while nothing varies in the group.
    group: Index
    unit: Array
    #: Rows since the column first varied, and the root of the sum of their squared deviations from its value, up to the
    #: end of the last stretch.
    n_rows: Index
    root: Array
    is_awake: Mask
    #: Places of the columns that have varied and sleep, in order, and their deviations in the rows since.
    moving: Index
    recent: Array

    def check_stored(self) -> None:
        """Columns are told once; moving ones are in order, asleep, and all that were counted, of few rows."""
        if (np.diff(self.columns) <= 0).any():
            raise ValueError("late columns are told twice, or not in order")
        if len(self.recent) >= _STRETCH + _LATE_ROWS:
            raise ValueError(f"{len(self.recent)} rows of late columns wait to be counted")
        counted = np.flatnonzero(~self.is_awake & (self.n_rows > 0))
        if (np.diff(self.moving) <= 0).any() or self.is_awake[self.moving].any() or set(counted) - set(self.moving):
            raise ValueError("columns that have begun to vary do not agree with what was counted of them")

    @classmethod
    def begin(cls, columns: Index, shift: Array, unit: float) -> LateColumns | None:
        """Watch columns, if there are any."""
        n = len(columns)
        if not n:
            return None
        zeros, none = np.zeros(n, np.int64), np.zeros(n, bool)
        nothing = np.empty(0, np.int64), np.empty((0, 0))
        return cls(columns, shift[columns], zeros, np.full(n, unit), zeros, np.zeros(n), none, *nothing)

    def regroup(self, columns: Index, group: int, unit: float) -> LateColumns:
        """Make some columns a group of their own."""
        inside = np.isin(self.columns, columns)
        return replace(self, group=np.where(inside, group, self.group), unit=np.where(inside, unit, self.unit))

    @property
    def factors(self) -> Array:
        """Unit over the root mean square of the deviations."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return self.unit * np.sqrt(self.n_rows) / self.root

    def find_moving(self, X: Any) -> Index:
        """Places of the sleeping columns that have varied before, or do in these rows."""
        sleeps = ~self.is_awake
        if sparse.issparse(X):  # an absent entry is zero, which is what most sleeping columns hold
            sleeps &= np.isin(self.columns, np.unique(X.indices)) | (self.value != 0)
        places = np.flatnonzero(sleeps)
        step = max(1, _MOMENT_NUMBERS // X.shape[0])
        blocks = [places[start : start + step] for start in range(0, len(places), step)]
        found = [at[self._deviations(X, at)[1].any(axis=0)] for at in blocks]
        return np.union1d(self.moving, np.concatenate(found)) if found else self.moving

    def _deviations(self, X: Any, at: Index) -> tuple[Array, Mask]:
        """Deviations of some columns from their values, and whether each is more than rounding."""
        block = X[:, self.columns[at]]
        dense = np.asarray(block.toarray() if sparse.issparse(block) else block, dtype=np.float64)
        value, limit = self.value[at].astype(np.float64), np.finfo(X.dtype)
        with np.errstate(over="ignore"):
            gaps = dense - value
        return gaps, np.abs(gaps) > np.maximum(8 * limit.eps * np.abs(value), 1.0 / limit.max)

    def take(self, X: Any, among: Index) -> LateColumns:
        """Note what the next rows show of some sleeping columns, all that are moving among them."""
        gaps, moved = self._deviations(X, among)
        is_moving = np.isin(among, self.moving)
        first = np.where(is_moving, 0, np.where(moved.any(axis=0), moved.argmax(axis=0), len(gaps)))
        gaps[np.arange(len(gaps))[:, None] < first] = 0.0
        begun = first < len(gaps)
        if not begun.any():
            return self
        gaps = gaps[0 if is_moving.any() else first.min() :, begun]
        n_before = len(self.recent)
        recent = np.zeros((n_before + len(gaps), gaps.shape[1]))
        recent[:n_before, is_moving[begun]] = self.recent
        recent[n_before:] = gaps
        return replace(self, moving=among[begun], recent=recent)

    def place_early(self, n: int, n_features: int, dtype: np.dtype) -> sparse.csr_array:
        """The last n rows in the columns that are moving, each on the scale that it and the rows before it give.

        So no row can lie far from the constant, however small the first deviations were.
        """
        at, gaps = self.moving, self.recent
        if not len(gaps):
            return sparse.csr_array((n, n_features), dtype=dtype)
        begun = np.logical_or.accumulate((gaps != 0.0) | (self.n_rows[at] > 0), axis=0)
        n_rows = np.maximum(self.n_rows[at] + np.cumsum(begun, axis=0), 1)
        largest = max(np.abs(gaps).max(), self.root[at].max())
        safe = largest if np.isfinite(largest) else 1.0
        square = (self.root[at] / safe) ** 2 + np.cumsum((gaps / safe) ** 2, axis=0)
        mean = square / n_rows
        unit = np.broadcast_to(self.unit[at], gaps.shape).copy()
        typical = np.empty_like(mean)
        for group in np.unique(self.group[at]):
            inside = self.group[at] == group
            n_begun = np.maximum(begun[:, inside].sum(axis=1, keepdims=True), 1)
            typical[:, inside] = mean[:, inside].sum(axis=1, keepdims=True) / n_begun
            unit[:, inside & (self.unit[at] == 0.0)] = (2.0 * n_begun) ** -0.5
        few = (square + _AS_ROWS * typical) / (n_rows + _AS_ROWS)
        mean = np.clip(few, mean / _AT_MOST**2, mean * _AT_MOST**2)
        with np.errstate(invalid="ignore"):  # what does not fit is refused by its owner
            scaled = unit * (gaps / safe) / np.sqrt(np.where(mean > 0.0, mean, 1.0))
        m = min(n, len(gaps))
        row, col = np.nonzero(scaled[len(gaps) - m :])
        data = scaled[len(gaps) - m :][row, col].astype(dtype)
        return sparse.csr_array((data, (row + n - m, self.columns[at][col])), shape=(n, n_features))

    def fold(self) -> LateColumns:
        """Add what was noted to the counts."""
        at, gaps = self.moving, self.recent
        n_rows, root = self.n_rows.copy(), self.root.copy()
        if len(gaps):
            n_rows[at] += len(gaps) - np.where(n_rows[at] > 0, 0, (gaps != 0.0).argmax(axis=0))
            largest = np.abs(gaps).max(axis=0)
            safe = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)
            root[at] = np.hypot(root[at], safe * np.sqrt(((gaps / safe) ** 2).sum(axis=0)))
        return replace(self, n_rows=n_rows, root=root, recent=np.empty((0, len(at))))

    def wake(self, dtype: np.dtype) -> tuple[LateColumns, Mask, Array]:
        """Wake the columns of which enough was seen; return which these are, and their latest deviations."""
        if len(self.recent) < _LATE_ROWS:
            return self, np.zeros(len(self.columns), bool), self.recent[:, :0]
        folded = self.fold()
        ready = ~self.is_awake & (folded.n_rows >= _LATE_ROWS) & np.isfinite(folded.root)
        unit = self.unit.copy()
        for group in np.unique(self.group[ready & (unit == 0.0)]):
            inside = self.group == group
            unit[inside] = (2.0 * np.count_nonzero(ready & inside)) ** -0.5
        made = replace(folded, unit=unit)
        wakes = ready & (made.factors <= np.finfo(dtype).max)
        left = self.moving[~wakes[self.moving]]
        made = replace(made, is_awake=self.is_awake | wakes, moving=left, recent=np.empty((0, len(left))))
        return made, wakes, self.recent[:, wakes[self.moving]]

    def merged(self, shards: Sequence[LateColumns]) -> LateColumns:
        """What all shards have seen since they began with this."""
        base, shards = self.fold(), [one.fold() for one in shards]
        n_rows, root = base.n_rows.copy(), base.root.copy()
        unit, is_awake = self.unit, self.is_awake.copy()
        for one in shards:
            n_rows += one.n_rows - base.n_rows
            with np.errstate(invalid="ignore"):
                share = np.sqrt(np.maximum(one.root - base.root, 0.0)) * np.sqrt(one.root + base.root)
            root = np.hypot(root, share)
            unit = np.where(unit > 0.0, unit, one.unit)
            is_awake |= one.is_awake
        moving = np.flatnonzero(~is_awake & (n_rows > 0))
        recent = np.empty((0, len(moving)))
        return replace(self, unit=unit, n_rows=n_rows, root=root, is_awake=is_awake, moving=moving, recent=recent)


def _stack(parts: list[Any]) -> sparse.csr_array | None:
    """Sparse rows one below the other; None if there is nothing in them."""
    if not any(one.nnz for one in parts):
        return None
    return parts[0] if len(parts) == 1 else sparse.vstack(parts, format="csr")


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
        size = max(1, _MOMENT_NUMBERS // max(1, X.shape[1]))  # all rows at once would be a second, larger X
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


def check_range(rows: Rows, owner: object, hint: str, first: int = 0) -> None:
    """Refuse scaled rows that are too large to compute with; ``first`` is the number of the first of them."""
    limit = LARGEST[np.dtype(rows.dtype)]
    for part, block in rows.blocks():
        if _are_below(block, limit):
            continue
        if -limit <= block.min(initial=0.0) and block.max(initial=0.0) <= limit:
            continue
        largest = np.abs(block).max(axis=1, initial=0.0)
        bad = np.flatnonzero(~(largest <= limit))
        if len(bad):
            value = f"{largest[bad[0]]:.3g}" if np.isfinite(largest[bad[0]]) else "more than can be represented"
            raise InputError(
                f"{{row}} holds a value of {value} after scaling; the largest that {np.dtype(rows.dtype).name} "
                f"arithmetic allows is {limit:g}. {hint}",
                owner=owner, row=Row(first + part.start + bad[0]),
            )  # fmt: skip
