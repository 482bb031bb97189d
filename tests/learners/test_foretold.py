"""What grows with the square of rows or features says so before it starts, if it takes long."""

import logging

import numpy as np
import pytest

import nearkin
from nearkin import progress
from nearkin.triplets import BatchTriplets


@pytest.fixture
def told(caplog):
    caplog.set_level(logging.WARNING, "nearkin")
    return lambda: [one.getMessage() for one in caplog.records if ", about " in one.getMessage()]


def test_triplets_of_a_large_batch_say_that_they_compare_all_pairs(told, rng, monkeypatch):
    X, y = rng.normal(size=(200, 3)), np.arange(200) % 2
    BatchTriplets(max_impostors=1).build(X, y)
    assert told() == []
    monkeypatch.setattr("nearkin.triplets.batch._SECONDS_OF_PAIR", 1e-3)
    model = nearkin.RobustLODML(init="identity", triplets=BatchTriplets(max_impostors=1), random_state=0).fit(X, y)
    (line,) = told()
    assert line.startswith("comparing all pairs of 200 rows, about 40 s. ")
    model.partial_fit(X[:20], y[:20])  # far fewer
    assert len(told()) == 1


@pytest.mark.parametrize(
    "name", ["RobustODML", "RobustOASIS", "RobustOPML", "RobustSLMOML", "RobustITML", "LPAODML", "OMDML"]
)
def test_a_full_matrix_of_many_features_says_that_it_is_slow(name, told, rng):
    model = getattr(nearkin, name)(random_state=0)
    model._foretell(1000, 50)
    assert told() == []
    model._foretell(1_000_000, 5000)
    (line,) = told()
    assert line.startswith(f"{name}: 1,000,000 rows of 5,000 features, about ")
    seconds = [6e6 * model._seconds_of_step(d) for d in (100, 200)]
    assert seconds[1] == pytest.approx(4 * seconds[0])


def test_a_fit_says_so_before_it_begins(told, rng, monkeypatch):
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    monkeypatch.setattr(nearkin.RobustODML, "_seconds_of_step", lambda self, d: 1.0)
    monkeypatch.setattr(nearkin.RobustODML, "_first_state", lambda *_: pytest.fail("not here"))
    with pytest.raises(pytest.fail.Exception):
        nearkin.RobustODML(random_state=0).fit(X, y)
    assert told()[0].startswith("RobustODML: 40 rows of 3 features, about 4 min. A step grows with the square")


def test_low_rank_maps_and_kernels_do_not_grow_with_the_square():
    for name in ("RobustLODML", "RobustLOSL", "OKS", "Euclidean", "LSMDML"):
        assert getattr(nearkin, name)()._seconds_of_step(10_000) == 0.0


def test_seconds_are_said_in_words_only_if_they_are_many():
    assert progress.say_seconds(9.0) == ""
    assert progress.say_seconds(7200.0) == ", about 2.0 h"
