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

    def apply(
        self, plausibility: Array, score: Array, codes: Codes, noise: NoiseModel, *, rate_is_given: bool,
        counts: Index | None = None,
    ) -> Mask:  # fmt: skip
        """Find the suspects, the least plausible labels; a given rate alone decides how many.

        Otherwise labels are suspects by either of two rules: those that are so likely wrong that flagging them makes
        the expected harmonic mean of precision and recall the largest, and a share of all labels that is worth a look.
        No class has more suspects than flips explain, and a fifth of it where it is not rare: where classes overlap, a
        small one loses most votes, right labels or not. Labels more likely wrong than right are suspects beyond that.

        An entry may stand for several labels of a class that are about equally plausible, as many as ``counts`` says;
        these are suspects together, or none of them is.
        """
        counts = np.ones(len(codes), np.int64) if counts is None else counts
        size, rank = _count_classes(codes, counts), _ranks_within(plausibility, codes, counts)
        is_outvoted = (score < self.outvoted) & (rank < size[codes] - self.spared)
        first = np.where(is_outvoted, plausibility, 1.0)
        if rate_is_given:
            return is_outvoted & lowest_share(first, noise.rate, counts)
        wrong = 1.0 - plausibility
        outvoted = float(counts[score < self.outvoted].sum() / counts.sum())
        looked_at = max(noise.rate, min(outvoted, self.looked_at + self.more * noise.rate))
        least = max(self.least_doubt, best_threshold(wrong, counts))
        is_suspect = (wrong >= least) | lowest_share(first, looked_at, counts)
        most = self._most_of_class(size, noise)
        # What is more likely wrong than right is beyond that, unless the class is rare.
        n_wrong = _count_classes(codes, counts * (is_outvoted & (plausibility < _WRONG)))
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


def best_threshold(chances: Array, counts: Index | None = None) -> float:
    """Find the chance from which on things are picked so that the expected F1 is the largest.

    Picking the k likeliest finds the sum of their chances in expectation, so F1 is about twice that sum over k plus the
    sum of all chances. There are ``counts`` things of each chance, or one.

    Examples
    --------
    >>> best_threshold(np.array([0.9, 0.8, 0.3, 0.05, 0.05]))
    0.8
    >>> best_threshold(np.array([0.9, 0.8, 0.3, 0.05]), np.array([1, 1, 1, 2]))
    0.8
    """
    order = np.argsort(chances, kind="stable")[::-1]
    n = np.ones(len(order), np.int64) if counts is None else counts[order]
    found = np.cumsum(n * chances[order])
    return float(chances[order[int(np.argmax(found / (np.cumsum(n) + found[-1])))]])


def call_wrong(is_suspect: Mask, plausibility: Array) -> Mask:
    """Mark the suspects of the first tier: their labels are more likely wrong than right."""
    found: Mask = is_suspect & (plausibility < _WRONG)
    return found


def lowest_share(values: Array, share: float, counts: Index | None = None) -> Mask:
    """Mark the given share of the rows, those with the lowest values; a value may be that of several rows."""
    n = np.ones(len(values), np.int64) if counts is None else counts
    order = np.argsort(values, kind="stable")
    is_marked = np.zeros(len(values), dtype=bool)
    is_marked[order[_middle(n[order]) < np.floor(share * n.sum() + 1e-9)]] = True
    return is_marked


def _middle(counts: Index) -> Array:
    """Place of each entry among all rows, from 0; that of the middle one where it stands for several."""
    found: Array = np.cumsum(counts) - (counts + 1) / 2.0
    return found


def _count_classes(codes: Codes, counts: Index) -> Index:
    return np.bincount(codes, counts).astype(np.int64)


def _ranks_within(values: Array, codes: Codes, counts: Index) -> Array:
    """Rank of each row within its class, the smallest value first."""
    order = np.lexsort((values, codes))
    size = _count_classes(codes, counts)
    ranks = np.empty(len(codes))
    ranks[order] = _middle(counts[order]) - (np.cumsum(size) - size)[codes[order]]
    return ranks
