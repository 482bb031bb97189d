"""The laws of one half-quadratic passive-aggressive step, whatever the data."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import nearkin
from nearkin import steps
from nearkin.kernels import StepRule, TripletRows, cone
from nearkin.kernels.inverse import bound_of, start_tracking
from nearkin.losses import Hinge, RescaledHinge, exponential_weight
from nearkin.measures import DISTANCE, SIMILARITY
from reference.common import distance_direction, similarity_direction
from reference.lowrank import prox
from reference.oracles import (
    negative_eigenpairs,
    objective_full,
    objective_lowrank,
    prox_full_numeric,
    prox_lowrank_numeric,
    psd_clip,
)

MEASURES = [pytest.param(DISTANCE, id="distance"), pytest.param(SIMILARITY, id="similarity")]

seeds = st.integers(0, 2**32 - 1)
caps = st.floats(-4.0, 2.0).map(lambda e: 10.0**e)
etas = st.floats(0.01, 5.0)


def make(name, **parameters):
    return getattr(nearkin, name)(scale=None, **parameters)


def signed_matrix(measure, x, positive, negative):
    return (distance_direction if measure.is_distance else similarity_direction)(x, positive, negative)


def problem(measure, seed, d=4, r=2, scale=0.7):
    """A random matrix, factor and triplet with a positive loss."""
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(d, r)) / np.sqrt(d)
    M = rng.normal(size=(d, d)) / np.sqrt(d)
    if measure.is_distance:
        M = M @ M.T
    x, positive, negative = scale * rng.normal(size=(3, d))
    A = signed_matrix(measure, x, positive, negative)
    g, h = measure.directions(x, positive, negative)
    return M, L, A, g, h


def curve_of(L, g, h):
    p, q = L.T @ g, L.T @ h
    return steps.factored_curve(g @ g, h @ h, g @ h, p @ p, q @ q, p @ q)


def linear_step(M, A, C, loss, n_iter):
    curve = (float((A * M).sum()), float((A * A).sum()))
    return steps.half_quadratic(
        steps.linear_z, curve, steps.linear_kink(curve), C, exponential_weight, loss.params, n_iter
    )


def factored_step(L, g, h, C, loss, n_iter):
    curve = curve_of(L, g, h)
    return steps.half_quadratic(
        steps.factored_z, curve, steps.factored_kink(curve), C, exponential_weight, loss.params, n_iter
    )


# ---------------------------------------------------------------- the kink is reached, never passed


@pytest.mark.parametrize("measure", MEASURES)
@given(seed=seeds, eta=st.one_of(st.just(0.0), etas), n_iter=st.integers(1, 5))
def test_an_uncapped_full_step_reaches_the_kink(measure, seed, eta, n_iter):
    M, _, A, _, _ = problem(measure, seed)
    assume((A * M).sum() < 1.0)
    tau, _ = linear_step(M, A, np.inf, RescaledHinge(eta), n_iter)
    np.testing.assert_allclose((A * (M + tau * A)).sum(), 1.0, atol=1e-10)


@pytest.mark.parametrize("measure", MEASURES)
@given(seed=seeds, eta=st.one_of(st.just(0.0), etas), n_iter=st.integers(1, 5))
def test_an_uncapped_low_rank_step_reaches_the_kink(measure, seed, eta, n_iter):
    _, L, A, g, h = problem(measure, seed)
    assume((A * (L @ L.T)).sum() < 1.0)
    tau, _ = factored_step(L, g, h, np.inf, RescaledHinge(eta), n_iter)
    moved = prox(L, A, tau)
    np.testing.assert_allclose((A * (moved @ moved.T)).sum(), 1.0, atol=1e-6)


@pytest.mark.parametrize("measure", MEASURES)
@given(seed=seeds, C=caps, eta=st.one_of(st.just(0.0), etas), n_iter=st.integers(1, 5))
def test_a_capped_step_never_overshoots_the_kink(measure, seed, C, eta, n_iter):
    M, L, A, g, h = problem(measure, seed)
    assume((A * M).sum() < 1.0 and (A * (L @ L.T)).sum() < 1.0)
    tau, _ = linear_step(M, A, C, RescaledHinge(eta), n_iter)
    assert (A * (M + tau * A)).sum() <= 1.0 + 1e-12 * max(1.0, np.abs(M).max())
    tau, _ = factored_step(L, g, h, C, RescaledHinge(eta), n_iter)
    moved = prox(L, A, tau)
    assert (A * (moved @ moved.T)).sum() <= 1.0 + 1e-6


@pytest.mark.parametrize("C", [1e12, 1e100, np.inf])
def test_the_exact_step_on_the_cone_does_not_care_how_large_a_large_cap_is(C, random_triplets):
    sets = random_triplets(15, 4, 0.6)
    enough = make("ODML", C=1e3, psd="exact").fit_triplets(*sets)
    model = make("ODML", C=C, psd="exact").fit_triplets(*sets)
    np.testing.assert_allclose(model.metric_, enough.metric_, atol=1e-9)


# ---------------------------------------------------------------- half-quadratic iterations


@pytest.mark.parametrize("measure", MEASURES)
@given(seed=seeds, C=caps, eta=etas)
def test_the_true_objective_never_rises_under_half_quadratic_iterations_in_m(measure, seed, C, eta):
    M, _, A, _, _ = problem(measure, seed)
    assume((A * M).sum() < 1.0)
    taus = [0.0, *(linear_step(M, A, C, RescaledHinge(eta), n)[0] for n in range(1, 8))]
    values = [objective_full(M + tau * A, M, A, C, eta) for tau in taus]
    assert np.all(np.diff(values) <= 1e-12 * max(1.0, values[0]))


@pytest.mark.parametrize("measure", MEASURES)
@given(seed=seeds, C=caps, eta=etas)
def test_the_true_objective_never_rises_under_half_quadratic_iterations_in_l(measure, seed, C, eta):
    _, L, A, g, h = problem(measure, seed)
    assume((A * (L @ L.T)).sum() < 1.0)
    taus = [0.0, *(factored_step(L, g, h, C, RescaledHinge(eta), n)[0] for n in range(1, 8))]
    values = [objective_lowrank(prox(L, A, tau), L, A, C, eta) for tau in taus]
    assert np.all(np.diff(values) <= 1e-8 * max(1.0, values[0]))


@pytest.mark.parametrize("measure", MEASURES)
@given(seed=seeds, C=caps, eta=etas)
def test_steps_grow_over_half_quadratic_iterations_up_to_c_beta_eta(measure, seed, C, eta):
    M, L, A, g, h = problem(measure, seed)
    assume((A * M).sum() < 1.0 and (A * (L @ L.T)).sum() < 1.0)
    loss = RescaledHinge(eta)
    full = [linear_step(M, A, C, loss, n)[0] for n in range(1, 8)]
    low = [factored_step(L, g, h, C, loss, n)[0] for n in range(1, 8)]
    for taus in (full, low):
        assert np.all(np.diff(taus) >= 0.0)
        assert 0.0 <= taus[-1] <= C * loss.slope * (1 + 1e-15)


@given(seed=seeds, C=caps)
def test_the_full_step_is_the_minimiser_found_without_a_closed_form(seed, C):
    for measure in (DISTANCE, SIMILARITY):
        M, _, A, _, _ = problem(measure, seed % 17, d=3)
        if (A * M).sum() >= 1.0:
            continue
        tau, _ = linear_step(M, A, C, Hinge(), 1)
        value = objective_full(M + tau * A, M, A, C)
        _, best = prox_full_numeric(M, A, C, n_starts=2)
        assert value <= best + 1e-9 * max(1.0, best)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("C", [0.02, 0.3, 3.0])
def test_the_low_rank_step_is_the_global_minimiser_found_from_many_starts(measure, C, global_seed):
    for trial in range(4):
        _, L, A, g, h = problem(measure, 100 * global_seed + trial, d=3, r=2)
        if (A * (L @ L.T)).sum() >= 1.0:
            continue
        tau, _ = factored_step(L, g, h, C, Hinge(), 1)
        value = objective_lowrank(prox(L, A, tau), L, A, C)
        _, best = prox_lowrank_numeric(L, A, C, n_starts=6)
        assert value <= best + 1e-7 * max(1.0, best)


# ---------------------------------------------------------------- implausible triplets


@given(hinge=st.floats(1.0, 60.0), C=caps)
def test_a_huge_hinge_means_a_tiny_step_as_eta_grows(hinge, C):
    curve = (1.0 - hinge, 5.0)
    taus = [
        steps.half_quadratic(
            steps.linear_z, curve, steps.linear_kink(curve), C, exponential_weight, RescaledHinge(eta).params, 1
        )[0]
        for eta in (2.0, 5.0, 20.0, 100.0, 700.0)
    ]
    assert np.all(np.diff(taus) <= 0.0)
    assert taus[-1] <= C * 700.0 * np.exp(-700.0) * 2


@given(near=st.floats(0.0, 5.0), further=st.floats(0.01, 5.0), eta=etas)
def test_a_larger_hinge_means_a_smaller_weight(near, further, eta):
    params = RescaledHinge(eta).params
    assert exponential_weight(near + further, *params) < exponential_weight(near, *params)


# ---------------------------------------------------------------- the cone


@given(seed=seeds, rank=st.integers(1, 4), tau=st.floats(0.0, 20.0))
def test_a_distance_step_leaves_at_most_one_negative_eigenvalue(seed, rank, tau):
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(4, rank))
    A = distance_direction(*rng.normal(size=(3, 4)))
    values, _ = negative_eigenpairs(half @ half.T + tau * A)
    assert np.count_nonzero(values < -1e-10) <= 1


@given(seed=seeds, tau=st.floats(0.0, 5.0))
def test_the_determinant_tells_whether_a_step_leaves_the_cone(seed, tau):
    """phi(tau) = (1 - tau a)(1 + tau b) + tau^2 c^2 >= 0 iff no negative eigenvalue, for M positive definite."""
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(4, 4))
    M = half @ half.T + 0.1 * np.eye(4)
    x, positive, negative = rng.normal(size=(3, 4))
    u, v = x - positive, x - negative
    a, b, c = u @ np.linalg.solve(M, u), v @ np.linalg.solve(M, v), u @ np.linalg.solve(M, v)
    phi = (1 - tau * a) * (1 + tau * b) + (tau * c) ** 2
    N = M + tau * distance_direction(x, positive, negative)
    np.testing.assert_allclose(phi, np.linalg.det(N) / np.linalg.det(M), rtol=1e-6, atol=1e-6 * (1 + tau) ** 2)
    assume(abs(phi) > 1e-8)
    assert (phi > 0) == (np.linalg.eigvalsh(N)[0] > 0)


@given(seed=seeds, C=st.sampled_from([0.05, 0.5, 5.0]), eta=st.sampled_from([0.0, 0.3]))
def test_each_project_step_is_the_clipped_step_and_stays_in_the_cone(seed, C, eta):
    rng = np.random.default_rng(seed)
    d, n = 4, 6
    M, loss = np.eye(d), RescaledHinge(eta)
    state = start_tracking(d)
    x, positive, negative = 0.6 * rng.normal(size=(3, n, d))
    for t in range(n):
        A = distance_direction(x[t], positive[t], negative[t])
        before, weight = M.copy(), np.ones(1)
        rows = TripletRows(x, positive, negative, *np.full((3, 1), t))
        cone.project.run(loss, M, rows, StepRule(np.array([C]), loss.params, 3), state, weight)
        values = np.linalg.eigvalsh(M)
        assert values[0] >= -1e-13 * max(1.0, values[-1])
        assert bound_of(state) <= values[0] + 1e-13 * max(1.0, values[-1])  # it is a bound
        if (A * before).sum() < 1.0:
            tau, _ = linear_step(before, A, C, loss, 3)
            np.testing.assert_allclose(M, psd_clip(before + tau * A), atol=1e-12 * max(1.0, values[-1]))
        else:
            np.testing.assert_array_equal(M, before)


def test_the_learned_distance_is_one_after_every_triplet(random_triplets):
    x, positive, negative = random_triplets(60, 5, 0.5)
    model = make("ODML", C=1.0)
    for t in range(60):
        model.partial_fit_triplets(x[t : t + 1], positive[t : t + 1], negative[t : t + 1])
        values = np.linalg.eigvalsh(model.metric_)
        assert values[0] >= -1e-13 * values[-1]
        np.testing.assert_allclose(model.metric_, model.metric_.T, atol=1e-13 * values[-1])


def test_the_exact_step_on_the_cone_is_never_worse_than_step_then_project(global_seed):
    """And it is the minimiser that a solver without a closed form finds (Eq. 24)."""
    better = 0
    for trial in range(8):
        rng = np.random.default_rng(1000 * global_seed + trial)
        sets = 0.7 * rng.normal(size=(3, 5, 3))
        start = make("ODML", C=0.5).fit_triplets(*sets[:, :4])
        M, A = start.metric_.copy(), distance_direction(*sets[:, 4])
        if (A * M).sum() >= 1.0:
            continue
        values = {}
        for psd, sweep in (("project", cone.project), ("exact", cone.exact)):
            N, state = M.copy(), start_tracking(3)
            state.numbers[0] = 0.0  # nothing is known of the smallest eigenvalue
            rule = StepRule(np.array([1.0]), (1.0, 0.0), 1)
            sweep.run(Hinge(), N, TripletRows(*sets, *np.full((3, 1), 4)), rule, state, np.ones(1))
            values[psd] = objective_full(N, M, A, 1.0)
        assert values["exact"] <= values["project"] + 1e-10
        better += values["exact"] < values["project"] - 1e-6
        _, best = prox_full_numeric(M, A, 1.0, psd=True, n_starts=2)
        assert values["exact"] <= best + 1e-6
    assert better > 0


# ---------------------------------------------------------------- OPML is the low-rank step


@given(seed=seeds, share=st.floats(0.01, 0.9))
def test_the_opml_step_is_the_low_rank_step_with_half_its_lambda(seed, share):
    """L <- (I + lambda (uu' - vv'))^-1 L, also in the expanded form of its authors."""
    rng = np.random.default_rng(seed)
    d = 4
    L = rng.normal(size=(d, d))
    x, positive, negative = 0.5 * rng.normal(size=(3, d))
    u, v = x - positive, x - negative
    g, h = DISTANCE.directions(x, positive, negative)
    curve = curve_of(L, g, h)
    lam = 2.0 * share / curve[2]
    B = lam * (np.outer(u, u) - np.outer(v, v))
    opml = np.linalg.solve(np.eye(d) + B, L)
    trace = np.trace(B)
    det = 1 + trace + 0.5 * (trace**2 - np.trace(B @ B))
    expanded = L - ((1 + trace) * B - B @ B) @ L / det
    a1, a2, b1, b2 = steps.factored_update(0.5 * lam, curve, g @ g, h @ h, g @ h)
    p, q = L.T @ g, L.T @ h
    ours = L + np.outer(g, a1 * p + a2 * q) + np.outer(h, b1 * p + b2 * q)
    scale = np.abs(opml).max()
    np.testing.assert_allclose(ours, opml, atol=1e-9 * scale)
    np.testing.assert_allclose(ours, expanded, atol=1e-8 * scale)


def test_lodml_of_full_rank_with_a_small_cap_is_opml(random_triplets):
    x, positive, negative = random_triplets(40, 5, 0.3)
    C = 1e-3
    L = np.eye(5)
    for t in range(40):
        u, v = x[t] - positive[t], x[t] - negative[t]
        if 1 + ((L.T @ u) ** 2).sum() - ((L.T @ v) ** 2).sum() > 0:
            L = np.linalg.solve(np.eye(5) + 2 * C * (np.outer(u, u) - np.outer(v, v)), L)
    model = make("LODML", C=C, init="identity").fit_triplets(x, positive, negative)
    np.testing.assert_allclose(model.components_.T, L, atol=1e-12)
