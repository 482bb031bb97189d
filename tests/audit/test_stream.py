"""The audit of a stream: bounded, honest about new rows, all or nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

import nearkin
from nearkin.gradual import Gradual
from nearkin.reservoir import Reservoir


def clouds(n, n_classes=4, d=6, seed=0, rate=0.2):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    X = (3.0 * rng.normal(size=(n_classes, d)))[y] + rng.normal(size=(n, d))
    noisy, is_wrong = nearkin.flip_labels(y, rate, random_state=seed)
    return X, noisy, y, is_wrong


def feed(stream, X, y, size):
    """Verdicts on all rows."""
    found = []
    for start in range(0, len(y), size):
        stream.partial_fit(X[start : start + size], y[start : start + size])
        found.append((stream.plausibility_, stream.score_, stream.is_suspect_, stream.suggested_label_))
    return [np.concatenate(one) for one in zip(*found, strict=True)]


@pytest.fixture(scope="module")
def fed():
    X, noisy, y, is_wrong = clouds(2000)
    stream = nearkin.StreamAudit(n_per_class=60, random_state=0)
    return stream, feed(stream, X, noisy, 200), X, noisy, y, is_wrong


def test_wrong_labels_are_found_as_they_come(fed):
    stream, (plausibility, score, is_suspect, suggested), _, _, y, is_wrong = fed
    assert roc_auc_score(is_wrong, -score) > 0.97
    assert is_wrong[is_suspect].mean() > 0.85
    assert is_suspect[is_wrong].mean() > 0.6
    assert (suggested == y)[is_suspect].mean() > 0.85
    assert (plausibility > 0).all() and (plausibility <= 1).all() and (score >= 0).all()
    low, high = stream.noise_interval_
    assert low <= 0.2 <= high
    assert stream.n_rows_seen_ == 2000 and stream.classes_.tolist() == [0, 1, 2, 3]


def test_memory_is_bounded_by_the_rows_held(fed):
    stream = fed[0]
    assert np.bincount(stream.held_.codes).tolist() == [60] * 4
    assert len(stream._window) <= 5000


def test_held_rows_are_rows_of_the_stream_with_their_labels(fed):
    stream, _, X, noisy, _, _ = fed
    numbers = stream.held_.numbers
    assert len(set(numbers.tolist())) == len(numbers)
    assert np.array_equal(stream.held_.rows, X[numbers])
    assert np.array_equal(np.array(list(stream._numbering.codes))[stream.held_.codes], noisy[numbers])


def test_anybody_may_ask_at_any_time(fed, tmp_path):
    stream = fed[0]
    audit = stream.audit()
    assert audit.n_rows == len(stream.held_)
    is_wrong = fed[5][stream.held_.numbers]
    assert is_wrong[audit.is_suspect].mean() > 0.8
    audit.to_html(tmp_path / "now.html")
    assert audit.evidence(0).neighbours


def test_a_row_has_no_say_about_its_own_label():
    """Whatever label the last row is given, the votes on it are the same."""
    X, noisy, _, _ = clouds(400)
    verdicts = []
    for label in range(4):
        stream = nearkin.StreamAudit(n_per_class=30, random_state=0)
        feed(stream, X[:-1], noisy[:-1], 100)
        stream.partial_fit(X[-1:], [label])
        verdicts.append(stream.score_[0])
    assert sorted(verdicts)[-1] > 0.5 and sorted(verdicts)[-2] <= 0.5


def test_a_batch_that_raises_changes_nothing():
    X, noisy, _, _ = clouds(300)
    stream = nearkin.StreamAudit(n_per_class=30, random_state=0)
    feed(stream, X[:200], noisy[:200], 100)
    before = dict(vars(stream))
    held = stream.held_.rows.copy()
    with pytest.raises(ValueError, match="NaN"):
        stream.partial_fit(np.full((2, 6), np.nan), [0, 1])
    with pytest.raises(ValueError, match="3 labels"):
        stream.partial_fit(X[:2], [0, 1, 1])
    with pytest.raises(ValueError, match="features"):
        stream.partial_fit(X[:2, :3], [0, 1])
    with pytest.raises(ValueError, match="every row needs a label"):
        stream.partial_fit(X[:2], [0, None])
    assert vars(stream) == before
    assert np.array_equal(stream.held_.rows, held)
    # And the stream goes on as if nothing had been.
    other = nearkin.StreamAudit(n_per_class=30, random_state=0)
    feed(other, X[:200], noisy[:200], 100)
    assert np.array_equal(
        stream.partial_fit(X[200:], noisy[200:]).score_, other.partial_fit(X[200:], noisy[200:]).score_
    )


def test_a_class_that_appears_late_is_judged_from_its_second_batch_on():
    X, noisy, _, _ = clouds(400, rate=0.1)
    rng = np.random.default_rng(1)
    late = 12.0 + rng.normal(size=(60, 6))
    stream = nearkin.StreamAudit(n_per_class=40, random_state=0)
    names = np.array(["a", "b", "c", "d"])
    feed(stream, X, names[noisy], 100)
    stream.partial_fit(late[:30], ["new"] * 30)
    assert (stream.plausibility_ == 1).all() and not stream.is_suspect_.any()
    labels = np.array(["new"] * 30)
    labels[0] = "a"
    stream.partial_fit(late[30:], labels)
    assert stream.score_[0] < 0.3 and stream.plausibility_[0] < stream.plausibility_[1:].min()
    assert stream.score_[1:].min() > 0.7
    assert "new" in stream.classes_


def test_the_first_batch_may_hold_one_class_if_the_others_are_named():
    X, noisy, _, _ = clouds(300, n_classes=2, rate=0.0)
    order = np.argsort(noisy, kind="stable")
    with pytest.raises(ValueError, match="two classes"):
        nearkin.StreamAudit().partial_fit(X[order][:20], noisy[order][:20])


def test_fit_forgets(fed):
    _, _, X, noisy, _, _ = fed
    stream = nearkin.StreamAudit(n_per_class=20, random_state=0)
    once = stream.fit(X[:200], noisy[:200]).score_
    stream.partial_fit(X[200:400], noisy[200:400])
    assert np.array_equal(stream.fit(X[:200], noisy[:200]).score_, once)
    assert stream.n_rows_seen_ == 200


@pytest.mark.parametrize("parameters", [{"n_per_class": 1}, {"max_rows": 0}, {"learner": "x"}, {"random_state": -1}])
def test_bad_parameters_are_refused(parameters):
    X, noisy, _, _ = clouds(50)
    with pytest.raises(ValueError):
        nearkin.StreamAudit(**parameters).partial_fit(X, noisy)


def test_a_saved_stream_goes_on_where_it_was(fed, tmp_path):
    _, _, X, noisy, _, _ = fed
    stream = nearkin.StreamAudit(n_per_class=20, random_state=0)
    feed(stream, X[:400], noisy[:400], 200)
    nearkin.save(stream, tmp_path / "stream.nearkin")
    again = nearkin.load(tmp_path / "stream.nearkin")
    for one in (stream, again):
        one.partial_fit(X[400:600], noisy[400:600])
    assert np.array_equal(stream.score_, again.score_)
    assert np.array_equal(stream.held_.numbers, again.held_.numbers)
    assert stream.noise_rate_ == again.noise_rate_


def test_a_stream_saved_while_its_next_jury_is_in_the_making_takes_it_over_at_the_same_row(fed, tmp_path):
    _, _, X, noisy, _, _ = fed
    stream = nearkin.StreamAudit(n_per_class=40, random_state=0)
    feed(stream, X[:473], noisy[:473], 43)
    assert stream._next._making.spent > 0.0
    nearkin.save(stream, tmp_path / "stream.nearkin")
    again = nearkin.load(tmp_path / "stream.nearkin")
    before = stream._model
    verdicts = [feed(one, X[473:800], noisy[473:800], 10) for one in (stream, again)]
    assert stream._model is not before
    for one, other in zip(*verdicts, strict=True):
        assert np.array_equal(one, other)


def test_no_batch_makes_much_of_the_next_jury(fed):
    """The work of a jury is spread over the rows until it is needed."""
    _, _, X, noisy, _, _ = fed
    stream = nearkin.StreamAudit(n_per_class=60, random_state=0).partial_fit(X[:600], noisy[:600])
    steps, juries, step = [], set(), Gradual._step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Gradual, "_step", lambda self: (steps.append(1), step(self))[1])
        most = []
        for begin in range(600, 2000, 10):
            steps.clear()
            stream.partial_fit(X[begin : begin + 10], noisy[begin : begin + 10])
            juries.add(id(stream._model))
            most.append(len(steps))
    assert len(juries) >= 4
    assert np.mean(np.array(most) > 0) > 0.8 and max(most) < 0.5 * sum(most) / len(juries)


def test_a_new_class_is_judged_once_a_jury_knows_it():
    X, noisy, _, _ = clouds(400, rate=0.1)
    late = 12.0 + np.random.default_rng(1).normal(size=(300, 6))
    stream = nearkin.StreamAudit(n_per_class=40, random_state=0)
    names = np.array(["a", "b", "c", "d"])
    feed(stream, X, names[noisy], 100)
    labels = np.array(["new"] * 300)
    labels[280:] = "a"
    known = []
    for begin in range(0, 300, 20):
        known.append("new" in stream._model.classes_)
        stream.partial_fit(late[begin : begin + 20], labels[begin : begin + 20])
        assert known[-1] or (stream.plausibility_ == 1).all()
    assert 0 < np.argmax(known) <= 3  # an eighth of the rows held
    assert stream.suggested_label_.tolist() == ["new"] * 20


# ---------------------------------------------------------------------- the sample


@given(
    st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=30), min_size=1, max_size=6),
    st.integers(2, 8),
    st.integers(10, 30),
)
def test_the_sample_keeps_its_promises(batches, n_per_class, max_rows):
    held = Reservoir(n_per_class, max_rows, np.random.default_rng(0))
    everything = np.concatenate(batches).astype(np.int64)
    at = 0
    for batch in batches:
        codes = np.array(batch, dtype=np.int64)
        held.add(np.arange(at, at + len(codes), dtype=float)[:, None], codes)
        at += len(codes)
        assert len(held) <= max(max_rows, len(held.seen))
        assert np.bincount(held.codes).max() <= n_per_class
    assert np.array_equal(held.rows[:, 0], held.numbers)
    assert np.array_equal(held.codes, everything[held.numbers])
    assert len(set(held.numbers.tolist())) == len(held)
    assert held.seen.sum() == len(everything)
    share = held.share
    for code, n in enumerate(np.bincount(everything)):
        assert (held.codes == code).sum() <= min(n, max(share, 1))


def test_every_row_of_a_class_is_held_with_the_same_probability():
    count = np.zeros(50)
    for seed in range(800):
        held = Reservoir(10, 100, np.random.default_rng(seed))
        for start in range(0, 50, 7):
            part = np.arange(start, min(50, start + 7))
            held.add(part[:, None].astype(float), np.zeros(len(part), dtype=np.int64))
        count[held.numbers] += 1
    expected = 800 * 10 / 50
    assert ((count - expected) ** 2 / (expected * 0.8)).sum() < 85  # chi-squared with 49 degrees, 0.999


def test_many_classes_share_the_room():
    held = Reservoir(50, 100, np.random.default_rng(0))
    held.add(np.zeros((100, 1)), np.repeat(np.arange(2), 50))
    assert np.bincount(held.codes).tolist() == [50, 50]
    held.add(np.zeros((80, 1)), np.repeat(np.arange(2, 10), 10))
    assert np.bincount(held.codes).tolist() == [10] * 10
