"""The audit itself: what it finds, what its parts mean, and that they fit together."""

import datetime
import json
import re
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import nearkin
from nearkin.audit.exports import warn_of
from nearkin.errors import InputError
from nearkin.noise import suggest_labels


@pytest.fixture(scope="module")
def noisy():
    """Four clouds with a sixth of the labels wrong: rows, labels, right labels, which are wrong."""
    rng = np.random.default_rng(3)
    y = rng.permutation(np.arange(300) % 4)
    X = (2.5 * rng.normal(size=(4, 6)))[y] + rng.normal(size=(300, 6))
    given, is_wrong = nearkin.flip_labels(y, 1 / 6, random_state=1)
    return X, given, y, is_wrong


@pytest.fixture(scope="module")
def audit(noisy):
    return nearkin.audit_labels(noisy[0], noisy[1], random_state=0)


def test_wrong_labels_are_found_and_right_ones_suggested(audit, noisy):
    _, _, y, is_wrong = noisy
    assert roc_auc_score(is_wrong, -audit.score) > 0.97
    assert roc_auc_score(is_wrong, -audit.plausibility) > 0.97
    assert is_wrong[audit.is_suspect].mean() > 0.85
    assert audit.is_suspect[is_wrong].mean() > 0.6
    assert (audit.suggested_label == y)[audit.is_suspect].mean() > 0.85
    assert audit.noise_interval[0] <= is_wrong.mean() <= audit.noise_interval[1]


def test_parts_have_the_shapes_and_ranges_they_promise(audit, noisy):
    n = len(noisy[1])
    for one in (audit.plausibility, audit.score, audit.is_suspect, audit.suggested_label, audit.confidence):
        assert one.shape == (n,)
    assert (audit.plausibility > 0).all() and (audit.plausibility <= 1).all()
    assert (audit.score >= 0).all() and (audit.score <= 1).all()
    assert (audit.confidence >= 0).all() and (audit.confidence <= 1).all()
    assert audit.is_suspect.dtype == bool
    assert audit.n_rows == n and audit.n_suspects == audit.is_suspect.sum()
    low, high = audit.noise_interval
    assert 0 <= low <= audit.noise_rate <= high <= 1


def test_the_audit_and_the_classifier_are_one_mechanism(audit, noisy):
    X, given, _, _ = noisy
    model = nearkin.RobustKNeighborsClassifier(n_neighbors="auto", random_state=0).fit(X, given)
    assert np.array_equal(audit.plausibility, model.plausibility_)
    assert np.array_equal(audit.is_suspect, model.decision_.is_suspect)
    assert np.array_equal(np.flatnonzero(~audit.is_wrong), model.kept_)
    assert audit.noise_rate == model.noise_rate_
    again = nearkin.audit_labels(X, given, model)
    assert again.classifier is model
    assert np.array_equal(again.confidence, audit.confidence)
    assert np.array_equal(again.suggested_label, audit.suggested_label)


def test_only_suspects_have_another_label_suggested(audit, noisy):
    given = noisy[1]
    assert np.array_equal(audit.suggested_label != given, audit.is_suspect)
    kept = ~audit.is_suspect
    assert np.array_equal(audit.confidence[kept], audit.plausibility[kept])
    # Given and suggested label are two of the possible truths.
    assert (audit.confidence + audit.plausibility)[audit.is_suspect].max() <= 1 + 1e-12


def test_the_order_begins_with_wrong_labels_and_goes_on_with_those_worth_a_look(audit):
    order = audit.order
    assert np.array_equal(np.sort(order), np.arange(audit.n_rows))
    assert audit.tier[order].tolist() == (
        ["wrong"] * audit.n_wrong + ["look"] * (audit.n_suspects - audit.n_wrong) + [""] * (~audit.is_suspect).sum()
    )
    for one in (order[: audit.n_wrong], order[audit.n_wrong : audit.n_suspects]):
        assert (np.diff(audit.score[one]) >= 0).all()


def test_suspects_come_in_two_tiers(audit, noisy):
    is_wrong, look = noisy[3], audit.is_suspect & ~audit.is_wrong
    assert 0 < audit.n_wrong < audit.n_suspects and not (audit.is_wrong & ~audit.is_suspect).any()
    assert is_wrong[audit.is_wrong].mean() > 0.9
    assert dict(audit.summary())["suspects"] == f"{audit.n_wrong} wrong, {look.sum()} worth a look"
    for tier, words in ((audit.is_wrong, "probably wrong"), (look, "worth a look")):
        assert f"  {words}: suggested" in str(audit.evidence(int(np.flatnonzero(tier)[0])))
    by_class = audit.doubt_by_class()
    assert [sum(column) for column in list(zip(*by_class, strict=True))[1:]] == [300, audit.n_wrong, look.sum()]


def test_no_suspect_is_certainly_right_and_no_rate_of_zero_stands_without_a_word(rng):
    y = np.repeat([0, 1], [300, 300])
    X = rng.normal(size=(600, 3)) + 3.0 * y[:, None] * [1.0, 0.0, 0.0]
    off = np.abs(X[:, 0] - 1.5)
    given = y.copy()  # wrong labels beside the border only, where nobody is certain
    wrong = rng.permutation(np.flatnonzero((off > 0.5) & (off < 1.2)))[:50]
    given[wrong] = 1 - y[wrong]
    found = nearkin.audit_labels(X, given, random_state=0)
    assert found.is_suspect[wrong].mean() > 0.5
    assert found.plausibility[found.is_suspect].max() < 1.0 and found.plausibility.std() > 0.01
    assert found.noise_interval[1] > 50 / 600 and found.notes


def test_the_noise_matrix_counts_every_row_once(audit, noisy):
    given = noisy[1]
    matrix = audit.noise_matrix
    assert np.array_equal(matrix.sum(axis=1), np.bincount(given))
    literal = np.zeros((4, 4), dtype=int)
    for one, other in zip(given, audit.suggested_label, strict=True):
        literal[one, other] += 1
    assert np.array_equal(matrix, literal)
    pairs = audit.noise_pairs()
    assert {(a, b): n for a, b, n in pairs} == {
        (a, b): int(matrix[a, b]) for a in range(4) for b in range(4) if a != b and matrix[a, b]
    }
    assert [n for _, _, n in pairs] == sorted((n for _, _, n in pairs), reverse=True)


def test_a_suggestion_is_bayes_rule_under_uniform_noise(rng):
    n, k, rate = 40, 5, 0.3
    shares = rng.dirichlet(np.ones(k), size=n)
    codes = rng.integers(0, k, n)
    transition = np.full((k, k), rate / (k - 1)) + (1 - rate - rate / (k - 1)) * np.eye(k)
    literal = shares * transition[:, codes].T
    literal /= literal.sum(axis=1, keepdims=True)
    plausibility = literal[np.arange(n), codes]
    best, confidence = suggest_labels(lambda rows: shares[rows], codes, plausibility, np.ones(n, dtype=bool), k)
    literal[np.arange(n), codes] = -1
    assert np.array_equal(best, literal.argmax(axis=1))
    assert np.allclose(confidence, literal.max(axis=1))


def test_a_suggestion_without_any_vote_for_it_is_still_another_class():
    best, confidence = suggest_labels(
        lambda rows: np.array([[0.0, 0.0, 1.0]]), np.array([2]), np.array([0.4]), np.array([True]), 3
    )
    assert best[0] != 2
    assert confidence[0] == pytest.approx(0.3)


@pytest.mark.parametrize(
    "names",
    [
        ["a", "b", "c", "d"],
        [10, 20, 30, 40],
        [0.0, 1.0, 2.0, 3.0],
        [(0, "x"), (1, "y"), (2, "z"), (3, "w")],
        [datetime.date(2020, 1, day) for day in (1, 2, 3, 4)],
        ["<b>", "<i>", "ab\u202ecd", "é"],
    ],
    ids=["text", "numbers", "floats", "tuples", "dates", "hostile"],
)
def test_labels_of_any_kind_give_the_same_audit(audit, noisy, names):
    names = sorted(names)
    labels = [names[code] for code in noisy[1]]
    other = nearkin.audit_labels(noisy[0], labels, random_state=0)
    assert np.array_equal(other.plausibility, audit.plausibility)
    assert list(other.suggested_label) == [names[code] for code in audit.suggested_label]
    assert other.evidence(0).given_label == labels[0]


def test_two_kinds_of_labels_may_be_mixed(noisy):
    X, given, _, _ = noisy
    names = [1, "1", None.__class__, ("a",)]
    with pytest.warns(UserWarning, match=r"the labels .1. and 1 look the same|the labels 1 and .1. look the same"):
        other = nearkin.audit_labels(X, [names[code] for code in given], random_state=0)
    assert set(other.suggested_label.tolist()) <= set(names)
    assert other.n_suspects > 20


def test_the_same_seed_gives_the_same_bits(audit, noisy):
    again = nearkin.audit_labels(noisy[0], noisy[1], random_state=0)
    assert np.array_equal(again.score, audit.score)
    assert np.array_equal(again.confidence, audit.confidence)


def shown(evidence):
    """What does not depend on the order in which numbers lie in memory."""
    return str(evidence), [one.row for one in evidence.neighbours], evidence.given.row, evidence.suggested.row


def test_frames_are_audited_as_arrays_are(audit, noisy):
    X, given, _, _ = noisy
    columns = [f"feature {i}" for i in range(6)]  # what those of arrays are called
    frame = pd.DataFrame(X, columns=columns, index=np.arange(len(X)) + 1000)
    found = nearkin.audit_labels(frame, pd.Series(given), random_state=0)
    assert np.array_equal(found.score, audit.score)
    assert found.to_frame().index.equals(frame.index)
    assert shown(found.evidence(3)) == shown(audit.evidence(3))
    other = nearkin.audit_labels(pl.DataFrame(X, schema=columns), given.tolist(), random_state=0)
    assert np.array_equal(other.score, audit.score)
    assert shown(other.evidence(3)) == shown(audit.evidence(3))
    listed = nearkin.audit_labels(X.tolist(), given.tolist(), random_state=0)
    assert shown(listed.evidence(3)) == shown(audit.evidence(3))


def test_a_given_rate_says_how_many_suspects_there_are(noisy):
    found = nearkin.audit_labels(noisy[0], noisy[1], random_state=0, noise_rate=0.1)
    assert found.n_suspects == 30
    assert found.noise_interval == (0.1, 0.1)
    assert not found.rate_is_estimated
    none = nearkin.audit_labels(noisy[0], noisy[1], random_state=0, noise_rate=0.0)
    assert none.n_suspects == 0 and none.noise_pairs() == []
    assert "none" in dict(none.summary())["confused"]


# ---------------------------------------------------------------------- learners and pipelines


def test_a_fitted_learner_is_used_as_it_is(noisy):
    X, given, _, is_wrong = noisy
    learner = nearkin.RobustODML(random_state=0).fit(X, given)
    before = learner.metric_.copy()
    found = nearkin.audit_labels(X, given, learner)
    assert found.classifier.learner_ is learner
    assert np.array_equal(learner.metric_, before)
    assert is_wrong[found.is_suspect].mean() > 0.8


@pytest.mark.parametrize("learner", [nearkin.Euclidean(), nearkin.RobustLODML(n_components=3), nearkin.OPML(), "auto"])
def test_any_learner_of_a_distance_may_do_it(noisy, learner):
    X, given, _, is_wrong = noisy
    found = nearkin.audit_labels(X, given, learner, 0)
    assert is_wrong[found.is_suspect].mean() > 0.7
    assert str(found.evidence(int(found.order[0])))


def test_at_the_end_of_a_pipeline(noisy):
    X, given, y, is_wrong = noisy
    steps = make_pipeline(StandardScaler(), PCA(4, random_state=0), nearkin.LabelAuditor(random_state=0))
    steps.fit(X, given)
    found = steps[-1].audit_
    assert is_wrong[found.is_suspect].mean() > 0.8
    assert (steps.predict(X) == y).mean() > 0.95
    assert np.allclose(steps.predict_proba(X).sum(axis=1), 1)
    assert cross_val_score(steps, X, given, cv=3).mean() > 0.7
    steps.set_params(labelauditor__noise_rate=0.0).fit(X, given)
    assert steps[-1].audit_.n_suspects == 0


def test_a_refused_fit_leaves_the_auditor_as_it_was(noisy):
    X, given, _, _ = noisy
    auditor = nearkin.LabelAuditor(random_state=0).fit(X, given)
    before = auditor.audit_
    with pytest.raises(ValueError, match="one class"):
        auditor.fit(X, np.zeros(len(X)))
    assert auditor.audit_ is before


def test_an_auditor_is_saved_with_what_it_found(noisy, tmp_path):
    X, given, _, _ = noisy
    auditor = nearkin.LabelAuditor(random_state=0).fit(X, given)
    nearkin.save(auditor, tmp_path / "auditor.nearkin")
    again = nearkin.load(tmp_path / "auditor.nearkin")
    assert again.audit_.evidence(3) == auditor.audit_.evidence(3)
    assert np.array_equal(again.audit_.confidence, auditor.audit_.confidence)
    assert np.array_equal(again.predict(X), auditor.predict(X))


# ---------------------------------------------------------------------- many and unequal classes


def test_a_class_of_two_rows_is_kept_if_its_rows_are_near_each_other(rng):
    y = np.repeat([0, 1, 2], [100, 100, 2])
    X = np.array([[0.0, 0], [8, 0], [0, 8]])[y] + rng.normal(size=(202, 2))
    found = nearkin.audit_labels(X, y, random_state=0)
    assert not found.is_suspect[200:].any()
    assert found.evidence(201).given.label == 2


@pytest.mark.slow
def test_thousands_of_classes(rng):
    y = rng.permutation(np.repeat(np.arange(1000), 4))
    X = (6 * rng.normal(size=(1000, 16)))[y] + rng.normal(size=(4000, 16))
    given, is_wrong = nearkin.flip_labels(y, 0.1, random_state=0)
    found = nearkin.audit_labels(X, given, nearkin.Euclidean(), 0)
    assert is_wrong[np.argsort(found.score)[:400]].mean() > 0.8
    right = found.suggested_label[found.is_suspect & is_wrong] == y[found.is_suspect & is_wrong]
    assert right.mean() > 0.8


# ---------------------------------------------------------------------- cleaning, tables and files


def test_cleaning_never_drops_what_is_worth_a_look_unless_told(audit, noisy):
    X, given, _, _ = noisy
    for kept, options in ((~audit.is_wrong, {}), (~audit.is_suspect, {"tier": "all"})):
        rows, labels = audit.clean(X, given, **options)
        assert np.array_equal(rows, X[kept]) and np.array_equal(labels, given[kept])
        assert np.array_equal(audit.cleaned_columns(**options)["row"], np.flatnonzero(kept))
    with pytest.raises(ValueError, match="`tier` must be 'wrong' or 'all'; got 'look'"):
        audit.clean(X, given, tier="look")


@pytest.mark.parametrize("tier", ["wrong", "all"])
@pytest.mark.parametrize("least", [None, 0.0, 0.3, 0.6, 1.0])
def test_relabelling_takes_confident_suggestions_and_drops_the_other_suspects(audit, noisy, least, tier):
    X, given, _, _ = noisy
    rows, labels = audit.clean(X, given, how="relabel", min_confidence=least, tier=tier)
    expected = []
    for i in range(len(given)):  # row by row, as the words say it
        if not audit.is_suspect[i] or (tier == "wrong" and audit.tier[i] == "look"):
            expected.append((i, given[i]))
        elif audit.confidence[i] >= (0.8 if least is None else least):
            expected.append((i, audit.suggested_label[i]))
    assert np.array_equal(rows, X[[i for i, _ in expected]])
    assert labels.tolist() == [one for _, one in expected]
    if least == 0.0 and tier == "all":
        assert rows is X and np.array_equal(labels, audit.suggested_label)
        labels[:] = -1
        assert audit.suggested_label.min() >= 0 and given.min() >= 0


def test_cleaning_leaves_fewer_wrong_labels(audit, noisy):
    X, given, y, is_wrong = noisy
    dropped = y[~audit.is_suspect] != audit.clean(X, given, tier="all")[1]
    at, labels = audit.clean(np.arange(len(y)), given, how="relabel", tier="all")
    assert dropped.mean() < 0.3 * is_wrong.mean()
    assert (y[at] != labels).mean() < 0.3 * is_wrong.mean()


KINDS = {
    "list": list,
    "tuple": tuple,
    "array": np.asarray,
    "series": lambda y: pd.Series(y, index=np.arange(len(y)) + 1000, name="kind"),
    "categories": lambda y: pd.Series(y, index=np.arange(len(y)) + 1000, dtype="category"),
    "strings": lambda y: pd.Series(y, dtype="string"),
    "polars": lambda y: pl.Series("kind", y),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["drop", "relabel"])
@pytest.mark.parametrize("kind", KINDS)
def test_cleaned_labels_are_of_the_kind_that_came(noisy, kind, how):
    X = noisy[0]
    y = KINDS[kind](["abcd"[code] for code in noisy[1]])
    found = nearkin.audit_labels(X, y, random_state=0)
    least = 0.9 if how == "relabel" else None
    at, labels = found.clean(np.arange(len(X)), y, how, min_confidence=least)
    assert type(labels) is type(y)
    assert 0 < len(X) - len(at) <= found.n_suspects
    assert list(labels) == [(found.suggested_label if found.is_wrong[i] else found.given_label)[i] for i in at]
    if hasattr(y, "dtype"):
        assert labels.dtype == y.dtype
    if hasattr(y, "iloc"):
        assert labels.index.equals(y.index[at]) and labels.name == y.name
    assert list(y) == list(found.given_label)  # what came is as it was


def test_cleaned_rows_are_of_the_kind_that_came(audit, noisy):
    X, given, _, _ = noisy
    kept = np.flatnonzero(~audit.is_wrong)
    frame, labels = audit.clean(pd.DataFrame(X, index=np.arange(len(X)) + 7), pd.Series(given))
    assert frame.index.tolist() == (kept + 7).tolist()
    assert labels.index.tolist() == kept.tolist()
    assert audit.clean(pl.DataFrame(X), given)[0].equals(pl.DataFrame(X[kept]))
    texts, _ = audit.clean([f"text {i}" for i in range(len(X))], given)
    assert texts == [f"text {i}" for i in kept]
    csr, _ = audit.clean(sparse.csr_matrix(X), given)
    assert csr.shape == (len(kept), 6)


def test_cleaned_columns_say_how_sure_every_label_is(audit, noisy):
    ids = {"id": [f"r{i}" for i in range(audit.n_rows)]}
    held = audit.cleaned_columns(ids, how="relabel", min_confidence=0.4)
    at, labels = audit.clean(np.arange(audit.n_rows), noisy[1], "relabel", min_confidence=0.4)
    assert list(held) == ["id", "row", "label", "given_label", "confidence"]
    assert held["row"].tolist() == at.tolist() and held["id"] == [f"r{i}" for i in at]
    assert np.array_equal(held["label"], labels) and np.array_equal(held["given_label"], noisy[1][at])
    sure = np.where(audit.is_wrong, audit.confidence, audit.plausibility)
    assert np.array_equal(held["confidence"], sure[at])
    assert (held["label"] != held["given_label"]).sum() > 0


def test_cleaning_other_data_is_refused(audit, noisy):
    X, given, _, _ = noisy
    with pytest.raises(ValueError, match="300 rows were audited"):
        audit.clean(X[:10], given[:10])
    with pytest.raises(ValueError, match="one entry a row"):
        audit.clean(None, given)
    with pytest.raises(ValueError, match="differs"):
        audit.clean(X, given[::-1])
    with pytest.raises(ValueError, match="'drop' or 'relabel'"):
        audit.clean(X, given, how="both")
    for least in (-0.1, 1.1, np.nan, "high", True):
        with pytest.raises(ValueError, match=r"`min_confidence` must be a number in \[0, 1\]"):
            audit.clean(X, given, "relabel", min_confidence=least)
    with pytest.raises(ValueError, match="is for how='relabel'"):
        audit.clean(X, given, min_confidence=0.5)


def test_the_frame_holds_every_row_in_its_order(audit, noisy):
    frame = audit.to_frame()
    assert list(frame.columns) == [
        "row", "given_label", "suggested_label", "is_suspect", "tier", "plausibility", "confidence",
        "score",
    ]  # fmt: skip
    assert np.array_equal(frame.given_label, noisy[1])
    assert np.array_equal(frame.is_suspect, audit.is_suspect)


def test_csv_and_json_come_back_as_they_were(audit, tmp_path):
    ids = {"id": [f"r{i}" for i in range(audit.n_rows)]}
    audit.to_csv(tmp_path / "all.csv", ids=ids)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pandas 4, where it is the default
        table = pd.read_csv(tmp_path / "all.csv", float_precision="round_trip")
    assert list(table.id) == [f"r{i}" for i in audit.order]
    assert np.array_equal(table.plausibility, audit.plausibility[audit.order])
    audit.to_csv(tmp_path / "suspects.csv", suspects_only=True)
    table = pd.read_csv(tmp_path / "suspects.csv")
    assert len(table) == audit.n_suspects and table.is_suspect.all()
    assert table.row[0] == audit.order[0]
    near = [int(one) for one in table.near_rows[0].split()]
    assert near == [one.row for one in audit.evidence(int(audit.order[0])).neighbours]
    audit.to_json(tmp_path / "all.json", ids=ids)
    held = json.loads((tmp_path / "all.json").read_text())
    assert held["noise_rate"] == audit.noise_rate
    assert held["rows"]["score"] == audit.score.tolist()
    assert held["rows"]["id"][5] == "r5"
    assert sum(one["rows"] for one in held["noise_pairs"]) == audit.n_suspects
    assert held["n_wrong"] == audit.n_wrong == held["rows"]["tier"].count("wrong")


def test_an_audit_without_suspects_is_written_too(tmp_path, blobs):
    X, y = blobs(n=60, distance=20.0)
    found = nearkin.audit_labels(X, y, random_state=0)
    assert found.n_suspects == 0
    found.to_csv(tmp_path / "suspects.csv", suspects_only=True)
    assert (tmp_path / "suspects.csv").read_text().startswith("row,")
    found.to_html(tmp_path / "page.html")
    assert "No sign" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("kind", ["csv", "json", "html"])
def test_a_failed_write_leaves_the_old_file(audit, tmp_path, monkeypatch, kind):
    path = tmp_path / f"out.{kind}"
    getattr(audit, f"to_{kind}")(path)
    old = path.read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"nearkin.audit.{'page.contents.as_json' if kind == 'html' else 'exports.json.dumps'}", full)
    monkeypatch.setattr("nearkin.audit.exports.write_csv", full)
    with pytest.raises(OSError, match="No space"):
        getattr(audit, f"to_{kind}")(path)
    assert path.read_bytes() == old
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_columns_of_the_user_must_fit(audit, tmp_path):
    with pytest.raises(ValueError, match="'score' is there already"):
        audit.to_columns({"score": range(300)})
    with pytest.raises(ValueError, match="'id' has 3 values for 300 rows"):
        audit.to_csv(tmp_path / "a.csv", ids={"id": [1, 2, 3]})
    with pytest.raises(ValueError, match="'texts' has 1 values"):
        audit.to_html(tmp_path / "a.html", texts=["one"])
    assert not list(tmp_path.iterdir())


def test_the_summary_shows_labels_on_one_line(noisy):
    names = np.array(["bell\x07", "new\nline", "x" * 100, "plain"])
    found = nearkin.audit_labels(noisy[0], names[noisy[1]], random_state=0)
    text = "".join(value for _, value in found.summary())
    assert "\x07" not in text and "\n" not in text and "x" * 31 not in text


# ---------------------------------------------------------------------- tiny data


def test_enough_data_needs_no_note(audit):
    assert audit.notes == ()
    assert "note" not in dict(audit.summary())


def test_few_rows_and_tiny_classes_are_noted_everywhere(rng, tmp_path):
    y = np.repeat(["many", "some", "two", "<b>one</b>"], [20, 18, 2, 1])
    X = 5.0 * np.eye(4)[np.unique(y, return_inverse=True)[1]] + rng.normal(size=(41, 4))
    found = nearkin.audit_labels(X, y, random_state=0)
    few, tiny = found.notes
    assert few.startswith("41 rows are few") and "uncertain" in few
    assert tiny.startswith("2 classes have one or two rows (<b>one</b>, two)")
    assert not found.is_suspect[-3:].any()
    assert [value for name, value in found.summary() if name == "note"] == [few, tiny]
    found.to_json(tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text())["notes"] == [few, tiny]
    found.to_html(tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert few in page and "<b>one" not in page and "&lt;b&gt;one" in page


def test_labels_that_have_nothing_to_do_with_the_features_are_noted(rng):
    found = nearkin.audit_labels(rng.normal(size=(300, 3)), rng.integers(0, 4, 300), random_state=0)
    (note,) = found.notes
    assert note.startswith("The votes know the labels no better than guesses do, so none is called wrong")
    assert (found.n_wrong, found.noise_interval[0], found.plausibility.min() >= 0.5) == (0, 0.0, True)
    assert "perhaps none" in dict(found.summary())["wrong labels"]
    given = nearkin.audit_labels(rng.normal(size=(300, 3)), rng.integers(0, 4, 300), random_state=0, noise_rate=0.5)
    assert not any("hardly tell" in note for note in given.notes)


def test_one_tiny_class_among_many_rows_is_the_only_note(rng):
    y = np.repeat([0, 1, 2], [40, 40, 1])
    found = nearkin.audit_labels(6.0 * np.eye(3)[y] + rng.normal(size=(81, 3)), y, random_state=0)
    (note,) = found.notes
    assert note.startswith("A class has one or two rows (2)")


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.ones((3, 2)), [0, 1], "3 rows but y has 2"),
        (np.array([[np.nan], [1], [2]]), [0, 1, 0], "NaN"),
        (np.ones((3, 2)), [0, 0, 0], "one class"),
        (np.ones((3, 2)), [None, None, None], "y holds no label at all: all 3 are missing"),
        (np.ones((3, 2)), [0.5, 0.1, 1.2], "[Uu]nknown label type"),
        (np.ones((3, 2)), [[0], [1], {}], "several labels"),
    ],
)
def test_bad_input_is_refused_by_name(X, y, message):
    with pytest.raises(ValueError, match=message):
        nearkin.audit_labels(X, y)


@pytest.mark.parametrize(
    ("X", "y", "options"),
    [
        (np.where(np.arange(120) == 7, np.nan, 1.0).reshape(60, 2), np.arange(60) % 2, {}),
        (np.ones((59, 2)), np.arange(60) % 2, {}),
        (np.ones((60, 2)), np.zeros(60), {}),
        (np.ones(60), np.arange(60) % 2, {}),
        (np.full((60, 2), "a"), np.arange(60) % 2, {}),
        ([[1.0, 2.0], [1.0]] * 30, np.arange(60) % 2, {}),
        (np.ones((0, 2)), [], {}),
        (np.ones((60, 2)), None, {}),
        (np.ones((60, 2)), np.arange(60) % 2, {"random_state": "a"}),
        (np.ones((60, 2)), np.arange(60) % 2, {"learner": "rodml"}),
    ],
    ids=["nan", "lengths", "class", "flat", "text", "ragged", "empty", "none", "seed", "learner"],
)
def test_errors_name_what_was_called_and_nothing_inside(X, y, options):
    """The classifier and the learner behind an audit are not the user's."""
    for name, call in {
        "audit_labels": lambda: nearkin.audit_labels(X, y, **options),
        "LabelAuditor": lambda: nearkin.LabelAuditor(**options).fit(X, y),
        "StreamAudit": lambda: nearkin.StreamAudit(**options).partial_fit(X, y),
    }.items():
        with pytest.raises(ValueError, match=name) as caught:
            call()
        assert not re.search("RobustKNeighborsClassifier|RobustLODML|HistGradient", str(caught.value))
        others = {"audit_labels", "LabelAuditor", "StreamAudit"} - {name}
        assert not any(one in str(caught.value) for one in others)


def test_a_learner_of_the_user_is_named(noisy):
    with pytest.raises(ValueError, match="RobustODML: parameter `C`"):
        nearkin.audit_labels(noisy[0], noisy[1], nearkin.RobustODML(C=-1))


def test_sparse_rows_and_similarities_are_refused_with_advice(noisy):
    X, given, _, _ = noisy
    with pytest.raises(ValueError, match="TruncatedSVD"):
        nearkin.audit_labels(sparse.csr_matrix(X), given)
    with pytest.raises(ValueError, match="RobustLODML"):
        nearkin.audit_labels(X, given, nearkin.RobustOASIS())


def test_a_classifier_of_another_kind_or_data_is_refused(noisy, audit):
    X, given, _, _ = noisy
    with pytest.raises(ValueError, match="n_neighbors='auto'"):
        nearkin.audit_labels(X, given, nearkin.RobustKNeighborsClassifier(n_neighbors=3).fit(X, given))
    with pytest.raises(ValueError, match="300 rows, y has 299"):
        nearkin.audit_labels(X[1:], given[1:], audit.classifier)
    with pytest.raises(ValueError, match="settled"):
        nearkin.audit_labels(X, given, audit.classifier, noise_rate=0.1)
    with pytest.raises(ValueError, match="classes differ"):
        nearkin.LabelAudit(audit.classifier, X, given + 1)


@pytest.mark.parametrize("row", [-1, 300, 1.5, True, "a"])
def test_evidence_of_a_row_that_is_not_there(audit, row):
    with pytest.raises(ValueError, match="from 0 to 299"):
        audit.evidence(row)


def test_labels_that_are_all_different_are_refused(rng):
    with pytest.raises(ValueError, match="is it a class at all"):
        nearkin.audit_labels(rng.normal(size=(30, 2)), np.arange(30))


def test_labels_in_an_array_of_pandas_come_back_as_one(rng):
    pd = pytest.importorskip("pandas")
    y = pd.array(["a", "b"] * 30, dtype="string")
    X = rng.normal(size=(60, 2)) + 4.0 * np.asarray(y == "b", dtype=float)[:, None]
    y[0] = "b"
    audit = nearkin.audit_labels(X, y, random_state=0)
    for how in ("drop", "relabel"):
        _, cleaned = audit.clean(X, y, how=how)
        assert type(cleaned) is type(y) and len(cleaned) <= 60


def test_without_pandas_a_frame_is_refused_with_the_extra_that_brings_it(rng, monkeypatch):
    audit = nearkin.audit_labels(rng.normal(size=(60, 2)), ["a", "b"] * 30, random_state=0)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=re.escape("pip install 'nearkin[pandas]'")):
        audit.to_frame()


def test_a_class_that_is_much_doubted_is_pointed_out(rng):
    y = np.repeat([0, 1], [300, 60])
    X = rng.normal(size=(360, 2)) + 0.3 * y[:, None]
    noisy = nearkin.flip_labels(y, 0.2, random_state=0)[0]
    audit = nearkin.audit_labels(X, noisy, random_state=0, noise_rate=0.2)
    much = any(wrong + look > 0.4 * size for _, size, wrong, look in audit.doubt_by_class())
    assert much and any("is doubted" in note for note in audit.notes)


def test_notes_tell_what_the_figures_do_not():
    def told(by_class, interval=(0.02, 0.08), notes=(), outvoted=0):
        sizes = [size for _, size, _, _ in by_class]
        audit = SimpleNamespace(
            decision=SimpleNamespace(notes=notes, is_guessing=False), doubt_by_class=lambda: by_class,
            rate_is_estimated=True, noise_rate=0.05, findings=(), noise_interval=interval,
            n_suspects=sum(wrong + look for _, _, wrong, look in by_class),
            n_rows=sum(sizes), given_code=np.repeat(np.arange(len(sizes)), sizes),
            score=np.where(np.arange(sum(sizes)) < outvoted, 0.4, 0.6),
            classes=np.array([name for name, _, _, _ in by_class]),
        )  # fmt: skip
        return warn_of(audit)

    assert told([("a", 60, 2, 1), ("b", 40, 0, 0)]) == ()
    assert told([("a", 60, 2, 1), ("b", 40, 0, 0)], notes=("look twice.",)) == ("Look twice.",)
    (note,) = told([("a", 60, 0, 1), ("b", 40, 0, 0)], interval=(0.0, 0.08))
    assert "cannot be told from zero" in note
    assert told([("a", 60, 0, 0), ("b", 40, 0, 0)], interval=(0.0, 0.08)) == ()
    (note,) = told([("a", 60, 2, 1), ("b", 40, 0, 0)], outvoted=36)  # guesses would contradict 48
    assert note.startswith("These features hardly tell the classes apart")
    (note,) = told([("a", 60, 2, 1), ("b", 9, 0, 1)])
    assert note.startswith("Small classes (b) have suspects that few rows can judge")


def test_labels_that_are_all_missing_are_told_as_such(noisy):
    X = noisy[0]
    for none in ([None] * len(X), np.full(len(X), np.nan)):
        with pytest.raises(InputError, match=f"y holds no label at all: all {len(X)} are missing"):
            nearkin.audit_labels(X, none)
    frame = pd.DataFrame({"a": np.arange(20.0) % 7.5, "kind": None})
    with pytest.raises(InputError, match="column 'kind' holds no label at all"):
        nearkin.audit_labels(frame, "kind")


def test_a_column_in_place_of_a_table_is_refused_with_what_to_give():
    status = pd.Series(["at risk", "fine"] * 20, name="status")
    with pytest.raises(InputError, match=r"X is one column of 40 values.*df\[\['status'\]\]"):
        nearkin.audit_labels(status, [0, 1] * 20)
    with pytest.raises(InputError, match=r"give a frame, whose.*reshape\(-1, 1\)"):
        nearkin.audit_labels(np.arange(40.0), [0, 1] * 20)


def test_the_audit_prints_the_rate_as_its_summary_does(noisy):
    found = nearkin.audit_labels(*noisy[:2], random_state=0)
    found.noise_rate, found.noise_interval = 0.0025, (0.0, 0.0125)  # three digits of it would be 0.013
    assert "wrong labels 0.2 % (0.0 to 1.2))" in repr(found)
    found.noise_rate = 0.01
    assert dict(found.summary())["wrong labels"].startswith("1.0 % (0.0 to 1.2)")
    assert "1.0 % (0.0 to 1.2)" in repr(found)
