"""Features in which a linear function of few numbers says much: leading directions, and nearness to landmarks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Landmarks", "Leading"]

Array = NDArray[np.floating]

#: Most features.
N_LANDMARKS = 400
N_LEADING = 256

#: Least eigenvalue of the landmarks' kernel matrix, as a share of the largest.
_FLOOR = 1e-8


class Leading:
    """The rows themselves, or their leading principal directions where there are many features.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_features)
        Scaled.

    Examples
    --------
    >>> Leading(np.zeros((5, 3))).of(np.ones((2, 3))).tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """

    #: Directions, of shape (n_features, n_columns); None for the rows themselves.
    axes: Array | None = None

    def __init__(self, rows: Array):
        self.n_features = rows.shape[1]
        if self.n_features > N_LEADING:
            from sklearn.utils.extmath import randomized_svd

            some = rows[:: max(1, len(rows) // 4000)]
            self.axes = randomized_svd(some - some.mean(axis=0), min(N_LEADING, len(some)), n_iter=4, random_state=0)[2]
            self.n_features = len(self.axes)

    def of(self, rows: Array) -> Array:
        """Features of rows, of shape (n_rows, n_features)."""
        return np.asarray(rows if self.axes is None else rows @ self.axes.T, dtype=np.float64)


class Landmarks:
    """Nearness ``exp(-sharpness * d2 / spread)`` to some of the rows, turned so that inner products are nearnesses.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_features)
        Scaled.
    sharpness : float
        How fast nearness falls; ``spread`` is the mean squared distance of two rows.

    Notes
    -----
    The method of Nystroem: with K the nearness of landmarks to each other, the features of x are ``k(x) K^(-1/2)``.

    Examples
    --------
    >>> rows = np.array([[0.0], [1.0], [3.0]])
    >>> made = Landmarks(rows, 1.0).of(rows)
    >>> bool(np.allclose(made @ made.T, np.exp(-((rows - rows.T) ** 2) / (2.0 * rows.var()))))
    True
    """

    def __init__(self, rows: Array, sharpness: float):
        chosen = np.random.default_rng(0).permutation(len(rows))[:N_LANDMARKS]
        # Means of a sample do: the factor need not be exact, and a pass over all rows is saved.
        spread = 2.0 * float(np.asarray(rows[chosen], dtype=np.float64).var(axis=0).sum())
        self._rate = sharpness / (spread if spread > 0.0 else 1.0)
        self.sharpness = sharpness
        self._marks = np.asarray(rows[chosen], dtype=np.float64)
        values, vectors = np.linalg.eigh(self._nearness(self._marks))
        self._turn = vectors / np.sqrt(np.maximum(values, _FLOOR * values[-1]))
        self.n_features = len(self._marks)

    def of(self, rows: Array) -> Array:
        """Features of rows, of shape (n_rows, n_landmarks)."""
        return self._nearness(rows) @ self._turn

    def _nearness(self, rows: Array) -> Array:
        squares = (rows * rows).sum(axis=1)[:, None] + (self._marks * self._marks).sum(axis=1)
        near: Array = np.exp(-self._rate * np.maximum(squares - 2.0 * rows @ self._marks.T, 0.0))
        return near
