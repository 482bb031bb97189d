"""Single values far from all others of their column, such as 900 among values around 13."""

from __future__ import annotations

import numpy as np

from nearkin.arrays import Array

__all__ = ["find_stray_values"]

#: How many times as far from the median as any other value, most of them as a share of the rows, and the fewest
#: distinct values of a column that measures something. The largest of a thousand lognormal values (sigma 1) is that far
#: out in one column of 5,000.
_TIMES, _FEW, _DISTINCT = 10.0, 0.01, 10


def find_stray_values(values: Array) -> list[int]:
    """Return the rows whose values lie ten times as far from the median as all others, the farthest first.

    Examples
    --------
    >>> values = np.random.default_rng(0).normal(13.0, 1.0, 200)
    >>> values[[3, 8]] = 900.0, -9999.0
    >>> find_stray_values(values)
    [8, 3]
    """
    known = np.flatnonzero(np.isfinite(values))
    most = max(1, int(_FEW * len(known)))
    if len(known) < 4 * most:
        return []
    with np.errstate(over="ignore"):
        far = np.abs(values[known] - np.median(values[known]))
    top = np.argpartition(-far, most)[: most + 1]
    top = top[np.argsort(-far[top], kind="stable")]
    apart = far[top]
    gaps = np.flatnonzero((apart[:-1] >= _TIMES * apart[1:]) & (apart[1:] > 0.0))
    if not len(gaps) or np.median(far) == 0.0 or len(np.unique(values[known])) <= _DISTINCT + gaps[-1]:
        return []
    rows: list[int] = known[top[: int(gaps[-1]) + 1]].tolist()
    return rows
