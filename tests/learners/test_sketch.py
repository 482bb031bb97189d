"""Dual random projection, what is recovered from steps in a sketch, and LSMDML against its twin."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils.estimator_checks import parametrize_with_checks

import nearkin
from each import each
from nearkin.parameters import Recovered
from reference import sketch
from reference.common import distance_direction
from reference.full import psd_part

ETAS = (0.0, 0.7, 3.0)


# ---------------------------------------------------------------- the projection


def _without_array_api(mark):
    """Leave out the one check that scikit-learn skips for estimators without array API support."""
    names, pairs = mark.args
    kept = [pair for pair in pairs if pair[1].func.__name__ != "check_array_api_input"]
    return pytest.mark.parametrize(names, kept, ids=mark.kwargs["ids"])


@_without_array_api(parametrize_with_checks([nearkin.DualRandomProjection(7, random_state=0)]))
def test_the_projection_keeps_the_rules_of_scikit_learn(estimator, check):
    check(estimator)


def test_two_projections_keep_inner_products_on_average_and_one_does_not(rng):
    d, m, n = 5, 6, 4000
    A, B = (distance_direction(*rng.normal(size=(3, d))) for _ in range(2))
    two, one = np.empty(n), np.empty(n)
    for i in range(n):
        projection = nearkin.DualRandomProjection(m, random_state=rng).fit(np.ones((1, d)))
        two[i] = np.sum(projection.sketch(A) * projection.sketch(B))
        projection.right_ = projection.left_
        one[i] = np.sum(projection.sketch(A) * projection.sketch(B))
    exact = np.sum(A * B)
    biased = (1.0 + 1.0 / m) * exact + np.trace(A) * np.trace(B) / m
    assert abs(two.mean() - exact) < 5.0 * two.std() / np.sqrt(n)
    assert abs(one.mean() - biased) < 5.0 * one.std() / np.sqrt(n)


def test_sketches_of_rows_make_sketches_of_matrices(rng):
    X = rng.normal(size=(4, 30))
    projection = nearkin.DualRandomProjection(9, random_state=0).fit(X)
    left, right = projection.transform_pair(X)
    np.testing.assert_allclose(projection.sketch(np.outer(X[0], X[1])), np.outer(left[0], right[1]), atol=1e-12)
    np.testing.assert_array_equal(projection.transform(X), np.concatenate([left, right], axis=1))
    np.testing.assert_allclose(projection.transform(sparse.csr_array(X)), projection.transform(X), atol=1e-12)
    assert projection.transform(X.astype(np.float32)).dtype == np.float64
    narrow = nearkin.DualRandomProjection(9, random_state=0).fit(X.astype(np.float32))
    assert narrow.left_.dtype == narrow.transform(X.astype(np.float32)).dtype == np.float32
    again = nearkin.DualRandomProjection(9, random_state=0).fit(X)
    np.testing.assert_array_equal(again.right_, projection.right_)
    with pytest.raises(ValueError, match=r"DualRandomProjection: A must have shape \(30, 30\); got \(3, 3\)"):
        projection.sketch(np.eye(3))
    with pytest.raises(ValueError, match="DualRandomProjection: parameter `n_components` must be"):
        nearkin.DualRandomProjection(0).fit(X)


# ---------------------------------------------------------------- recovery in bounded memory


def _sum_of(taus, g, h):
    return sum(0.5 * t * (np.outer(a, b) + np.outer(b, a)) for t, a, b in zip(taus, g, h, strict=True))


@each(pieces=[1, 3, 50], buffer=[1, 4, 64])
def test_recovery_of_full_rank_is_exact_whatever_the_buffer_and_the_pieces(buffer, pieces, rng):
    d, n = 6, 50
    taus, (g, h) = 0.2 * rng.random(n), rng.normal(size=(2, n, d))
    recovered = Recovered(d, d, buffer, np.dtype(np.float64))
    for part in np.array_split(np.arange(n), pieces):
        recovered.add(taus[part], g[part], h[part])
    expected = psd_part(np.eye(d) + _sum_of(taus, g, h))
    np.testing.assert_allclose(recovered.metric, expected, atol=1e-11)
    np.testing.assert_allclose(recovered.components @ recovered.components, expected, atol=1e-11)
    X = rng.normal(size=(7, d))
    np.testing.assert_allclose(recovered.embed(X), X @ recovered.components, atol=1e-11)
    np.testing.assert_allclose(recovered.margins(g, h), ((g @ expected) * h).sum(axis=1), atol=1e-10)


def test_recovery_keeps_the_eigenpairs_of_largest_magnitude(rng):
    d, n, r = 20, 8, 5
    taus, (g, h) = rng.random(n), rng.normal(size=(2, n, d))
    recovered = Recovered(d, r, n, np.dtype(np.float64))
    recovered.add(taus, g, h)
    recovered.add(np.array([1e-12]), np.zeros((1, d)), np.zeros((1, d)))  # one step too many for the buffer
    assert recovered.vectors.shape == (r, d)
    values = np.linalg.eigvalsh(_sum_of(taus, g, h))
    largest = values[np.argsort(-np.abs(values))[:r]]
    np.testing.assert_allclose(np.sort(recovered.values), np.sort(largest), rtol=1e-10)
    np.testing.assert_allclose(recovered.vectors @ recovered.vectors.T, np.eye(r), atol=1e-12)


@pytest.mark.parametrize("buffer", [1, 3, 64])
def test_eigenpairs_are_exact_while_the_steps_span_no_more_than_the_rank(buffer, rng):
    d, n, r = 30, 40, 6
    taus, (g, h) = 0.2 * rng.random(n), rng.normal(size=(2, n, r)) @ np.linalg.qr(rng.normal(size=(d, r)))[0].T
    recovered = Recovered(d, r, buffer, np.dtype(np.float64))
    recovered.add(taus, g, h)
    np.testing.assert_allclose(recovered.metric, psd_part(np.eye(d) + _sum_of(taus, g, h)), atol=1e-11)
    np.testing.assert_allclose(recovered.embed(g), g @ recovered.components, atol=1e-11)


def test_nothing_learned_is_the_identity_to_the_bit():
    for recovered in (Recovered(4, rank, 3, np.dtype(np.float32)) for rank in (2, 4)):
        np.testing.assert_array_equal(recovered.metric, np.eye(4))
        np.testing.assert_array_equal(recovered.components, np.eye(4))


# ---------------------------------------------------------------- the learner


def modal(rng, n, sizes, scale):
    return tuple([scale * rng.normal(size=(n, d)) for d in sizes] for _ in range(3))


@each(simplex=[False, True], eta=ETAS, C=[0.02, 0.3])
def test_lsmdml_is_its_twin(C, eta, simplex, rng):
    sets = modal(rng, 250, (15, 3, 17), 0.3)
    how = {"C_weights": 0.05, "eta": eta, "simplex": simplex}
    model = nearkin.RobustLSMDML(C, n_projections=8, buffer=20, scale=None, random_state=1, **how).fit_triplets(*sets)
    parameter = model.state_.parameter
    pairs = [
        (np.eye(len(hat)),) * 2 if pair is None else pair
        for hat, pair in zip(parameter.hats, parameter.projections, strict=True)
    ]
    assert [len(pair[0]) for pair in pairs] == [15, 3, 17]
    run = sketch.lsmdml(*sets, pairs, C=C, **how)
    assert run.n_updates > 20
    for recovered, expected in zip(parameter.blocks, run.parameters, strict=True):
        np.testing.assert_allclose(recovered.metric, expected, atol=1e-12)
    np.testing.assert_allclose(model.weights_, run.theta, atol=1e-12)
    np.testing.assert_allclose(model.plausibility_, run.plausibility, atol=1e-12)
    assert model.n_updates_ == run.n_updates


@pytest.mark.parametrize("eta", ETAS)
def test_lsmdml_without_a_sketch_is_odml_projected_at_the_end(eta, random_triplets):
    sets = random_triplets(150, 9, 0.4)
    model = nearkin.RobustLSMDML(0.1, eta=eta, scale=None).fit_triplets(*sets)
    expected = nearkin.RobustODML(0.1, eta=eta, psd="end", scale=None).fit_triplets(*sets)
    np.testing.assert_allclose(model.metric_, expected.metric_, atol=1e-11)
    np.testing.assert_allclose(model.plausibility_, expected.plausibility_, atol=1e-11)
    assert np.linalg.eigvalsh(model.metric_)[0] > -1e-12


def test_the_metric_found_in_a_sketch_points_where_the_exact_one_does(blobs):
    X, y = blobs(n=120, d=60, n_classes=3)
    exact, sketched = (nearkin.LSMDML(n_projections=m, random_state=0).fit(X, y).metric_ - np.eye(60) for m in (60, 40))
    assert np.sum(exact * sketched) > 0.7 * np.linalg.norm(exact) * np.linalg.norm(sketched)


def test_weights_of_the_metric_and_of_the_map_agree(rng):
    sets = modal(rng, 80, (30, 5), 0.3)
    model = nearkin.LSMDML(n_projections=10, scale=None, random_state=0).fit_triplets(*sets)
    X = [rng.normal(size=(6, d)) for d in (30, 5)]
    whole = np.concatenate(X, axis=1)
    np.testing.assert_allclose(model.transform(X), whole @ model.components_.T, atol=1e-12)
    np.testing.assert_allclose(model.components_.T @ model.components_, model.metric_, atol=1e-11)
    assert model.get_feature_names_out().shape == (35,)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_twenty_thousand_features_train_in_bounded_memory(kind):
    """A d x d matrix would take 1.6 GB in single precision; rows are not counted."""
    n, d = 400, 20_000
    rng = np.random.default_rng(0)
    X = sparse.random_array((n, d), density=0.01, format="csr", random_state=rng, dtype=np.float32)
    y = rng.integers(0, 3, n)
    if kind == "dense":
        X = X.toarray()
    model = nearkin.RobustLSMDML(scale=None, rescore=False, random_state=0)
    model.fit(X[:20], y[:20])  # whatever is compiled or loaded at the first call
    tracemalloc.start()
    model.fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert model.n_updates_ > 2 * 64  # the buffer was merged more than once
    copies = n * d * 4 if kind == "dense" else 0  # of the rows in their new order
    assert peak - copies < 200e6
    assert model.transform(X[:3]).shape == (3, d)
