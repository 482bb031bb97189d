"""Evidence shows what decided: against slow, literal twins."""

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

import nearkin
from nearkin.errors import InputError
from nearkin.jury.jury import whole_percents
from nearkin.jury.voters import N_VOTING


@pytest.fixture(scope="module", params=["auto", "own", "fitted"])
def found(request):
    rng = np.random.default_rng(5)
    y = rng.permutation(np.arange(120) % 3)
    X = (3.0 * rng.normal(size=(3, 4)))[y] + 2.0 * rng.normal(size=(120, 4))
    given, _ = nearkin.flip_labels(y, 0.1, random_state=1)
    learner = {"auto": None, "own": nearkin.RobustODML(), "fitted": nearkin.LODML(random_state=0).fit(X, given)}
    return X, given, nearkin.audit_labels(X, given, learner[request.param], 0)


def literal_votes(audit, row):
    """Part of the jury's vote that each row casts on another one, voter by voter, by the definition of the votes."""
    jury, parts = audit.decision.jury, {}
    for voter, share in zip(jury.voters, jury.shares, strict=True):
        if not hasattr(voter, "neighbours"):
            continue
        bandwidth = jury.voters[0].bandwidth
        cast = np.exp(-np.arange(min(N_VOTING, 119)) / bandwidth) * audit.decision.heard[voter.among[row]]
        parts[voter.name] = dict(zip(voter.among[row].tolist(), (share * cast / cast.sum()).tolist(), strict=True))
    return parts


def test_every_neighbour_shown_is_among_the_nearest_of_a_voter_and_says_of_which(found):
    _, given, audit = found
    voters = [voter for voter in audit.decision.jury.voters if hasattr(voter, "among")]
    assert len(voters) == 2
    in_both = 0
    for row in (*audit.order[:12], *audit.order[-12:]):
        why = audit.evidence(int(row))
        assert len({one.row for one in why.neighbours}) == 5
        for one in why.neighbours:
            assert one.voters == tuple(v.name for v in voters if one.row in v.among[row][:5])
            assert one.voters and one.row != row
            assert one.label == given[one.row] and one.plausibility == audit.plausibility[one.row]
            in_both += len(one.voters) == 2
    assert 0 < in_both < 24 * 5  # the spaces differ, so this could fail


def test_neighbours_are_those_with_the_largest_parts_of_the_vote(found):
    _, _, audit = found
    for row in (*audit.order[:6], *audit.order[-6:]):
        parts = literal_votes(audit, row)
        candidates = {j for some in parts.values() for j in list(some)[:5]}
        total = {j: sum(some.get(j, 0.0) for some in parts.values()) for j in candidates}
        shown = audit.evidence(int(row)).neighbours
        np.testing.assert_allclose([one.share for one in shown], sorted(total.values(), reverse=True)[:5], rtol=1e-9)
        np.testing.assert_allclose([one.share for one in shown], [total[one.row] for one in shown], rtol=1e-9)


def test_opinions_are_the_votes_of_every_voter_and_sum_to_what_judged_the_label(found):
    _, _, audit = found
    names = audit.classes.tolist()
    for row in (*audit.order[:4], *audit.order[-4:]):
        why = audit.evidence(int(row))
        assert [one.voter for one in why.opinions] == [one.name for one in audit.decision.jury.voters]
        assert sum(one.share for one in why.opinions) == pytest.approx(1.0)
        votes = audit.classifier.left_out_votes([row])
        code = names.index(why.given_label)
        mixed = sum(one.share * one.for_given for one in why.opinions)
        assert mixed == pytest.approx(votes.total[0, code])
        expected = audit.decision.jury.left_out(audit.decision.heard)(np.array([row]))
        np.testing.assert_allclose(votes.total, expected, rtol=1e-12)


def test_whose_label_is_changed_changes_no_vote_about_itself(found):
    """The voters judge a row without its label."""
    X, given, audit = found
    row = int(audit.order[0])
    other = given.copy()
    other[row] = (given[row] + 1) % 3
    votes = nearkin.RobustKNeighborsClassifier(noise_rate=0.1, random_state=0)
    one, two = (votes.fit(X, labels).decision_.jury.voters[0] for labels in (given, other))
    np.testing.assert_array_equal(one.left_out(np.ones(120))([row]), two.left_out(np.ones(120))([row]))


def test_prototypes_belong_to_their_classes_and_are_typical_in_the_space_that_votes(found):
    X, given, audit = found
    mapped, kept = audit.classifier.embed(X), ~audit.is_suspect
    for row in (*audit.order[:3], *audit.order[-3:]):
        why = audit.evidence(int(row))
        for prototype, label in ((why.given, given[row]), (why.suggested, why.suggested.label)):
            members = np.flatnonzero(kept & (given == label))
            centre = mapped[members].mean(axis=0)
            assert prototype.label == label
            assert prototype.distance == pytest.approx(np.linalg.norm(mapped[row] - centre), rel=1e-5)
            assert prototype.row == members[np.linalg.norm(mapped[members] - centre, axis=1).argmin()]


def test_the_space_of_the_map_is_one_in_which_neighbours_vote(found):
    X, _, audit = found
    learned = audit.decision.jury.voters[1]
    mapped = audit.classifier.embed(X)
    rows = [one.rows for one in learned.spaces] if hasattr(learned, "spaces") else [learned.near._rows]
    ends = np.cumsum([0, *(one.shape[1] for one in rows)])
    for i, one in enumerate(rows):
        part = mapped[:, ends[i] : ends[i + 1]] * np.sqrt(len(rows))
        np.testing.assert_allclose(one, part - part.mean(axis=0), atol=1e-5)


def test_evidence_reads_like_a_sentence(found):
    _, given, audit = found
    row = int(audit.order[0])
    text = str(audit.evidence(row))
    assert f"row {row}" in text and "suggested" in text and repr(int(given[row])) in text
    assert all(voter.name in text for voter in audit.decision.jury.voters)


def test_rows_are_called_by_their_numbers_among_all_rows_or_by_their_names(rng):
    y = np.arange(120) % 2
    X = rng.normal(size=(120, 3)) + 4.0 * y[:, None]
    labels = y.astype(object)
    labels[7], labels[[3, 20]] = 1 - labels[7], None
    audit = nearkin.audit_labels(X, labels, random_state=0)
    row = int(np.flatnonzero(audit.numbers() == 7)[0])
    assert str(audit.evidence(row)).startswith("row 7: label") and audit.evidence(row).row == row == 6
    names = [f"bottle {i}" for i in range(120)]
    audit = nearkin.audit_labels(X, labels, random_state=0, names=names)
    why = audit.evidence(row)
    assert str(why).startswith("row bottle 7: label")
    near = why.neighbours[0].row
    assert why.called[near] == f"bottle {audit.numbers()[near]}" and f"(row {why.called[near]})" in str(why)
    assert "<td>bottle 7</td>" in audit._repr_html_()
    assert audit.to_columns()["id"][row] == "bottle 7" and "id" not in audit.to_columns({})


def test_names_may_be_a_column(rng):
    pandas = pytest.importorskip("pandas")
    y = np.arange(60) % 2
    frame = pandas.DataFrame(rng.normal(size=(60, 3)) + 4.0 * y[:, None], columns=["a", "b", "c"])
    frame = frame.assign(bottle=[f"b{i}" for i in range(60)], label=np.where(y, "red", "white"))
    audit = nearkin.audit_labels(frame, "label", random_state=0, names="bottle")
    assert audit.call_rows(np.array([3, 9])) == ["b3", "b9"] and audit.classifier.n_features_in_ == 3
    plain = frame[["a", "b", "c"]].to_numpy()
    for names, what in ((["x"], "60 rows; got 1"), ("bottle", "no columns")):
        with pytest.raises(InputError, match=what):
            nearkin.audit_labels(plain, y, random_state=0, names=names)


def test_rows_that_share_a_name_are_told_by_their_number(rng):
    y = np.arange(120) % 2
    X = rng.normal(size=(120, 3)) + 4.0 * y[:, None]
    labels = y.astype(object)
    labels[7], labels[[3, 20]] = 1 - labels[7], None
    names = [f"b{i}" for i in range(120)]
    names[7] = names[9] = names[11] = "C-1"
    audit = nearkin.audit_labels(X, labels, random_state=0, names=names)
    assert dict(audit.summary())["names"].startswith("3 rows share their names (such as 'C-1'); the files number rows")
    row = int(np.flatnonzero(audit.numbers() == 7)[0])
    assert str(audit.evidence(row)).startswith("row C-1 [7]: label")
    assert audit.call_rows(np.array([row, row + 1])) == ["C-1 [7]", "b8"]
    assert audit.to_columns()["id"][row] == "C-1" and audit.to_columns()["row"][row] == 7
    held = {
        "nearkin": "decisions", "format": 1, "audit": audit.fingerprint, "n_rows": 118,
        "decisions": [{"row": 7, "id": "C-1", "given": "0", "decision": "suggested", "label": "1"}],
    }  # fmt: skip
    assert np.flatnonzero(audit.apply(held).changed).tolist() == [row]
    unique = nearkin.audit_labels(X, labels, random_state=0, names=range(120))
    assert "names" not in dict(unique.summary())


def test_the_graph_is_what_scikit_learn_would_find(found):
    X, _, audit = found
    graph = audit.knn_graph(7)
    distances, index = NearestNeighbors(n_neighbors=7).fit(audit.classifier.embed(X)).kneighbors()
    assert np.array_equal(graph.indices.reshape(-1, 7), index)
    assert np.allclose(graph.data.reshape(-1, 7), distances)
    assert (np.diff(graph.data.reshape(-1, 7), axis=1) >= 0).all()
    assert graph.diagonal().sum() == 0
    for wrong in (0, 120, 2.5):
        with pytest.raises(ValueError, match="from 1 to 119"):
            audit.knn_graph(wrong)


def test_evidence_of_a_row_that_is_not_a_suspect_compares_its_label_with_the_best_other(found):
    _, given, audit = found
    row = int(np.flatnonzero(~audit.is_suspect)[0])
    why = audit.evidence(row)
    assert why.suggested_label == why.given_label == given[row] and not why.is_suspect
    assert why.suggested.label != given[row] and "not a suspect" in str(why)
    shares = audit.decision.left_out_shares(np.array([row]))[0]
    shares[audit.given_code[row]] = -1.0
    assert why.suggested.label == audit.classes[shares.argmax()]
    at = audit.classes.tolist().index(why.suggested.label)
    votes = audit.classifier.left_out_votes([row]).votes[:, 0, at]
    np.testing.assert_allclose([one.for_suggested for one in why.opinions], votes)


def test_printed_evidence_says_whose_vote_it_is_and_which_neighbours_are_doubted_themselves(found):
    _, _, audit = found
    marked = 0
    for row in audit.order[:30]:
        why = audit.evidence(int(row))
        lines = str(why).splitlines()
        for one in why.neighbours:
            assert one.is_suspect == audit.is_suspect[one.row] and one.voters
            line = next(line for line in lines if f"(row {one.row})" in line)
            assert all(voter in line for voter in one.voters)
            assert ("itself a suspect" in line) == one.is_suspect
            marked += one.is_suspect
    assert marked


def test_shares_of_voters_sum_to_a_hundred_as_shown(found):
    _, _, audit = found
    shown = dict(audit.summary())["voters"]
    assert sum(int(one.split()[-2]) for one in shown.split(", ")) == 100
    text = str(audit.evidence(0))
    assert sum(int(line.split("%")[0].split()[-1]) for line in text.splitlines()[3:8]) == 100


@pytest.mark.parametrize("shares", [[1.0], [1 / 3] * 3, [0.125] * 8, [0.004, 0.996], [0.335, 0.335, 0.33], [0.0, 1.0]])
def test_whole_percents_sum_to_a_hundred_and_lie_beside_the_shares(shares):
    found = whole_percents(shares)
    assert sum(found) == 100
    assert all(abs(one - 100 * share) < 1 for one, share in zip(found, shares, strict=True))


@pytest.mark.parametrize("rows", [[-1], [0, -1], [10**6]])
def test_positions_of_rows_follow_one_rule(found, rows):
    _, _, audit = found
    with pytest.raises(ValueError, match="from 0 to"):
        audit.classifier.left_out_votes(rows)
    with pytest.raises(ValueError, match="from 0 to"):
        audit.evidence(rows[-1])


def test_fewer_neighbours_are_the_first_of_more(found):
    X, _, audit = found
    model = audit.classifier
    parts, index = model.kneighbors(X[:40])
    for k in (1, 3, 10, 40, 60, 100):
        fewer = model.kneighbors(X[:40], k)
        n = min(k, index.shape[1])
        np.testing.assert_array_equal(fewer[1][:, :n], index[:, :n])
        np.testing.assert_allclose(fewer[0][:, :n], parts[:, :n])
        assert (np.diff(fewer[0], axis=1) <= 1e-12).all()
        assert all(len(set(one)) == min(k, 60) for one in fewer[1].tolist())
