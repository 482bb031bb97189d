"""The twins of the systems the paper compares with obey the laws of their own mathematics; nothing of nearkin here."""

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

from reference import full, hedge, itml, lowrank, lpa, multimodal, opml, pa, sketch, slmoml
from reference import kernel_similarity as kernels
from reference.common import distance_direction, similarity_direction
from reference.losses import beta as loss_beta
from reference.losses import rescaled_hinge, weight

ETAS = (0.0, 1.0, 3.0)


def rows(sets):
    """Triplets for the twins that take them one by one."""
    return zip(*sets, strict=True)


@pytest.fixture
def pairs(rng):
    """Maker of pairs: two row arrays and whether they are similar."""

    def make(n, d, scale=1.0):
        left, right = scale * rng.normal(size=(2, n, d))
        return left, right, rng.random(n) < 0.5

    return make


@pytest.fixture
def modal_triplets(rng):
    """Maker of triplets in several modalities: anchors, positives, negatives as lists of arrays."""

    def make(n, widths, scale=0.6):
        return tuple([scale * rng.normal(size=(n, d)) for d in widths] for _ in range(3))

    return make


# ---------------------------------------------------------------- every system


def every_system(eta, max_hq_iter, sets):
    """Name, run and final parameters of each triplet system on the same triplets."""
    n, d = sets[0].shape
    how = {"eta": eta, "max_hq_iter": max_hq_iter}
    modal = tuple([one, one[:, :3]] for one in sets)
    labels = [i % 3 for i in range(n)]
    projections = [sketch.random_projections(width, 4, np.random.default_rng(5)) for width in (d, 3)]
    local = lpa.lpa_odml(*sets, labels, **how)
    signs = np.where(np.arange(n) % 2, 1.0, -1.0)
    yield "OPML", (run := opml.opml(*sets, C=0.002, **how)), [run.parameter]
    yield "OPML exact", (run := opml.opml(*sets, C=0.01, exact=True, **how)), [run.parameter]
    yield "COPML", (run := opml.copml(sets[0], [0, 0, 0, *labels[3:]], C=0.002, **how)), [run.parameter]
    yield "SLMOML", (run := slmoml.slmoml(*sets, **how)), [run.parameter]
    yield "LPA-ODML", local, [local.global_part, *local.local_parts.values()]
    rbf = kernels.oks(*sets, kernel=kernels.rbf(0.5), **how)
    yield "OKS", rbf, [rbf.tau]
    several = kernels.omks(*sets, kernels=[kernels.linear, kernels.rbf(0.5)], **how)
    yield "OMKS", several, [several.tau, several.theta]
    yield "OMDML", (run := multimodal.omdml(*modal, **how)), [*run.parameters, run.theta]
    yield "LOMDML", (run := multimodal.lomdml(*modal, 2, C=0.01, **how)), [*run.parameters, run.theta]
    yield "LSMDML", (run := sketch.lsmdml(*modal, projections, **how)), [*run.parameters, run.theta]
    yield "PA", (run := pa.passive_aggressive(sets[0], signs, variant="PA", **how)), [run.parameter]
    yield "PA-I", (run := pa.passive_aggressive(sets[0], signs, C=0.1, **how)), [run.parameter]
    yield "PA-II", (run := pa.passive_aggressive(sets[0], signs, variant="PA-II", **how)), [run.parameter]
    bounds = (0.5, 3.0)
    for slack in ("itml", "hinge"):
        run = itml.online_itml(sets[0], sets[1], signs > 0, bounds, slack=slack, **how)
        yield f"ITML {slack}", run, [run.parameter]


def test_a_tiny_eta_is_the_plain_hinge_and_then_iterations_do_not_matter(random_triplets):
    sets = random_triplets(20, 5, 0.6)
    plain = list(every_system(0.0, 1, sets))
    for eta, iterations, tolerance in ((0.0, 5, 0.0), (1e-9, 3, 1e-7)):
        for (name, run, expected), (_, other, found) in zip(plain, every_system(eta, iterations, sets), strict=True):
            assert run.n_updates > 3, name
            for one, two in zip(expected, found, strict=True):
                np.testing.assert_allclose(two, one, rtol=0, atol=tolerance, err_msg=name)
            np.testing.assert_allclose(other.plausibility, 1.0, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("eta", [0.5, 2.0])
def test_plausibilities_lie_in_the_unit_interval_and_everything_is_finite(eta, random_triplets):
    sets = random_triplets(20, 5)
    for name, run, parameters in every_system(eta, 3, sets):
        assert run.plausibility.shape == (20,), name
        assert np.all((run.plausibility > 0.0) & (run.plausibility <= 1.0 + 1e-15)), name
        assert name == "PA" or run.plausibility.min() < 0.9, name  # nothing holds PA back, so it believes everything
        assert all(np.isfinite(one).all() for one in parameters), name


def test_a_triplet_that_says_nothing_changes_nothing(rng):
    x = rng.normal(size=(4, 5))
    for name, run, _ in every_system(1.0, 3, (x, x.copy(), x.copy())):
        if name not in ("PA", "PA-I", "PA-II", "COPML"):  # those look at rows, which do say something
            assert run.n_updates == 0, name


# ---------------------------------------------------------------- PA


def test_pa_1_on_the_matrices_of_triplets_is_oasis_and_odml_without_its_cone(random_triplets):
    sets = random_triplets(40, 4, 0.7)
    for direction, twin in (
        (similarity_direction, lambda **how: full.oasis(rows(sets), **how)),
        (distance_direction, lambda **how: full.odml(rows(sets), psd="none", **how)),
    ):
        vectors = np.array([direction(*triplet).ravel() for triplet in rows(sets)])
        for eta in ETAS:
            run = pa.passive_aggressive(vectors, np.ones(40), 0.1, eta=eta, w0=np.eye(4).ravel())
            expected = twin(C=0.1, eta=eta)
            np.testing.assert_allclose(run.parameter.reshape(4, 4), expected.parameter, atol=1e-13)
            np.testing.assert_allclose(run.plausibility, expected.plausibility, atol=1e-13)
            np.testing.assert_allclose(run.tau, expected.tau, atol=1e-13)


@pytest.mark.parametrize(("variant", "power"), [("PA-I", 1), ("PA-II", 2)])
@pytest.mark.parametrize("C", [0.05, 2.0])
def test_passive_aggressive_steps_minimise_their_objective(variant, power, C, rng):
    for _ in range(5):
        w, x = rng.normal(size=(2, 3))
        run = pa.passive_aggressive(x[None], np.array([1.0]), C, variant, w0=w)

        def objective(tau, w=w, x=x):
            return 0.5 * tau**2 * (x @ x) + C * max(0.0, 1.0 - x @ (w + tau * x)) ** power

        best = minimize_scalar(objective, bounds=(0.0, 20.0), method="bounded", options={"xatol": 1e-12})
        assert objective(run.tau[0]) <= best.fun + 1e-12


def test_pa_removes_the_loss_and_its_step_knows_no_weight(rng):
    X, y = rng.normal(size=(30, 4)), np.where(rng.random(30) < 0.5, 1.0, -1.0)
    plain, robust = (pa.passive_aggressive(X, y, variant="PA", eta=eta) for eta in (0.0, 2.0))
    np.testing.assert_array_equal(plain.parameter, robust.parameter)
    one = pa.passive_aggressive(X[:1], y[:1], variant="PA")
    assert abs(y[0] * X[0] @ one.parameter - 1.0) < 1e-14


@pytest.mark.parametrize("eta", [0.3, 1.0, 3.0])
def test_robust_pa_2_lowers_a_bounded_loss_at_every_iteration(eta, rng):
    def bounded(loss):
        return 2.0 * loss_beta(eta) / eta * (1.0 - (1.0 + eta * loss) * np.exp(-eta * loss))

    for _ in range(20):
        w, x = rng.normal(size=(2, 3))

        def objective(tau, w=w, x=x):
            return 0.5 * tau**2 * (x @ x) + 0.7 * bounded(max(0.0, 1.0 - x @ (w + tau * x)))

        taus = [
            pa.passive_aggressive(x[None], np.ones(1), 0.7, "PA-II", eta, max_hq_iter=n, w0=w).tau[0] for n in range(8)
        ]
        values = [objective(tau) for tau in taus]
        assert np.all(np.diff(values) <= 1e-14)
        assert np.all(np.diff(taus) >= -1e-15)


# ---------------------------------------------------------------- OPML


def test_the_authors_expanded_inverse_is_the_inverse(random_triplets):
    for triplet in rows(random_triplets(20, 5)):
        U = opml.difference_matrix(*triplet)
        for lambda_ in (1e-3, 0.1, 0.7):
            inverse = np.linalg.inv(np.eye(5) + lambda_ * U)
            np.testing.assert_allclose(opml.expanded_inverse(lambda_ * U), inverse, rtol=1e-9, atol=1e-9)


def test_the_closed_form_of_section_2_6_is_the_published_step(random_triplets, rng):
    L = rng.normal(size=(5, 5))
    for x, x_plus, x_minus in rows(random_triplets(20, 5, 0.5)):
        u, v = x - x_plus, x - x_minus
        lambda_ = 0.5 * min(1.0, opml.lambda_max(opml.difference_matrix(x, x_plus, x_minus)))
        a, b, c = u @ u, v @ v, u @ v
        Delta = 1.0 + lambda_ * (a - b) - lambda_**2 * (a * b - c * c)
        p, q = L.T @ u, L.T @ v
        p_new = ((1.0 - lambda_ * b) * p + lambda_ * c * q) / Delta
        q_new = ((1.0 + lambda_ * a) * q - lambda_ * c * p) / Delta
        closed = L - lambda_ * (np.outer(u, p_new) - np.outer(v, q_new))
        U = opml.difference_matrix(x, x_plus, x_minus)
        dense = opml.published_step(L, U, lambda_)
        np.testing.assert_allclose(closed, dense, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(1.0 + p_new @ p_new - q_new @ q_new, opml.gap_at(dense, U), rtol=1e-10)


@pytest.mark.parametrize("eta", ETAS)
@pytest.mark.parametrize("C", [5e-4, 0.05, 1.0])
def test_opml_capped_at_the_kink_is_low_rank_with_full_rank(C, eta, random_triplets):
    sets = random_triplets(25, 4, 0.6)
    run = opml.opml(*sets, C=C, eta=eta, exact=True)
    expected = lowrank.lodml(rows(sets), C, np.eye(4), eta)
    np.testing.assert_allclose(run.parameter, expected.parameter, atol=1e-10)
    np.testing.assert_allclose(run.plausibility, expected.plausibility, atol=1e-10)
    assert run.n_updates == expected.n_updates > 5


def test_published_opml_is_the_minimiser_while_lambda_is_below_the_kink_and_overshoots_beyond(random_triplets):
    checked = 0
    for triplet in rows(random_triplets(25, 4, 0.6)):
        U = opml.difference_matrix(*triplet)
        if opml.gap_at(np.eye(4), U) <= 0.0 or opml.lambda_max(U) > 1e3:
            continue
        one = [part[None] for part in triplet]
        tau_0 = opml.kink(np.eye(4), U, largest_cap=1e3)
        published, exact = (opml.opml(*one, C=0.9 * tau_0, exact=exact) for exact in (False, True))
        np.testing.assert_array_equal(published.parameter, exact.parameter)
        assert opml.gap_at(published.parameter, U) > 0.0
        assert abs(opml.gap_at(opml.opml(*one, C=2.0 * tau_0, exact=True).parameter, U)) < 1e-9
        between = 0.5 * (tau_0 + 0.5 * opml.lambda_max(U))
        assert opml.gap_at(opml.opml(*one, C=between).parameter, U) < 0.0
        checked += 1
    assert checked > 5


def test_published_opml_is_a_saddle_once_lambda_is_too_large_and_the_capped_form_is_not():
    x, x_plus, x_minus = np.zeros((1, 2)), np.array([[3.0, 0.0]]), np.array([[0.0, 2.0]])  # lambda_max = 1/4
    loss = {
        exact: [
            opml.gap_at(opml.opml(x, x_plus, x_minus, C, exact=exact).parameter, _U(x, x_plus, x_minus)) for C in Cs
        ]
        for exact, Cs in ((False, (0.1249, 0.2, 1.0)), (True, (0.1249, 0.2, 1.0)))
    }
    assert loss[False][0] < -1e4  # just below: far beyond the hinge
    assert loss[False][2] > 0.0  # beyond: both distances shrink and the loss is back
    np.testing.assert_allclose(loss[True], 0.0, atol=1e-9)


def _U(x, x_plus, x_minus):
    return opml.difference_matrix(x[0], x_plus[0], x_minus[0])


def test_copml_starts_with_pairs_and_goes_on_with_one_pass_triplets(blobs, rng):
    X, y = blobs(30, 4, 3)
    order = np.r_[np.flatnonzero(y == 0)[:4], rng.permutation(np.flatnonzero(y != 0))]
    X, y = X[order], y[order]
    run = opml.copml(X, list(y), C=0.01, C_pair=0.02)
    L = np.eye(4)
    for row in (1, 2, 3):  # a pair step is a dense inverse too
        e = X[row] - X[row - 1]
        L = np.linalg.inv(np.eye(4) + 0.04 * np.outer(e, e)) @ L
    np.testing.assert_allclose(opml.copml(X[:4], list(y[:4]), C_pair=0.02).parameter, L, atol=1e-13)
    triplets = [(X[i], X[j], X[k]) for i, j, k in opml.one_pass(X, list(y))]
    sets = tuple(np.array(one) for one in zip(*triplets, strict=True))
    np.testing.assert_allclose(run.parameter, opml.opml(*sets, C=0.01, L0=L).parameter, atol=1e-13)
    assert np.all(run.tau[1:4] == 0.02)
    assert run.tau[0] == run.tau[4] == 0.0


def test_a_far_pair_is_less_plausible_in_the_cold_start():
    X = np.array([[0.0, 0.0], [0.5, 0.0], [3.0, 0.0]])
    run = opml.copml(X, [0, 0, 0], C_pair=0.01, eta=1.0)
    assert 1.0 == run.plausibility[0] > run.plausibility[1] > run.plausibility[2]
    assert run.tau[1] > run.tau[2] > 0.0


# ---------------------------------------------------------------- SLMOML


@pytest.mark.parametrize(("C", "tolerance"), [(1e-3, 1e-12), (0.1, 1e-12), (1.0, 1e-11), (10.0, 1e-6), (1e6, 1e-4)])
def test_slmoml_stays_positive_definite_for_any_C_and_is_its_closed_form(C, tolerance, random_triplets):
    """A step that makes a tiny q large multiplies rounding by 1 / Delta, so a large C costs digits in either form."""
    sets = random_triplets(30, 4, 0.5)
    run = slmoml.slmoml(*sets, C=C)
    assert run.n_updates > 5
    M = np.eye(4)
    for x, x_plus, x_minus in rows(sets):
        u, v = x - x_plus, x - x_minus
        if slmoml.closed_form_gap(M, u, v, 0.0) > 0.0:
            tau = min(C, slmoml.closed_form_kink(M, u, v))
            M = slmoml.closed_form_matrix(M, u, v, tau)
            assert np.linalg.eigvalsh(M)[0] > 0.0
            assert slmoml.closed_form_gap(M, u, v, 0.0) > -1e-6  # never beyond the hinge
    assert np.linalg.eigvalsh(run.parameter)[0] > 0.0
    np.testing.assert_allclose(run.parameter, M, rtol=0, atol=tolerance * max(1.0, np.abs(M).max()))


@pytest.mark.parametrize("eta", ETAS)
def test_robust_slmoml_takes_the_scalar_recursion_of_its_closed_form(eta, random_triplets):
    sets = random_triplets(30, 4, 0.5)
    run = slmoml.slmoml(*sets, C=0.1, eta=eta)
    M = np.eye(4)
    for t, (x, x_plus, x_minus) in enumerate(rows(sets)):
        u, v = x - x_plus, x - x_minus
        tau = 0.0
        if slmoml.closed_form_gap(M, u, v, 0.0) > 0.0:
            before = slmoml.closed_form_gap(M, u, v, 0.0)
            for _ in range(3):
                loss = max(0.0, slmoml.closed_form_gap(M, u, v, tau))
                tau = min(0.1 * weight(loss, eta), slmoml.closed_form_kink(M, u, v))
            np.testing.assert_allclose(run.plausibility[t], np.exp(-eta * before), atol=1e-11)
            M = slmoml.closed_form_matrix(M, u, v, tau)
        np.testing.assert_allclose(run.tau[t], tau, atol=1e-11)
    np.testing.assert_allclose(run.parameter, M, atol=1e-11)


def test_the_kink_of_slmoml_in_closed_form_is_the_bisected_one(random_triplets, rng):
    G = rng.normal(size=(4, 4))
    M = G @ G.T + 0.3 * np.eye(4)
    found = 0
    for x, x_plus, x_minus in rows(random_triplets(40, 4, 0.4)):
        A, P = distance_direction(x, x_plus, x_minus), np.linalg.inv(M)
        if slmoml.gap_at(P, A) > 0.0:
            tau_0 = slmoml.closed_form_kink(M, x - x_plus, x - x_minus)
            np.testing.assert_allclose(slmoml.kink(P, A, largest_cap=1e9), tau_0, rtol=1e-9)
            assert abs(slmoml.gap_at(P - tau_0 * A, A)) < 1e-9
            found += 1
    assert found > 5


def test_the_kink_of_slmoml_on_one_line(rng):
    u = rng.normal(size=3)
    u /= np.linalg.norm(u)
    for stretch, reachable in ((1.2, True), (0.5, False)):  # v along u: g = 0
        A = np.outer(stretch * u, stretch * u) - np.outer(u, u)
        tau_0 = slmoml.closed_form_kink(np.eye(3), u, stretch * u)
        if reachable:
            assert abs(slmoml.gap_at(np.eye(3) - slmoml.kink(np.eye(3), A, 1e6) * A, A)) < 1e-9
            np.testing.assert_allclose(slmoml.kink(np.eye(3), A, 1e6), tau_0, rtol=1e-6)
        else:
            assert slmoml.kink(np.eye(3), A, 50.0) == 50.0
            assert tau_0 > 1e6


@pytest.mark.parametrize("C", [0.05, 0.5, 20.0])
def test_slmoml_is_the_minimiser_of_its_objective(C, random_triplets, rng):
    """Against SLSQP over M = G G', the hinge being a slack under constraints, and against a search over tau alone."""
    G0 = np.eye(3) + 0.3 * rng.normal(size=(3, 3))
    M_t = G0 @ G0.T
    for x, x_plus, x_minus in list(rows(random_triplets(12, 3, 0.6)))[:6]:
        A = distance_direction(x, x_plus, x_minus)
        if np.sum(A * M_t) >= 1.0:
            continue
        run = slmoml.slmoml(x[None], x_plus[None], x_minus[None], C=C, M0=M_t)
        P = np.linalg.inv(M_t)

        def divergence(M, P=P):
            return np.trace(M @ P) - np.linalg.slogdet(M @ P)[1] - 3.0

        def objective(M, A=A, divergence=divergence):
            return divergence(M) + C * max(0.0, 1.0 - np.sum(A * M))

        def slack_value(both, divergence=divergence):
            G = both[:-1].reshape(3, 3)
            return divergence(G @ G.T + 1e-12 * np.eye(3)) + C * both[-1]

        constraint = {
            "type": "ineq",
            "fun": lambda both, A=A: both[-1] - 1.0 + np.sum(A * (both[:-1].reshape(3, 3) @ both[:-1].reshape(3, 3).T)),
        }
        start = np.append(G0.ravel(), 1.0 - np.sum(A * M_t))
        found = minimize(
            slack_value,
            start,
            method="SLSQP",
            constraints=[constraint, {"type": "ineq", "fun": lambda both: both[-1]}],
            options={"ftol": 1e-14, "maxiter": 500},
        )
        G = found.x[:-1].reshape(3, 3)
        assert objective(run.parameter) <= objective(G @ G.T) + 1e-9
        np.testing.assert_allclose(run.parameter, G @ G.T, atol=2e-3 * np.abs(run.parameter).max())
        along = minimize_scalar(
            lambda tau, P=P, A=A, objective=objective: objective(np.linalg.inv(P - tau * A)),
            bounds=(0.0, min(2.0 * run.tau[0], 0.999999 * slmoml.largest_step(P, A))),
            method="bounded",
            options={"xatol": 1e-13},
        )
        np.testing.assert_allclose(run.tau[0], along.x, rtol=1e-5)


@pytest.mark.parametrize("eta", [0.5, 2.0])
def test_robust_slmoml_lowers_its_objective_at_every_iteration(eta, random_triplets):
    for triplet in rows(random_triplets(20, 3, 0.6)):
        one = [part[None] for part in triplet]
        A = distance_direction(*triplet)
        runs = [slmoml.slmoml(*one, C=0.4, eta=eta, max_hq_iter=n) for n in range(1, 7)]
        values = [
            np.trace(run.parameter)
            - np.linalg.slogdet(run.parameter)[1]
            + 0.4 * rescaled_hinge(np.sum(A * run.parameter), eta)
            for run in runs
        ]
        assert np.all(np.diff(values) <= 1e-12)
        assert np.all(np.diff([run.tau[0] for run in runs]) >= -1e-14)


# ---------------------------------------------------------------- ITML and LEGO


@pytest.mark.parametrize("C", [0.1, 1.0, np.inf])
def test_a_pair_of_itml_meets_its_relaxed_bound(C, pairs):
    left, right, similar = pairs(30, 3)
    bounds = (0.8, 3.0)
    met = 0
    for x, y, is_similar in zip(left, right, similar, strict=True):
        run = itml.online_itml(x[None], y[None], np.array([is_similar]), bounds, C=C)
        e, bound = x - y, bounds[0] if is_similar else bounds[1]
        before, after = e @ e, e @ run.parameter @ e
        if (before > bound) != is_similar:
            assert run.tau[0] == 0.0
            continue
        kappa = 1.0 if np.inf == C else C / (C + 1.0)
        np.testing.assert_allclose(1.0 / after, (1.0 - kappa) / before + kappa / bound, rtol=1e-12)
        met += 1
    assert met > 5


def test_the_bound_itml_keeps_for_a_pair_is_the_distance_it_reached(pairs):
    left, right, _ = pairs(1, 3)
    p = float(np.sum((left - right) ** 2))
    M, duals, limits = itml.itml(left, right, np.array([True]), (0.3 * p, 9.0 * p), gamma=0.7)
    e = left[0] - right[0]
    np.testing.assert_allclose(e @ M @ e, limits[0], rtol=1e-12)
    assert duals[0] > 0.0


@pytest.mark.parametrize("C", [0.2, 1.0])
def test_one_sweep_of_itml_is_the_online_form(C, pairs):
    left, right, similar = pairs(25, 3)
    M, duals, _ = itml.itml(left, right, similar, (0.8, 3.0), gamma=C)
    run = itml.online_itml(left, right, similar, (0.8, 3.0), C=C)
    np.testing.assert_allclose(M, run.parameter, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(duals, run.tau, rtol=1e-10, atol=1e-12)


def test_many_sweeps_of_itml_meet_all_relaxed_bounds(pairs):
    left, right, similar = pairs(8, 3)
    M, duals, limits = itml.itml(left, right, similar, (0.8, 3.0), gamma=0.5, n_sweeps=400)
    p = np.array([e @ M @ e for e in left - right])
    gap = np.where(similar, p - limits, limits - p)
    assert gap.max() < 1e-6
    assert np.all(duals >= 0.0)
    np.testing.assert_allclose(gap[duals > 1e-6], 0.0, atol=1e-5)  # complementary slackness


def test_the_hinge_form_of_itml_caps_the_same_step(pairs):
    left, right, similar = pairs(20, 3)
    hard = [itml.online_itml(left, right, similar, (0.8, 3.0), C=np.inf, slack=slack) for slack in ("itml", "hinge")]
    np.testing.assert_allclose(hard[0].parameter, hard[1].parameter, rtol=1e-12)
    capped = itml.online_itml(left, right, similar, (0.8, 3.0), C=0.01, slack="hinge")
    assert capped.tau.max() == 0.01
    assert np.linalg.eigvalsh(capped.parameter)[0] > 0.0


@pytest.mark.parametrize("eta", [0.5, 2.0])
def test_robust_pairs_lower_their_objective_at_every_iteration(eta, pairs):
    left, right, similar = pairs(20, 3)
    for x, y, is_similar in zip(left, right, similar, strict=True):
        e, sigma, bound = x - y, (1.0 if is_similar else -1.0), (0.8 if is_similar else 9.0)
        one = (x[None], y[None], np.array([is_similar]), (0.8, 9.0))
        runs = [itml.online_itml(*one, C=0.3, eta=eta, max_hq_iter=n, slack="hinge") for n in range(1, 7)]
        values = [
            np.trace(run.parameter)
            - np.linalg.slogdet(run.parameter)[1]
            + 0.3 * rescaled_hinge(1.0 - sigma * (e @ run.parameter @ e - bound), eta)
            for run in runs
        ]
        assert np.all(np.diff(values) <= 1e-12)
        assert np.all(np.diff([run.tau[0] for run in runs]) >= -1e-14)


def test_bounds_of_pairs_are_of_squared_distances():
    low, high = itml.pair_bounds(np.array([[0.0], [2.0], [10.0]]), 0.0, 100.0)
    assert (low, high) == (4.0, 100.0)


@pytest.mark.parametrize("rho", [0.1, 2.0])
def test_lego_reaches_the_minimiser_of_its_objective(rho, rng):
    x, y = rng.normal(size=(2, 3))
    e = x - y
    p = e @ e
    for target in (0.2 * p, 3.0 * p):
        M = itml.lego(x[None], y[None], np.array([target]), rho)
        # Along M^{-1} = I + s e e' the divergence from I is tr(M) - log det M - d, with tr(M) = d - 1 + 1 / (1 + s p).
        best = minimize_scalar(
            lambda after, target=target: after / p - np.log(after / p) + 0.5 * rho * (after - target) ** 2,
            bounds=(1e-6, 5.0 * max(p, target)),
            method="bounded",
            options={"xatol": 1e-12},
        )
        np.testing.assert_allclose(e @ M @ e, best.x, rtol=1e-6)


# ---------------------------------------------------------------- LPA-ODML


@pytest.mark.parametrize("eta", ETAS)
@pytest.mark.parametrize("C", [0.05, 1.0])
def test_lpa_without_local_freedom_is_odml(C, eta, random_triplets):
    sets = random_triplets(40, 4, 0.6)
    labels = [i % 3 for i in range(40)]
    expected = full.odml(rows(sets), C, eta)
    for mu, tolerance in ((np.inf, 1e-12), (1e9, 1e-6)):
        run = lpa.lpa_odml(*sets, labels, C, mu, eta)
        np.testing.assert_allclose(run.global_part, expected.parameter, atol=tolerance)
        np.testing.assert_allclose(run.plausibility, expected.plausibility, atol=tolerance)
        assert max(np.abs(part).max() for part in run.local_parts.values()) < tolerance


def test_lpa_with_all_local_freedom_learns_classes_apart(random_triplets):
    sets = random_triplets(30, 4, 0.6)
    mu = 1e-9
    labels = [i % 2 for i in range(30)]
    both = lpa.lpa_odml(*sets, labels, C=1e-9, mu=mu)
    for label in (0, 1):
        own = full.odml(rows([one[label::2] for one in sets]), 1.0)
        np.testing.assert_allclose(both.metric(label), own.parameter, atol=1e-6)


def test_one_step_of_lpa_minimises_its_objective(random_triplets):
    C, mu = 0.3, 0.5
    for triplet in rows(random_triplets(8, 3, 0.3)):
        A = distance_direction(*triplet)
        run = lpa.lpa_odml(*(part[None] for part in triplet), ["a"], C, mu)
        if run.tau[0] == 0.0 or np.linalg.eigvalsh(np.eye(3) + run.tau[0] * (1.0 + 1.0 / mu) * A)[0] < 0.0:
            continue

        def objective(both, A=A):
            step, local = both
            return (
                0.5 * step**2 * np.sum(A * A)
                + 0.5 * mu * local**2 * np.sum(A * A)
                + C * max(0.0, 1.0 - np.sum(A * (np.eye(3) + (step + local) * A)))
            )

        found = minimize(objective, [0.1, 0.1], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-14})
        assert objective((run.tau[0], run.tau[0] / mu)) <= found.fun + 1e-10


def test_no_metric_of_lpa_leaves_the_cone(random_triplets):
    sets = random_triplets(60, 4, 0.8)
    run = lpa.lpa_odml(*sets, [i % 3 for i in range(60)], C=0.5, mu=1.0, eta=0.3)
    assert np.linalg.eigvalsh(run.global_part)[0] > -1e-12
    assert all(np.linalg.eigvalsh(run.metric(label))[0] > -1e-12 for label in (0, 1, 2, "never seen"))
    assert min(np.linalg.eigvalsh(part)[0] for part in run.local_parts.values()) < -1e-3  # local parts are free


def test_renaming_the_classes_of_lpa_changes_names_only(random_triplets):
    sets = random_triplets(20, 3, 0.6)
    run, renamed = (lpa.lpa_odml(*sets, [names[i % 2] for i in range(20)], 0.2) for names in ("ab", "zy"))
    np.testing.assert_array_equal(run.metric("a"), renamed.metric("z"))
    np.testing.assert_array_equal(run.metric("b"), renamed.metric("y"))


# ---------------------------------------------------------------- OKS and OMKS


@pytest.mark.parametrize("eta", ETAS)
@pytest.mark.parametrize("C", [0.05, 1.0])
def test_oks_with_a_linear_kernel_is_oasis(C, eta, random_triplets, rng):
    sets = random_triplets(25, 4, 0.7)
    run = kernels.oks(*sets, C=C, eta=eta)
    expected = full.oasis(rows(sets), C, eta)
    np.testing.assert_allclose(run.tau, expected.tau, atol=1e-12)
    np.testing.assert_allclose(run.plausibility, expected.plausibility, atol=1e-12)
    x, y = rng.normal(size=(2, 4))
    np.testing.assert_allclose(run.operator.similarity(x, y), x @ expected.parameter @ y, atol=1e-11)


def test_oks_with_a_polynomial_kernel_is_oasis_on_its_features(random_triplets):
    sets = random_triplets(20, 2, 0.7)

    def features(X):
        """Of (<x, y> + 1)^2 in two dimensions."""
        a, b = X.T
        root = np.sqrt(2.0)
        return np.column_stack([np.ones(len(X)), root * a, root * b, a * a, b * b, root * a * b])

    run = kernels.oks(*sets, kernel=kernels.polynomial(2), C=0.1, eta=1.0)
    expected = full.oasis(rows([features(one) for one in sets]), 0.1, 1.0)
    np.testing.assert_allclose(run.tau, expected.tau, atol=1e-12)


def test_an_uncapped_step_of_oks_removes_the_loss(random_triplets):
    x, x_plus, x_minus = (one[0] for one in random_triplets(1, 3))
    run = kernels.oks(x[None], x_plus[None], x_minus[None], kernels.rbf(0.3), C=np.inf)
    np.testing.assert_allclose(run.operator.margin(x, x_plus, x_minus), 1.0, atol=1e-12)


def test_oks_from_zero_and_with_a_budget(random_triplets):
    sets = random_triplets(15, 3)
    from_zero = kernels.oks(*sets, C=0.1, identity=False)
    expected = full.oasis(rows(sets), 0.1, M0=np.zeros((3, 3)))
    np.testing.assert_allclose(from_zero.tau, expected.tau, atol=1e-12)
    roomy, tight = (kernels.oks(*sets, C=0.1, budget=budget) for budget in (15, 4))
    np.testing.assert_array_equal(roomy.tau, kernels.oks(*sets, C=0.1).tau)
    assert len(tight.operator.terms) == 4
    newest = np.flatnonzero(tight.tau > 0.0)[-4:]
    np.testing.assert_array_equal([term[0] for term in tight.operator.terms], tight.tau[newest])


def test_operators_of_omks_do_not_see_each_other_and_weights_are_hedge(random_triplets, rng):
    sets = random_triplets(20, 3)
    chosen = [kernels.linear, kernels.rbf(0.2), kernels.polynomial(2)]
    run = kernels.omks(*sets, kernels=chosen, C=0.1, beta=0.8, eta=0.5)
    alone = [kernels.oks(*sets, kernel=kernel, C=0.1, eta=0.5) for kernel in chosen]
    np.testing.assert_array_equal(run.tau, np.column_stack([one.tau for one in alone]))
    # A mistake is a hinge above 1 before the step, so one iteration shows it as a plausibility below exp(-eta).
    first = [kernels.omks(*sets, kernels=[kernel], C=1e-12, eta=0.5, max_hq_iter=1) for kernel in chosen]
    still = kernels.omks(*sets, kernels=chosen, C=1e-12, beta=0.8, eta=0.5)
    mistakes = np.column_stack([one.plausibility < np.exp(-0.5) for one in first])
    assert 0 < mistakes.sum() < mistakes.size
    np.testing.assert_allclose(still.theta_history, hedge.hedge(mistakes, 0.8).weights, atol=1e-12)
    x, y = rng.normal(size=(2, 3))
    total = sum(t * one.operator.similarity(x, y) for t, one in zip(run.theta, alone, strict=True))
    np.testing.assert_allclose(run.similarity(x, y), total, rtol=1e-12)


# ---------------------------------------------------------------- Hedge


@pytest.mark.parametrize("beta", [0.3, 0.9, 0.99])
@pytest.mark.parametrize("K", [1, 2, 7])
def test_hedge_suffers_no_more_than_its_bound(beta, K, rng):
    skill = rng.random(K)
    for losses in (rng.random((200, K)) * skill, (rng.random((200, K)) < skill).astype(float), np.ones((50, K))):
        run = hedge.hedge(losses, beta)
        assert run.losses.sum() <= hedge.hedge_bound(losses, beta) + 1e-9
        np.testing.assert_allclose(run.weights.sum(axis=1), 1.0, rtol=1e-12)
        np.testing.assert_allclose(run.weights[-1], _hedge_at_once(losses, beta), rtol=1e-9, atol=1e-300)


def _hedge_at_once(losses, beta):
    total = losses.sum(axis=0)
    weights = beta ** (total - total.min())
    return weights / weights.sum()


# ---------------------------------------------------------------- OMDML and LOMDML


@pytest.mark.parametrize("eta", ETAS)
@pytest.mark.parametrize("C", [0.05, 1.0])
def test_omdml_with_one_modality_and_margin_one_is_odml(C, eta, random_triplets):
    sets = random_triplets(40, 4, 0.6)
    run = multimodal.omdml(*([one] for one in sets), C=C, eta=eta, margin=1.0)
    expected = full.odml(rows(sets), C, eta)
    np.testing.assert_array_equal(run.parameters[0], expected.parameter)
    np.testing.assert_array_equal(run.plausibility, expected.plausibility)
    np.testing.assert_array_equal(run.tau[:, 0], expected.tau)
    assert run.n_updates == expected.n_updates
    np.testing.assert_array_equal(run.theta, [1.0])


@pytest.mark.parametrize("eta", ETAS)
def test_lomdml_with_one_modality_is_lodml_by_one_gradient_step(eta, random_triplets):
    sets = random_triplets(30, 5, 0.5)
    run = multimodal.lomdml(*([one] for one in sets), 3, C=0.02, eta=eta)
    expected = lowrank.lodml(rows(sets), 0.02, np.eye(5, 3), eta, solver="subgradient")
    np.testing.assert_allclose(run.parameters[0], expected.parameter, atol=1e-13)
    np.testing.assert_allclose(run.plausibility, expected.plausibility, atol=1e-13)


def test_a_modality_of_noise_loses_its_weight(rng):
    n = 60
    side = np.zeros(4)
    side[0] = 0.6  # too near for a margin of 1: PA on the weights rests while the sum has its margin
    signal = [0.05 * rng.normal(size=(n, 4)) + shift for shift in (0.0, 0.0, side)]
    noise = 0.3 * rng.normal(size=(3, n, 4))
    sets = tuple([good, bad] for good, bad in zip(signal, noise, strict=True))
    for run in (
        multimodal.omdml(*sets),
        multimodal.lomdml(*sets, 2),
        sketch.lsmdml(*sets, [sketch.random_projections(4, 100, rng) for _ in range(2)], C=0.001),
    ):
        assert run.theta[0] > 0.6


def test_a_triplet_with_enough_margin_in_all_stops_every_modality(modal_triplets):
    sets = modal_triplets(40, (4, 3))
    run = multimodal.omdml(*sets, C=0.1, margin=0.2, eta=1.0)
    M = [np.eye(4), np.eye(3)]
    gated = 0
    for t, A in enumerate(multimodal.directions(*sets)):
        f = np.array([-np.sum(A[k] * M[k]) for k in range(2)])
        if run.theta_history[t] @ f + 0.2 <= 0.0:
            assert np.all(run.tau[t] == 0.0)
            np.testing.assert_array_equal(run.theta_history[t + 1], run.theta_history[t])
            gated += np.any(1.0 + f > 0.0)
        M = [full.psd_part(M[k] + run.tau[t, k] * A[k]) for k in range(2)]
    assert gated > 0
    np.testing.assert_allclose(M[0], run.parameters[0], atol=1e-12)


# ---------------------------------------------------------------- dual random projection and LSMDML


def test_two_random_projections_keep_inner_products_on_average_and_one_does_not(rng):
    d, m, n = 5, 6, 4000
    (x, y, z), (a, b, c) = rng.normal(size=(2, 3, d))
    A, B = distance_direction(x, y, z), distance_direction(a, b, c)
    two, one = np.empty(n), np.empty(n)
    for i in range(n):
        R_1, R_2 = sketch.random_projections(d, m, rng)
        two[i] = np.sum(sketch.sketch(A, R_1, R_2) * sketch.sketch(B, R_1, R_2))
        one[i] = np.sum(sketch.sketch(A, R_1, R_1) * sketch.sketch(B, R_1, R_1))
    exact = np.sum(A * B)
    biased = (1.0 + 1.0 / m) * exact + np.trace(A) * np.trace(B) / m
    assert abs(two.mean() - exact) < 5.0 * two.std() / np.sqrt(n)
    assert abs(one.mean() - biased) < 5.0 * one.std() / np.sqrt(n)


@pytest.mark.parametrize("eta", ETAS)
def test_lsmdml_in_a_sketch_that_loses_nothing_is_odml_projected_at_the_end(eta, random_triplets, rng):
    sets = random_triplets(30, 4, 0.6)
    rotations = tuple(np.linalg.qr(rng.normal(size=(4, 4)))[0] for _ in range(2))
    run = sketch.lsmdml(*([one] for one in sets), [rotations], C=0.1, eta=eta)
    expected = full.odml(rows(sets), 0.1, eta, psd="end")
    np.testing.assert_allclose(run.parameters[0], expected.parameter, atol=1e-11)
    np.testing.assert_allclose(run.tau[:, 0], expected.tau, atol=1e-11)
    np.testing.assert_allclose(run.plausibility, expected.plausibility, atol=1e-11)


def test_sketched_inner_products_spread_less_the_wider_the_sketch(rng):
    A = distance_direction(*rng.normal(size=(3, 5)))
    B = distance_direction(*rng.normal(size=(3, 5)))
    spread = []
    for m in (4, 64):
        pairs_of_R = (sketch.random_projections(5, m, rng) for _ in range(300))
        spread.append(np.std([np.sum(sketch.sketch(A, *R) * sketch.sketch(B, *R)) for R in pairs_of_R]))
    assert spread[1] < 0.5 * spread[0]


@pytest.mark.parametrize("simplex", [False, True])
@pytest.mark.parametrize("eta", [0.0, 1.0])
def test_weights_of_lsmdml_are_weights_and_move_away_from_large_differences(eta, simplex, rng):
    for _ in range(30):
        theta = rng.dirichlet(np.ones(4))
        f = rng.normal(size=4)
        new = sketch.weights_step(theta, f, 0.3, eta, 3, simplex)
        assert np.all(new >= 0.0)
        np.testing.assert_allclose(new.sum(), 1.0, rtol=1e-12)
        if simplex:
            assert new @ f <= theta @ f + 1e-12


def test_the_exact_projection_onto_the_simplex_is_the_nearest_point(rng):
    for _ in range(20):
        theta = rng.normal(size=4)
        nearest = sketch.onto_simplex(theta)
        others = rng.dirichlet(0.5 * np.ones(4), size=200)
        assert np.sum((nearest - theta) ** 2) <= np.min(np.sum((others - theta) ** 2, axis=1)) + 1e-12
        np.testing.assert_allclose(sketch.onto_simplex(nearest), nearest, atol=1e-14)


def test_the_low_rank_part_of_a_recovered_metric(rng):
    G = rng.normal(size=(5, 5))
    M = G @ G.T
    np.testing.assert_allclose(sketch.low_rank_part(M, 5) @ sketch.low_rank_part(M, 5).T, M, atol=1e-12)
    L = sketch.low_rank_part(M, 2)
    np.testing.assert_allclose(np.linalg.norm(M - L @ L.T), np.linalg.norm(np.linalg.eigvalsh(M)[:3]), rtol=1e-10)
