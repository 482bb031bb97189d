"""Learned spaces, cross-fitted: each is learned from half of the rows and judges the other half."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearkin.arrays import Array, Codes, Index
from nearkin.learners import OnlineLearner, RobustLODML

__all__ = ["default_learner", "halve_rows", "learn_space", "whiten_classes"]


def default_learner(random_state: Any = None) -> OnlineLearner:
    """Return an unfitted learner as it learns the spaces.

    Examples
    --------
    >>> default_learner()
    RobustLODML(n_epochs=3)
    """
    return RobustLODML(n_epochs=3, random_state=random_state)


def halve_rows(codes: Codes) -> Index:
    """Return 0 or 1 for each row: every other row of a class, in an order that is independent of the features.

    Examples
    --------
    >>> np.bincount(halve_rows(np.array([0, 0, 1, 1, 1, 1]))).tolist()
    [3, 3]
    """
    order = np.lexsort((np.random.default_rng(0).random(len(codes)), codes))
    half = np.empty(len(codes), np.int64)
    half[order] = np.arange(len(codes)) % 2
    return half


def learn_space(rows: Array, codes: Codes, trust: Array, random_state: Any) -> Array:
    """Learn a map of shape (n_components, n_features) after within-class whitening, labels counting by ``trust``."""
    white = whiten_classes(rows, codes, trust)
    learner = default_learner(random_state).set_params(scale=None, rescore=False)
    found: Array = learner.fit(rows @ white.T, codes).components_ @ white
    return found


def whiten_classes(rows: Array, codes: Codes, weights: Array) -> Array:
    """Return ``S^(-1/2)`` of the weighted within-class covariance, scaled to a mean squared pair distance of 1.

    The covariance is shrunk towards a multiple of the identity by the rule of Ledoit and Wolf (A well-conditioned
    estimator for large-dimensional covariance matrices, 2004).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows, codes = rng.normal(size=(500, 2)) * [1.0, 5.0], np.zeros(500, dtype=np.int64)
    >>> map = whiten_classes(rows, codes, np.ones(500))
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
