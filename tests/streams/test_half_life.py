"""Forgetting: scale, centres and voters follow a stream, chunks do not matter, and what was learned stays the same."""

import numpy as np
import pytest

import nearkin
from nearkin import streams
from nearkin.reservoir import Reservoir
from nearkin.rows import Moments, Scaling
from streams import tables


def test_moments_do_not_depend_on_pieces_and_forget():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3)) * [1.0, 2.0, 0.0] + 5.0
    begun = Moments.begin(Scaling(np.zeros(3), np.ones(3)), 1.0, 200.0)
    whole, pieces = begun.plus(X), begun
    for at in range(0, 3000, 7):
        pieces = pieces.plus(X[at : at + 7])
    for name in ("weight", "mean", "variance"):
        assert np.allclose(getattr(whole, name), getattr(pieces, name))
    assert whole.weight == pytest.approx(200.0 / np.log(2.0), rel=0.01)
    later = whole.plus(X[:1400] + 3.0)
    assert later.mean[0] == pytest.approx(8.0, abs=0.3)
    assert np.allclose(whole.follow(Scaling(np.zeros(3), np.ones(3)))[0].factor, [1.0, 0.5, 1.0], rtol=0.2)


@pytest.mark.parametrize("d", [6, 300])
def test_a_scale_that_changes_carries_the_map_along(d):
    rng = np.random.default_rng(0)
    y = np.arange(400) % 3
    X = rng.normal(size=(400, d)) + y[:, None]
    state = nearkin.RobustLODML(n_components=4, random_state=0).partial_fit(X, y).state_
    ratio = np.exp(rng.normal(size=d))
    before, after = state.start, state.start.rescaled(ratio)
    rows = state.scaling.apply(X)
    assert np.allclose(before.place(rows), after.place(rows * ratio))
    assert np.array_equal(before.witnesses.placed, after.witnesses.placed)


def gain(X, at):
    """Features whose spread changes a lot in the second half."""
    return X * np.where(at[:, None] < 1500, 1.0, np.exp(np.linspace(0, 3, X.shape[1])))


def test_the_scale_follows_whatever_the_chunks_and_is_saved(tmp_path):
    X, y = tables.rows(4000, wrong=0.1)
    X = gain(X, np.arange(4000))

    def learned(chunk, half_life=800.0):
        scale = "auto" if half_life is None else nearkin.MovingScale(half_life)
        learner = nearkin.RobustLODML(scale=scale, random_state=0).partial_fit(X[:200], y[:200])
        for at in range(200, 4000, chunk):
            learner.partial_fit(X[at : at + chunk], y[at : at + chunk])
            if chunk == 950:
                nearkin.save(learner, tmp_path / "m.nearkin")
                learner = nearkin.load(tmp_path / "m.nearkin")
        return learner

    one, other = learned(950), learned(190)
    assert np.allclose(one.components_, other.components_, rtol=1e-6, atol=1e-9)
    spread = (X[-800:] * one.scaling_.factor).std(axis=0)
    assert np.allclose(spread / spread.mean(), 1.0, atol=0.35)


def test_centres_follow_by_the_same_setting():
    X, y = tables.rows(600)
    learner = nearkin.RobustLODML(
        init="auto", triplets="octg", scale=nearkin.MovingScale(500.0), random_state=0
    ).partial_fit(X, y)
    source = learner.triplet_source_
    assert source.update_centers
    assert source.forget_after == pytest.approx(500.0 / np.log(2.0))


def test_voters_are_drawn_from_about_the_newest_rows():
    held = {}
    for half_life in (None, 1000.0):
        reservoir = Reservoir(200, 400, np.random.default_rng(0), half_life)
        for at in range(0, 20_000, 500):
            reservoir.add(np.arange(at, at + 500.0)[:, None], np.arange(500) % 2)
        held[half_life] = 20_000 - reservoir.numbers
    assert np.bincount(reservoir.codes).tolist() == [200, 200]
    assert np.median(held[None]) == pytest.approx(10_000, rel=0.15)
    assert np.median(held[1000.0]) == pytest.approx(1000, rel=0.25)
    model = nearkin.RobustKNeighborsClassifier(nearkin.RobustLODML(scale=nearkin.MovingScale(1000.0)), random_state=0)
    X, y = tables.rows(400)
    streams.fit_stream(model, streams.open([(X, y)]))
    assert model.history_.held.half_life == 1000.0


@pytest.mark.parametrize("wrong", [{"half_life": 5}, {"half_life": "1000"}, {"half_life": 500.0, "kind": "none"}])
def test_a_half_life_that_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match="MovingScale"):
        nearkin.MovingScale(**wrong)
