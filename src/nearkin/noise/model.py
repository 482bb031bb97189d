"""How labels go wrong, uniformly or by class, and what the votes then say about each label.

A model gives the probability that a label is right, and the label that fits better; `estimate` finds the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import SMALLEST, Array, Codes, Index, Mask
from nearkin.stored import ArrayOf, Count, Items, Maybe, Number, stored

__all__ = [
    "NoiseModel", "VotesOn", "agree_with_tiers", "judge_labels", "max_rate", "rate_labels", "score_labels",
    "split_rows", "spread_rows", "suggest_labels", "uniform_flips",
]  # fmt: skip

#: Votes on some rows, chosen by a slice or by their positions: shares of shape (n_rows, n_classes).
VotesOn = Callable[[Any], Array]

#: Most votes, rows times classes, held at once.
_AT_ONCE = 1 << 22

#: Most rows that are voted on at once.
_ROWS_AT_ONCE = 1 << 17

#: Rounds of voting, each with the weights found before.
_ROUNDS = 3

#: Smallest share of a class, times the number of classes, before shares are normalised.
_FLOOR = 2e-3

#: Powers of shares to choose from, and most rows and votes that the choice rests on.
_SHARPNESS = np.geomspace(0.5, 8.0, 17)
_JUDGED = 4000
_JUDGED_VOTES = 1 << 20

#: Probability that the label of a suspect is wrong, at least.
_WRONG_AT_LEAST = 0.4

#: Smallest part of the usual probability that a label gets from any class when labels are ranked: none is impossible.
_POSSIBLE = 0.1


def split_rows(n_rows: int, n_classes: int) -> list[slice]:
    """Split rows into parts whose votes fit into bounded memory."""
    step = max(1, min(_ROWS_AT_ONCE, _AT_ONCE // n_classes))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def max_rate(n_classes: int) -> float:
    """Return the largest rate that is believed; at ``1 - 1 / n_classes`` labels would carry no information."""
    return 0.9 * (1.0 - 1.0 / n_classes)


def spread_rows(n: int, most: int) -> Index:
    """At most ``most`` of n rows, evenly spread."""
    return np.linspace(0, n - 1, min(n, most)).astype(np.int64)


def uniform_flips(rate: float, n_classes: int) -> Array:
    """Probabilities of labels by class where all wrong labels are equally likely."""
    flips = np.full((n_classes, n_classes), rate / (n_classes - 1))
    flips[np.diag_indices(n_classes)] = 1.0 - rate
    return flips


@stored(
    rate=Number(0.0, 1.0),
    n_classes=Count(2, size="c"),
    matrix=Maybe(ArrayOf("c", "c", low=0.0, high=1.0)),
    prior=Number(0.0, 1.0),
    interval=Items(Number(0.0, 1.0), least=2),
    rates=ArrayOf("c", low=0.0, high=1.0),
    sharpness=Number(0.0, is_open=True),
    usual=ArrayOf("c", low=0.0, high=1.0),
)
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
    prior : float or None, default=None
        Share of wrong labels that judgements reckon with; None is the rate. An estimate of zero does not put every
        label beyond doubt.
    interval : tuple of float or None, default=None
        Ends of the interval for the rate; None for a rate that is known.
    rates : ndarray of shape (n_classes,) or None, default=None
        Share of wrong labels among the rows of every class; None is that of the matrix, or the rate. A matrix that is
        believed in part only lies nearer to uniform flips.

    Attributes
    ----------
    sharpness : float
        Power of the votes that fits the labels best; see `sharpen_for`.
    usual : ndarray of shape (n_classes,)
        Mean share of the votes for each class.

    Examples
    --------
    >>> NoiseModel(0.1, 2).probability_right(np.array([[0.9, 0.1], [0.5, 0.5]]), np.array([1, 1])).round(2).tolist()
    [0.5, 0.9]
    >>> only_zero_is_mistaken = NoiseModel(0.1, 2, np.array([[0.8, 0.2], [0.0, 1.0]]))
    >>> shares = np.array([[0.5, 0.5], [0.5, 0.5]])
    >>> only_zero_is_mistaken.probability_right(shares, np.array([0, 1])).round(2).tolist()
    [1.0, 0.83]
    """

    def __init__(
        self, rate: float, n_classes: int, matrix: Array | None = None, *, prior: float | None = None,
        interval: tuple[float, float] | None = None, rates: Array | None = None,
    ):  # fmt: skip
        self.rate, self.n_classes, self.matrix = float(rate), n_classes, matrix
        self.prior = self.rate if prior is None else float(prior)
        self.interval = (self.rate, self.rate) if interval is None else (float(interval[0]), float(interval[1]))
        if rates is None:
            rates = np.full(n_classes, self.rate) if matrix is None else 1.0 - np.diag(matrix)
        self.rates: Array = rates
        self.sharpness, self.usual = 1.0, np.full(n_classes, 1.0 / n_classes)

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
        rate = min(self.prior, max_rate(self.n_classes))
        return rate, rate / (self.n_classes - 1)

    def lift_zeros(self, votes: Array) -> Array:
        """Votes that need no correction because their weights tell right labels from wrong ones; none stays zero."""
        shares: Array = votes + _FLOOR / self.n_classes
        return shares / shares.sum(axis=1, keepdims=True)

    def sharpened(self, votes: Array) -> Array:
        """Votes as probabilities of the true classes, none of them zero: see `sharpen_for`."""
        return self._sharpened(votes, self.sharpness)

    def _sharpened(self, votes: Array, power: float) -> Array:
        shares: Array = self.usual * (self.lift_zeros(votes) / self.usual) ** power
        return shares / shares.sum(axis=1, keepdims=True)

    def sharpen_for(self, votes_on: VotesOn, codes: Codes) -> None:
        """Set `sharpness` to the power of the votes under which the labels as given are most likely.

        It is a power of how much more votes than usual a class has: that it is rare is not said twice. Averages over
        neighbours, and over voters, are less certain than they could be, the more so the more classes there are. What
        is contradicted because labels are wrong counts as such, so noise does not blur the choice.

        Examples
        --------
        >>> noise, codes = NoiseModel(0.1, 2), np.repeat([0, 1], 50)
        >>> noise.sharpen_for(np.where(codes[:, None] == [0, 1], 0.7, 0.3).__getitem__, codes)
        >>> noise.sharpness > 1.0
        True
        """
        n_asked = min(_JUDGED, max(1, _JUDGED_VOTES // self.n_classes))
        rows = spread_rows(len(codes), n_asked)
        votes, labels = votes_on(rows), codes[rows]
        self.usual = self.lift_zeros(votes).mean(axis=0)
        # Of few rows, all of them well told apart, any power would be likely: a lognormal prior keeps it near 1.
        found = [
            (self._likelihood_at(power, votes, labels) - 0.5 * math.log(power) ** 2, power) for power in _SHARPNESS
        ]
        self.sharpness = float(max(found)[1])

    def _likelihood_at(self, power: float, votes: Array, codes: Codes) -> float:
        shares = self._sharpened(votes, power)
        return float(np.log(np.maximum(self._label_shares(shares, codes), SMALLEST)).sum())

    def log_likelihood(self, votes: Array, codes: Codes) -> Array:
        """Log-likelihood of each label, where the votes are on the labels as given."""
        found: Array = np.log(np.maximum(self._label_shares(self.true_shares(votes), codes), SMALLEST))
        return found

    def _label_shares(self, shares: Array, codes: Codes) -> Array:
        """Probability of each label as given, from the shares of the true classes."""
        if self.matrix is not None:
            found: Array = np.einsum("ij,ji->i", shares, self.matrix[:, codes])
            return found
        own = shares[np.arange(len(codes)), codes]
        return (1.0 - self.prior) * own + self.prior / (self.n_classes - 1) * (1.0 - own)

    def probability_right(self, shares: Array, codes: Codes) -> Array:
        """Probability that a label is right, by Bayes' rule, where ``shares`` are those of the true classes."""
        own = shares[np.arange(len(codes)), codes]
        kept = (1.0 - self.prior) * own if self.matrix is None else self.matrix[codes, codes] * own
        all_ways = self._label_shares(shares, codes)
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
    for done in range(n_rounds if noise.prior > 0.0 else 1):
        votes_on, found = left_out(plausibility), np.ones(n)
        for part in split_rows(n, n_classes):
            votes = votes_on(part)
            shares = noise.lift_zeros(votes) if done or noise.prior <= 0.0 else noise.true_shares(votes)
            if noise.prior > 0.0:
                found[part] = np.maximum(noise.probability_right(shares, codes[part]), SMALLEST)
            # Corrected shares are cut at zero, where plain votes still tell rows apart.
            told = shares if noise.matrix is not None else noise.lift_zeros(votes)
            score[part] = score_labels(noise.relative_likelihood(told, codes[part]), codes[part])
        plausibility = found
    return plausibility, score


def rate_labels(votes_on: VotesOn, codes: Codes, noise: NoiseModel) -> tuple[Array, Array]:
    """Return the probability that each label is right, and its score, from votes in which doubtful labels count less.

    Parameters
    ----------
    votes_on : callable
        Shares of the votes on some rows by all others, which count by their plausibility.
    codes : ndarray of int64 of shape (n_samples,)
        Column of each row's label.
    noise : NoiseModel
        How labels go wrong, with the sharpness of these votes.

    Returns
    -------
    plausibility : ndarray of shape (n_samples,)
        Probability that the label is right, in (0, 1]; see `judge_labels`.
    score : ndarray of shape (n_samples,)
        Votes for the label against those for the best other one, in [0, 1]; with flips by class each counts by how much
        more often than usual its rows get the label.

    Examples
    --------
    >>> shares = np.array([[0.9, 0.1], [0.5, 0.5]])
    >>> plausibility, score = rate_labels(shares.__getitem__, np.array([1, 0]), NoiseModel(0.1, 2))
    >>> plausibility.round(2).tolist(), score.round(2).tolist()
    ([0.5, 0.9], [0.1, 0.5])
    """
    plausibility, score = np.ones(len(codes)), np.empty(len(codes))
    for part in split_rows(len(codes), noise.n_classes):
        shares = noise.sharpened(votes_on(part))
        if noise.prior > 0.0:
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


def agree_with_tiers(plausibility: Array, is_suspect: Mask) -> Array:
    """Return plausibilities of which those of suspects are 0.6 at most, and those of others 0.5 at least.

    The plausibility rests on a rate that wrong labels which follow the features escape, and of the suspects that only
    these explain, that share was right in the experiments of the documentation. Others whose plausibility would be less
    are of rare classes, of which right labels often look wrong, or the last of their class.
    """
    doubted = np.minimum(plausibility, 1.0 - _WRONG_AT_LEAST)
    found: Array = np.where(is_suspect, doubted, np.maximum(plausibility, 0.5))
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
