"""How many labels are wrong, whether that depends on the class, and how sure that is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array, Codes
from nearkin.errors import InputError
from nearkin.noise.anchors import find_anchors, trust_in_flips
from nearkin.noise.model import NoiseModel, VotesOn, max_rate, split_rows, spread_rows, uniform_flips
from nearkin.settings import Integer, Real

__all__ = [
    "LEVEL",
    "certain_rate",
    "estimate_noise_model",
    "estimate_noise_rate",
    "proven_rate",
    "rate_interval",
    "survey",
]

#: Shares of the most certain rows that are counted for the rate; the smaller result is used.
_CERTAIN = (0.25, 0.5)

#: Share of the rows over which the smoothed contradiction is averaged.
_MOST_CERTAIN = 0.1

#: Most classes for which flips by class are estimated: with more there are too few rows for each pair.
_MOST_CLASSES = 200

#: Most votes, rows times classes, and most rows that an estimate rests on.
_MOST_VOTES = 1 << 22
_MOST_ROWS = 1 << 15

#: Share of contradicted labels beyond the rate from which on the certain rows of single classes are not counted.
_OVERLAP = 0.2

#: Least share of wrong labels that is reckoned with: no label is beyond doubt.
_LEAST_PRIOR = 0.02

#: Share of the fall of contradiction, from the most doubtful quarter of the rows to the most certain one, that may go
#: on beyond it; and share of the contradicted labels which the rate leaves unexplained that may have a wrong label
#: beside them with which the votes agree.
_GOES_ON = 0.25
_UNSEEN = 0.5

#: Expected number of wrong labels among the counted ones below which there may be none.
_FEW = 1.5

#: Plausibility below which a label is almost certainly wrong, how many of them prove that some are, and how often votes
#: may contradict labels, as a share of how often guesses do.
_PROVEN = 0.1
_SEVERAL = 10
_TELLING = 0.5

#: Share of intervals that should contain the true rate.
LEVEL = 0.95


def estimate_noise_model(votes_on: VotesOn, codes: Codes, n_classes: int) -> NoiseModel:
    """Estimate how often labels are wrong, whether that depends on the class, and how sure that is.

    Parameters
    ----------
    votes_on : callable
        Shares of the votes on some rows, by voters that have not seen the labels of these rows.
    codes : ndarray of int64 of shape (n_samples,)
        Column of each row's label.
    n_classes : int
        Number of classes.

    Returns
    -------
    NoiseModel
        Uniform, unless the labels of the most certain rows of the classes clearly contradict that; with an interval.

    Notes
    -----
    A label that is contradicted where the votes are most certain is wrong, rather than near a boundary
    (`estimate_noise_rate`). The labels of the rows with most votes for each class give the flips by class
    (`nearkin.noise.anchors.find_anchors`), which are mixed with uniform flips by how far they can be believed
    (`nearkin.noise.anchors.trust_in_flips`).

    The interval tells chance, and what the votes leave open. Its lower end is lowered by how much contradiction falls
    from doubtful rows to certain ones, since it may fall further: that much may be overlap. Its upper end reaches at
    least the share of contradicted labels and half of what the rate leaves unexplained of it, because wrong labels
    that follow the features mislead the voters too. Labels that turn out to be almost certainly wrong raise the lower
    end later (`proven_rate`).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> true = rng.integers(0, 2, 2000)
    >>> codes = np.where((true == 0) & (rng.random(2000) < 0.3), 1, true)
    >>> shares = np.where(true[:, None] == 0, [0.7, 0.3], [0.0, 1.0])
    >>> noise = estimate_noise_model(shares.__getitem__, codes, 2)
    >>> noise.rates.round(1).tolist(), noise.interval[0] < 0.15 < noise.interval[1]
    ([0.3, 0.0], True)
    """
    rows = spread_rows(len(codes), min(_MOST_ROWS, max(1, _MOST_VOTES // min(n_classes, _MOST_CLASSES))))
    labels = codes[rows]
    if n_classes > _MOST_CLASSES:
        predicted, certainty = survey(lambda part: votes_on(rows[part]), len(rows), n_classes)
        found, trust, sureness = None, 0.0, 0.0
    else:
        votes = np.concatenate([votes_on(rows[part]) for part in split_rows(len(rows), n_classes)])
        predicted, certainty = votes.argmax(axis=1), votes.max(axis=1)
        found = find_anchors(votes, labels)
        trust, sureness = trust_in_flips(found, votes, labels)
    is_contradicted = predicted != labels
    rates = [certain_rate(is_contradicted, certainty, n_classes)]
    if found is not None:
        rates.append(min(found.rate, max_rate(n_classes)))
    # Certain rows of all classes together are the most certain of the easy ones; those of each class say more where
    # classes do not overlap, and of two classes that are mistaken unevenly they alone tell.
    overlap = max(0.0, float(is_contradicted.mean()) - rates[0])
    believed = max(sureness, 1.0 - overlap / _OVERLAP, 0.0)
    rate = (1.0 - believed) * rates[0] + believed * rates[-1]
    prior = max(rate, _LEAST_PRIOR)
    lowest = (1.0 - trust) * min(rates) + trust * rate
    interval = _interval(rate, lowest, is_contradicted, certainty)
    if found is None or trust == 0.0:
        return NoiseModel(rate, n_classes, prior=prior, interval=interval)
    matrix = (1.0 - trust) * uniform_flips(prior, n_classes) + trust * found.flips
    return NoiseModel(rate, n_classes, matrix, prior=prior, interval=interval, rates=1.0 - np.diag(found.flips))


def _interval(rate: float, lowest: float, is_contradicted: NDArray[np.bool_], certainty: Array) -> tuple[float, float]:
    """Interval of the rate; see the notes of `estimate_noise_model`."""
    n = len(certainty)
    ordered = is_contradicted[np.argsort(-certainty, kind="stable")].astype(float)
    quarters = [one.mean() for one in np.array_split(ordered, 4) if len(one)]
    counted, share = max(min(8, n), n // 4), float(ordered.mean())
    first, second, last = quarters[0], quarters[min(1, len(quarters) - 1)], quarters[-1]
    usual = (first + second) / 2.0
    chance = float(np.sqrt(2.0 * usual * (1.0 - usual) / counted))
    falls = max(0.0, second - first - chance) + _GOES_ON * max(0.0, last - first - chance)
    least = max(0.0, lowest - falls)
    low = 0.0 if least * counted < _FEW else rate_interval(least, counted)[0]
    unseen = min(1.0, share + _UNSEEN * max(0.0, share - rate))
    high = max(rate_interval(one, m)[1] for one, m in ((rate, counted), (second, counted), (unseen, n)))
    return min(low, rate), max(high, rate)


def proven_rate(
    plausibility: Array, is_contradicted: NDArray[np.bool_], codes: Codes, counts: NDArray[np.int64] | None = None
) -> float:
    """Share of labels that are wrong at least: half of those that are almost certainly wrong, if they are several.

    Votes that contradict labels more than half as often as guesses would prove nothing. An entry stands for one label,
    or for as many as ``counts`` says.

    Examples
    --------
    >>> plausibility, codes = np.repeat([0.02, 0.99], [20, 80]), np.arange(100) % 2
    >>> proven_rate(plausibility, plausibility < 0.5, codes)
    0.1
    >>> proven_rate(plausibility, plausibility < 1.0, codes)
    0.0
    """
    counts = np.ones(len(codes), np.int64) if counts is None else counts
    n, n_contradicted = counts.sum(), counts[is_contradicted].sum()
    n_wrong = counts[is_contradicted & (plausibility < _PROVEN)].sum()
    shares = np.bincount(codes, counts) / n
    if n_wrong < _SEVERAL or n_contradicted / n > _TELLING * (1.0 - float((shares * shares).sum())):
        return 0.0
    return float(0.5 * n_wrong / n)


def survey(votes_on: VotesOn, n_rows: int, n_classes: int) -> tuple[Codes, Array]:
    """Return the class with most votes for every row, and its share."""
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
    from scipy.optimize import isotonic_regression

    _, which, size = np.unique(certainty, return_inverse=True, return_counts=True)
    fit = isotonic_regression(np.bincount(which, is_contradicted) / size, weights=size, increasing=False).x
    n = max(1, int(_MOST_CERTAIN * len(certainty)))
    counted = np.clip(n - (np.cumsum(size[::-1]) - size[::-1]), 0, size[::-1])
    return float(counted @ fit[::-1]) / n


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
        ("n_counted", n_counted, Integer(1, 10**15)),
        ("level", level, Real(0.0, 1.0, open_low=True, open_high=True)),
    ):
        if not rule.allows(value):
            raise InputError(f"`{name}` must be {rule}; got {value!r}.", owner="rate_interval")
    from scipy.special import betaincinv

    wrong, tail = rate * n_counted, (1.0 - level) / 2.0
    low, high = betaincinv(wrong + 0.5, n_counted - wrong + 0.5, [tail, 1.0 - tail])
    # At the ends the statement is one-sided: nothing was contradicted, or everything.
    return (0.0 if wrong == 0 else min(float(low), rate)), (1.0 if wrong == n_counted else max(float(high), rate))
