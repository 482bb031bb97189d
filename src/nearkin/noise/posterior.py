"""What the votes and the noise model say about each label: how plausible it is, and which one fits better."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import SMALLEST, Array, Codes
from nearkin.noise.model import NoiseModel
from nearkin.noise.rate import VotesOn, split_rows

__all__ = ["judge_labels", "score_labels", "suggest_labels"]

#: Rounds of voting, each with the weights found before.
_ROUNDS = 3


def judge_labels(
    left_out: Callable[[Array], VotesOn], codes: Codes, noise: NoiseModel, n_rounds: int = _ROUNDS
) -> tuple[Array, Array]:
    """Return the probability that each label is right, and a score by which labels are ranked.

    Votes v of noisy labels tell about the true class p: under uniform flips ``p = (v - b) / (1 - rate - b)`` with
    ``b = rate / (n_classes - 1)``, in general p is v times the inverse of the flip matrix. The label y is right with
    probability ``p_y P(y | y) / sum over k of p_k P(y | k)``, by Bayes' rule. The voters then vote again with these
    probabilities as weights; such votes need no correction.

    Parameters
    ----------
    left_out : callable
        ``left_out(weights)(part)`` gives shares of shape (n_part, n_classes): votes on every row by all others.
    codes : ndarray of int64 of shape (n_samples,)
        Column of each row's label.
    noise : NoiseModel
        How labels go wrong; at rate 0 every label counts as right, and there is one round.
    n_rounds : int, default=3
        Rounds of voting.

    Returns
    -------
    plausibility : ndarray of shape (n_samples,)
        Probability that the label is right, in (0, 1].
    score : ndarray of shape (n_samples,)
        Votes for the label against those for the best other one, in [0, 1]; see `score_labels`. It tells rows apart
        that are equally implausible.

    Examples
    --------
    >>> shares = np.array([[0.9, 0.1], [0.9, 0.1], [0.5, 0.5]])
    >>> plausibility, score = judge_labels(lambda weights: shares.__getitem__, np.array([0, 1, 0]), NoiseModel(0.1, 2))
    >>> plausibility.round(2).tolist(), score.round(2).tolist()
    ([0.99, 0.5, 0.9], [0.9, 0.1, 0.5])
    """
    n, n_classes = len(codes), noise.n_classes
    plausibility, score = np.ones(n), np.empty(n)
    for done in range(n_rounds if noise.rate > 0.0 else 1):
        votes_on, found = left_out(plausibility), np.ones(n)
        for part in split_rows(n, n_classes):
            votes = votes_on(part)
            shares = noise.lift_zeros(votes) if done or noise.rate <= 0.0 else noise.true_shares(votes)
            if noise.rate > 0.0:
                found[part] = np.maximum(noise.probability_right(shares, codes[part]), SMALLEST)
            # Corrected shares are cut at zero, where plain votes still tell rows apart.
            told = shares if noise.matrix is not None else noise.lift_zeros(votes)
            score[part] = score_labels(noise.relative_likelihood(told, codes[part]), codes[part])
        plausibility = found
    return plausibility, score


def score_labels(shares: Array, codes: Codes) -> Array:
    """Return the share of each row's label against the best other one; below 1/2 another label has more.

    Parameters
    ----------
    shares : ndarray of shape (n_samples, n_classes)
        Votes, or anything else that is proportional to the probabilities of the classes.
    codes : ndarray of int64 of shape (n_samples,)
        Column of each row's label.

    Examples
    --------
    >>> score_labels(np.array([[0.6, 0.2, 0.2], [0.1, 0.3, 0.6]]), np.array([0, 1])).round(2).tolist()
    [0.75, 0.33]
    """
    others, at = shares.copy(), np.arange(len(codes))
    own = shares[at, codes]
    others[at, codes] = 0.0
    both = own + others.max(axis=1)
    found: Array = np.divide(own, both, out=np.full(len(own), 0.5), where=both > 0)
    return found


def suggest_labels(
    joint: Callable[[Codes], Array], codes: Codes, plausibility: Array, is_suspect: NDArray[np.bool_], n_classes: int
) -> tuple[Codes, Array]:
    """Suggest a class for every row, with the probability that it is right.

    A row that is not a suspect keeps its label, which is right with the row's plausibility q. A suspect gets the best
    other class. Class k has the probability ``(1 - q) t_k / (sum of t over all other classes)``, where t is the share
    of k in the votes times the probability that a row of class k is labelled as this one is.

    Parameters
    ----------
    joint : callable
        ``joint(rows)`` gives t for some rows, of shape (n_rows, n_classes), up to a factor; see `NoiseModel.joint`.
    codes : ndarray of int64 of shape (n_samples,)
        Labels as given.
    plausibility : ndarray of shape (n_samples,)
        Probability that they are right.
    is_suspect : ndarray of bool of shape (n_samples,)
        Rows that need another class.
    n_classes : int
        Number of classes.

    Examples
    --------
    >>> shares = np.array([[0.1, 0.6, 0.3]])
    >>> best, confidence = suggest_labels(shares.__getitem__, np.array([0]), np.array([0.1]), np.array([True]), 3)
    >>> best.tolist(), confidence.round(2).tolist()
    ([1], [0.6])
    """
    best, confidence = codes.copy(), plausibility.astype(np.float64)
    suspects = np.flatnonzero(is_suspect)
    for part in split_rows(len(suspects), n_classes):
        here = suspects[part]
        others = np.array(joint(here))
        at = np.arange(len(here))
        others[at, codes[here]] = -1.0  # the given class does not win a tie either
        best[here] = others.argmax(axis=1)
        others[at, codes[here]] = 0.0
        total = others.sum(axis=1)
        # Where all votes agree with the label, every other class is as likely.
        share = np.divide(others[at, best[here]], total, out=np.full(len(here), 1.0 / (n_classes - 1)), where=total > 0)
        confidence[here] = (1.0 - plausibility[here]) * share
    return best, confidence
