"""Dual random projection: two independent sketches of a row, by which inner products of matrices survive on average."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from nearkin.arrays import Array
from nearkin.errors import InputError
from nearkin.memory import check_memory
from nearkin.rows import check_rows
from nearkin.settings import SEED, Integer, check_settings, declare, generator, setting
from nearkin.stored import ArrayOf, stored

__all__ = ["DualRandomProjection", "random_pair"]


def random_pair(d: int, m: int, dtype: Any, rng: np.random.Generator) -> tuple[Array, Array]:
    """Two independent matrices of shape (d, m) with entries N(0, 1/m).

    Examples
    --------
    >>> R_1, R_2 = random_pair(5, 3, np.float64, np.random.default_rng(0))
    >>> R_1.shape, R_2.shape
    ((5, 3), (5, 3))
    """
    pair = (rng.standard_normal((d, m), dtype=np.dtype(dtype)) for _ in range(2))
    first, second = (one * np.dtype(dtype).type(m**-0.5) for one in pair)
    return first, second


@stored(together=("left_", "right_", "n_features_in_"), left_=ArrayOf("d", "m"), right_=ArrayOf("d", "m"))
@declare
class DualRandomProjection(TransformerMixin, BaseEstimator):
    """Random sketch ``R_1' A R_2`` of matrices A, with two independent ``R_1`` and ``R_2`` of shape (d, m).

    Inner products are right on average: ``E <R_1'A R_2, R_1'B R_2> = <A, B>``, which a single shared R would not give.
    A learner whose steps depend on its data through such products only can therefore find them in m dimensions.

    Parameters
    ----------
    {settings}

    Attributes
    ----------
    left_, right_ : ndarray of shape (n_features, n_components)
        ``R_1`` and ``R_2``, entries N(0, 1/m); of the dtype of the rows given to `fit`.
    n_features_in_ : int
        d.

    See Also
    --------
    nearkin.LSMDML : Learns in such sketches.

    Notes
    -----
    The idea is that of the article, at abstract level; the two-sided form and its unbiasedness are derived and tested
    here. One shared R has mean ``(1 + 1/m) <A, B> + tr(A) tr(B) / m`` instead.

    References
    ----------
    Qian, Jin, Zhu, Lin: Fine-grained visual categorization via multi-stage metric learning. CVPR 2015.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(20, 1000))
    >>> projection = DualRandomProjection(50, random_state=0).fit(X)
    >>> left, right = projection.transform_pair(X)
    >>> left.shape, projection.transform(X).shape
    ((20, 50), (20, 100))
    >>> A = np.outer(X[0], X[1])
    >>> np.allclose(projection.sketch(A), np.outer(left[0], right[1]))
    True
    """

    n_components: int = setting(100, Integer(1, 1_000_000), kw_only=False, doc="m, the size of the sketch.")
    random_state: Any = setting(None, SEED, doc="Seed.")

    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Draw the two matrices; only the number of columns of X matters.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows.
        y : None
            Not used.

        Returns
        -------
        self
            Ready to transform.
        """
        check_settings(self)
        rng = generator(self.random_state)
        rows = check_rows(self, X, dtype=[np.float64, np.float32], reset=True)
        d, m = rows.shape[1], self.n_components
        what = f"a sketch of {m:,} components of {d:,} features"
        check_memory(2.0 * d * m * rows.dtype.itemsize, what, "Lower `n_components`.", owner=self)
        self.left_, self.right_ = random_pair(rows.shape[1], self.n_components, rows.dtype, rng)
        return self

    def transform_pair(self, X: ArrayLike) -> tuple[Array, Array]:
        """Both sketches of every row, ``X R_1`` and ``X R_2``.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        left, right : ndarray of shape (n_samples, n_components)
            The sketch of ``x y'`` is ``left_of_x right_of_y'``.
        """
        check_is_fitted(self)
        rows = check_rows(self, X, dtype=[np.float64, np.float32], reset=False)
        return np.asarray(rows @ self.left_), np.asarray(rows @ self.right_)

    def transform(self, X: ArrayLike) -> Array:
        """Both sketches side by side, of shape (n_samples, 2 * n_components)."""
        return np.concatenate(self.transform_pair(X), axis=1)

    def sketch(self, A: ArrayLike) -> Array:
        """``R_1' A R_2`` of a matrix of shape (n_features, n_features)."""
        check_is_fitted(self)
        matrix = np.asarray(A)
        if matrix.shape != (self.n_features_in_, self.n_features_in_):
            expected = (self.n_features_in_, self.n_features_in_)
            raise InputError(f"A must have shape {expected}; got {matrix.shape}.", owner=self)
        return np.asarray(self.left_.T @ matrix @ self.right_)

    def __sklearn_tags__(self) -> Any:
        """Takes sparse rows, keeps float32."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
