"""The start: its sums and its map against plain twins, chunks, streams, shards and input that tries to break it."""

import copy
import io
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from threadpoolctl import threadpool_info, threadpool_limits

import nearkin
from each import each
from nearkin.discriminant import Discriminant
from nearkin.discriminant.sums import Sums
from nearkin.discriminant.witnesses import Witnesses
from nearkin.learners import merge_states
from nearkin.losses import RescaledHinge
from nearkin.rows import Rows
from nearkin.saving import write_tree


@each(name=("RobustLODML", "RobustOASIS"))
def test_a_saved_start_learns_on_as_if_it_had_never_been_saved(name, blobs, tmp_path):
    X, y = blobs(400)
    model = getattr(nearkin, name)(random_state=0).partial_fit(X[:100], y[:100])
    nearkin.save(model, tmp_path / "model.nearkin")
    loaded = nearkin.load(tmp_path / "model.nearkin")
    for one in (model, loaded):
        one.partial_fit(X[100:], y[100:])
    np.testing.assert_array_equal(loaded.components_, model.components_)


def test_witnesses_of_classes_never_seen_stand_in_no_file(blobs, tmp_path):
    X, y = blobs(100)
    model = nearkin.RobustLODML(random_state=0).fit(X, y)
    model = copy.deepcopy(model)
    model.state_.start.witnesses.codes[0] = 2**40
    with pytest.raises(ValueError, match="more than the 3 classes"):
        nearkin.save(model, tmp_path / "model.nearkin")  # writing looks at what reading would


# ---------------------------------------------------------------------- sums and map against plain twins


def make_witnesses(rng, m, p, n_classes=3, offset=0.0):
    rows = rng.normal(size=(m, p)) + offset
    return Witnesses(rows, rng.integers(0, n_classes, m), rng.random(m), rows)


def sum_plainly(X, codes, weight, witnesses, own, other, n_classes):
    """A double loop over rows and their witnesses."""
    p = X.shape[1]
    counts, totals = np.zeros(n_classes), np.zeros((n_classes, p))
    scatters, weights = np.zeros((2, p, p)), np.zeros(2)
    for i, x in enumerate(X):
        counts[codes[i]] += weight[i]
        totals[codes[i]] += weight[i] * x
        for side, found in enumerate((own, other)):
            for j in found[i][:10]:
                if j >= 0:
                    pair, difference = weight[i] * witnesses.weight[j], x - witnesses.rows[j]
                    scatters[side] += pair * np.outer(difference, difference) / 2
                    weights[side] += pair
    return counts, totals, *scatters, *weights


@each(offset=(0.0, 1e6), n=(0, 1, 40))
def test_sums_are_those_of_a_double_loop_over_pairs(offset, n, rng):
    witnesses = make_witnesses(rng, 30, 4, offset=offset)
    X, codes, weight = rng.normal(size=(n, 4)) + offset, rng.integers(0, 5, n), rng.random(n)
    own, other = rng.integers(-1, 30, (2, n, 15))
    found = Sums.none(2, 4).plus(X, codes, weight, witnesses, own, other)
    expected = sum_plainly(X, codes, weight, witnesses, own, other, len(found.counts))
    for one, twin in zip(vars(found).values(), expected, strict=True):
        np.testing.assert_allclose(one, twin, rtol=1e-9, atol=1e-9)
    again = found.plus(X, codes, weight, witnesses, own, other)
    for one, twin in zip(vars(again).values(), expected, strict=True):
        np.testing.assert_allclose(one, np.multiply(2, twin), rtol=1e-9, atol=1e-9)


def find_metric_plainly(sums):
    """The metric of the whole map: ``S^-1/2 (floor + B / |B|) S^-1/2`` by functions of symmetric matrices."""

    def power(A, f):
        values, vectors = np.linalg.eigh(A)
        return (vectors * f(values)) @ vectors.T

    near = sums.near / sums.near_weight
    p = len(near)
    shrinkage = np.clip(p / sums.counts.sum(), 0.1, 0.9)
    S = (1 - shrinkage) * near + shrinkage * np.trace(near) / p * np.eye(p)
    root = power(S, lambda v: v**-0.5)
    share = sums.counts / sums.counts.sum()
    means = sums.totals / sums.counts[:, None]
    means = means - share @ means
    between = root @ (means.T * share) @ means @ root
    between /= np.linalg.norm(between, 2)
    far, near_white = root @ sums.far @ root, root @ near @ root
    excess = power(far / np.trace(far) - near_white / np.trace(near_white), lambda v: np.maximum(v, 0))
    between = (between + excess / np.linalg.norm(excess, 2)) / 2
    metric = root @ (0.07 * np.eye(p) + between / np.linalg.norm(between, 2)) @ root
    return metric / (2 * np.trace(metric @ near))


def make_sums(rng, X, y, weight=None):
    """Sums of rows that are all witnesses, with neighbours in the space as it is."""
    weight = np.ones(len(X)) if weight is None else weight
    witnesses = Witnesses(X, y, weight, X)
    found = witnesses.judge(X, y)
    return Sums.none(0, X.shape[1]).plus(X, y, weight, witnesses, found.own, found.other), found.own


def test_the_map_is_the_one_of_the_formula_and_neighbours_of_a_class_are_at_mean_squared_distance_one(blobs, rng):
    X, y = blobs(200, d=6, n_classes=4)
    X, y = X[np.argsort(y)], np.sort(y)
    weight = rng.random(200)
    sums, own = make_sums(rng, X, y, weight)
    found = sums.find_map(6)
    np.testing.assert_allclose(found.T @ found, find_metric_plainly(sums), rtol=1e-4)
    pairs = [(i, j, weight[i] * weight[j]) for i in range(200) for j in own[i][:10] if j >= 0]
    squared = [w * np.sum((found @ (X[i] - X[j])) ** 2) for i, j, w in pairs]
    assert np.sum(squared) / np.sum([w for *_, w in pairs]) == pytest.approx(1.0)
    few = sums.find_map(3)  # the most telling directions, at one scale of their own
    ratio = few / found[:3]
    np.testing.assert_allclose(ratio, ratio[0, 0])


def test_a_scatter_that_rounding_leaves_indefinite_has_a_map():
    near = np.diag([1.0, 0.5, -0.2])
    sums = Sums(np.ones(2), np.arange(6.0).reshape(2, 3), near, np.eye(3), 1.0, 1.0)
    assert np.isfinite(sums.find_map(3)).all()
    assert np.linalg.matrix_rank(sums.find_map(3)) == 3


def test_copies_of_witnesses_carry_no_panels(blobs):
    X, y = blobs(60)
    witnesses = nearkin.RobustLODML(random_state=0).fit(X, y).state_.start.witnesses
    assert "_panels" in vars(witnesses)
    assert list(vars(pickle.loads(pickle.dumps(witnesses)))) == ["rows", "codes", "weight", "placed"]


def start_of(X, y, r=None, is_unit=False, loss=None, seed=0):
    X, y = np.ascontiguousarray(X), np.asarray(y)
    loss = RescaledHinge(1.0) if loss is None else loss
    return Discriminant.begin(Rows(X), y, r or X.shape[1], is_unit, loss, np.random.default_rng(seed))


def metric_of(start):
    return start.map.T @ start.map


def test_the_start_turns_with_the_features_and_does_not_care_about_order_scale_or_names(blobs, rng):
    X, y = blobs(300, d=6, n_classes=4)
    metric = metric_of(start_of(X, y))
    R, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    np.testing.assert_allclose(metric_of(start_of(X @ R, y)), R.T @ metric @ R, atol=1e-8 * metric.max())
    order = rng.permutation(300)
    np.testing.assert_allclose(metric_of(start_of(X[order], y[order])), metric, atol=1e-8 * metric.max())
    np.testing.assert_allclose(metric_of(start_of(X * 1e3, y)) * 1e6, metric, atol=1e-8 * metric.max())
    np.testing.assert_allclose(metric_of(start_of(X, np.array([2, 0, 3, 1])[y])), metric, atol=1e-8 * metric.max())
    np.testing.assert_allclose(metric_of(start_of(X + 1e4, y)), metric, rtol=1e-5, atol=1e-6 * metric.max())


def test_every_vote_against_a_label_lowers_its_plausibility(blobs):
    """Not only those beyond three of eight, as while learning: the order of doubtful rows counts."""
    X, y = blobs(200, d=4, spread=1.5)
    model = nearkin.RobustLODML(random_state=0).fit(X, y)
    codes = model.state_.labels.encode(y, "test")
    placed = model.state_.start.place(model.scaling_.apply(X))
    share = (model.state_.start.witnesses.judge(placed, codes, 0, (30,)).margins[0] + 1.5) / 4.0
    np.testing.assert_allclose(model.plausibility_, np.exp(-2.5 * (1.0 - share)), atol=1e-12)
    np.testing.assert_array_equal(model.plausibility_ < 1.0, share < 1.0)
    assert np.count_nonzero((share > 5 / 8) & (share < 1.0)) > 20


def test_a_constant_column_changes_nothing(blobs):
    """Neither the distances nor how much is shrunk, whatever the constant."""
    X, y = blobs(100, d=4)
    metric = metric_of(start_of(X, y))
    for constant in (0.0, 0.1, 1e5):
        wider = metric_of(start_of(np.column_stack([X, np.full(100, constant)]), y))
        np.testing.assert_allclose(wider[:4, :4], metric, rtol=1e-6)
        np.testing.assert_allclose(wider[4, :4], 0.0, atol=1e-6 * metric.max())


# ---------------------------------------------------------------------- chunks

ALL = ("RobustLODML", "LODML", "RobustODML", "RobustLOSL", "RobustOASIS", "SLMOML", "LPAODML", "OPML", "ITML")
DIGITS = load_digits()


def late_digits():
    """Digits with columns that vary only after the first batch."""
    X, order = DIGITS.data.copy(), np.random.default_rng(0).permutation(1797)
    X, y = X[order][:1000], DIGITS.target[order][:1000]
    X[:500, 10], X[:700, 20] = 3.0, 0.0
    return X, y


def learn_in_chunks(name, X, y, sizes, folder=None, **settings):
    """A model of the first 200 rows and then of chunks, saved and loaded now and then."""
    settings = {"random_state": 0, **({"bounds": (0.5, 1.5)} if name == "ITML" else {}), **settings}
    model, at = getattr(nearkin, name)(**settings).partial_fit(X[:200], y[:200]), 200
    for i, size in enumerate(sizes):
        if at >= len(y):
            break
        model.partial_fit(X[at : at + size], y[at : at + size])
        at += size
        if folder is not None and i % 8 == 0:
            nearkin.save(model, folder / "model.nearkin")
            model = nearkin.load(folder / "model.nearkin")
    return model


def assert_same_metric(one, other, tolerance):
    np.testing.assert_allclose(one.metric_, other.metric_, atol=tolerance * np.abs(other.metric_).max())


OTHER_SOURCES = {"RobustLODML, octg": ("RobustLODML", "octg"), "RobustOASIS, one pass": ("RobustOASIS", "one_pass")}
SOURCES = {**{name: (name, "auto") for name in ALL}, **OTHER_SOURCES}


@each(case=SOURCES, fast={"case": [SOURCES["RobustLODML"]]})
def test_chunks_of_raw_digits_do_not_matter(case, rng, tmp_path):
    name, source = case
    X, y = late_digits()
    settings = {} if name == "OPML" else {"triplets": source}
    for dtype, tolerance in ((np.float64, 1e-8), (np.float32, 2e-3))[: 1 + (name == "RobustLODML")]:
        rows = X.astype(dtype)
        whole = learn_in_chunks(name, rows, y, [2000], **settings)
        dense = learn_in_chunks(name, rows, y, rng.integers(1, 90, 400), tmp_path, **settings)
        few = learn_in_chunks(name, sparse.csr_array(rows), y, rng.integers(1, 400, 400), **settings)
        assert_same_metric(dense, whole, tolerance)
        assert_same_metric(few, whole, tolerance)


@each(r=(1, 40), kind=("ten", "two"), fast={"r": (40,), "kind": ("two",)})
def test_chunks_do_not_matter_to_any_rank(r, kind):
    """Directions that tell nothing are ordered too."""
    X, y = late_digits()
    y = y if kind == "ten" else y % 2
    one, other = (learn_in_chunks("RobustLODML", X, y, sizes, n_components=r) for sizes in ([2000], [37] * 50))
    assert_same_metric(one, other, 1e-6)


@pytest.mark.slow
def test_chunks_do_not_matter_to_a_sketch(rng):
    X, y = late_digits()
    X = X @ rng.normal(size=(64, 700))
    one, other = (learn_in_chunks("RobustLODML", X, y, sizes, n_components=8) for sizes in ([2000], [37] * 50))
    assert_same_metric(one, other, 1e-6)


def test_the_start_is_renewed_by_one_blas_thread(blobs, monkeypatch):
    """More wait for each other where other processes want the cores too, and give other bits."""
    seen, observe = [], Discriminant.observe

    def watched(self, rows, codes):
        ours = [one for one in threadpool_info() if "numpy" in one["filepath"] or "scipy" in one["filepath"]]
        seen.extend(one["num_threads"] for one in ours if one["user_api"] == "blas")
        return observe(self, rows, codes)

    monkeypatch.setattr(Discriminant, "observe", watched)
    X, y = blobs(80)
    with threadpool_limits(2, user_api="blas"):
        nearkin.RobustLODML(random_state=0).partial_fit(X[:40], y[:40]).partial_fit(X[40:], y[40:])
    assert set(seen) == {1}


def test_a_batch_that_fails_in_a_later_piece_changes_nothing(blobs, tmp_path):
    X, y = blobs(900)
    model = nearkin.RobustLODML(random_state=0).partial_fit(X[:100], y[:100])
    before = to_bytes(model.state_)
    bad = X[100:].copy()
    bad[700, 2] = 1e200  # renewals come before it
    with pytest.raises(ValueError, match="row 700"):
        model.partial_fit(bad, y[100:])
    assert to_bytes(model.state_) == before
    model.partial_fit(X[100:], y[100:])


def to_bytes(state):
    file = io.BytesIO()
    write_tree(state, file)
    return file.getvalue()


# ---------------------------------------------------------------------- streams


def make_world(rng, n_classes=6, d=6, n_noise=6):
    """Clouds beside directions of much noise, all mixed; a maker of rows, by class and with other means."""
    means, mixed = 1.5 * rng.normal(size=(n_classes, d)), rng.normal(size=(d + n_noise, d + n_noise))

    def draw(n, classes=range(n_classes), means=means):
        y = rng.choice(list(classes), n)
        clouds = means[y] + rng.normal(size=(n, d))
        return np.concatenate([clouds, 3 * rng.normal(size=(n, n_noise))], axis=1) @ mixed, y

    return draw, means


def flip(rng, y, share):
    wrong = rng.random(len(y)) < share
    return np.where(wrong, rng.choice(np.unique(y), len(y)), y)


def feed(model, X, y, size=500):
    for at in range(0, len(y), size):
        model.partial_fit(X[at : at + size], y[at : at + size])
    return model


def score(model, draw):
    """Share of rows with clean labels whose three nearest neighbours in the space have their class."""
    (X, y), (X_new, y_new) = draw(1500), draw(1500)
    return KNeighborsClassifier(3).fit(model.transform(X), y).score(model.transform(X_new), y_new)


#: The plain hinge is worn out by wrong labels in a long stream; nothing is promised of it there.
CASES = {
    "robust": ("RobustLODML", 0.0), "robust with wrong labels": ("RobustLODML", 0.3), "plain": ("LODML", 0.0),
    "similarity with wrong labels": ("RobustOASIS", 0.3),
}  # fmt: skip
FEW = [CASES["robust with wrong labels"]]


@each(case=CASES, fast={"case": FEW})
def test_a_stream_of_ten_times_the_rows_is_as_good_as_the_batch_in_bounded_memory(case, rng):
    name, share = case
    draw, _ = make_world(rng)
    X, y = draw(10_000)
    noisy = flip(rng, y, share)
    batch = getattr(nearkin, name)(random_state=0).fit(X[:1000], noisy[:1000])
    model = feed(getattr(nearkin, name)(random_state=0), X[:6000], noisy[:6000])
    size = len(to_bytes(model.state_))
    feed(model, X[6000:], noisy[6000:])
    assert len(to_bytes(model.state_)) < 1.1 * size
    assert score(model, draw) > score(batch, draw) - 0.02


@each(case=CASES, fast={"case": FEW})
def test_a_drift_of_the_classes_is_followed(case, rng):
    name, share = case
    draw, means = make_world(rng)
    moved = 1.5 * rng.normal(size=means.shape)
    X, y = draw(4000)
    X_new, y_new = draw(6000, means=moved)
    y, y_new = flip(rng, y, share), flip(rng, y_new, share)
    model = feed(feed(getattr(nearkin, name)(random_state=0), X, y), X_new, y_new)
    alone = getattr(nearkin, name)(random_state=0).fit(X_new, y_new)
    assert score(model, lambda n: draw(n, means=moved)) > score(alone, lambda n: draw(n, means=moved)) - 0.04


@each(name=("RobustLODML", "RobustOASIS"), fast={"name": ("RobustLODML",)})
def test_classes_that_come_late_or_replace_others_are_learned(name, rng):
    draw, _ = make_world(rng)
    X, y = draw(6000, range(3))
    X_new, y_new = draw(4000, range(3, 6))
    model = feed(feed(getattr(nearkin, name)(random_state=0), X, y), X_new, y_new)
    alone = getattr(nearkin, name)(random_state=0).fit(X_new, y_new)
    assert score(model, lambda n: draw(n, range(3, 6))) > score(alone, lambda n: draw(n, range(3, 6))) - 0.06
    assert set(model.state_.start.witnesses.codes) >= {3, 4, 5}


# ---------------------------------------------------------------------- shards


def test_shards_merged_are_as_good_as_one_pass_and_stay_small(rng):
    draw, _ = make_world(rng)
    X, y = draw(31_000)
    noisy = flip(rng, y, 0.2)
    model = nearkin.RobustLODML(random_state=0).partial_fit(X[:1000], noisy[:1000])
    whole = feed(copy.deepcopy(model), X[1000:], noisy[1000:], 5000)
    shards = []
    for i in range(3):
        one = copy.deepcopy(model)
        one.state_ = model.state_.copy()
        one.state_.for_shard(i)
        part = slice(1000 + 10_000 * i, 11_000 + 10_000 * i)
        shards.append(feed(one, X[part], noisy[part], 5000).state_)
        assert len(shards[-1].start.sample.rows) < 2 * 2048 + 100
        np.testing.assert_array_equal(shards[-1].start.map, model.state_.start.map)
    together = {tuple(row) for one in shards for row in one.start.sample.rows}
    assert len(together) > 2.5 * 2048  # each has drawn its own
    model.state_ = merge_states(model.state_, shards)
    assert model.state_.start.n_rows == 31_000
    assert score(model, draw) > score(whole, draw) - 0.03
    model.partial_fit(X[:500], y[:500])


# ---------------------------------------------------------------------- input that tries to break it


def assert_sound(model, X):
    assert np.isfinite(model.transform(X)).all()
    assert np.isfinite(model.components_).all()


DISTANCES = ("RobustLODML", "LODML", "RobustODML", "RobustOASIS", "ITML")


@each(name=DISTANCES)
def test_a_stream_may_begin_with_one_row_or_one_class(name, blobs):
    X, y = blobs(300)
    more = {"bounds": (0.5, 1.5)} if name == "ITML" else {}
    for first in (1, 40):
        labels = np.concatenate([np.zeros(first, int), y[first:]])
        model = getattr(nearkin, name)(random_state=0, **more)
        model.partial_fit(X[:first], labels[:first], classes=[0, 1, 2])
        assert_sound(model.partial_fit(X[first:], labels[first:]), X)
        alone = getattr(nearkin, name)(random_state=0, **more)
        with pytest.raises(ValueError, match="two classes"):
            alone.partial_fit(X[:first], labels[:first])
        assert not hasattr(alone, "state_")


@each(name=DISTANCES)
def test_rows_that_say_little_are_learned_or_refused(name, rng):
    more = {"bounds": (0.5, 1.5)} if name == "ITML" else {}

    def learn(X, y, **settings):
        model = getattr(nearkin, name)(random_state=0, **more, **settings).fit(X, y)
        assert_sound(model, X)
        assert_sound(feed(model, X, y), X)
        return model

    y = np.arange(60) % 3
    X = rng.normal(size=(60, 4))
    learn(np.ones((60, 4)), y)
    learn(np.column_stack([X, np.full((60, 3), 7.0)]), y)
    learn(X[:5], np.arange(5))  # every row is a class of its own
    learn(np.repeat(X[:2], 30, axis=0), np.arange(60) // 30)
    learn(np.repeat(X[:30], 2, axis=0), np.arange(60) % 2)  # equal rows of two classes
    learn(X, np.r_[1, np.zeros(59, int)])
    learn(X * 1e-150, y)
    learn(X * [1e-150, 1.0, 1e30, 1e8], y)
    learn(X, y, scale=None)
    learn(X * 1e4 + 1e6, y, scale=None)


@each(name=("RobustLODML", "RobustOASIS"))
def test_huge_and_tiny_numbers_are_learned_or_refused(name, rng):
    y, X = np.arange(60) % 3, rng.normal(size=(60, 4))
    for scale in (1e-300, 1e-160, 1e40, 1e140, 1e300):
        for settings in ({}, {"scale": None}):
            model = getattr(nearkin, name)(random_state=0, **settings)
            try:
                model.fit(X * scale, y)
            except ValueError as error:
                assert type(model).__name__ in str(error)
            else:
                assert_sound(model, X * scale)


@each(name=("RobustLODML", "RobustLOSL"))
def test_few_directions_are_the_telling_ones(name, rng):
    draw, _ = make_world(rng)
    X, y = draw(800)
    for r in (1, 2, 3):
        model = getattr(nearkin, name)(n_components=r, random_state=0).fit(X, y)
        assert model.transform(X).shape == (800, r)
        assert score(model, draw) > score(
            nearkin.Euclidean(random_state=0).fit(X[:, :r], y), lambda n, r=r: few(draw, n, r)
        )
    with pytest.raises(ValueError, match="n_components=13 exceeds the 12 features"):
        getattr(nearkin, name)(n_components=13).fit(X, y)


def few(draw, n, r):
    X, y = draw(n)
    return X[:, :r], y


@pytest.mark.slow
def test_thousands_of_classes_of_four_rows(rng):
    y = rng.permutation(np.arange(20_000) % 5000)
    X = 3 * rng.normal(size=(5000, 20))[y] + rng.normal(size=(20_000, 20))
    model = nearkin.RobustLODML(random_state=0).fit(X, y)
    assert_sound(feed(model, X[:6000], y[:6000], 2000), X)
    assert len(model.state_.start.sample.rows) <= 4096 + 2048
    assert len(model.state_.start.witnesses.rows) <= 4096


@each(d=(2000, 20_000), fast={"d": (2000,)})
def test_wide_sparse_rows_are_sketched(d, rng):
    y = rng.integers(0, 4, 400)
    X = sparse.random_array((400, d), density=0.01, random_state=rng, format="lil")
    X[np.arange(400), y] = 5.0
    X = X.tocsr()
    model = nearkin.RobustLODML(n_components=8, random_state=0).fit(X[:200], y[:200])
    feed(model, X[200:], y[200:], 50)
    assert model.components_.shape == (8, d)
    plain = nearkin.Euclidean(random_state=0).fit(X[:200], y[:200])
    better, worse = (
        KNeighborsClassifier(3).fit(one.transform(X[:200]), y[:200]).score(one.transform(X[200:]), y[200:])
        for one in (model, plain)
    )
    assert better > worse + 0.05


def test_a_rare_class_has_witnesses(rng):
    """All rows of the first batch that the class has, in the sample by which the first map is found as well."""
    X = rng.normal(size=(4000, 5))
    y = (np.arange(4000) % 1000 == 1).astype(int)
    X[y == 1] += 4.0
    model = nearkin.RobustLODML(random_state=0).fit(X, y)
    assert np.count_nonzero(model.state_.start.witnesses.codes == 1) == 4
    feed(model, X, y)
    assert np.count_nonzero(model.state_.start.witnesses.codes == 1) >= 4


# ---------------------------------------------------------------------- robust against plain


def test_wrong_labels_cost_the_robust_learner_little(rng):
    """Mean over halves of digits of three-nearest-neighbour accuracy on clean labels."""
    X, y = DIGITS.data, DIGITS.target
    found = {}
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(y))
        train, ask = order[:900], order[900:]
        for share in (0.0, 0.4):
            noisy = y.copy()
            wrong = train[np.random.default_rng(seed).random(900) < share]
            noisy[wrong] = (y[wrong] + np.random.default_rng(seed).integers(1, 10, len(wrong))) % 10
            for name in ("RobustLODML", "LODML"):
                model = getattr(nearkin, name)(n_components=16, random_state=0).fit(X[train], noisy[train])
                neighbours = KNeighborsClassifier(3).fit(model.transform(X[train]), y[train])
                found.setdefault((name, share), []).append(neighbours.score(model.transform(X[ask]), y[ask]))
    mean = {key: np.mean(values) for key, values in found.items()}
    assert mean["RobustLODML", 0.0] > mean["LODML", 0.0] - 0.01, mean
    assert mean["RobustLODML", 0.4] > mean["LODML", 0.4] + 0.01, mean
