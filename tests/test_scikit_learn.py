"""How estimators meet the rest of scikit-learn: output as frames, and metadata on its way to them."""

import numpy as np
import pytest
import sklearn
from sklearn.datasets import load_iris
from sklearn.model_selection import GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import nearkin
from each import each
from nearkin.neighbors import RobustKNeighborsClassifier

TRANSFORMERS = (nearkin.RobustLODML(random_state=0), nearkin.RobustODML(random_state=0), nearkin.Euclidean())


@each(learner=TRANSFORMERS, kind=["pandas", "polars"])
def test_output_is_a_frame_where_it_was_asked_for(learner, kind):
    frames = pytest.importorskip(kind)
    X, y = load_iris(return_X_y=True)
    model = sklearn.base.clone(learner).set_output(transform=kind).fit(X, y)
    found = model.transform(X)
    assert isinstance(found, frames.DataFrame)
    assert list(found.columns) == model.get_feature_names_out().tolist()
    np.testing.assert_array_equal(found.to_numpy(), sklearn.base.clone(learner).fit(X, y).transform(X))


def test_groups_reach_the_classifier_through_pipeline_and_cross_validation(monkeypatch):
    X, y = load_iris(return_X_y=True)
    groups = np.arange(150) % 30
    seen = []
    number = RobustKNeighborsClassifier._number_groups

    def note(self, groups, codes):
        seen.append(groups)
        return number(self, groups, codes)

    monkeypatch.setattr(RobustKNeighborsClassifier, "_number_groups", note)
    with sklearn.config_context(enable_metadata_routing=True):
        model = nearkin.RobustKNeighborsClassifier(random_state=0).set_fit_request(groups=True)
        found = cross_validate(
            make_pipeline(StandardScaler(), model),
            X,
            y,
            params={"groups": groups},
            cv=GroupKFold(3),
            error_score="raise",
        )
    assert found["test_score"].mean() > 0.9
    assert [len(one) for one in seen] == [100, 100, 100]
    for one in seen:
        assert set(np.bincount(one)) <= {0, 5}  # whole groups are in or out


def test_weights_count_in_the_score():
    X, y = load_iris(return_X_y=True)
    labels = np.where(np.arange(150) < 10, 2, y)
    with sklearn.config_context(enable_metadata_routing=True):
        model = nearkin.RobustKNeighborsClassifier(n_neighbors=3, random_state=0).set_score_request(sample_weight=True)
        weighted = cross_validate(model, X, labels, params={"sample_weight": (np.arange(150) >= 10) * 1.0}, cv=3)
    plain = cross_validate(nearkin.RobustKNeighborsClassifier(n_neighbors=3, random_state=0), X, labels, cv=3)
    assert weighted["test_score"].mean() > plain["test_score"].mean()


def test_metadata_that_nobody_asked_for_is_refused():
    X, y = load_iris(return_X_y=True)
    model = nearkin.RobustKNeighborsClassifier(n_neighbors=3)
    with sklearn.config_context(enable_metadata_routing=True), pytest.raises(ValueError, match="sample_weight"):
        cross_validate(model, X, y, params={"sample_weight": np.ones(150)}, error_score="raise")
