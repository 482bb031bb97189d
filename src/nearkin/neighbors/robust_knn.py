"""Weighted majority vote of neighbours (Algorithm 5, step 3.2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["vote"]

Array = NDArray[np.floating]

#: Share of a vote that decides between classes with equal votes: the nearest neighbour among them wins.
_TIE = 1e-9


def vote(codes: NDArray[np.int64], weights: Array, n_classes: int) -> Array:
    """Share of the votes that each class gets.

    Parameters
    ----------
    codes : ndarray of shape (n_queries, k)
        Class of each neighbour, nearest first.
    weights : ndarray of shape (n_queries, k)
        Weight of each neighbour's vote, positive.
    n_classes : int
        Number of classes.

    Returns
    -------
    ndarray of shape (n_queries, n_classes)
        Rows sum to 1. Equal votes are told apart by nearness, in the ninth digit.

    Examples
    --------
    >>> shares = vote(np.array([[1, 0]]), np.array([[1.0, 1.0]]), 2)
    >>> int(shares.argmax()), shares.round(6).tolist()
    (1, [[0.5, 0.5]])
    """
    n, k = codes.shape
    largest = weights.max(axis=1, keepdims=True)
    relative = weights / largest + _TIE * 0.5 ** np.arange(k)
    votes = np.zeros((n, n_classes))
    np.add.at(votes, (np.arange(n)[:, None], codes), relative)
    return votes / votes.sum(axis=1, keepdims=True)
