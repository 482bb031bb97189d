"""Copies and groups: what is found, and that no voter judges a row with the help of its own group."""

import itertools

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import nearkin
from nearkin.jury import (
    Groups,
    JuryDecision,
    LocalNeighbours,
    NeighbourVoter,
    RidgeVoter,
    assemble_jury,
    find_copies,
    neighbour_voter,
)
from nearkin.jury import decision as decision_of
from nearkin.jury import judged as judged_of
from nearkin.jury import ridge as ridge_of
from nearkin.jury.learned_spaces import learn_spaces
from nearkin.jury.ridge import Landmarks, LeadingDirections
from reference import ridge as literal


def find(X, y):
    return find_copies(X, y.astype(np.int64))[0]


@pytest.fixture
def noisy(blobs, rng):
    """Rows of three classes that overlap, some labels wrong, in groups of different sizes."""
    X, y = blobs(n=60, d=4, spread=0.9)
    group = np.repeat(np.arange(16), [1] * 6 + [2] * 5 + [5] * 2 + [12] * 2 + [10])
    return X, np.where(rng.random(60) < 0.2, rng.integers(0, 3, 60), y), group


# ---------------------------------------------------------------- what is found


@pytest.mark.parametrize("times", [2, 5])
def test_rows_with_all_their_copies_are_one_set(times, blobs, rng):
    X, y = blobs(n=80, d=3)
    y = np.where(rng.random(80) < 0.2, (y + 1) % 3, y)
    order = rng.permutation(80 * times)
    found = find(np.tile(X, (times, 1))[order], np.tile(y, times)[order])
    assert (found.n_exact, found.n_near) == (80 * (times - 1), 0)
    original = np.tile(np.arange(80), times)[order]
    assert sorted(original[found.first].tolist()) == list(range(80))
    np.testing.assert_array_equal(original[found.first[found.group_of_row]], original)


def test_slightly_changed_copies_are_found_and_plain_rows_are_not(rng):
    X = rng.normal(size=(200, 5))
    y = np.where(rng.random(200) < 0.2, 1, 0) ^ (X[:, 0] > 0)
    near = X + 0.01 * rng.normal(size=X.shape)
    found = find(np.concatenate([X, near]), np.tile(y, 2))
    assert found.n_exact == 0
    assert 190 <= found.n_near <= 205
    assert (found.group_of_row[:200] == found.group_of_row[200:]).sum() >= 190
    assert find(X, y) is None


def test_rows_of_few_values_are_equal_by_chance(rng):
    X = rng.integers(0, 3, size=(200, 3)).astype(float)
    assert find(X, (X[:, 0] > 0).astype(np.int64)) is None


def test_copies_of_rows_of_few_values_are_known_by_their_labels(rng):
    rows = rng.permutation(np.array(list(itertools.product(range(3), repeat=5)), dtype=float))
    codes = rng.integers(0, 2, len(rows))
    found, _ = find_copies(np.concatenate([rows, rows]), np.tile(codes, 2))
    assert found is not None and found.n_exact == len(rows)
    assert find_copies(np.concatenate([rows, rows]), rng.integers(0, 2, 2 * len(rows)))[0] is None


def test_equal_rows_that_were_labelled_one_by_one_are_evidence(rng):
    X = np.tile(rng.normal(size=(100, 3)), (2, 1))
    y = (X[:, 0] > 0) ^ (rng.random(200) < 0.25)
    assert find(X, y.astype(np.int64)) is None


def test_in_two_dimensions_labels_tell_near_copies(rng):
    """By distance alone they are too far: other rows are as near by chance."""
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] > 0) ^ (rng.random(300) < 0.25)
    near = X + 0.02 * rng.normal(size=X.shape)
    found = find(np.concatenate([X, near]), np.tile(y, 2))
    assert (found.group_of_row[:300] == found.group_of_row[300:]).mean() > 0.7
    assert np.bincount(found.group_of_row).max() <= 4


def test_the_most_frequent_label_stands_for_copies(rng):
    X = np.tile(rng.normal(size=(100, 3)), (3, 1))
    y = np.tile((X[:100, 0] > 0) ^ (rng.random(100) < 0.3), 3)
    y[:10] ^= True  # the first of three
    found = find(X, y)
    assert found.first[:10].tolist() == list(range(10, 20)) or (found.first >= 10).all()
    np.testing.assert_array_equal(y[found.first[found.group_of_row]], np.tile(y[100:200], 3))


def test_groups_that_share_copies_are_one(rng):
    X = rng.normal(size=(40, 3))
    X[39] = X[0]
    y = np.arange(40) % 2
    y[39] = y[0]
    found = find(X, y)
    assert found.n_exact == 1
    groups = np.arange(40)
    groups[[0, 1, 2]] = 50
    groups[[38, 39]] = 60
    joined = found.reduce_groups(groups)
    assert np.flatnonzero(joined == joined[0]).tolist() == [0, 1, 2, 38]
    assert joined.max() == 35


def test_copies_vote_together_or_not_at_all(rng, monkeypatch):
    X = rng.normal(size=(150, 3))
    y = ((X[:, 0] > 0) ^ (rng.random(150) < 0.2)).astype(np.int64)
    order = rng.permutation(300)
    monkeypatch.setattr(judged_of, "MOST_MEMBERS", 100)
    monkeypatch.setattr(judged_of, "_OF_CLASS", 5)
    rows, codes = np.tile(X, (2, 1))[order], np.tile(y, 2)[order]
    decision = decision_of.decide(rows, codes, np.array([0, 1]), "auto", "auto", 0)
    members = set(decision.judged.members.tolist())
    assert 60 < len(members) <= 100
    for row in range(150):
        assert len({i in members for i in np.flatnonzero(order % 150 == row).tolist()}) == 1
    copies = decision.copies
    assert copies.n_exact == len(members) // 2
    np.testing.assert_array_equal(codes[copies.first][copies.group_of_row], codes)


# ---------------------------------------------------------------- nobody vouches for its own group


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("kind", ["leading", "landmarks"])
def test_ridge_votes_are_those_of_a_fit_without_the_group(kind, weighted, noisy, rng):
    rows, codes, group = noisy
    weights = rng.random(60) + 0.01 if weighted else np.ones(60)
    made = [LeadingDirections(rows)] if kind == "leading" else [Landmarks(rows, one) for one in (1.0, 10.0)]
    voter = RidgeVoter("ridge", rows, codes, 3, made, Groups(group))
    X = literal.framed(voter.features.of(rows))
    fit = np.empty((60, 3))
    for i in range(60):
        others = group != group[i]
        fit[i] = literal.ridge(X[others], codes[others], weights[others], 3, voter.penalty, X[i])
    ask = voter.left_out(weights)
    np.testing.assert_allclose(ask(slice(None)), literal.shares(fit), atol=2e-4)
    some = np.array([58, 3, 40, 17])
    np.testing.assert_allclose(ask(some), literal.shares(fit)[some], atol=2e-4)


def test_the_penalty_is_the_best_for_groups_left_out(noisy):
    rows, codes, group = noisy
    voter = RidgeVoter("ridge", rows, codes, 3, [LeadingDirections(rows)], Groups(group))
    X, errors = literal.framed(rows), []
    for penalty in ridge_of._PENALTIES * 60:
        fit = [
            literal.ridge(X[group != g], codes[group != g], np.ones((group != g).sum()), 3, penalty, X[i])
            for i, g in enumerate(group)
        ]
        errors.append(np.mean((np.eye(3)[codes] - fit) ** 2))
    np.testing.assert_allclose(voter.penalty, (ridge_of._PENALTIES * 60)[np.argmin(errors)], rtol=1e-6)
    np.testing.assert_allclose(voter.error, min(errors), rtol=1e-3)


@pytest.mark.parametrize("many", [64, 4], ids=["dropped", "searched outside"])
def test_neighbours_are_the_nearest_of_other_groups(many, noisy, monkeypatch):
    monkeypatch.setattr(neighbour_voter, "_MANY", many)
    rows, codes, group = noisy
    near = LocalNeighbours(rows)
    voter = NeighbourVoter("near", near, codes, 3, groups=Groups(group))
    order = near.among(59)
    for i in range(60):
        expected = [j for j in order[i] if group[j] != group[i]][:48]
        assert voter.among[i].tolist() == expected


def test_learned_spaces_judge_whole_groups(noisy):
    rows, codes, group = noisy
    voter = learn_spaces(rows, NeighbourVoter("near", LocalNeighbours(rows), codes, 3, groups=Groups(group)), 0)
    for one in range(16):
        assert len(np.unique(voter.judge[group == one])) == 1
    assert 15 < voter.judge.sum() < 45
    assert (group[voter.among] != group[:, None]).all()


def test_a_jury_judges_copies_by_the_row_that_stands_for_them(rng):
    X = rng.normal(size=(90, 3))
    y = ((X[:, 0] > 0) ^ (rng.random(90) < 0.2)).astype(np.int64)
    order = rng.permutation(180)
    plain, _ = assemble_jury(X, y, 2, 0.2, random_state=0)
    twice, noise = assemble_jury(np.tile(X, (2, 1))[order], np.tile(y, 2)[order], 2, "auto", random_state=0)
    decision = JuryDecision(twice, noise, np.tile(y, 2)[order], np.array([0, 1]))
    original = order % 90
    assert len(decision.score) == 180
    for row in range(90):
        assert np.ptp(decision.score[original == row]) == 0.0
    cast = decision.cast_left_out(np.arange(180), 4)
    assert (original[cast.rows] != original[:, None]).all()
    assert [voter.name for voter in plain.voters] == [voter.name for voter in twice.voters]


def test_recall_does_not_suffer_from_copies():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:200], y[:200]
    noisy, is_wrong = nearkin.flip_labels(y, 0.2, random_state=0)
    plain = nearkin.audit_labels(X, noisy, random_state=0)
    twice = nearkin.audit_labels(np.tile(X, (2, 1)), np.tile(noisy, 2), random_state=0)
    lost = plain.is_suspect[is_wrong].mean() - twice.is_suspect[np.tile(is_wrong, 2)].mean()
    assert abs(lost) < 0.03
    assert twice.noise_rate == plain.noise_rate
    assert twice.decision.copies.n_exact == 200
    assert plain.decision.copies is None


@pytest.mark.parametrize(("m", "jitter"), [(4, 0.1), (10, 1e-6)])
def test_many_near_copies_of_each_row_are_found(m, jitter, blobs, rng):
    X, y = blobs(n=900 // m, d=10, spread=2.0)
    codes = nearkin.flip_labels(y, 0.15, random_state=0)[0]
    rows = np.repeat(X, m, axis=0) + rng.normal(size=(len(X) * m, 10)) * jitter * X.std(axis=0)
    order = rng.permutation(len(rows))
    found, _ = find_copies(rows[order] / np.sqrt(2 * X.var(axis=0).sum()), np.repeat(codes, m)[order])
    assert 0.8 < len(found.first) / len(X) < 1.2


def test_copies_that_link_all_groups_do_not_leave_labels_without_a_judge():
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 120)
    X = np.column_stack([3.0 * y, rng.integers(0, 4, 120)]).astype(float)  # few distinct rows, in both groups
    X[:40, 1] += rng.normal(size=40)
    found = nearkin.audit_labels(X, y, groups=np.arange(120) % 2, random_state=0)
    assert found.n_wrong == 0
