"""How plausible every label is, from what neighbours say and how many labels are wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["own_share", "posterior"]

Array = NDArray[np.floating]
Codes = NDArray[np.int64]

#: Least share of a class before shares are made to sum to 1.
_LEAST = 1e-3

#: Times that neighbours vote again with the weights found.
_AGAIN = 2


def posterior(votes: Callable[[Array], Array], codes: Codes, rate: float) -> Array:
    """Probability that a label is right, by Bayes' rule on the votes of the row's neighbours.

    If a share ``rate`` of the labels is wrong, each other label equally likely, then a row of true class k shows label
    y = k with probability ``1 - rate`` and any other with ``b = rate / (n_classes - 1)``. Votes v of noisy labels tell
    about the true class ``p = (v - b) / (1 - rate - b)``, and the label y is right with probability
    ``(1 - rate) p_y / ((1 - rate) p_y + b (1 - p_y))``. Twice more neighbours then vote with these probabilities as
    weights; such votes need no correction.

    Parameters
    ----------
    votes : callable
        ``votes(weights)`` gives shares of shape (n_samples, n_classes), every row asking its neighbours but not itself.
    codes : ndarray of int64 of shape (n_samples,)
        Column of each row's label.
    rate : float
        Share of wrong labels; at 0 every label is taken as right.

    Returns
    -------
    ndarray of shape (n_samples,)
        In (0, 1].

    Examples
    --------
    >>> shares = np.array([[0.9, 0.1], [0.9, 0.1], [0.5, 0.5]])
    >>> posterior(lambda weights: shares, np.array([0, 1, 0]), 0.1).round(2).tolist()
    [0.99, 0.5, 0.9]
    """
    n = len(codes)
    if rate <= 0.0:
        return np.ones(n)
    shares = votes(np.ones(n))
    b = rate / (shares.shape[1] - 1)
    weights = _right(np.maximum((shares - b) / (1.0 - rate - b), _LEAST), codes, rate, b)
    for _ in range(_AGAIN):
        weights = _right(votes(weights) + _LEAST, codes, rate, b)
    return weights


def _right(shares: Array, codes: Codes, rate: float, b: float) -> Array:
    own = shares[np.arange(len(codes)), codes] / shares.sum(axis=1)
    right = (1.0 - rate) * own
    return right / (right + b * (1.0 - own))


def own_share(votes: Callable[[Array], Array], codes: Codes, n_rounds: int = 3) -> Array:
    """Votes for the label as given against those for the best other one: the score by which labels are ranked.

    Neighbours are asked `n_rounds` times, each with its own score of the round before as the weight of its vote, no
    more than 1. It needs no rate, and ranks rows that `posterior` finds equally implausible.

    Parameters
    ----------
    votes : callable
        See `posterior`.
    codes : ndarray of int64 of shape (n_samples,)
        Column of each row's label.
    n_rounds : int, default=3
        How often neighbours are asked.

    Returns
    -------
    ndarray of shape (n_samples,)
        Between 0 and 1; below 1/2 another label has more votes.

    Examples
    --------
    >>> shares = np.array([[0.9, 0.1], [0.8, 0.2]])
    >>> own_share(lambda weights: shares, np.array([0, 1])).round(2).tolist()
    [0.9, 0.2]
    """
    weights = np.ones(len(codes))
    at = np.arange(len(codes))
    score = weights
    for _ in range(n_rounds):
        shares = votes(weights)
        own = shares[at, codes]
        others = shares.copy()
        others[at, codes] = 0.0
        other = others.max(axis=1)
        score = np.divide(own, own + other, out=np.full(len(codes), 0.5), where=own + other > 0)
        weights = np.minimum(1.0, own / np.maximum(other, 1e-12))
    return score
