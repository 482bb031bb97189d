"""Columns that are constant in the first batch get a scale, and a place in the map, when they vary."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

import nearkin
from each import each
from nearkin.learners import merge_states
from nearkin.rows import Scaling
from printed import printed

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


def make_stream(seed):
    """Two classes in six columns; from row 200 on three more, which differ in six columns that were constant."""
    rng = np.random.default_rng(seed)
    n = 1000
    y = np.where(np.arange(n) < N_FIRST, rng.integers(0, 2, n), rng.integers(0, 5, n))
    centres = np.zeros((5, 12))
    centres[:2, :6] = 2.5 * rng.normal(size=(2, 6))
    centres[2:, 6:] = 2.5 * rng.normal(size=(3, 6))
    X = 0.7 * rng.normal(size=(n, 12)) + centres[y]
    X[:N_FIRST, 6:] = 0.0
    return X, y


@pytest.fixture(scope="module")
def stream():
    return make_stream(0)


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


@each(name=tuple(LEARNERS))
def test_classes_that_live_in_late_columns_are_told_apart(name):
    found = []
    for seed in range(4):  # a class begins with a single row as its centre, so that one stream says little
        X, y = make_stream(seed)
        X = sparse.csr_array(X) if seed % 2 else X
        found.append((accuracy(LEARNERS[name]().fit(X, y), X, y), accuracy(learn(LEARNERS[name](), X, y), X, y)))
    saw_everything, streamed = np.mean(found, axis=0)
    assert saw_everything > 0.9
    assert streamed > saw_everything - 0.02


def learn_in_chunks(make, X, y, sizes, folder=None):
    """A model of the first 200 rows and then of chunks, saved and loaded between them, and its plausibilities."""
    model, at, weights = make().partial_fit(X[:N_FIRST], y[:N_FIRST]), N_FIRST, []
    for size in sizes:
        model.partial_fit(X[at : at + size], y[at : at + size])
        weights.append(model.plausibility_)
        at += size
        if folder is not None:
            nearkin.save(model, folder / "model.nearkin")
            model = nearkin.load(folder / "model.nearkin")
    return model, np.concatenate(weights)


def assert_same(one, other, rtol=1e-9):
    """Two pairs of a model and its plausibilities agree up to rounding."""
    X, _ = load_digits(return_X_y=True)
    scores = [model.map_queries(X[:50]) @ model.map_items(X[50:100]).T for model, _ in (one, other)]
    np.testing.assert_allclose(scores[0], scores[1], rtol=rtol, atol=rtol * np.abs(scores[0]).max())
    np.testing.assert_allclose(one[1], other[1], rtol=rtol)
    np.testing.assert_array_equal(one[0].scaling_.late.is_awake, other[0].scaling_.late.is_awake)
    for counter in ("n_rows_seen_", "n_triplets_seen_", "n_updates_"):
        assert getattr(one[0], counter) == getattr(other[0], counter)


DIGITS = {
    "RobustLODML": lambda: nearkin.RobustLODML(random_state=0),
    "RobustLODML, rank 16": lambda: nearkin.RobustLODML(16, random_state=0),
    "RobustLODML, unscaled": lambda: nearkin.RobustLODML(16, scale=None, C=1e-5, random_state=0),
    "RobustODML": lambda: nearkin.RobustODML(random_state=0),
    "RobustLOSL": lambda: nearkin.RobustLOSL(16, random_state=0),
    "RobustOASIS": lambda: nearkin.RobustOASIS(random_state=0),
    "OMDML": lambda: nearkin.OMDML(modalities=[32, 32], random_state=0),
    "RobustLOMDML": lambda: nearkin.RobustLOMDML(8, modalities=[32, 32], random_state=0),
}


@each(name=tuple(DIGITS), fast={"name": ("RobustLODML", "RobustOASIS")})
def test_chunks_do_not_matter_to_late_columns(name, tmp_path):
    X, y = load_digits(return_X_y=True)
    whole = learn_in_chunks(DIGITS[name], X, y, [800])
    late = whole[0].scaling_.late
    assert late.is_awake.any()
    assert not late.is_awake.all()
    assert_same(whole, learn_in_chunks(DIGITS[name], X, y, [1] * 200 + [600]))
    for seed, kind in enumerate((np.asarray, sparse.csr_array)):
        rng = np.random.default_rng(seed)
        ends = np.sort(rng.choice(np.arange(1, 800), size=rng.integers(3, 30), replace=False))
        sizes = np.diff(ends, prepend=0, append=800).tolist()
        assert_same(whole, learn_in_chunks(DIGITS[name], kind(X), y, sizes, tmp_path))


@each(dtype=(np.float32, np.float64), constant=(0.0, -7.5))
def test_chunks_do_not_matter_whatever_the_constant(dtype, constant, stream):
    X, y = stream
    X = X.copy()
    X[:N_FIRST, 6:] = constant
    X = X.astype(dtype)
    one, other = (learn(nearkin.RobustLODML(4, random_state=0), X[:N_FIRST], y[:N_FIRST]) for _ in range(2))
    learn(one, X[N_FIRST:], y[N_FIRST:], 100)
    learn(other, X[N_FIRST:], y[N_FIRST:], 37)
    np.testing.assert_allclose(one.components_, other.components_, rtol=1e-3 if dtype == np.float32 else 1e-9)
    np.testing.assert_array_equal(one.scaling_.factor, other.scaling_.factor)


def test_a_model_does_not_depend_on_chunks_at_any_row(stream):
    X, y = stream
    for n in (205, 255, 256, 257, 320):
        one, other = (learn(nearkin.RobustODML(random_state=0), X[:N_FIRST], y[:N_FIRST]) for _ in range(2))
        one.partial_fit(X[N_FIRST:n], y[N_FIRST:n])
        learn(other, X[N_FIRST:n], y[N_FIRST:n], 3)
        np.testing.assert_allclose(*(model.transform(X) @ model.transform(X).T for model in (one, other)), atol=1e-9)
        assert one.scaling_.late.is_awake.all() == (n >= 256)


def test_a_row_that_is_refused_after_columns_woke_changes_nothing(stream):
    X, y = stream
    model = nearkin.RobustLODML(4, random_state=0).partial_fit(X[:N_FIRST], y[:N_FIRST])
    before, state = model.components_.copy(), model.state_
    bad = X[N_FIRST:400].copy()
    bad[150, 0] = 1e200
    with pytest.raises(ValueError, match=r"[Rr]ow 150 "):
        model.partial_fit(bad, y[N_FIRST:400])
    assert model.state_ is state
    np.testing.assert_array_equal(model.components_, before)


def test_a_deviation_beyond_all_numbers_is_refused(stream):
    X, y = stream
    X = X.copy()
    X[:N_FIRST, 6:] = -1e308
    model = nearkin.RobustODML(random_state=0).partial_fit(X[:N_FIRST], y[:N_FIRST])
    far = X[: N_FIRST + 1].copy()
    far[N_FIRST, 6] = 1.7e308
    with pytest.raises(ValueError, match=r"[Rr]ow 200 "):
        model.partial_fit(far, y[: N_FIRST + 1])


def test_classes_may_come_and_go_while_columns_wake(stream):
    X, y = stream
    source = nearkin.OCTG(max_centers=3, update_centers=True)
    one, other = (printed(nearkin.RobustODML, triplets=source, random_state=0) for _ in range(2))
    for model, step in ((one, 800), (other, 19)):
        learn(model.partial_fit(X[:N_FIRST], y[:N_FIRST]), X[N_FIRST:], y[N_FIRST:], step)
    np.testing.assert_allclose(*(model.transform(X) @ model.transform(X).T for model in (one, other)), atol=1e-9)
    assert one.classes_.tolist() == other.classes_.tolist()
    assert len(one.classes_) == 3


def test_a_class_that_comes_with_its_columns_has_a_centre_in_them(stream):
    X, y = stream
    model = printed(nearkin.RobustODML, random_state=0).partial_fit(X[:N_FIRST], y[:N_FIRST])
    model.partial_fit(X[N_FIRST:240], y[N_FIRST:240])  # nothing is awake yet
    centres = model.triplet_source_.centers_
    assert (centres[:2, 6:] == 0.0).all()
    assert (np.abs(centres[2:, 6:]) > 0.0).all()
    assert (np.abs(centres[2:, 6:]) < 10 * np.abs(centres[:, :6]).max()).all()


def test_explicit_triplets_wake_columns_at_the_start_of_a_call(stream):
    X, _ = stream
    model = nearkin.RobustLODML(4, random_state=0).partial_fit_triplets(X[:60], X[60:120], X[120:180])
    late = X[N_FIRST:]
    for at in range(4):  # three rows at a time
        assert model.scaling_.late.is_awake.all() == (at >= 3)
        model.partial_fit_triplets(*(late[[3 * at + role]] for role in range(3)))
    assert (model.scaling_.factor > 0).all()
    assert (np.abs(model.components_[:, 6:]).max(axis=0) > 0).all()


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
    for number, row in enumerate(X[100:], 100):
        for change in scaling.follow(row[None, :], number):
            scaling = change.scaling
            woken += change.woken.tolist()
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
    for start in range(N_FIRST, 400, 20):
        rows = X[start : start + 20]
        both = [list(one.follow(part, start)) for one, part in ((dense, rows), (sparsely, sparse.csr_array(rows)))]
        assert [(one.stop, one.woken.tolist()) for one in both[0]] == [
            (one.stop, one.woken.tolist()) for one in both[1]
        ]
        dense, sparsely = both[0][-1].scaling, both[1][-1].scaling
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
        model.state_.for_shard(number)
        shards.append(model.partial_fit(X[part], y[part]).state_)
    base.state_ = merge_states(base.state_, shards)
    assert (base.scaling_.factor > 0).all()
    counted = np.concatenate([X[200:256], X[300:303], X[303:359]])[:, 6:]  # until the columns woke in each
    np.testing.assert_allclose(base.scaling_.factor[6:], 12**-0.5 / np.sqrt((counted**2).mean(axis=0)))
    assert accuracy(learn(base, X[500:], y[500:]), X, y) > 0.9  # each began its own directions for the columns


def test_given_centres_come_to_the_scale_of_late_columns(stream):
    X, y = stream
    centres = np.array([X[N_FIRST:][y[N_FIRST:] == code].mean(axis=0) for code in range(5)])
    source = nearkin.OCTG(centers=centres, center_labels=range(5))
    model = learn(printed(nearkin.ODML, triplets=source, random_state=0), X, y)
    np.testing.assert_array_equal(model.triplet_source_.centers_, model.scaling_.apply(centres))
