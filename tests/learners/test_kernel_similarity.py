"""OKS and OMKS: similarities in the feature spaces of kernels, within a budget."""

import tracemalloc

import numba
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import pairwise
from sklearn.pipeline import make_pipeline

import nearkin
from each import each
from nearkin.losses import RescaledHinge
from nearkin.mercer import MercerKernel
from nearkin.parameters import LearningRule, Supports
from nearkin.rows import Rows
from nearkin.triplets import Triplets
from reference import kernel_similarity as literal

NAMES = ("OKS", "OMKS", "RobustOKS", "RobustOMKS")
LITERAL = {
    "linear": (MercerKernel("linear"), literal.linear),
    "rbf": (MercerKernel("rbf", 0.7), literal.rbf(0.7)),
    "poly": (MercerKernel("poly", 1.0, 0.5, 2), literal.polynomial(2, 0.5)),
    "cosine": (MercerKernel("cosine"), lambda x, y: float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))),
}
every_name = each(name=NAMES)


def as_triplets(sets):
    n = len(sets[0])
    at = np.arange(3 * n)
    rows = Rows(np.concatenate(sets))
    return Triplets(rows, rows, at[:n], at[n : 2 * n], at[2 * n :], at, at)


def labelled(rng, n=90, d=5, k=3, spread=0.5):
    y = rng.permutation(np.arange(n) % k)
    return rng.normal(size=(k, d))[y] + spread * rng.normal(size=(n, d)), y


def make(name, **parameters):
    return getattr(nearkin, name)(random_state=0, **parameters)


# ---------------------------------------------------------------- kernels


@each(name=tuple(LITERAL))
def test_tables_and_pairs_of_a_kernel_are_its_formula(name, rng):
    kernel, formula = LITERAL[name]
    X, Y = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    table = [[formula(x, y) for y in Y] for x in X]
    np.testing.assert_allclose(kernel.table(X, Y), table, atol=1e-13)
    np.testing.assert_allclose(kernel.pairs(X, Y), np.diag(table), atol=1e-13)


def test_kernels_are_those_of_scikit_learn(rng):
    X, Y = rng.normal(size=(5, 3)), rng.normal(size=(6, 3))
    np.testing.assert_allclose(MercerKernel("rbf", 0.3).table(X, Y), pairwise.rbf_kernel(X, Y, 0.3))
    expected = pairwise.polynomial_kernel(X, Y, degree=3, gamma=0.3, coef0=2.0)
    np.testing.assert_allclose(MercerKernel("poly", 0.3, 2.0, 3).table(X, Y), expected)
    np.testing.assert_allclose(MercerKernel("cosine").table(X, Y), pairwise.cosine_similarity(X, Y))


def test_the_cosine_with_a_zero_row_is_zero():
    assert MercerKernel("cosine").table(np.zeros((1, 2)), np.eye(2)).tolist() == [[0.0, 0.0]]


def test_exponentials_are_correct_to_the_last_digits(rng):
    from nearkin.kernels.machine.simd import exponentials

    @numba.njit
    def taken(*arguments):  # a helper has no way in from Python
        exponentials(*arguments)

    x = np.concatenate([[0.0, -0.0, -1e-300, -708.0, 1.0], -rng.exponential(5.0, 2000), rng.uniform(-700.0, 0.0, 2000)])
    found = x.copy()
    taken(found, len(x), np.empty_like(x))
    np.testing.assert_allclose(found, np.exp(x), rtol=1e-15)
    beyond = np.array([-709.0, -1e4, -np.inf])
    taken(beyond, 3, np.empty(3))
    assert ((beyond >= 0.0) & (beyond < 1e-300)).all()


# ---------------------------------------------------------------- the literal twin


@pytest.mark.slow
@each(eta=(0.0, 1.0), budget=(1, 20, 500), C=(0.1, np.inf), name=tuple(LITERAL))
def test_the_compiled_sweep_agrees_with_the_literal_twin(random_triplets, name, C, budget, eta):
    sets = random_triplets(40, 5, 0.6)
    kernel, formula = LITERAL[name]
    parameter = Supports([kernel], 5, np.dtype(float), budget)
    weights, updates = parameter.learn(as_triplets(sets), LearningRule(C, RescaledHinge(eta), 3))
    twin = literal.oks(*sets, formula, C, eta, 3, budget)
    tau, rows = parameter.terms_of(0)
    np.testing.assert_allclose(tau, [one[0] for one in twin.operator.terms], rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(rows[2], [one[3] for one in twin.operator.terms])
    np.testing.assert_allclose(weights, twin.plausibility, rtol=1e-10, atol=1e-12)
    assert updates == twin.n_updates
    X, Y = sets[0][:6], sets[1][:6]
    expected = np.array([[twin.operator.similarity(x, y) for y in Y] for x in X])
    size = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(parameter.scores(X, Y), expected, rtol=0, atol=1e-11 * size)
    np.testing.assert_allclose(parameter.pair_scores(X, Y), np.diag(expected), rtol=0, atol=1e-11 * size)


@each(eta=(0.0, 1.0), budget=(15, 500))
def test_several_kernels_agree_with_the_literal_twin(random_triplets, budget, eta):
    sets = random_triplets(80, 5, 0.6)
    kernels, formulas = zip(*LITERAL.values(), strict=True)
    parameter = Supports(kernels, 5, np.dtype(float), budget, 0.8)
    weights, updates = parameter.learn(as_triplets(sets), LearningRule(0.3, RescaledHinge(eta), 3))
    twin = literal.omks(*sets, formulas, 0.3, 0.8, eta, 3, budget)
    np.testing.assert_allclose(parameter.theta, twin.theta, atol=1e-13)
    np.testing.assert_allclose(weights, twin.plausibility, atol=1e-12)
    assert updates == twin.n_updates
    expected = [[twin.similarity(x, y) for y in sets[1][:5]] for x in sets[0][:5]]
    np.testing.assert_allclose(parameter.scores(sets[0][:5], sets[1][:5]), expected, atol=1e-12)


def test_margins_are_differences_of_scores(random_triplets):
    sets = random_triplets(50, 4, 0.6)
    parameter = Supports([MercerKernel("rbf", 0.5), MercerKernel("linear")], 4, np.dtype(float), 30, 0.9)
    parameter.learn(as_triplets(sets), LearningRule(0.5, RescaledHinge(0.0), 3))
    S = parameter.scores
    expected = [(S(x[None], p[None]) - S(x[None], n[None]))[0, 0] for x, p, n in zip(*sets, strict=True)]
    np.testing.assert_allclose(parameter.margins(as_triplets(sets)), expected, atol=1e-12)


def test_float32_is_close_to_float64(random_triplets):
    sets = random_triplets(60, 6, 0.6)
    small = [one.astype(np.float32) for one in sets]
    wide = nearkin.OKS(0.2, scale=None, gamma=0.5).fit_triplets(*sets)
    narrow = nearkin.OKS(0.2, scale=None, gamma=0.5).fit_triplets(*small)
    scores = narrow.pair_score(small[0], small[1])
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, wide.pair_score(sets[0], sets[1]), atol=1e-4)


# ---------------------------------------------------------------- laws


@pytest.mark.parametrize("prefix", ("", "Robust"))
def test_the_linear_kernel_is_oasis_step_for_step(random_triplets, prefix):
    sets = random_triplets(100, 5, 0.6)
    plain = getattr(nearkin, f"{prefix}OASIS")(0.2, scale=None).fit_triplets(*sets)
    model = getattr(nearkin, f"{prefix}OKS")(0.2, scale=None, kernel="linear").fit_triplets(*sets)
    np.testing.assert_allclose(model.plausibility_, plain.plausibility_, rtol=1e-10)
    scores = model.pair_score(sets[0], sets[1])
    np.testing.assert_allclose(scores, plain.pair_score(sets[0], sets[1]), rtol=1e-10, atol=1e-12)
    assert model.n_updates_ == plain.n_updates_ == model.n_terms_


def test_one_kernel_alone_is_oks(rng):
    X, y = labelled(rng)
    one = nearkin.OKS(gamma=0.8, random_state=0).fit(X, y)
    several = nearkin.OMKS(kernels=[{"kernel": "rbf", "gamma": 0.8}], random_state=0).fit(X, y)
    np.testing.assert_array_equal(one.plausibility_, several.plausibility_)
    np.testing.assert_array_equal(one.pair_score(X[:9], X[9:18]), several.pair_score(X[:9], X[9:18]))
    assert several.weights_.tolist() == [1.0]


@pytest.mark.parametrize("name", ("OKS", "OMKS"))
def test_one_bad_triplet_has_a_bounded_say(name, random_triplets):
    sets = random_triplets(60, 3, 0.3)
    x, near = np.ones((1, 3)), np.full((1, 3), 1.01)
    for _ in range(3):  # teach that x and near belong together, then claim the opposite
        sets = [np.concatenate([a, np.repeat(b, 20, axis=0)]) for a, b in zip(sets, (x, near, -x), strict=True)]
    moved = {}
    for kind in (name, f"Robust{name}"):
        kernels = {"kernels": ["linear", "rbf"]} if name == "OMKS" else {"kernel": "linear"}
        model = getattr(nearkin, kind)(0.1, eta=3.0, scale=None, **kernels).fit_triplets(*sets)
        before = model.pair_score(x, near)
        model.partial_fit_triplets(x, -x, near)
        moved[kind] = float(np.abs(model.pair_score(x, near) - before)[0])
    assert moved[f"Robust{name}"] < 0.05 * moved[name]


def test_the_weight_of_a_kernel_falls_when_it_ranks_wrongly(rng):
    """Rows on two circles: inner products cannot tell the circles apart, distances can."""
    angle = rng.uniform(0, 2 * np.pi, 200)
    y = np.arange(200) % 2
    X = (1.0 + y)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    kernels = ["linear", {"kernel": "rbf", "gamma": 4.0}]
    model = nearkin.OMKS(kernels=kernels, scale=None, triplets="random", random_state=0).fit(X, y)
    assert model.weights_[1] > 0.9


# ---------------------------------------------------------------- the budget


def test_the_budget_keeps_the_newest_terms(random_triplets):
    sets = random_triplets(60, 4, 0.3)
    model = nearkin.OKS(0.1, scale=None, gamma=1.0, budget=7).fit_triplets(*sets)
    assert model.n_terms_ == 7
    assert model.n_updates_ > 40
    tau, rows = model.state_.parameter.terms_of(0)
    assert (tau > 0).all()
    np.testing.assert_array_equal(rows[0][-1], sets[0][59])


@every_name
def test_memory_stays_within_the_budget_over_an_endless_stream(name, rng):
    X, y = labelled(rng, n=200, d=30, spread=2.0)
    model = make(name, budget=20, triplets="one_pass").partial_fit(X, y)

    def grown():
        tracemalloc.start()
        for _ in range(5):
            model.partial_fit(X, y)
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return kept

    grown()
    assert model.state_.parameter.rows.shape[2] == 20
    assert np.all(np.asarray(model.n_terms_) <= 20)
    one = model.state_.parameter.rows.nbytes
    assert grown() < 4 * one + (1 << 20)


@every_name
@each(budget=(10, 500))
def test_the_chunks_in_which_a_stream_comes_do_not_matter(name, budget, rng):
    X, y = labelled(rng, n=120, spread=1.0)
    whole = make(name, budget=budget, triplets="one_pass", shuffle=False, rescore=False)
    whole.partial_fit(X[:30], y[:30]).partial_fit(X[30:], y[30:])
    model = make(name, budget=budget, triplets="one_pass").partial_fit(X[:30], y[:30])
    for start in range(30, 120, 7):
        model.partial_fit(X[start : start + 7], y[start : start + 7])
    np.testing.assert_allclose(
        model.pair_score(X[:9], X[9:18]), whole.pair_score(X[:9], X[9:18]), rtol=1e-9, atol=1e-12
    )
    assert model.n_updates_ == whole.n_updates_
    np.testing.assert_array_equal(model.n_terms_, whole.n_terms_)


# ---------------------------------------------------------------- the shell


@every_name
def test_what_needs_a_map_is_missing_and_says_what_to_use(name, rng):
    X, y = labelled(rng)
    model = make(name).fit(X, y)
    for missing in (
        "transform",
        "fit_transform",
        "metric_",
        "components_",
        "query_map_",
        "map_queries",
        "pair_distance",
    ):
        assert not hasattr(model, missing)
        with pytest.raises(AttributeError, match=f"{name} has no {missing}.*pair_score.*RobustKNeighborsClassifier"):
            getattr(model, missing)
    with pytest.raises(TypeError, match="transform"):
        make_pipeline(make(name), nearkin.RobustKNeighborsClassifier()).fit(X, y)


@every_name
def test_models_come_back_from_a_file_and_learn_on_alike(name, rng, tmp_path):
    X, y = labelled(rng)
    model = make(name, budget=15).fit(X[:60], y[:60])
    nearkin.save(model, tmp_path / "model")
    other = nearkin.load(tmp_path / "model")
    for part in (slice(60, 75), slice(75, 90)):
        np.testing.assert_array_equal(model.pair_score(X[:9], X[9:18]), other.pair_score(X[:9], X[9:18]))
        np.testing.assert_array_equal(model.plausibility(X, y), other.plausibility(X, y))
        model.partial_fit(X[part], y[part])
        other.partial_fit(X[part], y[part])
    classifier = nearkin.RobustKNeighborsClassifier(clone(model)).fit(X, y)
    nearkin.save(classifier, tmp_path / "classifier")
    np.testing.assert_array_equal(nearkin.load(tmp_path / "classifier").predict(X), classifier.predict(X))


@every_name
def test_rows_that_are_all_equal_teach_nothing(name):
    X = np.full((12, 3), 2.0)
    y = np.arange(12) % 3
    model = make(name).fit(X, y)
    assert model.n_updates_ == 0
    assert np.isfinite(model.pair_score(X, X)).all()
    assert ((model.plausibility_ > 0) & (model.plausibility_ <= 1)).all()


@every_name
@each(C=(0, 1e-300, 1e300, np.inf), eta=(0, 5e-324, 1e3, 1e308))
def test_extreme_numbers_that_the_rules_allow_give_a_sound_model_or_a_clear_error(name, C, eta, rng):
    X, y = labelled(rng, n=24)
    model = make(name, C=C, eta=eta)
    try:
        model.fit(X, y)
    except ValueError as error:
        assert name in str(error)
    else:
        assert np.isfinite(model.pair_score(X, X)).all()
        assert ((model.plausibility_ > 0) & (model.plausibility_ <= 1)).all()


WRONG = {
    "kernel": ("gauss", None, 1),
    "gamma": (0.0, -1.0, "auto", None, np.inf),
    "degree": (0, 1.5, "3"),
    "coef0": (-1.0, np.inf, None),
    "budget": (0, -1, 1.5, None),
    "kernels": ([], "rbf", ["gauss"], [{"kernel": "rbf", "gamma": -1.0}], [{"name": "rbf"}], [3], 5),
    "beta": (0.0, 1.0, 1.5, None),
}


@each(name=tuple(WRONG))
def test_wrong_value_of_a_parameter_is_refused_with_owner_name_and_value(name, rng):
    X, y = labelled(rng, n=12)
    for cls in (nearkin.OKS, nearkin.RobustOMKS):
        if name not in cls().get_params():
            continue
        for value in WRONG[name]:
            with pytest.raises(ValueError, match=f"{cls.__name__}: parameter `{name}` must be"):
                cls(**{name: value}).fit(X, y)


# ---------------------------------------------------------------- neighbours


@every_name
def test_neighbours_are_those_of_the_largest_similarity(name, rng):
    X, y = labelled(rng, n=60, spread=1.0)
    model = nearkin.RobustKNeighborsClassifier(make(name), noise_rate=0.0, weights="uniform").fit(X, y)
    queries, _ = labelled(rng, n=9)
    values, index = model.kneighbors(queries, 4)
    learner = model.learner_
    S = np.array([learner.pair_score(np.repeat(q[None], 60, axis=0), X) for q in queries])
    np.testing.assert_allclose(values, -np.sort(-S, axis=1)[:, :4], atol=1e-12)
    np.testing.assert_allclose(np.take_along_axis(S, index, axis=1), values, atol=1e-12)


@every_name
def test_the_classifier_works_with_noisy_labels(name, rng):
    X, y = labelled(rng, n=300, d=6, spread=0.4)
    noisy, _ = nearkin.flip_labels(y[:200], 0.2, random_state=0)
    model = nearkin.RobustKNeighborsClassifier(make(name)).fit(X[:200], noisy)
    assert model.score(X[200:], y[200:]) > 0.85


def test_scores_beyond_the_numbers_are_refused(blobs):
    X, y = blobs(n=40, d=4)
    with pytest.raises(ValueError, match=r"OKS: the steps grew beyond what float32 can hold. Lower `C` or `degree`"):
        nearkin.OKS(kernel="poly", degree=20, coef0=100.0, random_state=0).fit(X.astype(np.float32), y)
