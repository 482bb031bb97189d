"""The losses: hinge, rescaled hinge, and what a learner asks of a loss."""

from decimal import Decimal, getcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearkin import ODML, RobustLODML, RobustODML
from nearkin.losses import Hinge, Loss, RescaledHinge, as_loss, exponential_weight, hinge
from reference import losses as literal

ETAS = (0.01, 0.5, 1.0, 3.0, 5.0)
margins = st.floats(-50.0, 3.0)
etas = st.floats(1e-3, 20.0)


def test_hinge_is_zero_from_margin_one_on_and_grows_with_slope_one_below():
    np.testing.assert_array_equal(hinge([-2.0, 0.0, 0.5, 1.0, 7.0]), [3.0, 1.0, 0.5, 0.0, 0.0])


def test_rescaled_hinge_takes_the_values_known_by_hand():
    loss = RescaledHinge(eta=np.log(2.0))  # beta = 2
    np.testing.assert_allclose(loss.value([1.0, 0.0, -1.0, -2.0]), [0.0, 1.0, 1.5, 1.75], rtol=1e-15)
    np.testing.assert_allclose(loss.plausibility([1.0, 0.0, -1.0]), [1.0, 0.5, 0.25], rtol=1e-15)
    np.testing.assert_allclose(loss.weight([1.0, 0.0]), [2 * np.log(2.0), np.log(2.0)], rtol=1e-15)


@given(z=margins, eta=etas)
def test_rescaled_hinge_agrees_with_the_literal_one(z, eta):
    loss = RescaledHinge(eta)
    np.testing.assert_allclose(loss.value(z), literal.rescaled_hinge(z, eta), rtol=1e-13)
    np.testing.assert_allclose(loss.weight(z), literal.weight(literal.hinge(z), eta), rtol=1e-13, atol=1e-300)
    np.testing.assert_allclose(
        loss.plausibility(z), literal.plausibility(literal.hinge(z), eta), rtol=1e-13, atol=1e-300
    )


@given(eta=etas)
def test_rescaled_hinge_is_one_at_margin_zero_and_never_above_beta(eta):
    loss = RescaledHinge(eta)
    np.testing.assert_allclose(loss.value(0.0), 1.0, rtol=1e-14)
    values = loss.value(np.linspace(-1e3, 1.0, 101))
    assert np.all(values <= literal.beta(eta) * (1 + 1e-15))
    assert np.all(np.diff(values) <= 0)


@pytest.mark.parametrize("eta", ETAS)
def test_weight_is_minus_the_slope_of_the_loss(eta):
    loss, h = RescaledHinge(eta), 1e-6
    for z in (-1.0, -0.3, 0.4, 0.9):
        slope = (loss.value(z + h) - loss.value(z - h)) / (2 * h)
        np.testing.assert_allclose(loss.weight(z), -slope, rtol=1e-5)


@pytest.mark.parametrize(("eta", "largest"), [(0.01, 1.005), (0.5, 1.27), (1.0, 1.58), (3.0, 3.16), (5.0, 5.03)])
def test_largest_weight_is_beta_eta(eta, largest):
    assert RescaledHinge(eta).weight(1.0) == pytest.approx(largest, abs=6e-3)


@pytest.mark.parametrize("eta", [1e-300, 1e-16, 1e-12, 1e-8, 1e-3, 1.0, 30.0, 700.0])
def test_beta_eta_is_right_to_the_last_digits_for_any_eta(eta):
    getcontext().prec = 700
    exact = Decimal(eta) / (1 - (-Decimal(eta)).exp())
    np.testing.assert_allclose(RescaledHinge(eta).slope, float(exact), rtol=4e-16)


@given(z=margins, eta=st.floats(1e-6, 5.0))
def test_the_weight_attains_the_half_quadratic_supremum(z, eta):
    """exp(-eta l) = sup over v < 0 of eta l v - g(v), g(v) = -v log(-v) + v, attained at v = -omega (Eqs. 13-17)."""
    l = float(hinge(z))

    def dual(v):
        return eta * l * v - (-v * np.log(-v) + v)

    omega = float(RescaledHinge(eta).plausibility(z))
    attained = dual(-omega)
    np.testing.assert_allclose(attained, np.exp(-eta * l), rtol=1e-12, atol=1e-300)
    assert all(dual(-omega * factor) <= attained * (1 + 1e-12) for factor in (0.2, 0.9, 1.1, 5.0))


def test_the_rescaled_hinge_tends_to_the_hinge_as_eta_vanishes():
    z = np.linspace(-5.0, 2.0, 50)
    np.testing.assert_allclose(RescaledHinge(1e-9).value(z), hinge(z), rtol=1e-7)
    np.testing.assert_allclose(RescaledHinge(1e-9).weight(z), 1.0, rtol=1e-7)
    np.testing.assert_array_equal(RescaledHinge(0.0).value(z), hinge(z))
    np.testing.assert_array_equal(RescaledHinge(0.0).weight(z), np.ones(50))


def test_the_hinge_gives_every_triplet_the_same_weight():
    z = np.array([-1e300, -3.0, 0.0, 1.0, 2.0])
    np.testing.assert_array_equal(Hinge().weight(z), np.ones(5))
    np.testing.assert_array_equal(Hinge().plausibility(z), np.ones(5))
    assert Hinge().params == (1.0, 0.0)


@given(z=margins, further=st.floats(1e-3, 10.0), eta=etas)
def test_plausibility_falls_with_the_hinge_and_stays_in_the_half_open_unit_interval(z, further, eta):
    loss = RescaledHinge(eta)
    near, far = loss.plausibility(z), loss.plausibility(min(z, 1.0) - further)
    assert 0.0 < far <= near <= 1.0
    assert far < near or near < 1e-300


@pytest.mark.parametrize("z", [-1e3, -1e8, -1e300])
def test_plausibility_is_never_zero_however_large_the_hinge(z):
    assert RescaledHinge(5.0).plausibility(z) > 0.0


@given(z=margins, eta=st.one_of(st.just(0.0), etas))
def test_the_scalar_weight_of_the_loops_is_the_weight_of_the_loss(z, eta):
    loss = RescaledHinge(eta)
    scalar = loss.weight_of_hinge(float(hinge(z)), *loss.params)
    np.testing.assert_allclose(scalar, loss.weight(z), rtol=1e-14, atol=1e-300)
    assert exponential_weight(3.0, 1.0, 0.0) == 1.0


def test_losses_are_found_by_name_and_refused_by_a_wrong_one():
    assert as_loss("hinge", 3.0) == Hinge()
    assert as_loss("rescaled_hinge", 3.0) == RescaledHinge(3.0)
    own = RescaledHinge(0.3)
    assert as_loss(own, 9.0) is own
    with pytest.raises(ValueError, match="unknown loss 'hunge'"):
        as_loss("hunge", 1.0)


def test_losses_keep_float32_margins_and_compare_by_value():
    z = np.linspace(-3, 2, 40, dtype=np.float32)
    for loss in (Hinge(), RescaledHinge(2.0)):
        np.testing.assert_allclose(loss.value(z), loss.value(z.astype(np.float64)), rtol=1e-5, atol=1e-6)
        assert isinstance(loss, Loss)
    assert RescaledHinge(2.0) == RescaledHinge(2.0) != RescaledHinge(2.5)


def _cut_weight(hinge, reach, unused):
    """Full trust up to a hinge of ``reach``, none beyond."""
    return 1.0 if hinge < reach else 0.0


class CutHinge:
    """A loss of one's own: the hinge cut flat at ``reach``."""

    def __init__(self, reach):
        self.reach = reach
        self.params = (float(reach), 0.0)
        self.weight_of_hinge = _cut_weight

    def value(self, z):
        return np.minimum(hinge(z), self.reach)

    def weight(self, z):
        return (hinge(z) < self.reach).astype(float)

    def plausibility(self, z):
        return np.maximum(self.weight(z), np.finfo(float).tiny)


@pytest.mark.parametrize(
    ("own", "plain"),
    [
        (RobustODML(loss=CutHinge(1.2), C=0.2, scale=None), ODML(C=0.2, scale=None)),
        (RobustLODML(loss=CutHinge(1.2), C=0.2, scale=None), RobustLODML(loss="hinge", C=0.2, scale=None)),
    ],
    ids=["full", "lowrank"],
)
def test_a_loss_of_ones_own_decides_what_is_learned(own, plain, rng):
    """Triplets beyond the reach are not learned, so leaving them out before learning gives the same metric."""
    anchors, positives, negatives = 0.05 * rng.normal(size=(3, 40, 4))  # all hinges begin within 1.2 of the kink
    positives[::4] = anchors[::4] + 2.0 + rng.random((10, 4))  # except these, whose positive is far away
    kept = np.arange(40) % 4 != 0
    model = own.fit_triplets(anchors, positives, negatives)
    expected = plain.fit_triplets(anchors[kept], positives[kept], negatives[kept])
    np.testing.assert_array_equal(model.metric_, expected.metric_)
    assert model.n_updates_ == expected.n_updates_ == 30
    np.testing.assert_array_equal(model.plausibility_ == 1.0, kept)
