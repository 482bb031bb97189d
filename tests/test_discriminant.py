"""The start: its sums and its map against plain twins, chunks, streams, shards and input that tries to break it."""

import copy

import numpy as np
import pytest

import nearkin
from each import each
from nearkin.discriminant import Discriminant, Sums, Witnesses
from nearkin.losses import RescaledHinge
from nearkin.rows import Rows


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
    share = (model.state_.start.witnesses.judge(placed, codes, 30).margin + 1.5) / 4.0
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
