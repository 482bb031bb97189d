"""The signal of a fall: none without a change, soon after one; and what is remembered of it."""

import numpy as np
import pytest

import nearkin
from nearkin import streams
from nearkin.saving import from_tree, to_tree
from nearkin.streams.watch import Drift, Seen, Watch
from streams import tables


def signals(change):
    """Batches at which plausibility falls, if ``change(number, X, y)`` happens to the stream."""
    X, y = tables.rows(12_000, wrong=0.05)
    chunks = [change(at // 60, X[at : at + 60].copy(), y[at : at + 60].copy()) for at in range(0, len(X), 60)]
    found = []
    streams.fit_stream(
        nearkin.RobustLODML(n_components=3, random_state=0),
        streams.open(chunks, batch_rows=60),
        on_report=lambda report: found.append(report.batch) if report.drift else None,
        prequential=False,
    )
    return found


def test_a_stream_that_stays_as_it_is_gives_no_signal():
    assert signals(lambda number, X, y: (X, y)) == []


@pytest.mark.parametrize("what", ["labels", "features"])
def test_a_sudden_change_is_told_within_a_few_batches(what):
    def change(number, X, y):
        if number < 120:
            return X, y
        return (X, (y + 1) % 4) if what == "labels" else (X[:, ::-1], y)

    found = signals(change)
    assert 121 <= found[0] <= 130
    assert len(found) <= 2


def test_the_false_signals_of_noise_are_rare():
    rng = np.random.default_rng(0)
    drift = Drift()
    assert sum(drift.see(one) for one in 0.8 + 0.02 * rng.normal(size=20_000)) <= 4


def test_a_rise_is_not_a_signal():
    drift = Drift()
    assert not any(drift.see(0.5 + 0.002 * i) for i in range(200))


def test_sums_of_batches_add_up_and_survive_a_checkpoint():
    watch = Watch()
    for number in range(50):
        watch.see(Seen(n_rows=10, n_dropped=number % 2, n_tested=10, n_right=number % 11, plausibility=5.0))
    assert watch.total.n_rows == 500
    assert watch.total.n_dropped == 25
    assert watch.accuracy == sum(number % 11 for number in range(50)) / 500
    assert watch.plausibility == 0.5
    assert from_tree(*to_tree(watch)) == watch
    watch.see(Seen(n_dropped=7))
    assert watch.total.n_dropped == 32
    assert watch.n_batches == 51
