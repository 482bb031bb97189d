"""Intervals that hold however often one looks."""

import numpy as np
import pytest

from nearkin.search import anytime_interval, queries_needed


def literal_low(values, rich):
    """Lower end by one gambler after the other, value by value."""
    rejected = [-1.0]
    n = len(values)
    for m in np.linspace(-1, 1, 2001):
        capital, total, squares, best = 0.0, 0.0, 0.0625, -np.inf
        for t, value in enumerate(values):
            spread = squares / (t + 1)
            stake = min(np.sqrt(2 * rich / (spread * n)), 0.75 / max(1 + m, 1e-9))
            capital += np.log1p(stake * (value - m))
            best = max(best, capital)
            total += value
            squares += (value - total / (t + 2)) ** 2
        if best >= rich:
            rejected.append(m)
    return max(rejected)


def test_the_interval_is_that_of_single_bets(rng):
    values = rng.normal(0.3, 0.2, size=40).clip(-1, 1)
    found = anytime_interval(values, look=2)
    assert found.low == pytest.approx(literal_low(values, np.log(2 * 6 / 0.05)))
    assert found.high == pytest.approx(-literal_low(-values, np.log(2 * 6 / 0.05)))
    assert found.mean == pytest.approx(values.mean())


def test_many_looks_at_worthless_maps_show_no_gain():
    wrong = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        wrong += any(anytime_interval(rng.normal(0.0, 0.2, size=100), look, 0.8).low > 0 for look in range(1, 6))
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
