"""Which labels are suspects: a few rules on the scores of the labels, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array, Codes, Index
from nearkin.noise import NoiseModel

__all__ = ["SuspectRules", "lowest_share"]

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class SuspectRules:
    """Rules by which labels become suspects. Only a label with fewer votes than another one can be a suspect.

    Parameters
    ----------
    outvoted : float
        Score below which another label has more votes.
    spared : int
        Rows of every class that are never suspects, so that no class disappears.
    excess : float
        How many times the expected number of wrong labels of a class may be suspects.
    clearly_outvoted : float
        Score below which another label has twice the votes.
    beyond_rate : float
        Largest share of a class that may be suspects for that reason alone.

    Examples
    --------
    >>> score, codes = np.array([0.9, 0.8, 0.1, 0.7, 0.9, 0.8]), np.array([0, 0, 0, 1, 1, 1])
    >>> SuspectRules().apply(score, codes, NoiseModel(0.2, 2), rate_is_given=True).tolist()
    [False, False, True, False, False, False]
    """

    outvoted: float = 0.5
    spared: int = 2
    excess: float = 1.25
    clearly_outvoted: float = 1.0 / 3.0
    beyond_rate: float = 0.2

    def apply(self, score: Array, codes: Codes, noise: NoiseModel, *, rate_is_given: bool) -> Mask:
        """Find the suspects by the scores of `nearkin.noise.score_labels`; a given rate alone decides how many."""
        size, rank = np.bincount(codes), _ranks_within(score, codes)
        share = noise.rate if rate_is_given else self._share(score, noise.rate)
        is_suspect = lowest_share(score, share, self.outvoted) & (rank < size[codes] - self.spared)
        if rate_is_given:
            return is_suspect
        is_suspect &= rank < self._most_of_class(size, noise)[codes]
        is_suspect |= (score < self.clearly_outvoted) & (rank < self._beyond_rate(size)[codes])
        return is_suspect

    def _share(self, score: Array, rate: float) -> float:
        """Share of all labels that are suspects.

        The rate misses wrong labels that follow the features. Votes see more of them, but also right labels where
        classes overlap. The geometric mean of both is zero on clean labels. It is limited to twice the rate, or to the
        rate itself where that cannot be told from zero.
        """
        share = float(np.sqrt(rate * np.mean(score < self.outvoted)))
        chance = np.sqrt(rate * (1.0 - rate) * 4.0 / len(score))
        return min(rate + max(0.0, rate - float(chance)), share)

    def _most_of_class(self, size: Index, noise: NoiseModel) -> Array:
        """Most suspects of each class by the rate.

        Where classes overlap, a small one loses most votes, right labels or not, so it has no more suspects than flips
        from the other classes explain.
        """
        expected = noise.expected_wrong(size)
        return np.maximum(self.excess * expected, expected + np.sqrt(expected))

    def _beyond_rate(self, size: Index) -> Array:
        """Most suspects of each class because another label has twice the votes, whatever the rate.

        Rare classes are exempt: their rows have few neighbours of their own.
        """
        return np.where(size >= size.mean() / 2.0, np.floor(self.beyond_rate * size), 0.0)


def lowest_share(values: Array, share: float, below: float) -> Mask:
    """Mark the given share of the rows, those with the lowest values, as far as these lie below a bound.

    Examples
    --------
    >>> lowest_share(np.array([0.2, 1.0, 0.1, 0.9]), 0.75, 0.5).tolist()
    [True, False, True, False]
    """
    order = np.argsort(values, kind="stable")
    n_marked = min(int(np.floor(share * len(values) + 1e-9)), int(np.count_nonzero(values < below)))
    is_marked = np.zeros(len(values), dtype=bool)
    is_marked[order[:n_marked]] = True
    return is_marked


def _ranks_within(values: Array, codes: Codes) -> Index:
    """Rank of each row within its class, the smallest value first."""
    order = np.lexsort((values, codes))
    size = np.bincount(codes)
    ranks = np.empty(len(codes), np.int64)
    ranks[order] = np.arange(len(codes)) - (np.cumsum(size) - size)[codes[order]]
    return ranks
