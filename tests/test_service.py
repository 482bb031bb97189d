"""Scoring while learning: whole answers of one moment, from threads and from the example service."""

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import nearkin

SERVICE = Path(__file__).resolve().parents[1] / "examples" / "service.py"


def rows_of(n, d=5, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = (2.5 * np.random.default_rng(9).normal(size=(3, d)))[y] + rng.normal(size=(n, d))
    return X, nearkin.flip_labels(y, 0.1, random_state=0)[0]


class LearnsWhenRead:
    """Rows that make somebody learn at the moment when they are read, as another thread might."""

    def __init__(self, rows, learn):
        self.rows, self.learn = rows, learn

    def __array__(self, dtype=None, copy=None):
        self.learn()
        return self.rows.astype(dtype or self.rows.dtype)


@pytest.mark.parametrize("kind", [nearkin.RobustLODML, nearkin.RobustOASIS])
def test_both_sides_of_a_pair_are_mapped_by_the_same_metric(kind):
    X, y = rows_of(400)
    learner = kind(random_state=0).partial_fit(X[:100], y[:100])
    before = learner.pair_score(X[:5], X[5:10])
    learn = lambda: learner.partial_fit(X[100:], y[100:])  # noqa: E731
    assert np.array_equal(learner.pair_score(X[:5], LearnsWhenRead(X[5:10], learn)), before)
    assert not np.array_equal(learner.pair_score(X[:5], X[5:10]), before)


def test_a_snapshot_stays_while_the_model_learns():
    X, y = rows_of(300)
    audit = nearkin.StreamAudit(n_per_class=30, random_state=0).partial_fit(X[:100], y[:100])
    seen = nearkin.snapshot(audit)
    before = seen.plausibility(X[:50], y[:50]), seen.predict(X[:50]), seen.n_rows_seen_
    for begin in range(100, 300, 20):
        audit.partial_fit(X[begin : begin + 20], y[begin : begin + 20])
    after = seen.plausibility(X[:50], y[:50]), seen.predict(X[:50]), seen.n_rows_seen_
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))
    assert audit.n_rows_seen_ == 300


def test_every_answer_is_that_of_a_moment_between_two_batches():
    """A thread learns; others must never see half of a batch."""
    X, y = rows_of(1200)
    batches = [slice(begin, begin + 10) for begin in range(200, 1200, 10)]

    def make():
        return nearkin.RobustLODML(n_components=3, random_state=0).partial_fit(X[:200], y[:200])

    def look(learner):
        return learner.pair_distance(X[:4], X[4:8]).tobytes(), learner.components_.tobytes()

    learner, allowed = make(), []
    allowed.append(look(learner))
    for batch in batches:
        allowed.append(look(learner.partial_fit(X[batch], y[batch])))
    distances, maps = (set(each) for each in zip(*allowed, strict=True))
    learner, seen, is_over = make(), [], threading.Event()

    def watch():
        while not is_over.is_set():
            seen.append(look(learner))

    thread = threading.Thread(target=watch)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        thread.start()
        for batch in batches:
            learner.partial_fit(X[batch], y[batch])
    finally:
        is_over.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert len(seen) > 10
    assert all(one in distances and other in maps for one, other in seen)


# ---------------------------------------------------------------------- the service


def ask(url, content=None):
    data = None if content is None else content if isinstance(content, bytes) else json.dumps(content).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data), timeout=60) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.fixture
def start(tmp_path):
    """Start the service of a file in a process of its own; stop it by a signal."""
    running = []

    def begin():
        command = [sys.executable, str(SERVICE), "--model", str(tmp_path / "audit.nearkin"), "--port", "0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)
        running.append(process)
        return process.stdout.readline().strip(), process

    yield begin
    for process in running:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_service_goes_on_after_a_restart_with_the_same_bits(start, tmp_path):
    X, y = rows_of(240)
    expected = nearkin.StreamAudit(random_state=0)

    def learn(url, begin):
        batch = slice(begin, begin + 40)
        status, text = ask(f"{url}/learn", {"rows": X[batch].tolist(), "labels": y[batch].tolist()})
        expected.partial_fit(X[batch], y[batch])
        assert status == 200 and json.loads(text)["plausibility"] == expected.plausibility_.tolist()

    for begins in ((0, 40, 80), (120, 160, 200)):
        url, process = start()
        for begin in begins:
            learn(url, begin)
        for bad, word in (
            (b"{", "Expecting"),
            (b"[]", "object"),
            ({"rows": [[1.0]]}, "labels"),
            ({"rows": [[None] * 5], "labels": [1]}, "NaN"),
            ({"rows": [[1.0] * 4], "labels": [1]}, "4 features"),
        ):
            status, text = ask(f"{url}/learn", bad)
            assert status == 400 and word.lower() in json.loads(text)["error"].lower(), (bad, text)
        assert ask(f"{url}/nowhere", {})[0] == 404
        status, text = ask(f"{url}/score", {"rows": X[:9].tolist(), "labels": y[:9].tolist()})
        assert status == 200
        assert json.loads(text)["plausibility"] == expected.plausibility(X[:9], y[:9]).tolist()
        assert f"nearkin_rows_total {expected.n_rows_seen_}\n" in ask(f"{url}/metrics")[1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    kept = nearkin.load(tmp_path / "audit.nearkin")
    assert np.array_equal(kept.held_.rows, expected.held_.rows)
    assert np.array_equal(kept.learner_.components_, expected.learner_.components_)
