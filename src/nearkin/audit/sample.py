"""Checked by sample: what a few rows that a person checked say about all labels, whatever made labels wrong.

Rows are drawn uniformly without replacement, and are answered in the order of the draw. The label of row i is wrong
(w_i = 1) or right (0), and the audit holds it for wrong with probability p_i, which may be anything. Draws are uniform:
to prefer doubtful rows gives the others weights above 1, and widens the interval.

**Theorem.** Let the labels of N rows be wrong in the share m. Before draw t, of the rows that are left the share m_t =
(N m - wrong ones so far) / (N - t + 1) is wrong, and their mean p is q_t, which is known. Let a trust c_t in [0, 1] and
a stake l_t >= 0 be chosen before the draw. Then e_t = w_t - m_t - c_t (p_t - q_t) has the mean 0, and is never below
-b_t with b_t = m_t + c_t (max p - q_t). With l_t < 1 / b_t the capital prod (1 + l_t e_t) is a positive martingale from
1. By Ville's inequality it ever reaches 40 with probability at most 1/40. Hence the shares at which it ever did are
refuted, a second gambler on 1 - w and 1 - p refutes at the other end, and the interval of the shares that are left
holds m with probability 0.95 at once for every number of answers: one may stop whenever one likes.

The trust is the slope of w on p in the answers so far, begun at 1 with the weight of four answers of usual spread: an
audit that knows makes the interval narrow, one that does not is soon ignored. The stakes follow Waudby-Smith and Ramdas
(2024): sqrt(2 log 40 / (n s^2)) with the variance s^2 of w - c p so far, but at most 0.9 / b_t. Here n is fifty, or the
number of answers once there are more. It is never the number of rows that were drawn, because a person may draw more
of them after a look at the interval. Capital falls as the share in question grows, so that halving a range finds the
end.

The draws that fall within the first k rows of the ranking are drawn uniformly from these, so the same holds for the
precision there. Each interval holds with probability 0.95 by itself, not all of them together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearkin.arrays import Array, Index, Mask
from nearkin.errors import InputError
from nearkin.settings import Integer, check_argument

__all__ = [
    "ANSWERS", "CheckedLabels", "Precision", "ReviewSample", "check_sample", "draw_sample", "sample_arrays",
]  # fmt: skip

#: What a person may answer, and the least and the most that it can mean for a label to be wrong.
ANSWERS = {"right": (0.0, 0.0), "wrong": (1.0, 1.0), "unsure": (0.0, 1.0)}

#: Rows judged right or wrong from which on there is advice where to stop, and the page's headline says "checked"; of a
#: small table this share of its rows.
_ENOUGH, _ENOUGH_OF = 30, 0.6

#: Distance of the ends from the middle of an interval that is useful.
_USEFUL = 0.05

#: Error of one side.
_ALPHA = 0.025
#: Answers for which stakes are planned; with more of them stakes fall.
_PLANNED = 50.0
#: Share of the capital that may be lost with one bet: one surprise must not end the game.
_STAKE = 0.9
#: Answers that the audit's own guess counts for, in estimates and as the first variance; and as the first trust.
_PRIOR, _TRUSTED = 3.0, 4.0
#: Least variance and bound: none is 0.
_LEAST = 1e-6
#: Halvings of the range of shares: ends are exact to 1e-12.
_HALVINGS = 40
#: Depths of the ranking whose precision is told.
_DEPTHS = 40


@dataclass(frozen=True, repr=False)
class ReviewSample:
    """Rows to check by hand in their order, and what the formulas need; made by `LabelAudit.review_sample`.

    Parameters
    ----------
    rows : ndarray of int of shape (n,)
        Rows, in the order in which to answer; each once.
    guess : ndarray of shape (n,)
        Probability that the label of each is wrong, by the audit.
    rank : ndarray of int of shape (n,)
        Place of each in the ranking of the audit, from 0.
    depth : ndarray of int of shape (n_depths,)
        Depths of the ranking, growing; the last is the number of all rows.
    mean, least, most, spread : ndarray of shape (n_depths,)
        Of the guesses down to each depth: mean, smallest, largest, and the mean of guess * (1 - guess).

    Examples
    --------
    >>> sample = draw_sample(np.full(100, 0.1), np.arange(100), 5, random_state=0)
    >>> len(sample.to_review), sample.n_rows, round(float(sample.mean[-1]), 6)
    (5, 100, 0.1)
    """

    rows: Index
    guess: Array
    rank: Index
    depth: Index
    mean: Array
    least: Array
    most: Array
    spread: Array

    def __repr__(self) -> str:
        return f"ReviewSample({len(self.rows)} of {self.n_rows:,} rows)"

    @property
    def to_review(self) -> Index:
        """Rows to check, in the order in which to answer."""
        return self.rows

    @property
    def n_rows(self) -> int:
        """Number of all rows."""
        return int(self.depth[-1])

    @property
    def mean_guess(self) -> float:
        """Share of wrong labels that the audit expects."""
        return float(self.mean[-1])

    @property
    def n_enough(self) -> int:
        """Rows judged right or wrong that are enough for advice: thirty, or three fifths of a small table."""
        return min(_ENOUGH, math.ceil(_ENOUGH_OF * self.n_rows))


@dataclass(frozen=True)
class Precision:
    """Share of wrong labels among the first ``depth`` rows of the ranking: estimate, and ends of its interval.

    Parameters
    ----------
    depth : int
        Number of rows from the top of the ranking.
    estimate, low, high : float
        The share, and its 95 % interval.

    Examples
    --------
    >>> sample = draw_sample(np.full(100, 0.1), np.arange(100), 40, random_state=0)
    >>> found = check_sample(sample, dict.fromkeys(sample.to_review.tolist(), "wrong"))
    >>> found.precision[-1].depth, found.precision[-1].low > 0.8
    (100, True)
    """

    depth: int
    estimate: float
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class CheckedLabels:
    """What checked rows say about all labels; made by `LabelAudit.verified`.

    Parameters
    ----------
    noise_rate : float
        Estimated share of wrong labels. The guess of the audit counts as much as three answers, and rows about which
        nobody can tell count for nothing: they only widen the interval.
    noise_interval : tuple of float
        Its 95 % interval, which holds whatever made labels wrong, and however many rows were answered.
    n_answered : int
        Answers that count: those before the first row of the sample without one.
    n_wrong, n_unsure : int
        Wrong labels among them, and rows about which nobody can tell.
    n_ignored : int
        Other answers: given out of turn, or about rows outside of the sample.
    precision : tuple of Precision
        Share of wrong labels down to some depths of the ranking.
    stop : int
        Where to stop checking: the depth at which wrong rows outnumber right ones by most, by the estimates, which few
        answers hardly move: take the advice once it ``is_enough``. 0 where no depth is worth it.
    is_enough : bool
        Whether thirty rows were judged right or wrong, or three fifths of a small table.

    Examples
    --------
    >>> sample = draw_sample(np.full(100, 0.1), np.arange(100), 40, random_state=0)
    >>> found = check_sample(sample, dict.fromkeys(sample.to_review.tolist(), "right"))
    >>> print(found)
    checked: 0.7 % of labels are wrong (95 % interval 0.0 % to 7.6 %; 40 rows checked, 0 wrong); no part of ...
    """

    noise_rate: float
    noise_interval: tuple[float, float]
    n_answered: int
    n_wrong: int
    n_unsure: int
    n_ignored: int
    precision: tuple[Precision, ...]
    stop: int
    is_enough: bool

    def __repr__(self) -> str:
        return str(self)

    @property
    def n_useful(self) -> int:
        """About how many answers in all bring the interval to 5 points either side; 0 where it is there already.

        Widths fall about as the root of the number of answers, so that is a rough figure; at most it is all rows.
        """
        low, high = self.noise_interval
        times = ((high - low) / (2.0 * _USEFUL)) ** 2
        if times <= 1.0 or not self.n_answered:
            return 0
        return min(self.precision[-1].depth, 10 * math.ceil(self.n_answered * times / 10.0))

    def __str__(self) -> str:
        low, high = self.noise_interval
        end = f"stop after {self.stop:,} rows of the ranking"
        if not self.is_enough:
            end = "too few to tell where to stop"
        elif not self.stop:
            end = "no part of the ranking is wrong more often than right"
        if self.is_enough and self.n_useful:
            end += f"; about {self.n_useful:,} answers in all would bring the interval to +-5 points"
        others = ((self.n_unsure, "unsure"), (self.n_ignored, "ignored"))
        more = "".join(f", {n} {what}" for n, what in others if n)
        return (
            f"checked: {100 * self.noise_rate:.1f} % of labels are wrong (95 % interval {100 * low:.1f} % to "
            f"{100 * high:.1f} %; {self.n_answered} rows checked, {self.n_wrong} wrong{more}); {end}"
        )


def draw_sample(guess: Array, order: Index, n: int = 50, random_state: Any = 0) -> ReviewSample:
    """Draw rows to check.

    Parameters
    ----------
    guess : ndarray of shape (n_rows,)
        Probability that each label is wrong; it may be bad.
    order : ndarray of int of shape (n_rows,)
        Rows in the order of the ranking.
    n : int, default=50
        Number of rows; at most all.
    random_state : int, Generator or None, default=0
        Seed of the draw.
    """
    check_argument("review_sample", "n", n, Integer(1, 1_000_000))
    size = len(guess)
    rows = np.random.default_rng(random_state).permutation(size)[:n].astype(np.int64)  # more rows begin with these
    rank = np.empty(size, dtype=np.int64)
    rank[order] = np.arange(size)
    depth = np.unique(np.geomspace(min(10, size), size, _DEPTHS).round().astype(np.int64))
    ranked = np.asarray(guess, dtype=np.float64)[order]
    at = depth - 1
    return ReviewSample(
        rows, np.asarray(guess, dtype=np.float64)[rows], rank[rows], depth,
        mean=np.cumsum(ranked)[at] / depth,
        least=np.minimum.accumulate(ranked)[at],
        most=np.maximum.accumulate(ranked)[at],
        spread=np.cumsum(ranked * (1.0 - ranked))[at] / depth,
    )  # fmt: skip


def sample_arrays(sample: ReviewSample) -> dict[str, Array | Index]:
    """Return the numbers of a sample by name, as the page's script takes them: of the draws, then of the depths."""
    names = ("guess", "rank", "depth", "mean", "least", "most", "spread")
    return {"row": sample.rows, **{name: getattr(sample, name) for name in names}}


def check_sample(sample: ReviewSample, answers: Mapping[int, Any]) -> CheckedLabels:
    """Compute what answers say; see `CheckedLabels`.

    Parameters
    ----------
    sample : ReviewSample
        The rows that were drawn.
    answers : mapping of int to {"right", "wrong", "unsure"} or bool
        Answer about the label of each row; True is right. Those after the first row without an answer are ignored.
    """
    if not isinstance(answers, Mapping):
        raise InputError(
            f"answers must be a mapping from rows to answers; got {type(answers).__name__}. Those that the page "
            "exports are `audit.apply(FILE).answers`.",
            owner="verified",
        )
    known = {_check_row(row, sample.n_rows): _check_answer(row, one) for row, one in answers.items()}
    given = [known.get(row) for row in sample.rows.tolist()]
    n = next((i for i, one in enumerate(given) if one is None), len(given))
    said = [one for one in given[:n] if one is not None]
    wrong = np.array([ANSWERS[one] for one in said], dtype=np.float64).reshape(n, 2).T
    inside = sample.rank[:n] < sample.depth[:, None]
    low, high = bound_shares(
        wrong[:, None], sample.guess[:n], inside, sample.depth, sample.mean, sample.least, sample.most, sample.spread,
        np.maximum(1.0, _PLANNED * sample.depth / sample.n_rows),
    )  # fmt: skip
    judged = inside & (wrong[0] == wrong[1])  # estimates rest on what could be told
    trust = _follow(wrong[0], sample.guess[:n], judged, sample.depth, sample.mean, sample.spread).trust[-1]
    shares = np.where(judged, wrong[0] - trust[:, None] * (sample.guess[:n] - sample.mean[:, None]), 0.0).sum(axis=1)
    n_judged = judged.sum(axis=1)
    whole = (_PRIOR * sample.mean[-1] + shares[-1]) / (n_judged[-1] + _PRIOR)
    # What the audit expects of a part counts as far as it was right about the whole.
    expected = np.clip(whole + trust[-1] * (sample.mean - sample.mean[-1]), 0.0, 1.0)
    expected[-1] = sample.mean[-1]
    estimate = np.clip((_PRIOR * expected + shares) / (n_judged + _PRIOR), low, high)
    lead = sample.depth * (2.0 * estimate - 1.0)
    best = int(np.argmax(lead))
    told = zip(sample.depth.tolist(), estimate.tolist(), low.tolist(), high.tolist(), strict=True)
    return CheckedLabels(
        noise_rate=float(estimate[-1]),
        noise_interval=(float(low[-1]), float(high[-1])),
        n_answered=n,
        n_wrong=said.count("wrong"),
        n_unsure=said.count("unsure"),
        n_ignored=len(known) - n,
        precision=tuple(Precision(*one) for one in told),
        stop=int(sample.depth[best]) if lead[best] > 0 else 0,
        is_enough=bool(n_judged[-1] >= sample.n_enough),
    )


def bound_shares(
    wrong: Array, guess: Array, inside: Mask, size: Any, mean: Any, least: Any, most: Any, spread: Any, plan: Any
) -> tuple[Array, Array]:
    """Return both ends of the share of wrong labels, of many samples at once.

    Parameters
    ----------
    wrong : ndarray of shape (2, ..., n)
        The least and the most that every answer may mean, 0 or 1.
    guess : ndarray of shape (..., n)
        Probability that the label is wrong, by the audit.
    inside : ndarray of bool of shape (..., n)
        Draws that belong to the rows in question.
    size, mean, least, most, spread : ndarray of shape (...)
        Number of these rows; mean, smallest and largest of their guesses, and the mean of guess * (1 - guess).
    plan : ndarray of shape (...)
        How many of the answers for which stakes are planned are about these rows.

    Returns
    -------
    low, high : ndarray of shape (...)
        The ends.
    """
    mean, size = np.asarray(mean, dtype=np.float64), np.asarray(size, dtype=np.float64)
    low = _refute(wrong[0], guess, inside, size, mean, most, spread, plan)
    high = 1.0 - _refute(1.0 - wrong[1], 1.0 - guess, inside, size, 1.0 - mean, 1.0 - np.asarray(least), spread, plan)
    # A count of answers is certain, whatever a gambler thinks of it.
    proven = np.where(inside, wrong[0], 0.0).sum(axis=-1) / size
    open_ = 1.0 - np.where(inside, 1.0 - wrong[1], 0.0).sum(axis=-1) / size
    low, high = np.clip(low, proven, open_), np.clip(high, proven, open_)
    return np.minimum(low, high), np.maximum(low, high)


@dataclass(frozen=True)
class _Course:
    """What is known before each draw, a list entry each; of the trust one more, after the last draw.

    ``total`` counts wrong labels so far, ``left`` the rows not yet drawn, ``usual`` is their mean guess, and
    ``variance`` that of the answers, as far as the guesses do not explain them.
    """

    total: list[Array]
    left: list[Array]
    usual: list[Array]
    trust: list[Array]
    variance: list[Array]


def _follow(wrong: Array, guess: Array, inside: Mask, size: Array | Index, mean: Array, spread: Array) -> _Course:
    """Follow the answers; see the module for the trust."""
    spread = np.maximum(spread, _LEAST)
    known = _TRUSTED * np.maximum(mean * (1.0 - mean) - spread, _LEAST)  # the variance of all guesses, and its weight
    total = seen = common = squares = guessed = np.zeros(inside.shape[:-1])
    course, unexplained = _Course([], [], [], [], []), _PRIOR * spread
    for t in range(inside.shape[-1]):
        now = inside[..., t]
        answer, said = np.where(now, wrong[..., t], 0.0), np.where(now, guess[..., t], 0.0)
        left = np.maximum(size - seen, 1.0)
        usual, trust = (size * mean - guessed) / left, np.clip((known + common) / (known + squares), 0.0, 1.0)
        course.total.append(total)
        course.left.append(left)
        course.usual.append(usual)
        course.trust.append(trust)
        course.variance.append(unexplained / (_PRIOR + seen))
        beyond, above = answer - (total + _PRIOR * mean) / (seen + _PRIOR), said - mean
        unexplained = unexplained + np.where(now, (beyond - trust * (said - usual)) ** 2, 0.0)
        common = common + np.where(now, beyond * above, 0.0)
        squares = squares + np.where(now, above * above, 0.0)
        total, seen, guessed = total + answer, seen + now, guessed + said
    course.trust.append(np.clip((known + common) / (known + squares), 0.0, 1.0))
    return course


def _refute(
    wrong: Array, guess: Array, inside: Mask, size: Array, mean: Array, most: Array, spread: Array, plan: Array
) -> Array:
    """Return the largest share that a gambler on a larger one refutes; no guess is above ``most``."""
    course = _follow(wrong, guess, inside, size, mean, spread)
    low, high = np.zeros(inside.shape[:-1]), np.ones(inside.shape[:-1])
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        capital = largest = np.ones(inside.shape[:-1])
        for t in range(inside.shape[-1]):  # all but the answer is known before the draw
            share = np.maximum((size * middle - course.total[t]) / course.left[t], 0.0)
            bound = share + course.trust[t] * (most - course.usual[t])
            answers = np.maximum(plan, size - course.left[t] + 1.0)
            stake = np.sqrt(2.0 * math.log(1.0 / _ALPHA) / (answers * course.variance[t]))
            stake = np.minimum(stake, _STAKE / np.maximum(bound, _LEAST))
            gain = wrong[..., t] - share - course.trust[t] * (guess[..., t] - course.usual[t])
            capital = np.where(inside[..., t], capital * np.maximum(1.0 + stake * gain, 0.0), capital)
            largest = np.maximum(largest, capital)
        is_refuted = largest >= 1.0 / _ALPHA
        low, high = np.where(is_refuted, middle, low), np.where(is_refuted, high, middle)
    return low


def _check_row(row: Any, n_rows: int) -> int:
    if isinstance(row, (bool, np.bool_)) or not Integer(0).allows(row) or row >= n_rows:
        raise InputError(
            f"answers must be about rows, whole numbers from 0 to {n_rows - 1}; got {row!r}. Take them from "
            "ReviewSample.to_review.",
            owner="verified",
        )
    return int(row)


def _check_answer(row: Any, answer: Any) -> str:
    if isinstance(answer, (bool, np.bool_)):
        return "right" if answer else "wrong"
    if not isinstance(answer, str) or answer not in ANSWERS:
        raise InputError(
            f"the answer about row {row} must be 'right', 'wrong' or 'unsure', or True for right and False for wrong; "
            f"got {answer!r}. Leave rows out that nobody answered.",
            owner="verified",
        )
    return str(answer)
