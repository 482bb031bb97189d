"""Votes of a smooth function of the rows: ridge regression on labels, each row judged as if it had been left out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nearkin.jury.features import Landmarks, Leading
from nearkin.kernels import worker_pool
from nearkin.noise._votes import Ask

__all__ = ["RidgeVotes"]

Array = NDArray[np.floating]
Codes = NDArray[np.int64]

#: Penalties that are tried, per row.
_PENALTIES = 10.0 ** np.arange(-5.0, 1.1, 0.5)

#: Most rows by which the penalty and the features are chosen.
_JUDGES = 4000

#: Most classes, or groups of them, by which they are chosen.
_GROUPS = 64

#: Value of the constant feature beside features of mean length 1: large, so that it is hardly penalised.
_CONSTANT = 3.0

#: Least weight of a row, and least share of a class.
_LEAST = 1e-3

#: Most numbers of features that are kept between questions, and that are made at once where they are not kept.
_KEPT = 1 << 24
_AT_ONCE = 1 << 20

#: Parts whose sums are held before they are added up.
_TOGETHER = 16


class RidgeVotes:
    """Least squares with a penalty, from features of rows to the indicators of their labels.

    Where neighbours average over a ball, this averages over the whole set: it is better where classes are wide and few
    rows are there. Squares are forgiving to wrong labels that do not follow the features, because they add the same to
    the votes for every class.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_features)
        Scaled.
    codes : ndarray of int64 of shape (n_samples,)
        Labels as whole numbers below ``n_classes``.
    n_classes : int
        Number of classes.
    candidates : sequence of Landmarks or Leading
        Features to choose from, by the error for rows that are left out.

    Attributes
    ----------
    features : Landmarks or Leading
        As chosen.
    penalty : float
        As chosen.
    error : float
        Mean squared error for rows that are left out.

    Notes
    -----
    With ``H = F (F'WF + penalty I)^-1 F'W`` the fit to row i without row i is ``(fit_i - H_ii y_i) / (1 - H_ii)``, so
    nothing is fitted twice. Negative votes count as none.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(200, 2))
    >>> codes = (rows[:, 0] > 0).astype(np.int64)
    >>> votes = RidgeVotes(rows, codes, 2, [Leading(rows)])
    >>> bool((votes.left_out(np.ones(200))(slice(None)).argmax(axis=1) == codes).mean() > 0.95)
    True
    >>> votes.answers(np.array([[2.0, 0.0], [-2.0, 0.0]]), np.ones(200)).argmax(axis=1).tolist()
    [1, 0]
    """

    # Features of all rows and what is said about them at equal weights, where that is not too much to keep, and the
    # solutions for equal weights and for the last others.
    _transient = ("_made", "_said", "_equal", "_last")
    _made: Array | None = None
    _said: Array | None = None
    _equal: tuple[Array, Array] | None = None
    _last: tuple[Array, tuple[Array, Array]] | None = None

    def __init__(self, rows: Array, codes: Codes, n_classes: int, candidates: list[Landmarks] | list[Leading]):
        self._rows, self._codes, self._n_classes = rows, codes, n_classes
        some = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _JUDGES)).astype(np.int64))
        with worker_pool() as run:
            judged = run(lambda one: (*self._chosen(one, some), one), candidates)
        self.error, self.penalty, self._shift, self._factor, self.features = min(judged, key=lambda one: one[0])

    def _chosen(self, features: Landmarks | Leading, some: NDArray[np.int64]) -> tuple[float, float, Array, float]:
        """Error, penalty, and what brings the features to mean 0 and mean length 1."""
        made = features.of(self._rows[some])
        shift = made.mean(axis=0)
        factor = 1.0 / (float(np.sqrt(((made - shift) ** 2).sum(axis=1).mean())) or 1.0)
        X = _framed(made, shift, factor)
        # Of very many classes groups stand for all: the choice hardly depends on them.
        targets = np.eye(min(self._n_classes, _GROUPS), dtype=np.float32)[self._codes[some] % _GROUPS]
        values, vectors = np.linalg.eigh((X.T @ X).astype(np.float64))
        turned = X @ vectors.astype(np.float32)
        squares, sums = turned * turned, turned.T @ targets
        best = (np.inf, 1.0)
        for penalty in _PENALTIES * len(some):
            shrunk = (1.0 / (np.maximum(values, 0.0) + penalty)).astype(np.float32)
            rest = np.maximum(1.0 - squares @ shrunk, 1e-6)
            errors = (targets - turned @ (shrunk[:, None] * sums)) / rest[:, None]
            best = min(best, (float((errors * errors).mean()), float(penalty)))
        return best[0], best[1], shift, factor

    def left_out(self, weights: Array) -> Ask:
        """Shares of the classes for each row of a part, of shape (n_part, n_classes), by all rows but itself."""
        weights = np.maximum(weights, _LEAST)
        inverse, coefficients = self._solution(weights)

        def votes(part: Any) -> Array:
            at = np.arange(len(self._codes))[part]
            X = self._features(part)
            own = np.minimum(weights[at] * np.einsum("ij,ij->i", X @ inverse, X), 1.0 - 1e-6)
            fit = (X @ coefficients).astype(np.float64)
            fit[np.arange(len(at)), self._codes[at]] -= own
            return _shares(fit / (1.0 - own)[:, None])

        if len(self._codes) * self._n_classes > _AT_ONCE or not (weights == 1.0).all():
            return votes
        if self._said is None:  # asked for again and again
            self._said = votes(slice(None))
        return self._said.__getitem__

    def answers(self, queries: Array, weights: Array) -> Array:
        """Shares of the classes for new rows, of shape (n_queries, n_classes)."""
        _, coefficients = self._solution(np.maximum(weights, _LEAST))
        fit = _framed(self.features.of(queries), self._shift, self._factor) @ coefficients
        return _shares(fit.astype(np.float64))

    def _features(self, part: Any) -> Array:
        if self._made is not None:
            return self._made[part]
        return _framed(self.features.of(self._rows[part]), self._shift, self._factor)

    def _solution(self, weights: Array) -> tuple[Array, Array]:
        """Inverse and coefficients; those for equal weights, and for the same ones, are asked for often."""
        if not (weights == 1.0).all():
            if self._last is None or not np.array_equal(self._last[0], weights):
                self._last = weights, self._solved(weights, is_equal=False)
            return self._last[1]
        if self._equal is None:
            self._equal = self._solved(weights, is_equal=True)
        return self._equal

    def _solved(self, weights: Array, is_equal: bool) -> tuple[Array, Array]:
        n, width = len(self._codes), self.features.n_features + 1
        step = max(1, _AT_ONCE // width)
        parts = [slice(start, start + step) for start in range(0, n, step)]

        def sums(part: slice) -> tuple[Array, Array]:
            X = self._features(part)
            weighed = X if is_equal else X * weights[part, None].astype(X.dtype)
            return X.T @ weighed, _indicators(self._codes[part], self._n_classes) @ weighed

        # A model that was loaded solves again, and must find the same bits: parts are added up in their order.
        with worker_pool() as run:
            if self._made is None and n * width <= _KEPT:
                self._made = np.concatenate(run(self._features, parts))
            gram, right = np.zeros((width, width)), np.zeros((self._n_classes, width))
            for start in range(0, len(parts), _TOGETHER):
                for its_gram, its_right in run(sums, parts[start : start + _TOGETHER]):
                    gram += its_gram
                    right += its_right
            gram[np.diag_indices(width)] += self.penalty * n / min(n, _JUDGES)
            inverse = np.linalg.inv(gram)
            return inverse.astype(np.float32), (inverse @ right.T).astype(np.float32)


def _indicators(codes: Codes, n_classes: int) -> sparse.csr_array:
    """One row per class, one column per label."""
    n = len(codes)
    return sparse.csr_array((np.ones(n), (codes, np.arange(n))), shape=(n_classes, n))


def _framed(made: Array, shift: Array, factor: float) -> Array:
    """Features on their scale, with a constant beside them, in single precision: they are many and of order one."""
    out = np.empty((len(made), made.shape[1] + 1), np.float32)
    out[:, :-1] = (made - shift) * factor
    out[:, -1] = _CONSTANT
    return out


def _shares(fit: Array) -> Array:
    votes = np.maximum(fit, 0.0) + _LEAST
    shares: Array = votes / votes.sum(axis=1, keepdims=True)
    return shares
