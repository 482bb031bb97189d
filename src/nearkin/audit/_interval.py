"""How sure the estimated share of wrong labels is."""

from __future__ import annotations

from nearkin.checks import Integer, Real

__all__ = ["LEVEL", "rate_interval"]

#: Share of intervals that should hold the true rate.
LEVEL = 0.95


def rate_interval(rate: float, n_asked: int, level: float = LEVEL) -> tuple[float, float]:
    """Jeffreys' interval for a share that was counted on ``n_asked`` rows.

    The rate of an audit is the share of contradicted labels among the rows about which neighbours are most certain. A
    row's own label has no say in whether it is asked, so under noise that does not follow the features the count is
    binomial, and the interval is the central part of Beta(k + 1/2, n - k + 1/2) with k = rate n.

    Parameters
    ----------
    rate : float
        Estimated share.
    n_asked : int
        Rows that were asked.
    level : float, default=0.95
        Wanted coverage.

    Returns
    -------
    low, high : float
        Ends of the interval; they enclose ``rate``.

    Notes
    -----
    Brown, Cai and DasGupta (Interval estimation for a binomial proportion, 2001) recommend Jeffreys' interval for small
    counts. It speaks of chance only: where classes truly overlap, the rate itself is too high, and where wrong labels
    follow the features it is too low.

    Examples
    --------
    >>> [round(one, 3) for one in rate_interval(0.2, 100)]
    [0.131, 0.286]
    >>> rate_interval(0.0, 100)[0]
    0.0
    """
    if not Real(0.0, 1.0).allows(rate):
        raise ValueError(f"rate_interval: `rate` must be {Real(0.0, 1.0)}; got {rate!r}.")
    if not Integer(1).allows(n_asked):
        raise ValueError(f"rate_interval: `n_asked` must be {Integer(1)}; got {n_asked!r}.")
    if not Real(0.0, 1.0, open_low=True, open_high=True).allows(level):
        raise ValueError(f"rate_interval: `level` must be between 0 and 1; got {level!r}.")
    from scipy.stats import beta

    wrong, tail = rate * n_asked, (1.0 - level) / 2.0
    low, high = beta.ppf([tail, 1.0 - tail], wrong + 0.5, n_asked - wrong + 0.5)
    # At the ends a one-sided statement is meant: nothing was contradicted, or everything.
    return (0.0 if wrong == 0 else min(float(low), rate)), (1.0 if wrong == n_asked else max(float(high), rate))
