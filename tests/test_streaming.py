"""A stream in chunks, new classes, explicit triplets in pieces, and sparse rows."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

import nearkin
from nearkin.triplets import OCTG, BatchTriplets, OnePassTriplets, RandomTriplets

BASE = ("OASIS", "ODML", "LOSL", "LODML", "OPML", "SLMOML", "ITML", "LPAODML", "OMDML", "LOMDML", "LSMDML")
LEARNERS = (*BASE, *(f"Robust{name}" for name in BASE))
CHUNKS = (1, 7, 64, 1000)
N, D = 150, 4
CENTERS = {
    "centers": [[0.5, 0.0, 0.0, 0.0], [0.0, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.0], [-0.2, 0.1, 0.0, 0.3]],
    "center_labels": ["a", "b", "c", "a"],
}
#: Sources whose state does not depend on the size of the first batch.
SOURCES = {
    "octg": OCTG(**CENTERS),
    "octg_learned": OCTG(**CENTERS, metric="learned", refresh=8),
    "octg_literal": OCTG(**CENTERS, metric="learned", refresh=1),
    "octg_moving": OCTG(**CENTERS, update_centers=True, refresh=5),
    "octg_both": OCTG(**CENTERS, metric="learned", update_centers=True),
    "one_pass": OnePassTriplets(),
    "one_pass_cold": OnePassTriplets(cold_start=True),
}


@pytest.fixture
def stream(blobs):
    X, codes = blobs(n=N, d=D, n_classes=3, spread=0.5, distance=0.3)
    return X, np.array(["a", "b", "c"])[codes]


def learner(name, source, **parameters):
    if name.endswith(("LOSL", "LODML", "LOMDML")):
        parameters = {"n_components": 3, "init": "identity", **parameters}
    if name.endswith("ITML"):
        parameters = {"bounds": (0.5, 1.5), **parameters}
    return getattr(nearkin, name)(C=0.1, triplets=source, scale=None, shuffle=False, random_state=0, **parameters)


def fed_in_chunks(model, X, y, size):
    weights = []
    for start in range(0, X.shape[0], size):
        part = slice(start, start + size)
        model.partial_fit(X[part], y[part], classes=["a", "b", "c"] if start == 0 else None)
        weights.append(model.plausibility_)
    return model, np.concatenate(weights)


def assert_same_model(one, other, tolerance=1e-9):
    np.testing.assert_allclose(
        one.metric_, other.metric_, rtol=0, atol=tolerance * max(1.0, np.abs(other.metric_).max())
    )
    for counter in ("n_rows_seen_", "n_triplets_seen_", "n_updates_"):
        assert getattr(one, counter) == getattr(other, counter)


# ---------------------------------------------------------------- chunks


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", LEARNERS)
def test_the_chunks_in_which_a_stream_comes_do_not_matter(name, source, stream):
    X, y = stream
    whole = learner(name, SOURCES[source], rescore=False).fit(X, y)
    assert whole.n_updates_ > 10
    for size in CHUNKS:
        model, weights = fed_in_chunks(learner(name, SOURCES[source]), X, y, size)
        assert_same_model(model, whole)
        np.testing.assert_allclose(weights, whole.plausibility_, atol=1e-8)
        if source.startswith("octg"):
            np.testing.assert_allclose(model.triplet_source_.centers_, whole.triplet_source_.centers_, atol=1e-9)


@pytest.mark.parametrize("name", LEARNERS)
def test_after_an_equal_first_batch_the_chunks_do_not_matter_with_the_defaults_either(name, stream):
    """Scale, centres and principal directions come from the first batch; the rest is a stream."""
    X, y = stream
    X = X * [1.0, 30.0, 0.2, 1.0] + 5.0
    models = []
    for size in CHUNKS:
        parameters = {"n_components": 2} if name.endswith(("LOSL", "LODML", "LOMDML")) else {}
        model = getattr(nearkin, name)(**parameters, random_state=0).partial_fit(X[:50], y[:50])
        for start in range(50, N, size):
            model.partial_fit(X[start : start + size], y[start : start + size])
        models.append(model)
    for model in models[1:]:
        assert_same_model(model, models[0])


@pytest.mark.parametrize("name", LEARNERS)
def test_partial_fit_after_fit_goes_on_from_what_was_learned(name, stream):
    X, y = stream
    whole = learner(name, SOURCES["octg"]).fit(X, y)
    begun = learner(name, SOURCES["octg"]).fit(X[:90], y[:90])
    before = begun.metric_.copy()
    begun.partial_fit(X[90:], y[90:])
    assert np.abs(begun.metric_ - before).max() > 1e-6
    assert_same_model(begun, whole)
    again = begun.fit(X[:90], y[:90])  # fit forgets
    np.testing.assert_array_equal(again.metric_, before)


def test_plausibility_after_partial_fit_is_that_of_its_rows(stream):
    X, y = stream
    model = learner("RobustODML", "octg").partial_fit(X[:100], y[:100])
    assert model.plausibility_.shape == (100,)
    model.partial_fit(X[100:], y[100:])
    assert model.plausibility_.shape == (50,)
    assert np.all((model.plausibility_ > 0) & (model.plausibility_ <= 1))


# ---------------------------------------------------------------- classes


@pytest.mark.parametrize(
    "source",
    [OCTG(), OCTG(metric="learned", update_centers=True), OnePassTriplets(), BatchTriplets(), RandomTriplets()],
    ids=str,
)
@pytest.mark.parametrize("name", ["RobustODML", "RobustLODML", "OASIS"])
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


def test_a_first_batch_of_one_class_is_refused_unless_the_classes_are_declared(stream):
    X, y = stream
    only = np.flatnonzero(y == "a")[:5]
    with pytest.raises(ValueError, match="at least two classes"):
        learner("RobustODML", "octg").partial_fit(X[only], y[only])
    model = learner("RobustODML", "octg").partial_fit(X[only], y[only], classes=["a", "b", "c"])
    assert model.n_triplets_seen_ == 0
    assert model.partial_fit(X, y).n_triplets_seen_ > 0


# ---------------------------------------------------------------- explicit triplets


@pytest.mark.parametrize("name", LEARNERS)
def test_explicit_triplets_in_pieces_are_the_explicit_triplets(name, random_triplets):
    sets = random_triplets(60, 5, 0.5)
    how = {"C": 0.1, "scale": None} | ({"bounds": (0.5, 1.5)} if name.endswith("ITML") else {})
    whole = getattr(nearkin, name)(**how).fit_triplets(*sets)
    for size in (1, 7, 60):
        model, weights = getattr(nearkin, name)(**how), []
        for start in range(0, 60, size):
            model.partial_fit_triplets(*(one[start : start + size] for one in sets))
            weights.append(model.plausibility_)
        np.testing.assert_array_equal(model.metric_, whole.metric_)
        np.testing.assert_array_equal(np.concatenate(weights), whole.plausibility_)
        assert model.n_triplets_seen_ == 60
        assert model.n_updates_ == whole.n_updates_


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


@pytest.mark.parametrize("scale", ["auto", "pairs", "unit", None])
@pytest.mark.parametrize("name", LEARNERS)
def test_sparse_rows_give_the_same_model_as_dense_ones(name, scale, sparse_rows):
    X, y = sparse_rows
    parameters = {"n_components": 4} if name.endswith(("LOSL", "LODML", "LOMDML")) else {}
    dense, other = (
        getattr(nearkin, name)(C=0.1, scale=scale, random_state=0, **parameters).fit(rows, y)
        for rows in (X, sparse.csr_array(X))
    )
    assert dense.n_updates_ > 0
    assert_same_model(other, dense, tolerance=1e-8)
    np.testing.assert_allclose(other.plausibility_, dense.plausibility_, atol=1e-7)
    mapped, expected = other.transform(sparse.csr_array(X)), dense.transform(X)  # equal up to a rotation
    np.testing.assert_allclose(mapped @ mapped.T, expected @ expected.T, atol=1e-7)


@pytest.mark.parametrize(
    "source",
    [OCTG(2), OCTG(metric="learned", update_centers=True), OnePassTriplets(), BatchTriplets(2), RandomTriplets(2)],
    ids=str,
)
@pytest.mark.parametrize("name", ["RobustOASIS", "RobustLODML"])
def test_sparse_rows_give_the_same_model_with_every_source(name, source, sparse_rows):
    X, y = sparse_rows
    dense, other = (
        getattr(nearkin, name)(triplets=source, random_state=0).fit(rows, y) for rows in (X, sparse.csr_array(X))
    )
    assert_same_model(other, dense, tolerance=1e-8)


@pytest.mark.parametrize("name", LEARNERS)
def test_sparse_triplets_give_the_same_model_as_dense_ones(name, random_triplets):
    sets = [one * (np.abs(one) > 0.3) for one in random_triplets(40, 6, 0.5)]
    dense = getattr(nearkin, name)(scale=None).fit_triplets(*sets)
    other = getattr(nearkin, name)(scale=None).fit_triplets(*map(sparse.csr_array, sets))
    assert_same_model(other, dense, tolerance=1e-12)


@pytest.mark.parametrize("source", ["octg", "one_pass", "random"])
@pytest.mark.parametrize("init", ["identity", "pca"])
def test_a_wide_sparse_matrix_is_never_made_dense_as_a_whole(init, source):
    """5,000 rows of 20,000 features: 800 MB dense, a few MB as they lie."""
    n, d = 5000, 20_000
    model = nearkin.RobustLODML(n_components=4, init=init, triplets=source, scale=None, rescore=False, random_state=0)
    rng = np.random.default_rng(0)
    X = sparse.random_array((n, d), density=1e-3, format="csr", rng=rng)
    y = rng.integers(0, 3, n)
    small = sparse.random_array((30, d), density=1e-3, format="csr", rng=rng)
    model.fit(small, y[:30])  # whatever is compiled or loaded at the first call
    tracemalloc.start()
    model.fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert model.n_updates_ > 0
    assert peak < 0.5 * n * d * 8
