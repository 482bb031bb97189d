"""Hedge and the other rules that keep weights weights, against their literal twins."""

import numpy as np
import pytest

import nearkin
from nearkin import steps
from nearkin.kernels import formulas as scalar
from reference import hedge as literal
from reference import sketch


@pytest.mark.parametrize("beta", [0.3, 0.9, 0.99])
@pytest.mark.parametrize("K", [1, 2, 7])
def test_hedge_is_its_twin_and_suffers_no_more_than_its_bound(beta, K, rng):
    skill = rng.random(K)
    for losses in (rng.random((200, K)) * skill, (rng.random((200, K)) < skill).astype(float), np.ones((50, K))):
        run = literal.hedge(losses, beta)
        model = nearkin.Hedge(K, beta)
        for t, one in enumerate(losses):
            np.testing.assert_allclose(model.weights_, run.weights[t], rtol=1e-12, atol=1e-300)
            assert model.update(one).loss_ <= model.bound + 1e-9
        np.testing.assert_allclose(model.weights_, run.weights[-1], rtol=1e-12, atol=1e-300)
        np.testing.assert_allclose(model.loss_, run.losses.sum(), rtol=1e-12)
        np.testing.assert_allclose(model.bound, literal.hedge_bound(losses, beta), rtol=1e-12)


def test_an_expert_without_loss_ends_with_all_the_weight():
    model = nearkin.Hedge(3, 0.5)
    for _ in range(4000):  # the others' weights leave the normal numbers on the way
        model.update([1.0, 0.0, 0.5])
    assert model.weights_[1] == 1.0
    np.testing.assert_allclose(model.weights_, [0.0, 1.0, 0.0], atol=1e-300)


@pytest.mark.parametrize("losses", [[0.0], [0.0, 1.1], [-0.1, 0.0], [np.nan, 0.0], [[0.0, 0.0]]])
def test_losses_that_are_none_are_refused_and_change_nothing(losses):
    model = nearkin.Hedge(2)
    with pytest.raises(ValueError, match="Hedge: `losses` must be 2 numbers"):
        model.update(losses)
    assert model.weights_.tolist() == [0.5, 0.5]
    assert model.loss_ == 0.0


@pytest.mark.parametrize("wrong", [{"n_experts": 0}, {"n_experts": 1.5}, {"beta": 0.0}, {"beta": 1.0}, {"beta": "x"}])
def test_parameters_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=f"Hedge: parameter `{next(iter(wrong))}` must be"):
        nearkin.Hedge(**{"n_experts": 2, **wrong})


@pytest.mark.parametrize("kind", [steps, scalar], ids=["plain", "compiled"])
def test_weights_come_back_to_the_simplex_as_in_the_twin(kind, rng):
    for _ in range(100):
        theta = rng.normal(size=rng.integers(1, 6)) + rng.choice([0.0, 0.5, -1.0])
        near = theta.copy()
        kind.onto_simplex(near)
        np.testing.assert_allclose(near, sketch.onto_simplex(theta), atol=1e-14)
        clipped = theta.copy()
        expected = sketch.clip_and_normalise(theta)
        assert kind.clip_and_normalise(clipped) == (expected is not None)
        np.testing.assert_allclose(clipped, theta if expected is None else expected, rtol=1e-14)


def test_the_compiled_rule_of_hedge_is_the_plain_one(rng):
    losses = rng.random(4)
    one, other = np.full(4, 0.25), np.full(4, 0.25)
    steps.hedge(one, losses, 0.8)
    scalar.hedge(other, losses, 0.8)
    np.testing.assert_allclose(one, other, rtol=1e-15)
