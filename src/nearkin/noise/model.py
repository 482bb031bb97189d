"""How labels get wrong: all alike, or some classes more often than others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearkin.noise._votes import Ask, survey
from nearkin.noise.rate import certain_rate, most_noise, smoothed_rate

__all__ = ["Flips", "estimate_flips"]

Array = NDArray[np.floating]
Codes = NDArray[np.int64]

#: Least share of a class, times the number of classes, before shares are made to sum to 1.
_LEAST = 2e-3

#: Share of the most certain rows of each class by whose labels a matrix is counted.
_CERTAIN = 0.25

#: A matrix is used if uniform flips would give such counts with less than this probability.
_SIGNIFICANT = 1e-3

#: Least difference between the rates of two classes that overlap does not explain, and rows that it takes to tell.
_CLEAR = 0.2
_ENOUGH = 10

#: Least share of all contradicted labels that a matrix must explain, or else most that it may leave in classes that are
#: hardly mistaken.
_EXPLAINED = 0.5
_UNEXPLAINED = 0.1

#: Least part of the usual probability that a label is given to any class when labels are ranked: none is impossible.
_POSSIBLE = 0.1

#: Most classes for which a matrix is estimated: there are few rows per pair of more.
_MOST_CLASSES = 200


class Flips:
    """Probabilities with which a row of one class is labelled as another.

    Parameters
    ----------
    rate : float
        Share of wrong labels.
    n_classes : int
        Number of classes.
    matrix : ndarray of shape (n_classes, n_classes) or None, default=None
        ``matrix[k, j]`` is the probability that a row of class k is labelled j; None for any other class alike.

    Examples
    --------
    >>> Flips(0.1, 2).right(np.array([[0.9, 0.1], [0.5, 0.5]]), np.array([1, 1])).round(2).tolist()
    [0.5, 0.9]
    >>> only_zero_is_mistaken = Flips(0.1, 2, np.array([[0.8, 0.2], [0.0, 1.0]]))
    >>> only_zero_is_mistaken.right(np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([0, 1])).round(2).tolist()
    [1.0, 0.83]
    """

    def __init__(self, rate: float, n_classes: int, matrix: Array | None = None):
        self.rate, self.n_classes, self.matrix = float(rate), n_classes, matrix

    @property
    def rates(self) -> Array:
        """Share of wrong labels of the rows of every class."""
        if self.matrix is None:
            return np.full(self.n_classes, self.rate)
        return 1.0 - np.diag(self.matrix)

    @property
    def _other(self) -> float:
        """Probability of any one wrong label under uniform flips."""
        return self.rate / (self.n_classes - 1)

    def true_shares(self, votes: Array) -> Array:
        """Shares of the true classes, from shares of the labels as given."""
        if self.matrix is None:
            # At a higher rate votes would say nothing, or the opposite.
            rate = min(self.rate, most_noise(self.n_classes))
            b = rate / (self.n_classes - 1)
            found = (votes - b) / (1.0 - rate - b)
        else:
            found = votes @ np.linalg.pinv(self.matrix)
        found = np.maximum(found, _LEAST / self.n_classes)
        shares: Array = found / found.sum(axis=1, keepdims=True)
        return shares

    def expected_wrong(self, counts: NDArray[np.integer]) -> Array:
        """How many of the labels of each class are wrong, if so many rows bear each label.

        Examples
        --------
        >>> Flips(0.1, 2).expected_wrong(np.array([910, 190])).round().tolist()  # 100 of 1,000 and 10 of 100 flipped
        [10.0, 100.0]
        """
        n = counts.sum()
        if self.matrix is None:
            rate = min(self.rate, most_noise(self.n_classes))
            b = rate / (self.n_classes - 1)
            true = np.clip((counts - b * n) / (1.0 - rate - b), 0.0, n)
            return b * (n - true)
        true = np.clip(counts @ np.linalg.pinv(self.matrix), 0.0, n)
        found: Array = true @ self.matrix - true * np.diag(self.matrix)
        return found

    def settled(self, votes: Array) -> Array:
        """Votes of voters whose weights tell right labels from wrong ones already, none of them zero."""
        shares: Array = votes + _LEAST / self.n_classes
        return shares / shares.sum(axis=1, keepdims=True)

    def right(self, shares: Array, codes: Codes) -> Array:
        """Probability that a label is right, by Bayes' rule, where ``shares`` are those of the true classes."""
        own = shares[np.arange(len(codes)), codes]
        if self.matrix is None:
            kept, all_ways = (1.0 - self.rate) * own, (1.0 - self.rate) * own + self._other * (1.0 - own)
        else:
            kept = self.matrix[codes, codes] * own
            all_ways = np.einsum("ij,ji->i", shares, self.matrix[:, codes])
        found: Array = np.divide(kept, all_ways, out=np.ones_like(own), where=all_ways > 0)
        return found

    def likely(self, shares: Array, codes: Codes) -> Array:
        """Shares of the true classes, each times how much more often than usual it is labelled as the row is."""
        if self.matrix is None:
            return shares
        is_other = ~np.eye(self.n_classes, dtype=bool)
        usual = np.where(is_other, self.matrix[is_other].mean(), np.diag(self.matrix).mean())
        factors = np.maximum(self.matrix / np.maximum(usual, 1e-12), _POSSIBLE)[:, codes].T
        found: Array = shares * factors
        return found


def estimate_flips(ask: Ask, codes: Codes, n_classes: int) -> Flips:
    """How often labels are wrong, and whether that depends on the class.

    Parameters
    ----------
    ask : callable
        Shares of the votes about some rows, their own labels left out, by voters that were not learned from them.
    codes : ndarray of int64 of shape (n_samples,)
        Column of each row's label.
    n_classes : int
        Number of classes.

    Returns
    -------
    Flips
        Uniform, unless the labels of the most certain rows of the classes say clearly otherwise.

    Notes
    -----
    Counted are the labels of the most certain quarter of the rows of every predicted class. If a chi-squared test finds
    them incompatible with uniform flips, and overlap of the classes does not explain it, they give the rows of the
    matrix, shrunk towards uniform flips by as much as the spread between classes allows (moments of a beta-binomial).
    Rows are then predicted anew with that matrix, and counted again. A rate of one class that is less than 0.2 above
    that of another cannot be told from overlap, and is not taken up. Nor is a matrix that leaves most contradicted
    labels unexplained, and many in the classes that it takes to be right: wrong labels follow the features then, and
    what certain rows say of the classes does not hold for the others.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> true = rng.integers(0, 2, 2000)
    >>> codes = np.where((true == 0) & (rng.random(2000) < 0.3), 1, true)
    >>> shares = np.where(true[:, None] == 0, [0.7, 0.3], [0.0, 1.0])
    >>> estimate_flips(shares.__getitem__, codes, 2).rates.round(1).tolist()
    [0.3, 0.0]
    """
    n = len(codes)
    predicted, certainty = survey(ask, n, n_classes)
    flips = alike = Flips(certain_rate(predicted != codes, certainty, n_classes), n_classes)
    uniform = flips.rate
    for is_first in (True, False):
        counts = _counts(predicted, certainty, codes, n_classes) if n_classes <= _MOST_CLASSES else None
        if counts is None or (is_first and not _is_uneven(counts, predicted, certainty, codes)):
            return flips
        matrix = _shrunk(counts, uniform)
        flips = Flips(uniform, n_classes, matrix)
        predicted, certainty = survey(_corrected(ask, flips), n, n_classes)
    present = np.bincount(predicted, minlength=n_classes)
    contradicted = np.bincount(predicted[predicted != codes], minlength=n_classes)
    flips.rate = float(present @ flips.rates / n)
    hardly = flips.rates <= flips.rate
    left = contradicted[hardly].sum() / max(1, present[hardly].sum())
    follows_features = flips.rate * n < _EXPLAINED * contradicted.sum() and left > _UNEXPLAINED
    return alike if follows_features else flips


def _corrected(ask: Ask, flips: Flips) -> Ask:
    return lambda part: flips.true_shares(ask(part))


def _counts(predicted: Codes, certainty: Array, codes: Codes, n_classes: int) -> Array:
    """Labels of the most certain rows: ``counts[k, j]`` rows of predicted class k are labelled j."""
    order = np.lexsort((-certainty, predicted))
    size = np.bincount(predicted, minlength=n_classes)
    first = np.cumsum(size) - size
    place = np.arange(len(order)) - first[predicted[order]]
    asked = order[place < np.ceil(_CERTAIN * size[predicted[order]])]
    cells = predicted[asked] * n_classes + codes[asked]
    return np.bincount(cells, minlength=n_classes * n_classes).reshape(n_classes, n_classes).astype(float)


def _spread(counts: Array, *, given_rates: bool = False) -> tuple[float, int]:
    """Chi-squared of the wrong labels against uniform flips, and its degrees of freedom.

    With ``given_rates`` each class has a rate of its own, and only which other label it got is asked.
    """
    n_classes = len(counts)
    is_other = ~np.eye(n_classes, dtype=bool)
    wrong = np.where(is_other, counts, 0.0).sum(axis=1, keepdims=True)
    usual = wrong if given_rates else counts.sum(axis=1, keepdims=True) * wrong.sum() / max(counts.sum(), 1.0)
    expected = np.repeat(usual / (n_classes - 1), n_classes, axis=1)
    asked = is_other & (expected > 0)
    # Where less than half a row is expected, one that came is no surprise.
    squared = (counts - expected)[asked] ** 2 / np.maximum(expected[asked], 0.5)
    known = int(np.count_nonzero(wrong)) if given_rates else 1
    return float(squared.sum()), max(1, int(asked.sum()) - known)


def _is_uneven(counts: Array, predicted: Codes, certainty: Array, codes: Codes) -> bool:
    """Whether flips depend on the class, more clearly than the overlap of classes would make believe.

    Where classes overlap, rows that are predicted as a rare class are often labelled as a common one, though nothing is
    wrong. So either the wrong labels of a class prefer some others, or the classes differ much in the rate that is left
    when overlap is smoothed away.
    """
    from scipy.stats import chi2

    if chi2.sf(*_spread(counts)) >= _SIGNIFICANT:
        return False
    if len(counts) > 2 and chi2.sf(*_spread(counts, given_rates=True)) < _SIGNIFICANT:
        return True
    present = [np.flatnonzero(predicted == one) for one in range(len(counts))]
    rates = [smoothed_rate(codes[at] != predicted[at], certainty[at]) for at in present if len(at) >= _ENOUGH]
    return bool(rates) and max(rates) - min(rates) >= _CLEAR


def _shrunk(counts: Array, rate: float) -> Array:
    """Shares of labels by class, drawn to uniform flips by as many rows as the spread between classes allows."""
    n_classes = len(counts)
    uniform = np.full_like(counts, rate / (n_classes - 1))
    uniform[np.diag_indices(n_classes)] = 1.0 - rate
    squared, freedom = _spread(counts)
    ratio, asked = squared / freedom, counts.sum(axis=1)
    if ratio <= 1.0:
        return uniform
    usual = asked[asked > 0].mean()
    strength = max(1.0, (usual - ratio) / (ratio - 1.0))
    shrunk: Array = (counts + strength * uniform) / (asked[:, None] + strength)
    return shrunk
