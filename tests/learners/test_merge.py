"""The merge of states is a pure function with laws; bounded and forgetting centres."""

import copy
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearkin
from each import each
from nearkin.errors import owned_by
from nearkin.learners import merge_states
from nearkin.parameters import weighted_mean
from nearkin.saving import write_tree
from nearkin.triplets import OCTG, OnePassTriplets, RandomTriplets
from printed import printed
from streams import tables

SOURCES = {
    "octg": OCTG(),
    "moving": OCTG(update_centers=True),
    "learned": OCTG(2, metric="learned", update_centers=True, refresh=8),
    "one_pass": OnePassTriplets(),
    "random": RandomTriplets(),
}
LEARNERS = ("RobustLODML", "ODML", "RobustOASIS", "OMDML", "LOMDML", "SLMOML", "ITML", "Euclidean")
X, Y = tables.rows(900)


def bits(state):
    file = io.BytesIO()
    write_tree(state, file)
    return file.getvalue()


def begun(name="RobustLODML", source="moving"):
    more = {"bounds": (0.5, 1.5)} if name == "ITML" else {}
    if name in ("OMDML", "LOMDML"):
        more = {"modalities": [2, 4]}
    triplets = SOURCES[source] if isinstance(source, str) else source
    return getattr(nearkin, name)(triplets=triplets, random_state=0, **more).partial_fit(X[:200], Y[:200])


def shard(model, number, rows, y=None):
    """A copy that has learned some rows, as a worker would."""
    one = copy.deepcopy(model)
    one.state_ = model.state_.copy()
    one.state_.for_shard(number)
    if len(rows):
        one.partial_fit(X[rows], Y[rows] if y is None else y)
    return one.state_


def shards(model, n=3, size=60):
    return [shard(model, i, np.arange(200 + size * i, 200 + size * (i + 1))) for i in range(n)]


@pytest.mark.slow
@each(source=tuple(SOURCES), name=LEARNERS)
def test_the_same_shards_in_the_same_order_give_the_same_bits_and_nothing_is_changed(name, source):
    model = begun(name, source)
    base, parts = model.state_, shards(model)
    before = [bits(one) for one in (base, *parts)]
    first = bits(merge_states(base, parts))
    assert first == bits(merge_states(base, parts))
    assert first == bits(merge_states(base, shards(model)))  # replayed
    assert before == [bits(one) for one in (base, *parts)]
    assert first != before[0]


@each(source=tuple(SOURCES), name=LEARNERS)
def test_counts_add_up_exactly(name, source):
    model = begun(name, source)
    base, parts = model.state_, shards(model)
    merged = merge_states(base, parts)
    for counter in ("n_rows", "n_triplets", "n_updates"):
        added = sum(getattr(one, counter) - getattr(base, counter) for one in parts)
        assert getattr(merged, counter) == getattr(base, counter) + added
    assert merged.source.n_rows_seen_ == merged.n_rows == 380
    if source == "moving":
        added = sum(one.source.center_counts_ - base.source.center_counts_ for one in parts)
        np.testing.assert_allclose(merged.source.center_counts_, base.source.center_counts_ + added, rtol=1e-12)


@each(name=LEARNERS)
def test_one_shard_is_returned_as_it_is(name):
    model = begun(name)
    (one,) = shards(model, 1)
    assert bits(merge_states(model.state_, [one])) == bits(one)


@each(name=LEARNERS)
def test_shards_that_have_learned_nothing_change_nothing(name):
    model = begun(name)
    idle = [shard(model, i, []) for i in range(3)]
    assert bits(merge_states(model.state_, idle)) == bits(model.state_)


@each(name=LEARNERS)
def test_equal_shards_have_their_own_metric_as_their_mean(name):
    model = begun(name)
    one = shards(model, 1)[0]
    merged = merge_states(model.state_, [one, one.copy(), one.copy()])
    np.testing.assert_array_equal(merged.parameter.metric, one.parameter.metric)
    assert merged.n_rows == 200 + 3 * 60


@each(name=LEARNERS)
def test_the_merged_state_learns_on_and_shares_nothing_with_the_shards(name):
    model = begun(name)
    parts = shards(model)
    before = [bits(one) for one in parts]
    model.state_ = merge_states(model.state_, parts)
    kept = bits(model.state_)
    model.partial_fit(X[400:700], Y[400:700])
    assert np.isfinite(model.metric_).all()
    assert bits(model.state_) != kept
    assert before == [bits(one) for one in parts]
    if name == "ODML":
        values = np.linalg.eigvalsh(model.metric_)
        assert values[0] >= -4 * np.finfo(values.dtype).eps * values[-1]


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(1e-3, 1e6)), min_size=1, max_size=9))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_mean_is_the_weighted_mean_and_lies_between(pairs):
    values, weights = map(list, zip(*pairs, strict=True))
    mean = float(weighted_mean([np.array([one]) for one in values], weights)[0])
    np.testing.assert_allclose(mean, np.average(values, weights=weights), rtol=1e-9, atol=1e-9)
    assert min(values) - 1e-9 <= mean <= max(values) + 1e-9
    same = weighted_mean([np.array([values[0]])] * len(weights), weights)
    assert same[0] == values[0]


def test_a_shard_without_triplets_does_not_pull_at_the_metric():
    model = begun()
    one = shards(model, 1)[0]
    quiet = shard(model, 1, np.arange(5))
    quiet.parameter = model.state_.parameter.copy()
    quiet.n_triplets = model.state_.n_triplets
    merged = merge_states(model.state_, [one, quiet])
    np.testing.assert_array_equal(merged.parameter.L, one.parameter.L)


def test_centres_are_the_means_of_all_rows_behind_them():
    """With the plain hinge every row weighs one, so a centre is the mean of its rows, shards or not.

    The rows of the first batch make the centres and are then learned, so that they count twice.
    """
    model = nearkin.Euclidean(loss="hinge", triplets=OCTG(update_centers=True), scale=None, random_state=0)
    model.partial_fit(X[:200], Y[:200])
    merged = merge_states(model.state_, shards(model)).source
    for label, code in model.state_.labels.codes.items():
        rows, y = np.concatenate([X[:200], X[:380]]), np.concatenate([Y[:200], Y[:380]])
        of_class = rows[y == label].astype(np.float64)
        at = np.flatnonzero(merged.center_codes_ == code)[0]
        np.testing.assert_allclose(merged.centers_[at], of_class.mean(axis=0), rtol=1e-4, atol=1e-5)
        assert merged.center_counts_[at] == pytest.approx(len(of_class))


@pytest.mark.parametrize("source", ["octg", "moving", "one_pass"])
def test_new_classes_are_united_by_label(source):
    model = begun(source=source)
    where = [np.arange(200 + 30 * i, 230 + 30 * i) for i in range(3)]
    labels = [np.where(np.arange(30) < 15, new, Y[rows]) for new, rows in zip((7, 9, 7), where, strict=True)]
    labels[1][:5] = 8
    parts = [shard(model, i, rows, y) for i, (rows, y) in enumerate(zip(where, labels, strict=True))]
    merged = merge_states(model.state_, parts)
    assert list(merged.labels.codes) == [*model.state_.labels.codes, 7, 8, 9]
    assert sorted(merged.labels.codes.values()) == list(range(7))
    code = merged.labels.codes[7]
    if source == "one_pass":
        at = np.flatnonzero(merged.source.registered_ == code)[0]
        np.testing.assert_allclose(
            merged.source.newest_[at], merged.scaled(X[where[2]][14:15])[0], rtol=1e-4, atol=1e-5
        )
        assert merged.source.newest_origin_[at] == 260 + 14
    else:
        assert np.count_nonzero(merged.source.center_codes_ == code) == 1
        assert merged.source.center_counts_[merged.source.center_codes_ == code][0] > 1
    model.state_ = merged
    model.partial_fit(X[300:400], np.where(np.arange(100) < 50, 7, Y[300:400]))
    assert 7 in model.classes_


@pytest.mark.parametrize("name", ["RobustLPAODML", "OKS", "LSMDML"])
def test_what_has_no_mean_is_refused_by_name(name):
    model = getattr(nearkin, name)(random_state=0).partial_fit(X[:100], Y[:100])
    with pytest.raises(ValueError, match=rf"{name}: learning in shards.*RobustLODML"), owned_by(model):
        model.state_.parameter.check_mergeable()


# ---------------------------------------------------------------- long streams: bounded centres, forgetting


def appearing(n=3000, d=4, alive=5, every=100, seed=0):
    """Classes that come and go: class c lives from row 100 c on, five at a time."""
    rng = np.random.default_rng(seed)
    newest = np.arange(n) // every
    y = newest + rng.integers(0, alive, n)
    centers = 3.0 * rng.normal(size=(y.max() + 1, d))
    return centers[y] + 0.5 * rng.normal(size=(n, d)), y


def test_a_bounded_number_of_centres_and_labels_for_endless_new_classes():
    rows, y = appearing()
    free = nearkin.RobustLODML(triplets=OCTG(), random_state=0)
    bound = nearkin.RobustLODML(triplets=OCTG(max_centers=8), random_state=0)
    for at in range(0, len(rows), 50):
        free.partial_fit(rows[at : at + 50], y[at : at + 50])
        bound.partial_fit(rows[at : at + 50], y[at : at + 50])
        assert len(bound.triplet_source_.centers_) <= 8
        assert len(bound.state_.labels.codes) <= 8
        # whatever was used in this batch is still there
        codes = bound.state_.labels.codes
        used = {codes[one] for one in np.unique(y[at + 25 : at + 50]).tolist()}
        assert used <= set(bound.triplet_source_.center_codes_)
    assert len(free.triplet_source_.centers_) == len(np.unique(y))
    assert bound.plausibility(rows[-50:], y[-50:]).shape == (50,)
    with pytest.raises(ValueError, match="not in training"):
        bound.plausibility(rows[:5], y[:5])
    assert len(set(codes.values())) == len(codes)


def test_with_room_for_all_the_bound_changes_nothing():
    rows, y = appearing(600)
    one, other = (nearkin.RobustLODML(triplets=OCTG(max_centers=most), random_state=0) for most in (None, 100))
    for at in range(0, 600, 40):
        for model in (one, other):
            model.partial_fit(rows[at : at + 40], y[at : at + 40])
    np.testing.assert_array_equal(one.components_, other.components_)


@pytest.mark.parametrize("chunk", [7, 50])
def test_the_chunks_do_not_matter_to_bounded_centres(chunk):
    rows, y = appearing(800)
    models = []
    for size in (chunk, 400):
        model = printed(
            nearkin.RobustLODML, triplets=OCTG(max_centers=8, update_centers=True, refresh=5), random_state=0
        )
        model.partial_fit(rows[:50], y[:50])
        for at in range(50, 800, size):
            model.partial_fit(rows[at : at + size], y[at : at + size])
        models.append(model)
    np.testing.assert_allclose(models[0].components_, models[1].components_, atol=1e-9)
    np.testing.assert_allclose(models[0].triplet_source_.centers_, models[1].triplet_source_.centers_, atol=1e-9)


def test_bounded_centres_are_merged_to_the_bound():
    rows, y = appearing(900)
    model = nearkin.RobustLODML(triplets=OCTG(max_centers=8), random_state=0).partial_fit(rows[:100], y[:100])
    parts = []
    for i in range(3):
        one = copy.deepcopy(model)
        one.state_.for_shard(i)
        parts.append(one.partial_fit(rows[100 + 200 * i : 300 + 200 * i], y[100 + 200 * i : 300 + 200 * i]).state_)
    merged = merge_states(model.state_, parts)
    assert len(merged.source.centers_) == 8 == len(merged.labels.codes)
    newest = {merged.labels.codes[one] for one in np.unique(y[690:700]).tolist()}
    assert newest <= set(merged.source.center_codes_.tolist())
    model.state_ = merged
    assert len(model.partial_fit(rows[700:], y[700:]).triplet_source_.centers_) == 8


def test_a_centre_that_forgets_follows_a_class_that_moves():
    rng = np.random.default_rng(0)
    n = 4000
    y = rng.integers(0, 2, n)
    rows = np.column_stack([y + np.linspace(0, 6, n), rng.normal(size=n)]) + 0.1 * rng.normal(size=(n, 2))
    ends = {}
    for memory in (None, 50.0):
        source = OCTG(update_centers=True, forget_after=memory, refresh=1)
        model = nearkin.Euclidean(triplets=source, scale=None, random_state=0)
        for at in range(0, n, 100):
            model.partial_fit(rows[at : at + 100], y[at : at + 100])
        found = model.triplet_source_
        ends[memory] = np.abs(found.centers_[:, 0] - (found.center_codes_ != 0) - 6).max()
        if memory:
            assert found.center_counts_.max() <= memory
    assert ends[50.0] < 1.3 < ends[None]


def test_a_first_batch_with_more_classes_than_centres_is_refused():
    with pytest.raises(ValueError, match="needs 4 centres, more than max_centers=3"):
        nearkin.RobustLODML(triplets=OCTG(max_centers=3)).fit(X, Y)
