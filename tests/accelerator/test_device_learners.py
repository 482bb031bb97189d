"""Learners with ``device="cuda"``, many of them at once, and neighbours."""

import numpy as np
import pytest
from scipy import sparse

import nearkin
from nearkin.learners import fit_many
from nearkin.measures import DISTANCE, SIMILARITY
from nearkin.neighbors.search import NeighbourSearch

CASES = [
    (nearkin.OASIS, {}),
    (nearkin.RobustOASIS, {}),
    (nearkin.ODML, {"psd": "none"}),
    (nearkin.RobustODML, {"psd": "end"}),
    (nearkin.LOSL, {"n_components": 2}),
    (nearkin.RobustLOSL, {}),
    (nearkin.LODML, {}),
    (nearkin.RobustLODML, {"n_components": 2}),
]


def same(one, other):
    np.testing.assert_allclose(one.metric_, other.metric_, atol=1e-11)
    np.testing.assert_allclose(one.plausibility_, other.plausibility_, atol=1e-11)
    assert one.n_updates_ == other.n_updates_
    assert one.n_triplets_seen_ == other.n_triplets_seen_
    assert one.n_rows_seen_ == other.n_rows_seen_


@pytest.mark.slow
@pytest.mark.parametrize(("cls", "parameters"), CASES, ids=lambda one: getattr(one, "__name__", ""))
def test_a_fit_on_a_device_is_that_of_the_processor(gpu, blobs, cls, parameters):
    X, y = blobs(n=30, d=4)
    here = cls(random_state=0, **parameters).fit(X, y)
    same(cls(random_state=0, device=gpu, **parameters).fit(X, y), here)


@pytest.mark.slow
def test_a_stream_can_change_between_device_and_processor(gpu, blobs, tmp_path):
    X, y = blobs(n=45, d=4)
    here = nearkin.RobustLODML(random_state=0)
    there = nearkin.RobustLODML(random_state=0, device=gpu)
    for part in (slice(0, 15), slice(15, 30)):
        here.partial_fit(X[part], y[part])
        there.partial_fit(X[part], y[part])
    nearkin.save(there, tmp_path / "model")
    there = nearkin.load(tmp_path / "model").set_params(device="cpu")
    same(there.partial_fit(X[30:], y[30:]), here.partial_fit(X[30:], y[30:]))


def test_explicit_triplets(gpu, random_triplets):
    triplets = random_triplets(20, 4)
    here = nearkin.RobustOASIS().fit_triplets(*triplets)
    there = nearkin.RobustOASIS(device=gpu).fit_triplets(*triplets)
    np.testing.assert_allclose(there.metric_, here.metric_, atol=1e-12)


def test_many_at_once_are_as_one_after_the_other(gpu, blobs):
    X, y = blobs(n=40, d=4)
    folds = [np.arange(40) % 2 == i for i in range(2)]
    many, rows = [], []
    for fold in folds:
        for C, eta in ((0.01, 1.0), (1.0, 0.5)):
            many.append(nearkin.RobustLODML(2, C=C, eta=eta, n_epochs=2, random_state=0, device=gpu))
            rows.append(np.flatnonzero(fold))
    many.append(nearkin.RobustOASIS(random_state=0))  # learns by itself
    rows.append(np.arange(10))
    assert fit_many(many, X, y, rows=rows) is not many
    for model, which in zip(many, rows, strict=True):
        alone = nearkin.RobustOASIS if isinstance(model, nearkin.OASIS) else nearkin.RobustLODML
        same(model, alone(**{**model.get_params(), "device": "cpu"}).fit(X[which], y[which]))
        assert model.n_features_in_ == 4


def test_where_one_of_many_cannot_learn_none_does(gpu, blobs):
    X, y = blobs(n=20, d=4)
    good = nearkin.RobustLODML(2, device=gpu)
    watching = nearkin.RobustLODML(2, device=gpu, triplets=nearkin.OCTG(metric="learned"))
    before = dict(vars(good))
    with pytest.raises(ValueError, match="looks at the learned metric"):
        fit_many([good, watching], X, y)
    assert vars(good) == before
    with pytest.raises(ValueError, match="one index array for each of the 1 learners; got 2"):
        fit_many([good], X, y, rows=[[0], [1]])


def test_many_with_sparse_rows_and_labels_of_any_kind(gpu, blobs):
    X, y = blobs(n=20, d=4)
    labels = [(1, "a", 2.5)[one] for one in y]
    (there,) = fit_many([nearkin.LODML(2, random_state=0, device=gpu)], sparse.csr_array(X), labels)
    same(there, nearkin.LODML(2, random_state=0).fit(sparse.csr_array(X), labels))
    assert set(there.classes_.tolist()) == {1, "a", 2.5}


@pytest.mark.parametrize(
    ("settings", "n_begun"),
    [
        ({}, 2),  # one for each eta: a discriminant start weighs rows by the loss
        ({"init": "pca", "triplets": nearkin.OCTG(2)}, 1),
        ({"init": "pca", "triplets": nearkin.OCTG(update_centers=True)}, 4),  # these move by what is learned
    ],
)
def test_many_on_the_processor_share_triplets_and_have_the_same_bits(blobs, monkeypatch, settings, n_begun):
    X, y = blobs(n=60, d=4)
    grid = [(C, eta) for C in (0.01, 1.0) for eta in (0.5, 2.0)]
    settings = {"n_components": 2, "n_epochs": 2, "shuffle": True, "random_state": 0, **settings}
    alone = [nearkin.RobustLODML(C=C, eta=eta, **settings).fit(X, y) for C, eta in grid]
    begun = []
    begin = nearkin.RobustLODML.begin_lesson
    monkeypatch.setattr(nearkin.RobustLODML, "begin_lesson", lambda *args: begun.append(1) or begin(*args))
    many = fit_many([nearkin.RobustLODML(C=C, eta=eta, **settings) for C, eta in grid], X, y)
    assert len(begun) == n_begun
    assert len({one.components_.tobytes() for one in many}) == 4
    for one, other in zip(many, alone, strict=True):
        assert one.components_.tobytes() == other.components_.tobytes()
        assert one.plausibility_.tobytes() == other.plausibility_.tobytes()
        assert (one.n_updates_, one.n_triplets_seen_, one.n_rows_seen_) == (
            other.n_updates_, other.n_triplets_seen_, other.n_rows_seen_,
        )  # fmt: skip
        one.partial_fit(X[:20], y[:20])
        other.partial_fit(X[:20], y[:20])
        assert one.components_.tobytes() == other.components_.tobytes()


def test_many_with_a_bad_setting_leave_all_as_they_were(blobs):
    X, y = blobs(n=20, d=4)
    good, bad = nearkin.LODML(2, random_state=0), nearkin.LODML(2, random_state=0, C=-1.0)
    with pytest.raises(ValueError, match="C"):
        fit_many([good, bad], X, y)
    assert "state_" not in vars(good)


@pytest.mark.parametrize("measure", [DISTANCE, SIMILARITY], ids=lambda one: one.name)
@pytest.mark.parametrize("k", [1, 3, 70])
def test_neighbours(device, rng, measure, k, monkeypatch):
    from nearkin.accelerator.device_search import DeviceSearch

    monkeypatch.setattr("nearkin.accelerator.device_search._ITEMS", 128)
    monkeypatch.setattr("nearkin.accelerator.device_search._FOUND", 1 << 17)  # queries in several parts
    items, queries = 50.0 + rng.normal(size=(300, 5)), 50.0 + rng.normal(size=(40, 5))
    values, index = DeviceSearch(items, measure, device).query(queries, k)
    expected, which = NeighbourSearch(items, measure).query(queries, k)
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    assert np.array_equal(index, which)


@pytest.mark.parametrize("measure", [DISTANCE, SIMILARITY], ids=lambda one: one.name)
def test_neighbours_in_single_precision(device, rng, measure):
    from nearkin.accelerator.device_search import DeviceSearch

    items, queries = (rng.normal(size=(n, 40)).astype("float32") for n in (150, 10))
    values, index = DeviceSearch(items, measure, device).query(queries, 3)
    expected, which = NeighbourSearch(items, measure).query(queries, 3)
    np.testing.assert_allclose(values, expected, rtol=1e-5)
    assert np.array_equal(index, which)


def test_queries_of_another_width_are_refused(device):
    from nearkin.accelerator.device_search import DeviceSearch

    with pytest.raises(ValueError, match="queries have 3 numbers each, items 2"):
        DeviceSearch(np.zeros((200, 2)), DISTANCE, device).query(np.ones((1, 3)), 3)


def test_of_equal_items_the_first_is_nearest(device):
    from nearkin.accelerator.device_search import DeviceSearch

    values, index = DeviceSearch(np.zeros((200, 2)), DISTANCE, device).query(np.ones((1, 2)), 3)
    assert index.tolist() == [[0, 1, 2]]
    np.testing.assert_allclose(values, 2**0.5)


def test_a_classifier_searches_where_its_learner_learns(gpu, blobs):
    X, y = blobs(n=60, d=4)
    here = nearkin.RobustKNeighborsClassifier.algorithm5(nearkin.RobustLODML(random_state=0)).fit(X, y)
    there = nearkin.RobustKNeighborsClassifier.algorithm5(nearkin.RobustLODML(random_state=0, device=gpu)).fit(X, y)
    assert type(there.decision_._search).__name__ == "DeviceSearch"
    assert there.noise_rate_ == here.noise_rate_
    np.testing.assert_allclose(there.predict_proba(X), here.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize("cls", [nearkin.RobustLODML, nearkin.RobustLOSL])
def test_many_rows_are_mapped_on_the_device(gpu, blobs, monkeypatch, cls):
    monkeypatch.setattr("nearkin.learners.maps._MANY_NUMBERS", 0)
    monkeypatch.setattr("nearkin.accelerator.device_search._NUMBERS", 40)  # in several parts
    X, y = blobs(n=60, d=4)
    here = cls(2, random_state=0).fit(X, y)
    there = here.set_params(device=gpu).transform(X)
    np.testing.assert_allclose(there, here.set_params(device="cpu").transform(X), rtol=1e-12, atol=1e-14)
    with pytest.raises(ValueError, match="row 3 holds a value of"):
        here.set_params(device=gpu, scale=None).fit(X, y)
        here.transform(np.where(np.arange(60)[:, None] == 3, 1e60, X))
