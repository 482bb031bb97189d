"""`DeepMetric`: what it learns, that it is the linear learner where the network is linear, and its manners."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pip install 'nearkin[deep]'")

from sklearn.base import clone  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402
from sklearn.metrics import roc_auc_score  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.neighbors import KNeighborsClassifier  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402
from torch import nn  # noqa: E402

import nearkin  # noqa: E402
from nearkin.deep import OAHU, DeepMetric, Training  # noqa: E402
from nearkin.losses import RescaledHinge  # noqa: E402
from networks import make  # noqa: E402


def small(n_features):
    return nn.Sequential(nn.Linear(n_features, 16), nn.ReLU(), nn.Linear(16, 4))


def fast(**parameters):
    settings = {"module": small, "n_epochs": 8, "batch_size": 16, "learning_rate": 0.01, "random_state": 0}
    return make(DeepMetric, **{**settings, **parameters})


def same_bits(one, other, X):
    return np.array_equal(one.transform(X), other.transform(X)) and np.array_equal(
        one.plausibility_, other.plausibility_
    )


# ---------------------------------------------------------------------------------- what is learned


def test_it_separates_what_no_linear_map_does(rings):
    X, y = rings()
    model = fast(n_epochs=40).fit(X[:80], y[:80])

    def accuracy(learner):
        near = KNeighborsClassifier(3).fit(learner.transform(X[:80]), y[:80])
        centres = np.stack([learner.transform(X[:80])[y[:80] == k].mean(axis=0) for k in (0, 1)])
        nearest = ((learner.transform(X[80:])[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
        return near.score(learner.transform(X[80:]), y[80:]), (nearest == y[80:]).mean()

    assert min(accuracy(model)) > 0.9
    assert accuracy(nearkin.RobustLODML(random_state=0).fit(X[:80], y[:80]))[1] < 0.8
    assert (model.plausibility(X, y) > 0.5).mean() > 0.95
    np.testing.assert_allclose(np.linalg.norm(model.transform(X), axis=1), 1.0, atol=1e-3)


@pytest.fixture(scope="module")
def noisy_digits():
    X, y = load_digits(n_class=5, return_X_y=True)
    X, y, X_test, y_test = X[:450], y[:450], X[450:], y[450:]
    return X, *nearkin.flip_labels(y, 0.4, random_state=0), X_test, y_test


@pytest.mark.slow
@pytest.mark.parametrize("image_shape", [(8, 8), None])
def test_the_robust_loss_survives_what_the_plain_one_learns_by_heart(noisy_digits, image_shape):
    X, noisy, is_wrong, X_test, y_test = noisy_digits
    right = {}
    for loss in ("hinge", "rescaled_hinge"):
        model = DeepMetric(loss=loss, image_shape=image_shape, random_state=0).fit(X, noisy)
        near = KNeighborsClassifier(10).fit(model.transform(X), noisy)
        right[loss] = near.score(model.transform(X_test), y_test)
    assert right["rescaled_hinge"] > right["hinge"] + 0.1
    assert roc_auc_score(is_wrong, -model.plausibility_) > 0.97
    assert roc_auc_score(is_wrong, -model.plausibility(X, noisy)) > 0.85


def test_the_plain_hinge_trusts_every_label(rings):
    X, y = rings()
    model = fast(loss="hinge").fit(X, y)
    assert (model.plausibility_ == 1).all()
    assert (model.plausibility(X, y) == 1).all()


def test_eta_zero_is_the_plain_hinge_to_the_bit(rings):
    X, y = rings()
    assert same_bits(fast(loss="hinge").fit(X, y), fast(eta=0.0).fit(X, y), X)
    assert same_bits(fast(loss=RescaledHinge(0.5)).fit(X, y), fast(eta=0.5).fit(X, y), X)


def test_a_warm_up_is_the_plain_hinge_with_plausibilities(rings):
    X, y = rings()
    warm, plain = fast(warm_up=8).partial_fit(X, y), fast(loss="hinge").partial_fit(X, y)
    assert np.array_equal(warm.transform(X), plain.transform(X))
    assert warm.plausibility_.min() < 0.9
    assert not np.array_equal(fast(warm_up=7).partial_fit(X, y).transform(X), plain.transform(X))


def test_a_warm_up_takes_no_more_than_a_quarter_of_a_fit(rings):
    X, y = rings(n=32)  # two batches a pass
    assert same_bits(fast(warm_up=10_000).fit(X, y), fast(warm_up=4).fit(X, y), X)
    assert not same_bits(fast(warm_up=10_000).fit(X, y), fast(warm_up=3).fit(X, y), X)


class LinearMap(nn.Module):
    """``L'`` begun at given numbers."""

    def __init__(self, start):
        super().__init__()
        self.L = nn.Parameter(torch.tensor(start, dtype=torch.float32))

    def forward(self, x):
        return x @ self.L.T


@pytest.mark.parametrize(
    ("loss", "n_steps"), [("hinge", 1), ("hinge", 3), ("rescaled_hinge", 1)], ids=["hinge", "three steps", "rescaled"]
)
def test_a_linear_network_takes_the_paper_s_steps(rng, random_triplets, loss, n_steps):
    """Sub-gradient steps of Eqs. (32) and (33), proximity term included, against the compiled loop for L."""
    triplets = random_triplets(40, 5, 0.6)
    start = np.linalg.qr(rng.normal(size=(5, 3)))[0].T
    common = {"C": 0.2, "eta": 1.0, "loss": loss, "scale": None, "n_epochs": 1}
    linear = nearkin.LODML(
        3, init=start, solver="subgradient", step_size=0.5, max_hq_iter=1, n_steps=n_steps, **common
    ).fit_triplets(*triplets)
    training = Training(optimizer="sgd", learning_rate=0.5, weight_decay=0.0, batch_size=2, n_steps=n_steps)
    deep = DeepMetric(LinearMap(start), normalize=False, training=training, random_state=0, **common)
    for one in range(0, 40):  # the order matters: one triplet at a time
        deep.partial_fit_triplets(*(members[one : one + 1] for members in triplets))
    X = rng.normal(size=(7, 5))
    np.testing.assert_allclose(deep.transform(X), linear.transform(X), atol=2e-5)
    assert not np.allclose(linear.transform(X), X @ start.T, atol=0.05)


def test_the_proximity_term_keeps_parameters_near(rings):
    X, y = rings(n=16)
    torch.manual_seed(0)
    start = small(4)

    def moved(proximity, n_steps):
        settings = {"optimizer": "sgd", "learning_rate": 0.05, "weight_decay": 0.0, "n_epochs": 1, "n_steps": n_steps}
        model = fast(module=start, proximity=proximity, **settings).fit(X, y)
        after = model.state_.parameter.weights
        return sum(((after[name] - one.numpy()) ** 2).sum() for name, one in start.state_dict().items()) ** 0.5

    assert moved(10.0, 6) < 0.5 * moved(0.0, 6)
    assert moved(10.0, 1) == moved(0.0, 1) > 0


@pytest.mark.slow
@pytest.mark.parametrize("source", ["batch", "random", "one_pass", nearkin.OCTG(2, update_centers=True)])
def test_other_triplet_sources_work_in_the_space_of_the_embeddings(rings, source):
    X, y = rings()
    model = fast(triplets=source, n_epochs=20).fit(X, y)
    near = KNeighborsClassifier(3).fit(model.transform(X[::2]), y[::2])
    assert near.score(model.transform(X[1::2]), y[1::2]) > 0.85
    assert model.n_triplets_seen_ > 0


def test_prototypes_lie_where_their_classes_are(rings):
    X, y = rings()
    model = fast(n_epochs=30).fit(X, y)
    found, source = model.transform(X), model.triplet_source_
    for centre, code in zip(source.centers_, source.center_codes_, strict=True):
        label = y[0] if code == 0 else 1 - y[0]  # classes are numbered as they appear
        assert np.linalg.norm(centre - found[y == label].mean(axis=0)) < 0.2


# ---------------------------------------------------------------------------------- modules


def test_a_module_is_copied_and_its_weights_are_where_learning_begins(rings):
    X, y = rings()
    module = small(4)
    before = copy.deepcopy(module.state_dict())
    models = [fast(module=module, random_state=seed, shuffle=False).fit(X, y) for seed in (0, 1)]
    assert all(torch.equal(one, before[name]) for name, one in module.state_dict().items())
    assert np.array_equal(models[0].transform(X), models[1].transform(X))  # nothing else is drawn


def test_a_lazy_module_and_one_with_batch_statistics(rings):
    X, y = rings(n=49)  # three batches of 16 and one row
    module = nn.Sequential(nn.LazyLinear(8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1), nn.LazyLinear(3))
    model = fast(module=lambda n_features: copy.deepcopy(module)).fit(X, y)
    assert model.transform(X).shape == (49, 3)
    assert np.allclose(model.transform(X)[:5], model.transform(X[:5]), atol=1e-6)  # statistics are those of learning


@pytest.mark.parametrize("shape", [(8, 8), (1, 8, 8), (3, 5, 7), (2, 33, 20)])
def test_images_of_any_size_have_a_network(rng, shape):
    n = int(np.prod(shape))
    X, y = rng.normal(size=(12, n)), np.arange(12) % 3
    model = DeepMetric(image_shape=shape, n_components=5, n_epochs=1, random_state=0).fit(X, y)
    assert model.transform(X).shape == (12, 5)


def test_a_module_for_images_is_given_images(rng):
    X, y = rng.normal(size=(12, 2 * 6 * 5)), np.arange(12) % 3
    module = nn.Sequential(nn.Conv2d(2, 4, 3), nn.Flatten(), nn.Linear(4 * 4 * 3, 3))
    assert fast(module=module, image_shape=(2, 6, 5)).fit(X, y).transform(X).shape == (12, 3)


# ---------------------------------------------------------------------------------- reproducibility


def test_the_same_seed_gives_the_same_bits_and_leaves_the_program_s_draws_alone(rings):
    X, y = rings()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one = fast().fit(X, y)
    assert torch.equal(torch.rand(3), expected)
    assert same_bits(one, fast(deterministic=True).fit(X, y), X)
    assert not torch.are_deterministic_algorithms_enabled()
    assert not same_bits(one, fast(random_state=1).fit(X, y), X)


def test_half_precision_comes_near(rings):
    X, y = rings()
    full, half = fast(n_epochs=2).fit(X, y), fast(n_epochs=2, precision="bfloat16").fit(X, y)
    difference = np.abs(full.transform(X) - half.transform(X)).max()
    assert 0 < difference < 0.2


def test_float32_rows_stay_float32(rings):
    X, y = rings()
    model = fast().fit(X.astype(np.float32), y)
    assert model.transform(X).dtype == np.float32
    assert fast().fit(X, y).transform(X).dtype == np.float64


# ---------------------------------------------------------------------------------- streams


def test_chunks_of_whole_batches_give_the_same_model(rings):
    X, y = rings(n=128)
    whole = fast().partial_fit(X[:32], y[:32]).partial_fit(X[32:], y[32:])
    parts = fast().partial_fit(X[:32], y[:32])
    for start in (32, 64, 96):
        parts.partial_fit(X[start : start + 32], y[start : start + 32])
    np.testing.assert_allclose(whole.transform(X), parts.transform(X), atol=1e-6)
    assert whole.n_rows_seen_ == parts.n_rows_seen_ == 128


def test_a_stream_learns_and_meets_new_classes(rings):
    X, y = rings(n=600)
    model = fast().partial_fit(X[:100], y[:100])
    for start in range(100, 600, 100):
        model.partial_fit(X[start : start + 100], y[start : start + 100])
    assert (model.plausibility(X, y) > model.plausibility(X, 1 - y)).mean() > 0.9
    model.partial_fit(X[:40] + 5.0, np.where(y[:40] == 0, 2, 1))
    assert model.classes_.tolist() == [0, 1, 2]


def test_learning_goes_on_after_fit(rings):
    X, y = rings()
    one, other = fast().fit(X, y), fast().fit(X, y)
    before = one.transform(X)
    one.partial_fit(X[:20], y[:20])
    assert not np.array_equal(one.transform(X), before)
    assert len(one.plausibility_) == 20
    other.partial_fit(X[:20], y[:20])
    assert same_bits(one, other, X)


def test_explicit_triplets(rings):
    X, y = rings()
    rng = np.random.default_rng(0)
    a = rng.integers(0, len(X), 300)
    p, n = (np.array([rng.choice(np.flatnonzero((y == y[i]) == is_same)) for i in a]) for is_same in (True, False))
    model = fast(n_epochs=40).fit_triplets(X[a], X[p], X[n])
    near, far = model.pair_distance(X[a], X[p]), model.pair_distance(X[a], X[n])
    assert (near < far).mean() > 0.9
    assert len(model.plausibility_) == 300
    with pytest.raises(ValueError, match="knows no classes"):
        model.plausibility(X, y)


def test_fit_stream_takes_it_with_checkpoints(rings, tmp_path):
    X, y = rings(n=128)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    from nearkin.streams import fit_stream, open

    source = open(tmp_path / "X.npy", label=tmp_path / "y.npy", batch_rows=32)
    model = make(DeepMetric, n_components=4, batch_size=32, random_state=0)
    fit_stream(model, source, epochs=2, checkpoint=tmp_path / "ck", checkpoint_every=0.0)
    assert model.n_rows_seen_ == 256
    assert (tmp_path / "ck").exists()


# ---------------------------------------------------------------------------------- with the rest of the package


@pytest.mark.slow
def test_robust_neighbours_and_the_audit_take_it(noisy_digits, tmp_path):
    X, noisy, is_wrong, X_test, y_test = noisy_digits
    learner = DeepMetric(image_shape=(8, 8), n_epochs=20, n_components=16, random_state=0)
    model = nearkin.RobustKNeighborsClassifier(learner).fit(X, noisy)
    assert model.score(X_test, y_test) > 0.88
    assert isinstance(model.learner_, DeepMetric)
    few = nearkin.RobustKNeighborsClassifier(learner, n_neighbors=5, noise_rate=0.4).fit(X, noisy)
    assert few.score(X_test, y_test) > 0.85
    audit = nearkin.audit_labels(X, noisy, learner=learner)
    assert roc_auc_score(is_wrong, -audit.score) > 0.97
    nearkin.save(model, tmp_path / "model.nearkin")
    assert np.array_equal(nearkin.load(tmp_path / "model.nearkin").predict_proba(X_test), model.predict_proba(X_test))


def test_clone_pipeline_and_search(rings):
    X, y = rings()
    model = fast(module=small(4))
    twin = clone(model)
    assert twin.module is not model.module
    assert repr(DeepMetric(eta=1.0)) == "DeepMetric(eta=1.0)"
    pipeline = make_pipeline(StandardScaler(), fast(n_epochs=3), KNeighborsClassifier(3))
    grid = {"deepmetric__eta": [0.5, 2.0], "deepmetric__training__learning_rate": [0.01]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.5
    assert search.best_params_["deepmetric__training__learning_rate"] == 0.01


def test_a_training_setting_is_set_by_its_own_name():
    model, other = DeepMetric(), DeepMetric()
    model.set_params(training__batch_size=8, eta=1.0)
    assert (model.training.batch_size, model.eta, other.training) == (8, 1.0, None)
    twin = clone(model).set_params(training__batch_size=16)
    assert (model.training.batch_size, twin.training.batch_size) == (8, 16)
    assert model.get_params()["training__batch_size"] == 8
    with pytest.raises(ValueError, match="Invalid parameter 'batches'"):
        DeepMetric().set_params(training__batches=8)


def _checks():
    estimators = [
        DeepMetric(n_epochs=3, n_components=4, random_state=0),
        OAHU(hidden=(8,), n_components=4, n_epochs=2, random_state=0),
    ]
    mark = parametrize_with_checks(estimators)
    names, pairs = mark.args
    kept = [pair for pair in pairs if pair[1].func.__name__ != "check_array_api_input"]
    return pytest.mark.parametrize(names, kept, ids=mark.kwargs["ids"])


@pytest.mark.slow
@_checks()
def test_estimator_keeps_the_rules_of_scikit_learn(estimator, check):
    check(estimator)


def test_there_is_no_matrix(rings):
    X, y = rings()
    model = fast().fit(X, y)
    for name in ("components_", "metric_", "query_map_"):
        assert not hasattr(model, name)
    with pytest.raises(AttributeError, match="is a network and has no matrix"):
        model.metric_  # noqa: B018
    assert list(model.get_feature_names_out()) == ["deepmetric0", "deepmetric1", "deepmetric2", "deepmetric3"]


# ---------------------------------------------------------------------------------- bad input


X4, Y4 = np.arange(40.0).reshape(10, 4) % 7, np.arange(10) % 2


def refused(model, error, said, X=X4, y=Y4):
    model.fit(X4, Y4)
    before = dict(vars(model))
    with pytest.raises(error, match=said):
        model.fit(X, y)
    assert vars(model) == before
    with pytest.raises(error, match=said):
        model.partial_fit(X, y)
    assert vars(model) == before


@pytest.mark.parametrize(
    ("X", "y", "error", "said"),
    [
        (np.where(X4 == 3, np.nan, X4), Y4, ValueError, "NaN"),
        (np.where(X4 == 3, np.inf, X4), Y4, ValueError, "infinity"),
        (X4, Y4[:5], ValueError, "X has 10 rows but y has 5 labels"),
        (X4[:0], Y4[:0], ValueError, "0 sample"),
        (X4.reshape(10, 2, 2), Y4, ValueError, r"image_shape=\(2, 2\)"),
        (X4, [None] * 10, ValueError, "every row needs a label"),
    ],
)
def test_wrong_rows_are_refused_and_change_nothing(X, y, error, said):
    refused(fast(n_epochs=1), error, said, X, y)


def test_sparse_rows_are_refused():
    from scipy import sparse

    said = "DeepMetric takes dense rows, X is sparse.*TruncatedSVD"
    refused(fast(n_epochs=1), TypeError, said, sparse.eye(10, 4).tocsr())


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="at least two classes"):
        fast().fit(X4, np.zeros(10))


@pytest.mark.parametrize(
    ("parameters", "error", "said"),
    [
        ({"module": nn.Linear(3, 2)}, ValueError, r"does not take rows of shape \(2, 4\)"),
        ({"module": nn.Identity()}, ValueError, "no parameters to learn"),
        ({"module": lambda n: nn.Unflatten(1, (2, 2))}, ValueError, r"it returned \(2, 2, 2\)"),
        ({"module": lambda n: 3}, ValueError, "must make an nn.Module; it made int"),
        ({"module": "resnet"}, ValueError, "`module` must be"),
        ({"image_shape": (3, 3)}, ValueError, "has 9 numbers, rows have 4"),
        ({"image_shape": 4}, ValueError, "`image_shape` must be"),
        ({"eta": -1.0}, ValueError, "`eta` must be"),
        ({"loss": "squared"}, ValueError, "`loss` must be"),
        ({"memory": 1.0}, ValueError, "`memory` must be"),
        ({"batch_size": 1}, ValueError, "`batch_size` must be"),
        ({"batch_size": 10**30}, ValueError, "`batch_size` must be"),
        ({"warm_up": 10**30}, ValueError, "`warm_up` must be"),
        ({"n_components": 10**9}, ValueError, "`n_components` must be"),
        ({"optimizer": "lbfgs"}, ValueError, "`optimizer` must be"),
        ({"precision": "float16"}, ValueError, "float16' needs a GPU"),
        ({"device": "tpu"}, ValueError, "`device` must be"),
        ({"checkpoint": 3}, ValueError, "`checkpoint` must be"),
        ({"triplets": nearkin.OCTG(centers=[[0.0]], center_labels=[0])}, ValueError, "`centers` cannot be given"),
        ({"distributed": True}, RuntimeError, "start the program with torchrun"),
        ({"distributed": True, "random_state": None}, ValueError, "distributed=True needs a whole number"),
    ],
)
def test_wrong_parameters_are_named(parameters, error, said):
    model = fast(**parameters)
    before = dict(vars(model))
    with pytest.raises(error, match=said):
        model.fit(X4, Y4)
    assert vars(model) == before


def test_a_gpu_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match=r"sees no NVIDIA GPU on this machine\. Use device='cpu'"):
        fast(device="cuda").fit(X4, Y4)


@pytest.mark.parametrize("normalize", [True, False])
def test_numbers_that_leave_the_range_are_named_early(normalize):
    model = fast(optimizer="sgd", learning_rate=1e30, n_epochs=50, normalize=normalize)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=r"is no longer finite\. Lower `learning_rate`"):
        model.fit(X4, Y4)
    assert vars(model) == before


def test_without_torch_the_part_says_what_to_install():
    import subprocess
    import sys

    code = "import sys; sys.modules['torch'] = None\nimport nearkin.deep"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip().endswith("nearkin.deep needs torch, which is not installed: pip install 'nearkin[deep]'")


def test_threads_of_the_program_come_back(rings):
    X, y = rings()
    seen = []
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:

        class Watched(nn.Linear):
            def forward(self, x):
                seen.append(torch.get_num_threads())
                return super().forward(x)

        fast(module=Watched(4, 2), n_epochs=1).fit(X, y)
        DeepMetric(n_epochs=1).fit(X, y)
        assert set(seen) == {2}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
