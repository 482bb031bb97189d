"""A linear map after which the classes are round."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["whitening"]

Array = NDArray[np.floating]


def whitening(rows: Array, codes: NDArray[np.int64], weights: Array) -> Array:
    """``S^(-1/2)`` of the weighted within-class covariance, scaled so that the mean squared pair distance is 1.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_features)
        Scaled rows.
    codes : ndarray of int64 of shape (n_samples,)
        Their classes.
    weights : ndarray of shape (n_samples,)
        How much each label is trusted.

    Returns
    -------
    ndarray of shape (n_features, n_features)
        Symmetric.

    Notes
    -----
    The covariance is shrunk towards a multiple of the identity by the rule of Ledoit and Wolf (A well-conditioned
    estimator for large-dimensional covariance matrices, 2004).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows, codes = rng.normal(size=(500, 2)) * [1.0, 5.0], np.zeros(500, dtype=np.int64)
    >>> map = whitening(rows, codes, np.ones(500))
    >>> bool(abs(np.log((rows @ map).std(axis=0)[0] / (rows @ map).std(axis=0)[1])) < 0.1)
    True
    """
    from sklearn.covariance import ledoit_wolf

    n_classes = int(codes.max()) + 1
    total = np.bincount(codes, weights, n_classes)
    means = np.zeros((n_classes, rows.shape[1]))
    np.add.at(means, codes, rows * weights[:, None])
    means /= np.maximum(total, 1e-300)[:, None]
    centred = (rows - means[codes]) * np.sqrt(weights)[:, None]
    covariance, _ = ledoit_wolf(centred, assume_centered=True)
    values, vectors = np.linalg.eigh(covariance)
    if not values[-1] > 0.0:
        return np.eye(rows.shape[1], dtype=rows.dtype)
    floor = 1e-12 * values[-1]
    root = (vectors / np.sqrt(np.maximum(values, floor))) @ vectors.T
    spread = np.sqrt(2.0 * (rows @ root).var(axis=0).sum())
    return (root / max(spread, 1e-300)).astype(rows.dtype)
