"""The laws that every learner keeps, each told once, over all learners that `nearkin.learners` offers."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import nearkin
from each import each
from nearkin.measures import DISTANCE, SIMILARITY
from nearkin.triplets import OCTG, BatchTriplets, OnePassTriplets, RandomTriplets
from systems import ALL, LEARNERS

ROBUST = tuple(cls for cls in ALL if cls.__name__.startswith("Robust"))
BASE_OF = {cls: getattr(nearkin, cls.__name__.removeprefix("Robust")) for cls in ROBUST}
#: Whatever learns: Euclidean does not.
TAUGHT = (*BASE_OF.values(), *ROBUST)


def of(classes, *endings):
    return tuple(cls for cls in classes if cls.__name__.endswith(endings))


def but(classes, *endings):
    return tuple(cls for cls in classes if not cls.__name__.endswith(endings))


#: ITML takes the two pairs of a triplet, which may lose while the triplet does not.
TRIPLETS = but(TAUGHT, "ITML")
#: Of which a matrix is what was learned; the others keep terms of Mercer kernels.
MATRICES = tuple(cls for cls in TAUGHT if cls in LEARNERS)
#: Of which that matrix is all that a triplet moves, along a step that can end where the loss does.
WHOLE = tuple(cls for cls in but(MATRICES, "LPAODML", "OMDML", "LSMDML") if cls in TRIPLETS)

NEEDS_A_RANK = ("LOSL", "LODML", "LOMDML")


def make(cls, **parameters):
    """A learner for rows as they come, with what it needs to know before the first one."""
    if cls in of(ALL, "ITML"):
        parameters = {"bounds": (0.5, 1.5), **parameters}
    elif cls in of(ALL, "OKS"):
        parameters = {"gamma": 0.5, **parameters}
    elif cls in of(ALL, "OPML"):
        parameters = {"exact": True, **parameters}  # the published step does not stop where the loss is gone
    elif cls in of(ALL, "OMKS"):
        parameters = {"kernels": ["linear", {"kernel": "rbf", "gamma": 0.5}], **parameters}
    return cls(**{"scale": None, **parameters})


def learned(model, d=5):
    """What a learner has learned: its matrix, or its scores of some pairs."""
    if hasattr(model, "metric_"):
        return model.metric_
    probe = np.random.default_rng(0).normal(size=(2, 9, d))
    return model.pair_score(*probe)


def assert_same_model(one, other, d, tolerance=1e-9):
    got, wanted = learned(one, d), learned(other, d)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=tolerance * max(1.0, np.abs(wanted).max()))
    for counter in ("n_rows_seen_", "n_triplets_seen_", "n_updates_"):
        assert getattr(one, counter) == getattr(other, counter)


# ---------------------------------------------------------------- without eta, the base method


@each(cls=ROBUST)
def test_a_robust_learner_without_eta_is_its_base_learner_to_the_bit(cls, random_triplets):
    sets = random_triplets(50, 5, 0.5)
    base = make(BASE_OF[cls], C=0.1).fit_triplets(*sets)
    robust = make(cls, C=0.1, eta=0.0).fit_triplets(*sets)
    np.testing.assert_array_equal(learned(robust), learned(base))
    assert base.n_updates_ == robust.n_updates_ > 10
    np.testing.assert_array_equal(base.plausibility_, np.ones(50))


@each(cls=ROBUST)
def test_a_robust_learner_tends_to_its_base_learner_as_eta_vanishes(cls, random_triplets):
    sets = random_triplets(50, 5, 0.5)
    base = learned(make(BASE_OF[cls], C=0.1).fit_triplets(*sets))
    gaps = [np.abs(learned(make(cls, C=0.1, eta=eta).fit_triplets(*sets)) - base).max() for eta in (1e-3, 1e-9)]
    assert gaps[1] < 1e-6 < gaps[0] < 0.1


@each(cls=TAUGHT)
def test_half_quadratic_iterations_change_nothing_without_eta(cls, random_triplets):
    sets = random_triplets(40, 5, 0.5)
    one, many = (learned(make(cls, C=0.1, eta=0.0, max_hq_iter=k).fit_triplets(*sets)) for k in (1, 8))
    np.testing.assert_array_equal(one, many)


@each(cls=ROBUST)
def test_a_robust_learner_is_its_base_class_with_another_default_loss(cls):
    assert {**BASE_OF[cls]().get_params(), "loss": "rescaled_hinge"} == cls().get_params()
    assert issubclass(cls, BASE_OF[cls])


# ---------------------------------------------------------------- passive where there is nothing to learn


@each(cls=tuple(cls for cls in MATRICES if cls in TRIPLETS))
def test_a_triplet_without_loss_leaves_the_parameters_to_the_bit(cls, random_triplets):
    sets = random_triplets(30, 4, 0.5)
    model = make(cls, C=0.1).fit_triplets(*sets)
    before, updates = model.components_.copy(), model.n_updates_
    metric = model.metric_.copy()
    direction = np.linalg.eigh(metric + metric.T)[1][:, -1]  # along which the learned measure is large
    x, near, far = 30.0 * direction, 30.0 * direction, -30.0 * direction
    model.partial_fit_triplets([x], [near], [far])
    np.testing.assert_array_equal(model.metric_, metric)
    np.testing.assert_array_equal(model.components_, before)
    assert model.n_updates_ == updates
    assert model.plausibility_.tolist() == [1.0]


@each(cls=TRIPLETS)
def test_a_triplet_with_equal_positive_and_negative_teaches_nothing(cls, random_triplets):
    sets = random_triplets(20, 4, 0.5)
    model = make(cls, C=0.1).fit_triplets(*sets)
    before, updates = learned(model, 4).copy(), model.n_updates_
    same = np.array([[0.3, -0.1, 0.2, 0.7]])
    model.partial_fit_triplets([[1.0, 2.0, 3.0, 4.0]], same, same)
    assert model.n_updates_ == updates
    if cls not in of(TRIPLETS, "OMKS"):  # which weighs its kernels by their hinges, and that of all of them is 1
        np.testing.assert_array_equal(learned(model, 4), before)
    expected = np.exp(-1.0) if cls in ROBUST else 1.0  # its hinge is 1
    np.testing.assert_allclose(model.plausibility_, [expected], rtol=1e-12)


@each(cls=TRIPLETS)
def test_a_zero_anchor_teaches_a_similarity_nothing_and_gives_no_nan(cls, random_triplets):
    sets = random_triplets(20, 4, 0.5)
    model = make(cls, C=0.1).fit_triplets(*sets)
    before = learned(model, 4).copy()
    zero = np.zeros((1, 4))
    model.partial_fit_triplets(zero, [[0.1, 0.2, 0.0, 0.0]], [[0.0, 0.0, 0.3, 0.1]])
    assert np.isfinite(learned(model, 4)).all()
    assert np.isfinite(model.plausibility_).all()
    if cls in of(TRIPLETS, "OASIS", "LOSL"):
        np.testing.assert_array_equal(learned(model, 4), before)
    for triplet in (
        (zero, zero, zero),
        (zero, zero, [[1e-200, 0, 0, 0]]),
        ([[1e-160, 0, 0, 0]], zero, [[0, 1e-160, 0, 0]]),
    ):
        model.partial_fit_triplets(*triplet)
        assert np.isfinite(learned(model, 4)).all()
        assert np.isfinite(model.plausibility_).all()


@each(cls=TAUGHT)
def test_without_aggressiveness_nothing_moves(cls, random_triplets):
    model = make(cls, C=0.0).fit_triplets(*random_triplets(20, 4))
    if cls in MATRICES:
        np.testing.assert_array_equal(model.metric_, np.eye(4))
    assert model.n_updates_ == 0


# ---------------------------------------------------------------- aggressive where there is


@each(cls=WHOLE)
def test_infinite_aggressiveness_removes_the_loss_of_every_triplet(cls, rng):
    """One triplet after the other; the projection of the full distance may take some of the margin away again."""
    x, positive, negative = 0.6 * rng.normal(size=(3, 25, 5))
    how = {"psd": "none"} if "psd" in cls().get_params() else {}
    model = make(cls, C=np.inf, **how)
    for t in range(25):
        one = x[t : t + 1], positive[t : t + 1], negative[t : t + 1]
        model.partial_fit_triplets(*one)
        assert gap(model, *one) >= 1.0 - 1e-6


def gap(model, anchor, positive, negative):
    """z of one triplet: by how much the positive is nearer, or more similar, than the negative."""
    measure = DISTANCE if is_distance(type(model)) else SIMILARITY
    g, h = measure.directions(*map(np.array, (anchor, positive, negative)))
    return (g @ model.metric_ * h).sum()


@each(max_hq_iter=[1, 3], cls=tuple(cls for cls in WHOLE if cls in ROBUST))
def test_infinite_aggressiveness_removes_the_loss_also_where_the_weight_underflows(cls, max_hq_iter):
    """exp(-eta * hinge) is below the smallest number here, but infinity times any weight is infinity."""
    sign = 1.0 if is_distance(cls) else -1.0
    triplet = [[1.0, 1.0]], [[sign * 300.0, 0.0]], [[0.0, 1.0]]
    how = {"psd": "none"} if "psd" in cls().get_params() else {}
    model = make(cls, C=np.inf, eta=5.0, max_hq_iter=max_hq_iter, **how).fit_triplets(*triplet)
    np.testing.assert_allclose(gap(model, *triplet), 1.0, rtol=1e-3)
    assert model.n_updates_ == 1


def is_distance(cls):
    return not cls.__name__.endswith(("OASIS", "LOSL", "OKS", "OMKS"))


# ---------------------------------------------------------------- wrong triplets


@each(cls=tuple(cls for cls in ROBUST if cls in MATRICES and cls in TRIPLETS))
def test_a_wrong_triplet_moves_a_robust_learner_less_and_less_as_eta_grows(cls, rng):
    x, positive, negative = rng.normal(size=4), 3.0 * rng.normal(size=4), np.zeros(4)
    if is_distance(cls):
        negative = x  # the negative is the anchor itself
    else:
        positive, negative = -2.0 * x, 2.0 * x
    moved = []
    for eta in (0.0, 0.5, 1.0, 2.0, 5.0):
        model = make(cls, C=1e-3, eta=eta).fit_triplets([x], [positive], [negative])
        moved.append(np.abs(model.metric_ - np.eye(4)).max())
    assert np.all(np.diff(moved) < 0.0)
    assert moved[-1] < 0.05 * moved[0]


@each(cls=tuple(cls for cls in ROBUST if cls in MATRICES))
def test_one_wrong_triplet_has_a_bounded_say(cls, random_triplets):
    """After good triplets, one whose positive is far from the anchor and whose negative is the anchor."""
    good = random_triplets(60, 4, 0.4)
    x, far = np.full((1, 4), 0.5), np.full((1, 4), 6.0 if is_distance(cls) else -6.0)

    def moved(kind):
        model = make(kind, C=0.05, eta=2.0).fit_triplets(*good)
        before = model.metric_.copy()
        model.partial_fit_triplets(x, far, x)
        return np.abs(model.metric_ - before).max(), model.plausibility_[0]

    (plain, _), (robust, plausibility) = moved(BASE_OF[cls]), moved(cls)
    assert robust < 0.2 * plain
    assert plausibility < 0.5


# ---------------------------------------------------------------- names and seeds


SOURCES = {
    "octg": OCTG(),
    "octg_many": OCTG(n_centers=2),
    "octg_learned": OCTG(metric="learned", update_centers=True, refresh=4),
    "one_pass": OnePassTriplets(),
    "one_pass_cold": OnePassTriplets(cold_start=True),
    "batch": BatchTriplets(n_targets=2),
    "random": RandomTriplets(n_per_row=2),
}


@each(source=SOURCES, cls=but(TAUGHT, "ITML"), fast={"source": (SOURCES["octg_learned"], SOURCES["one_pass"])})
def test_renaming_the_classes_changes_nothing(cls, source, blobs, global_seed):
    X, y = blobs(n=40, d=4, n_classes=4)
    learner = cls(C=0.1, triplets=source, random_state=global_seed)
    names = [(0, 1, 2, 3), (2, 3, 1, 0), ("d", "a", "c", "b")]
    models = [clone(learner).fit(X, np.array(names_of)[y]) for names_of in names]
    assert models[0].n_updates_ > 0
    for other in models[1:]:
        np.testing.assert_array_equal(learned(other, 4), learned(models[0], 4))
        np.testing.assert_array_equal(other.plausibility_, models[0].plausibility_)


@each(source=SOURCES, cls=but(ROBUST, "ITML"), fast={"source": (SOURCES["octg_many"], SOURCES["random"])})
def test_the_same_seed_gives_the_same_bits_and_another_seed_other_ones(cls, source, blobs):
    X, y = blobs(n=40, d=4)
    rank = {"n_components": 2} if cls in of(ROBUST, *NEEDS_A_RANK) else {}
    one, again, other = (cls(C=0.1, triplets=source, random_state=seed, **rank).fit(X, y) for seed in (3, 3, 4))
    np.testing.assert_array_equal(learned(one, 4), learned(again, 4))
    np.testing.assert_array_equal(one.plausibility_, again.plausibility_)
    assert np.any(learned(one, 4) != learned(other, 4))


def test_learning_leaves_the_global_random_state_alone(blobs):
    X, y = blobs()
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    for source in SOURCES.values():
        nearkin.RobustLODML(n_components=2, triplets=source).fit(X, y)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


# ---------------------------------------------------------------- streams

CHUNKS = (1, 7, 64)
CENTERS = {
    "centers": [[0.5, 0.0, 0.0, 0.0], [0.0, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.0], [-0.2, 0.1, 0.0, 0.3]],
    "center_labels": ["a", "b", "c", "a"],
}
#: Sources whose state does not depend on the size of the first batch.
STEADY = {
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
    X, codes = blobs(n=150, d=4, n_classes=3, spread=0.5, distance=0.3)
    return X, np.array(["a", "b", "c"])[codes]


def streaming(cls, source, **parameters):
    """A learner of which nothing depends on the first batch: it begins with the identity."""
    if cls in of(ALL, *NEEDS_A_RANK):
        parameters = {"n_components": 3, **parameters}
    if "init" in cls().get_params():
        parameters = {"init": "identity", **parameters}
    return make(cls, C=0.1, triplets=source, shuffle=False, random_state=0, **parameters)


@each(
    source=STEADY,
    cls=TAUGHT,
    fast={"source": [STEADY["octg_both"]]},
)
def test_the_chunks_in_which_a_stream_comes_do_not_matter(cls, source, stream):
    X, y = stream
    whole = streaming(cls, source, rescore=False).fit(X, y)
    assert whole.n_updates_ > 10
    for size in CHUNKS:
        model, weights = streaming(cls, source), []
        for start in range(0, 150, size):
            part = slice(start, start + size)
            model.partial_fit(X[part], y[part], classes=["a", "b", "c"] if start == 0 else None)
            weights.append(model.plausibility_)
        assert_same_model(model, whole, 4)
        np.testing.assert_allclose(np.concatenate(weights), whole.plausibility_, atol=1e-8)
        if isinstance(source, OCTG):
            np.testing.assert_allclose(model.triplet_source_.centers_, whole.triplet_source_.centers_, atol=1e-9)


@each(cls=TAUGHT)
def test_after_an_equal_first_batch_the_chunks_do_not_matter_with_the_defaults_either(cls, stream):
    """Scale, centres and principal directions come from the first batch; the rest is a stream."""
    X, y = stream
    X = X * [1.0, 30.0, 0.2, 1.0] + 5.0
    models = []
    for size in CHUNKS:
        rank = {"n_components": 2} if cls in of(ALL, *NEEDS_A_RANK) else {}
        model = cls(**rank, random_state=0).partial_fit(X[:50], y[:50])
        for start in range(50, 150, size):
            model.partial_fit(X[start : start + size], y[start : start + size])
        models.append(model)
    for model in models[1:]:
        assert_same_model(model, models[0], 4)


@each(cls=TAUGHT)
def test_partial_fit_after_fit_goes_on_from_what_was_learned(cls, stream):
    X, y = stream
    whole = streaming(cls, STEADY["octg"]).fit(X, y)
    begun = streaming(cls, STEADY["octg"]).fit(X[:90], y[:90])
    before = learned(begun, 4).copy()
    begun.partial_fit(X[90:], y[90:])
    assert np.abs(learned(begun, 4) - before).max() > 1e-6
    assert_same_model(begun, whole, 4)
    again = begun.fit(X[:90], y[:90])  # fit forgets
    np.testing.assert_array_equal(learned(again, 4), before)


@each(cls=TAUGHT)
def test_explicit_triplets_in_pieces_are_the_explicit_triplets(cls, random_triplets):
    sets = random_triplets(60, 5, 0.5)
    whole = make(cls, C=0.1).fit_triplets(*sets)
    for size in (1, 7, 60):
        model, weights = make(cls, C=0.1), []
        for start in range(0, 60, size):
            model.partial_fit_triplets(*(one[start : start + size] for one in sets))
            weights.append(model.plausibility_)
        np.testing.assert_array_equal(learned(model), learned(whole))
        np.testing.assert_array_equal(np.concatenate(weights), whole.plausibility_)
        assert model.n_triplets_seen_ == 60
        assert model.n_updates_ == whole.n_updates_


# ---------------------------------------------------------------- sparse rows


@pytest.fixture
def sparse_rows(rng):
    X = rng.normal(size=(80, 12)) * (rng.random((80, 12)) < 0.3)
    X[:, 0] = rng.normal(size=80)  # no two rows are equal
    X[:, 3] += 2.0 * (np.arange(80) % 3 == 0)
    return X, np.arange(80) % 3


@each(scale=["auto", "pairs", "unit", None], cls=TAUGHT)
def test_sparse_rows_give_the_same_model_as_dense_ones(cls, scale, sparse_rows):
    X, y = sparse_rows
    rank = {"n_components": 4} if cls in of(ALL, *NEEDS_A_RANK) else {}
    dense, other = (cls(C=0.1, scale=scale, random_state=0, **rank).fit(rows, y) for rows in (X, sparse.csr_array(X)))
    assert dense.n_updates_ > 0
    assert_same_model(other, dense, 12, tolerance=1e-8)
    np.testing.assert_allclose(other.plausibility_, dense.plausibility_, atol=1e-7)
    thin = sparse.csr_array(X)
    np.testing.assert_allclose(other.pair_score(thin[:9], thin[9:18]), dense.pair_score(X[:9], X[9:18]), atol=1e-7)
    if cls in MATRICES:
        mapped, expected = other.transform(sparse.csr_array(X)), dense.transform(X)  # equal up to a rotation
        np.testing.assert_allclose(mapped @ mapped.T, expected @ expected.T, atol=1e-7)


@each(cls=TAUGHT)
def test_sparse_triplets_give_the_same_model_as_dense_ones(cls, random_triplets):
    sets = [one * (np.abs(one) > 0.3) for one in random_triplets(40, 6, 0.5)]
    dense, other = (make(cls).fit_triplets(*form) for form in (sets, [sparse.csr_array(one) for one in sets]))
    assert_same_model(other, dense, 6, tolerance=1e-12)


# ---------------------------------------------------------------- files


def assert_same_bits(one, other, X, y):
    d = X.shape[1]
    answers = [
        [learned(model, d), model.plausibility_, model.pair_score(X[:5], X[5:10])]
        + ([model.components_, model.transform(X)] if hasattr(model, "transform") else [])
        + ([model.plausibility(X, y)] if y is not None else [])
        for model in (one, other)
    ]
    for got, wanted in zip(*answers, strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)
    for counter in ("n_rows_seen_", "n_triplets_seen_", "n_updates_"):
        assert getattr(one, counter) == getattr(other, counter)


def reloaded(model, tmp_path):
    nearkin.save(model, tmp_path / "model")
    return nearkin.load(tmp_path / "model")


@each(
    dtype=(np.float32, np.float64),
    source=SOURCES,
    cls=ALL,
    fast={"dtype": (np.float64,), "source": [SOURCES["octg_learned"]]},
)
def test_a_model_comes_back_from_a_file_bit_for_bit_and_learns_on_alike(tmp_path, cls, source, dtype, blobs):
    X, y = blobs(n=36, d=4)
    X = X.astype(dtype)
    model = cls(triplets=source, random_state=0).fit(X[:24], y[:24])
    other = reloaded(model, tmp_path)
    assert model.plausibility_.dtype == other.plausibility_.dtype
    assert_same_bits(model, other, X, y)
    for part in (slice(24, 30), slice(30, 36)):
        assert_same_bits(model.partial_fit(X[part], y[part]), other.partial_fit(X[part], y[part]), X, y)


@each(dtype=(np.float32, np.float64), cls=ALL, fast={"dtype": (np.float64,)})
def test_a_model_of_triplets_comes_back_from_a_file_bit_for_bit_and_learns_on_alike(tmp_path, cls, dtype, blobs):
    X, y = blobs(n=36, d=4)
    X = X.astype(dtype)
    model = cls(random_state=0).fit_triplets(X[:8], X[8:16], X[16:24])
    other = reloaded(model, tmp_path)
    assert_same_bits(model, other, X, None)
    more = X[24:28], X[28:32], X[32:36]
    assert_same_bits(model.partial_fit_triplets(*more), other.partial_fit_triplets(*more), X, None)
    assert_same_bits(model.partial_fit(X, y), other.partial_fit(X, y), X, y)


@each(cls=ALL)
def test_an_unfitted_learner_comes_back_unfitted_with_its_parameters(tmp_path, cls):
    model = cls(eta=0.5, triplets=OCTG(n_centers=2), random_state=3)
    other = reloaded(model, tmp_path)
    assert repr(other) == repr(model)
    assert not hasattr(other, "plausibility_")
