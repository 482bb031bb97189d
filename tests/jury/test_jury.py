"""Neighbours in several spaces and smooth functions that vote together, and what the classifier makes of it."""

import io
import tracemalloc
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import nnls
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import nearkin
from each import each
from nearkin import RobustKNeighborsClassifier, RobustODML
from nearkin.jury import (
    CrossFittedVoter,
    Jury,
    LearnedSpace,
    LocalNeighbours,
    NeighbourVoter,
    RidgeVoter,
    SuspectRules,
    learned_spaces,
    mix_votes,
    neighbour_voter,
    stack_votes,
)
from nearkin.jury import local_scaling as local
from nearkin.jury.learned_spaces import learn_spaces
from nearkin.jury.neighbour_voter import BANDWIDTHS
from nearkin.jury.suspects import best_threshold
from nearkin.jury.voters import rank_votes
from nearkin.measures import DISTANCE
from nearkin.noise import NoiseModel, flip_labels
from nearkin.noise import model as noise_model
from nearkin.parameters import LowRank
from nearkin.rows import Scaling


def _literal(queries, rows, scale, k, own=None):
    """All distances, one at a time."""
    found = []
    for i, query in enumerate(queries):
        ranked = sorted(
            (((query - row) @ (query - row)) / scale[j], j) for j, row in enumerate(rows) if own is None or j != own[i]
        )
        found.append([j for _, j in ranked[:k]])
    return np.array(found)


#: Settings with which bounds are guessed, so low that many rows look again.
GUESSED = {"FEW_ROWS": 0, "_SCALED": 16, "_SAMPLE": 8, "_SAMPLED": 1, "_AMPLE": 0.0}


@each(dtype=["float32", "float64"], block=[11, 64, 140], way=["few", "at-once", "in-parts", "turned", "guessed"])
@pytest.mark.parametrize(("n", "d", "k"), [(2, 1, 1), (9, 3, 8), (40, 5, 12), (150, 2, 60)])
def test_local_neighbours_are_those_of_all_distances(n, d, k, block, way, dtype, rng, monkeypatch):
    settings = {
        "few": {"FEW_ROWS": 256},
        "at-once": {},
        "in-parts": {"_AT_ONCE": 1},
        "turned": {"_FEW": 0},
        "guessed": GUESSED,
    }[way]
    for name, value in ({"_BLOCK": block, "_SPARE": 40, "FEW_ROWS": 0} | settings).items():
        monkeypatch.setattr(local, name, value)
    rows, queries = rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(7, d)).astype(dtype)
    near = LocalNeighbours(rows)
    distances = np.sqrt(((rows[:, None] - rows[None]) ** 2).sum(axis=2))
    expected = np.sort(distances, axis=1)[:, min(7, n - 1)]
    if way != "guessed":  # there it is that of a sample
        np.testing.assert_allclose(near.scale, expected, rtol=1e-5 if dtype == "float32" else 1e-12)
    for who, found, literal in (
        (rows, near.among(k), _literal(rows, rows, near.scale, k, np.arange(n))),
        (queries, near.query(queries, k), _literal(queries, rows, near.scale, k)),
    ):
        if dtype == "float64":
            np.testing.assert_array_equal(found, literal)
        else:  # neighbours that are equally near up to rounding may change places
            far = [((who[:, None] - rows[one]) ** 2).sum(axis=2) / near.scale[one] for one in (found, literal)]
            np.testing.assert_allclose(far[0], far[1], rtol=1e-4, atol=1e-6)


def test_guesses_are_tried_in_that_test(rng, monkeypatch):
    looked_again = []
    for name, value in GUESSED.items():
        monkeypatch.setattr(local, name, value)
    collect = local._Reservoirs.collect

    def watched(held):
        looked_again.append((held.size < held.k).sum())
        return collect(held)

    monkeypatch.setattr(local._Reservoirs, "collect", watched)
    LocalNeighbours(rng.normal(size=(150, 2))).among(60)
    assert 0 < sum(looked_again) < 150


def test_the_scale_of_many_rows_is_found_among_some(rng, monkeypatch):
    rows = rng.normal(size=(400, 3))
    every = LocalNeighbours(rows).scale
    monkeypatch.setattr(local, "_SCALED", 100)
    monkeypatch.setattr(local, "_SAMPLE", 100)
    near = LocalNeighbours(rows)
    some = np.linspace(0, 399, 100).astype(int)
    distances = np.sqrt(((rows[:, None] - rows[some][None]) ** 2).sum(axis=2))
    distances[some, np.arange(100)] = np.inf
    np.testing.assert_allclose(near.scale, np.sort(distances, axis=1)[:, 1])  # the second of 100, about the 7th of 400
    assert 0.9 < np.median(near.scale / every) < 1.2


@each(n=range(1, 9))
def test_rounds_hold_every_pair_once_and_nothing_twice(n):
    rounds = list(local._rounds(n))
    assert sorted(tuple(sorted(pair)) for one in rounds for pair in one) == [
        (i, j) for i in range(n) for j in range(i, n)
    ]
    for one in rounds[1:]:
        assert len({i for pair in one for i in pair}) == 2 * len(one)


def test_neighbours_do_not_depend_on_the_number_of_threads(rng):
    from threadpoolctl import threadpool_limits

    rows, found = rng.normal(size=(1500, 5)).astype(np.float32), []
    for n_threads in (1, 3):
        with threadpool_limits(n_threads, user_api="blas"):
            near = LocalNeighbours(rows)
            found.append((near.scale, near.among(60), near.query(rows[:700], 9)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_neighbours_of_some_rows_are_those_of_all(rng):
    near, some = LocalNeighbours(rng.normal(size=(90, 3))), np.array([3, 88, 40])
    np.testing.assert_array_equal(near.among(12, some), near.among(12)[some])


def _nearest_of(candidates, query, rows, k):
    """Of some rows the nearest, one distance at a time."""
    return sorted(candidates, key=lambda j: ((query - rows[j]) @ (query - rows[j]), j))[:k]


def test_each_row_is_judged_in_the_space_of_its_judge_among_those_near_in_the_input_space(rng, monkeypatch):
    monkeypatch.setattr(neighbour_voter, "N_CANDIDATES", 40)
    for module in (learned_spaces, neighbour_voter):
        monkeypatch.setattr(module, "N_VOTING", 15)
    monkeypatch.setattr(learned_spaces, "_AT_ONCE", 30)
    rows, codes, judge = rng.normal(size=(80, 3)), rng.integers(0, 3, 80), rng.integers(0, 2, 80)
    near = NeighbourVoter("input space", LocalNeighbours(rows), codes, 3, 4.0)
    spaces = [LearnedSpace(rng.normal(size=(2, 3)), rows) for _ in range(2)]
    weights, queries = rng.random(80), rng.normal(size=(5, 3))
    both = CrossFittedVoter("learned spaces", near, spaces, judge)
    mapped, candidates = [rows @ one.space.T for one in spaces], near.near.among(40)
    expected = [_nearest_of(candidates[i], mapped[judge[i]][i], mapped[judge[i]], 15) for i in range(80)]
    np.testing.assert_array_equal(both.among, expected)
    np.testing.assert_array_equal(
        both.left_out(weights)(np.array([7, 2])), rank_votes(np.array(expected), codes, weights, 3, 4.0)[[7, 2]]
    )
    candidates = near.near.query(queries, 40)
    expected = [
        [_nearest_of(candidates[i], queries[i] @ space.space.T, its, 15) for i in range(5)]
        for space, its in zip(spaces, mapped, strict=True)
    ]
    votes = [rank_votes(np.array(one), codes, weights, 3, 4.0) for one in expected]
    np.testing.assert_allclose(both.answers(queries, weights), np.mean(votes, axis=0))
    np.testing.assert_array_equal(both.answers(queries, weights, near.find(queries)), both.answers(queries, weights))
    assert [one.tolist() for one, _ in both.neighbours(queries, weights)] == expected


def test_a_row_has_no_part_in_the_learned_space_that_judges_it(rng):
    rows, codes = rng.normal(size=(120, 4)), np.repeat([0, 1, 2], 40)
    rows[:, 0] += codes
    learned = next(voter for voter in _fitted_jury(rows, codes).voters if isinstance(voter, CrossFittedVoter))
    other = codes.copy()
    other[7] = 2  # a label that only one of the two spaces sees
    again = next(voter for voter in _fitted_jury(rows, other).voters if isinstance(voter, CrossFittedVoter))
    own = learned.judge[7]
    assert again.judge[7] == own
    assert not np.array_equal(learned.spaces[1 - own].space, again.spaces[1 - own].space)


def _fitted_jury(rows, codes):
    return RobustKNeighborsClassifier(noise_rate=0.1, random_state=0).fit(rows, codes).decision_.jury


@each(n=[2, 3, 4, 7])
def test_few_rows_are_judged_too(n, rng):
    rows, codes = rng.normal(size=(n, 2)), np.arange(n) % 2
    found = RobustKNeighborsClassifier(random_state=0).fit(rows, codes)
    assert np.isfinite(found.predict_proba(rows)).all()
    assert ((found.plausibility_ > 0) & (found.plausibility_ <= 1)).all()


def test_rows_with_many_equals_do_not_become_neighbours_of_everything(rng):
    rows = np.concatenate([np.zeros((20, 2)), 5.0 + rng.normal(size=(40, 2))])
    near = LocalNeighbours(rows)
    assert near.scale[:20].max() < 1e-6
    assert (near.among(10)[20:] >= 20).all()
    assert np.isfinite(near._factors).all()
    equal = LocalNeighbours(np.ones((5, 3)))
    assert sorted(equal.among(4)[2].tolist()) == [0, 1, 3, 4]


def test_a_common_offset_costs_no_digits(rng):
    rows = rng.normal(size=(60, 4))
    np.testing.assert_array_equal(LocalNeighbours(rows + 1e6).among(9), LocalNeighbours(rows).among(9))


def test_votes_fall_by_rank_and_sum_to_one(rng):
    index, codes, weights = rng.integers(0, 30, size=(8, 5)), rng.integers(0, 3, 30), rng.random(30)
    votes = rank_votes(index, codes, weights, 3, 2.0)
    for i in range(8):
        expected = np.zeros(3)
        for rank, j in enumerate(index[i]):
            expected[codes[j]] += weights[j] * np.exp(-rank / 2.0)
        np.testing.assert_allclose(votes[i], expected / expected.sum(), rtol=1e-12)
    np.testing.assert_allclose(rank_votes(index, codes, np.zeros(30), 3, 2.0), 1 / 3)


def test_each_learned_space_is_that_of_the_default_learner_on_the_other_half(blobs):
    rows, y = blobs(n=90, d=4, spread=0.8)
    codes, _ = flip_labels(y, 0.2, random_state=0)
    near = NeighbourVoter("input space", LocalNeighbours(rows), codes, 3)
    voter = learn_spaces(rows, near, 0)
    for own, half in enumerate(voter.spaces):
        other = voter.judge != own
        learner = nearkin.RobustLODML(scale=None, random_state=0).fit(rows[other], codes[other])
        np.testing.assert_array_equal(half.space, learner.components_)
        assert learner.state_.start is not None


# ---------------------------------------------------------------- voters


@pytest.fixture
def voters(blobs):
    """Neighbours in two spaces, of noisy labels."""
    X, y = blobs(n=80, d=3, spread=0.9)
    codes, _ = flip_labels(y, 0.2, random_state=0)
    space = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.0]])
    return (
        X,
        codes,
        [
            NeighbourVoter("a space", LocalNeighbours(X), codes, 3),
            NeighbourVoter("a space", LocalNeighbours(X @ space.T), codes, 3, 4.0, space),
        ],
    )


def test_neighbours_vote_by_rank_and_not_about_themselves(voters, rng):
    X, codes, (near, learned) = voters
    weights = rng.random(80)
    for voter, rows in ((near, X), (learned, X[:, :2] * [1.0, 0.5])):
        view = LocalNeighbours(rows)
        expected = rank_votes(view.among(60), codes, weights, 3, voter.bandwidth)
        np.testing.assert_array_equal(voter.left_out(weights)(slice(None)), expected)
        np.testing.assert_array_equal(voter.left_out(weights)(np.array([3, 1])), expected[[3, 1]])
        queries = rng.normal(size=(5, 3))
        mapped = queries if voter is near else queries[:, :2] * [1.0, 0.5]
        expected = rank_votes(view.query(mapped, 60), codes, weights, 3, voter.bandwidth)
        np.testing.assert_array_equal(voter.answers(queries, weights), expected)


def test_the_bandwidth_agrees_best_with_the_labels(voters, monkeypatch):
    X, codes, (near, _) = voters
    index = LocalNeighbours(X).among(60)
    agreement = [np.mean(rank_votes(index, codes, np.ones(80), 3, one).argmax(axis=1) == codes) for one in BANDWIDTHS]
    assert near.bandwidth == BANDWIDTHS[int(np.argmax(agreement))]
    assert len(set(agreement)) > 1
    monkeypatch.setattr(noise_model, "_AT_ONCE", 50)
    assert NeighbourVoter("a space", LocalNeighbours(X), codes, 3).bandwidth == near.bandwidth


def test_a_space_may_be_a_matrix_or_a_learned_parameter(voters, rng):
    X, codes, (_, by_matrix) = voters
    parameter = LowRank(by_matrix.space, DISTANCE)
    by_parameter = NeighbourVoter("a space", LocalNeighbours(parameter.embed(X)), codes, 3, 4.0, parameter)
    queries = rng.normal(size=(6, 3))
    for voter in (by_matrix, by_parameter):
        np.testing.assert_allclose(voter.answers(queries, np.ones(80)), by_matrix.answers(queries, np.ones(80)))


def test_a_jury_is_the_mean_of_its_voters_by_their_shares(voters, rng):
    _, _, both = voters
    jury, weights = Jury(both, [3.0, 1.0]), rng.random(80)
    expected = 0.75 * both[0].left_out(weights)(slice(None)) + 0.25 * both[1].left_out(weights)(slice(None))
    np.testing.assert_allclose(jury.left_out(weights)(slice(None)), expected, rtol=1e-12)
    np.testing.assert_allclose(jury.left_out(weights)(slice(10, 30)), expected[10:30], rtol=1e-12)
    queries = rng.normal(size=(4, 3))
    expected = 0.75 * both[0].answers(queries, weights) + 0.25 * both[1].answers(queries, weights)
    np.testing.assert_allclose(jury.answers(queries, weights), expected, rtol=1e-12)


def test_whose_word_counts_nothing_is_not_asked(voters):
    _, _, both = voters

    class Silent:
        def left_out(self, weights):
            raise AssertionError("asked")

        answers = left_out

    jury = Jury([both[0], Silent()], [1.0, 0.0])
    np.testing.assert_array_equal(jury.left_out(np.ones(80))(slice(None)), both[0].left_out(np.ones(80))(slice(None)))


def test_a_mixture_leaves_what_was_said_as_it_is(rng):
    said = [rng.dirichlet(np.ones(3), 5) for _ in range(3)]
    kept = [one.copy() for one in said]
    found = mix_votes([one.__getitem__ for one in said], np.array([0.5, 0.3, 0.2]))
    for part in (slice(None), slice(1, 3), np.array([4, 0])):
        expected = 0.5 * said[0][part] + 0.3 * said[1][part] + 0.2 * said[2][part]
        np.testing.assert_allclose(found(part), expected, rtol=1e-12)
    for one, other in zip(said, kept, strict=True):
        np.testing.assert_array_equal(one, other)


@each(at_once=[1 << 22, 60], n_classes=[2, 5])
def test_shares_are_those_of_least_squares_without_negative_ones(n_classes, at_once, rng, monkeypatch):
    monkeypatch.setattr(noise_model, "_AT_ONCE", at_once)
    codes = rng.choice(n_classes, 90, p=rng.dirichlet(np.full(n_classes, 5.0)))
    truth = np.eye(n_classes)[codes]
    said = [a * truth + (1 - a) * rng.dirichlet(np.ones(n_classes), 90) for a in (0.1, 0.5, 0.4)]
    prior = np.bincount(codes, minlength=n_classes) / 90
    table = np.stack([(one - prior).ravel() for one in said], axis=1)
    expected, _ = nnls(table, (truth - prior).ravel())
    found = stack_votes([one.__getitem__ for one in said], codes, n_classes)
    np.testing.assert_allclose(found, expected / expected.sum(), atol=1e-8)
    assert found.sum() == pytest.approx(1.0)


def test_shares_are_equal_where_nobody_says_anything_of_use(rng):
    codes = np.array([0, 1, 0, 1, 0, 0])
    prior = np.tile(np.bincount(codes) / 6, (6, 1))
    against = np.eye(2)[1 - codes]
    for said in ([prior, prior], [against, 0.9 * against + 0.05]):
        np.testing.assert_array_equal(stack_votes([one.__getitem__ for one in said], codes, 2), [0.5, 0.5])
    twice = stack_votes([np.eye(2)[codes].__getitem__] * 2, codes, 2)  # the same voter twice
    assert twice.sum() == pytest.approx(1.0) and (twice >= 0.0).all()


# ---------------------------------------------------------------- the classifier


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer])
def test_the_jury_beats_three_neighbours_and_finds_wrong_labels(load):
    X, y = load(return_X_y=True)
    accuracy, areas, rates = {"auto": [], 3: [], "plain": []}, [], []
    for fold, (train, test) in enumerate(StratifiedKFold(5, shuffle=True, random_state=1).split(X, y)):
        noisy, is_wrong = flip_labels(y[train], 0.25, random_state=fold)
        plain = make_pipeline(StandardScaler(), KNeighborsClassifier(3)).fit(X[train], noisy)
        accuracy["plain"].append(plain.score(X[test], y[test]))
        for k in ("auto", 3):
            model = RobustKNeighborsClassifier(n_neighbors=k, random_state=0).fit(X[train], noisy)
            accuracy[k].append(model.score(X[test], y[test]))
            if k == "auto":
                areas.append(roc_auc_score(is_wrong, -model.score_))
                rates.append(model.noise_rate_)
    assert np.mean(accuracy["auto"]) > 0.94
    assert np.mean(accuracy["auto"]) >= np.mean(accuracy[3]) - 0.005
    assert np.mean(accuracy["auto"]) > np.mean(accuracy["plain"]) + 0.08
    assert np.mean(areas) > 0.98
    assert np.mean(rates) == pytest.approx(0.25, abs=0.05)
    assert np.abs(np.array(rates) - 0.25).max() < 0.1


def one_sided(y, rng, rate=0.4):
    """Two ones in five are labelled zero, and no zero is labelled one."""
    return np.where((y == 1) & (rng.random(len(y)) < rate), 0, y)


def apart(rng, n=900):
    """Two classes far apart, and enough rows to tell which labels are wrong."""
    y = rng.permutation(np.arange(n) % 2)
    return rng.normal(size=(n, 3)) + 6.0 * y[:, None] * [1.0, 0.0, 0.0], y


def test_noise_of_one_class_is_undone():
    """Uniform flips at the true rate, the best that one number can say, are far behind."""
    X, y = load_breast_cancer(return_X_y=True)
    found, rng = {"auto": [], "given": []}, np.random.default_rng(1)
    for train, test in StratifiedKFold(3, shuffle=True, random_state=1).split(X, y):
        noisy = one_sided(y[train], rng)
        model = RobustKNeighborsClassifier(random_state=0).fit(X[train], noisy)
        assert model.noise_rates_[0] < 0.05 < 0.2 < model.noise_rates_[1] < 0.6
        found["auto"].append(model.score(X[test], y[test]))
        given = RobustKNeighborsClassifier(noise_rate=float(np.mean(noisy != y[train])), random_state=0)
        found["given"].append(given.fit(X[train], noisy).score(X[test], y[test]))
    assert np.mean(found["auto"]) > 0.9
    assert np.mean(found["auto"]) > np.mean(found["given"]) + 0.08


def test_predictions_are_the_true_classes_for_which_all_rows_speak(rng):
    X, y = apart(rng)
    for given, has_matrix in ((one_sided(y, rng), True), (flip_labels(y, 0.2, random_state=0)[0], False)):
        model = RobustKNeighborsClassifier(random_state=0).fit(X, given)
        assert (model.decision_.noise.matrix is not None) is has_matrix
        votes = model.votes(X).total
        np.testing.assert_allclose(model.predict_proba(X), model.decision_.noise.true_shares(votes), rtol=1e-12)
        np.testing.assert_allclose(model.noise_rates_, model.decision_.noise.rates)
        assert model.noise_rate_ == model.decision_.noise.rate


@pytest.mark.parametrize("weights", ["uniform", "plausibility"])
def test_where_doubtful_rows_do_not_vote_nothing_is_corrected(weights, blobs):
    X, y = blobs(n=150, d=3, spread=0.8)
    noisy, _ = flip_labels(y, 0.3, random_state=0)
    model = RobustKNeighborsClassifier(weights=weights, random_state=0).fit(X, noisy)
    counts = np.zeros(150)
    counts[model.kept_] = 1.0 if weights == "uniform" else model.plausibility_[model.kept_]
    scaled = replace(Scaling.learn(X, "pairs"), is_tame=True).apply(X).astype(np.float32)
    votes = model.decision_.jury.answers(scaled, counts)
    np.testing.assert_allclose(model.predict_proba(X), votes, atol=2e-3)
    assert len(model.kept_) < 150


def test_rates_of_classes_are_equal_where_nothing_speaks_against_it(blobs):
    X, y = blobs(n=90, d=3)
    for k, rate in (("auto", "auto"), ("auto", 0.2), (3, 0.1), (3, "auto")):
        model = RobustKNeighborsClassifier(n_neighbors=k, noise_rate=rate, random_state=0).fit(X, y)
        np.testing.assert_array_equal(model.noise_rates_, np.full(3, model.noise_rate_))


@pytest.mark.parametrize("rate", [0.5, 0.7, 0.99])
def test_a_rate_beyond_belief_does_not_turn_the_answers_round(rate, rng):
    X, y = apart(rng, n=90)
    model = RobustKNeighborsClassifier(noise_rate=rate, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.noise_rate_ == rate
    assert ((model.plausibility_ > 0) & (model.plausibility_ <= 1)).all()


def test_doubtful_rows_are_the_lowest_scores_below_half_and_two_of_a_class_stay(rng):
    for _ in range(200):
        n, k = int(rng.integers(2, 30)), int(rng.integers(1, 6))
        codes = np.concatenate([np.arange(k), rng.integers(0, k, n)])
        score, rate = rng.integers(0, 10, n + k) / 10, rng.random()
        order = sorted(range(n + k), key=lambda i: (score[i], i))
        best = [i for one in range(k) for i in [i for i in reversed(order) if codes[i] == one][:2]]
        doubtful = [i for i in order if score[i] < 0.5 and i not in best][: int(rate * (n + k) + 1e-9)]
        found = SuspectRules().apply(score, score, codes, NoiseModel(rate, max(k, 2)), rate_is_given=True)
        assert np.flatnonzero(found).tolist() == sorted(doubtful)


def test_suspects_are_as_many_as_a_given_rate_says_and_else_outvoted_and_the_least_plausible(blobs):
    X, y = blobs(n=120, d=3, spread=0.9)
    noisy, _ = flip_labels(y, 0.3, random_state=0)
    given = RobustKNeighborsClassifier(noise_rate=0.1, random_state=0).fit(X, noisy).decision_
    assert np.count_nonzero(given.is_suspect) == 12
    guessed = RobustKNeighborsClassifier(random_state=0).fit(X, noisy).decision_
    is_outvoted = guessed.score < 0.5
    assert not (guessed.is_suspect & ~is_outvoted).any()
    assert guessed.is_suspect.sum() >= min(is_outvoted.sum(), np.floor(0.9 * guessed.noise.rate * 120))
    assert (guessed.plausibility[guessed.is_suspect] < 1.0).all()
    for one in range(3):
        its = is_outvoted & (noisy == one)
        if (its & ~guessed.is_suspect).any() and (its & guessed.is_suspect).any():
            least = guessed.plausibility[its & ~guessed.is_suspect].min()
            assert guessed.plausibility[its & guessed.is_suspect].max() <= least


def test_the_threshold_makes_the_expected_f1_the_largest(rng):
    for _ in range(20):
        chances = rng.random(12) ** 2

        def expected(threshold, chances=chances):
            picked = chances >= threshold
            return 2.0 * chances[picked].sum() / (picked.sum() + chances.sum())

        best = max(expected(one) for one in chances)
        assert expected(best_threshold(chances)) == pytest.approx(best)


def test_wrong_labels_that_follow_the_features_are_doubted_beyond_the_rate_but_not_in_rare_classes(rng):
    y = np.repeat([0, 1], [500, 500])
    X = rng.normal(size=(1000, 3)) + 3.0 * y[:, None] * [1.0, 0.0, 0.0]
    off = np.abs(X[:, 0] - 1.5)
    wrong = rng.permutation(np.flatnonzero((off > 0.5) & (off < 1.2)))[:80]  # a third of two bands beside the border
    given = y.copy()
    given[wrong] = 1 - y[wrong]
    model = RobustKNeighborsClassifier(random_state=0).fit(X, given)
    doubted = np.flatnonzero(model.decision_.is_suspect)
    assert model.noise_rate_ < 0.03  # where voters are certain, nothing is wrong
    assert np.isin(wrong, doubted).mean() > 0.5
    assert np.isin(doubted, wrong).mean() > 0.6
    assert all(np.count_nonzero(given[doubted] == one) <= 0.2 * np.count_nonzero(given == one) for one in (0, 1))

    rare = np.repeat([0, 1], [2000, 20])
    rows = rng.normal(size=(2020, 3)) + 2.5 * rare[:, None] * [1.0, 0.0, 0.0]
    clean = RobustKNeighborsClassifier(random_state=0).fit(rows, rare)
    explained = clean.decision_.noise.expected_wrong(np.array([2000, 20]))[1]
    assert clean.decision_.is_suspect[2000:].sum() <= np.ceil(explained)
    assert np.count_nonzero(clean.score_[2000:] < 1 / 3) > 2  # the votes alone would doubt some


def test_of_labels_that_nothing_contradicts_none_is_doubtful(rng):
    X, y = apart(rng, n=90)
    X[:, 0] += 6.0 * y  # so far that no row strays to the other side
    assert not RobustKNeighborsClassifier(random_state=0).fit(X, y).decision_.is_suspect.any()


def test_the_learner_may_be_ones_own_and_all_survives_a_file(blobs, tmp_path):
    X, y = blobs(n=120, d=4, spread=0.8)
    for learner in (RobustODML(random_state=0), None, "auto"):
        model = RobustKNeighborsClassifier(learner, random_state=0).fit(X, y)
        shares = model.predict_proba(X[:20])
        np.testing.assert_allclose(shares.sum(axis=1), 1.0)
        assert model.score(X, y) > 0.8
        nearkin.save(model, tmp_path / "model.nearkin")
        again = nearkin.load(tmp_path / "model.nearkin")
        np.testing.assert_array_equal(again.predict_proba(X[:20]), shares)
        np.testing.assert_array_equal(again.left_out_votes().votes, model.left_out_votes().votes)
        assert model.kneighbors(X[:3])[1].shape == (3, int(model.decision_.jury.voters[0].bandwidth))
    model.decision_.is_wrong = ~model.decision_.is_suspect
    with pytest.raises(ValueError, match="called wrong that is not a suspect"):
        nearkin.save(model, tmp_path / "model.nearkin")


@pytest.mark.parametrize("has_matrix", [False, True])
def test_a_file_holds_the_rows_once_and_gives_the_same_answers(has_matrix, rng, tmp_path):
    X, y = apart(rng)
    noisy = one_sided(y, rng) if has_matrix else y
    model = RobustKNeighborsClassifier(random_state=0).fit(X, noisy)
    assert (model.decision_.noise.matrix is not None) is has_matrix
    path = tmp_path / "model.nearkin"
    nearkin.save(model, path)
    again = nearkin.load(path)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.noise_rates_, model.noise_rates_)
    np.testing.assert_array_equal(again.score_, model.score_)
    scaled = replace(Scaling.learn(X, "pairs"), is_tame=True).apply(X).astype(np.float32)
    with zipfile.ZipFile(path) as archive:
        arrays = [np.load(io.BytesIO(archive.read(name))) for name in archive.namelist() if name.endswith(".npy")]
    assert sum(one.shape == scaled.shape and np.array_equal(one, scaled) for one in arrays) == 1
    smooth = [voter for voter in again.decision_.jury.voters if isinstance(voter, RidgeVoter)]
    assert smooth[0]._rows is smooth[1]._rows


def test_where_there_can_be_no_jury_three_neighbours_vote(blobs):
    X, y = blobs(n=60, d=4)
    for learner, rows in (
        (nearkin.RobustOASIS(random_state=0), X),
        (nearkin.RobustLODML(random_state=0), sparse.csr_array(X)),
        (nearkin.OKS(random_state=0), X),
        (nearkin.RobustLPAODML(random_state=0), X),
    ):
        auto = RobustKNeighborsClassifier(learner).fit(rows, y)
        three = RobustKNeighborsClassifier(learner, n_neighbors=3).fit(rows, y)
        np.testing.assert_array_equal(auto.predict_proba(rows), three.predict_proba(rows))
        np.testing.assert_array_equal(auto.kept_, three.kept_)
        assert not hasattr(auto, "score_")
        assert auto.kneighbors(rows[:2])[1].shape == (2, 3)


def test_a_second_fit_forgets_the_jury_of_the_first(blobs):
    X, y = blobs(n=60, d=4)
    model = RobustKNeighborsClassifier(random_state=0).fit(X, y)
    assert hasattr(model, "score_")
    model.set_params(n_neighbors=3).fit(X[:40], y[:40])
    fresh = RobustKNeighborsClassifier(n_neighbors=3, random_state=0).fit(X[:40], y[:40])
    assert not hasattr(model, "score_")
    np.testing.assert_array_equal(model.predict_proba(X), fresh.predict_proba(X))
    np.testing.assert_array_equal(model.noise_rates_, fresh.noise_rates_)


def test_several_matrices_may_be_given(blobs):
    X, y = blobs(n=60, d=5)
    parts = {"a": X[:, :2], "b": X[:, 2:]}
    model = RobustKNeighborsClassifier(nearkin.OMDML(random_state=0)).fit(parts, y)
    assert model.score(parts, y) > 0.8


def test_single_precision_says_the_same(blobs):
    X, y = blobs(n=150, d=4, spread=0.8)
    noisy, _ = flip_labels(y, 0.2, random_state=0)
    double = RobustKNeighborsClassifier(random_state=0).fit(X, noisy)
    single = RobustKNeighborsClassifier(random_state=0).fit(X.astype(np.float32), noisy)
    np.testing.assert_allclose(single.predict_proba(X.astype(np.float32)), double.predict_proba(X), atol=0.02)
    np.testing.assert_allclose(single.plausibility_, double.plausibility_, atol=0.05)


SHAPES = {
    "two rows": (2, 2, 2),
    "four rows": (4, 3, 2),
    "fewer rows than neighbours": (40, 3, 3),
    "one feature": (80, 1, 2),
    "two rows of every class": (40, 3, 20),
    "one row of every class": (12, 2, 12),
    "wide": (60, 2000, 3),
}


@pytest.mark.slow
@each(shape=tuple(SHAPES), kind=["normal", "constant", "repeated"])
def test_any_shape_is_judged(kind, shape, rng):
    n, d, k = SHAPES[shape]
    y = rng.permutation(np.arange(n) % k)
    X = {
        "normal": rng.normal(size=(n, d)) + y[:, None],
        "constant": np.ones((n, d)),
        "repeated": np.repeat(rng.normal(size=(-(-n // 4), d)), 4, axis=0)[:n],
    }[kind]
    model = RobustKNeighborsClassifier(random_state=0).fit(X, y)
    shares = model.predict_proba(X[:7])
    assert np.isfinite(shares).all() and (shares > 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert set(y[model.kept_]) == set(y)  # no class is doubted away
    assert ((model.plausibility_ > 0) & (model.plausibility_ <= 1)).all()
    assert 0.0 <= model.noise_rate_ < 1.0
    assert ((model.score_ >= 0) & (model.score_ <= 1)).all()


@pytest.mark.slow
def test_wide_rows_need_no_matrix_of_all_pairs_of_features(rng):
    """Neither for the start of a learner nor for a learner that has none itself."""
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 6000))
    X[:, :200] += y[:, None]
    for learner in ("auto", nearkin.LSMDML(n_projections=20, rank=5, random_state=0)):
        tracemalloc.start()
        model = RobustKNeighborsClassifier(learner, random_state=0).fit(X, y)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 6000 * 6000 * 8 / 2
        assert model.score(X, y) > 0.9
        assert len(model.votes(X[:2]).voters) == 5


@pytest.mark.slow
def test_thousands_of_classes_fit_into_bounded_memory(rng):
    n, k = 6000, 2000
    y = rng.permutation(np.arange(n) % k)
    X = rng.normal(size=(k, 6))[y] + 0.05 * rng.normal(size=(n, 6))
    noisy, is_wrong = flip_labels(y, 0.1, random_state=0)
    tracemalloc.start()
    model = RobustKNeighborsClassifier(None).fit(X, noisy)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 300e6  # all votes of one voter alone are 96 MB
    assert roc_auc_score(is_wrong, -model.score_) > 0.8
    assert np.mean(model.predict(X[:300]) == y[:300]) > 0.6


def test_heavy_tails_do_not_decide_who_is_near(rng):
    """One column in ten thousand of its usual size; the other tells the classes apart."""
    y = np.arange(300) % 2
    X = np.column_stack([y + 0.4 * rng.normal(size=300), rng.standard_cauchy(300)])
    model = RobustKNeighborsClassifier(random_state=0).fit(X, y)
    scaled = model.decision_.jury.voters[2]._rows
    unit = np.sqrt(0.25)  # of a standard deviation, with two features
    plain = Scaling.learn(X, "pairs").apply(X) / unit
    is_far = np.abs(plain) > 2.0
    assert 0 < is_far.sum() < 30
    np.testing.assert_allclose(scaled[~is_far] / unit, plain[~is_far], rtol=1e-5)
    expected = np.sign(plain) * (2.0 + np.log(np.abs(plain) - 1.0, where=is_far, out=np.zeros_like(plain)))
    np.testing.assert_allclose(scaled[is_far] / unit, expected[is_far], rtol=1e-5)
    assert model.score(X, y) > 0.85


def test_no_class_is_so_full_of_wrong_labels_that_some_are_passed_over():
    codes = np.repeat([0, 1, 2], [50, 50, 10])
    plausibility = np.where(np.arange(110) % 50 < 25, 0.1, 0.9)
    noise = NoiseModel(0.2, 3, interval=(0.0, 0.4))  # which explains none of them
    found = SuspectRules().apply(plausibility, plausibility, codes, noise, rate_is_given=False)
    np.testing.assert_array_equal(found[:100], plausibility[:100] < 0.5)
    assert not found[100:].any()  # a rare class
