"""The classifier on a stream: it is `fit` on the rows it holds, and stands behind the bridges of river and CapyMOA."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import NotFittedError

import nearkin
from each import each
from nearkin.neighbors import classifier

MODELS = {
    "jury": {},
    "Algorithm 5": {"n_neighbors": 3},
    "learner": {"learner": nearkin.RobustLODML(random_state=0)},
    "similarity": {"learner": nearkin.RobustOASIS(random_state=0)},
    "no learner": {"learner": None, "n_neighbors": 5},
}


def make(model, **more):
    return nearkin.RobustKNeighborsClassifier(**{"random_state": 0, **MODELS[model], **more})


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


@each(model=list(MODELS), fast={"model": ["jury", "Algorithm 5"]})
def test_the_first_batch_is_fitted_as_a_whole(model, wine):
    X, y = wine
    once, fitted = make(model).partial_fit(X, y), make(model).fit(X, y)
    np.testing.assert_array_equal(once.predict_proba(X), fitted.predict_proba(X))
    np.testing.assert_array_equal(once.plausibility_, fitted.plausibility_)
    np.testing.assert_array_equal(once.row_numbers_, np.arange(len(y)))
    assert once.noise_rate_ == fitted.noise_rate_


def literal_decisions(n_first, n, of_class):
    """Numbers of rows at which a decision is made: a quarter more, an eighth more if a class is new."""
    decided = [n_first]
    met = set(of_class[:n_first])
    for row in range(n_first, n):
        share = 0.25 if set(of_class[: row + 1]) == met else 0.125
        if row + 1 - decided[-1] >= max(1, int(share * decided[-1])):
            decided.append(row + 1)
            met = set(of_class[: row + 1])
    return decided


@each(size=[1, 7, 50, 130], fast={"size": [7]})
def test_it_decides_at_row_numbers_that_do_not_depend_on_batches(size, wine):
    X, y = wine[0][:170], wine[1][:170]
    y = np.where(np.arange(len(y)) < 90, np.minimum(y, 1), y)  # the third class comes late
    model = make("no learner").partial_fit(X[:40], y[:40])
    for start in range(40, len(y), size):
        model.partial_fit(X[start : start + size], y[start : start + size])
    decided = literal_decisions(40, len(y), y.tolist())
    last = decided[-1]
    assert decided[1:4] == [50, 62, 77]
    assert any(after < before + before // 4 for before, after in pairwise(decided))  # for the new class
    assert last < len(y)
    assert len(model.row_numbers_) == last
    fitted = make("no learner").fit(X[:last], y[:last])
    np.testing.assert_array_equal(model.predict_proba(X), fitted.predict_proba(X))


def test_it_holds_a_bounded_and_even_sample(monkeypatch, rng):
    monkeypatch.setattr(classifier, "_HELD", 60)
    y = (rng.random(2000) < 0.1).astype(int)
    X = rng.normal(size=(2000, 2)) + 3.0 * y[:, None]
    model = make("no learner")
    for start in range(0, 2000, 100):
        model.partial_fit(X[start : start + 100], y[start : start + 100])
    counts = np.bincount(y[model.row_numbers_])
    assert counts.tolist() == [30, 30]
    assert model.row_numbers_[y[model.row_numbers_] == 0].max() > 1000  # not the first ones
    assert model.score(X, y) > 0.9


def test_declared_classes_have_columns_before_they_come(wine):
    X, y = wine
    some = y < 2
    model = make("jury").partial_fit(X[some], y[some], classes=[2, 0, 1])
    assert model.classes_.tolist() == [0, 1, 2]
    shares = model.predict_proba(X)
    assert shares.shape == (len(X), 3)
    assert (shares[:, 2] == 0.0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_array_equal(shares[:, :2], make("jury").fit(X[some], y[some]).predict_proba(X))
    with pytest.raises(ValueError, match="not among"):
        model.partial_fit(X[:1], [7])
    with pytest.raises(ValueError, match="differs from the one of the first call"):
        model.partial_fit(X[:1], [1], classes=[0, 1])


def test_one_class_is_predicted_until_another_comes(wine):
    X, _y = wine
    model = make("jury").partial_fit(X[:2], ["b", "b"], classes=["a", "b"])
    assert model.predict(X[:3]).tolist() == ["b"] * 3
    assert model.predict_proba(X[:1]).tolist() == [[0.0, 1.0]]
    with pytest.raises(ValueError, match="nothing is decided yet"):
        model.kneighbors(X[:1])
    model.partial_fit(X[2:3], ["a"])
    assert model.predict(X[2:3]).tolist() in (["a"], ["b"])
    assert len(model.row_numbers_) == 3


def test_fewer_rows_than_neighbours_give_the_shares_of_their_classes(wine):
    X, _y = wine
    model = make("no learner").partial_fit(X[:1], ["a"], classes=["a", "b", "c"]).partial_fit(X[1:4], ["c", "c", "c"])
    assert model.predict_proba(X[:2]).tolist() == [[0.25, 0.0, 0.75]] * 2
    model.partial_fit(X[4:5], ["a"])
    assert len(model.row_numbers_) == 5


def test_a_refused_batch_changes_nothing(wine):
    X, y = wine
    model = make("no learner").partial_fit(X[:50], y[:50])
    before = model.predict_proba(X)
    for bad in (X[50:52, :-1], np.full((2, 13), np.nan)):
        with pytest.raises(ValueError):
            model.partial_fit(bad, y[50:52])
    with pytest.raises(ValueError, match="2 rows but y has 1"):
        model.partial_fit(X[50:52], y[50:51])
    again = make("no learner").partial_fit(X[:50], y[:50])
    for one in (model, again):
        one.partial_fit(X[50:100], y[50:100])
    np.testing.assert_array_equal(model.predict_proba(X), again.predict_proba(X))
    assert (model.predict_proba(X) != before).any()


def test_after_fit_it_says_how_to_go_on(wine):
    X, y = wine
    model = make("no learner").fit(X, y)
    with pytest.warns(UserWarning, match="hold_rows"):
        model.partial_fit(X[:60], y[:60])
    np.testing.assert_array_equal(model.predict(X), make("no learner").fit(X[:60], y[:60]).predict(X))
    model = make("no learner").partial_fit(X[:50], y[:50]).fit(X, y)  # which forgets the stream
    assert not hasattr(model, "row_numbers_")
    np.testing.assert_array_equal(model.predict(X), make("no learner").fit(X, y).predict(X))


@each(model=list(MODELS), fast={"model": ["jury", "Algorithm 5"]})
def test_a_loaded_model_goes_on_as_the_saved_one(model, wine, tmp_path):
    X, y = wine
    first = make(model).partial_fit(X[:80], y[:80], classes=[0, 1, 2, 3])
    nearkin.save(first, tmp_path / "a.nearkin")
    second = nearkin.load(tmp_path / "a.nearkin")
    for one in (first, second):
        one.partial_fit(X[80:], y[80:])
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))


def test_frames_keep_their_names(wine):
    pd = pytest.importorskip("pandas")
    X, y = wine
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(13)])
    model = make("Algorithm 5").partial_fit(frame[:90], y[:90]).partial_fit(frame[90:], y[90:])
    assert model.score(frame, y) > 0.8
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"c0": "other"}))
    mixed = frame[["c0", "c1"]].assign(kind=np.where(y == 0, "a", "b"))
    model = make("jury").partial_fit(mixed[:90], y[:90]).partial_fit(mixed[90:], y[90:])
    assert model.score(mixed, y) > 0.6


# ---------------------------------------------------------------------------------- other people's bridges


def test_it_goes_through_the_calls_of_capymoa():
    """CapyMOA's SKClassifier trains on one instance at a time, with all classes, and asks for one row."""
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(1).permutation(150)
    model, n_right, is_trained = make("jury"), 0, False
    for x, label in zip(X[order], y[order], strict=True):
        if is_trained:
            n_right += int(model.predict([x])[0]) == label
            assert model.predict_proba([x]).shape == (1, 3)
        else:
            with pytest.raises(NotFittedError):
                model.predict([x])
        model.partial_fit([x], [label], classes=np.arange(3))
        is_trained = True
    assert n_right / 149 > 0.85


def test_it_goes_through_the_bridge_of_river():
    compat = pytest.importorskip("river.compat")
    from river import datasets, metrics

    model = compat.convert_sklearn_to_river(make("jury"), classes=[False, True])
    accuracy = metrics.Accuracy()
    for i, (x, label) in enumerate(datasets.Phishing()):
        if i == 400:
            break
        accuracy.update(label, model.predict_one(x))
        model.learn_one(x, label)
    assert accuracy.get() > 0.8
