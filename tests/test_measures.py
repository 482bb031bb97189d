"""The two measures and the directions of a triplet that both share."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearkin.measures import DISTANCE, SIMILARITY
from reference.common import distance_direction, similarity_direction

MEASURES = [pytest.param(DISTANCE, id="distance"), pytest.param(SIMILARITY, id="similarity")]
seeds = st.integers(0, 2**32 - 1)


def signed_matrix(measure, x, positive, negative):
    """A of the paper: vv' - uu' or x w'."""
    return (distance_direction if measure.is_distance else similarity_direction)(x, positive, negative)


def score(measure, x, y, M):
    return -float((x - y) @ M @ (x - y)) if measure.is_distance else float(x @ M @ y)


@pytest.mark.parametrize("measure", MEASURES)
@given(seed=seeds, d=st.integers(1, 8))
def test_margin_is_the_gap_between_the_two_scores_for_any_matrix(measure, seed, d):
    rng = np.random.default_rng(seed)
    x, positive, negative = rng.normal(size=(3, d))
    M = rng.normal(size=(d, d))
    if measure.is_distance:
        M = M @ M.T
    g, h = measure.directions(x, positive, negative)
    gap = score(measure, x, positive, M) - score(measure, x, negative, M)
    np.testing.assert_allclose(g @ M @ h, gap, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("measure", MEASURES)
@given(seed=seeds, d=st.integers(1, 8))
def test_factored_direction_matches_the_matrix_in_the_paper(measure, seed, d):
    x, positive, negative = np.random.default_rng(seed).normal(size=(3, d))
    A = signed_matrix(measure, x, positive, negative)
    g, h = measure.directions(x, positive, negative)
    factored = np.outer(g, h)
    if measure.is_distance:
        factored = 0.5 * (factored + factored.T)
    np.testing.assert_allclose(factored, A, atol=1e-13)


@pytest.mark.parametrize("measure", MEASURES)
@given(seed=seeds, d=st.integers(1, 8))
def test_squared_norm_is_the_frobenius_norm_of_the_matrix_never_formed(measure, seed, d):
    rng = np.random.default_rng(seed)
    x, positive, negative = rng.normal(size=(3, 5, d))
    norms = measure.squared_norm(*measure.directions(x, positive, negative))
    for row in range(5):
        A = signed_matrix(measure, x[row], positive[row], negative[row])
        np.testing.assert_allclose(norms[row], (A * A).sum(), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("measure", MEASURES)
def test_scores_of_all_pairs_agree_with_one_pair_at_a_time(measure, rng):
    left, right = rng.normal(size=(7, 4)), rng.normal(size=(5, 4))
    expected = [[score(measure, a, b, np.eye(4)) for b in right] for a in left]
    np.testing.assert_allclose(measure.scores(left, right), expected, atol=1e-13)
    np.testing.assert_allclose(measure.pair_scores(left[:5], right), np.diag(np.array(expected)[:5]), atol=1e-13)


def test_distance_scores_are_never_positive_and_zero_only_on_the_row_itself(rng):
    X = rng.normal(size=(30, 6))
    scores = DISTANCE.scores(X, X)
    assert np.all(scores <= 0.0)
    np.testing.assert_allclose(np.diag(scores), 0.0, atol=1e-13)
    assert np.all(scores[~np.eye(30, dtype=bool)] < -1e-6)


def test_a_common_offset_costs_distances_no_digits(rng):
    left, right = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    plain = DISTANCE.scores(left, right)
    np.testing.assert_allclose(DISTANCE.scores(left + 1e6, right + 1e6), plain, rtol=1e-8)


@pytest.mark.parametrize("measure", MEASURES)
def test_exchanging_positive_and_negative_turns_the_margin_around(measure, rng):
    x, positive, negative = rng.normal(size=(3, 20, 4))
    z = [
        (g * h).sum(axis=1)
        for g, h in (measure.directions(x, positive, negative), measure.directions(x, negative, positive))
    ]
    np.testing.assert_allclose(z[0], -z[1], atol=1e-13)
    norms = [
        measure.squared_norm(*measure.directions(x, p, n)) for p, n in ((positive, negative), (negative, positive))
    ]
    np.testing.assert_allclose(*norms, rtol=1e-13)
