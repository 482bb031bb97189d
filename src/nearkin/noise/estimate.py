"""How many labels are wrong, whether that depends on the class, and how sure that is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array, Codes
from nearkin.errors import InputError
from nearkin.noise.model import NoiseModel, VotesOn, max_rate, split_rows
from nearkin.settings import Integer, Real

__all__ = ["LEVEL", "certain_rate", "estimate_noise_model", "estimate_noise_rate", "rate_interval", "survey"]

#: Shares of the most certain rows that are counted for the rate; the smaller result is used.
_CERTAIN = (0.25, 0.5)

#: Share of the rows over which the smoothed contradiction is averaged.
_MOST_CERTAIN = 0.1

#: Share of the most certain rows of each class whose labels are counted for a flip matrix.
_CERTAIN_OF_CLASS = 0.25

#: A matrix is used if uniform flips would give such counts with less than this probability.
_SIGNIFICANT = 1e-3

#: Smallest difference between the rates of two classes that overlap does not explain, and the rows needed to tell.
_CLEAR = 0.2
_ENOUGH = 10

#: A matrix must explain at least this share of all contradicted labels, or else leave at most this share of them in
#: classes that are hardly mistaken.
_EXPLAINED = 0.5
_UNEXPLAINED = 0.1

#: Most classes for which a matrix is estimated: with more there are too few rows for each pair.
_MOST_CLASSES = 200

#: Share of intervals that should contain the true rate.
LEVEL = 0.95


def estimate_noise_model(votes_on: VotesOn, codes: Codes, n_classes: int) -> NoiseModel:
    """Estimate how often labels are wrong, and whether that depends on the class.

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
        Uniform, unless the labels of the most certain rows of the classes clearly contradict that.

    Notes
    -----
    The labels of the most certain quarter of the rows of every predicted class are counted. If a chi-squared test finds
    them incompatible with uniform flips, and overlap of the classes does not explain it, they give the rows of the
    matrix, shrunk towards uniform flips by as much as the spread between classes allows (moments of a beta-binomial).
    Rows are then predicted anew with that matrix, and counted again. A rate of one class that is less than 0.2 above
    that of another cannot be told from overlap, and is ignored. So is a matrix that leaves most contradicted labels
    unexplained, and many in the classes that it takes to be right: wrong labels then follow the features, and what
    certain rows say of the classes does not hold for the others.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> true = rng.integers(0, 2, 2000)
    >>> codes = np.where((true == 0) & (rng.random(2000) < 0.3), 1, true)
    >>> shares = np.where(true[:, None] == 0, [0.7, 0.3], [0.0, 1.0])
    >>> estimate_noise_model(shares.__getitem__, codes, 2).rates.round(1).tolist()
    [0.3, 0.0]
    """
    n = len(codes)
    predicted, certainty = survey(votes_on, n, n_classes)
    rate = certain_rate(predicted != codes, certainty, n_classes)
    if n_classes > _MOST_CLASSES:
        return NoiseModel(rate, n_classes)
    counts = _count_labels(predicted, certainty, codes, n_classes)
    if not _is_uneven(counts, predicted, certainty, codes):
        return NoiseModel(rate, n_classes)
    for _ in range(2):
        counts = _count_labels(predicted, certainty, codes, n_classes)
        model = NoiseModel(rate, n_classes, _shrink(counts, rate))
        predicted, certainty = survey(_corrected(votes_on, model), n, n_classes)
    present = np.bincount(predicted, minlength=n_classes)
    contradicted = np.bincount(predicted[predicted != codes], minlength=n_classes)
    model.rate = float(present @ model.rates / n)
    hardly = model.rates <= model.rate
    left = contradicted[hardly].sum() / max(1, present[hardly].sum())
    follows_features = model.rate * n < _EXPLAINED * contradicted.sum() and left > _UNEXPLAINED
    return NoiseModel(rate, n_classes) if follows_features else model


def _corrected(votes_on: VotesOn, model: NoiseModel) -> VotesOn:
    return lambda part: model.true_shares(votes_on(part))


def _count_labels(predicted: Codes, certainty: Array, codes: Codes, n_classes: int) -> Array:
    """Count the labels of the most certain rows: ``counts[k, j]`` rows of predicted class k are labelled j."""
    order = np.lexsort((-certainty, predicted))
    size = np.bincount(predicted, minlength=n_classes)
    first = np.cumsum(size) - size
    rank = np.arange(len(order)) - first[predicted[order]]
    certain = order[rank < np.ceil(_CERTAIN_OF_CLASS * size[predicted[order]])]
    cells = predicted[certain] * n_classes + codes[certain]
    return np.bincount(cells, minlength=n_classes * n_classes).reshape(n_classes, n_classes).astype(float)


def _chi_squared(counts: Array, *, given_rates: bool = False) -> tuple[float, int]:
    """Chi-squared of the wrong labels against uniform flips, and its degrees of freedom.

    With ``given_rates`` each class has a rate of its own, and only the choice among the other labels is tested.
    """
    n_classes = len(counts)
    is_other = ~np.eye(n_classes, dtype=bool)
    wrong = np.where(is_other, counts, 0.0).sum(axis=1, keepdims=True)
    usual = wrong if given_rates else counts.sum(axis=1, keepdims=True) * wrong.sum() / max(counts.sum(), 1.0)
    expected = np.repeat(usual / (n_classes - 1), n_classes, axis=1)
    tested = is_other & (expected > 0)
    # Where less than half a row is expected, a single one does not surprise.
    squared = (counts - expected)[tested] ** 2 / np.maximum(expected[tested], 0.5)
    known = int(np.count_nonzero(wrong)) if given_rates else 1
    return float(squared.sum()), max(1, int(tested.sum()) - known)


def _is_uneven(counts: Array, predicted: Codes, certainty: Array, codes: Codes) -> bool:
    """Whether flips depend on the class more clearly than overlap of the classes would explain.

    Where classes overlap, rows that are predicted as a rare class are often labelled as a common one, though nothing is
    wrong. So either the wrong labels of a class must prefer some others, or the classes must differ much in the rate
    that is left when overlap is smoothed away.
    """
    from scipy.stats import chi2

    if chi2.sf(*_chi_squared(counts)) >= _SIGNIFICANT:
        return False
    if len(counts) > 2 and chi2.sf(*_chi_squared(counts, given_rates=True)) < _SIGNIFICANT:
        return True
    present = [np.flatnonzero(predicted == one) for one in range(len(counts))]
    rates = [smoothed_rate(codes[at] != predicted[at], certainty[at]) for at in present if len(at) >= _ENOUGH]
    return bool(rates) and max(rates) - min(rates) >= _CLEAR


def _shrink(counts: Array, rate: float) -> Array:
    """Shares of labels by class, drawn towards uniform flips as far as the spread between classes allows."""
    n_classes = len(counts)
    uniform = np.full_like(counts, rate / (n_classes - 1))
    uniform[np.diag_indices(n_classes)] = 1.0 - rate
    squared, freedom = _chi_squared(counts)
    ratio, counted = squared / freedom, counts.sum(axis=1)
    if ratio <= 1.0:
        return uniform
    usual = counted[counted > 0].mean()
    strength = max(1.0, (usual - ratio) / (ratio - 1.0))
    shrunk: Array = (counts + strength * uniform) / (counted[:, None] + strength)
    return shrunk


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
    from sklearn.isotonic import IsotonicRegression

    # Rounding may put a certainty just outside the domain of the fit, which would be NaN without the clip.
    fit = IsotonicRegression(increasing=False, out_of_bounds="clip").fit(certainty, is_contradicted).predict(certainty)
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
        ("n_counted", n_counted, Integer(1, 10**15)),
        ("level", level, Real(0.0, 1.0, open_low=True, open_high=True)),
    ):
        if not rule.allows(value):
            raise InputError(f"`{name}` must be {rule}; got {value!r}.", owner="rate_interval")
    from scipy.stats import beta

    wrong, tail = rate * n_counted, (1.0 - level) / 2.0
    low, high = beta.ppf([tail, 1.0 - tail], wrong + 0.5, n_counted - wrong + 0.5)
    # At the ends the statement is one-sided: nothing was contradicted, or everything.
    return (0.0 if wrong == 0 else min(float(low), rate)), (1.0 if wrong == n_counted else max(float(high), rate))
