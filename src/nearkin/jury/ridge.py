"""Ridge regression of the labels on features or landmarks: a voter that judges each row as if it had been left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf, dpotri

from nearkin import progress
from nearkin.accelerator import computing_device, keep_there
from nearkin.arrays import Array, Codes, Index
from nearkin.jury.copies import Groups
from nearkin.jury.local_scaling import spread_rows
from nearkin.kernels import worker_pool
from nearkin.noise.model import VotesOn
from nearkin.stored import ArrayOf, Count, Maybe, Number, Part, Text, stored

__all__ = ["FeatureMap", "Landmarks", "LeadingDirections", "RidgeVoter"]

#: Most landmarks and leading directions, and landmarks that are enough to choose how fast nearness falls.
N_LANDMARKS = 400
N_CHOOSING = 128
N_LEADING = 256

#: What is added to the diagonal of the landmarks' kernel matrix, as a share of its largest eigenvalue.
_FLOOR = 1e-6

#: Rows from which leading directions are found, and most features for which all their pairs are summed.
_SAMPLE = 4000
_WIDE = 1024

#: Penalties to choose from, per row.
_PENALTIES = 10.0 ** np.arange(-5.0, 1.1, 0.5)

#: Errors up to this multiple of the least are as good.
_AS_GOOD = 1.002

#: Most rows on which the penalty and the features are chosen.
_JUDGES = 2000

#: Most of these rows from one group of rows.
_OF_GROUP = 32

#: Most classes, or groups of classes, for that choice.
_GROUPS = 64

#: Value of the constant feature beside features of mean length 1: large, so that it is hardly penalised.
_CONSTANT = 3.0

#: Least weight of a row, and least share of a class.
_LEAST = 1e-3

#: Most numbers of features that are kept between votes, and that are computed at once where they are not kept.
_KEPT = 1 << 25
_AT_ONCE = 1 << 20

#: Votes on new rows beyond this size are computed in double precision: the rows are far, and may overflow.
_FAR = 1e6

#: Parts whose sums are held before they are added up.
_TOGETHER = 16


class FeatureMap(Protocol):
    """Features of scaled rows on which a regression rests."""

    n_features: int

    @property
    def words(self) -> str:
        """What the features are."""

    @property
    def parts(self) -> tuple[Array | None, Array | None, float]:
        """Landmarks or None, the matrix that turns what comes of them, or the rows, or None, and the rate."""

    def of(self, rows: Array) -> Array:
        """Features of rows, of shape (n_rows, n_features)."""


@stored(n_features=Count(1, size="m"), axes=Maybe(ArrayOf("m", "d")))
class LeadingDirections:
    """The scaled rows themselves, or their leading principal directions where there are many features."""

    #: Directions, of shape (n_features, n_columns); None for the rows themselves.
    axes: Array | None = None

    def __init__(self, rows: Array):
        self.n_features = rows.shape[1]
        if self.n_features > N_LEADING:
            some = rows[:: max(1, len(rows) // _SAMPLE)]
            self.axes = _leading(some - some.mean(axis=0), min(N_LEADING, len(some)))
            self.n_features = len(self.axes)

    def check_stored(self) -> dict[str, int]:
        """Return the number of features of a row, which without directions is that of the result."""
        return {"d": self.n_features} if self.axes is None else {}

    @property
    def words(self) -> str:
        """What the features are."""
        return "the features" if self.axes is None else f"the {self.n_features} leading directions"

    @property
    def parts(self) -> tuple[Array | None, Array | None, float]:
        """No landmarks, the directions if there are any, and no rate."""
        return None, None if self.axes is None else self.axes.T, 0.0

    def of(self, rows: Array) -> Array:
        """Features of rows, of shape (n_rows, n_features)."""
        return rows if self.axes is None else rows @ self.axes.T


@stored(
    _rate=Number(0.0),
    sharpness=Number(0.0),
    _marks=ArrayOf("m", "d"),
    _turn=ArrayOf("m", "m"),
    n_features=Count(1, size="m"),
)
class Landmarks:
    """Nearness ``exp(-sharpness * d2 / spread)`` to some of the rows, rotated so that inner products are nearnesses.

    This is Nystroem's method: with K the nearness of landmarks to each other, the features of x are ``k(x) L'^(-1)``
    where ``L L' = K``. ``spread`` is the mean squared distance of two rows.
    """

    def __init__(self, rows: Array, sharpness: float, n_landmarks: int = N_LANDMARKS):
        chosen = np.random.default_rng(0).permutation(len(rows))[: min(n_landmarks, N_LANDMARKS)]
        # A sample is enough: the factor need not be exact, and a pass over all rows is saved.
        marks = np.asarray(rows[chosen], dtype=np.float64)
        spread = 2.0 * float(marks.var(axis=0).sum())
        self._rate = sharpness / (spread if spread > 0.0 else 1.0)
        self.sharpness = sharpness
        self._marks = marks
        near = self._nearness(marks)
        near[np.diag_indices(len(near))] += _FLOOR * near.sum(axis=1).max()
        self._marks = marks.astype(rows.dtype)
        self._turn = solve_triangular(np.linalg.cholesky(near), np.eye(len(near)), lower=True).T.astype(rows.dtype)
        self.n_features = len(self._marks)

    @property
    def words(self) -> str:
        """What the features are."""
        return f"nearness to {self.n_features} landmarks"

    @property
    def parts(self) -> tuple[Array | None, Array | None, float]:
        """Landmarks, the matrix that turns the nearness to them, and how fast it falls with the squared distance."""
        return self._marks, self._turn, self._rate

    def of(self, rows: Array) -> Array:
        """Features of rows, of shape (n_rows, n_landmarks)."""
        return self._nearness(rows) @ self._turn

    def _nearness(self, rows: Array) -> Array:
        near: Array = rows @ self._marks.T
        near *= -2.0
        near += np.einsum("ij,ij->i", rows, rows)[:, None]
        near += np.einsum("ij,ij->i", self._marks, self._marks)
        np.maximum(near, 0.0, out=near)
        near *= -self._rate
        return np.exp(near, out=near)


@stored(
    name=Text(),
    _rows=ArrayOf("n", "d"),
    _codes=ArrayOf("n", of="codes", low=0, below="c"),
    _n_classes=Count(2, size="c"),
    error=Number(),
    penalty=Number(0.0, is_open=True),
    _shift=ArrayOf("m"),
    _factor=Number(),
    features=Part(LeadingDirections, Landmarks, d="d", m="m"),
    groups=Maybe(Part(Groups, n="n")),
)
class RidgeVoter:
    """Least squares with a penalty, from features of rows to the indicators of their labels.

    Neighbours average over a ball, a regression over all rows, so it is better where classes are wide and rows few.
    Wrong labels that do not follow the features do little harm, because they add the same to the votes for every class.

    Parameters
    ----------
    name : str
        Of the voter.
    rows : ndarray of shape (n_samples, n_features)
        Scaled.
    codes : ndarray of int64 of shape (n_samples,)
        Labels as whole numbers below ``n_classes``.
    n_classes : int
        Number of classes.
    candidates : sequence of FeatureMap
        Features to choose from, by the error on rows that are left out.
    groups : Groups or None, default=None
        Rows that are left out together with the one that is judged.

    Attributes
    ----------
    features : FeatureMap
        As chosen.
    penalty : float
        As chosen.
    error : float
        Mean squared error on rows that are left out.

    Notes
    -----
    With ``H = F (F'WF + penalty I)^-1 F'W`` the fit to row i without row i is ``(fit_i - H_ii y_i) / (1 - H_ii)``, so
    nothing is fitted twice. Without a group g of rows it is ``y_g - (I - H_gg)^-1 (y_g - fit_g)``. Negative votes count
    as zero.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(200, 2))
    >>> codes = (rows[:, 0] > 0).astype(np.int64)
    >>> voter = RidgeVoter("ridge", rows, codes, 2, [LeadingDirections(rows)])
    >>> bool((voter.left_out(np.ones(200))(slice(None)).argmax(axis=1) == codes).mean() > 0.95)
    True
    >>> voter.answers(np.array([[2.0, 0.0], [-2.0, 0.0]]), np.ones(200)).argmax(axis=1).tolist()
    [1, 0]
    """

    # Features of all rows and the votes on them at equal weights, where they are not too many to keep, and the
    # solutions for equal weights and for the last other weights.
    _made: Array | None = None
    _said: Array | None = None
    _equal: tuple[Array, Array] | None = None
    _last: tuple[Array, tuple[Array, Array]] | None = None

    def __init__(
        self, name: str, rows: Array, codes: Codes, n_classes: int, candidates: Sequence[FeatureMap],
        groups: Groups | None = None,
    ):  # fmt: skip
        self.name, self._rows, self._codes, self._n_classes, self.groups = name, rows, codes, n_classes, groups
        some = spread_rows(len(rows), _JUDGES) if groups is None else _sample_groups(groups)
        with worker_pool() as run:
            tried = run(lambda one: (*self._choose_penalty(one, some), one), candidates)
        self.error, self.penalty, self._shift, self._factor, self.features = min(tried, key=lambda one: one[0])

    @property
    def votes_with(self) -> str:
        """What the votes rest on."""
        return f"ridge regression on {self.features.words}"

    def _choose_penalty(self, features: FeatureMap, some: Index) -> tuple[float, float, Array, float]:
        """Error, penalty, and the shift and factor that bring the features to mean 0 and mean length 1."""
        made = features.of(self._rows[some])
        shift = made.mean(axis=0)
        factor = 1.0 / (float(np.sqrt(((made - shift) ** 2).sum(axis=1).mean())) or 1.0)
        X = _standardise(made, shift, factor)
        # Groups stand for very many classes: the choice hardly depends on them.
        targets = np.eye(min(self._n_classes, _GROUPS), dtype=np.float32)[self._codes[some] % _GROUPS]
        progress.pause()
        values, vectors = np.linalg.eigh(X.T @ X)
        progress.pause()
        turned = X @ vectors
        squares, sums = turned * turned, turned.T @ targets
        sizes = None if self.groups is None else np.unique(self.groups.group[some], return_counts=True)[1]
        tried = []
        for penalty in _PENALTIES * len(some):
            progress.pause()
            shrunk = (1.0 / (np.maximum(values, 0.0) + penalty)).astype(np.float32)
            errors = targets - turned @ (shrunk[:, None] * sums)
            if sizes is None:
                errors /= np.maximum(1.0 - squares @ shrunk, 1e-6)[:, None]
            else:
                errors = _leave_out(turned * shrunk, turned, errors, sizes)
            tried.append((float((errors * errors).mean()), float(penalty)))
        # The largest penalty that is as good: rounding must not choose.
        least = min(tried)[0]
        error, penalty = max((one for one in tried if one[0] <= _AS_GOOD * least), key=lambda one: one[1])
        # As if that many rows had been asked: groups may offer fewer.
        return error, penalty * min(len(self._codes), _JUDGES) / len(some), shift, factor

    def left_out(self, weights: Array) -> VotesOn:
        """Votes on training rows by all other rows."""
        weights = np.maximum(weights, _LEAST)
        inverse, coefficients = self._solution(weights)

        step = max(1, _AT_ONCE // max(self.features.n_features + 1, self._n_classes))

        def votes(part: Any) -> Array:
            at = np.arange(len(self._codes))[part]
            said = np.empty((len(at), self._n_classes))
            for start in range(0, len(at), step):
                progress.pause()
                said[start : start + step] = votes_at(at[start : start + step])
            return said

        def votes_at(at: Index) -> Array:
            leverage, fit = self._leverages(at, inverse, coefficients)
            own, fit = np.minimum(weights[at] * leverage, 1.0 - 1e-6), fit.astype(np.float64)
            fit[np.arange(len(at)), self._codes[at]] -= own
            fit /= (1.0 - own)[:, None]
            if self.groups is not None and not self.groups.is_alone[at].all():
                grouped = np.flatnonzero(~self.groups.is_alone[at])
                fit[grouped] = self._fit_without_group(at[grouped], weights, inverse, coefficients)
            return _shares(fit)

        if len(self._codes) * self._n_classes > _AT_ONCE or not (weights == 1.0).all():
            return votes
        if self._said is None:  # these are needed again and again
            self._said = votes(slice(None))
        return self._said.__getitem__

    def _leverages(self, at: Index, inverse: Array, coefficients: Array) -> tuple[Array, Array]:
        """``x' inverse x`` of some training rows x, and their products with the coefficients."""
        if (there := self._there()) is not None:
            return there.leverages(at, inverse, coefficients)
        X = self._features(at)
        return np.einsum("ij,ij->i", X @ inverse, X), X @ coefficients

    def _there(self) -> Any:
        """The features of all rows on the device where the jury computes; None on the processor."""
        if (device := computing_device()) is None:
            return None
        return keep_there(self, "features", device, self._send, self._rows)

    def _send(self, rows: Array, device: Any) -> Any:
        from nearkin.accelerator.device_votes import DeviceFeatures

        made_of = *self.features.parts, self._shift, self._factor, _CONSTANT
        return DeviceFeatures(rows, self._codes, made_of, device)

    def _fit_without_group(self, rows: Index, weights: Array, inverse: Array, coefficients: Array) -> Array:
        """Fit to rows without all rows of their groups."""
        assert self.groups is not None
        members = self.groups.members(rows)
        sizes = np.unique(self.groups.group[members], return_counts=True)[1]
        X = self._features(members)
        errors = -(X @ coefficients).astype(np.float64)
        at, codes = np.arange(len(members)), self._codes[members]
        errors[at, codes] += 1.0
        fit = -_leave_out(X @ inverse, X * weights[members, None].astype(X.dtype), errors, sizes)
        fit[at, codes] += 1.0
        order = np.argsort(members)
        return fit[order[np.searchsorted(members, rows, sorter=order)]]

    def answers(self, queries: Array, weights: Array) -> Array:
        """Votes on new scaled rows, of shape (n_queries, n_classes)."""
        _, coefficients = self._solution(np.maximum(weights, _LEAST))
        if (there := self._there()) is not None:
            fit = there.fit(queries, coefficients).astype(np.float64)
        else:
            with np.errstate(over="ignore", invalid="ignore"):  # done again below
                made = _standardise(self.features.of(queries), self._shift, self._factor)
                fit = (made @ coefficients).astype(np.float64)
        far = np.flatnonzero(~(np.abs(fit).max(axis=1, initial=0.0) < _FAR))
        if len(far):
            made = _standardise(self.features.of(queries[far]), self._shift, self._factor, np.float64)
            fit[far] = made @ coefficients.astype(np.float64)
        return _shares(fit)

    def _features(self, part: Any) -> Array:
        if self._made is not None:
            return self._made[part]
        return _standardise(self.features.of(self._rows[part]), self._shift, self._factor)

    def _make(self, parts: list[slice], run: Any) -> Array:
        """Features of all rows, made in parts."""
        made = np.empty((len(self._codes), self.features.n_features + 1), np.float32)

        def fill(part: slice) -> None:
            made[part] = self._features(part)

        run(fill, parts)
        return made

    def _solution(self, weights: Array) -> tuple[Array, Array]:
        """Inverse and coefficients; those for equal weights and for the last others are kept."""
        if (weights == 1.0).all():
            if self._equal is None:
                self._equal = self._solve(weights, is_equal=True)
            return self._equal
        last = self._last  # another thread may replace it meanwhile
        if last is None or not np.array_equal(last[0], weights):
            last = self._last = weights, self._solve(weights, is_equal=False)
        return last[1]

    def _solve(self, weights: Array, is_equal: bool) -> tuple[Array, Array]:
        n, width = len(self._codes), self.features.n_features + 1
        if (there := self._there()) is not None:
            return self._invert_sums(*there.sums(None if is_equal else weights, self._n_classes))
        step = max(1, _AT_ONCE // width)
        parts = [slice(start, start + step) for start in range(0, n, step)]

        def sums(part: slice) -> tuple[Array, Array]:
            X = self._features(part)
            if is_equal:
                return X.T @ X, _sum_by_class(X, self._codes[part], self._n_classes)
            roots = np.sqrt(weights[part]).astype(X.dtype)
            # With equal factors only half of the products are computed.
            halved = X * roots[:, None]
            return halved.T @ halved, _sum_by_class(halved * roots[:, None], self._codes[part], self._n_classes)

        # A loaded model solves again and must find the same bits, so parts are added in their order.
        with worker_pool() as run:
            if self._made is None and n * width <= _KEPT:
                self._made = self._make(parts, run)
            gram, right = np.zeros((width, width)), np.zeros((self._n_classes, width))
            for start in range(0, len(parts), _TOGETHER):
                for its_gram, its_right in run(sums, parts[start : start + _TOGETHER]):
                    gram += its_gram
                    right += its_right
            return self._invert_sums(gram, right)

    def _invert_sums(self, gram: Array, right: Array) -> tuple[Array, Array]:
        """Inverse and coefficients from the sums over the rows, of which the first is overwritten."""
        n = len(self._codes)
        gram[np.diag_indices(len(gram))] += self.penalty * n / min(n, _JUDGES)
        progress.pause()
        inverse = _invert(gram)
        progress.pause()
        return inverse.astype(np.float32), (inverse @ right.T).astype(np.float32)


def _sample_groups(groups: Groups) -> Index:
    """Rows on which the penalty is chosen, group after group: whole groups, but of a large one only some rows."""
    order = groups.order
    rank = np.arange(len(order)) - np.repeat(np.cumsum(groups.size) - groups.size, groups.size)
    order = order[rank < _OF_GROUP]
    size = np.minimum(groups.size, _OF_GROUP)
    taken = np.zeros(groups.n_groups, bool)
    taken[spread_rows(groups.n_groups, max(1, int(groups.n_groups * min(1.0, _JUDGES / size.sum()))))] = True
    return order[taken[groups.group[order]]]


def _leave_out(left: Array, right: Array, errors: Array, sizes: Index) -> Array:
    """Return ``(I - H_gg)^-1 e_g`` for every group g of rows, with ``H_gg = left_g right_g'``.

    Groups follow each other, and ``sizes`` says how many rows each has.
    """
    found, start = np.empty(errors.shape), np.cumsum(sizes) - sizes
    for size in np.unique(sizes):
        first = start[sizes == size]
        if size > left.shape[1]:
            for one in first:
                g = slice(one, one + size)
                L, R, e = (each[g].astype(np.float64) for each in (left, right, errors))
                # (I - L R')^-1 = I + L (I - R'L)^-1 R', which is as wide as the features.
                found[g] = e + L @ np.linalg.solve((1.0 + 1e-6) * np.eye(left.shape[1]) - R.T @ L, R.T @ e)
            continue
        step = max(1, _AT_ONCE // (size * left.shape[1]))
        for begin in range(0, len(first), step):
            at = first[begin : begin + step, None] + np.arange(size)
            rest = (1.0 + 1e-6) * np.eye(size) - left[at] @ right[at].transpose(0, 2, 1)
            found[at] = np.linalg.solve(rest, errors[at].astype(np.float64))
    return found


def _leading(centred: Array, n: int) -> Array:
    """Leading principal directions of centred rows."""
    if centred.shape[1] > _WIDE:
        from sklearn.utils.extmath import randomized_svd

        axes: Array = randomized_svd(centred, n, n_iter=4, random_state=0)[2]
        return axes
    return np.ascontiguousarray(np.linalg.eigh(centred.T @ centred)[1][:, : -n - 1 : -1].T)


def _invert(positive: Array) -> Array:
    """Inverse of a positive definite matrix, by Cholesky's factor where rounding leaves it definite."""
    factor, failed = dpotrf(positive, lower=True)
    if failed:
        return np.linalg.inv(positive)
    inverse, _ = dpotri(factor, lower=True, overwrite_c=True)
    return np.tril(inverse) + np.tril(inverse, -1).T


def _sum_by_class(X: Array, codes: Codes, n_classes: int) -> Array:
    """Sums of the rows of every class, of shape (n_classes, n_features)."""
    if n_classes <= _GROUPS:
        return np.eye(n_classes, dtype=X.dtype)[codes].T @ X
    n = len(codes)
    member = sparse.csr_array((np.ones(n, X.dtype), (codes, np.arange(n))), shape=(n_classes, n))
    sums: Array = member @ X
    return sums


def _standardise(made: Array, shift: Array, factor: float, dtype: Any = np.float32) -> Array:
    """Features of mean 0 and mean length 1 and a constant, in single precision: they are many and of order one."""
    out = np.empty((len(made), made.shape[1] + 1), dtype)
    out[:, :-1] = (made - shift) * factor
    out[:, -1] = _CONSTANT
    return out


def _shares(fit: Array) -> Array:
    votes = np.maximum(fit, 0.0) + _LEAST
    shares: Array = votes / votes.sum(axis=1, keepdims=True)
    return shares
