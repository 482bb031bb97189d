"""Votes from outside: given probabilities, classifiers of one's own, and groups, through the public functions."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.svm import LinearSVC

import nearkin
from nearkin.errors import InputError
from nearkin.jury import Groups
from nearkin.jury.outside import check_probabilities, cross_fit, split_groups


@pytest.fixture
def noisy(blobs, rng):
    """Rows of three classes that overlap, some labels wrong."""
    X, y = blobs(n=90, d=4, spread=0.9)
    return X, np.where(rng.random(90) < 0.2, rng.integers(0, 3, 90), y), y


def test_given_probabilities_vote_on_training_rows_and_abstain_on_new_ones(noisy):
    X, given, y = noisy
    knows = np.full((90, 3), 0.1)
    knows[np.arange(90), y] = 0.8  # a model that knows the truth
    plain = nearkin.audit_labels(X, given, random_state=0)
    helped = nearkin.audit_labels(X, given, random_state=0, pred_probs=knows)
    model = helped.classifier
    said = model.left_out_votes()
    assert said.voters[-1] == "pred_probs"
    np.testing.assert_allclose(said.votes[-1], knows)
    assert said.shares[-1] > 0.3
    is_wrong = given != y
    assert (helped.score[is_wrong] < 0.5).mean() > max(0.9, (plain.score[is_wrong] < 0.5).mean())
    new = model.votes(X[:5])
    assert "pred_probs" not in new.voters
    np.testing.assert_allclose(new.shares.sum(), 1.0)
    np.testing.assert_allclose(new.total.sum(axis=1), 1.0)
    np.testing.assert_allclose(model.predict_proba(X[:5]).sum(axis=1), 1.0)


def test_probabilities_of_a_model_that_has_seen_the_labels_are_noted(noisy):
    X, given, _ = noisy
    seen = np.eye(3)[given] * 0.7 + 0.1
    notes = nearkin.audit_labels(X, given, random_state=0, pred_probs=seen).notes
    assert any("probabilities agree with 100 % of the labels" in one for one in notes)
    fair = np.full((90, 3), 1 / 3)
    assert not any(
        "probabilities" in one for one in nearkin.audit_labels(X, given, random_state=0, pred_probs=fair).notes
    )


def test_any_classifier_may_vote_and_a_file_keeps_what_it_said(noisy, tmp_path):
    X, given, _ = noisy
    voters = [LogisticRegression(), RidgeClassifier()]
    auditor = nearkin.LabelAuditor(voters=voters, random_state=0).fit(X, given)
    assert clone(auditor).voters[0] is not voters[0]
    model = auditor.audit_.classifier
    names = ("LogisticRegression (1)", "RidgeClassifier (2)")
    assert model.votes(X[:3]).voters[-2:] == names
    said = model.left_out_votes()
    with pytest.warns(UserWarning, match="cannot stand in a file"):
        nearkin.save(auditor, tmp_path / "auditor.nearkin")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = nearkin.load(tmp_path / "auditor.nearkin")
        nearkin.save(again, tmp_path / "again.nearkin")
    np.testing.assert_array_equal(again.audit_.classifier.left_out_votes().votes, said.votes)
    assert again.audit_.classifier.votes(X[:3]).voters == said.voters[:-2]
    assert again.predict(X[:3]).shape == (3,)


def test_a_model_has_not_seen_the_groups_it_judges(noisy):
    X, given, _ = noisy
    group = np.arange(90) // 3
    voter = cross_fit(RandomForestClassifier(10, random_state=0), "mine", X, given, 3, Groups(group))
    part = split_groups(given, Groups(group), 5)
    assert all(len(set(part[group == one])) == 1 for one in range(30))
    own, other = part == part[0], part != part[0]
    expected = RandomForestClassifier(10, random_state=0).fit(X[other], given[other]).predict_proba(X[own])
    np.testing.assert_array_equal(voter.left_out(np.ones(90))(own), expected)


def test_members_of_groups_do_not_vouch_for_each_other(rng):
    """Each group is a tight heap with one label, which is all that speaks for it."""
    centres = np.repeat([[-2.0, 0.0], [2.0, 0.0]], 30, axis=0) + rng.normal(size=(60, 2))
    truth = np.repeat(["a", "b"], 30)
    label = truth.copy()
    label[[3, 40]] = ["b", "a"]
    X = np.repeat(centres, 6, axis=0) + 0.3 * rng.normal(size=(360, 2))
    y, groups = np.repeat(label, 6), np.repeat(np.arange(60), 6).astype(str)
    is_wrong = y != np.repeat(truth, 6)
    found = nearkin.audit_labels(X, y, random_state=0, groups=groups.tolist())
    assert (found.score[is_wrong] < 0.5).mean() > 0.9
    among = found.decision.jury.voters[0].among
    assert (groups[among] != groups[:, None]).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"groups": [1, 2]}, "X has 90 rows but `groups` has 2"),
        ({"groups": [1.0, np.nan] * 45}, "`groups` holds .*nan.* at row 1"),
        ({"groups": ["a"] * 90}, "all rows are in one group"),
        ({"pred_probs": np.ones((90, 2)) / 2}, "columns in the order of the sorted classes: 0, 1, 2"),
        ({"pred_probs": np.ones((90, 3))}, "row 0 sum to 3"),
        ({"pred_probs": np.full((90, 3), np.nan)}, "in row 0; not probabilities"),
        ({"pred_probs": "abc"}, "`pred_probs` must be numbers"),
        ({"voters": LogisticRegression()}, "must be a list of scikit-learn classifiers"),
        ({"voters": [LogisticRegression]}, "is not one"),
        ({"voters": [LinearSVC(C=-1.0)]}, "LinearSVC in `voters` could not be fitted"),
    ],
)
def test_what_cannot_vote_is_refused_by_name(given, message, noisy):
    X, y, _ = noisy
    with pytest.raises(InputError, match=message) as caught:
        nearkin.audit_labels(X, y, random_state=0, **given)
    assert "audit_labels" in str(caught.value)


def test_settled_voters_and_neighbours_alone_take_nothing_from_outside(noisy):
    X, y, _ = noisy
    fitted = nearkin.RobustKNeighborsClassifier(random_state=0).fit(X, y)
    with pytest.raises(InputError, match="settled; give `groups` to the classifier"):
        nearkin.audit_labels(X, y, fitted, groups=np.arange(90))
    with pytest.raises(InputError, match="`groups` needs a jury"):
        nearkin.RobustKNeighborsClassifier(n_neighbors=3).fit(X, y, groups=np.arange(90))


def test_probabilities_in_a_frame_go_by_the_names_of_its_columns():
    pd = pytest.importorskip("pandas")
    votes = np.random.default_rng(0).dirichlet(np.ones(3), 4)
    classes = ["a", "b", "c"]
    expected = check_probabilities(votes, 4, classes, "here")
    turned = pd.DataFrame(votes, columns=classes)[["c", "a", "b"]]
    np.testing.assert_array_equal(check_probabilities(turned, 4, classes, "here"), expected)
    np.testing.assert_array_equal(check_probabilities(pd.DataFrame(votes), 4, classes, "here"), expected)
    with pytest.raises(InputError, match="columns of `pred_probs` are 'a', 'b', 'x'"):
        check_probabilities(pd.DataFrame(votes, columns=["a", "b", "x"]), 4, classes, "here")


def test_groups_that_are_the_classes_are_refused():
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 3
    with pytest.raises(InputError, match="every class lies in one group"):
        nearkin.audit_labels(X, y, groups=y)
