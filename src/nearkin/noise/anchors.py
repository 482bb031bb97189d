"""Which classes are mistaken for which: counted where a class is most certain, and believed where that is sound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearkin.arrays import Array, Codes, Index
from nearkin.noise.model import NoiseModel, max_rate, uniform_flips

__all__ = ["Anchors", "find_anchors", "trust_in_flips"]

#: Rows of a class, as a share of its size, that are most certain, those that are less so, and those still less.
_CERTAIN = 0.25
_LESS_CERTAIN = 0.6
_LEAST_CERTAIN = 0.85

#: Least number of most certain rows of a class.
_LEAST_ROWS = 8

#: Rounds in which the sizes of the classes and the flips are found from each other.
_ROUNDS = 3

#: Largest rate of one of two classes, and largest sum of both: beyond, labels would hardly carry information.
_MOST_OF_TWO = 0.6
_MOST_TOGETHER = 0.8

#: Least probability that a row of one of several classes keeps its label.
_LEAST_KEPT = 0.25

#: Size of a class, as a multiple of the number of its labels.
_SIZES = (0.25, 4.0)

#: Evidence at which trust begins and at which it is full: a step would make the result a matter of chance.
#: Two classes: difference of their rates in standard errors, sum of them, and the difference itself.
_SIGNIFICANT = (2.0, 3.0)
_TELLING = (0.8, 0.7)
_DIFFERS = (0.05, 0.25)

#: How much contradiction grows from the most certain rows to the less certain ones.
_GROWS = (1.5, 1.2)

#: Several classes: how often two are mistaken for each other, both ways together; gain in standard errors; digits of
#: the probabilities with which chance explains counts.
_MUTUAL = (0.55, 0.45)
_GAIN = (1.5, 2.5)
_UNEVEN = (2.5, 3.5)
_PREFERENCE = (3.5, 4.5)
_TRUST_OF_SEVERAL = 0.75

#: No more than this is ever trusted: overlap of classes may look like flips.
_MOST_TRUST = 0.9


@dataclass(frozen=True)
class Anchors:
    """Labels of the rows that most certainly belong to each class.

    Parameters
    ----------
    certain, less_certain, least_certain : ndarray of shape (n_classes, n_classes)
        ``certain[k, j]`` of the rows with most votes for class k are labelled j; then the same for the next rows.
    counted : ndarray of shape (n_classes, n_classes)
        The most certain rows, with the next ones where these are contradicted no more often.
    size : ndarray of shape (n_classes,)
        Estimated number of rows that belong to each class.
    flips : ndarray of shape (n_classes, n_classes)
        Estimated probabilities of the labels j of a row of class k.
    """

    certain: Array
    less_certain: Array
    least_certain: Array
    counted: Array
    size: Array
    flips: Array

    @property
    def rate(self) -> float:
        """Share of wrong labels; zero where no anchor is contradicted."""
        asked = self.counted.sum(axis=1)
        wrong = asked - np.diag(self.counted)
        usual = float(wrong.sum() / max(asked.sum(), 1.0))
        rates = np.divide(wrong, asked, out=np.full(len(asked), usual), where=asked > 0)
        return float(self.size @ rates / self.size.sum())


def find_anchors(votes: Array, codes: Codes) -> Anchors:
    """Count the labels of the rows that have most votes for each class, whatever else these rows are voted.

    Parameters
    ----------
    votes : ndarray of shape (n_samples, n_classes)
        Shares of the votes on each row, its own label left out.
    codes : ndarray of int64 of shape (n_samples,)
        Column of each row's label.

    Returns
    -------
    Anchors
        Counts, sizes and flips.

    Notes
    -----
    Rows are ordered by the votes for a class, not chosen by the class with most votes: the rows of a class of which
    more than half is labelled otherwise are then found too. How many rows belong to a class follows from the flips, and
    which rows are consulted follows from that, so both are found in three rounds.

    Examples
    --------
    >>> votes = np.array([[0.9, 0.1]] * 200 + [[0.4, 0.6]] * 200)  # four of ten rows of class 1 are labelled 0
    >>> codes = np.array([0] * 200 + [0, 1, 1, 0, 1] * 40)
    >>> find_anchors(votes, codes).flips.round(1).tolist()
    [[1.0, 0.0], [0.4, 0.6]]
    """
    n, n_classes = votes.shape
    labels = np.bincount(codes, minlength=n_classes).astype(float)
    order, size = np.argsort(-votes, axis=0, kind="stable"), labels
    # Rows with no more votes for a class than any row has say nothing about it.
    telling = np.count_nonzero(votes > votes.mean(axis=0) * (1.0 + 1e-9), axis=0)
    for _ in range(_ROUNDS):
        certain, less, least, counted = (np.zeros((n_classes, n_classes)) for _ in range(4))
        for k in range(n_classes):
            end = min(telling[k], int(np.ceil(max(_LEAST_ROWS, _CERTAIN * size[k]))))
            last = min(telling[k], max(end, int(np.ceil(_LESS_CERTAIN * size[k]))))
            rest = min(telling[k], max(last, int(np.ceil(_LEAST_CERTAIN * size[k]))))
            certain[k] = np.bincount(codes[order[:end, k]], minlength=n_classes)
            less[k] = np.bincount(codes[order[end:last, k]], minlength=n_classes)
            least[k] = np.bincount(codes[order[last:rest, k]], minlength=n_classes)
            counted[k] = certain[k] + less[k] if _is_plateau(certain[k], less[k], k) else certain[k]
        flips = _flips(counted, size)
        size = np.clip(labels @ np.linalg.pinv(flips), _SIZES[0] * labels, _SIZES[1] * labels)
        size = np.maximum(size, 1.0) * (n / np.maximum(size, 1.0).sum())
    return Anchors(certain, less, least, counted, size, flips)


def _is_plateau(certain: Array, less: Array, k: int) -> bool:
    """Whether the next rows are contradicted no more often, by one standard error, than the most certain ones."""
    n, m = certain.sum(), less.sum()
    if n == 0 or m == 0:
        return False
    first, then = 1.0 - certain[k] / n, 1.0 - less[k] / m
    chance = max(first * (1.0 - first), 0.25 / n) / n + max(then * (1.0 - then), 0.01) / m
    return bool(then - first < np.sqrt(chance))


def _flips(counts: Array, size: Array) -> Array:
    asked = counts.sum(axis=1)
    rates = (asked - np.diag(counts) + 0.25) / (asked + 0.5)
    if len(counts) == 2:
        rates = np.minimum(rates, _MOST_OF_TWO)
        rates *= min(1.0, _MOST_TOGETHER / rates.sum())
        return np.array([[1.0 - rates[0], rates[0]], [rates[1], 1.0 - rates[1]]])
    flips = _shrink(counts, float(size @ rates / size.sum()))
    for k in np.flatnonzero(np.diag(flips) < _LEAST_KEPT):
        flips[k] *= (1.0 - _LEAST_KEPT) / max(flips[k].sum() - flips[k, k], 1e-12)
        flips[k, k] = _LEAST_KEPT
    return flips


def _shrink(counts: Array, rate: float) -> Array:
    """Shares of labels by class, drawn towards uniform flips as far as the spread between classes allows."""
    uniform = uniform_flips(min(rate, max_rate(len(counts))), len(counts))
    squared, freedom = _chi_squared(counts)
    ratio, counted = squared / freedom, counts.sum(axis=1)
    if ratio <= 1.0:
        return uniform
    usual = counted[counted > 0].mean()
    strength = max(1.0, (usual - ratio) / (ratio - 1.0))
    shrunk: Array = (counts + strength * uniform) / (counted[:, None] + strength)
    return shrunk


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


def trust_in_flips(found: Anchors, votes: Array, codes: Codes) -> tuple[float, float]:
    """Return how far flips by class are believed rather than uniform ones, from 0 to 0.9, and how sure it is that so.

    Where classes overlap, or wrong labels follow the features, certain rows of classes differ though nothing was
    flipped by class. Then less certain rows are contradicted more often than the most certain ones, and such flips are
    not believed. Two classes: their rates must differ by 2 to 3 standard errors, and trust grows with the difference.
    More classes: the flips found on one half of the rows must explain the labels of the other half better than uniform
    flips do, by about two standard errors, or the wrong labels of classes must clearly prefer some others; and no two
    classes may be mistaken for each other half of the time, which is how classes look that the features do not tell
    apart. Every one of these conditions is met by degrees.

    Parameters
    ----------
    found : Anchors
        Of these votes and labels.
    votes, codes : ndarray
        As for `find_anchors`.

    Returns
    -------
    trust : float
        Share of the flips by class in a mixture with uniform ones.
    sureness : float
        The same without regard to how far the rates of two classes differ, from 0 to 1.
    """
    if len(found.size) > 2:
        trust = _MOST_TRUST * _trust_of_several(found, votes, codes)
        return trust, trust
    sureness, difference = _trust_of_two(found)
    return _MOST_TRUST * sureness * _degree(difference, _DIFFERS), sureness


def _degree(value: float, ends: tuple[float, float]) -> float:
    """How far a value has come from one end to the other, from 0 to 1."""
    return float(np.clip((value - ends[0]) / (ends[1] - ends[0]), 0.0, 1.0))


def _trust_of_two(found: Anchors) -> tuple[float, float]:
    """How sure it is that the rates of two classes differ, and by how much they do."""
    asked = found.counted.sum(axis=1)
    rates = (asked - np.diag(found.counted) + 0.5) / (asked + 1.0)
    difference = float(abs(rates[1] - rates[0]))
    chance = float(np.sqrt((rates * (1.0 - rates) / np.maximum(asked, 1.0)).sum()))
    sureness = _degree(difference / chance, _SIGNIFICANT) * _degree(float(rates.sum()), _TELLING)
    return sureness * _degree(_growth(found, np.array([np.argmax(rates)])), _GROWS), difference


def _trust_of_several(found: Anchors, votes: Array, codes: Codes) -> float:
    mutual = found.flips + found.flips.T
    np.fill_diagonal(mutual, 0.0)
    sureness = _degree(_growth(found, np.arange(len(mutual))), _GROWS) * _degree(float(mutual.max()), _MUTUAL)
    if sureness == 0.0:
        return 0.0
    prefers = _degree(_digits(found.certain, given_rates=True), _PREFERENCE)
    is_uneven = _degree(_digits(found.counted), _UNEVEN)
    if is_uneven > prefers:
        prefers = max(prefers, min(is_uneven, _degree(_gain(votes, codes), _GAIN)))
    return _TRUST_OF_SEVERAL * sureness * prefers


def _growth(found: Anchors, classes: Index) -> float:
    """How much more often the less certain rows of some classes are contradicted than more certain ones.

    That is the ratio from the first to the next ones; it counts less where it does not go on, since it may be chance.
    """
    first, then, last = (
        1.0 - one[classes, classes].sum() / max(one[classes].sum(), 1.0)
        for one in (found.certain, found.less_certain, found.least_certain)
    )
    ratio, goes_on = (then + 0.01) / (first + 0.01), (last + 0.01) / (then + 0.01)
    return float(min(ratio, np.sqrt(ratio * goes_on)))


def _digits(counts: Array, *, given_rates: bool = False) -> float:
    """Zeros behind the point of the probability with which chance explains counts."""
    return -float(np.log10(max(_chance(counts, given_rates=given_rates), 1e-300)))


def _chance(counts: Array, *, given_rates: bool = False) -> float:
    """Probability of counts that are as far from uniform flips, or from uniform choices among the other labels."""
    from scipy.stats import chi2

    return float(chi2.sf(*_chi_squared(counts, given_rates=given_rates)))


def _gain(votes: Array, codes: Codes) -> float:
    """Gain in log-likelihood of flips by class over uniform ones, each found on the other half, in standard errors."""
    n, n_classes = votes.shape
    gains, half = np.zeros(n), np.arange(n) % 2
    for own in (0, 1):
        here, other = half == own, half != own
        found = find_anchors(votes[other], codes[other])
        one, two = (
            NoiseModel(found.rate, n_classes, flips).log_likelihood(votes[here], codes[here])
            for flips in (found.flips, uniform_flips(min(found.rate, max_rate(n_classes)), n_classes))
        )
        gains[here] = one - two
    chance = float(gains.std()) / np.sqrt(n)
    return float(gains.mean()) / chance if chance > 1e-12 else 0.0
