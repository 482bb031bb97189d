"""LPA-ODML: a distance per class, a global part they share, and neighbours by the training row's class."""

import numba
import numpy as np
import pytest
from sklearn.base import clone

import nearkin
from each import each
from nearkin.losses import RescaledHinge
from nearkin.measures import DISTANCE
from nearkin.parameters import NAMELESS, LearningRule, LocalMetrics
from nearkin.rows import Rows
from nearkin.triplets import OCTG, OnePassTriplets, Triplets
from printed import printed
from reference.full import odml
from reference.lpa import into_cone, lpa_odml


def as_triplets(sets, classes=None):
    n = len(sets[0])
    at = np.arange(3 * n)
    rows = Rows(np.concatenate(sets))
    return Triplets(rows, rows, at[:n], at[n : 2 * n], at[2 * n :], at, at, classes)


def learned(sets, classes, C, mu, eta, pieces=1):
    parameter = LocalMetrics(sets[0].shape[1], sets[0].dtype, mu)
    weights, updates = [], 0
    for part in np.array_split(np.arange(len(classes)), pieces):
        some = as_triplets([one[part] for one in sets], classes[part])
        weight, moved = parameter.learn(some, LearningRule(C, RescaledHinge(eta), 3))
        weights.append(weight)
        updates += moved
    return parameter, np.concatenate(weights), updates


def labelled(rng, n=90, d=5, k=3, spread=0.5):
    y = rng.permutation(np.arange(n) % k)
    return rng.normal(size=(k, d))[y] + spread * rng.normal(size=(n, d)), y


# ---------------------------------------------------------------- the literal twin


@each(eta=(0.0, 1.0), mu=(0.2, 1.0, 30.0, np.inf), C=(0.01, 0.3, 2.0, np.inf))
def test_the_compiled_sweep_agrees_with_the_literal_twin(random_triplets, rng, C, mu, eta):
    sets = random_triplets(200, 6, 0.6)
    classes = rng.integers(0, 4, 200)
    parameter, weights, updates = learned(sets, classes, C, mu, eta)
    twin = lpa_odml(*sets, classes.tolist(), C, mu, eta)
    size = max(1.0, np.abs(twin.global_part).max())
    np.testing.assert_allclose(parameter.metric, twin.global_part, rtol=0, atol=1e-12 * size)
    for code in range(4):
        local = max(size, np.abs(twin.metric(code)).max())
        np.testing.assert_allclose(parameter.of_class(code).metric, twin.metric(code), rtol=0, atol=1e-12 * local)
    np.testing.assert_allclose(weights, twin.plausibility, atol=1e-11)
    assert updates == twin.n_updates > 10


@pytest.mark.parametrize("pieces", (1, 7, 150))
def test_pieces_of_a_stream_of_triplets_do_not_matter(random_triplets, rng, pieces):
    sets = random_triplets(150, 5, 0.8)
    classes = rng.integers(0, 3, 150)
    parameter, weights, _ = learned(sets, classes, 1.0, 0.5, 1.0, pieces)
    twin = lpa_odml(*sets, classes.tolist(), 1.0, 0.5, 1.0)
    np.testing.assert_allclose(parameter.metric, twin.global_part, atol=1e-11)
    np.testing.assert_allclose(weights, twin.plausibility, atol=1e-10)
    for code in range(3):
        np.testing.assert_allclose(parameter.of_class(code).metric, twin.metric(code), atol=1e-11)


def test_looking_at_the_metrics_does_not_change_what_is_learned_next(random_triplets, rng):
    sets = random_triplets(120, 5, 0.9)
    classes = rng.integers(0, 3, 120)
    plain, _, _ = learned(sets, classes, 3.0, 0.5, 0.0)
    looked = LocalMetrics(5, np.dtype(float), 0.5)
    for part in np.array_split(np.arange(120), 30):
        looked.learn(as_triplets([one[part] for one in sets], classes[part]), LearningRule(3.0, RescaledHinge(0.0), 3))
        for code in range(3):
            looked.of_class(code)
    np.testing.assert_allclose(looked.metric, plain.metric, atol=1e-11)
    np.testing.assert_allclose(looked.local, plain.local, atol=1e-11)


def test_the_full_projection_of_a_class_equals_the_literal_one(rng):
    from nearkin.kernels.local import settle

    @numba.njit
    def settled(*arguments):  # a helper has no way in from Python
        settle(*arguments)

    for d in (1, 2, 5, 20):
        M = rng.normal(size=(d, d))
        M = M @ M.T
        L = rng.normal(size=(d, d))
        L = L + L.T
        L_before, mark = L.copy(), np.array([-1.0, 0.0, 0.0])
        settled(M, L, mark, 0.0, 0.1, (np.empty((d, d)), np.empty(d), np.empty((d, d))))
        lower = np.tril_indices(d)
        np.testing.assert_allclose(L[lower], into_cone(M, L_before)[lower], atol=1e-12 * d)
        assert mark.tolist()[:2] == [0.0, 0.0]


# ---------------------------------------------------------------- laws


def test_an_infinite_mu_is_odml(rng):
    X, y = labelled(rng)
    for name in ("", "Robust"):
        settings = {"C": 0.7, "random_state": 0}
        local = getattr(nearkin, f"{name}LPAODML")(mu=np.inf, **settings).fit(X, y)
        plain = getattr(nearkin, f"{name}ODML")(**settings).fit(X, y)
        np.testing.assert_allclose(local.metric_, plain.metric_, atol=1e-12)
        np.testing.assert_allclose(local.class_metrics_, np.stack([plain.metric_] * 3), atol=1e-12)
        np.testing.assert_allclose(local.plausibility_, plain.plausibility_, atol=1e-10)


def test_every_metric_that_is_shown_is_positive_semi_definite(rng):
    X, y = labelled(rng, spread=1.5)
    model = nearkin.LPAODML(C=5.0, mu=0.3, n_epochs=2, random_state=0).fit(X, y)
    for metric in (model.metric_, *model.class_metrics_):
        assert np.linalg.eigvalsh(metric)[0] > -1e-12 * np.abs(metric).max()


def test_each_class_gets_a_metric_of_its_own_in_the_order_of_the_classes(rng):
    X, y = labelled(rng, spread=1.0)
    names = np.array(["c", "a", "b"])[y]
    model = nearkin.LPAODML(random_state=0).fit(X, names)
    other = nearkin.LPAODML(random_state=0).fit(X, y)
    assert model.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(model.class_metrics_, other.class_metrics_[[1, 2, 0]])
    assert np.abs(model.class_metrics_ - model.metric_).max(axis=(1, 2)).min() > 1e-3


def test_a_class_met_in_mid_stream_starts_at_the_global_metric(rng):
    X, y = labelled(rng, n=120, spread=1.0)
    early = y < 2
    model = nearkin.LPAODML(triplets=OnePassTriplets(), random_state=0)
    model.partial_fit(X[early], y[early], classes=[0, 1, 2])
    np.testing.assert_array_equal(model.class_metrics_[2], model.metric_)
    model.partial_fit(X, y)
    assert np.abs(model.class_metrics_[2] - model.metric_).max() > 1e-3


def test_explicit_triplets_count_as_one_nameless_class(random_triplets):
    sets = random_triplets(80, 4, 0.6)
    model = nearkin.LPAODML(C=0.3, mu=0.5, scale=None).fit_triplets(*sets)
    twin = lpa_odml(*sets, ["one"] * 80, 0.3, 0.5)
    np.testing.assert_allclose(model.metric_, twin.global_part, atol=1e-12)
    assert model.class_metrics_.shape == (0, 4, 4)
    parameter = model.state_.parameter
    np.testing.assert_allclose(parameter.of_class(NAMELESS).metric, twin.metric("one"), atol=1e-12)


def test_plausibility_uses_the_metric_of_the_anchors_class(rng):
    X, y = labelled(rng, spread=1.0)
    model = printed(nearkin.RobustLPAODML, C=1.0, scale=None, triplets=OCTG(metric="learned"), random_state=0)
    model.fit(X, y)
    centers = model.triplet_source_.centers_
    owners = model.triplet_source_.center_codes_
    codes = [list(dict.fromkeys(y.tolist())).index(one) for one in y]
    for x, label, code, found in zip(X, y, codes, model.plausibility(X, y), strict=True):
        M = model.class_metrics_[label]
        d2 = np.einsum("ij,jk,ik->i", centers - x, M, centers - x)
        own, other = d2[owners == code].min(), d2[owners != code].min()
        np.testing.assert_allclose(found, np.exp(-max(0.0, 1.0 - (other - own))), atol=1e-9)


# ---------------------------------------------------------------- neighbours


def test_neighbours_are_compared_by_the_metric_of_the_training_rows_class(rng):
    X, y = labelled(rng, n=80, spread=1.0)
    model = nearkin.RobustKNeighborsClassifier(
        nearkin.LPAODML(C=1.0, mu=0.3, random_state=0), noise_rate=0.0, weights="uniform"
    ).fit(X, y)
    queries, _ = labelled(rng, n=20)
    values, index = model.kneighbors(queries)
    learner = model.learner_
    rows, asked = learner.scaling_.apply(X), learner.scaling_.apply(queries)
    place = {label: i for i, label in enumerate(learner.classes_.tolist())}
    d2 = np.array(
        [[(q - x) @ learner.class_metrics_[place[c]] @ (q - x) for x, c in zip(rows, y, strict=True)] for q in asked]
    )
    np.testing.assert_array_equal(index, np.argsort(d2, axis=1)[:, :3])
    np.testing.assert_allclose(values, np.sqrt(np.sort(d2, axis=1)[:, :3]), atol=1e-7)


def test_the_learner_and_its_robust_form_classify_noisy_rows(rng):
    X, y = labelled(rng, n=300, d=6, spread=0.4)
    noisy, _ = nearkin.flip_labels(y[:200], 0.2, random_state=0)
    model = nearkin.RobustKNeighborsClassifier(nearkin.RobustLPAODML(random_state=0)).fit(X[:200], noisy)
    assert model.score(X[200:], y[200:]) > 0.9
    assert clone(model).fit(X[:200], y[:200]).score(X[200:], y[200:]) > 0.9


def test_margins_know_the_class_of_each_anchor(random_triplets, rng):
    sets = random_triplets(60, 4, 0.7)
    classes = rng.integers(0, 3, 60)
    parameter, _, _ = learned(sets, classes, 0.5, 0.5, 0.0)
    z = parameter.margins(as_triplets(sets, classes))
    for t, code in enumerate(classes):
        g, h = DISTANCE.directions(*(one[t] for one in sets))
        np.testing.assert_allclose(z[t], g @ parameter.of_class(int(code)).metric @ h, atol=1e-12)


def test_a_single_class_moves_the_sum_as_odml_would_with_a_smaller_cap(random_triplets):
    """With one class and no exit from the cone, M + L moves by (1 + 1/mu) tau."""
    sets = random_triplets(20, 4, 0.2)
    mu, C = 0.5, 1e-3
    parameter, _, _ = learned(sets, np.zeros(20, np.int64), C, mu, 0.0)
    plain = odml(zip(*sets, strict=True), C * (1 + 1 / mu))
    np.testing.assert_allclose(parameter.of_class(0).metric, plain.parameter, atol=1e-12)
