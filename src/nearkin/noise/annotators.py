"""Several answers per row: how often each annotator is right, and what the answers say together.

Row i has a true class c. Annotator a gives the answer l with the probability ``confusion[a, c, l]``. Votes, such as
those of a jury that has not seen the answers to row i, say beforehand how likely each class is; without votes this is
the share of the class. Bayes' rule joins them::

    shares[i, c]  ~  votes[i, c] * product over the answers l of row i of confusion[a, c, l] ** trust

and the shares tell the confusions (Dawid and Skene, 1979). Three things differ from the classic form. A confusion is
drawn to what all annotators do, at the annotator's own rate of mistakes, since most give few answers. The answer of a
row does not count in the confusion that judges it. And ``trust``, at most 1, takes into account that annotators
err on the same rows: it is the one with which the other answers and the votes predict an answer best (1 without votes).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearkin.arrays import Array, Codes, Index
from nearkin.memory import check_memory

__all__ = ["AnswerCodes", "PooledAnswers", "pool_answers"]

#: Answers of each class that the habits of all annotators count for, beside an annotator's own; and those that the
#: common rate of mistakes counts for.
_PRIOR = 10.0
#: How far answers are trusted, to choose from.
_TRUST = (0.4, 0.6, 0.8, 1.0)
#: Steps at most, and the change of a share at which they end.
_STEPS, _STILL = 60, 1e-4
#: Least share of a class by the votes: no vote is beyond doubt.
_LEAST = 1e-4
#: Answers that the quality of all counts for in the interval of one.
_SHRINK = 4.0
#: Ends of the interval of a quality.
_ENDS = (0.025, 0.975)


@dataclass(frozen=True)
class AnswerCodes:
    """Answers as whole numbers.

    Parameters
    ----------
    row, annotator, code : ndarray of int64 of shape (n_answers,)
        Row, annotator and class of each answer, from 0.
    n_rows, n_annotators, n_classes : int
        How many there are, with those without an answer.

    Examples
    --------
    >>> answers = AnswerCodes(np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([1, 1, 0]), 2, 2, 2)
    >>> answers.counts().tolist()
    [[0.0, 2.0], [1.0, 0.0]]
    """

    row: Index
    annotator: Index
    code: Codes
    n_rows: int
    n_annotators: int
    n_classes: int

    def counts(self) -> Array:
        """Return how often each class was given for each row."""
        k = self.n_classes
        found = np.bincount(self.row * k + self.code, minlength=self.n_rows * k)
        return found.reshape(self.n_rows, k).astype(np.float64)


@dataclass(frozen=True)
class PooledAnswers:
    """What answers say together.

    Parameters
    ----------
    shares : ndarray of shape (n_rows, n_classes)
        Probabilities of the true classes.
    confusion : ndarray of shape (n_annotators, n_classes, n_classes)
        Probability of each answer (last) of an annotator on rows of a true class.
    quality, low, high : ndarray of shape (n_annotators,)
        Probability that an answer of the annotator is right, with its 95 % interval. Its lower end comes from shares
        without the own answers: nobody vouches for himself.
    trust : float
        How far answers are taken as independent of each other.
    score : float
        Mean logarithm of the probability that the other answers and the votes give to an answer.

    Examples
    --------
    >>> answers = AnswerCodes(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1]), 2, 2, 2)
    >>> pool_answers(answers).shares.argmax(axis=1).tolist()
    [0, 1]
    """

    shares: Array
    confusion: Array
    quality: Array
    low: Array
    high: Array
    trust: float
    score: float


def pool_answers(answers: AnswerCodes, votes: Array | None = None) -> PooledAnswers:
    """Find the shares of the true classes and the confusions of the annotators.

    Parameters
    ----------
    answers : AnswerCodes
        At least one.
    votes : ndarray of shape (n_rows, n_classes) or None, default=None
        Shares of the classes by voters that have not seen the answers to the row; None has only the answers.

    Returns
    -------
    PooledAnswers
        With the trust that predicts left-out answers best.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(0, 2, 200)
    >>> right = rng.random((200, 5)) < [0.95, 0.9, 0.85, 0.5, 0.5]  # the last two guess
    >>> row, annotator = np.divmod(np.arange(1000), 5)
    >>> code = np.where(right, truth[:, None], 1 - truth[:, None]).ravel()
    >>> pooled = pool_answers(AnswerCodes(row, annotator, code, 200, 5, 2))
    >>> bool((pooled.shares.argmax(axis=1) == truth).mean() > 0.95), bool(pooled.quality[3] < 0.65)
    (True, True)
    """
    k, n_cells = answers.n_classes, answers.n_annotators * answers.n_classes**2
    check_memory(
        8.0 * (4 * n_cells + 5 * k * len(answers.row) + 4 * k * answers.n_rows),
        f"confusions of {answers.n_annotators:,} annotators and {k:,} classes",
        "Take a group of classes at a time, or join annotators with few answers.", "pool_answers",
    )  # fmt: skip
    # Answers alone do not tell how far they depend on each other.
    tried = _TRUST if votes is not None else (1.0,)
    return max((_pool(answers, votes, trust) for trust in tried), key=lambda one: one.score)


def _pool(answers: AnswerCodes, votes: Array | None, trust: float) -> PooledAnswers:
    row, annotator, code = answers.row, answers.annotator, answers.code
    n, k = answers.n_rows, answers.n_classes
    prior = None if votes is None else np.log(np.maximum(votes, _LEAST))
    start = np.log(answers.counts() + 0.1 / k)
    shares = _normalise(start if prior is None else start + prior)
    for _ in range(_STEPS):
        counts = _count_confusions(answers, shares)
        usual = _usual_confusions(counts)
        own = shares[row]
        given = np.maximum(counts[annotator, :, code] - own, 0.0) + _PRIOR * usual[annotator, :, code]
        likely = np.log(given / (np.maximum(counts.sum(axis=2)[annotator] - own, 0.0) + _PRIOR))
        if prior is None:
            total = np.tile(np.log((shares.sum(axis=0) + 1.0) / (n + k)), (n, 1))
        else:
            total = _log_normalise(prior)
        for c in range(k):
            total[:, c] += trust * np.bincount(row, weights=likely[:, c], minlength=n)
        before, shares = shares, _normalise(total)
        if np.abs(shares - before).max() < _STILL:
            break
    without = _normalise(total[row] - trust * likely)  # as if this answer had not been given
    score = float(np.log((without * np.exp(likely)).sum(axis=1)).mean())
    counts = _count_confusions(answers, shares)
    confusion = counts + _PRIOR * _usual_confusions(counts)
    confusion /= confusion.sum(axis=2, keepdims=True)
    quality, _, high = _rate_annotators(answers, shares[row, code])
    _, low, _ = _rate_annotators(answers, without[np.arange(len(row)), code])
    return PooledAnswers(shares, confusion, quality, np.minimum(low, quality), high, trust, score)


def _normalise(logs: Array) -> Array:
    return np.exp(_log_normalise(logs))


def _log_normalise(logs: Array) -> Array:
    logs = logs - logs.max(axis=1, keepdims=True)
    return logs - np.log(np.exp(logs).sum(axis=1, keepdims=True))


def _count_confusions(answers: AnswerCodes, shares: Array) -> Array:
    """Return how often an annotator (first) gave an answer (last) on rows of a class, counting rows by their shares."""
    m, k = answers.n_annotators, answers.n_classes
    place = answers.annotator * k + answers.code
    own = shares[answers.row]
    found = [np.bincount(place, weights=own[:, c], minlength=m * k).reshape(m, k) for c in range(k)]
    return np.stack(found, axis=1)


def _usual_confusions(counts: Array) -> Array:
    """Return what all annotators do, brought to each annotator's own odds of being right."""
    k = counts.shape[1]
    same = np.eye(k)
    pooled = counts.sum(axis=0) + 0.5 / k + same
    pooled /= pooled.sum(axis=1, keepdims=True)
    right, total = np.einsum("acc->a", counts), counts.sum(axis=(1, 2))
    common = np.clip(right.sum() / total.sum(), 0.01, 0.99)
    ability = np.clip((right + _PRIOR * common) / (total + _PRIOR), 0.01, 0.99)
    hit = np.clip(np.diagonal(pooled), 0.01, 0.99)
    odds = (ability / (1 - ability))[:, None] * (hit / (1 - hit)) * (1 - common) / common
    own_hit = odds / (1.0 + odds)
    missed = pooled * (1.0 - same)
    missed /= missed.sum(axis=1, keepdims=True)
    made: Array = missed * (1.0 - own_hit)[:, :, None] + same * own_hit[:, :, None]
    return made


def _rate_annotators(answers: AnswerCodes, right: Array) -> tuple[Array, Array, Array]:
    """Return the quality of every annotator, from the probability that each answer is right, and its interval.

    The interval has two parts: few answers say little about an annotator, and which of them are right is uncertain.
    """
    from scipy.stats import beta

    m = answers.n_annotators
    n = np.bincount(answers.annotator, minlength=m)
    hits = np.bincount(answers.annotator, weights=right, minlength=m)
    doubt = np.bincount(answers.annotator, weights=right * (1.0 - right), minlength=m)
    mean = np.clip((hits + _SHRINK * right.mean()) / (n + _SHRINK), 0.005, 0.995)
    variance = mean * (1.0 - mean) / (n + _SHRINK + 1.0) + doubt / (n + _SHRINK) ** 2
    size = np.maximum(mean * (1.0 - mean) / variance - 1.0, 1.0)
    low, high = (beta.ppf(one, mean * size, (1.0 - mean) * size) for one in _ENDS)
    return mean, np.minimum(low, mean), np.maximum(high, mean)
