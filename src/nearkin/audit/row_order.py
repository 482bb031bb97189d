"""Order of the rows: stretches of doubted labels, and labels that follow the number of the row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array, Codes, Index, Mask

__all__ = ["find_period", "find_runs"]

#: Runs of doubted rows: the shortest, the most of them, the level of all tests together, and the least share of
#: doubted rows as a multiple of what their classes lead one to expect.
_SHORTEST, _MOST_RUNS, _LEVEL, _MORE_OFTEN = 20, 3, 1e-3, 2.0

#: Longest period, how much better than chance an earlier row must tell the label, and how many labels chance must miss.
_LONGEST_PERIOD, _TELLS, _MISSED = 200, 0.8, 10.0


def find_runs(is_doubted: Mask, codes: Codes) -> list[tuple[int, int]]:
    """Return starts and ends of at most three runs of rows that are doubted far more often than their classes are.

    Windows of several lengths are tested, each by the binomial tail at a level divided by their number (Bonferroni),
    so sorted labels alone raise no alarm. A run is then the stretch around the best window with the largest excess.

    Examples
    --------
    >>> is_doubted = np.zeros(1000, dtype=bool)
    >>> is_doubted[[40, 900, *range(500, 560)]] = True
    >>> find_runs(is_doubted, np.arange(1000) % 2)
    [(500, 560)]
    """
    from scipy.stats import binom

    n = len(codes)
    runs: list[tuple[int, int]] = []
    usual = (np.bincount(codes, is_doubted) / np.maximum(np.bincount(codes), 1))[codes]
    free = np.ones(n, bool)
    starts, lengths = _windows(n)
    while len(starts) and len(runs) < _MOST_RUNS:
        ends = starts + lengths
        seen, expected, n_free = (_sum_windows(one * free, starts, ends) for one in (is_doubted, usual, free))
        chance = binom.sf(seen - 1.0, n_free, np.clip(expected / np.maximum(n_free, 1.0), 0.0, 1.0))
        chance[(seen < _MORE_OFTEN * expected) | (n_free < lengths)] = 1.0
        best = int(chance.argmin())
        if chance[best] * len(starts) >= _LEVEL:
            break
        base = (float(is_doubted.mean()) + seen[best] / n_free[best]) / 2.0
        run = _stretch(np.where(free, is_doubted - base, -np.inf), int(starts[best]), int(ends[best]))
        runs.append(run)
        free[slice(*run)] = False
    return runs


def _sum_windows(values: NDArray[Any], starts: Index, ends: Index) -> Array:
    sums = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    found: Array = sums[ends] - sums[starts]
    return found


def _windows(n: int) -> tuple[Index, Index]:
    """Starts and lengths of windows that overlap by half: a quarter of the rows, an eighth, and so on."""
    none = np.zeros(0, np.int64)
    starts, lengths, length = [none], [none], n // 4
    while length >= _SHORTEST:
        at = np.arange(0, n - length + 1, length // 2)
        starts.append(at)
        lengths.append(np.full(len(at), length))
        length //= 2
    return np.concatenate(starts), np.concatenate(lengths)


def _stretch(excess: Array, start: int, end: int) -> tuple[int, int]:
    """The window moved at both ends to where the sum of the excess is largest, within three lengths of it."""
    middle, reach = (start + end) // 2, 2 * (end - start)
    left = np.cumsum(excess[max(0, middle - reach) : middle][::-1])
    right = np.cumsum(excess[middle : middle + reach])
    return middle - 1 - int(left.argmax()), middle + 1 + int(right.argmax())


def find_period(codes: Codes) -> tuple[int, float] | None:
    """Return by how many rows an earlier row nearly always has the same label, and how often; None if there is none.

    Examples
    --------
    >>> find_period(np.tile(np.arange(5), 20))
    (5, 1.0)
    >>> find_period(np.random.default_rng(0).integers(5, size=100))
    """
    n = len(codes)
    shares = np.bincount(codes) / n
    chance = float((shares * shares).sum())
    if (1.0 - chance) * n < _MISSED:
        return None
    for period in range(1, min(_LONGEST_PERIOD, n // 4) + 1):
        agree = float(np.mean(codes[period:] == codes[:-period]))
        if agree - chance >= _TELLS * (1.0 - chance):
            return period, agree
    return None
