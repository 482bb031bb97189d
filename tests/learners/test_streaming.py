"""Streams of labelled rows: new classes, explicit triplets between them, and sparse rows."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

import nearkin
from each import each
from nearkin.triplets import OCTG, BatchTriplets, OnePassTriplets, RandomTriplets

N, D = 150, 4


@pytest.fixture
def stream(blobs):
    X, codes = blobs(n=N, d=D, n_classes=3, spread=0.5, distance=0.3)
    return X, np.array(["a", "b", "c"])[codes]


def learner(name, source, **parameters):
    if name.endswith("LODML"):
        parameters = {"n_components": 3, **parameters}
    parameters = {"init": "identity", "C": 0.1, "scale": None, "shuffle": False, "random_state": 0, **parameters}
    return getattr(nearkin, name)(triplets=source, **parameters)


def assert_same_model(one, other, tolerance=1e-9):
    np.testing.assert_allclose(
        one.metric_, other.metric_, rtol=0, atol=tolerance * max(1.0, np.abs(other.metric_).max())
    )
    for counter in ("n_rows_seen_", "n_triplets_seen_", "n_updates_"):
        assert getattr(one, counter) == getattr(other, counter)


# ---------------------------------------------------------------- plausibility


def test_plausibility_after_partial_fit_is_that_of_its_rows(stream):
    X, y = stream
    model = learner("RobustODML", "octg").partial_fit(X[:100], y[:100])
    assert model.plausibility_.shape == (100,)
    model.partial_fit(X[100:], y[100:])
    assert model.plausibility_.shape == (50,)
    assert np.all((model.plausibility_ > 0) & (model.plausibility_ <= 1))


# ---------------------------------------------------------------- classes


@each(
    source=[OCTG(), OCTG(metric="learned", update_centers=True), OnePassTriplets(), BatchTriplets(), RandomTriplets()],
    name=["RobustODML", "RobustLODML", "OASIS"],
)
def test_a_class_may_appear_in_a_later_batch(name, source, stream):
    X, y = stream
    early = np.flatnonzero(y != "c")
    late = np.flatnonzero(y == "c")
    model = learner(name, source).partial_fit(X[early], y[early])
    assert model.classes_.tolist() == ["a", "b"]
    mixed = np.concatenate([late[:20], early[:20]])
    model.partial_fit(X[mixed], y[mixed])
    assert model.classes_.tolist() == ["a", "b", "c"]
    weights = model.plausibility(X, y)
    assert weights.shape == (N,)
    assert np.all((weights > 0) & (weights <= 1))
    if isinstance(source, OCTG) and not source.update_centers:
        np.testing.assert_array_equal(model.triplet_source_.centers_[-1], X[late[0]])


def test_a_label_outside_the_declared_classes_is_refused_and_changes_nothing(stream):
    X, y = stream
    model = learner("RobustODML", "octg").partial_fit(X[:60], y[:60], classes=["a", "b", "c"])
    before, seen = model.metric_.copy(), model.n_rows_seen_
    strange = y[60:].copy()
    strange[3] = "z"
    with pytest.raises(ValueError, match=r"'z'.*not among the declared classes"):
        model.partial_fit(X[60:], strange)
    np.testing.assert_array_equal(model.metric_, before)
    assert model.n_rows_seen_ == seen
    assert model.classes_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="`classes` differs"):
        model.partial_fit(X[60:], y[60:], classes=["a", "b"])


# ---------------------------------------------------------------- explicit triplets


def test_explicit_triplets_and_labelled_rows_may_follow_each_other(random_triplets, stream):
    X, y = stream
    model = nearkin.RobustODML(scale=None, random_state=0).fit_triplets(*random_triplets(20, D, 0.5))
    with pytest.raises(ValueError, match="knows no classes"):
        model.plausibility(X, y)
    before = model.metric_.copy()
    model.partial_fit(X, y)
    assert np.abs(model.metric_ - before).max() > 0
    model.partial_fit_triplets(*random_triplets(5, D, 0.5))
    assert model.plausibility(X, y).shape == (N,)
    assert model.fit_triplets(*random_triplets(5, D, 0.5)).n_triplets_seen_ == 5


# ---------------------------------------------------------------- sparse rows


@pytest.fixture
def sparse_rows(rng):
    X = rng.normal(size=(80, 12)) * (rng.random((80, 12)) < 0.3)
    X[:, 0] = rng.normal(size=80)  # no two rows are equal
    X[:, 3] += 2.0 * (np.arange(80) % 3 == 0)
    return X, np.arange(80) % 3


@each(
    source=[
        OCTG(2),
        OCTG(metric="learned", update_centers=True),
        OnePassTriplets(),
        BatchTriplets(2),
        RandomTriplets(2),
    ],
    name=["RobustOASIS", "RobustLODML"],
)
def test_sparse_rows_give_the_same_model_with_every_source(name, source, sparse_rows):
    X, y = sparse_rows
    dense, other = (
        getattr(nearkin, name)(triplets=source, random_state=0).fit(rows, y) for rows in (X, sparse.csr_array(X))
    )
    assert_same_model(other, dense, tolerance=1e-8)


@pytest.mark.slow
@each(source=["octg", "one_pass", "random"], init=["identity", "pca"])
def test_a_wide_sparse_matrix_is_never_made_dense_as_a_whole(init, source):
    """5,000 rows of 20,000 features: 800 MB dense, a few MB as they lie."""
    n, d = 5000, 20_000
    model = nearkin.RobustLODML(n_components=4, init=init, triplets=source, scale=None, rescore=False, random_state=0)
    rng = np.random.default_rng(0)
    X = sparse.random_array((n, d), density=1e-3, format="csr", random_state=rng)
    y = rng.integers(0, 3, n)
    small = sparse.random_array((30, d), density=1e-3, format="csr", random_state=rng)
    model.fit(small, y[:30])  # whatever is compiled or loaded at the first call
    tracemalloc.start()
    model.fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert model.n_updates_ > 0
    assert peak < 0.5 * n * d * 8
