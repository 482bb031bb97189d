"""Every learner against its literal twin, triplet by triplet."""

import numpy as np
import pytest

import nearkin
from compiled import Compiled
from each import each
from nearkin import losses, steps
from nearkin.kernels import formulas as scalar
from nearkin.measures import DISTANCE, SIMILARITY
from reference import full, lowrank
from reference.losses import plausibility

LOW_RANK = {"LOSL": lowrank.losl, "LODML": lowrank.lodml}
FULL = {"OASIS": full.oasis, "ODML": full.odml}
PSD = ("project", "exact", "end", "none")


def assert_same_run(model, run, *, tolerance, parameter):
    """Parameter, plausibilities and number of updates; ``tolerance`` is relative to the largest entry."""
    size = max(1.0, np.abs(run.parameter).max())
    np.testing.assert_allclose(parameter(model), run.parameter, rtol=0, atol=tolerance * size)
    np.testing.assert_allclose(model.plausibility_, run.plausibility, rtol=0, atol=tolerance * 10)
    assert model.n_updates_ == run.n_updates


def metric(model):
    return model.metric_


def factor(model):
    return model.components_.T


# ---------------------------------------------------------------- full matrix


@each(C=[0.01, 0.1, 1.0, 1e3], eta=[0.0, 0.3, 1.0, 3.0])
def test_robust_oasis_is_algorithm_1(C, eta, random_triplets):
    sets = random_triplets(150, 7, 0.6)
    model = nearkin.RobustOASIS(C=C, eta=eta, scale=None).fit_triplets(*sets)
    run = full.oasis(zip(*sets, strict=True), C, eta)
    assert run.n_updates > 20
    assert_same_run(model, run, tolerance=1e-12, parameter=metric)


@each(psd=PSD, C=[0.01, 0.1, 1.0], eta=[0.0, 0.3, 1.0, 3.0])
def test_robust_odml_is_algorithm_2(C, eta, psd, random_triplets):
    n, d = (25, 4) if psd == "exact" else (120, 6)
    sets = random_triplets(n, d, 0.6)
    model = nearkin.RobustODML(C=C, eta=eta, psd=psd, scale=None).fit_triplets(*sets)
    run = full.odml(zip(*sets, strict=True), C, eta, psd=psd)
    assert run.n_updates > 5
    assert_same_run(model, run, tolerance=1e-12, parameter=metric)


@pytest.mark.parametrize("psd", ["project", "exact", "end"])
def test_the_cone_matters_on_the_triplets_of_these_tests(psd, random_triplets):
    """Otherwise agreement with the twin would say nothing about the projection."""
    sets = random_triplets(120, 4, 0.6)
    free = nearkin.RobustODML(C=1.0, eta=0.3, psd="none", scale=None).fit_triplets(*sets)
    assert np.linalg.eigvalsh(free.metric_)[0] < -1e-3
    model = nearkin.RobustODML(C=1.0, eta=0.3, psd=psd, scale=None).fit_triplets(*sets)
    assert np.linalg.eigvalsh(model.metric_)[0] > -1e-12
    assert np.abs(model.metric_ - free.metric_).max() > 1e-3


@pytest.mark.parametrize("C", [0.02, 0.5])
def test_oasis_and_odml_are_the_algorithms_with_the_plain_hinge(C, random_triplets):
    sets = random_triplets(120, 6, 0.6)
    triplets = list(zip(*sets, strict=True))
    oasis, odml = nearkin.OASIS(C=C, scale=None), nearkin.ODML(C=C, scale=None)
    assert_same_run(oasis.fit_triplets(*sets), full.oasis(triplets, C), tolerance=1e-12, parameter=metric)
    assert_same_run(odml.fit_triplets(*sets), full.odml(triplets, C), tolerance=1e-12, parameter=metric)


@pytest.mark.parametrize("max_hq_iter", [1, 3, 7])
def test_full_matrix_learners_take_max_hq_iter_half_quadratic_iterations(max_hq_iter, random_triplets):
    sets = random_triplets(80, 5, 0.6)
    triplets = list(zip(*sets, strict=True))
    common = {"C": 0.2, "eta": 1.5, "max_hq_iter": max_hq_iter}
    oasis = nearkin.RobustOASIS(**common, scale=None).fit_triplets(*sets)
    assert_same_run(oasis, full.oasis(triplets, **common), tolerance=1e-12, parameter=metric)
    for psd in PSD:
        part = slice(0, 20 if psd == "exact" else 80)
        odml = nearkin.RobustODML(**common, psd=psd, scale=None).fit_triplets(*(one[part] for one in sets))
        assert_same_run(odml, full.odml(triplets[part], **common, psd=psd), tolerance=1e-12, parameter=metric)


@each(name=("OASIS", "ODML"), max_hq_iter=[1, 3], psd=["project", "exact"])
def test_inner_steps_add_up_where_they_are_told_to(name, max_hq_iter, psd, random_triplets):
    sets = random_triplets(20, 5, 0.6)
    common = {"C": 0.2, "eta": 1.5, "max_hq_iter": max_hq_iter, "hq": "cumulative"}
    options = {"psd": psd} if name == "ODML" else {}
    model = getattr(nearkin, f"Robust{name}")(**common, **options, scale=None).fit_triplets(*sets)
    run = FULL[name](list(zip(*sets, strict=True)), **common, **options)
    assert_same_run(model, run, tolerance=1e-12, parameter=metric)
    anchored = FULL[name](list(zip(*sets, strict=True)), **common | {"hq": "anchored"}, **options)
    assert (np.abs(anchored.parameter - run.parameter).max() > 1e-3) == (max_hq_iter > 1)


# ---------------------------------------------------------------- low rank


@each(name=tuple(LOW_RANK), C=[0.01, 0.1, 1.0], eta=[0.0, 1.0, 3.0], r=[1, 3, 6])
def test_exact_low_rank_learners_are_algorithms_3_and_4(name, C, eta, r, random_triplets, rng):
    sets = random_triplets(30, 6, 0.6)
    L0 = np.linalg.qr(rng.normal(size=(6, r)))[0]
    model = getattr(nearkin, f"Robust{name}")(C=C, eta=eta, init=L0.T, scale=None).fit_triplets(*sets)
    run = LOW_RANK[name](zip(*sets, strict=True), C, L0, eta)
    assert run.n_updates > 3
    assert_same_run(model, run, tolerance=1e-10, parameter=factor)


@each(name=tuple(LOW_RANK), eta=[0.0, 1.0, 3.0])
@pytest.mark.parametrize(("step_size", "n_steps"), [(1.0, 1), (0.5, 1), (0.3, 4)])
def test_subgradient_low_rank_learners_are_algorithms_3_and_4_as_printed(
    name, step_size, n_steps, eta, random_triplets, rng
):
    sets = random_triplets(30, 6, 0.5)
    L0 = np.linalg.qr(rng.normal(size=(6, 3)))[0]
    how = {"solver": "subgradient", "step_size": step_size, "n_steps": n_steps}
    model = getattr(nearkin, f"Robust{name}")(C=0.05, eta=eta, init=L0.T, scale=None, **how).fit_triplets(*sets)
    run = LOW_RANK[name](zip(*sets, strict=True), 0.05, L0, eta, **how)
    assert run.n_updates > 3
    assert_same_run(model, run, tolerance=1e-10, parameter=factor)


@each(name=tuple(LOW_RANK), solver=["exact", "subgradient"])
def test_losl_and_lodml_are_the_algorithms_with_the_plain_hinge(name, solver, random_triplets, rng):
    sets = random_triplets(30, 5, 0.5)
    L0 = np.linalg.qr(rng.normal(size=(5, 2)))[0]
    model = getattr(nearkin, name)(C=0.05, init=L0.T, solver=solver, scale=None).fit_triplets(*sets)
    run = LOW_RANK[name](zip(*sets, strict=True), 0.05, L0, solver=solver)
    assert_same_run(model, run, tolerance=1e-10, parameter=factor)


@each(name=tuple(LOW_RANK), solver=["exact", "subgradient"], max_hq_iter=[1, 3, 7])
def test_low_rank_learners_take_max_hq_iter_half_quadratic_iterations(name, solver, max_hq_iter, random_triplets, rng):
    sets = random_triplets(25, 5, 0.5)
    L0 = np.linalg.qr(rng.normal(size=(5, 3)))[0]
    common = {"C": 0.08, "eta": 1.5, "max_hq_iter": max_hq_iter, "solver": solver}
    model = getattr(nearkin, f"Robust{name}")(init=L0.T, scale=None, **common).fit_triplets(*sets)
    run = LOW_RANK[name](zip(*sets, strict=True), L0=L0, **common)
    assert_same_run(model, run, tolerance=1e-10, parameter=factor)


# ---------------------------------------------------------------- single precision, epochs, plausibility


BASE = ("OASIS", "ODML", "LOSL", "LODML", "OPML", "SLMOML", "OMDML", "LOMDML", "LSMDML")
LEARNERS = (*BASE, *(f"Robust{name}" for name in BASE))


@each(name=LEARNERS)
def test_single_precision_stays_close_to_double_precision(name, random_triplets):
    sets = random_triplets(60, 6, 0.5)
    double, single = (
        getattr(nearkin, name)(C=0.02, scale=None).fit_triplets(*(one.astype(kind) for one in sets))
        for kind in (np.float64, np.float32)
    )
    assert single.metric_.dtype == single.components_.dtype == np.float32
    np.testing.assert_allclose(single.metric_, double.metric_, atol=2e-5)
    np.testing.assert_allclose(single.plausibility_, double.plausibility_, atol=1e-4)


@each(name=LEARNERS)
def test_several_epochs_over_triplets_are_the_triplets_repeated(name, random_triplets):
    sets = random_triplets(30, 5, 0.5)
    learner = getattr(nearkin, name)
    twice = learner(C=0.05, n_epochs=2, scale=None).fit_triplets(*sets)
    repeated = learner(C=0.05, scale=None).fit_triplets(*(np.tile(one, (2, 1)) for one in sets))
    np.testing.assert_array_equal(twice.metric_, repeated.metric_)
    np.testing.assert_array_equal(twice.plausibility_, repeated.plausibility_[30:])


@each(name=["RobustOASIS", "RobustODML", "RobustLOSL", "RobustLODML"])
def test_plausibility_of_the_first_iteration_is_that_of_the_hinge_before_the_step(name, random_triplets):
    (x,), (positive,), (negative,) = sets = random_triplets(1, 4, 0.3)
    model = getattr(nearkin, name)(C=0.05, eta=2.0, max_hq_iter=1, scale=None).fit_triplets(*sets)
    z = (
        ((x - negative) ** 2).sum() - ((x - positive) ** 2).sum()
        if name.endswith("DML")
        else x @ positive - x @ negative
    )
    np.testing.assert_allclose(model.plausibility_, [plausibility(max(0.0, 1.0 - z), 2.0)], rtol=1e-12)


# ---------------------------------------------------------------- compiled formulas


@each(measure={"distance": DISTANCE, "similarity": SIMILARITY}, kind=[np.float64, np.float32], offset=[0.0, 1e3])
def test_compiled_directions_agree_with_those_of_the_measure(measure, kind, offset, random_triplets):
    """Also for rows far from the origin: differences of neighbours must not lose the digits that the rows have."""
    x, positive, negative = ((one + offset).astype(kind) for one in random_triplets(10, 9))
    directions = Compiled(scalar).directions
    g, h = np.empty(9, kind), np.empty(9, kind)
    expected_g, expected_h = measure.directions(x, positive, negative)
    eps = float(np.finfo(kind).eps)
    for row in range(10):
        gg, hh, gh = directions(x[row], positive[row], negative[row], measure.is_distance, g, h)
        size = np.abs(x[row] - positive[row]) + np.abs(x[row] - negative[row])
        np.testing.assert_array_less(np.abs(g - expected_g[row]), 4 * eps * size)
        np.testing.assert_array_equal(h, expected_h[row])
        exact_g, exact_h = g.astype(np.float64), h.astype(np.float64)
        products = [exact_g @ exact_g, exact_h @ exact_h, exact_g @ exact_h]
        np.testing.assert_allclose([gg, hh, gh], products, rtol=0, atol=40 * eps * max(products))
        sq_norm = 0.5 * (gg * hh + gh * gh) if measure.is_distance else gg * hh
        np.testing.assert_allclose(sq_norm, measure.squared_norm(exact_g, exact_h), rtol=200 * eps)


def test_compiled_formulas_agree_with_the_plain_ones(rng):
    """The same source, so the same numbers up to the last digits, also where it branches."""
    params = losses.RescaledHinge(1.3).params
    for _ in range(50):
        vectors, mapped = rng.normal(size=(2, 4)), 0.4 * rng.normal(size=(2, 3))
        of_gh = (vectors[0] @ vectors[0], vectors[1] @ vectors[1], vectors[0] @ vectors[1])
        of_pq = (mapped[0] @ mapped[0], mapped[1] @ mapped[1], mapped[0] @ mapped[1])
        curve = steps.factored_curve(*of_gh, *of_pq)
        line = (float(rng.uniform(-3, 1)), float(rng.uniform(0.1, 5)))
        C, n_iter, n_steps = float(rng.uniform(0.01, 2)), int(rng.integers(1, 6)), int(rng.integers(1, 5))
        share = float(rng.uniform(0, 0.9)) / curve[2]
        for module in (steps, scalar):
            weight = losses.exponential_weight if module is steps else scalar.weight
            kink = module.factored_kink(curve)
            result = np.array(
                [
                    weight(1.7, *params),
                    *module.factored_curve(*of_gh, *of_pq),
                    kink,
                    module.factored_z(share, curve),
                    *module.factored_update(share, curve, *of_gh),
                    *module.subgradient_update(0.1, 0.7, n_steps, *of_gh, *of_pq),
                    module.linear_z(0.3, line),
                    module.linear_kink(line),
                    *module.half_quadratic(module.linear_z, line, module.linear_kink(line), C, weight, params, n_iter),
                    *module.half_quadratic(module.factored_z, curve, kink, C, weight, params, n_iter),
                ]
            )
            if module is steps:
                plain = result
        np.testing.assert_allclose(result, plain, rtol=1e-11, atol=1e-13)


@each(curve=[(0.5, 1.5, 0.0, 2.0), (4.0, 12.0, 0.0, 2.0), (0.0, 0.5, 2.0, 0.1), (1e-20, 3.0, 1.0, 1.0)])
def test_compiled_kink_agrees_with_the_plain_one_where_no_step_reaches_the_margin(curve):
    assert scalar.factored_kink(curve) == steps.factored_kink(curve)
