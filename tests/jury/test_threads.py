"""One classifier or auditor in several threads: predictions are those of one thread, fits follow each other."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nearkin
from nearkin.jury import LeadingDirections, RidgeVoter


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    X = (3.0 * rng.normal(size=(3, 4)))[y] + rng.normal(size=(300, 4))
    noisy, _ = nearkin.flip_labels(y, 0.15, random_state=0)
    return X, noisy


def at_once(calls):
    """Results of calls that begin together, each in a thread of its own."""
    gate = threading.Barrier(len(calls))

    def wait_and(call):
        gate.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [one.result() for one in [pool.submit(wait_and, call) for call in calls]]


@pytest.mark.parametrize("settings", [{}, {"weights": "plausibility"}, {"n_neighbors": 3}])
def test_threads_predict_what_one_thread_predicts(data, settings, tmp_path):
    X, y = data
    model = nearkin.RobustKNeighborsClassifier(random_state=0, **settings).fit(X, y)
    expected = [model.predict_proba(X[i::6]) for i in range(6)]
    nearkin.save(model, tmp_path / "model.nearkin")
    for again in (model, nearkin.load(tmp_path / "model.nearkin")):  # a loaded model finds much at its first use
        found = at_once([lambda i=i, again=again: again.predict_proba(X[i::6]) for i in range(6)])
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_votes_with_different_weights_do_not_mix_in_threads(data):
    X, y = data
    rng = np.random.default_rng(1)
    weights = [rng.uniform(0.1, 1.0, len(y)) for _ in range(4)]

    def make():
        return RidgeVoter("ridge", X, y, 3, [LeadingDirections(X)])

    voter, expected = make(), [make().answers(X[:50], one) for one in weights]
    for _ in range(8):
        found = at_once([lambda one=one: voter.answers(X[:50], one) for one in weights])
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other)


def state_of(model):
    return np.concatenate([model.plausibility_, model.predict_proba(np.zeros((1, model.n_features_in_))).ravel()])


def test_fits_in_two_threads_follow_each_other(data):
    X, y = data
    jobs = [(X, y), (X[:150, :2], y[:150])]
    expected = [state_of(nearkin.RobustKNeighborsClassifier(random_state=0).fit(*job)) for job in jobs]
    for _ in range(2):
        model = nearkin.RobustKNeighborsClassifier(random_state=0)
        at_once([lambda job=job, model=model: model.fit(*job) for job in jobs])
        found = state_of(model)
        assert any(len(found) == len(one) and np.array_equal(found, one) for one in expected)


def test_audits_in_two_threads_follow_each_other(data):
    X, y = data
    jobs = [(X, y), (X[:150, :2], y[:150])]
    auditor = nearkin.LabelAuditor(random_state=0)
    at_once([lambda job=job: auditor.fit(*job) for job in jobs])
    assert auditor.n_features_in_ == auditor.audit_.classifier.n_features_in_
    assert len(auditor.audit_.plausibility) == {4: 300, 2: 150}[auditor.n_features_in_]


def test_a_stream_audited_in_two_threads_loses_no_rows(data):
    X, y = data
    stream = nearkin.StreamAudit(n_per_class=20, random_state=0).partial_fit(X[:60], y[:60])
    batches = [slice(start, start + 30) for start in range(60, 300, 30)]
    at_once([lambda part=part: stream.partial_fit(X[part], y[part]) for part in batches])
    assert stream.n_rows_seen_ == 300
    assert len(stream.audit().plausibility) == len(stream.held_)


@pytest.mark.parametrize("kind", [nearkin.RobustKNeighborsClassifier, nearkin.LabelAuditor])
def test_who_predicts_while_another_thread_fits_sees_one_fit_whole(data, kind):
    X, y = data
    names = np.array(["a", "b", "c", "d"])
    jobs = [(X[:120], y[:120]), (X[:150], names[np.arange(150) % 4])]
    model = kind(random_state=0).fit(*jobs[0])
    expected = [kind(random_state=0).fit(*job).predict(X[:20]).tolist() for job in jobs]
    is_over = threading.Event()

    def refit():
        try:
            for i in range(3):
                model.fit(*jobs[1 - i % 2])
        finally:
            is_over.set()

    def predict():
        found = []
        while not is_over.is_set():
            found.append(model.predict(X[:20]).tolist())
        return found

    _, *seen = at_once([refit, predict, predict])
    assert all(one in expected for some in seen for one in some)
