"""SLMOML and ITML: the literal twins, the laws of the LogDet step, pairs and their bounds."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import sparse

import nearkin
from each import each
from nearkin import steps
from nearkin.losses import RescaledHinge, exponential_weight
from nearkin.parameters.logdet import PairBounds
from nearkin.rows import Rows
from printed import printed
from reference import itml, pa, slmoml

BOUNDS = (0.8, 3.0)
seeds = st.integers(0, 2**32 - 1)


def assert_same(model, run, plausibility, tolerance=1e-12):
    size = max(1.0, np.abs(run.parameter).max())
    np.testing.assert_allclose(model.metric_, run.parameter, rtol=0, atol=tolerance * size)
    np.testing.assert_allclose(model.plausibility_, plausibility, rtol=0, atol=10 * tolerance)


def as_pairs(x, positive, negative):
    """Similar and dissimilar pair of every triplet, in turn."""
    n, d = x.shape
    return np.repeat(x, 2, axis=0), np.stack([positive, negative], 1).reshape(2 * n, d), np.tile([True, False], n)


# ---------------------------------------------------------------- the twins


@each(C=[0.01, 0.1, 1.0], eta=[0.0, 0.3, 1.0, 3.0], d=[2, 7, 20])
def test_robust_slmoml_is_its_literal_twin(C, eta, d, random_triplets):
    sets = random_triplets(200, d, 1.3 / np.sqrt(d))
    model = nearkin.RobustSLMOML(C=C, eta=eta, scale=None).fit_triplets(*sets)
    run = slmoml.slmoml(*sets, C=C, eta=eta)
    assert model.n_updates_ == run.n_updates > 50
    assert_same(model, run, run.plausibility)


@pytest.mark.parametrize("max_hq_iter", [1, 2, 6])
def test_robust_slmoml_takes_max_hq_iter_half_quadratic_iterations(max_hq_iter, random_triplets):
    sets = random_triplets(100, 5, 0.6)
    how = {"C": 0.2, "eta": 1.5, "max_hq_iter": max_hq_iter}
    run = slmoml.slmoml(*sets, **how)
    assert_same(nearkin.RobustSLMOML(**how, scale=None).fit_triplets(*sets), run, run.plausibility)


@each(step=["itml", "hinge"], C=[0.01, 0.1, 1.0], eta=[0.0, 1.0, 3.0], d=[2, 7, 20])
def test_robust_itml_takes_the_two_pairs_of_a_triplet_one_after_the_other(step, C, eta, d, random_triplets):
    sets = random_triplets(150, d, 1.3 / np.sqrt(d))
    model = nearkin.RobustITML(C=C, eta=eta, step=step, bounds=BOUNDS, scale=None).fit_triplets(*sets)
    run = itml.online_itml(*as_pairs(*sets), BOUNDS, C=C, eta=eta, slack=step)
    assert run.n_updates > 50
    assert_same(model, run, run.plausibility.reshape(-1, 2).min(axis=1))


@each(step=["itml", "hinge"], max_hq_iter=[1, 5])
def test_explicit_pairs_are_the_twin(step, max_hq_iter, random_triplets, rng):
    left, right, _ = random_triplets(200, 6, 0.6)
    similar = rng.random(200) < 0.5
    how = {"C": 0.5, "eta": 0.7, "max_hq_iter": max_hq_iter}
    model = nearkin.RobustITML(**how, step=step, bounds=BOUNDS, scale=None).fit_pairs(left, right, similar)
    run = itml.online_itml(left, right, similar, BOUNDS, **how, slack=step)
    assert model.n_updates_ == run.n_updates > 50
    assert_same(model, run, run.plausibility)
    signs = nearkin.RobustITML(**how, step=step, bounds=BOUNDS, scale=None)
    signs.fit_pairs(sparse.csr_array(left), right, np.where(similar, 1, -1))
    np.testing.assert_allclose(signs.metric_, model.metric_, rtol=0, atol=1e-13)


def test_one_pass_of_itml_is_one_sweep_of_the_batch_algorithm(random_triplets, rng):
    left, right, _ = random_triplets(100, 5, 0.6)
    similar = rng.random(100) < 0.5
    model = nearkin.ITML(C=0.7, bounds=BOUNDS, scale=None).fit_pairs(left, right, similar)
    M, _, _ = itml.itml(left, right, similar, BOUNDS, gamma=0.7)
    np.testing.assert_allclose(model.metric_, M, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["SLMOML", "ITML"])
def test_single_precision_stays_close_to_double_precision(name, random_triplets):
    narrow = [one.astype(np.float32) for one in random_triplets(1000, 10, 0.4)]
    model = getattr(nearkin, name)(bounds=BOUNDS, scale=None) if name == "ITML" else nearkin.SLMOML(scale=None)
    wide = model.fit_triplets(*(one.astype(np.float64) for one in narrow)).metric_
    assert model.fit_triplets(*narrow).metric_.dtype == np.float32
    np.testing.assert_allclose(model.metric_, wide, rtol=0, atol=1e-4 * np.abs(wide).max())


# ---------------------------------------------------------------- the LogDet step


def triplet_of(seed, d=4):
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(d, d)) / np.sqrt(d) + 0.1 * np.eye(d)
    u, v = 0.8 * rng.normal(size=(2, d))
    g, h = u + v, v - u
    p, q = L.T @ g, L.T @ h
    rest = q - (p @ q) / (p @ p) * p
    return L, g, h, p, q, steps.logdet_curve(p @ p, q @ q, p @ q, rest @ rest)


def dense_step(L, g, h, tau):
    return np.linalg.inv(np.linalg.inv(L @ L.T) - 0.5 * tau * (np.outer(g, h) + np.outer(h, g)))


@given(seed=seeds, share=st.floats(0.0, 0.999))
def test_the_square_root_in_three_numbers_is_the_dense_inverse(seed, share):
    L, g, h, p, q, curve = triplet_of(seed)
    assume(p @ q < 1.0 and np.linalg.cond(L) < 1e3)
    tau = share * steps.logdet_kink(curve)
    a, b, c = steps.logdet_update(tau, curve, p @ p, q @ q)
    moved = L + np.outer(L @ p, a * p + b * q) + np.outer(L @ q, b * p + c * q)
    dense = dense_step(L, g, h, tau)
    size = np.abs(dense).max()
    np.testing.assert_allclose(moved @ moved.T, dense, rtol=0, atol=1e-7 * size)
    np.testing.assert_allclose(g @ dense @ h, steps.logdet_z(tau, curve), rtol=1e-6, atol=1e-6 * size)


@given(seed=seeds)
def test_the_curve_holds_the_two_eigenvalues(seed):
    _, _, _, p, q, curve = triplet_of(seed)
    values = np.linalg.eigvalsh(0.5 * (np.outer(p, q) + np.outer(q, p)))
    np.testing.assert_allclose([curve[0], -curve[1]], [values[-1], values[0]], rtol=1e-9, atol=1e-13)


@given(seed=seeds)
def test_the_kink_brings_the_margin_to_one_before_the_bound(seed):
    _, _, _, p, q, curve = triplet_of(seed)
    assume(p @ q < 1.0)
    tau = steps.logdet_kink(curve)
    assert 0.0 < tau < 1.0 / curve[0]
    np.testing.assert_allclose(steps.logdet_z(tau, curve), 1.0, rtol=1e-8)


@pytest.mark.parametrize("stretch", [0.5, 1.0, 2.0])
def test_the_kink_of_two_vectors_on_one_line(stretch):
    """v = stretch u: the margin can be reached only if v is the longer one."""
    z = 0.5 * (stretch**2 - 1.0)
    g, h = 1.0 + stretch, 0.5 * (stretch - 1.0)
    curve = steps.logdet_curve(g * g, h * h, g * h, 0.0) if z else (0.0, 0.0)
    assert steps.logdet_kink(curve) == ((1.0 - z) / z if stretch > 1 else np.inf)


@given(seed=seeds, eta=st.floats(0.01, 4.0), C=st.floats(1e-3, 10.0))
def test_the_objective_never_rises_under_half_quadratic_iterations(seed, eta, C):
    _, _, _, p, q, curve = triplet_of(seed)
    assume(p @ q < 1.0)
    loss = RescaledHinge(eta)
    values = []
    for n in range(1, 7):
        tau, _ = steps.half_quadratic(
            steps.logdet_z, curve, steps.logdet_kink(curve), C, exponential_weight, loss.params, n
        )
        P = np.eye(4) - 0.5 * tau * (np.outer(p, q) + np.outer(q, p))  # L' times the new inverse times L
        divergence = np.trace(np.linalg.inv(P)) + np.linalg.slogdet(P)[1] - 4
        values.append(divergence + C * float(loss.value(steps.logdet_z(tau, curve))))
    assert np.all(np.diff(values) <= 1e-9 * max(1.0, abs(values[0])))


@each(C=[0.1, 10.0, 1e6, np.inf])
def test_m_stays_positive_definite_whatever_the_aggressiveness(C, random_triplets):
    sets = random_triplets(2000, 6, 0.6)
    for name in ("SLMOML", "RobustSLMOML", "ITML", "RobustITML"):
        model = getattr(nearkin, name)(C=C, scale=None).fit_triplets(*sets)
        assert np.linalg.svd(model.components_, compute_uv=False)[-1] > 0.0
        assert model.n_updates_ > 500


def test_many_steps_keep_the_digits(random_triplets):
    """The inverse, to which all steps simply add, says where M should be after thousands of them."""
    x, positive, negative = random_triplets(4000, 5, 0.6)
    M = nearkin.SLMOML(C=0.002, scale=None).fit_triplets(x, positive, negative).metric_
    P = np.eye(5)
    for row in zip(x, positive, negative, strict=True):
        u, v = row[0] - row[1], row[0] - row[2]
        A = np.outer(v, v) - np.outer(u, u)
        if (A * np.linalg.inv(P)).sum() < 1.0:
            P = P - min(0.002, slmoml.closed_form_kink(np.linalg.inv(P), u, v)) * A
    np.testing.assert_allclose(M @ P, np.eye(5), rtol=0, atol=1e-10)


def test_infinite_aggressiveness_removes_the_loss(random_triplets):
    x, positive, negative = random_triplets(25, 5, 0.6)
    model = nearkin.SLMOML(C=np.inf, scale=None)
    for t in range(25):
        one = x[[t]], positive[[t]], negative[[t]]
        model.partial_fit_triplets(*one)
        near, far = (model.pair_distance(one[0], other)[0] for other in one[1:])
        assert far**2 - near**2 >= 1.0 - 1e-8


# ---------------------------------------------------------------- robustness


@pytest.mark.parametrize(("name", "how"), [("SLMOML", {}), ("ITML", {}), ("ITML", {"step": "hinge"})])
def test_one_wrong_triplet_has_a_bounded_say(name, how, random_triplets):
    sets = random_triplets(60, 4, 0.4)
    wrong = tuple(np.array([row]) for row in (np.zeros(4), np.full(4, 6.0), np.full(4, 0.2)))

    def moved(model):
        before = model.fit_triplets(*sets).metric_
        return np.abs(model.partial_fit_triplets(*wrong).metric_ - before).max()

    plain, robust = (getattr(nearkin, kind)(scale=None, **how) for kind in (name, f"Robust{name}"))
    assert moved(robust) < 0.2 * moved(plain)
    assert robust.plausibility_[0] < 0.5


def test_a_wrong_pair_is_found_implausible(rng):
    X1 = rng.normal(size=(200, 3))
    X2 = X1 + 0.1 * rng.normal(size=(200, 3))
    X2[17] = X1[17] + 5.0
    model = nearkin.RobustITML().fit_pairs(X1, X2, np.ones(200, bool))
    assert model.plausibility_.argmin() == 17


# ---------------------------------------------------------------- pairs and bounds


def test_a_member_equal_to_the_anchor_makes_no_pair(random_triplets):
    x, y, _ = random_triplets(40, 4, 0.6)
    how = {"bounds": BOUNDS, "scale": None}
    for similar in (True, False):
        pairs = nearkin.RobustITML(**how).fit_pairs(x, y, np.full(40, similar))
        members = (y, x) if similar else (x, y)
        triplets = nearkin.RobustITML(**how).fit_triplets(x, *members)
        np.testing.assert_array_equal(pairs.metric_, triplets.metric_)
        np.testing.assert_array_equal(pairs.plausibility_, triplets.plausibility_)
    nothing = nearkin.RobustITML(**how).fit_triplets(x, x, x)
    assert nothing.n_updates_ == 0
    assert (nothing.plausibility_ == 1.0).all()


def test_bounds_are_percentiles_of_squared_distances_between_different_rows(rng):
    X = rng.normal(size=(60, 3))
    near, far = itml.pair_bounds(X)
    found = PairBounds.measure(Rows(X))
    np.testing.assert_allclose((found.similar, found.dissimilar), (near, far), rtol=1e-10)
    np.testing.assert_allclose(
        printed(nearkin.ITML, scale=None).fit(X, np.arange(60) % 3).bounds_, (near, far), rtol=1e-10
    )
    assert PairBounds.measure(Rows(np.ones((5, 2)))) == PairBounds(1.0, 1.0)
    many = PairBounds.measure(Rows(np.repeat(rng.normal(size=(2000, 3)), 2, axis=0)))
    np.testing.assert_allclose((many.similar, many.dissimilar), (near, far), rtol=0.5)


def test_bounds_are_learned_once_and_kept(rng, tmp_path):
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 3
    model = nearkin.ITML(random_state=0).partial_fit(X[:30], y[:30])
    first = model.bounds_
    assert model.partial_fit(10 * X[30:], y[30:]).bounds_ == first
    nearkin.save(model, tmp_path / "model")
    again = nearkin.load(tmp_path / "model")
    assert again.bounds_ == first
    np.testing.assert_array_equal(again.partial_fit(X, y).metric_, model.partial_fit(X, y).metric_)
    assert nearkin.ITML(bounds=(0.5, 2)).fit(X, y).bounds_ == (0.5, 2.0)


def test_plausibility_of_rows_is_that_of_the_worse_pair(rng):
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    model = printed(nearkin.RobustITML, triplets="one_pass", shuffle=False, scale=None).fit(X, y)
    triplets = nearkin.OnePassTriplets().build(X, y)
    near, far = (
        model.pair_distance(triplets.rows.dense[triplets.anchor], triplets.pool.dense[other]) ** 2
        for other in (triplets.positive, triplets.negative)
    )
    low, high = model.bounds_
    excess = np.maximum(0.0, np.maximum(near - low, high - far))
    z = model.state_.parameter.margins(triplets)
    np.testing.assert_allclose(np.maximum(0.0, 1.0 - z), excess, atol=1e-12)


def test_pairs_come_in_chunks(random_triplets, rng):
    left, right, _ = random_triplets(90, 4)
    similar = rng.random(90) < 0.5
    how = {"bounds": BOUNDS, "scale": None}
    whole = nearkin.ITML(**how).fit_pairs(left, right, similar)
    parts = nearkin.ITML(**how)
    for at in (slice(0, 1), slice(1, 40), slice(40, 90)):
        parts.partial_fit_pairs(left[at], right[at], similar[at])
    np.testing.assert_allclose(parts.metric_, whole.metric_, rtol=0, atol=1e-12)
    again = parts.fit_pairs(left, right, similar)
    np.testing.assert_array_equal(again.metric_, whole.metric_)
    twice = nearkin.ITML(**how, n_epochs=2).fit_pairs(left, right, similar)
    np.testing.assert_array_equal(twice.metric_, whole.partial_fit_pairs(left, right, similar).metric_)


def test_frames_keep_their_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [0.0, 1.0, 2.0], "b": [1.0, 0.0, 3.0]})
    model = nearkin.ITML().fit_pairs(frame, frame[::-1], [True, False, True])
    assert model.feature_names_in_.tolist() == ["a", "b"]


@each(similar=[[True, False], [0, 1, 2], ["yes", "no", "yes"], [[True], [True], [False]], None])
def test_pairs_that_make_no_sense_are_refused_and_change_nothing(similar):
    X = np.arange(6.0).reshape(3, 2)
    model = nearkin.ITML().fit_pairs(X, X[::-1], [True, False, True])
    before = model.metric_.copy()
    with pytest.raises(ValueError, match=r"ITML: .*similar"):
        model.fit_pairs(X, X, similar)
    with pytest.raises(ValueError, match="ITML"):
        model.partial_fit_pairs(X, X[:2], [True, False, True])
    np.testing.assert_array_equal(model.metric_, before)


# ---------------------------------------------------------------- passive-aggressive steps


RULES = {"PA": steps.pa, "PA-I": steps.pa1, "PA-II": steps.pa2}


@each(variant=tuple(RULES), C=[0.01, 0.5, 20.0, np.inf], eta=[0.0, 1.0])
def test_passive_aggressive_steps_are_those_of_the_twin(variant, C, eta, rng):
    X, y = rng.normal(size=(60, 4)), np.sign(rng.normal(size=60))
    run = pa.passive_aggressive(X, y, C, variant, eta)
    w = np.zeros(4)
    for x, tau in zip(X * y[:, None], run.tau, strict=True):
        curve = (x @ w, x @ x)
        found = 0.0
        if curve[0] < 1.0:
            found, _ = steps.half_quadratic_by(
                RULES[variant], steps.linear_z, curve, C, exponential_weight, RescaledHinge(eta).params, 3
            )
        assert found == pytest.approx(tau, rel=1e-12)
        w = w + tau * x
    np.testing.assert_allclose(w, run.parameter, atol=1e-12)


def test_pa1_is_the_step_of_the_learners():
    for C in (0.0, 0.1, 10.0, np.inf):
        curve, params = (-0.4, 2.5), RescaledHinge(0.8).params
        rest = C, exponential_weight, params, 3
        by_rule = steps.half_quadratic_by(steps.pa1, steps.linear_z, curve, *rest)
        assert by_rule == steps.half_quadratic(steps.linear_z, curve, steps.linear_kink(curve), *rest)
    assert steps.pa2(0.0, (0.0, 1.0)) == 0.0


def test_itml_takes_smaller_steps_after_a_start_that_leaves_less_to_learn(rng):
    X, y = rng.normal(size=(60, 4)), np.arange(60) % 3
    for settings, C in (({}, 0.003), ({"init": "identity"}, 1.0), ({"C": 0.5}, 0.5)):
        model = nearkin.ITML(random_state=0, **settings).fit(X, y)
        assert model.rule_for(model.state_).C == C
    pairs = nearkin.ITML().fit_pairs(X, X[::-1], y == y[::-1])
    assert pairs.rule_for(pairs.state_).C == 1.0
