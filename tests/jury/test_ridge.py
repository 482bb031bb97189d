"""Smooth functions of the rows that vote: features, the choice of a penalty, and each row as if it were left out."""

import numpy as np
import pytest

from nearkin.jury import RidgeVoter
from nearkin.jury import ridge as ridge_of
from nearkin.jury.ridge import Landmarks, LeadingDirections
from nearkin.kernels import one_blas_thread
from reference import ridge as literal

TOLERANCE = 1e-4  # features and sums are in single precision


@pytest.fixture(autouse=True)
def _as_in_the_classifier():
    with one_blas_thread():
        yield


def candidates(rows, kind):
    return [LeadingDirections(rows)] if kind == "leading" else [Landmarks(rows, one) for one in (1.0, 10.0)]


@pytest.fixture
def noisy(blobs, rng):
    """Rows of three classes that overlap, some labels wrong."""
    X, y = blobs(n=48, d=4, spread=0.9)
    return X, np.where(rng.random(48) < 0.2, rng.integers(0, 3, 48), y)


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("kind", ["leading", "landmarks"])
def test_votes_about_a_row_are_those_of_a_fit_without_it(kind, weighted, noisy, rng):
    rows, codes = noisy
    weights = rng.random(48) ** 3 if weighted else np.ones(48)
    weights[5] = 1e-6 if weighted else 1.0  # less than any row may count
    votes = RidgeVoter("ridge", rows, codes, 3, candidates(rows, kind))
    X = literal.framed(votes.features.of(rows))
    counted = np.maximum(weights, literal.LEAST)
    expected = literal.shares(literal.without_each(X, codes, counted, 3, votes.penalty))
    ask = votes.left_out(weights)
    np.testing.assert_allclose(ask(slice(None)), expected, atol=TOLERANCE)
    some = np.array([40, 3, 17])
    np.testing.assert_allclose(ask(some), expected[some], atol=TOLERANCE)
    np.testing.assert_allclose(ask(slice(10, 20)), expected[10:20], atol=TOLERANCE)


@pytest.mark.parametrize("kind", ["leading", "landmarks"])
def test_a_row_has_no_say_about_itself(kind, noisy):
    rows, codes = noisy
    votes = RidgeVoter("ridge", rows, codes, 3, candidates(rows, kind))
    before = votes.left_out(np.ones(48))(slice(None))
    other = codes.copy()
    other[7] = (codes[7] + 1) % 3
    votes._codes, votes._equal, votes._said = other, None, None
    after = votes.left_out(np.ones(48))(slice(None))
    np.testing.assert_allclose(after[7], before[7], atol=TOLERANCE)
    assert np.abs(after - before).max() > 10 * TOLERANCE  # but about others it has


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_answers_are_those_of_the_fit_to_all_rows(weighted, noisy, rng):
    rows, codes = noisy
    weights = rng.random(48) + 0.01 if weighted else np.ones(48)
    votes = RidgeVoter("ridge", rows, codes, 3, candidates(rows, "landmarks"))
    queries = rng.normal(size=(9, 4))
    both = votes.features.of(np.concatenate([rows, queries]))
    made = both[:48]
    X = literal.framed(made)
    length = np.sqrt(((made - made.mean(axis=0)) ** 2).sum(axis=1).mean())
    asked = np.column_stack([(both[48:] - made.mean(axis=0)) / length, np.full(9, literal.CONSTANT)])
    expected = np.array([literal.ridge(X, codes, weights, 3, votes.penalty, one) for one in asked])
    np.testing.assert_allclose(votes.answers(queries, weights), literal.shares(expected), atol=TOLERANCE)


def test_features_and_penalty_are_those_of_the_least_error_for_rows_left_out(noisy):
    rows, codes = noisy
    tried = [Landmarks(rows, one) for one in (0.3, 3.0, 30.0)]
    votes = RidgeVoter("ridge", rows, codes, 3, tried)
    target, found = np.eye(3)[codes], {}
    for features in tried:
        X = literal.framed(features.of(rows))
        for penalty in ridge_of._PENALTIES * 48:
            left_out = literal.without_each(X, codes, np.ones(48), 3, penalty)
            found[features.sharpness, float(penalty)] = float(((target - left_out) ** 2).mean())
    best = min(found.values())
    assert votes.error == pytest.approx(best, rel=1e-3)
    assert found[votes.features.sharpness, votes.penalty] == pytest.approx(best, rel=1e-3)
    assert max(found.values()) > 1.2 * best  # the choice matters here


@pytest.mark.parametrize("kind", ["leading", "landmarks"])
def test_features_that_are_kept_and_those_made_anew_in_pieces_give_the_same(kind, noisy, monkeypatch):
    rows, codes = noisy
    weights = np.linspace(0.1, 1.0, 48)
    kept = RidgeVoter("ridge", rows, codes, 3, candidates(rows, kind))
    expected = kept.left_out(weights)(slice(None)), kept.left_out(np.ones(48))(slice(None))
    assert kept._made is not None
    monkeypatch.setattr(ridge_of, "_KEPT", 0)
    monkeypatch.setattr(ridge_of, "_AT_ONCE", 100)
    anew = RidgeVoter("ridge", rows, codes, 3, candidates(rows, kind))
    found = anew.left_out(weights)(slice(None)), anew.left_out(np.ones(48))(slice(None))
    assert anew._made is None
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=TOLERANCE)


def test_many_rows_choose_by_a_sample_and_are_penalised_by_their_number(rng, monkeypatch):
    rows = np.repeat(rng.normal(size=(40, 3)), 5, axis=0)  # five times the same 40 rows
    codes = np.repeat(rng.integers(0, 2, 40), 5)
    monkeypatch.setattr(ridge_of, "_PENALTIES", np.array([1e-2]))
    queries = rng.normal(size=(6, 3))
    whole = RidgeVoter("ridge", rows, codes, 2, [LeadingDirections(rows)])
    expected = whole.answers(queries, np.ones(200))
    monkeypatch.setattr(ridge_of, "_JUDGES", 40)
    sample = RidgeVoter("ridge", rows, codes, 2, [LeadingDirections(rows)])
    assert sample.penalty == pytest.approx(whole.penalty / 5)
    np.testing.assert_allclose(sample.answers(queries, np.ones(200)), expected, atol=TOLERANCE)


def test_groups_of_very_many_classes_choose_for_all(rng):
    codes = rng.permutation(np.arange(400) % 130)
    rows = rng.normal(size=(130, 5))[codes] + 0.1 * rng.normal(size=(400, 5))
    votes = RidgeVoter("ridge", rows, codes, 130, [Landmarks(rows, 30.0)])
    shares = votes.left_out(np.ones(400))(slice(None))
    assert shares.shape == (400, 130)
    assert np.mean(shares.argmax(axis=1) == codes) > 0.9


def test_uniform_noise_adds_the_same_to_every_class(rng):
    """NoiseModel of a fifth of the labels shrink what is said by a known factor, and turn nothing round."""
    rows = rng.normal(size=(3000, 2))
    codes = (rows[:, 0] > 0).astype(np.int64)
    flipped = np.where(rng.random(3000) < 0.2, 1 - codes, codes)
    queries = rng.normal(size=(200, 2))
    clean, noisy = (
        RidgeVoter("ridge", rows, one, 2, [LeadingDirections(rows)]).answers(queries, np.ones(3000))[:, 1] - 0.5
        for one in (codes, flipped)
    )
    sure = np.abs(clean) < 0.45  # the others are cut at zero votes
    assert np.polyfit(clean[sure], noisy[sure], 1)[0] == pytest.approx(0.6, abs=0.06)


@pytest.mark.parametrize("n", [4, 60])
def test_leading_directions_keep_the_distances_of_wide_rows_of_low_rank(n, rng):
    rows = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 700))
    leading = LeadingDirections(rows)
    made = leading.of(rows)
    assert made.shape == (n, leading.n_features) and leading.n_features <= min(n, ridge_of.N_LEADING)
    gaps = [np.linalg.norm(one[:, None] - one[None], axis=2) for one in (rows, made)]
    np.testing.assert_allclose(gaps[1], gaps[0], rtol=1e-6, atol=1e-6)


def test_narrow_rows_are_their_own_features(rng):
    rows = rng.normal(size=(10, 4)).astype(np.float32)
    made = LeadingDirections(rows).of(rows)
    assert made.dtype == np.float32
    np.testing.assert_array_equal(made, rows)


def test_products_with_ridge_of_landmarks_are_nearnesses(rng, monkeypatch):
    """Also of new rows, and where only some rows are landmarks."""
    monkeypatch.setattr(ridge_of, "N_LANDMARKS", 12)
    rows, queries = rng.normal(size=(60, 3)), rng.normal(size=(7, 3))
    landmarks = Landmarks(rows, 4.0)
    assert landmarks.n_features == 12
    marks = landmarks._marks
    assert {tuple(one) for one in marks} <= {tuple(one) for one in rows}
    spread = 2.0 * marks.var(axis=0).sum()
    expected = np.exp(-4.0 * ((queries[:, None] - marks[None]) ** 2).sum(axis=2) / spread)
    np.testing.assert_allclose(landmarks.of(queries) @ landmarks.of(marks).T, expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["leading", "landmarks"])
@pytest.mark.parametrize("d", [1, 3, 300])
def test_constant_and_repeated_rows_do_no_harm(kind, d):
    for rows in (np.ones((12, d)), np.repeat(np.arange(4.0)[:, None] * np.ones(d), 3, axis=0)):
        codes = np.repeat([0, 0, 1, 1], 3)
        votes = RidgeVoter("ridge", rows, codes, 2, candidates(rows, kind))
        shares = votes.left_out(np.ones(12))(slice(None))
        assert np.isfinite(shares).all()
        np.testing.assert_allclose(shares.sum(axis=1), 1.0)
        if rows.std() > 0:
            np.testing.assert_array_equal(shares.argmax(axis=1), codes)
