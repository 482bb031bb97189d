"""The nearest witnesses and the margin of their votes, against a literal twin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkin.errors import InputError
from nearkin.kernels.neighbours import judge


def judge_plainly(distances, row_class, witness_class, weight, k):
    """What the docstring of `judge` says, one row at a time."""
    n, m = distances.shape
    total = weight.sum()
    found_own, found_other, margins = [], [], []
    for i in range(n):
        few = distances[i, :: min(16, max(1, m // 64))]
        nothing = 64 * np.finfo(distances.dtype).eps * few.max(initial=0.0)
        order = sorted(range(m), key=lambda j, i=i: (distances[i, j], witness_class[j] != row_class[i], j))
        twins = [j for j in range(m) if witness_class[j] == row_class[i] and distances[i, j] <= nothing]
        itself = twins[0] if twins else None
        own = [j for j in order if witness_class[j] == row_class[i] and j != itself]
        other = [j for j in order if witness_class[j] != row_class[i]]
        found_own.append((own[:k] + [-1] * k)[:k])
        found_other.append((other[:k] + [-1] * k)[:k])
        if not own:
            margins.append(2.5)
            continue
        votes = {}
        voters = [j for j in order if j != itself][:k]
        for c in {row_class[i], *(witness_class[j] for j in voters)}:
            members = [j for j in range(m) if witness_class[j] == c]
            prior = weight[members].sum() / total if total > 0 else 0.0
            size = len(members) - (c == row_class[i] and itself is not None)
            votes[c] = (prior + sum(weight[j] for j in voters if witness_class[j] == c)) * max(1.0, k / size)
        for_it = votes.pop(row_class[i])
        best = max(votes.values(), default=0.0)
        margins.append(4.0 * for_it / max(for_it + best, 1e-300) - 1.5)
    return np.array(found_own).reshape(n, k), np.array(found_other).reshape(n, k), np.array(margins)


@settings(max_examples=300)
@given(
    n=st.integers(0, 12), m=st.integers(1, 30), n_classes=st.integers(1, 6), k=st.integers(1, 16),
    n_values=st.sampled_from([1, 2, 3, 5, 10**6]), is_single=st.booleans(), seed=st.integers(0, 2**32),
)  # fmt: skip
def test_votes_are_those_of_the_plain_twin(n, m, n_classes, k, n_values, is_single, seed):
    """With ties, rows that are witnesses, classes without witnesses, fewer than k of them, and weights of zero."""
    rng = np.random.default_rng(seed)
    dtype = np.float32 if is_single else np.float64
    distances = rng.integers(0, n_values, (n, m)).astype(dtype)
    row_class, witness_class = rng.integers(0, n_classes, n), np.sort(rng.integers(0, n_classes, m))
    weight = np.where(rng.random(m) < 0.2, 0.0, rng.random(m))
    found = judge(distances, row_class, witness_class, weight, k)
    expected = judge_plainly(distances, row_class, witness_class, weight, k)
    for which, values, twin in ((found.own, found.near, expected[0]), (found.other, found.far, expected[1])):
        np.testing.assert_array_equal(which, twin)
        rows, places = np.nonzero(which >= 0)
        np.testing.assert_array_equal(values[rows, places], distances[rows, which[rows, places]])
    np.testing.assert_allclose(found.margin, expected[2], rtol=1e-12, atol=1e-12)
    assert ((found.margin >= -1.5) & (found.margin <= 2.5)).all()


def test_only_one_witness_at_no_distance_is_the_row_itself():
    found = judge(np.zeros((1, 3)), np.array([0]), np.array([0, 0, 1]), np.ones(3), 2)
    assert found.own.tolist() == [[1, -1]] and found.other.tolist() == [[2, -1]]
    assert found.margin[0] == pytest.approx(4 * (2 / 3 + 1) * 2 / ((2 / 3 + 1) * 2 + (1 / 3 + 1) * 2) - 1.5)


def test_the_first_of_a_few_witnesses_is_known_for_the_row_itself_up_to_rounding():
    distances = np.array([[1e-15, 1.0, 2.0], [1.0, 1e-15, 3.0], [2.0, 3.0, 1e-15]])
    found = judge(distances, np.zeros(3, int), np.zeros(3, int), np.ones(3), 2)
    assert found.own.tolist() == [[1, 2], [0, 2], [0, 1]]


def test_shapes_and_classes_that_cannot_be_are_refused():
    with pytest.raises(ValueError):
        judge(np.zeros((2, 3)), np.array([0]), np.array([0, 0, 1]), np.ones(3), 2)
    for row_class, witness_class in (([-1], [0, 0, 1]), ([0], [-1, 0, 1]), ([0], [1, 0, 1])):
        with pytest.raises(InputError, match="ordered by class"):
            judge(np.zeros((1, 3)), np.array(row_class), np.array(witness_class), np.ones(3), 2)
