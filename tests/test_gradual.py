"""Work in steps: the same result however it is cut, begun anew where it was lost, and no thread left behind."""

import os
import threading
import time

import numpy as np
import pytest

import nearkin
from nearkin import progress
from nearkin.gradual import Gradual, finish, in_steps


def count(n):
    for _ in range(n):
        yield
    return n


def report(n=5):
    for i in range(n):
        progress.advance("working", i, n)
    return n


def threads():
    return {one for one in threading.enumerate() if one.name == "nearkin-steps"}


@pytest.mark.parametrize("shares", [(), (0.5, 0.5), (0.1,) * 30, (1.0, 1.0)])
def test_what_comes_out_does_not_depend_on_how_it_was_cut(shares):
    made = Gradual(lambda: count(8), 8)
    for share in shares:
        made.advance(share)
    assert made.finish() == 8


def test_equal_shares_of_the_way_do_equal_work():
    made, spent = Gradual(lambda: count(100), 100), []
    for left in range(10, 0, -1):
        made.advance(1.0 / left)
        spent.append(made.spent)
    assert np.diff([0.0, *spent]).max() <= 11.0


def test_work_stops_at_every_report_and_ends_with_its_generator():
    before = threads()  # of models that other tests hold
    steps = in_steps(report)
    next(steps)
    assert len(threads() - before) == 1
    assert finish(steps) == 5
    dropped = in_steps(report)
    next(dropped)
    dropped.close()
    for _ in range(100):
        if not threads() - before:
            break
        time.sleep(0.01)
    assert not threads() - before


def test_what_raises_is_raised_and_begun_anew():
    calls = []

    def work():
        calls.append(1)
        progress.pause()
        if len(calls) < 2:
            raise ValueError("not yet")
        return "done"

    made = Gradual(lambda: in_steps(work), 1.0)
    with pytest.raises(ValueError, match="not yet"):
        made.finish()
    assert made.finish() == "done"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_begins_anew():
    made = Gradual(lambda: count(4), 4)
    made.advance(0.5)
    made._process = -1
    made.advance(0.0)
    assert made.finish() == 4 and made.spent == 4.0


# ---------------------------------------------------------------------- learners


def stream(n=3000, d=6, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return (2.0 * rng.normal(size=(3, d)))[y] + rng.normal(size=(n, d)), y


def test_a_start_that_is_saved_on_the_way_to_its_next_map_finds_the_same(tmp_path):
    X, y = stream()
    learner = nearkin.RobustLODML(n_components=3, random_state=0).partial_fit(X[:1000], y[:1000])
    learner.partial_fit(X[1000:1700], y[1000:1700])
    start = learner.state_.start
    assert start.n_base and start.making is not None and start.making.spent > 0
    nearkin.save(learner, tmp_path / "m.nearkin")
    again = nearkin.load(tmp_path / "m.nearkin")
    assert again.state_.start.making is None
    for one in (learner, again):
        for begin in range(1700, 3000, 130):
            one.partial_fit(X[begin : begin + 130], y[begin : begin + 130])
    assert np.array_equal(learner.components_, again.components_)
    assert learner.state_.start.next_row > start.next_row


def test_a_renewal_leaves_little_work_to_any_one_batch(monkeypatch):
    """No batch judges more rows of the sample than a few pauses have between them."""
    X, y = stream(4000)
    learner = nearkin.RobustLODML(n_components=3, random_state=0).partial_fit(X[:1000], y[:1000])
    learner.partial_fit(X[1000:1600], y[1000:1600])
    seen, spent = [], []
    step = Gradual._step
    monkeypatch.setattr(Gradual, "_step", lambda self: (seen.append(1), step(self))[1])
    for begin in range(1600, 4000, 20):
        seen.clear()
        learner.partial_fit(X[begin : begin + 20], y[begin : begin + 20])
        spent.append(len(seen))
    assert sum(spent) > 30 and max(spent) <= 4


def test_samples_that_share_their_memory_do_not_write_to_each_other():
    X, y = stream(1200)
    learner = nearkin.RobustLODML(n_components=3, random_state=0).partial_fit(X[:700], y[:700])
    learner.partial_fit(X[700:710], y[700:710])
    base = learner.state_.start
    kept = base.sample.rows.copy()
    rows = learner.state_.scaling.apply(X)
    one, other = (base.sample.plus(rows[at], y[at], np.full(20, 99.0)) for at in (slice(20), slice(20, 40)))
    assert np.array_equal(one.rows[-20:], rows[:20]) and np.array_equal(other.rows[-20:], rows[20:40])
    assert np.array_equal(base.sample.rows, kept)
