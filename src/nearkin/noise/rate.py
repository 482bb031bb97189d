"""How many labels are wrong: the share that confident votes contradict, and its interval."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array, Codes
from nearkin.errors import InputError
from nearkin.settings import Integer, Real

__all__ = [
    "LEVEL", "VotesOn", "certain_rate", "estimate_noise_rate", "max_rate", "rate_interval", "smoothed_rate",
    "split_rows", "survey",
]  # fmt: skip

#: Votes on some rows, chosen by a slice or by their positions: shares of shape (n_rows, n_classes).
VotesOn = Callable[[Any], Array]

#: Most votes, rows times classes, held at once.
_AT_ONCE = 1 << 22

#: Shares of the most certain rows that are counted; the smaller result is used.
_CERTAIN = (0.25, 0.5)

#: Share of the rows over which the smoothed contradiction is averaged.
_MOST_CERTAIN = 0.1

#: Share of intervals that should contain the true rate.
LEVEL = 0.95


def split_rows(n_rows: int, n_classes: int) -> list[slice]:
    """Split rows into parts whose votes fit into bounded memory.

    Examples
    --------
    >>> split_rows(10, 2), len(split_rows(10_000, 4000))
    ([slice(0, 10, None)], 10)
    """
    step = max(1, _AT_ONCE // n_classes)
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def survey(votes_on: VotesOn, n_rows: int, n_classes: int) -> tuple[Codes, Array]:
    """Return the class with most votes for every row, and its share.

    Examples
    --------
    >>> shares = np.array([[0.9, 0.1], [0.3, 0.7]])
    >>> [one.tolist() for one in survey(shares.__getitem__, 2, 2)]
    [[0, 1], [0.9, 0.7]]
    """
    predicted, certainty = np.empty(n_rows, np.int64), np.empty(n_rows)
    for part in split_rows(n_rows, n_classes):
        shares = votes_on(part)
        predicted[part] = shares.argmax(axis=1)
        certainty[part] = shares.max(axis=1)
    return predicted, certainty


def estimate_noise_rate(votes: Array, codes: Codes) -> float:
    """Estimate the share of wrong labels from the rows on which the votes are most certain.

    Near a boundary, votes also contradict right labels, so only confidently voted rows are used: there a contradiction
    is a wrong label. The estimate is the mean of two that err in opposite directions: the contradicted share among the
    most certain quarter or half, whichever is smaller, and the share at the most certain tenth after a monotone fit of
    contradiction to certainty, which lies at most one standard error below the first.

    Parameters
    ----------
    votes : ndarray of shape (n_samples, n_classes)
        Shares of the votes on each row, its own label left out.
    codes : ndarray of shape (n_samples,)
        Column of each row's label.

    Returns
    -------
    float
        Between 0 and 0.9 times the rate at which labels would carry no information, ``1 - 1 / n_classes``.

    Notes
    -----
    Assumes that wrong labels do not follow the features, and that no voter has seen the label it judges: a learned
    space agrees with its labels too well. Where classes truly overlap everywhere, the overlap counts as noise.

    Examples
    --------
    >>> votes = np.array([[0.9, 0.1]] * 4 + [[0.1, 0.9]] * 4 + [[0.6, 0.4]] * 8)
    >>> codes = np.array([1, 0, 0, 0] + [1] * 4 + [0] * 8)
    >>> estimate_noise_rate(votes, codes)
    0.09375
    """
    n_classes = votes.shape[1]
    predicted, certainty = survey(votes.__getitem__, len(codes), n_classes)
    return certain_rate(predicted != codes, certainty, n_classes)


def max_rate(n_classes: int) -> float:
    """Return the largest rate that is believed; at ``1 - 1 / n_classes`` labels would carry no information.

    Examples
    --------
    >>> max_rate(2)
    0.45
    """
    return 0.9 * (1.0 - 1.0 / n_classes)


def certain_rate(is_contradicted: NDArray[np.bool_], certainty: Array, n_classes: int) -> float:
    """Do the same as `estimate_noise_rate`, from certainties and contradictions."""
    order = np.argsort(-certainty, kind="stable")
    wrong = is_contradicted[order].astype(float)
    sharp = min(wrong[: int(np.ceil(share * len(wrong)))].mean() for share in _CERTAIN)
    # Where classes lie apart, the smoothed share is the luckiest of many, so it is bounded from below.
    chance = np.sqrt(sharp * (1.0 - sharp) / (_CERTAIN[0] * len(wrong)))
    smooth = max(smoothed_rate(is_contradicted, certainty), sharp - chance)
    return float(min((sharp + smooth) / 2.0, max_rate(n_classes)))


def smoothed_rate(is_contradicted: NDArray[np.bool_], certainty: Array) -> float:
    """Return the contradicted share at the most certain tenth, after a fit that falls with certainty."""
    from sklearn.isotonic import IsotonicRegression

    fit = IsotonicRegression(increasing=False).fit(certainty, is_contradicted.astype(float)).predict(certainty)
    return float(np.sort(fit)[: max(1, int(_MOST_CERTAIN * len(fit)))].mean())


def rate_interval(rate: float, n_counted: int, level: float = LEVEL) -> tuple[float, float]:
    """Return Jeffreys' interval for a share that was counted on ``n_counted`` rows.

    A row's own label does not influence whether the row is counted, so under noise that does not follow the features
    the count is binomial, and the interval is the central part of Beta(k + 1/2, n - k + 1/2) with k = rate n.

    Parameters
    ----------
    rate : float
        Estimated share.
    n_counted : int
        Rows that were counted.
    level : float, default=0.95
        Wanted coverage.

    Returns
    -------
    low, high : float
        Ends of the interval; they enclose ``rate``.

    Notes
    -----
    Brown, Cai and DasGupta (Interval estimation for a binomial proportion, 2001) recommend Jeffreys' interval for small
    counts. It covers chance only: where classes truly overlap, the rate itself is too high, and where wrong labels
    follow the features it is too low.

    Examples
    --------
    >>> [round(one, 3) for one in rate_interval(0.2, 100)]
    [0.131, 0.286]
    >>> rate_interval(0.0, 100)[0]
    0.0
    """
    for name, value, rule in (
        ("rate", rate, Real(0.0, 1.0)),
        ("n_counted", n_counted, Integer(1)),
        ("level", level, Real(0.0, 1.0, open_low=True, open_high=True)),
    ):
        if not rule.allows(value):
            raise InputError(f"`{name}` must be {rule}; got {value!r}.", owner="rate_interval")
    from scipy.stats import beta

    wrong, tail = rate * n_counted, (1.0 - level) / 2.0
    low, high = beta.ppf([tail, 1.0 - tail], wrong + 0.5, n_counted - wrong + 0.5)
    # At the ends the statement is one-sided: nothing was contradicted, or everything.
    return (0.0 if wrong == 0 else min(float(low), rate)), (1.0 if wrong == n_counted else max(float(high), rate))
