"""From verdicts on labels to suspects: which labels are in doubt, and which of them are called wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearkin.arrays import Array, Codes, Index, Mask
from nearkin.noise import NoiseModel

__all__ = ["SuspectRules", "best_threshold", "call_wrong", "lowest_share"]

#: Plausibility below which a suspect is called wrong; from there on it is worth a look.
_WRONG = 0.5


@dataclass(frozen=True)
class SuspectRules:
    """Rules by which labels become suspects. Only a label with fewer votes than another one can be a suspect.

    Parameters
    ----------
    outvoted : float
        Score below which another label has more votes.
    spared : int
        Rows of every class that are never suspects, so that no class disappears.
    least_doubt : float
        Least probability of being wrong of a label that is a suspect for that reason.
    looked_at, more : float
        Share of all labels that are suspects, as far as they are outvoted, whatever the rate, and the share of the rate
        that is added to it: wrong labels that follow the features hide from the rate.
    excess : float
        How many times the expected number of wrong labels of a class may be suspects, unless it is rare.
    beyond_rate : float
        Share of a class, unless it is rare, that may be suspects beyond that.

    Examples
    --------
    >>> score, codes = np.array([0.9, 0.8, 0.1, 0.7, 0.9, 0.8]), np.array([0, 0, 0, 1, 1, 1])
    >>> SuspectRules().apply(score, score, codes, NoiseModel(0.2, 2), rate_is_given=True).tolist()
    [False, False, True, False, False, False]
    """

    outvoted: float = 0.5
    spared: int = 2
    least_doubt: float = 0.2
    looked_at: float = 0.08
    more: float = 0.4
    excess: float = 1.25
    beyond_rate: float = 0.2

    def apply(self, plausibility: Array, score: Array, codes: Codes, noise: NoiseModel, *, rate_is_given: bool) -> Mask:
        """Find the suspects, the least plausible labels; a given rate alone decides how many.

        Otherwise labels are suspects by either of two rules: those that are so likely wrong that flagging them makes
        the expected harmonic mean of precision and recall the largest, and a share of all labels that is worth a look.
        No class has more suspects than flips explain, and a fifth of it where it is not rare: where classes overlap, a
        small one loses most votes, right labels or not. Labels more likely wrong than right are suspects beyond that.
        """
        size, rank = np.bincount(codes), _ranks_within(plausibility, codes)
        is_outvoted = (score < self.outvoted) & (rank < size[codes] - self.spared)
        first = np.where(is_outvoted, plausibility, 1.0)
        if rate_is_given:
            return is_outvoted & lowest_share(first, noise.rate)
        wrong = 1.0 - plausibility
        looked_at = max(noise.rate, min(float(np.mean(score < self.outvoted)), self.looked_at + self.more * noise.rate))
        is_suspect = (wrong >= max(self.least_doubt, best_threshold(wrong))) | lowest_share(first, looked_at)
        most = self._most_of_class(size, noise)
        # What is more likely wrong than right is beyond that, unless the class is rare.
        n_wrong = np.bincount(codes[is_outvoted & (plausibility < _WRONG)], minlength=len(size))
        most = np.where(_is_rare(size), most, np.maximum(most, n_wrong))
        return is_outvoted & is_suspect & (rank < most[codes])

    def _most_of_class(self, size: Index, noise: NoiseModel) -> Array:
        """Most suspects of each class; a rate that cannot be told from zero explains none."""
        expected = noise.expected_wrong(size) * float(noise.interval[0] > 0.0)
        beyond = np.maximum((self.excess - 1.0) * expected, np.sqrt(expected)) + np.floor(self.beyond_rate * size)
        # Right rows of a rare class have few neighbours of their own, so its chance of being wrong is overrated.
        most: Array = expected + np.where(_is_rare(size), 0.0, beyond)
        return most


def _is_rare(size: Index) -> Mask:
    """Whether a class has less than half of the usual number of labels."""
    found: Mask = size < size.mean() / 2.0
    return found


def best_threshold(chances: Array) -> float:
    """Find the chance from which on things are picked so that the expected F1 is the largest.

    Picking the k likeliest finds the sum of their chances in expectation, so F1 is about twice that sum over k plus the
    sum of all chances.

    Examples
    --------
    >>> best_threshold(np.array([0.9, 0.8, 0.3, 0.05, 0.05]))
    0.8
    """
    order = np.sort(chances)[::-1]
    found = np.cumsum(order) / (np.arange(1, len(order) + 1) + order.sum())
    return float(order[int(np.argmax(found))])


def call_wrong(is_suspect: Mask, plausibility: Array) -> Mask:
    """Mark the suspects of the first tier: their labels are more likely wrong than right."""
    found: Mask = is_suspect & (plausibility < _WRONG)
    return found


def lowest_share(values: Array, share: float) -> Mask:
    """Mark the given share of the rows, those with the lowest values."""
    is_marked = np.zeros(len(values), dtype=bool)
    is_marked[np.argsort(values, kind="stable")[: int(np.floor(share * len(values) + 1e-9))]] = True
    return is_marked


def _ranks_within(values: Array, codes: Codes) -> Index:
    """Rank of each row within its class, the smallest value first."""
    order = np.lexsort((values, codes))
    size = np.bincount(codes)
    ranks = np.empty(len(codes), np.int64)
    ranks[order] = np.arange(len(codes)) - (np.cumsum(size) - size)[codes[order]]
    return ranks
