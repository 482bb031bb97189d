"""Intervals of a mean that stay valid however often one looks.

Values lie in [-1, 1]. For every possible mean m a gambler bets against m with stakes chosen from the values before. If
m is the mean, the capital is a martingale, and by Ville's inequality it ever reaches 1 / alpha with probability alpha
at most (Waudby-Smith and Ramdas, 2024). The interval holds the means against which no gambler became that rich.
Each look at a new map spends its own share of the error, alpha / (t (t + 1)) for look t, so that all looks together
err no more often than alpha.
"""

from __future__ import annotations

import math

import numpy as np

from nearkin.arrays import Array
from nearkin.search.ranking import Interval

__all__ = ["ERROR", "anytime_interval", "queries_needed"]

#: Error of all looks together, both sides.
ERROR = 0.05

#: Means that are tried.
_GRID = np.linspace(-1.0, 1.0, 2001)
#: Share of the capital that may be lost with one bet.
_STAKE = 0.75
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
    rich = math.log(2.0 * look * (look + 1) / error)
    low, high = (sign * _GRID[_log_capital(sign * values, rich) >= rich].max(initial=-1.0) for sign in (1.0, -1.0))
    return Interval(bound * mean, bound * float(min(low, mean)), bound * float(max(high, mean)))


def _log_capital(values: Array, rich: float) -> Array:
    """Return the largest log capital of gamblers who bet that the mean is above each of the grid."""
    n = len(values)
    count = np.arange(1, n + 1)
    running = np.cumsum(values) / (count + 1.0)
    spread = (_SPREAD + np.cumsum(np.square(values - running))) / (count + 1.0)
    spread = np.concatenate([[_SPREAD], spread[:-1]])  # known before the value
    stake = np.sqrt(2.0 * rich / (spread * max(1, n)))
    best = np.full(len(_GRID), -np.inf)
    for start in range(0, len(_GRID), 128):
        m = _GRID[start : start + 128, None]
        bet = np.minimum(stake, _STAKE / np.maximum(1.0 + m, 1e-9))
        capital = np.cumsum(np.log1p(bet * (values - m)), axis=1) if n else np.zeros((len(m), 1))
        best[start : start + 128] = capital.max(axis=1)
    return best


def queries_needed(spread: float, gain: float, look: int = 1, error: float = ERROR) -> int:
    """Return about how many held-out queries show a gain, if single queries differ by ``spread`` (standard deviation).

    Examples
    --------
    >>> queries_needed(0.2, 0.05), queries_needed(0.2, 0.01)
    (141, 3506)
    """
    rich = math.log(2.0 * look * (look + 1) / error)
    return math.ceil(2.0 * rich * (spread / gain) ** 2)
