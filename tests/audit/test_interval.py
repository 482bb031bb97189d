"""The interval of the noise rate holds the truth as often as it says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nearkin
from nearkin.audit import rate_interval


@given(st.integers(1, 5000), st.floats(0, 1), st.floats(0.5, 0.99))
def test_the_interval_encloses_the_rate_and_lies_between_0_and_1(n, rate, level):
    low, high = rate_interval(rate, n, level)
    assert 0 <= low <= rate <= high <= 1


@given(st.integers(2, 2000), st.floats(0.01, 0.99))
def test_more_rows_and_less_certainty_make_it_narrower(n, rate):
    def width(*args):
        low, high = rate_interval(rate, *args)
        return high - low

    assert width(4 * n) <= width(n) + 1e-12
    assert width(n, 0.8) <= width(n, 0.95) + 1e-12


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("n", [50, 500])
def test_coverage_of_a_binomial_count(rate, n):
    draws = np.random.default_rng(0).binomial(n, rate, size=2000) / n
    inside = [low <= rate <= high for low, high in (rate_interval(float(one), n) for one in draws)]
    assert 0.92 <= np.mean(inside) <= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3])
def test_coverage_of_the_audit_on_separate_clouds(rate):
    """The truth is the share of labels that were flipped; the estimate asks but a part of the rows."""
    inside = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        y = rng.permutation(np.arange(240) % 3)
        X = 7.0 * np.eye(3)[y] + rng.normal(size=(240, 3))
        noisy, is_wrong = nearkin.flip_labels(y, rate, random_state=seed)
        low, high = nearkin.audit_labels(X, noisy, nearkin.Euclidean(), seed).noise_interval
        inside += low <= is_wrong.mean() <= high
    assert inside >= 17


@pytest.mark.parametrize("arguments", [(-0.1, 10), (0.5, 0), (0.5, 10, 1.0), (np.nan, 10), (0.5, 2.5)])
def test_a_number_that_is_not_a_share_is_refused(arguments):
    with pytest.raises(ValueError, match="rate_interval"):
        rate_interval(*arguments)


def test_labels_more_likely_wrong_than_right_are_called_wrong_and_prove_that_some_are():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 600)
    X = rng.normal(size=(600, 4)) + 4.0 * y[:, None]
    labels = np.where((y == 0) & (rng.random(600) < 0.4), 1, y)  # two fifths of one class called the other
    audit = nearkin.audit_labels(X, labels, random_state=0)
    np.testing.assert_array_equal(audit.plausibility < 0.5, audit.is_wrong)
    assert 0.0 < audit.noise_interval[0] < np.mean(labels != y) < audit.noise_interval[1]
