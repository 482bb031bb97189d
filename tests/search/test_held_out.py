"""Queries that test never teach, on any day."""

import hashlib
import struct

import numpy as np
import pytest

import nearkin
from nearkin.search import Feedback, HeldOut, SimilarityAdapter, adapt, hash_rows
from nearkin.search.held_out import Judge
from search_worlds import aligned, as_feedback, clicks, turned


def test_a_hash_depends_on_the_vector_alone(rng):
    X = rng.normal(size=(50, 4))
    key = hash_rows(X)
    np.testing.assert_array_equal(hash_rows(X[::-1].astype(np.float32)), key[::-1])
    assert len(set(key.tolist())) == 50
    digest = hashlib.blake2b(struct.pack("<2f", 1.0, 2.0), digest_size=8).digest()
    literal = struct.unpack("<Q", digest)[0] >> 1
    assert hash_rows(np.array([[1.0, 2.0]])).tolist() == [literal] == [3686967136066439173]  # on every machine


def day(rng, world, n=1500, wrong=0.1):
    relevant = world[2]
    return as_feedback(relevant, *clicks(rng, relevant, n, wrong)[:3])


def test_what_held_out_queries_clicked_changes_no_map_on_any_day(rng):
    """The same days with other clicks of the held-out queries teach the same."""
    world = queries, items, _ = turned(rng)
    days = [day(rng, world) for _ in range(2)]
    learns = HeldOut.empty(24, np.float32, 0.2).learns(queries)
    made = []
    for shift in (0, 7):
        adapter = SimilarityAdapter()
        for one in days:
            held = ~learns[one.row_query]
            item = np.where(held, (one.item + shift) % one.n_items, one.item)
            changed = Feedback(one.query, one.start, item, one.relevant, one.form, one.n_items)
            adapt(queries, items, changed, adapter=adapter, random_state=0)
        triplets = days[0].triplets(np.random.default_rng(0))
        adapter.partial_fit(queries[triplets.query], items[triplets.positive], items[triplets.negative])
        made.append(adapter)
    np.testing.assert_array_equal(made[0].softmax_, made[1].softmax_)
    np.testing.assert_array_equal(made[0].similarity_.metric_, made[1].similarity_.metric_)
    assert made[0].n_skipped_ > 0
    assert not learns[np.isin(hash_rows(queries), made[0].held_out_.key)].any()


def test_the_pool_adds_up_over_days_and_survives_a_file_and_another_order_of_items(rng, tmp_path):
    world = queries, items, _ = turned(rng)
    first, second = day(rng, world), day(rng, world)
    adapter = adapt(queries, items, first, random_state=0).adapter
    n_first = adapter.held_out_.clicks.sum()
    nearkin.save(adapter, tmp_path / "a.nearkin")
    adapter = nearkin.load(tmp_path / "a.nearkin")
    order = rng.permutation(len(items))
    place = np.argsort(order)
    moved = Feedback(second.query, second.start, place[second.item], second.relevant, second.form, second.n_items)
    result = adapt(queries, items[order], moved, adapter=adapter, random_state=0)
    pool = result.adapter.held_out_
    learns = pool.learns(queries)
    expected = sum((one.relevant & ~learns[one.row_query]).sum() for one in (first, second))
    assert n_first < pool.clicks.sum() == expected
    assert pool.n_looks == 2 and len(set(pool.key.tolist())) == len(pool.key)


def test_the_pool_is_bounded_and_keeps_the_newest(rng):
    world = queries, items, _ = turned(rng)
    result = adapt(queries, items, day(rng, world), max_evaluated=20, random_state=0)
    assert len(result.adapter.held_out_.key) == 30


def test_another_share_on_a_later_day_is_refused(rng):
    world = queries, items, _ = turned(rng)
    adapter = adapt(queries, items, day(rng, world), random_state=0).adapter
    with pytest.raises(ValueError, match=r"holds out 0\.2 of the queries since its first day"):
        adapt(queries, items, day(rng, world), adapter=adapter, holdout=0.3)


def test_a_map_is_taken_back_in_one_call(rng):
    world = queries, items, _ = turned(rng, n_queries=800)
    adapter = adapt(queries, items, day(rng, world, 4000, 0.0), random_state=0).adapter
    assert not adapter.kept_identity_
    gain = adapter.gain_
    np.testing.assert_array_equal(adapter.set_strength(0.0).map_queries(queries), queries)
    assert adapter.kept_identity_ and adapter.gain_ == gain


def literal_comparison(result, clicks, exposure, items, k):
    """Lift and alike of one ranking, click by click; ``clicks`` and ``exposure`` are by item."""
    shape = items - items.mean(axis=0)
    weights = [1 / np.log2(2 + place) for place in range(k)]
    lift = near = 0.0
    for j in exposure:
        others = [i for i in result if i != j][:k]
        alike = sum(
            w * shape[i] @ shape[j] / np.linalg.norm(shape[i]) / np.linalg.norm(shape[j])
            for w, i in zip(weights, others, strict=True)
        )
        own = sum(w for w, i in zip(weights, result[:k], strict=True) if i == j)
        lift += alike * (clicks[j] - exposure[j]) + 0.25 * own * (clicks[j] - 0.8 * exposure[j])
        near += alike * (clicks[j] - 0.5 * exposure[j])
    return lift / sum(weights) / sum(clicks.values()), near / sum(weights) / sum(clicks.values())


def test_lift_and_alike_are_those_of_single_clicks(rng):
    items, queries = rng.normal(size=(40, 6)), rng.normal(size=(3, 6))
    query, item = np.repeat(np.arange(3), 8), np.concatenate([rng.permutation(40)[:8] for _ in range(3)])
    clicks = rng.integers(0, 4, 24).astype(float)
    clicks[::8] = 5.0
    exposure = np.concatenate([np.full(8, one.sum() / 8) for one in np.split(clicks, 3)])
    key = hash_rows(items)
    order = np.lexsort([key[item], query])
    pool = HeldOut(hash_rows(queries), queries, query[order], key[item][order], clicks[order], exposure[order], 0.2)
    found = Judge(pool, np.ones(3, dtype=bool), items, key).measure(queries, 4, "lift")
    for q in range(3):
        mine = slice(8 * q, 8 * q + 8)
        result = np.argsort(-items @ queries[q]).tolist()
        by_item = (dict(zip(item[mine].tolist(), one[mine].tolist(), strict=True)) for one in (clicks, exposure))
        expected = literal_comparison(result, *by_item, items, 4)
        assert (found["lift"][q], found["alike"][q]) == pytest.approx(expected)


def test_results_away_from_all_that_was_shown_are_not_adopted(rng):
    """Wrong feedback that the map fits: clicks on what is least like the rest of the list."""
    queries, items, _ = aligned(rng, n_queries=400)
    shown = np.argsort(-queries @ items.T, axis=1)[:, :6]
    query = np.repeat(np.arange(400), 4)
    feedback = Feedback.from_impressions(
        np.repeat(np.arange(1600), 6), np.repeat(query, 6), shown[query].ravel(), np.tile(np.arange(6) == 5, 1600),
        query_ids=400, item_ids=len(items),
    )  # fmt: skip
    assert adapt(queries, items, feedback, random_state=0).kept_identity
