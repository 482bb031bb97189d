"""How labels go wrong: undoing it, Bayes' rule, whether it depends on the class, and what follows for every label."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearkin.noise import NoiseModel, estimate_noise_model, estimate_noise_rate, judge_labels
from nearkin.noise import model as noise_model
from nearkin.noise.estimate import certain_rate, survey
from nearkin.noise.model import max_rate, split_rows


def uniform_matrix(rate, n_classes):
    matrix = np.full((n_classes, n_classes), rate / (n_classes - 1))
    np.fill_diagonal(matrix, 1.0 - rate)
    return matrix


def some_matrix(n_classes, rng):
    """Mostly right labels, wrong ones of any kind."""
    matrix = 0.3 * rng.dirichlet(np.ones(n_classes), n_classes) + 0.7 * np.eye(n_classes)
    return matrix / matrix.sum(axis=1, keepdims=True)


def world(matrix, rng, n=4000, overlap=0.4):
    """Shares of the true classes, labels that got wrong as the matrix says, and votes that know the noisy shares."""
    n_classes = len(matrix)
    truth = rng.dirichlet(np.full(n_classes, overlap / n_classes), n)
    true = (truth.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    codes = (matrix.cumsum(axis=1)[true] > rng.random((n, 1))).argmax(axis=1)
    return truth, true, codes, truth @ matrix


# ---------------------------------------------------------------- the formulas


@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.4])
def test_true_shares_undo_the_noise(n_classes, rate, rng):
    truth = 0.9 * rng.dirichlet(np.ones(n_classes), 50) + 0.1 / n_classes  # none near zero, where shares are cut
    noisy = truth @ uniform_matrix(rate, n_classes)
    np.testing.assert_allclose(NoiseModel(rate, n_classes).true_shares(noisy), truth, atol=1e-12)
    matrix = some_matrix(n_classes, rng)
    np.testing.assert_allclose(NoiseModel(0.2, n_classes, matrix).true_shares(truth @ matrix), truth, atol=1e-9)


@given(st.integers(2, 6), st.floats(0.0, 0.99), st.integers(0, 2**32 - 1), st.booleans())
def test_corrected_and_settled_shares_are_shares_and_keep_the_order(n_classes, rate, seed, has_matrix):
    rng = np.random.default_rng(seed)
    votes = rng.dirichlet(np.full(n_classes, 0.1), 20)
    noise = NoiseModel(
        rate, n_classes, uniform_matrix(min(rate, max_rate(n_classes)), n_classes) if has_matrix else None
    )
    for shares in (noise.true_shares(votes), noise.lift_zeros(votes)):
        assert (shares > 0.0).all()
        np.testing.assert_allclose(shares.sum(axis=1), 1.0)
        best = votes.argmax(axis=1)
        assert (shares[np.arange(20), best] >= shares.max(axis=1) * (1 - 1e-9)).all()  # also for a rate beyond belief


@pytest.mark.parametrize("has_matrix", [False, True])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_a_label_is_right_by_bayes_rule(n_classes, has_matrix, rng):
    matrix = some_matrix(n_classes, rng) if has_matrix else uniform_matrix(0.3, n_classes)
    noise = NoiseModel(0.3, n_classes, matrix if has_matrix else None)
    shares, codes = rng.dirichlet(np.ones(n_classes), 40), rng.integers(0, n_classes, 40)
    found = noise.probability_right(shares, codes)
    for i, label in enumerate(codes):
        ways = [shares[i, true] * matrix[true, label] for true in range(n_classes)]
        assert found[i] == pytest.approx(ways[label] / sum(ways), rel=1e-12)


def test_bayes_rule_agrees_with_counting(rng):
    """Of rows with the same shares and label, that part has the right label which the rule says."""
    matrix = np.array([[0.6, 0.4], [0.1, 0.9]])
    true = (rng.random(200_000) < 0.3).astype(int)
    label = np.where(rng.random(200_000) < matrix[true, 1], 1, 0)
    found = NoiseModel(0.2, 2, matrix).probability_right(np.array([[0.7, 0.3]] * 2), np.array([0, 1]))
    for one in (0, 1):
        assert found[one] == pytest.approx(np.mean(true[label == one] == one), abs=0.01)


def test_a_class_that_is_often_mistaken_for_the_label_becomes_likelier(rng):
    matrix = np.array([[0.6, 0.4, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    likely = NoiseModel(0.15, 3, matrix).relative_likelihood(np.array([[0.4, 0.4, 0.2]]), np.array([1]))[0]
    assert likely[0] > likely[1] > 2.0 * likely[2] > 0.0  # a two is hardly ever labelled one
    shares = rng.dirichlet(np.ones(3), 4)
    np.testing.assert_array_equal(NoiseModel(0.15, 3).relative_likelihood(shares, np.array([0, 1, 2, 0])), shares)


@pytest.mark.parametrize("has_matrix", [False, True])
def test_expected_wrong_labels_are_those_that_noise_bring(has_matrix, rng):
    matrix = some_matrix(4, rng) if has_matrix else uniform_matrix(0.3, 4)
    true = np.array([500.0, 40.0, 300.0, 160.0])
    noise = NoiseModel(0.3, 4, matrix if has_matrix else None)
    expected = [sum(true[k] * matrix[k, j] for k in range(4) if k != j) for j in range(4)]
    np.testing.assert_allclose(noise.expected_wrong(true @ matrix), expected)
    np.testing.assert_array_equal(NoiseModel(0.0, 3).expected_wrong(np.array([5, 6, 7])), 0.0)


def test_rates_are_those_of_the_classes():
    np.testing.assert_array_equal(NoiseModel(0.2, 3).rates, [0.2, 0.2, 0.2])
    np.testing.assert_allclose(NoiseModel(0.2, 2, np.array([[0.7, 0.3], [0.0, 1.0]])).rates, [0.3, 0.0])


# ---------------------------------------------------------------- estimates


@pytest.mark.parametrize("n_classes", [2, 3, 10, 60])
@pytest.mark.parametrize("rate", [0.0, 0.15, 0.3])
def test_uniform_noise_gives_no_matrix(n_classes, rate, rng):
    for _ in range(3):
        _, true, codes, votes = world(uniform_matrix(rate, n_classes), rng)
        noise = estimate_noise_model(votes.__getitem__, codes, n_classes)
        assert noise.matrix is None
        assert noise.rate == pytest.approx(np.mean(true != codes), abs=0.05)


@pytest.mark.parametrize(("source", "target", "n_classes"), [(0, 1, 2), (1, 0, 2), (2, 0, 4), (7, 3, 10)])
def test_noise_of_one_class_is_found_with_its_rate_and_direction(source, target, n_classes, rng):
    matrix = np.eye(n_classes)
    matrix[source, source], matrix[source, target] = 0.65, 0.35
    _, true, codes, votes = world(matrix, rng, overlap=0.15)
    noise = estimate_noise_model(votes.__getitem__, codes, n_classes)
    assert noise.matrix is not None
    np.testing.assert_allclose(noise.matrix.sum(axis=1), 1.0)
    assert (noise.matrix >= 0.0).all()
    np.testing.assert_allclose(noise.rates, 1.0 - np.diag(matrix), atol=0.08)
    # Judgements believe it in part, and go in the same direction.
    assert noise.matrix[source, target] > 0.2 > 2.0 * noise.matrix[target, source]
    assert noise.rate == pytest.approx(np.mean(true != codes), abs=0.04)


def test_a_label_that_more_than_half_of_a_class_bears_is_still_undone(rng):
    """The most certain rows of what the class is mistaken for show nothing; those of its own do, once corrected."""
    matrix = np.array([[0.55, 0.45, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    truth, true, codes, votes = world(matrix, rng)
    noise = estimate_noise_model(votes.__getitem__, codes, 3)
    before = np.mean(votes.argmax(axis=1) == true)
    after = np.mean(noise.true_shares(votes).argmax(axis=1) == true)
    best = np.mean(truth.argmax(axis=1) == true)
    assert before < best - 0.01  # labels mislead
    assert after > best - 0.005


@pytest.mark.parametrize("n_classes", [2, 6])
def test_wrong_labels_that_follow_the_features_give_no_matrix(n_classes, rng):
    """Half of the less certain rows get the next best label, most often in one class."""
    truth = rng.dirichlet(np.full(n_classes, 0.4 / n_classes), 4000)
    order = np.argsort(truth, axis=1)
    certainty, codes = truth.max(axis=1), order[:, -1].copy()
    is_wrong = (rng.random(4000) < 0.5) & (certainty < np.where(codes == 0, 0.999, 0.95))
    codes[is_wrong] = order[is_wrong, -2]
    assert is_wrong.mean() > 0.08
    assert estimate_noise_model(truth.__getitem__, codes, n_classes).matrix is None


def test_too_many_classes_get_no_matrix(rng, monkeypatch):
    matrix = np.eye(6)
    matrix[0, :2] = 0.65, 0.35
    _, _, codes, votes = world(matrix, rng, overlap=0.15)
    assert estimate_noise_model(votes.__getitem__, codes, 6).matrix is not None
    monkeypatch.setattr("nearkin.noise.estimate._MOST_CLASSES", 5)
    assert estimate_noise_model(votes.__getitem__, codes, 6).matrix is None


def test_a_class_that_is_never_predicted_is_taken_to_be_like_the_others(rng):
    matrix = np.array([[0.7, 0.3, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    true = rng.integers(0, 2, 3000)  # nothing looks like class 2, though a few rows are labelled so
    codes = np.where(rng.random(3000) < matrix[true, true], true, 1)
    codes[rng.permutation(3000)[:6]] = 2
    shares = np.eye(3)[true] @ matrix
    noise = estimate_noise_model(shares.__getitem__, codes, 3)
    assert noise.matrix is not None
    assert np.isfinite(noise.matrix).all()
    assert noise.rates[2] == pytest.approx(noise.rates.mean(), abs=0.15)
    assert 0.0 < noise.rate < 1.0
    assert np.isfinite(noise.true_shares(shares)).all()


@given(st.integers(2, 5), st.integers(2, 40), st.integers(0, 2**32 - 1))
def test_any_votes_give_a_rate_that_can_be_believed(n_classes, n, seed):
    rng = np.random.default_rng(seed)
    votes = rng.dirichlet(np.full(n_classes, 0.3), n)
    codes = rng.integers(0, n_classes, n)
    assert 0.0 <= estimate_noise_rate(votes, codes) <= max_rate(n_classes)
    noise = estimate_noise_model(votes.__getitem__, codes, n_classes)
    assert 0.0 <= noise.rate <= 1.0
    assert ((noise.rates >= -1e-12) & (noise.rates <= 1.0)).all()


def test_the_rate_lies_between_nothing_and_the_most_that_is_believed():
    certainty = np.linspace(0.5, 1.0, 50)
    assert certain_rate(np.zeros(50, dtype=bool), certainty, 4) == 0.0
    assert certain_rate(np.ones(50, dtype=bool), certainty, 4) == max_rate(4) == pytest.approx(0.675)
    assert certain_rate(np.array([True]), np.array([0.7]), 2) == 0.45


def test_only_certain_rows_count_for_the_rate():
    certainty = np.linspace(0.5, 1.0, 200)
    is_contradicted = np.zeros(200, dtype=bool)
    is_contradicted[:80] = True  # the least certain ones
    assert certain_rate(is_contradicted, certainty, 2) == 0.0
    is_contradicted[::5] = True
    assert certain_rate(is_contradicted, certainty, 2) == pytest.approx(0.2, abs=0.03)
    order = np.random.default_rng(0).permutation(200)
    again = certain_rate(is_contradicted[order], certainty[order], 2)
    assert again == pytest.approx(certain_rate(is_contradicted, certainty, 2), rel=1e-12)


# ---------------------------------------------------------------- in parts


def test_parts_cover_all_rows_once_and_stay_small(monkeypatch):
    monkeypatch.setattr(noise_model, "_AT_ONCE", 30)
    for n, k in ((1, 2), (10, 3), (11, 3), (7, 100)):
        found = split_rows(n, k)
        assert np.concatenate([np.arange(n)[part] for part in found]).tolist() == list(range(n))
        assert all((part.stop - part.start) * k <= max(30, k) for part in found)


def test_what_is_asked_in_parts_equals_what_is_asked_at_once(rng, monkeypatch):
    for matrix in (uniform_matrix(0.3, 3), np.array([[0.6, 0.4, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])):
        _, _, codes, votes = world(matrix, rng, n=500)
        asked = []

        def left_out(weights, votes=votes, asked=asked):
            def ask(part):
                asked.append(part)
                tilted = votes * (0.5 + 0.5 * weights.mean())
                return tilted[part]

            return ask

        monkeypatch.undo()
        whole = estimate_noise_model(votes.__getitem__, codes, 3)
        expected = judge_labels(left_out, codes, whole)
        n_whole = len(asked)
        monkeypatch.setattr(noise_model, "_AT_ONCE", 100)
        in_parts = estimate_noise_model(votes.__getitem__, codes, 3)
        assert (whole.matrix is None) == (in_parts.matrix is None)
        np.testing.assert_array_equal(in_parts.rates, whole.rates)
        for one, other in zip(judge_labels(left_out, codes, in_parts), expected, strict=True):
            np.testing.assert_array_equal(one, other)
        assert len(asked) - n_whole > 10 * n_whole
        for one, other in zip(
            survey(votes.__getitem__, 500, 3), (votes.argmax(axis=1), votes.max(axis=1)), strict=True
        ):
            np.testing.assert_array_equal(one, other)


# ---------------------------------------------------------------- judgements


def test_plausibility_is_the_posterior_and_voters_hear_it_in_the_next_round(rng):
    """Against the probability worked out class by class, for votes that are the noisy posterior itself."""
    rate, n_classes, n = 0.3, 4, 50
    truth = 0.99 * rng.dirichlet(np.ones(n_classes), n) + 0.01 / n_classes
    b = rate / (n_classes - 1)
    noisy = (1 - rate) * truth + b * (1 - truth)
    codes = rng.integers(0, n_classes, n)
    heard = []

    def left_out(weights):
        heard.append(weights)
        return (noisy if len(heard) == 1 else truth).__getitem__

    plausibility, _ = judge_labels(left_out, codes, NoiseModel(rate, n_classes))
    own = truth[np.arange(n), codes]
    expected = (1 - rate) * own / ((1 - rate) * own + b * (1 - own))
    assert len(heard) == 3
    np.testing.assert_array_equal(heard[0], 1.0)
    np.testing.assert_allclose(heard[1], expected, rtol=1e-9)
    settled = (own + 2e-3 / n_classes) / (1 + 2e-3)  # lifted from zero a little
    np.testing.assert_allclose(
        plausibility, (1 - rate) * settled / ((1 - rate) * settled + b * (1 - settled)), rtol=1e-9
    )


def test_scores_compare_the_label_with_the_best_other_one(rng):
    votes = np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0.0, 0.0, 0.0]])
    _, score = judge_labels(lambda weights: votes.__getitem__, np.array([0, 1, 2, 1]), NoiseModel(0.1, 3), n_rounds=1)
    np.testing.assert_allclose(score, [0.5 / 0.8, 0.3 / 0.8, 0.2 / 0.7, 0.5], atol=2e-3)


def test_with_a_matrix_the_score_knows_which_mistakes_are_usual():
    """The same votes for the label: suspicious where zeros are labelled one, not where ones are labelled zero."""
    votes = np.array([[0.4, 0.6], [0.6, 0.4]])
    matrix = np.array([[0.6, 0.4], [0.0, 1.0]])
    _, plain = judge_labels(lambda weights: votes.__getitem__, np.array([1, 0]), NoiseModel(0.2, 2))
    _, found = judge_labels(lambda weights: votes.__getitem__, np.array([1, 0]), NoiseModel(0.2, 2, matrix))
    assert plain[0] == pytest.approx(plain[1])
    assert found[0] < 0.5 < found[1]


def test_at_rate_zero_voters_are_asked_once_and_every_label_is_taken_as_right():
    heard = []

    def left_out(weights):
        heard.append(weights)
        return np.array([[0.9, 0.1], [0.2, 0.8]]).__getitem__

    plausibility, score = judge_labels(left_out, np.array([1, 1]), NoiseModel(0.0, 2))
    assert len(heard) == 1
    np.testing.assert_array_equal(plausibility, 1.0)
    np.testing.assert_allclose(score, [0.1, 0.8], atol=2e-3)


def test_plausibility_is_never_zero_where_weights_would_vanish():
    votes = np.tile([1.0, 0.0], (3, 1))
    noise = NoiseModel(0.1, 2, np.array([[1.0, 0.0], [0.2, 0.8]]))  # a zero is never labelled one
    plausibility, _ = judge_labels(lambda weights: votes.__getitem__, np.array([0, 1, 1]), noise)
    assert (plausibility > 0.0).all()
    assert np.isfinite(plausibility).all()
