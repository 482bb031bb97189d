"""The monitor: no alarm without a change, one soon after it, whatever the batches; and what is remembered of it."""

import json
from datetime import datetime

import numpy as np
import pytest

import nearkin
from nearkin import streams
from nearkin.saving import from_tree, to_tree
from nearkin.streams.monitor import BLOCK, Monitor, SeenRows
from nearkin.streams.watch import Seen, Watch
from streams import tables


def rows(rng, n, accuracy=0.9, shares=(0.5, 0.3, 0.2), d=4, shift=0.0, spread=1.0):
    """Rows as a learner may have seen them."""
    X = rng.normal(size=(n, d))
    X[:, 0] = spread * X[:, 0] + shift
    codes = rng.choice(len(shares), n, p=shares).astype(np.int64)
    right = rng.random(n) < accuracy
    return SeenRows(right, np.clip(0.3 + 0.6 * right + 0.1 * rng.random(n), 0, 1), codes, X)


def cut(seen, sizes):
    """The same rows in pieces."""
    at = 0
    for size in sizes:
        part = slice(at, at + size)
        yield SeenRows(seen.is_right[part], seen.plausibility[part], seen.codes[part], seen.features[part])
        at += size


def test_false_alarms_are_not_more_than_the_bound():
    rng = np.random.default_rng(0)
    monitor = Monitor(false_alarms=400.0)
    for _ in range(8):
        monitor.see(rows(rng, 50 * BLOCK * 10, d=2))
    assert monitor.n_alarms <= 400 * monitor.n_rows / 1e6
    assert Monitor(false_alarms=0.0).limit == np.inf


def test_blocks_that_are_alike_over_some_time_are_no_change():
    rng = np.random.default_rng(1)
    monitor = Monitor(false_alarms=10.0)
    wave = np.convolve(rng.normal(size=100_000), np.ones(150) / 150, "same") * 5
    seen = rows(rng, len(wave), d=1)
    seen.features = seen.features + 0.3 * wave[:, None]
    assert monitor.see(seen) == ()


@pytest.mark.parametrize(
    ("signal", "change"),
    [
        ("accuracy", {"accuracy": 0.7}),
        ("classes", {"shares": (0.45, 0.25, 0.2, 0.1)}),
        ("classes", {"shares": (0.35, 0.45, 0.2)}),
        ("features", {"shift": 0.8}),
        ("features", {"spread": 2.0}),
    ],
)
def test_a_change_is_told_by_its_signal_and_once(signal, change):
    rng = np.random.default_rng(2)
    monitor = Monitor()
    assert monitor.see(rows(rng, 6_000)) == ()
    found = [one for one in monitor.see(rows(rng, 6_000, **change)) if one.signal == signal]
    assert len(found) == 1
    assert 6_000 < found[0].row < 6_800
    assert (found[0].after < found[0].before) == (signal == "accuracy" or "fell" in found[0].text)


def test_a_rise_of_accuracy_is_not_an_alarm():
    rng = np.random.default_rng(3)
    monitor = Monitor()
    assert all(monitor.see(rows(rng, 500, accuracy=one)) == () for one in np.linspace(0.3, 0.98, 30))


def test_calls_do_not_matter():
    rng = np.random.default_rng(4)
    seen = [rows(rng, 5_000), rows(rng, 2_000, shift=1.0, accuracy=0.6)]
    monitors = [Monitor(), Monitor(), Monitor()]
    for one in seen:
        monitors[0].see(one)
        for part in cut(one, [1] * 70 + [129] * 50):
            monitors[1].see(part)
        for part in cut(one, [313] * 20):
            monitors[2].see(part)
            monitors[2] = from_tree(*to_tree(monitors[2]))
    assert monitors[0].n_alarms >= 3
    for one in monitors[1:]:
        assert [str(alarm) for alarm in one.alarms] == [str(alarm) for alarm in monitors[0].alarms]
        assert np.allclose(one.shares.mean, monitors[0].shares.mean)
        assert np.allclose(one.shares.grown, monitors[0].shares.grown)


def test_many_features_are_watched_in_groups_and_marks_do_as_well_as_rows():
    rng = np.random.default_rng(5)
    wide, marked = Monitor(), Monitor()
    found = []
    for number in range(60):
        seen = rows(rng, 100, d=1200, shift=0.0)
        if number >= 40:
            seen.features += 1.0
        wide.see(seen)
        if marked.cuts is not None:
            seen.features = marked.cuts.mark(seen.features)
        found += marked.see(seen)
    assert wide.cuts is None or len(wide.cuts.low) == 512
    assert {one.signal for one in wide.alarms} == {one.signal for one in found} == {"features"}


def test_alarms_name_classes_and_features():
    rng = np.random.default_rng(6)
    monitor = Monitor()
    monitor.see(rows(rng, 4_000))
    names = ["cat", "dog", "hen"], ["length", "b", "c", "d"]
    found = monitor.see(rows(rng, 3_000, shares=(0.2, 0.3, 0.5), shift=2.0), *names)
    texts = {one.signal: one.text for one in found}
    assert "'length'" in texts["features"]
    assert "'cat' fell" in texts["classes"] or "'hen' rose" in texts["classes"]


def test_hourly_calls_add_up():
    """40 % of labels redrawn from file 6 on, one call a file."""
    X, y = tables.rows(8_000, wrong=0.05)
    rng = np.random.default_rng(0)
    learner, found = nearkin.RobustLODML(n_components=3, random_state=0), []
    for hour in range(8):
        part = slice(1_000 * hour, 1_000 * (hour + 1))
        labels = y[part].copy()
        if hour >= 5:
            drawn = rng.random(1_000) < 0.4
            labels[drawn] = rng.integers(0, 4, drawn.sum())
        streams.fit_stream(
            learner, streams.open([(X[part], labels)]), on_report=lambda one, hour=hour: found.append((hour, one))
        )
    alarms = [(hour, alarm) for hour, report in found for alarm in report.alarms]
    assert {hour for hour, _ in alarms} <= {5, 6, 7}
    assert {alarm.signal for _, alarm in alarms} >= {"accuracy", "plausibility"}
    assert alarms[0][0] == 5
    assert all(report.drift == bool(report.alarms) for _, report in found)


def test_sums_of_batches_add_up_and_survive_a_checkpoint():
    watch = Watch()
    counts = np.array([4, 6])
    for number in range(50):
        watch.see(Seen(10, number % 2, 10, number % 11, 5.0, counts))
    assert watch.total.n_rows == 500
    assert watch.total.n_dropped == 25
    assert watch.accuracy == sum(number % 11 for number in range(50)) / 500
    assert watch.plausibility == 0.5
    assert from_tree(*to_tree(watch)).total.as_facts("ab") == watch.total.as_facts("ab")
    watch.see(Seen(n_dropped=7))
    assert watch.total.n_dropped == 32
    assert watch.n_batches == 51
    assert watch.total.as_facts("ab")["classes"] == {"a": 200, "b": 300}


def log_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_log_has_time_file_rates_and_alarms_and_goes_on(tmp_path):
    X, y = tables.rows(1_200)
    learner = nearkin.RobustLODML(n_components=3, random_state=0)
    for day, part in enumerate((slice(0, 600), slice(600, 1_200))):
        chunks = streams.open([(X[part], y[part])], batch_rows=100)
        streams.fit_stream(learner, chunks, log=tmp_path / "log", log_every=["batch", "file"][day])
    lines = log_of(tmp_path / "log")
    assert [one["new"]["rows"] for one in lines] == [100] * 6 + [600]
    assert [one["rows"] for one in lines] == [*range(100, 700, 100), 1_200]
    last = lines[-1]
    assert datetime.fromisoformat(last["time"]).tzinfo is not None
    assert last["version"] == nearkin.__version__
    assert (last["event"], last["file"], last["alarms"]) == ("learned", "the stream", [])
    assert last["seconds"] > 0
    assert sum(last["total"]["classes"].values()) == 1_200
    assert sum(last["new"]["shares"].values()) == pytest.approx(1.0, abs=1e-5)
    bad = X[:100].copy()
    bad[7, 0] = np.nan
    with pytest.raises(ValueError, match="row 8"):
        streams.fit_stream(learner, streams.open([(bad, y[:100])]), log=tmp_path / "log")
    last = log_of(tmp_path / "log")[-1]
    assert (last["event"], last["rows"]) == ("refused", 1_200)
    assert "data row 8" in last["reason"]
    streams.fit_stream(learner, streams.open([(X[:100], y[:100])]), log=tmp_path / "log")
    lines = log_of(tmp_path / "log")
    assert [one["event"] for one in lines[-3:]] == ["learned", "refused", "learned"]
    assert lines[-1]["new"]["rows"] == 100
