"""Label-noise models: uniform or per class."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array, Codes
from nearkin.noise.rate import VotesOn, certain_rate, max_rate, smoothed_rate, survey
from nearkin.stored import Count, Maybe, Number, Values, stored

__all__ = ["NoiseModel", "estimate_noise_model"]

#: Smallest share of a class, times the number of classes, before shares are normalised.
_FLOOR = 2e-3

#: Share of the most certain rows of each class whose labels are counted for a flip matrix.
_CERTAIN = 0.25

#: A matrix is used if uniform flips would give such counts with less than this probability.
_SIGNIFICANT = 1e-3

#: Smallest difference between the rates of two classes that overlap does not explain, and the rows needed to tell.
_CLEAR = 0.2
_ENOUGH = 10

#: A matrix must explain at least this share of all contradicted labels, or else leave at most this share of them in
#: classes that are hardly mistaken.
_EXPLAINED = 0.5
_UNEXPLAINED = 0.1

#: Smallest part of the usual probability that a label gets from any class when labels are ranked: none is impossible.
_POSSIBLE = 0.1

#: Most classes for which a matrix is estimated: with more there are too few rows for each pair.
_MOST_CLASSES = 200


@stored(rate=Number(0.0, 1.0), n_classes=Count(2, size="c"), matrix=Maybe(Values("c", "c", low=0.0, high=1.0)))
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
    model = uniform = NoiseModel(certain_rate(predicted != codes, certainty, n_classes), n_classes)
    if n_classes > _MOST_CLASSES:
        return uniform
    for is_first in (True, False):
        counts = _count_labels(predicted, certainty, codes, n_classes)
        if is_first and not _is_uneven(counts, predicted, certainty, codes):
            return uniform
        model = NoiseModel(uniform.rate, n_classes, _shrink(counts, uniform.rate))
        predicted, certainty = survey(_corrected(votes_on, model), n, n_classes)
    present = np.bincount(predicted, minlength=n_classes)
    contradicted = np.bincount(predicted[predicted != codes], minlength=n_classes)
    model.rate = float(present @ model.rates / n)
    hardly = model.rates <= model.rate
    left = contradicted[hardly].sum() / max(1, present[hardly].sum())
    follows_features = model.rate * n < _EXPLAINED * contradicted.sum() and left > _UNEXPLAINED
    return uniform if follows_features else model


def _corrected(votes_on: VotesOn, model: NoiseModel) -> VotesOn:
    return lambda part: model.true_shares(votes_on(part))


def _count_labels(predicted: Codes, certainty: Array, codes: Codes, n_classes: int) -> Array:
    """Count the labels of the most certain rows: ``counts[k, j]`` rows of predicted class k are labelled j."""
    order = np.lexsort((-certainty, predicted))
    size = np.bincount(predicted, minlength=n_classes)
    first = np.cumsum(size) - size
    rank = np.arange(len(order)) - first[predicted[order]]
    certain = order[rank < np.ceil(_CERTAIN * size[predicted[order]])]
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
    # Where less than half a row is expected, a single one is no surprise.
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
