"""Intervals of a mean that stay valid however often one looks.

Values lie in [-1, 1]. For every possible mean m a gambler bets against m with stakes chosen from the values before. If
m is the mean, the capital is a martingale, and by Ville's inequality it ever reaches 1 / alpha with probability alpha
at most (Waudby-Smith and Ramdas, 2024). The interval holds the means against which no gambler became that rich.
The gambler plays for all or nothing at the last value: he holds what an option would be worth that pays a little more
than 1 / alpha if the sum of the values ends high enough, and else nothing. So he needs hardly more values than a test
that looks once (Koning and van Meer, 2025).
Each look at a new map spends its own share of the error, 6 / (pi t)^2 for look t, so that all looks together err no
more often than alpha.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from nearkin.arrays import Array
from nearkin.search.ranking import Interval

__all__ = ["ERROR", "anytime_interval", "queries_needed"]

#: Error of all looks together, both sides.
ERROR = 0.05

#: Means that are tried in each of two rounds.
_MEANS = 101
#: Share of the capital that may be lost with one bet.
_STAKE = 0.9
#: What the gambler plays for, as a multiple of what convinces: bets do not hit an aim exactly.
_AIM = 1.25
#: Variance that is expected before the first value.
_SPREAD = 0.0625


def anytime_interval(values: Array, look: int = 1, bound: float = 1.0, error: float = ERROR) -> Interval:
    """Compute the interval of the mean at a look (from 1); values beyond ``bound`` count as the bound.

    Parameters
    ----------
    values : ndarray of shape (n,)
        One number per query, in an order that does not depend on them.
    look : int, default=1
        How many times values were looked at, this one included.
    bound : float, default=1.0
        Largest size of a value. A bound near the values narrows the interval; it must not be chosen by them.
    error : float, default=0.05
        Probability that any interval of all looks misses the mean.

    Returns
    -------
    Interval
        The mean, and the ends of the interval.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = anytime_interval(rng.normal(0.1, 0.3, size=1000).clip(-1, 1))
    >>> found.low > 0, anytime_interval(np.full(5, 0.5)).low < 0
    (True, True)
    """
    values = np.clip(np.asarray(values, dtype=np.float64) / bound, -1.0, 1.0)
    mean = float(np.mean(values)) if len(values) else 0.0
    alpha = _share(look, error)
    low, high = _ends(values, alpha)
    return Interval(bound * mean, bound * min(low, mean), bound * max(high, mean))


def _share(look: int, error: float) -> float:
    """Return the error that a look may spend on one side."""
    return 3.0 * error / (math.pi * look) ** 2


def _ends(values: Array, alpha: float) -> tuple[float, float]:
    """Return the largest mean that gamblers on higher values refute, and the smallest that those on lower ones do."""
    side, refuted, step = np.array([[1.0], [-1.0]]), np.array([[-1.0], [-1.0]]), 2.0
    for _ in range(2):  # the second round looks between two means of the first
        means = refuted + np.linspace(0.0, step, _MEANS)
        is_refuted = _most_capital(values, side, means, alpha) >= 1.0 / alpha
        refuted = np.where(is_refuted, means, refuted).max(axis=1, keepdims=True)
        step /= _MEANS - 1
    low, high = (side * refuted).ravel().tolist()
    return low, high


def _most_capital(values: Array, side: Array, means: Array, alpha: float) -> Array:
    """Return the largest capital, from 1, that gamblers ever have who bet that side * value is above each mean."""
    capital = most = np.ones(means.shape)
    total, squares, aim = 0.0, _SPREAD, _AIM / alpha
    limit = _STAKE / np.maximum(1.0 + means, 1e-9)
    for i, value in enumerate(values.tolist()):
        spread = math.sqrt(squares / (i + 1) * (len(values) - i))  # known before the value
        hope = ndtri(np.minimum(capital / aim, 1.0 - 1e-9))
        stake = aim / spread / math.sqrt(2.0 * math.pi) * np.exp(-0.5 * hope * hope)
        stake = np.minimum(stake, limit * capital)
        capital = np.where(capital >= 1.0 / alpha, capital, capital + stake * (side * value - means))
        most = np.maximum(most, capital)
        total += value
        squares += (value - total / (i + 2)) ** 2
    return most


def queries_needed(spread: float, gain: float, look: int = 1, error: float = ERROR) -> int:
    """Return about how many held-out queries show a gain, if single queries differ by ``spread`` (standard deviation).

    A gain is taken to differ between queries by its own size at least.

    Examples
    --------
    >>> queries_needed(0.2, 0.05), queries_needed(0.2, 0.01), queries_needed(0.0, 0.05)
    (82, 2029, 6)
    """
    return math.ceil(float(ndtri(1.0 - _share(look, error) / _AIM) * max(spread, gain) / gain) ** 2)
