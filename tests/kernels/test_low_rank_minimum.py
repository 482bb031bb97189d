"""The exact low-rank step is always the global minimiser: a duality gap of zero proves it.

For ``min 1/2 |L - L_t|^2 + C max(0, 1 - tr(L'SL))`` every tau in [0, min(C, 1 / m_plus)] gives a lower bound,
``D(tau) = tau + 1/2 |L_t|^2 - 1/2 tr(L_t' (I - 2 tau S)^-1 L_t)``. It is concave, and the best bound is the minimum.
"""

import numpy as np
import pytest

import nearkin
from each import each
from nearkin.kernels import StepRule, TripletRows, lowrank
from nearkin.losses import Hinge, RescaledHinge
from nearkin.measures import DISTANCE, SIMILARITY
from reference import lowrank as literal
from reference.common import distance_direction, similarity_direction
from reference.oracles import objective_lowrank

CS = (1e-9, 1e-6, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e6)
MEASURES = {"distance": DISTANCE, "similarity": SIMILARITY}


def best_bound(L_t, A, C):
    """The largest lower bound, by golden sections of a concave function."""
    values, vectors = np.linalg.eigh(A + A.T)
    squares = ((vectors.T @ L_t) ** 2).sum(axis=1)
    squares[squares < 1e-24 * max(1.0, squares.max())] = 0.0

    def bound(tau):
        left = np.maximum(1.0 - tau * values, 1e-300)
        return tau - 0.5 * tau * (squares * values / left).sum()

    low, high = 0.0, min(C, 1.0 / values[-1]) if values[-1] > 1e-13 * np.abs(values).max() else C
    ends = bound(low), bound(high)
    ratio = (np.sqrt(5.0) - 1.0) / 2.0
    for _ in range(200):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (a, high) if bound(a) < bound(b) else (low, b)
    return max(*ends, bound(0.5 * (low + high)))


def step(measure, L_t, triplet, C, loss=None):
    """L after one triplet by the compiled loop, whether it counts as an update, and its plausibility."""
    components, plausibility = np.array(L_t.T, order="C"), np.ones(1)
    rows = TripletRows(*(one[None] for one in triplet), *np.zeros((3, 1), np.int64))
    loss = loss or Hinge()
    rule = StepRule(np.array([C]), loss.params, 3)
    updates = lowrank.exact.run(loss, components, rows, rule, measure.is_distance, (1.0, 1), plausibility)
    return components.T, updates, plausibility[0]


def along(measure, L_t, triplet, rng):
    """L_t without its part along the first direction of the triplet: the hard case."""
    A = (distance_direction if measure.is_distance else similarity_direction)(*triplet)
    e = np.linalg.eigh(A + A.T)[1][:, -1]
    return L_t - np.outer(e, e @ L_t)


def draw(kind, measure, rng):
    """A factor and a triplet of some kind."""
    d, r = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    L = rng.normal(size=(d, r)) * 10.0 ** rng.uniform(-2, 1)
    triplet = rng.normal(size=(3, d)) * 10.0 ** rng.uniform(-1, 1)
    if kind == "collinear":
        triplet = triplet[:1] * np.array([[1.0], [rng.normal()], [rng.normal()]])
    elif kind == "opposite":
        triplet = triplet[[0, 1, 0]]  # the negative is the anchor
    elif kind == "orthogonal":
        d = 4
        L, triplet = rng.normal(size=(d, r)), np.zeros((3, d))
        triplet[0, 0], triplet[1, 1], triplet[2, 2] = rng.normal(size=3)
    elif kind == "rank-deficient":
        d = 5
        L, triplet = np.eye(d, 2), rng.normal(size=(3, d))
        triplet[:, :2] = triplet[0, :2]  # all that differs lies where L sees nothing
    elif kind == "zero":
        L = np.zeros_like(L)
    elif kind == "dead output":
        L[:, -1] = 0.0
    if kind in ("hard", "dead output"):
        L = along(measure, L, triplet, rng)
    return L, triplet


KINDS = ("any", "collinear", "opposite", "orthogonal", "rank-deficient", "zero", "hard", "dead output")


@each(kind=KINDS, measure=tuple(MEASURES))
def test_no_lower_objective_exists_for_any_cap(kind, measure, rng):
    measure = MEASURES[measure]
    signed = distance_direction if measure.is_distance else similarity_direction
    active = 0
    for C in CS:
        for _ in range(12):
            L_t, triplet = draw(kind, measure, rng)
            A = signed(*triplet)
            if np.sum(A * (L_t @ L_t.T)) >= 1.0 or not np.any(A):
                continue
            active += 1
            L, _, _ = step(measure, L_t, triplet, C)
            found, least = objective_lowrank(L, L_t, A, C), best_bound(L_t, A, C)
            rounding = C * 1e-12 * (1.0 + np.linalg.norm(A) * np.sum(L_t**2) + np.linalg.norm(A) * np.sum(L**2))
            assert found - least <= 2e-6 * least + rounding, (C, found, least)
    assert active > 20


@each(kind=("hard", "zero", "dead output"), measure=tuple(MEASURES))
def test_a_capped_hard_step_stays_and_an_uncapped_one_reaches_the_margin(kind, measure, rng):
    measure = MEASURES[measure]
    signed = distance_direction if measure.is_distance else similarity_direction
    started = 0
    for _ in range(40):
        L_t, triplet = draw(kind, measure, rng)
        A = signed(*triplet)
        m_plus = np.linalg.eigvalsh(A + A.T)[-1]
        if np.sum(A * (L_t @ L_t.T)) >= 1.0 or m_plus < 1e-9:
            continue
        L, updates, _ = step(measure, L_t, triplet, 0.99 / m_plus)
        e = np.linalg.eigh(A + A.T)[1][:, -1]
        np.testing.assert_allclose(e @ L, 0.0, atol=1e-7 * max(1.0, np.abs(L_t).max()))
        assert (updates > 0) == bool(np.any((A + A.T) @ L_t))
        L, updates, plausibility = step(measure, L_t, triplet, 2.0 / m_plus)
        assert updates == 1
        assert np.sum(A * (L @ L.T)) == pytest.approx(1.0, abs=1e-9)
        assert plausibility == 1.0  # of the plain hinge
        started += 1
    assert started > 20


@each(kind=KINDS, measure=tuple(MEASURES), eta=[0.0, 0.5, 3.0], C=[1e-3, 0.3, 30.0])
def test_the_loop_is_its_literal_twin_in_the_hard_case_too(kind, measure, eta, C, rng):
    bound = getattr(literal, f"{measure}_bound")
    run = {"distance": literal.lodml, "similarity": literal.losl}[measure]
    signed = {"distance": distance_direction, "similarity": similarity_direction}[measure]
    for _ in range(10):
        L_t, triplet = draw(kind, MEASURES[measure], rng)
        if bound(*triplet) > 1e9:
            continue
        L, updates, plausibility = step(MEASURES[measure], L_t, triplet, C, RescaledHinge(eta))
        expected = run([tuple(triplet)], C, L_t, eta)
        A = signed(*triplet)
        # Margin and length of the step: rounding may choose the sign of a part that begins.
        pairs = [(np.sum(A * (one @ one.T)), np.sum((one - L_t) ** 2)) for one in (L, expected.parameter)]
        np.testing.assert_allclose(*pairs, rtol=1e-6, atol=1e-6)
        assert updates == expected.n_updates
        assert plausibility == pytest.approx(max(expected.plausibility[0], 2.3e-308), rel=1e-9)


def test_single_precision_starts_too(rng):
    L_t, triplet = np.eye(4, 2, dtype=np.float32), np.zeros((3, 4), np.float32)
    triplet[2, 3] = 2.0  # the negative differs where L sees nothing
    L, updates, _ = step(DISTANCE, L_t, triplet, 5.0)
    assert updates == 1
    assert L.dtype == np.float32
    assert np.sum(L[3] ** 2) * 4.0 == pytest.approx(1.0, rel=1e-5)
    assert L[3, 0] == pytest.approx(0.0, abs=1e-6)  # of equal components the last takes it


def test_a_truncated_identity_learns_the_features_it_does_not_see(rng):
    """Two of four features, and classes that differ in a third: with a cap that is long enough it comes in."""
    X = rng.normal(size=(60, 4)) * [0.0, 0.0, 0.1, 0.1]
    y = np.arange(60) % 2
    X[:, 2] += 0.9 * y
    model = nearkin.LODML(2, C=5.0, init="identity", triplets="octg", scale=None, random_state=0).fit(X, y)
    assert np.abs(model.components_[:, 2]).max() > 0.3


def test_a_learner_that_sees_nothing_does_not_count_updates():
    model = nearkin.LODML(C=1e-3, init=np.zeros((1, 2)), scale=None)
    model.fit_triplets([[0.0, 0.0]], [[1.0, 0.0]], [[0.0, 1.0]])
    assert model.n_updates_ == 0
    assert not model.components_.any()
