"""What an audit says about its time: one estimate before, and one task that only goes forward."""

import numpy as np
import pytest

import nearkin
from nearkin import progress
from nearkin.jury import cost
from nearkin.jury import judged as judged_of


def test_an_audit_reports_one_task_that_only_goes_forward(rng, monkeypatch):
    monkeypatch.setattr(judged_of, "MOST_MEMBERS", 200)
    monkeypatch.setattr(progress, "_LONG", 0.0)
    X, y = rng.normal(size=(400, 3)), np.arange(400) % 2
    seen = []
    with progress.listening(lambda *one: seen.append(one)):
        nearkin.audit_labels(X, y, random_state=0)
    tasks, done, total = zip(*seen, strict=True)
    assert len(set(tasks)) == 1 and len(set(total)) == 1
    assert tasks[0].startswith("judging 400 rows, about") and done[0] == 0 and done[-1] == total[0]
    assert list(done) == sorted(done) and len(set(done)) > 5
    with progress.listening(lambda *one: seen.append(one)):
        progress.advance("another", 1, 2)
    assert seen[-1] == ("another", 1, 2)


def test_the_estimate_grows_in_proportion_beyond_the_rows_that_vote():
    total = [sum(cost.estimate_seconds(n, 64, 10).values()) for n in (500_000, 1_000_000)]
    assert 1.7 < total[1] / total[0] < 2.1
    assert sum(cost.estimate_seconds(100, 5, 2).values()) < 1.0


def test_a_plan_that_fails_leaves_no_trace(rng):
    with pytest.raises(ZeroDivisionError), progress.listening(print), progress.planned("a", {"b": 1.0}):
        raise ZeroDivisionError
    seen = []
    with progress.listening(lambda *one: seen.append(one)):
        progress.advance("after", 1, 2)
    assert seen == [("after", 1, 2)]
