"""Columns that are constant in the first batch get a scale, and a place in the map, when they vary."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.neighbors import KNeighborsClassifier

import nearkin
from each import each
from nearkin.learners import merge_states
from nearkin.rows import Scaling

LEARNERS = {
    "low rank, distance": lambda: nearkin.RobustLODML(4, random_state=0),
    "low rank, similarity": lambda: nearkin.RobustLOSL(4, random_state=0),
    "low rank, unscaled": lambda: nearkin.RobustLODML(4, scale=None, C=0.01, random_state=0),
    "low rank, modalities": lambda: nearkin.RobustLOMDML(4, modalities=[6, 6], random_state=0),
    "square map": lambda: nearkin.RobustOPML(random_state=0),
    "full, distance": lambda: nearkin.RobustODML(random_state=0),
    "full, similarity": lambda: nearkin.RobustOASIS(random_state=0),
    "modalities": lambda: nearkin.OMDML(modalities=[6, 6], random_state=0),
    "sketch": lambda: nearkin.LSMDML(random_state=0),
}
N_FIRST = 200


@pytest.fixture(scope="module")
def stream():
    """Two classes in six columns; from row 200 on three more, which differ in six columns that were constant."""
    rng = np.random.default_rng(0)
    n = 1000
    y = np.where(np.arange(n) < N_FIRST, rng.integers(0, 2, n), rng.integers(0, 5, n))
    centres = np.zeros((5, 12))
    centres[:2, :6] = 2.5 * rng.normal(size=(2, 6))
    centres[2:, 6:] = 2.5 * rng.normal(size=(3, 6))
    X = 0.7 * rng.normal(size=(n, 12)) + centres[y]
    X[:N_FIRST, 6:] = 0.0
    return X, y


def learn(model, X, y, step=100):
    for start in range(0, X.shape[0], step):
        model.partial_fit(X[start : start + step], y[start : start + step])
    return model


def accuracy(model, X, y):
    """Of the late classes, by neighbours among all rows of the stream."""
    half = X.shape[0] // 2
    embedded = [model.map_items(X[:half]), model.map_queries(X[half:])]
    if not model.measure.is_distance:
        embedded = [one / np.linalg.norm(one, axis=1, keepdims=True) for one in embedded]
    late = y[half:] >= 2
    return KNeighborsClassifier(3).fit(embedded[0], y[:half]).score(embedded[1][late], y[half:][late])


@each(name=tuple(LEARNERS), kind={"dense": np.asarray, "sparse": sparse.csr_array})
def test_classes_that_live_in_late_columns_are_told_apart(name, kind, stream):
    X, y = stream
    X = kind(X)
    saw_everything = accuracy(LEARNERS[name]().fit(X, y), X, y)
    assert saw_everything > 0.9
    assert accuracy(learn(LEARNERS[name](), X, y), X, y) > saw_everything - 0.02


@each(dtype=(np.float32, np.float64), constant=(0.0, -7.5))
def test_chunks_do_not_matter_once_the_columns_vary(dtype, constant, stream):
    X, y = stream
    X = X.copy()
    X[:N_FIRST, 6:] = constant
    X = X.astype(dtype)
    one, other = (learn(nearkin.RobustLODML(4, random_state=0), X[:300], y[:300]) for _ in range(2))
    learn(one, X[300:], y[300:], 100)
    learn(other, X[300:], y[300:], 37)
    np.testing.assert_allclose(one.components_, other.components_, rtol=1e-3 if dtype == np.float32 else 1e-9)
    np.testing.assert_array_equal(one.scaling_.factor, other.scaling_.factor)


def test_rows_seen_before_stay_where_they_were(stream):
    X, y = stream
    X = X.copy()
    X[:N_FIRST, 6:] = 3.0
    model = nearkin.ODML(random_state=0).partial_fit(X[:N_FIRST], y[:N_FIRST])
    before = model.scaling_.apply(X[:N_FIRST])
    model.partial_fit(X[N_FIRST:], y[N_FIRST:])
    np.testing.assert_array_equal(model.scaling_.apply(X[:N_FIRST]), before)
    assert (model.scaling_.factor > 0).all()


def test_a_model_from_a_file_knows_what_it_has_seen_of_late_columns(stream, tmp_path):
    X, y = stream
    whole = learn(nearkin.RobustLODML(4, random_state=0), X[:N_FIRST], y[:N_FIRST])
    for row in range(N_FIRST, N_FIRST + 5):  # too few to learn a scale
        whole.partial_fit(X[row : row + 1], y[row : row + 1])
    nearkin.save(whole, tmp_path / "model.nearkin")
    again = nearkin.load(tmp_path / "model.nearkin")
    for model in (whole, again):
        learn(model, X[N_FIRST + 5 :], y[N_FIRST + 5 :])
    np.testing.assert_array_equal(whole.components_, again.components_)
    np.testing.assert_array_equal(whole.scaling_.factor, again.scaling_.factor)


def test_a_scale_is_not_learned_from_a_single_row():
    X = np.random.default_rng(0).normal(size=(300, 3))
    X[:100, 2] = 0.0
    X[100, 2] = 1e-9  # the first that differs, by far too little
    scaling = Scaling.learn(X[:100], "unit")
    woken = []
    for row in X[100:]:
        scaling, found = scaling.watch(row[None, :])
        woken += found.tolist()
    assert woken == [2]
    assert 0.3 < scaling.factor[2] < 3.0


@each(how=("pairs", "unit", None))
def test_data_without_constant_columns_is_not_watched(how, stream):
    assert Scaling.learn(stream[0][N_FIRST:], how).late is None


def test_dense_and_sparse_rows_wake_columns_alike(stream):
    X, _ = stream
    X = X * (np.random.default_rng(1).random(X.shape) < 0.3)
    X[:N_FIRST, 6:9], X[:N_FIRST, 9:] = 0.0, 1.0
    dense, sparsely = Scaling.learn(X[:N_FIRST], "pairs"), Scaling.learn(sparse.csr_array(X[:N_FIRST]), "pairs")
    for start in range(N_FIRST, 300, 20):
        dense, woken = dense.watch(X[start : start + 20])
        sparsely, also = sparsely.watch(sparse.csr_array(X[start : start + 20]))
        assert woken.tolist() == also.tolist()
    np.testing.assert_allclose(dense.factor, sparsely.factor)
    assert (dense.factor > 0).all()


@each(name=("full, distance", "low rank, distance", "modalities"))
def test_a_first_batch_that_is_constant_everywhere_is_not_the_last_word(name, stream):
    X, y = stream
    X = X.copy()
    X[:50] = 1.0
    model = learn(LEARNERS[name](), X[:50], np.arange(50) % 2).partial_fit(X[50:], y[50:])
    rows = model.scaling_.apply(X[N_FIRST:])
    spread = ((rows[:, None] - rows[None]) ** 2).sum(-1).mean()
    assert 0.2 < spread < 5.0  # about the mean squared distance 1 that a first batch gives
    assert accuracy(model, X[N_FIRST:], y[N_FIRST:]) > 0.9


def test_a_modality_that_comes_late_has_the_weight_of_one(stream):
    X, y = stream
    model = learn(nearkin.OMDML(modalities=[6, 6], random_state=0), X, y)
    rows = model.scaling_.apply(X[N_FIRST:])
    spread = [((part[:, None] - part[None]) ** 2).sum(-1).mean() for part in (rows[:, :6], rows[:, 6:])]
    assert 0.3 < spread[1] / spread[0] < 3.0


def test_shards_learn_the_scale_of_late_columns_together(stream):
    X, y = stream
    base = nearkin.RobustLODML(4, random_state=0).partial_fit(X[:N_FIRST], y[:N_FIRST])
    shards = []
    for number, part in enumerate((slice(200, 300), slice(300, 303), slice(303, 500))):
        model = nearkin.RobustLODML(4, random_state=0)
        model.n_features_in_, model.state_ = base.n_features_in_, base.state_.copy()
        model.state_.source = base.state_.source.for_shard(number)
        shards.append(model.partial_fit(X[part], y[part]).state_)
    base.state_ = merge_states(base.state_, shards)
    assert (base.scaling_.factor > 0).all()
    together, _ = Scaling.learn(X[:N_FIRST], "pairs").watch(X[N_FIRST:500])
    np.testing.assert_allclose(base.scaling_.factor, together.factor)
    assert accuracy(base, X, y) > 0.9


def test_given_centres_come_to_the_scale_of_late_columns(stream):
    X, y = stream
    centres = np.array([X[N_FIRST:][y[N_FIRST:] == code].mean(axis=0) for code in range(5)])
    source = nearkin.OCTG(centers=centres, center_labels=range(5))
    model = learn(nearkin.ODML(triplets=source, random_state=0), X, y)
    np.testing.assert_array_equal(model.triplet_source_.centers_, model.scaling_.apply(centres))
