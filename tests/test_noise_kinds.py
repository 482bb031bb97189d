"""Kinds of label noise: how many labels are wrong, which ones, and what they become."""

import numpy as np
import pytest

from nearkin.noise import flip_labels, flip_near_boundary, flip_to_next

KINDS = {
    "uniform": lambda X, y, rate, seed: flip_labels(y, rate, random_state=seed),
    "next": lambda X, y, rate, seed: flip_to_next(y, rate, random_state=seed),
    "boundary": lambda X, y, rate, seed: flip_near_boundary(X, y, rate, random_state=seed),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.55, 1.0])
def test_exactly_the_given_share_of_labels_is_flipped(kind, rate, blobs):
    X, y = blobs(n=60)
    before = y.copy()
    noisy, is_wrong = KINDS[kind](X, y, rate, 0)
    assert is_wrong.sum() == round(rate * len(y))
    assert np.array_equal(noisy != y, is_wrong)
    assert set(noisy) <= set(y)
    assert np.array_equal(y, before)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_flips_the_same_labels_and_another_seed_others(kind, blobs):
    X, y = blobs(n=60)
    first, again, other = (KINDS[kind](X, y, 0.3, seed)[1] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("kind", KINDS)
def test_one_class_or_a_rate_outside_its_range_is_refused(kind, blobs):
    X, y = blobs(n=12)
    with pytest.raises(ValueError, match="`rate`"):
        KINDS[kind](X, y, 1.5, 0)
    with pytest.raises(ValueError, match="one class"):
        KINDS[kind](X, np.zeros(12, dtype=int), 0.5, 0)


def test_the_next_class_is_the_only_wrong_one():
    y = np.array(["a", "b", "c"] * 20)
    noisy, is_wrong = flip_to_next(y, 0.4, random_state=3)
    following = {"a": "b", "b": "c", "c": "a"}
    assert noisy[is_wrong].tolist() == [following[one] for one in y[is_wrong]]


def test_boundary_noise_stays_near_the_boundary_and_names_the_class_beyond_it(rng):
    x = np.sort(rng.uniform(0, 3, 300))
    y = np.minimum(x.astype(int), 2)
    noisy, is_wrong = flip_near_boundary(x[:, None], y, 0.05, random_state=0)
    gap = np.minimum(abs(x - 1), abs(x - 2))
    assert gap[is_wrong].max() < 0.3
    assert np.all(abs(noisy[is_wrong] - y[is_wrong]) == 1)


def test_a_class_of_one_row_and_equal_rows_do_no_harm():
    X = np.array([[0.0], [0.0], [1.0], [1.0], [5.0]])
    noisy, is_wrong = flip_near_boundary(X, [0, 1, 0, 0, 2], 0.4, random_state=0)
    assert is_wrong.sum() == 2
    assert is_wrong[:2].any()  # two equal rows of two classes are as near as can be
    assert noisy[4] in (0, 2)


def test_boundary_noise_needs_a_row_for_every_label():
    with pytest.raises(ValueError, match="one row for each of the 3 labels"):
        flip_near_boundary([[0.0], [1.0]], [0, 1, 1], 0.2)
