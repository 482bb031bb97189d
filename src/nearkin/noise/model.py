"""How labels go wrong, uniformly or by class, and what the votes then say about each label.

A model gives the probability that a label is right, and the label that fits better; `estimate` finds the model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import SMALLEST, Array, Codes, Mask
from nearkin.stored import ArrayOf, Count, Maybe, Number, stored

__all__ = ["NoiseModel", "VotesOn", "judge_labels", "max_rate", "score_labels", "split_rows", "suggest_labels"]

#: Votes on some rows, chosen by a slice or by their positions: shares of shape (n_rows, n_classes).
VotesOn = Callable[[Any], Array]

#: Most votes, rows times classes, held at once.
_AT_ONCE = 1 << 22

#: Rounds of voting, each with the weights found before.
_ROUNDS = 3

#: Smallest share of a class, times the number of classes, before shares are normalised.
_FLOOR = 2e-3

#: Smallest part of the usual probability that a label gets from any class when labels are ranked: none is impossible.
_POSSIBLE = 0.1


def split_rows(n_rows: int, n_classes: int) -> list[slice]:
    """Split rows into parts whose votes fit into bounded memory."""
    step = max(1, _AT_ONCE // n_classes)
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def max_rate(n_classes: int) -> float:
    """Return the largest rate that is believed; at ``1 - 1 / n_classes`` labels would carry no information."""
    return 0.9 * (1.0 - 1.0 / n_classes)


@stored(rate=Number(0.0, 1.0), n_classes=Count(2, size="c"), matrix=Maybe(ArrayOf("c", "c", low=0.0, high=1.0)))
class NoiseModel:
    """Probabilities with which a row of one class is labelled as another.

    Parameters
    ----------
    rate : float
        Share of wrong labels.
    n_classes : int
        Number of classes.
    matrix : ndarray of shape (n_classes, n_classes) or None, default=None
        ``matrix[k, j]`` is the probability that a row of class k is labelled j; None is uniform noise.

    Examples
    --------
    >>> NoiseModel(0.1, 2).probability_right(np.array([[0.9, 0.1], [0.5, 0.5]]), np.array([1, 1])).round(2).tolist()
    [0.5, 0.9]
    >>> only_zero_is_mistaken = NoiseModel(0.1, 2, np.array([[0.8, 0.2], [0.0, 1.0]]))
    >>> shares = np.array([[0.5, 0.5], [0.5, 0.5]])
    >>> only_zero_is_mistaken.probability_right(shares, np.array([0, 1])).round(2).tolist()
    [1.0, 0.83]
    """

    def __init__(self, rate: float, n_classes: int, matrix: Array | None = None):
        self.rate, self.n_classes, self.matrix = float(rate), n_classes, matrix

    @property
    def rates(self) -> Array:
        """Share of wrong labels among the rows of every class."""
        if self.matrix is None:
            return np.full(self.n_classes, self.rate)
        return 1.0 - np.diag(self.matrix)

    def true_shares(self, votes: Array) -> Array:
        """Shares of the true classes, from shares of the labels as given."""
        if self.matrix is None:
            rate, other = self._uniform()
            found = (votes - other) / (1.0 - rate - other)
        else:
            found = votes @ np.linalg.pinv(self.matrix)
        found = np.maximum(found, _FLOOR / self.n_classes)
        shares: Array = found / found.sum(axis=1, keepdims=True)
        return shares

    def expected_wrong(self, counts: NDArray[np.integer]) -> Array:
        """Expected number of wrong labels of each class, given the label counts.

        Examples
        --------
        >>> NoiseModel(0.1, 2).expected_wrong(np.array([910, 190])).round().tolist()  # 100 of 1,000, 10 of 100 flipped
        [10.0, 100.0]
        """
        n = counts.sum()
        if self.matrix is None:
            rate, other = self._uniform()
            true = np.clip((counts - other * n) / (1.0 - rate - other), 0.0, n)
            return other * (n - true)
        true = np.clip(counts @ np.linalg.pinv(self.matrix), 0.0, n)
        found: Array = true @ self.matrix - true * np.diag(self.matrix)
        return found

    def _uniform(self) -> tuple[float, float]:
        """Rate and probability of any one wrong label; at a higher rate votes would mean nothing, or the opposite."""
        rate = min(self.rate, max_rate(self.n_classes))
        return rate, rate / (self.n_classes - 1)

    def lift_zeros(self, votes: Array) -> Array:
        """Votes that need no correction because their weights tell right labels from wrong ones; none stays zero."""
        shares: Array = votes + _FLOOR / self.n_classes
        return shares / shares.sum(axis=1, keepdims=True)

    def probability_right(self, shares: Array, codes: Codes) -> Array:
        """Probability that a label is right, by Bayes' rule, where ``shares`` are those of the true classes."""
        own = shares[np.arange(len(codes)), codes]
        if self.matrix is None:
            kept = (1.0 - self.rate) * own
            all_ways = (1.0 - self.rate) * own + self.rate / (self.n_classes - 1) * (1.0 - own)
        else:
            kept = self.matrix[codes, codes] * own
            all_ways = np.einsum("ij,ji->i", shares, self.matrix[:, codes])
        found: Array = np.divide(kept, all_ways, out=np.ones_like(own), where=all_ways > 0)
        return found

    def joint(self, shares: Array, codes: Codes) -> Array:
        """Shares of the true classes times the probability that a row of each gets the given label, up to a factor.

        The column of the given label is not scaled and does not count.
        """
        return shares if self.matrix is None else shares * self.matrix[:, codes].T

    def relative_likelihood(self, shares: Array, codes: Codes) -> Array:
        """Shares of the true classes, each times how much more often than usual it gets the given label."""
        if self.matrix is None:
            return shares
        is_other = ~np.eye(self.n_classes, dtype=bool)
        usual = np.where(is_other, self.matrix[is_other].mean(), np.diag(self.matrix).mean())
        factors = np.maximum(self.matrix / np.maximum(usual, 1e-12), _POSSIBLE)[:, codes].T
        found: Array = shares * factors
        return found


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


def rate_labels(votes_on: VotesOn, codes: Codes, noise: NoiseModel) -> tuple[Array, Array]:
    """Do the same as the last round of `judge_labels`, by votes that need no correction."""
    n, n_classes = len(codes), noise.n_classes
    plausibility, score = np.ones(n), np.empty(n)
    for part in split_rows(n, n_classes):
        shares = noise.lift_zeros(votes_on(part))
        if noise.rate > 0.0:
            plausibility[part] = np.maximum(noise.probability_right(shares, codes[part]), SMALLEST)
        score[part] = score_labels(noise.relative_likelihood(shares, codes[part]), codes[part])
    return plausibility, score


def score_labels(shares: Array, codes: Codes) -> Array:
    """Return the share of each row's label against the best other one; below 1/2 another label has more."""
    others, at = shares.copy(), np.arange(len(codes))
    own = shares[at, codes]
    others[at, codes] = 0.0
    both = own + others.max(axis=1)
    found: Array = np.divide(own, both, out=np.full(len(own), 0.5), where=both > 0)
    return found


def suggest_labels(
    joint: Callable[[Codes], Array], codes: Codes, plausibility: Array, is_suspect: Mask, n_classes: int
) -> tuple[Codes, Array]:
    """Suggest a class for every row, with the probability that it is right.

    A row that is not a suspect keeps its label, which is right with the row's plausibility q. A suspect gets the best
    other class. Class k has the probability ``(1 - q) t_k / (sum of t over all other classes)``, where t is the share
    of k in the votes times the probability that a row of class k is labelled as this one is; ``joint(rows)`` gives it
    for some rows, up to a factor (`NoiseModel.joint`).
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
