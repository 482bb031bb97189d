"""scikit-learn's own checks on every estimator, and the manners of the triplet sources, which have no `fit`."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator

import nearkin
from each import each
from systems import LEARNERS, SIMILARITIES

CLASSIFIERS = (
    nearkin.RobustKNeighborsClassifier(),
    nearkin.RobustKNeighborsClassifier(learner=None),
    nearkin.RobustKNeighborsClassifier(learner=nearkin.RobustOASIS()),
    nearkin.RobustKNeighborsClassifier(learner=nearkin.RobustLPAODML()),
    nearkin.RobustKNeighborsClassifier(learner=nearkin.RobustOKS()),
)
ESTIMATORS = [*(cls() for cls in (*LEARNERS, *SIMILARITIES)), *CLASSIFIERS]
FAST = [one for one in ESTIMATORS if type(one) in (nearkin.RobustLODML, nearkin.OKS)] + [*CLASSIFIERS[:1]]

SOURCES = (
    nearkin.OCTG(n_centers=2, margin=0.5, metric="learned", update_centers=True),
    nearkin.OnePassTriplets(),
    nearkin.BatchTriplets(n_targets=2, margin=0.5, max_impostors=4),
    nearkin.RandomTriplets(n_per_row=3),
)


def _data(seed=0, n=60, d=4):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = rng.normal(size=(n, d))
    X[np.arange(n), y] += 5.0
    return X, y


@each(estimator=ESTIMATORS, fast={"estimator": FAST})
def test_estimator_keeps_the_rules_of_scikit_learn(estimator):
    results = check_estimator(estimator, on_skip=None, on_fail=None)
    broken = [f"{one['check_name']}: {one['exception']!r}" for one in results if one["status"] == "failed"]
    assert broken == []
    skipped = {one["check_name"] for one in results if one["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}  # for estimators without array API support, as all here are


@each(estimator=ESTIMATORS)
def test_tags_tell_what_an_estimator_takes(estimator):
    tags = get_tags(estimator)
    assert tags.target_tags.required
    assert tags.input_tags.sparse
    assert not tags.array_api_support


# ---------------------------------------------------------------------------------- triplet sources


@each(source=SOURCES)
def test_clone_of_a_source_has_its_parameters_and_nothing_it_learned(source):
    used = clone(source)
    used.build(*_data(), random_state=0)
    assert any(name.endswith("_") for name in vars(used))
    fresh = clone(used)
    assert fresh is not used
    assert fresh.get_params() == source.get_params()
    assert set(vars(fresh)) == set(source.get_params())


@each(source=SOURCES)
def test_set_params_of_a_source_changes_what_get_params_shows(source):
    other = type(source)()
    assert other.set_params(**source.get_params()) is other
    assert other.get_params() == source.get_params()
    with pytest.raises(ValueError, match="nonsense"):
        other.set_params(nonsense=1)


def test_repr_of_a_source_shows_what_differs_from_the_defaults():
    assert repr(nearkin.OCTG()) == "OCTG()"
    assert repr(nearkin.OCTG(n_centers=3)) == "OCTG(n_centers=3)"
    assert repr(nearkin.OnePassTriplets()) == "OnePassTriplets()"
    assert repr(nearkin.BatchTriplets(margin=0.5)) == "BatchTriplets(margin=0.5)"
    assert repr(nearkin.RandomTriplets(n_per_row=2)) == "RandomTriplets(n_per_row=2)"


@each(cls=LEARNERS)
def test_repr_of_a_learner_shows_its_source(cls):
    assert repr(cls(triplets=nearkin.OCTG(n_centers=2))) == f"{cls.__name__}(triplets=OCTG(n_centers=2))"


@each(cls=LEARNERS)
def test_parameters_of_the_source_are_reached_through_the_learner(cls):
    model = cls(triplets=nearkin.OCTG())
    assert model.get_params()["triplets__n_centers"] == 1
    model.set_params(triplets__n_centers=2, eta=0.5)
    assert model.triplets.n_centers == 2
    assert model.eta == 0.5
    X, y = _data()
    model.set_params(random_state=0).fit(X, y)
    assert len(model.triplet_source_.centers_) == 6
    assert not hasattr(model.triplets, "centers_")  # the parameter itself stays as it was given


def test_parameters_of_the_source_are_reached_through_classifier_and_learner():
    model = nearkin.RobustKNeighborsClassifier(nearkin.RobustLODML(triplets=nearkin.OCTG()))
    model.set_params(learner__triplets__n_centers=2, learner__C=0.3)
    assert model.learner.triplets.n_centers == 2
    assert model.learner.C == 0.3


@each(cls=LEARNERS)
def test_clone_of_a_learner_does_not_share_its_source(cls):
    model = cls(triplets=nearkin.OCTG(n_centers=2))
    other = clone(model).set_params(triplets__n_centers=5)
    assert model.triplets.n_centers == 2
    assert other.triplets.n_centers == 5


# ---------------------------------------------------------------------------------- searching


def test_grid_search_reaches_the_source_inside_the_learner():
    X, y = _data()
    grid = {"triplets__n_centers": [1, 2], "C": [0.05, 0.2]}
    model = nearkin.RobustLODML(triplets=nearkin.OCTG(), random_state=0)

    def score(fitted, X, y):
        return float(np.mean(fitted.plausibility(X, y)))

    search = GridSearchCV(model, grid, scoring=score, cv=3, error_score="raise").fit(X, y)
    assert set(search.best_params_) == set(grid)
    assert len(search.cv_results_["params"]) == 4
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_grid_search_reaches_the_source_inside_the_learner_of_the_classifier():
    X, y = _data()
    model = nearkin.RobustKNeighborsClassifier(nearkin.RobustODML(triplets=nearkin.OCTG(), random_state=0))
    grid = {"learner__triplets__n_centers": [1, 2], "n_neighbors": [1, 3]}
    search = GridSearchCV(model, grid, cv=3, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.8


def test_grid_search_takes_names_from_a_numpy_array():
    X, y = _data()
    grid = {"learner__scale": np.array(["pairs", "unit"]), "learner__loss": np.array(["hinge", "rescaled_hinge"])}
    model = nearkin.RobustKNeighborsClassifier(nearkin.LODML(random_state=0))
    search = GridSearchCV(model, grid, cv=3, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.8


@each(cls=LEARNERS)
def test_learner_is_a_step_of_a_pipeline(cls):
    X, y = _data()
    pipeline = make_pipeline(cls(random_state=0), KNeighborsClassifier(3))
    assert cross_val_score(pipeline, X, y, cv=3, error_score="raise").mean() > 0.8
