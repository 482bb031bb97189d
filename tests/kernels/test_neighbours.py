"""The nearest witnesses and the margin of their votes, against a literal twin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from each import each
from nearkin.errors import InputError
from nearkin.kernels import neighbours
from nearkin.kernels.neighbours import judge, pack


@pytest.fixture(autouse=True, params=["few", "many"])
def way(request, monkeypatch):
    """Witnesses are compared in NumPy, and by compiled code."""
    monkeypatch.setattr(neighbours, "FEW", 1000 if request.param == "few" else 0)


def judge_plainly(distances, row_class, witness_class, weight, k, n_voters):
    """What the docstring of `judge` says, one row at a time."""
    n, m = distances.shape
    total = weight.sum()
    found_own, found_other, margins = [], [], []
    for i in range(n):
        order = sorted(range(m), key=lambda j, i=i: (distances[i, j], witness_class[j] != row_class[i], j))
        nothing = 1e-12 * distances[i].mean()
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
        voters = [j for j in order if j != itself][:n_voters]
        for c in {row_class[i], *(witness_class[j] for j in voters)}:
            members = [j for j in range(m) if witness_class[j] == c]
            prior = weight[members].sum() / total if total > 0 else 0.0
            size = len(members) - (c == row_class[i] and itself is not None)
            votes[c] = (prior + sum(weight[j] for j in voters if witness_class[j] == c)) * max(1.0, n_voters / size)
        for_it = votes.pop(row_class[i])
        best = max(votes.values(), default=0.0)
        margins.append(4.0 * for_it / max(for_it + best, 1e-300) - 1.5)
    return np.array(found_own).reshape(n, k), np.array(found_other).reshape(n, k), np.array(margins)


def judge_rows(rows, row_class, witnesses, witness_class, weight, k, voters):
    return judge(rows, row_class, pack(witnesses, witness_class, weight), k, voters)


def assert_as_plain(rows, row_class, witnesses, witness_class, weight, k, voters):
    """Distances of whole numbers are exact, so that equal ones are equal."""
    found = judge_rows(rows, row_class, witnesses, witness_class, weight, k, voters)
    distances = ((rows[:, None].astype(np.float64) - witnesses) ** 2).sum(-1)
    for margin, n_voters in zip(found.margins, voters, strict=True):
        expected = judge_plainly(distances, row_class, witness_class, weight, k, n_voters)
        np.testing.assert_allclose(margin, expected[2], rtol=1e-12, atol=1e-12)
        assert ((margin >= -1.5) & (margin <= 2.5)).all()
    for which, values, twin in ((found.own, found.near, expected[0]), (found.other, found.far, expected[1])):
        np.testing.assert_array_equal(which, twin)
        at, places = np.nonzero(which >= 0)
        np.testing.assert_allclose(values[at, places], distances[at, which[at, places]], rtol=1e-6)


@settings(max_examples=200)
@given(
    n=st.integers(0, 12), m=st.integers(1, 100), d=st.integers(1, 3), n_classes=st.integers(1, 6), k=st.integers(0, 16),
    n_voters=st.integers(1, 40), n_values=st.sampled_from([1, 2, 3, 5, 1000]), is_single=st.booleans(),
    seed=st.integers(0, 2**32),
)  # fmt: skip
def test_votes_are_those_of_the_plain_twin(n, m, d, n_classes, k, n_voters, n_values, is_single, seed):
    """With ties, rows that are witnesses, classes without witnesses, fewer than k of them, and weights of zero."""
    rng = np.random.default_rng(seed)
    draw = lambda size: rng.integers(0, n_values, (size, d)).astype(np.float32 if is_single else np.float64)  # noqa: E731
    rows, witnesses = draw(n), draw(m)
    row_class, witness_class = rng.integers(0, n_classes, n), np.sort(rng.integers(0, n_classes, m))
    weight = np.where(rng.random(m) < 0.2, 0.0, rng.random(m))
    assert_as_plain(rows, row_class, witnesses, witness_class, weight, k, (n_voters, k + 1))


@each(kind=("spread", "one by one", "all equal"))
def test_of_many_witnesses_the_nearest_are_found(kind, rng):
    """However they lie: many groups, few, or all at one distance."""
    n, m = 9, 700
    witnesses = {"spread": rng.permutation(m), "one by one": np.arange(m), "all equal": np.full(m, 3)}[kind][:, None]
    codes = np.sort(rng.integers(0, 3, m))
    rows = rng.integers(0, m, (n, 1)).astype(float)
    assert_as_plain(rows, rng.integers(0, 3, n), witnesses.astype(float), codes, rng.random(m), 10, (10, 30, 100))


@each(dtype=(np.float64, np.float32))
def test_chunks_of_rows_and_a_common_scale_change_no_bit_and_an_offset_no_neighbour(dtype, rng):
    rows, witnesses = rng.normal(size=(50, 7)).astype(dtype), rng.normal(size=(90, 7)).astype(dtype)
    classes, codes, weight = rng.integers(0, 3, 50), np.sort(rng.integers(0, 3, 90)), rng.random(90)
    whole = judge_rows(rows, classes, witnesses, codes, weight, 5, (10,))
    parts = [judge_rows(rows[at : at + 7], classes[at : at + 7], witnesses, codes, weight, 5, (10,))
             for at in range(0, 50, 7)]  # fmt: skip
    for i in range(4):
        np.testing.assert_array_equal(whole[i], np.concatenate([one[i] for one in parts]))
    for exponent in (-40, 30):
        scaled = judge_rows(
            rows * dtype(2.0**exponent), classes, witnesses * dtype(2.0**exponent), codes, weight, 5, (10,)
        )
        np.testing.assert_array_equal(whole.own, scaled.own)
        np.testing.assert_array_equal(whole.near * np.float32(2.0**exponent) ** 2, scaled.near)
    moved = judge_rows(rows + dtype(100), classes, witnesses + dtype(100), codes, weight, 5, (10,))
    np.testing.assert_array_equal(whole.own, moved.own)


def test_rows_farther_than_can_be_counted_have_no_neighbours(rng):
    witnesses = rng.normal(size=(20, 3))
    found = judge_rows(np.array([[1e300, 0, 0], [0, 1e8, 0]]), np.zeros(2, int), witnesses, np.arange(20) // 10,
                       np.ones(20), 3, (10,))  # fmt: skip
    assert np.isfinite(found.margins).all()
    assert (found.own[1] >= 0).all()


def test_only_one_witness_at_no_distance_is_the_row_itself():
    found = judge_rows(np.zeros((1, 2)), np.array([0]), np.zeros((3, 2)), np.array([0, 0, 1]), np.ones(3), 2, (2,))
    assert found.own.tolist() == [[1, -1]] and found.other.tolist() == [[2, -1]]
    assert found.margins[0, 0] == pytest.approx(4 * (2 / 3 + 1) * 2 / ((2 / 3 + 1) * 2 + (1 / 3 + 1) * 2) - 1.5)


@each(dtype=(np.float64, np.float32))
def test_a_row_is_known_up_to_rounding(dtype, rng):
    witnesses = rng.normal(size=(40, 5)).astype(dtype)
    rows = witnesses * dtype(1 + 2 * np.finfo(dtype).eps)
    found = judge_rows(rows, np.zeros(40, int), witnesses, np.zeros(40, int), np.ones(40), 2, (2,))
    assert (found.own != np.arange(40)[:, None]).all()


def test_shapes_and_classes_that_cannot_be_are_refused():
    rows, three = np.zeros((1, 2)), np.zeros((3, 2))
    for bad in (np.zeros((2, 2)), np.zeros((1, 3))):
        with pytest.raises(ValueError):
            judge_rows(bad, np.array([0]), three, np.array([0, 0, 1]), np.ones(3), 2, (2,))
    with pytest.raises(InputError, match="negative"):
        judge_rows(rows, np.array([-1]), three, np.array([0, 0, 1]), np.ones(3), 2, (2,))
    for codes in ([-1, 0, 1], [1, 0, 1]):
        with pytest.raises(InputError, match="ordered by class"):
            judge_rows(rows, np.array([0]), three, np.array(codes), np.ones(3), 2, (2,))
