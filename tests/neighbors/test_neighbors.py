"""Robust-kNN (Algorithm 5), its vote, and what wrong labels look like to it."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import nearkin
from each import each
from nearkin import Euclidean, RobustKNeighborsClassifier, RobustLODML, RobustOASIS, RobustODML
from nearkin.measures import DISTANCE, SIMILARITY
from nearkin.neighbors import BlockSearch, NeighbourSearch, vote
from nearkin.neighbors.robust_knn import leave_one_out_votes
from nearkin.noise import estimate_noise_rate, flip_labels
from reference.knn import robust_knn

ROBUST = (
    "RobustOASIS", "RobustODML", "RobustLOSL", "RobustLODML", "RobustOPML", "RobustSLMOML", "RobustITML",
    "RobustOMDML", "RobustLOMDML", "RobustLSMDML",
)  # fmt: skip


@pytest.fixture
def noisy_blobs(blobs, global_seed):
    """Training rows with every fifth label wrong, and queries."""
    X, y = blobs(n=90, d=4, spread=0.8)
    noisy, is_wrong = flip_labels(y[:70], 0.2, random_state=global_seed)
    return X[:70], noisy, is_wrong, X[70:], y[70:]


def nearness(learner):
    """The learned measure of two scaled rows as Algorithm 5 takes it: smaller is closer."""
    M = learner.metric_
    if learner.measure.is_distance:
        return lambda x, y: float((x - y) @ M @ (x - y))
    return lambda x, y: -float(x @ M @ y)


def scaled_rows(learner):
    """Bring raw rows to where `metric_` compares them, which for a similarity is after its start."""
    if learner.measure.is_distance or learner.state_.start is None:
        return learner.scaling_.apply
    return lambda X: learner.state_.start.place(learner.scaling_.apply(X))


@each(noise_rate=[0.0, 0.1, 0.3], k=[1, 3, 5], name=ROBUST)
def test_the_classifier_is_algorithm_5(name, k, noise_rate, noisy_blobs, global_seed):
    X, y, _, queries, _ = noisy_blobs
    learner = getattr(nearkin, name)(C=0.3, eta=0.5, random_state=global_seed)
    model = RobustKNeighborsClassifier(learner, n_neighbors=k, noise_rate=noise_rate).fit(X, y)
    fitted = model.learner_
    scaled = scaled_rows(fitted)
    expected = robust_knn(scaled(X), y.tolist(), model.plausibility_, scaled(queries), k, noise_rate, nearness(fitted))
    np.testing.assert_array_equal(model.predict(queries), expected)
    assert len(model.kept_) == 70 - int(70 * noise_rate + 1e-9)
    if name == "RobustOASIS":
        assert np.abs(fitted.metric_ - fitted.metric_.T).max() > 1e-3  # the similarity is not symmetric


@each(measure={"distance": DISTANCE, "similarity": SIMILARITY}, n=[1, 7, 40])
def test_a_search_in_blocks_finds_what_a_search_among_mapped_rows_does(measure, n, rng, monkeypatch):
    monkeypatch.setattr("nearkin.neighbors.search._ITEMS", 9)
    monkeypatch.setattr("nearkin.neighbors.search._TABLE", 50)
    items, queries = rng.normal(size=(n, 3)), rng.normal(size=(23, 3))
    k = min(n, 4)
    mapped = NeighbourSearch(items, measure).query(queries, k)
    blocks = BlockSearch(items, np.zeros(n, np.int64), lambda q, y, codes: measure.scores(q, y), measure)
    values, index = blocks.query(queries, k)
    np.testing.assert_array_equal(index, mapped[1])
    np.testing.assert_allclose(values, mapped[0], atol=1e-7)


def test_a_search_in_blocks_hands_every_item_over_with_its_class_and_no_table_of_all_pairs(rng, monkeypatch):
    monkeypatch.setattr("nearkin.neighbors.search._ITEMS", 10)
    monkeypatch.setattr("nearkin.neighbors.search._TABLE", 40)
    items, codes, asked = rng.normal(size=(35, 2)), np.arange(35) % 3, []

    def scores(queries, part, part_codes):
        asked.append((len(queries), part[:, 0].tolist(), part_codes.tolist()))
        return -np.abs(queries[:, :1] - part[:, 0])

    BlockSearch(items, codes, scores, SIMILARITY).query(rng.normal(size=(9, 2)), 3)
    assert max(n * len(part) for n, part, _ in asked) <= 40
    assert np.concatenate([part for _, part, _ in asked[:4]]).tolist() == items[:, 0].tolist()
    assert np.concatenate([code for _, _, code in asked[:4]]).tolist() == codes.tolist()


@pytest.mark.parametrize("name", ["RobustLPAODML", "RobustOKS", "RobustOMKS"])
def test_learners_without_one_map_work_frozen_dropped_and_with_an_estimated_rate(name, noisy_blobs, global_seed):
    X, y, _, queries, truth = noisy_blobs
    learner = getattr(nearkin, name)(random_state=global_seed).fit(X, y)
    frozen = RobustKNeighborsClassifier(FrozenEstimator(learner)).fit(X, y)
    assert 0.0 < frozen.noise_rate_ < 0.6
    assert len(frozen.kept_) < 70
    fresh = RobustKNeighborsClassifier(clone(learner)).fit(X, y)
    np.testing.assert_array_equal(frozen.predict(queries), fresh.predict(queries))
    assert np.mean(fresh.predict(queries) == truth) > 0.5
    some = fresh.predict_proba(queries)
    np.testing.assert_allclose(some, np.concatenate([fresh.predict_proba(one[None]) for one in queries]), atol=1e-9)


def test_the_least_plausible_rows_are_dropped(noisy_blobs):
    X, y, _, _, _ = noisy_blobs
    model = RobustKNeighborsClassifier(RobustODML(random_state=0), n_neighbors=3, noise_rate=0.25).fit(X, y)
    dropped = np.setdiff1d(np.arange(70), model.kept_)
    assert len(dropped) == 17
    assert model.plausibility_[dropped].max() <= model.plausibility_[model.kept_].min()
    assert model.noise_rate_ == 0.25


def test_shares_of_votes_sum_to_one_and_agree_with_the_prediction(noisy_blobs):
    X, y, _, queries, _ = noisy_blobs
    for k in (1, 2, 4, 7):
        model = RobustKNeighborsClassifier(n_neighbors=k, random_state=0).fit(X, y)
        shares = model.predict_proba(queries)
        assert shares.shape == (20, 3)
        assert np.all(shares >= 0.0)
        np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-12)
        np.testing.assert_array_equal(model.classes_[shares.argmax(axis=1)], model.predict(queries))


def test_votes_are_weighted_by_plausibility(noisy_blobs):
    X, y, _, queries, _ = noisy_blobs
    model = RobustKNeighborsClassifier(RobustLODML(random_state=0), n_neighbors=5, noise_rate=0.1).fit(X, y)
    _, index = model.kneighbors(queries)
    expected = np.zeros((20, 3))
    for query in range(20):
        for row in index[query]:
            expected[query, np.searchsorted(model.classes_, y[row])] += model.plausibility_[row]
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(queries), expected, atol=1e-8)


def test_equal_votes_go_to_the_nearest_neighbour_among_them():
    codes = np.array([[2, 0, 1], [1, 0, 0], [0, 2, 2], [2, 1, 1]])
    weights = np.array([[1.0, 1.0, 1.0], [1.0, 0.5, 0.5], [0.3, 0.3, 0.3], [1e-300, 1e-300, 1e-300]])
    shares = vote(codes, weights, 3)
    assert shares.argmax(axis=1).tolist() == [2, 1, 2, 1]
    np.testing.assert_allclose(shares[0], [1 / 3] * 3, atol=1e-8)
    np.testing.assert_allclose(shares[1], [0.5, 0.5, 0.0], atol=1e-8)


def test_equal_votes_in_the_classifier_go_to_the_nearest_neighbour():
    X, y = np.array([[0.0], [1.0], [10.0], [11.0]]), ["b", "a", "a", "b"]
    learner = Euclidean(loss="hinge", scale=None)
    model = RobustKNeighborsClassifier(learner, n_neighbors=2, noise_rate=0.0).fit(X, y)
    assert model.predict([[0.2], [0.8], [10.2], [10.8]]).tolist() == ["b", "a", "a", "b"]


def test_kneighbors_are_rows_as_given_to_fit_nearest_first(noisy_blobs):
    X, y, _, queries, _ = noisy_blobs
    for learner in (RobustODML(random_state=0), RobustOASIS(random_state=0)):
        model = RobustKNeighborsClassifier(learner, n_neighbors=4, noise_rate=0.2).fit(X, y)
        values, index = model.kneighbors(queries)
        fitted = model.learner_
        assert set(index.ravel().tolist()) <= set(model.kept_.tolist())
        for query in range(20):
            pairs = np.repeat(queries[query : query + 1], len(X), axis=0)
            scores = fitted.pair_score(pairs, X)
            best = [row for row in np.argsort(-scores, kind="stable") if row in set(model.kept_.tolist())][:4]
            assert index[query].tolist() == best
            sign = -1.0 if fitted.measure.is_distance else 1.0
            np.testing.assert_allclose(values[query], sign * scores[best], atol=1e-10)
        one, _ = model.kneighbors(X[model.kept_], 1)
        assert one.shape == (len(model.kept_), 1)
        assert model.kneighbors(queries, 1000)[1].shape == (20, len(model.kept_))


@pytest.mark.parametrize("measure", [DISTANCE, SIMILARITY], ids=["distance", "similarity"])
def test_the_search_is_the_sorted_table_of_scores(measure, rng):
    items, queries = rng.normal(size=(40, 5)), rng.normal(size=(15, 5))
    values, index = NeighbourSearch(items, measure).query(queries, 6)
    table = measure.scores(queries, items)
    expected = np.argsort(-table, axis=1)[:, :6]
    np.testing.assert_array_equal(index, expected)
    best = np.take_along_axis(table, expected, axis=1)
    np.testing.assert_allclose(values, np.sqrt(-best) if measure.is_distance else best, atol=1e-12)


@pytest.mark.parametrize("k", [1, 3, 5])
def test_without_a_learner_a_rate_or_a_robust_loss_it_is_plain_knn_on_scaled_data(k, blobs):
    X, y = blobs(n=100, d=4, n_classes=2, spread=1.0)  # two classes and odd k: no equal votes
    X = X * [1.0, 100.0, 0.01, 5.0] + 3.0
    scaled = X[:80].std(axis=0)
    plain = KNeighborsClassifier(k).fit(X[:80] / scaled, y[:80])
    hinge = RobustKNeighborsClassifier(Euclidean(loss="hinge"), n_neighbors=k, noise_rate=0.0).fit(X[:80], y[:80])
    np.testing.assert_array_equal(hinge.predict(X[80:]), plain.predict(X[80:] / scaled))
    np.testing.assert_array_equal(hinge.plausibility_, np.ones(80))
    none = RobustKNeighborsClassifier(None, n_neighbors=k, noise_rate=0.0).fit(X[:80], y[:80])
    assert isinstance(none.learner_, Euclidean)
    np.testing.assert_array_equal(none.kneighbors(X[80:])[1], plain.kneighbors(X[80:] / scaled)[1])
    if k == 1:
        np.testing.assert_array_equal(none.predict(X[80:]), plain.predict(X[80:] / scaled))


def test_a_fitted_learner_is_used_as_it_is_and_another_one_is_cloned(noisy_blobs):
    X, y, _, queries, _ = noisy_blobs
    fitted = RobustODML(C=0.4, random_state=0).fit(X, y)
    metric = fitted.metric_.copy()
    model = RobustKNeighborsClassifier(fitted, n_neighbors=3, noise_rate=0.1).fit(X[:40], y[:40])
    assert model.learner_ is fitted
    np.testing.assert_array_equal(fitted.metric_, metric)
    assert RobustKNeighborsClassifier(fitted).fit(X[:40], y[:40]).learner_ is fitted
    np.testing.assert_array_equal(fitted.metric_, metric)
    np.testing.assert_allclose(model.plausibility_, fitted.plausibility(X[:40], y[:40]))
    fresh = RobustODML(C=0.4, random_state=0)
    other = RobustKNeighborsClassifier(fresh).fit(X, y)
    assert other.learner_ is not fresh
    assert not fresh.__sklearn_is_fitted__()
    np.testing.assert_array_equal(other.learner_.metric_, metric)
    assert model.predict(queries).shape == (20,)


def test_a_frozen_learner_stays_fitted_through_clone(noisy_blobs):
    X, y, _, queries, _ = noisy_blobs
    fitted = RobustODML(C=0.4, random_state=0).fit(X, y)
    model = RobustKNeighborsClassifier(FrozenEstimator(fitted), noise_rate=0.1)
    again = clone(model).fit(X, y)
    assert again.learner_ is fitted
    direct = RobustKNeighborsClassifier(fitted, noise_rate=0.1).fit(X, y)
    np.testing.assert_array_equal(again.predict(queries), direct.predict(queries))


def test_clone_forgets_what_was_fitted_and_keeps_the_parameters(noisy_blobs):
    X, y, _, _, _ = noisy_blobs
    model = RobustKNeighborsClassifier(RobustODML(C=0.4), n_neighbors=5, noise_rate=0.1).fit(X, y)
    again = clone(model)
    assert not hasattr(again, "learner_")
    assert again.get_params()["learner__C"] == 0.4
    assert again.get_params()["n_neighbors"] == 5


def test_it_works_at_the_end_of_a_pipeline(noisy_blobs):
    X, y, _, queries, _ = noisy_blobs
    pipeline = make_pipeline(StandardScaler(), RobustKNeighborsClassifier(RobustLODML(random_state=0))).fit(X, y)
    direct = RobustKNeighborsClassifier(RobustLODML(random_state=0)).fit(X, y)
    np.testing.assert_allclose(pipeline.predict_proba(queries), direct.predict_proba(queries), atol=1e-6)


def test_grid_search_reaches_the_parameters_of_the_learner(noisy_blobs):
    X, y, _, queries, truth = noisy_blobs
    grid = {"learner__C": [0.01, 0.3], "n_neighbors": [1, 5]}
    search = GridSearchCV(RobustKNeighborsClassifier(RobustLODML(random_state=0)), grid, cv=3).fit(X, y)
    assert set(search.best_params_) == set(grid)
    assert search.best_params_["learner__C"] == search.best_estimator_.learner_.C
    assert len(set(search.cv_results_["mean_test_score"].tolist())) > 1
    assert search.score(queries, truth) > 0.5


@pytest.mark.parametrize("n_neighbors", [3, "auto"])
def test_labels_may_be_strings(n_neighbors, noisy_blobs):
    X, y, _, queries, _ = noisy_blobs
    names = np.array(["pear", "apple", "fig"])
    numbers = RobustKNeighborsClassifier(n_neighbors=n_neighbors, random_state=0).fit(X, y)
    words = RobustKNeighborsClassifier(n_neighbors=n_neighbors, random_state=0).fit(X, names[y])
    assert words.classes_.tolist() == ["apple", "fig", "pear"]
    np.testing.assert_array_equal(words.predict(queries), names[numbers.predict(queries)])
    if n_neighbors == 3:
        np.testing.assert_array_equal(words.plausibility_, numbers.plausibility_)
    else:  # shares are added up in the order of the classes, which is another one
        np.testing.assert_allclose(words.plausibility_, numbers.plausibility_, rtol=1e-6)


def test_the_papers_own_form_has_three_neighbours():
    model = RobustKNeighborsClassifier.algorithm5(RobustODML(C=2.0), noise_rate=0.2)
    assert model.n_neighbors == 3
    assert model.noise_rate == 0.2
    assert model.learner.C == 2.0


def test_an_object_that_is_not_a_learner_is_refused(noisy_blobs):
    X, y, _, _, _ = noisy_blobs
    with pytest.raises(ValueError, match="parameter `learner` must be"):
        RobustKNeighborsClassifier("best").fit(X, y)
    with pytest.raises(ValueError, match="`noise_rate` must be"):
        RobustKNeighborsClassifier(noise_rate=1.0).fit(X, y)


# ---------------------------------------------------------------- how many labels are wrong


def votes_for(predicted, certainty, n_classes):
    """Shares with ``certainty`` for the predicted class and the rest spread over the others."""
    votes = np.repeat(((1.0 - np.asarray(certainty)) / (n_classes - 1))[:, None], n_classes, axis=1)
    votes[np.arange(len(predicted)), predicted] = certainty
    return votes


@each(n_classes=[2, 3], n_wrong=[0, 5, 15])
def test_the_noise_rate_is_the_share_of_contradicted_labels_among_certain_rows(n_classes, n_wrong):
    """Fifty certain rows of each predicted class, ``n_wrong`` of them contradicted, and fifty on the boundary."""
    predicted = np.repeat(np.arange(n_classes), 100)
    place = np.tile(np.arange(100), n_classes)
    certainty = np.where(place < 50, 0.9 + 1e-4 * (place % 2), 0.55)
    codes = predicted.copy()
    codes[place >= 75] = (codes[place >= 75] + 1) % n_classes  # on the boundary half are contradicted
    wrong = (place < 50) & (place % 10 < n_wrong / 5)  # alike among the more and the less certain of the certain
    codes[wrong] = (codes[wrong] + 1) % n_classes
    found = estimate_noise_rate(votes_for(predicted, certainty, n_classes), codes)
    share_of_upper_quarter = np.mean(wrong[(place < 50) & (place % 2 == 1)])
    assert found == pytest.approx(min(n_wrong / 50, share_of_upper_quarter), abs=1e-12)


def test_contradictions_on_the_boundary_do_not_count_as_noise():
    predicted = np.tile([0, 1], 100)
    certainty = np.where(np.arange(200) < 120, 0.95, 0.6)
    codes = np.where(np.arange(200) < 120, predicted, 1 - predicted)
    assert estimate_noise_rate(votes_for(predicted, certainty, 2), codes) == 0.0


def test_the_estimate_stays_below_the_rate_at_which_labels_say_nothing():
    predicted = np.tile([0, 1, 2], 20)
    everything_wrong = estimate_noise_rate(votes_for(predicted, np.full(60, 0.9), 3), (predicted + 1) % 3)
    assert everything_wrong == pytest.approx(0.9 * 2 / 3)


def test_leave_one_out_votes_are_the_literal_ones_without_the_row_itself(blobs):
    X, y = blobs(n=40, d=3)
    X[7], y[7] = X[3], y[3]  # a twin must not stand in for the row itself
    votes = leave_one_out_votes(X, y, 3, n_neighbors=6, bandwidth=2.0)
    for row in range(40):
        d2 = ((X - X[row]) ** 2).sum(axis=1)
        others = sorted((j for j in range(40) if j != row), key=lambda j: d2[j])[:6]
        expected = np.zeros(3)
        for rank, j in enumerate(others):
            expected[y[j]] += np.exp(-rank / 2.0)
        np.testing.assert_allclose(votes[row], expected / expected.sum(), atol=1e-8)


def test_without_differences_in_plausibility_no_row_is_dropped(noisy_blobs):
    X, y, _, _, _ = noisy_blobs
    model = RobustKNeighborsClassifier(Euclidean(loss="hinge"), n_neighbors=3).fit(X, y)
    assert len(model.kept_) == len(X)


@pytest.mark.slow
@each(n_neighbors=[3, "auto"], rate=[0.0, 0.1, 0.2, 0.3])
def test_the_rate_of_wine_is_found_on_average(rate, n_neighbors, global_seed):
    X, y = load_wine(return_X_y=True)
    found = []
    for draw in range(10):
        noisy, _ = flip_labels(y, rate, random_state=10 * global_seed + draw)
        model = RobustKNeighborsClassifier(n_neighbors=n_neighbors, random_state=0).fit(X, noisy)
        found.append(model.noise_rate_)
    assert np.mean(found) == pytest.approx(rate, abs=0.05)


@each(name=["RobustLODML", "RobustODML"])
def test_a_jury_judges_training_and_new_rows_in_the_space_of_the_learner(name, noisy_blobs):
    """The start is part of the map, and the input space is that of scaled rows."""
    X, y, _, queries, _ = noisy_blobs
    model = RobustKNeighborsClassifier(getattr(nearkin, name)(random_state=0)).fit(X, y)
    near, learned = model.decision_.neighbourhoods
    np.testing.assert_allclose(model.embed(queries), model.learner_.transform(queries))
    assert learned.map_rows(model.learner_.scaling_.apply(queries)).shape == (len(queries), 4)
    found = learned.neighbours(model.learner_.scaling_.apply(X), np.ones(len(X)))[0][0]
    np.testing.assert_array_equal(found[:, 0], np.arange(len(X)))
    own = near.neighbours(model.learner_.scaling_.apply(X), np.ones(len(X)))[0][0]
    np.testing.assert_array_equal(own[:, 0], np.arange(len(X)))


@each(name=ROBUST, is_printed=[False, True])
def test_plausibility_tells_wrong_labels_from_right_ones_on_wine(name, is_printed, global_seed):
    """Of the learners as they are, and in the paper's form. One-pass triplets say little about a label."""
    X, y = load_wine(return_X_y=True)
    kind, areas = getattr(nearkin, name), []
    settings = {"triplets": "octg"} if is_printed or name == "RobustOPML" else {}
    if is_printed and "init" in kind().get_params():
        settings["init"] = "identity"
    for draw in range(5):
        noisy, is_wrong = flip_labels(y, 0.2, random_state=5 * global_seed + draw)
        model = kind(**settings, random_state=draw).fit(X, noisy)
        areas.append(roc_auc_score(is_wrong, 1.0 - model.plausibility_))
        np.testing.assert_allclose(model.plausibility(X, noisy), model.plausibility_, rtol=1e-10)
    assert np.mean(areas) > 0.97


def test_the_given_share_of_labels_is_flipped_and_all_of_those_are_wrong(global_seed):
    y = np.repeat(["a", "b", "c"], 40)
    noisy, is_wrong = flip_labels(y, 0.25, random_state=global_seed)
    np.testing.assert_array_equal(noisy != y, is_wrong)
    assert is_wrong.sum() == 30
    assert set(noisy) == {"a", "b", "c"}
    again, _ = flip_labels(y, 0.25, random_state=global_seed)
    np.testing.assert_array_equal(noisy, again)
    for bad in (-0.1, 1.1):
        with pytest.raises(ValueError, match="`rate`"):
            flip_labels(y, bad)


def test_with_an_estimated_rate_the_rows_that_were_kept_vote_alike(noisy_blobs):
    X, y, *_ = noisy_blobs
    auto = RobustKNeighborsClassifier(n_neighbors=3, random_state=0).fit(X, y)
    plain = RobustKNeighborsClassifier(n_neighbors=3, random_state=0, weights="uniform").fit(X, y)
    weighed = RobustKNeighborsClassifier(n_neighbors=3, random_state=0, weights="plausibility").fit(X, y)
    np.testing.assert_array_equal(auto.predict_proba(X), plain.predict_proba(X))
    assert (auto.predict_proba(X) != weighed.predict_proba(X)).any()


def test_a_given_rate_and_algorithm5_weigh_votes_by_plausibility(noisy_blobs):
    X, y, *_ = noisy_blobs
    given = RobustKNeighborsClassifier(n_neighbors=3, random_state=0, noise_rate=0.1).fit(X, y)
    paper = RobustKNeighborsClassifier.algorithm5(noise_rate=0.1, random_state=0).fit(X, y)
    np.testing.assert_array_equal(given.predict_proba(X), paper.predict_proba(X))
    assert paper.weights == "plausibility"


def test_trusted_labels_all_vote_alike(noisy_blobs):
    X, y, *_ = noisy_blobs
    model = RobustKNeighborsClassifier(n_neighbors=3, random_state=0, noise_rate=0, weights="uniform").fit(X, y)
    assert len(model.kept_) == len(X)
    learned = model.learner_.transform(X)
    plain = KNeighborsClassifier(3).fit(learned, y)
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(learned), atol=1e-8)


def test_parameters_of_a_learner_that_is_not_given_cannot_be_set():
    with pytest.raises(ValueError, match=r"learner__C cannot be set .*default_learner"):
        RobustKNeighborsClassifier().set_params(learner__C=1)
    assert RobustKNeighborsClassifier(RobustLODML()).set_params(learner__C=1).learner.C == 1


def test_more_neighbours_than_rows_are_refused(noisy_blobs):
    X, y, *_ = noisy_blobs
    with pytest.raises(ValueError, match=r"n_neighbors=5000 exceeds"):
        RobustKNeighborsClassifier(n_neighbors=5000).fit(X, y)


def test_the_seed_reaches_a_learner_that_has_none_of_its_own(noisy_blobs):
    X, y, *_ = noisy_blobs
    one, other = (RobustKNeighborsClassifier(RobustOASIS(), random_state=3).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(one.learner_.metric_, other.learner_.metric_)
    own = RobustKNeighborsClassifier(RobustOASIS(random_state=5), random_state=3).fit(X, y)
    assert own.learner_.random_state == 5
