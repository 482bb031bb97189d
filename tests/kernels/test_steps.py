"""The scalar mathematics of one step, against dense matrices and high precision."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from nearkin import steps
from nearkin.losses import RescaledHinge, exponential_weight

EPS = np.finfo(np.float64).eps
seeds = st.integers(0, 2**32 - 1)


def half_quadratic_linear(z, sq_norm, C, eta, max_hq_iter, carried=0.0):
    curve = (z, sq_norm)
    loss = RescaledHinge(eta)
    kink = steps.linear_kink(curve)
    return steps.half_quadratic(steps.linear_z, curve, kink, C, exponential_weight, loss.params, max_hq_iter, carried)


def gram(seed, d=5, r=3, scale=1.0):
    """A random L and two random directions with their two Gram matrices."""
    rng = np.random.default_rng(seed)
    L, g, h = scale * rng.normal(size=(d, r)) / np.sqrt(d), rng.normal(size=d), rng.normal(size=d)
    p, q = L.T @ g, L.T @ h
    return L, g, h, p, q, (g @ g, h @ h, g @ h), (p @ p, q @ q, p @ q)


def dense_step(L, g, h, tau):
    """(I - 2 tau sym(g h'))^-1 L by a solver that knows no structure."""
    return np.linalg.solve(np.eye(len(g)) - tau * (np.outer(g, h) + np.outer(h, g)), L)


def exact_z(tau, curve):
    """Margin after the low-rank step in 60 digits."""
    with localcontext() as context:
        context.prec = 60
        a_plus, a_minus, m_plus, m_minus, tau = map(Decimal, (*curve, tau))
        return float(a_plus / (1 - tau * m_plus) ** 2 - a_minus / (1 + tau * m_minus) ** 2)


# ---------------------------------------------------------------- Frobenius proximity in M


def test_uncapped_step_removes_the_violation_and_a_capped_one_never_overshoots():
    tau, _ = half_quadratic_linear(z=-2.0, sq_norm=4.0, C=1e9, eta=0.1, max_hq_iter=3)
    assert steps.linear_z(tau, (-2.0, 4.0)) == 1.0
    tau, _ = half_quadratic_linear(z=-2.0, sq_norm=4.0, C=0.01, eta=0.1, max_hq_iter=3)
    assert steps.linear_z(tau, (-2.0, 4.0)) < 1.0


def test_half_quadratic_loop_takes_the_steps_computed_by_hand():
    """z = 0, ||A||^2 = 2, C = 0.1, eta = 1: omega = e^-1 first, then exp(-(1 - 2 tau))."""
    slope = 1.0 / (1.0 - math.exp(-1.0))
    first = 0.1 * slope * math.exp(-1.0)
    second = 0.1 * slope * math.exp(-(1.0 - 2.0 * first))
    assert half_quadratic_linear(0.0, 2.0, 0.1, 1.0, 1) == pytest.approx((first, first / 0.1), rel=1e-15)
    assert half_quadratic_linear(0.0, 2.0, 0.1, 1.0, 2) == pytest.approx((second, first / 0.1), rel=1e-15)


def test_cumulative_iterations_add_up_the_steps_computed_by_hand():
    slope = 1.0 / (1.0 - math.exp(-1.0))
    first = 0.1 * slope * math.exp(-1.0)
    second = first + 0.1 * slope * math.exp(-(1.0 - 2.0 * first))
    found = half_quadratic_linear(0.0, 2.0, 0.1, 1.0, 2, carried=1.0)
    assert found == pytest.approx((second, first / 0.1), rel=1e-15)
    assert half_quadratic_linear(0.0, 2.0, 0.1, 1.0, 50, carried=1.0)[0] == 0.5  # the kink stops them


def test_the_plain_hinge_needs_one_half_quadratic_iteration():
    for C in (0.05, 10.0):
        once = half_quadratic_linear(-1.0, 3.0, C, 0.0, 1)
        assert once == half_quadratic_linear(-1.0, 3.0, C, 0.0, 9)
        assert once == (min(C, 2.0 / 3.0), 1.0)


# ---------------------------------------------------------------- Frobenius proximity in L


@given(seed=seeds, share=st.floats(0.0, 0.95))
def test_low_rank_margin_along_the_step_is_that_of_the_dense_inverse(seed, share):
    L, g, h, _, _, of_gh, of_pq = gram(seed)
    curve = steps.factored_curve(*of_gh, *of_pq)
    tau = share / curve[2]
    moved = dense_step(L, g, h, tau)
    z = g @ moved @ moved.T @ h
    np.testing.assert_allclose(steps.factored_z(tau, curve), z, rtol=1e-7, atol=1e-9)


@given(seed=seeds)
def test_low_rank_margin_begins_at_the_margin_itself(seed):
    _, _, _, p, q, of_gh, of_pq = gram(seed)
    curve = steps.factored_curve(*of_gh, *of_pq)
    np.testing.assert_allclose(steps.factored_z(0.0, curve), p @ q, rtol=1e-15, atol=4 * EPS * max(curve))


@given(seed=seeds, share=st.floats(0.0, 0.95))
def test_low_rank_update_in_four_numbers_is_the_dense_inverse(seed, share):
    L, g, h, p, q, of_gh, of_pq = gram(seed)
    curve = steps.factored_curve(*of_gh, *of_pq)
    tau = share / curve[2]
    a1, a2, b1, b2 = steps.factored_update(tau, curve, *of_gh)
    moved = L + np.outer(g, a1 * p + a2 * q) + np.outer(h, b1 * p + b2 * q)
    np.testing.assert_allclose(moved, dense_step(L, g, h, tau), rtol=1e-8, atol=1e-9)


@given(seed=seeds)
def test_the_curve_holds_the_two_eigenvalues_of_the_pencil(seed):
    _, g, h, _, _, of_gh, of_pq = gram(seed)
    _, _, m_plus, m_minus = steps.factored_curve(*of_gh, *of_pq)
    values = np.linalg.eigvalsh(np.outer(g, h) + np.outer(h, g))
    np.testing.assert_allclose([values[-1], -values[0]], [m_plus, m_minus], rtol=1e-10, atol=1e-12)


@given(seed=seeds)
def test_low_rank_margin_rises_up_to_the_bound(seed):
    *_, of_gh, of_pq = gram(seed)
    curve = steps.factored_curve(*of_gh, *of_pq)
    z = [steps.factored_z(share / curve[2], curve) for share in np.linspace(0.0, 0.999, 60)]
    assert np.all(np.diff(z) > 0)


@given(seed=seeds, scale=st.sampled_from([1e-3, 0.1, 0.5, 1.0]))
def test_low_rank_kink_is_where_the_margin_reaches_one(seed, scale):
    L, g, h, p, q, of_gh, of_pq = gram(seed, scale=scale)
    assume(p @ q < 1.0)
    curve = steps.factored_curve(*of_gh, *of_pq)
    kink = steps.factored_kink(curve)
    assert 0.0 < kink < 1.0 / curve[2]
    moved = dense_step(L, g, h, kink)
    np.testing.assert_allclose(g @ moved @ moved.T @ h, 1.0, rtol=1e-6)
    np.testing.assert_allclose(exact_z(kink, curve), 1.0, rtol=1e-11 / (1.0 - kink * curve[2]))


@given(
    a_plus=st.floats(-300.0, 3.0),
    m_plus=st.floats(-300.0, 30.0),
    m_minus=st.floats(-300.0, 30.0),
    z=st.one_of(st.floats(-1e6, 0.999), st.sampled_from([0.0, 1.0 - 1e-9, 1.0 - 1e-12])),
)
def test_low_rank_kink_holds_for_any_magnitudes(a_plus, m_plus, m_minus, z):
    a_plus, m_plus, m_minus = 10.0**a_plus, 10.0**m_plus, 10.0**m_minus
    assume(a_plus - z >= 0.0)
    _assert_kink((a_plus, a_plus - z, m_plus, m_minus))


@pytest.mark.parametrize(
    "curve",
    [
        (1e-12, 1e-12, 1e8, 1.0),  # the root lies on the bound to the last digit
        (1e-12, 1.000000000001, 1e8, 1e30),
        (1e-12, 1e-12, 1.0, 1.0),
        (1.0, 1.0, 1e-300, 1.0),  # the margin creeps up to 1 from below
        (0.0, 0.5, 2.0, 0.1),  # L is orthogonal to the critical direction
        (1e-300, 0.0, 1.0, 1.0),
        (5.0, 7.0, 1e-16, 3.0),
    ],
)
def test_low_rank_kink_holds_at_the_edges(curve):
    _assert_kink(curve)


def _assert_kink(curve):
    """Either the margin is 1 as nearly as the curve can be evaluated, or it stays below 1 up to the bound."""
    a_plus, a_minus, m_plus, m_minus = curve
    kink, bound = steps.factored_kink(curve), (1.0 - 1e-6) / m_plus
    assert 0.0 <= kink <= bound
    shrink, grow = 1.0 - kink * m_plus, 1.0 + kink * m_minus
    size = 1.0 + a_plus / (shrink * shrink) + a_minus / (grow * grow)
    reachable = 16 * EPS * size / shrink
    if kink == bound:
        assert exact_z(bound, curve) <= 1.0 + reachable
    else:
        assert abs(exact_z(kink, curve) - 1.0) <= reachable


def test_low_rank_kink_without_a_bound_is_the_closed_form_or_never():
    """Antiparallel g and h: the margin rises towards a_plus, which may lie below 1."""
    assert steps.factored_kink((0.5, 1.5, 0.0, 2.0)) == math.inf
    kink = steps.factored_kink((4.0, 12.0, 0.0, 2.0))
    assert kink == 0.5  # sqrt(12 / 3) = 1 + 2 tau
    assert steps.factored_z(kink, (4.0, 12.0, 0.0, 2.0)) == 1.0


@given(seed=seeds, stretch=st.floats(-4.0, 4.0).map(lambda e: 10.0**e), sign=st.sampled_from([-1.0, 1.0]))
@example(seed=0, stretch=1.0, sign=1.0)
@example(seed=0, stretch=1.0, sign=-1.0)
def test_parallel_and_antiparallel_directions_give_a_finite_exact_step(seed, stretch, sign):
    """h = +-s g: rank one, so one of the two eigenvalues is zero up to rounding."""
    rng = np.random.default_rng(seed)
    L, g = rng.normal(size=(4, 2)), 0.1 * rng.normal(size=4)
    h = sign * stretch * g
    p, q = L.T @ g, L.T @ h
    assume(p @ q < 1.0 and p @ p > 1e-12)
    curve = steps.factored_curve(g @ g, h @ h, g @ h, p @ p, q @ q, p @ q)
    C = 10.0
    tau = min(C, steps.factored_kink(curve))
    assert 0.0 <= tau <= C
    a1, a2, b1, b2 = steps.factored_update(tau, curve, g @ g, h @ h, g @ h)
    moved = L + np.outer(g, a1 * p + a2 * q) + np.outer(h, b1 * p + b2 * q)
    # The literal answer in one dimension: L g is scaled by 1 / (1 - 2 tau g.h).
    expected = p / (1.0 - 2.0 * tau * (g @ h))
    room = abs(1.0 - 2.0 * tau * (g @ h))
    np.testing.assert_allclose(moved.T @ g, expected, rtol=1e-11 / min(1.0, room), atol=1e-12 * np.abs(p).max())
    assert moved.T @ g @ (moved.T @ h) <= 1.0 + 1e-8


# ---------------------------------------------------------------- sub-gradient steps


@given(
    seed=seeds,
    C_t=st.floats(0.0, 0.3),
    step_size=st.floats(0.05, 1.0),
    n_steps=st.integers(1, 6),
)
def test_subgradient_steps_in_four_numbers_are_the_dense_ones(seed, C_t, step_size, n_steps):
    L_t, g, h, p, q, of_gh, of_pq = gram(seed)
    both = np.outer(g, h) + np.outer(h, g)
    L, z = L_t, p @ q
    for _ in range(n_steps):
        pull = C_t * both @ L if z < 1.0 else 0.0
        L = L - step_size * ((L - L_t) - pull)
        z = g @ L @ L.T @ h
        assume(abs(z - 1.0) > 1e-6)  # on the kink itself rounding may decide
    a1, a2, b1, b2, reached = steps.subgradient_update(C_t, step_size, n_steps, *of_gh, *of_pq)
    moved = L_t + np.outer(g, a1 * p + a2 * q) + np.outer(h, b1 * p + b2 * q)
    np.testing.assert_allclose(moved, L, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(reached, z, rtol=1e-9, atol=1e-10)


@given(seed=seeds)
def test_one_subgradient_step_of_size_one_is_the_exact_step_to_first_order(seed):
    *_, of_gh, of_pq = gram(seed)
    assume(of_pq[2] < 0.9)
    curve = steps.factored_curve(*of_gh, *of_pq)
    C = 1e-7 / max(of_gh)
    exact = steps.factored_update(C, curve, *of_gh)
    literal = steps.subgradient_update(C, 1.0, 1, *of_gh, *of_pq)[:4]
    np.testing.assert_allclose(exact, literal, atol=C * 1e-5)
