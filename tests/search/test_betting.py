"""Intervals that hold however often one looks."""

import numpy as np
import pytest
from scipy.stats import norm

from nearkin.search import anytime_interval, queries_needed


def literal_capital(values, m, alpha):
    """The most that one gambler on a mean above m ever has, value by value."""
    capital, seen = 1.0, []
    for t, value in enumerate(values):
        if capital >= 1 / alpha:
            break
        means = [sum(values[: i + 1]) / (i + 2) for i in range(t)]
        spread = np.sqrt((0.0625 + sum((v - one) ** 2 for v, one in zip(values, means, strict=False))) / (t + 1))
        hope = norm.ppf(capital * alpha / 1.25)
        stake = min(1.25 / alpha * norm.pdf(hope) / (spread * np.sqrt(len(values) - t)), 0.9 * capital / (1 + m))
        capital += stake * (value - m)
        seen.append(capital)
    return max(seen)


def test_the_interval_is_that_of_single_bets(rng):
    values = rng.normal(0.3, 0.2, size=40).clip(-1, 1)
    found = anytime_interval(values, look=2)
    alpha = 0.025 * 6 / np.pi**2 / 4
    for end, sign in ((found.low, 1), (found.high, -1)):
        assert literal_capital(sign * values, sign * end, alpha) >= 1 / alpha
        assert literal_capital(sign * values, sign * end + 2e-4, alpha) < 1 / alpha
    assert found.mean == pytest.approx(values.mean())


def test_it_takes_hardly_more_values_than_one_look_would(rng):
    """Gains of 3.2 standard errors, of which a single test would show 85 %; bets of a fixed share show 60 %."""
    values = rng.normal(0.32 / np.sqrt(400), 0.1, size=(20, 400))
    assert sum(anytime_interval(one, 1, 0.4).low > 0 for one in values) > 12


def test_many_looks_at_worthless_maps_show_no_gain():
    wrong = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        wrong += any(anytime_interval(rng.normal(0.0, 0.2, size=60), look, 0.8).low > 0 for look in range(1, 6))
    assert wrong <= 2


def test_looks_widen_and_rows_and_bounds_narrow(rng):
    values = rng.normal(0.05, 0.1, size=400)
    found = [anytime_interval(*one) for one in ((values, 1, 0.4), (values, 30, 0.4), (values[:100], 1, 0.4), (values,))]
    widths = [one.high - one.low for one in found]
    assert widths[0] < min(widths[1:])


def test_the_number_of_queries_is_about_right():
    n = queries_needed(0.2, 0.05)
    shown = 0
    for seed in range(20):
        values = np.random.default_rng(seed).normal(0.05, 0.2, size=2 * n)
        shown += anytime_interval(values, bound=0.8).low > 0
    assert shown >= 14
