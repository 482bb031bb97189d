"""Evidence against slow, literal twins."""

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

import nearkin


@pytest.fixture(scope="module", params=["auto", "several centres", "no centres"])
def found(request):
    rng = np.random.default_rng(5)
    y = rng.permutation(np.arange(120) % 3)
    X = (3.0 * rng.normal(size=(3, 4)))[y] + rng.normal(size=(120, 4))
    given, _ = nearkin.flip_labels(y, 0.1, random_state=1)
    learner = {
        "auto": None,
        "several centres": nearkin.RobustLODML(triplets=nearkin.OCTG(n_centers=2)),
        "no centres": nearkin.RobustLODML(triplets="one_pass"),
    }[request.param]
    return X, given, nearkin.audit_labels(X, given, learner, 0)


def test_neighbours_are_the_nearest_plausible_rows(found):
    X, given, audit = found
    mapped = audit.classifier.learner_.transform(X)
    kept = np.flatnonzero(~audit.is_suspect)
    for row in (*audit.order[:4], *audit.order[-4:]):
        distance = np.linalg.norm(mapped[kept] - mapped[row], axis=1)
        distance[kept == row] = np.inf
        nearest = kept[np.argsort(distance, kind="stable")[:5]]
        why = audit.evidence(int(row))
        assert [one.row for one in why.neighbours] == nearest.tolist()
        assert [one.label for one in why.neighbours] == given[nearest].tolist()
        assert np.allclose([one.distance for one in why.neighbours], np.sort(distance)[:5])
        assert [one.plausibility for one in why.neighbours] == audit.plausibility[nearest].tolist()


def test_prototypes_belong_to_their_classes_and_are_the_nearest(found):
    X, given, audit = found
    learner = audit.classifier.learner_
    mapped = learner.transform(X)
    kept = ~audit.is_suspect
    source = learner.triplet_source_
    for row in (*audit.order[:3], *audit.order[-3:]):
        why = audit.evidence(int(row))
        for prototype, label in ((why.given, given[row]), (why.suggested, audit.suggested_label[row])):
            assert prototype.label == label == given[prototype.row]
            assert kept[prototype.row]
            if hasattr(source, "centers_"):
                code = learner.state_.labels.codes[label]
                centers = source.centers_[source.center_codes_ == code] @ learner.components_.T
            else:
                centers = mapped[kept & (given == label)].mean(axis=0, keepdims=True)
            distance = np.linalg.norm(centers - mapped[row], axis=1)
            assert prototype.distance == pytest.approx(distance.min())
            members = np.flatnonzero(kept & (given == label))
            there = np.linalg.norm(mapped[members] - centers[distance.argmin()], axis=1)
            assert prototype.row == members[there.argmin()]


def test_the_costliest_triplet_has_the_weight_that_the_learner_gives_the_row(found):
    X, given, audit = found
    learner = audit.classifier.learner_
    if not hasattr(learner.triplet_source_, "centers_"):
        return
    for row in audit.order[:5]:
        why = audit.evidence(int(row))
        assert why.triplet is not None
        expected = learner.plausibility(X[[row]], given[[row]])[0]
        assert why.triplet.weight == pytest.approx(expected)
        assert why.triplet.positive.label == given[row] != why.triplet.negative.label
        assert why.triplet.loss > 0
    inside = audit.order[np.argmax(learner.plausibility(X, given)[audit.order] == 1.0)]
    assert audit.evidence(int(inside)).triplet is None


def test_a_learner_that_saw_only_triplets_has_no_costliest_one():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = 3 * np.eye(2)[y] + rng.normal(size=(60, 2))
    learner = nearkin.LODML(random_state=0).fit(X, y)
    audit = nearkin.audit_labels(X, y, learner)
    assert str(audit.evidence(0)).startswith("row 0: label")


def test_evidence_reads_like_a_sentence(found):
    _, given, audit = found
    row = int(audit.order[0])
    text = str(audit.evidence(row))
    assert f"row {row}" in text and "suggested" in text and repr(int(given[row])) in text


def test_the_graph_is_what_scikit_learn_would_find(found):
    X, _, audit = found
    graph = audit.knn_graph(7)
    mapped = audit.classifier.learner_.transform(X)
    distances, index = NearestNeighbors(n_neighbors=7).fit(mapped).kneighbors()
    assert np.array_equal(graph.indices.reshape(-1, 7), index)
    assert np.allclose(graph.data.reshape(-1, 7), distances)
    assert (np.diff(graph.data.reshape(-1, 7), axis=1) >= 0).all()
    assert graph.diagonal().sum() == 0
    for wrong in (0, 120, 2.5):
        with pytest.raises(ValueError, match="from 1 to 119"):
            audit.knn_graph(wrong)
