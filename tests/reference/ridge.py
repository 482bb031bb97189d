"""Ridge regression on the indicators of labels, fitted anew without each row."""

import numpy as np

from .common import Array

CONSTANT = 3.0  # value of the constant feature
LEAST = 1e-3  # least weight of a row, and least vote for a class


def framed(made: Array) -> Array:
    """Features with mean 0 and mean squared length 1, and the constant."""
    centred = made - made.mean(axis=0)
    length = np.sqrt(np.mean([row @ row for row in centred]))
    return np.column_stack([centred / (length or 1.0), np.full(len(made), CONSTANT)])


def ridge(X: Array, codes: np.ndarray, weights: Array, n_classes: int, penalty: float, query: Array) -> Array:
    """What least squares with a penalty, from rows to indicators of labels, says about one row."""
    A, B = penalty * np.eye(X.shape[1]), np.zeros((X.shape[1], n_classes))
    for row, code, weight in zip(X, codes, weights, strict=True):
        A += weight * np.outer(row, row)
        B[:, code] += weight * row
    return query @ np.linalg.solve(A, B)


def without_each(X: Array, codes: np.ndarray, weights: Array, n_classes: int, penalty: float) -> Array:
    """The same about every row, by all others."""
    found = []
    for i in range(len(X)):
        others = np.arange(len(X)) != i
        found.append(ridge(X[others], codes[others], weights[others], n_classes, penalty, X[i]))
    return np.array(found)


def shares(fit: Array) -> Array:
    """Negative votes count as none; rows sum to 1."""
    votes = np.maximum(fit, 0.0) + LEAST
    return votes / votes.sum(axis=1, keepdims=True)
