"""More rows than vote: who votes, and that the others are judged by the same votes as new rows."""

import numpy as np
import pytest

import nearkin
from nearkin.jury import decision as decision_of
from nearkin.jury import judged as judged_of
from nearkin.jury.judged import choose_members


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(judged_of, "MOST_MEMBERS", 200)
    monkeypatch.setattr(judged_of, "_AT_ONCE", 64)


@pytest.fixture
def data(rng):
    y = np.arange(500) % 3
    X = (3.0 * rng.normal(size=(3, 4)))[y] + rng.normal(size=(500, 4))
    return X, *nearkin.flip_labels(y, 0.1, random_state=0)


def test_members_are_as_many_as_allowed_with_some_of_every_class(few):
    codes = np.repeat([0, 1, 2], [900, 60, 10])
    members = choose_members(codes, 3)
    counts = np.bincount(codes[members])
    assert len(members) <= 200 and counts[2] == 10 and 30 <= counts[1] < 60
    assert choose_members(codes[:200], 3) is None
    np.testing.assert_array_equal(members, choose_members(codes, 3))


def test_members_of_a_group_are_chosen_together(few):
    groups = np.arange(600) // 3
    members = choose_members(np.arange(600) // 3 % 2, 2, groups)
    assert 100 < len(members) <= 200 and (np.bincount(groups[members])[np.unique(groups[members])] == 3).all()


def test_all_rows_are_judged_and_wrong_labels_found(few, data, tmp_path):
    X, noisy, is_wrong = data
    audit = nearkin.audit_labels(X, noisy, random_state=0)
    decision = audit.decision
    members = decision.judged.members
    assert len(members) <= 200 and len(decision.heard) == len(members) and audit.n_rows == 500
    others = np.setdiff1d(np.arange(500), members)
    assert is_wrong[others][audit.is_suspect[others]].mean() > 0.8
    model = audit.classifier
    scaled = model._ready(X).astype(np.float32)
    expected = decision.jury.answers(scaled[others], decision.heard)
    np.testing.assert_allclose(decision.left_out_shares(others), decision.noise.lift_zeros(expected), atol=1e-6)
    mixed = np.array([others[3], members[5], others[0]])
    votes = model.left_out_votes(mixed)
    np.testing.assert_allclose(votes.total[[0, 2]], expected[[3, 0]], atol=1e-6)
    inside = decision.jury.poll_left_out(np.array([5]), decision.heard, decision.classes)
    np.testing.assert_allclose(votes.votes[:, 1], inside.votes[:, 0], atol=1e-6)
    assert np.isin(model.kneighbors(X[:9])[1], members).all()
    why = audit.evidence(int(others[np.argmin(audit.score[others])]))
    assert {one.row for one in why.neighbours} <= set(members.tolist())
    again = audit_again(model, tmp_path)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.left_out_votes(mixed).votes, votes.votes)


def audit_again(model, folder):
    nearkin.save(model, folder / "model.nearkin")
    return nearkin.load(folder / "model.nearkin")


def test_seeds_and_threads_do_not_change_what_is_found(few, data):
    from threadpoolctl import threadpool_limits

    X, noisy, _ = data
    found = []
    for n_threads in (1, 3):
        with threadpool_limits(n_threads, user_api="blas"):
            found.append(nearkin.audit_labels(X, noisy, random_state=0).score)
    np.testing.assert_array_equal(*found)


def test_the_jury_of_many_rows_has_at_most_so_many_members():
    assert decision_of.choose_members(np.arange(70_000) % 2, 2).shape[0] <= judged_of.MOST_MEMBERS == 49_152
