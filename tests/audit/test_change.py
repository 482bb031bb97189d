"""What changed between two audits: rows are matched by place, by features or by names."""

import numpy as np
import pandas as pd
import pytest

import nearkin
from nearkin.audit import compare
from nearkin.errors import InputError


@pytest.fixture(scope="module")
def made():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(240) % 3)
    X = (2.0 * rng.normal(size=(3, 5)))[y] + rng.normal(size=(240, 5))
    given, is_wrong = nearkin.flip_labels(y, 0.15, random_state=0)
    return X, y, given, is_wrong, nearkin.audit_labels(X, given, random_state=0)


def literal_change(before, after, pairs):
    """Sets of rows, pair by pair; rows count as the audits count them."""
    old, new = before.numbers(), after.numbers()
    there = {i for i, _ in pairs}, {j for _, j in pairs}
    was = {j for i, j in pairs if before.is_suspect[i]}
    now = set(np.flatnonzero(after.is_suspect).tolist())
    return {
        "dropped": {int(old[i]) for i in range(before.n_rows) if i not in there[0]},
        "added": {int(new[j]) for j in range(after.n_rows) if j not in there[1]},
        "relabelled": {int(old[i]) for i, j in pairs if before.given_label[i] != after.given_label[j]},
        "resolved": {int(old[i]) for i, j in pairs if before.is_suspect[i] and not after.is_suspect[j]},
        "remaining": {int(new[j]) for j in now & was},
        "new": {int(new[j]) for j in now - was},
    }


def check_change(found, before, after, pairs):
    for name, rows in literal_change(before, after, pairs).items():
        assert set(getattr(found, name).tolist()) == rows, name
    assert found.n_common == len(pairs) and (found.n_before, found.n_after) == (before.n_rows, after.n_rows)


def test_mended_labels_are_compared_by_place(made):
    X, _, given, _, before = made
    mended = np.where(before.is_wrong, before.suggested_label, given)
    mended[7] = (given[7] + 1) % 3  # a slip
    after = nearkin.audit_labels(X, mended, random_state=0)
    found = compare(before, after)
    check_change(found, before, after, [(i, i) for i in range(240)])
    assert found.n_as_suggested == int(before.is_wrong.sum()) > 20 and len(found.resolved) > 15
    assert found.noise_rate[1] < found.noise_rate[0]
    assert f"relabelled    {len(found.relabelled)}, {found.n_as_suggested} of them as suggested" in str(found)


def test_dropped_and_shuffled_rows_are_known_by_their_features(made):
    X, _, given, _, before = made
    kept = np.random.default_rng(1).permutation(np.flatnonzero(~before.is_wrong))
    X_after = np.vstack([X[kept], X[:3] + 50.0])
    after = nearkin.audit_labels(X_after, np.append(given[kept], given[:3]), random_state=0)
    check_change(compare(before, after), before, after, [(int(i), j) for j, i in enumerate(kept)])
    order = np.random.default_rng(2).permutation(240)
    after = nearkin.audit_labels(X[order], given[order], random_state=0)
    check_change(compare(before, after), before, after, [(int(i), j) for j, i in enumerate(order)])


def test_equal_rows_are_matched_one_by_one():
    X, y = np.repeat(np.arange(30.0), 2)[:, None] + np.arange(60)[:, None] % 2 * 0.0, np.repeat([0, 1], 30)
    before = nearkin.audit_labels(X, y, random_state=0)
    after = nearkin.audit_labels(X[1:], y[1:], random_state=0)
    found = compare(before, after)
    assert (found.n_common, len(found.added), found.dropped.tolist()) == (59, 0, [1])


def test_names_decide_where_they_are_given(made):
    X, _, given, _, before = made
    names = [f"r{i}" for i in range(240)]
    kept = np.arange(239, 9, -1)
    labels = given[kept].astype(object)
    labels[:5] = None  # these are not audited, but names are those of all rows
    after = nearkin.audit_labels(10.0 * X[kept] + 1.0, labels, random_state=0)
    found = compare(before, after, ids=(names, [names[i] for i in kept]))
    check_change(found, before, after, [(int(i), j) for j, i in enumerate(kept[5:])])
    assert compare(before, after, ids=(names, [names[i] for i in kept[5:]])).n_common == 225


def test_what_cannot_be_matched_is_refused(made):
    X, _, given, _, before = made
    after = nearkin.audit_labels(X[:200] + 1.0, given[:200], random_state=0)
    with pytest.raises(InputError, match=r"0 have the same features.*ids=\(before, after\)"):
        compare(before, after)
    with pytest.raises(InputError, match="got 3"):
        compare(before, before, ids=(range(3), range(240)))


def test_rows_that_share_a_name_go_by_their_features(made):
    X, _, given, _, before = made
    names = [f"c{i}" for i in range(240)]
    names[3:6] = ["twice"] * 3
    X = X.copy()
    X[5] = X[4]  # equal rows of one name, whose labels differ
    given = given.copy()
    given[4], given[5] = 0, 1
    before = nearkin.audit_labels(X, given, random_state=0)
    kept = np.delete(np.arange(240), [4, 100])[::-1]  # one of the equal rows, and one with its own name
    moved = X[kept] + np.where(np.isin(kept, [3, 4, 5])[:, None], 0.0, 1.0)
    called = [names[i] for i in kept]
    called[called.index("c50")] = "c51"  # unique before, twice now, and its features moved
    after = nearkin.audit_labels(moved, given[kept], random_state=0)
    found = compare(before, after, ids=(names, called))
    pairs = [(int(i), j) for j, i in enumerate(kept) if i not in (50, 51)]
    check_change(found, before, after, pairs)
    assert found.matched == {"by name": 234, "by features under a repeated name": 2}
    assert len(found.relabelled) == 0  # row 5 is row 5, not the equal one that was dropped
    assert "matched       234 by name, 2 by features under a repeated name" in str(found)


def test_features_that_are_coded_alike_can_be_compared():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    frame = pd.DataFrame(
        {"size": rng.normal(size=120) + 3 * y, "kind": np.array(["red", "blue", "green"])[y + 1 - y % 2]}
    )
    frame["kind"] = np.where(rng.random(120) < 0.2, "red", frame["kind"])
    before = nearkin.audit_labels(frame, y, random_state=0)
    kept = np.arange(10, 120)
    fewer = frame.iloc[kept].reset_index(drop=True)
    found = compare(before, nearkin.audit_labels(fewer, y[kept], random_state=0))
    assert found.matched == {"by features": 110} and found.dropped.tolist() == list(range(10))
    fewer["kind"] = fewer["kind"].replace("red", "pink")  # as many features, of other meaning
    after = nearkin.audit_labels(fewer, y[kept], random_state=0)
    with pytest.raises(InputError, match="0 have the same features"):
        compare(before, after)
