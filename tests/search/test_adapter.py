"""The adapter: its map, what it learns, and that it does no harm."""

import numpy as np
import pytest

import nearkin
from nearkin.search import Interval, SimilarityAdapter
from search_worlds import aligned, clicks, mean_average_precision, turned, unit


def learned(queries, items, triplets, batch=500, **parameters):
    adapter = SimilarityAdapter(**parameters)
    query, clicked, skipped = triplets[:3]
    for start in range(0, len(query), batch):
        part = slice(start, start + batch)
        adapter.partial_fit(queries[query[part]], items[clicked[part]], items[skipped[part]])
    return adapter


def test_mapped_queries_rank_unchanged_items_better(rng):
    queries, items, relevant = turned(rng)
    adapter = learned(queries, items, clicks(rng, relevant, 6000, 0.0))
    before = mean_average_precision(queries, items, relevant)
    assert not adapter.kept_identity_ and adapter.gain_.low > 0
    assert mean_average_precision(adapter.map_queries(queries), items, relevant) > before + 0.2
    assert adapter.map_items(items) is items


@pytest.mark.parametrize("common", [0.0, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_with_two_clicks_in_five_wrong_it_does_not_end_below_the_identity(seed, common):
    rng = np.random.default_rng(seed)
    queries, items, relevant = turned(rng, common=common)
    adapter = learned(queries, items, clicks(rng, relevant, 6000, 0.4))
    before = mean_average_precision(queries, items, relevant)
    assert mean_average_precision(adapter.map_queries(queries), items, relevant) >= before


@pytest.mark.parametrize("wrong", [0.0, 0.4])
@pytest.mark.parametrize("seed", range(3))
def test_where_nothing_can_be_gained_the_identity_is_kept(seed, wrong):
    rng = np.random.default_rng(seed)
    queries, items, relevant = aligned(rng)
    adapter = learned(queries, items, clicks(rng, relevant, 6000, wrong))
    assert adapter.kept_identity_ and adapter.strength_ == 0
    np.testing.assert_array_equal(adapter.map_queries(queries), queries)
    np.testing.assert_array_equal(adapter.query_map_, np.eye(queries.shape[1]))
    assert not adapter.query_offset_.any()


def test_clicks_that_say_nothing_leave_the_identity(rng):
    queries, items = unit(rng.normal(size=(100, 16))), unit(rng.normal(size=(300, 16)))
    pick = (rng.integers(0, 100, 4000), rng.integers(0, 300, 4000), rng.integers(0, 300, 4000))
    assert learned(queries, items, pick).kept_identity_


def test_the_robust_loss_finds_the_wrong_clicks_and_the_plain_hinge_trusts_all(rng):
    queries, items, relevant = turned(rng)
    query, clicked, skipped, swap = clicks(rng, relevant, 8000, 0.2)
    adapter = learned(queries, items, (query, clicked, skipped), batch=8000)
    late = slice(4000, None)
    assert adapter.plausibility_[late][swap[late]].mean() < 0.7 * adapter.plausibility_[late][~swap[late]].mean()
    plain = learned(queries, items, (query, clicked, skipped), batch=8000, loss="hinge")
    assert (plain.plausibility_ == 1).all()


def test_the_map_is_the_formula(rng):
    queries, items, relevant = turned(rng, common=1.0)
    adapter = learned(queries, items, clicks(rng, relevant, 2000, 0.0))
    adapter.set_strength(0.4, Interval(0.1, 0.05, 0.2))
    M, mean = adapter.similarity_.metric_.astype(float), adapter.query_mean_.astype(float)
    expected = queries + 0.4 * (queries - mean) @ (M - np.eye(len(M)))
    np.testing.assert_allclose(adapter.map_queries(queries), expected, rtol=1e-4, atol=1e-5)
    by_hand = queries @ adapter.query_map_.T + adapter.query_offset_
    np.testing.assert_allclose(adapter.map_queries(queries), by_hand, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(adapter.transform(queries), adapter.map_queries(queries))


def test_m_is_what_robust_oasis_learns_from_shifted_queries(rng):
    queries, items, relevant = turned(rng)
    query, clicked, skipped, _ = clicks(rng, relevant, 1500, 0.1)
    q, p, n = (one.astype(np.float64) for one in (queries[query], items[clicked], items[skipped]))
    adapter = SimilarityAdapter().fit(q, p, n)
    mean = q.sum(axis=0) / (len(q) + 10)
    x = (q - mean) / np.sqrt(((q - mean) ** 2).sum(axis=1).mean())
    scale = np.sqrt(((p - n) ** 2).sum(axis=1).mean() / 2)
    twin = nearkin.RobustOASIS(0.1, eta=0.5, scale=None).fit_triplets(x, p / scale, n / scale)
    np.testing.assert_allclose(adapter.similarity_.metric_, twin.metric_, atol=1e-10)
    np.testing.assert_allclose(adapter.plausibility_, twin.plausibility_, atol=1e-10)


def test_after_the_first_batch_chunks_do_not_matter(rng):
    queries, items, relevant = turned(rng)
    query, clicked, skipped, _ = clicks(rng, relevant, 3000, 0.1)
    made = []
    for batch in (250, 2750):
        adapter = SimilarityAdapter()
        for part in (slice(0, 250), *(slice(s, s + batch) for s in range(250, 3000, batch))):
            adapter.partial_fit(queries[query[part]], items[clicked[part]], items[skipped[part]])
        made.append(adapter.similarity_.metric_)
    np.testing.assert_allclose(made[0], made[1], atol=1e-4)


def test_a_given_strength_is_used_or_the_identity(rng):
    queries, items, relevant = turned(rng)
    adapter = learned(queries, items, clicks(rng, relevant, 4000, 0.0), strength=0.25)
    assert adapter.strength_ == 0.25
    assert learned(queries, items, clicks(rng, relevant, 4000, 0.0), strength=0.0).kept_identity_


def test_float32_stays_float32_and_other_numbers_become_it(rng):
    queries, items, relevant = turned(rng)
    adapter = learned(queries, items, clicks(rng, relevant, 2000, 0.0))
    assert adapter.map_queries(queries).dtype == np.float32
    assert adapter.map_queries(queries.astype(np.float64)).dtype == np.float32
    assert adapter.map_queries(queries.astype(np.float16)).dtype == np.float32


def test_fit_forgets(rng):
    queries, items, relevant = turned(rng)
    query, clicked, skipped, _ = clicks(rng, relevant, 1000, 0.0)
    triplets = queries[query], items[clicked], items[skipped]
    once, twice = SimilarityAdapter().fit(*triplets), SimilarityAdapter().fit(*triplets).fit(*triplets)
    np.testing.assert_array_equal(once.similarity_.metric_, twice.similarity_.metric_)
    assert twice.n_triplets_seen_ == 1000


def test_a_loaded_adapter_equals_the_saved_one_and_learns_on(rng, tmp_path):
    queries, items, relevant = turned(rng)
    query, clicked, skipped, _ = clicks(rng, relevant, 3000, 0.1)
    adapter = learned(queries, items, (query, clicked, skipped))
    nearkin.save(adapter, tmp_path / "a.nearkin")
    loaded = nearkin.load(tmp_path / "a.nearkin")
    np.testing.assert_array_equal(loaded.map_queries(queries), adapter.map_queries(queries))
    assert loaded.gain_ == adapter.gain_ and loaded.kept_identity_ == adapter.kept_identity_
    more = queries[query[:400]], items[clicked[:400]], items[skipped[:400]]
    np.testing.assert_array_equal(
        loaded.partial_fit(*more).map_queries(queries), adapter.partial_fit(*more).map_queries(queries)
    )


def state_of(adapter):
    return adapter.similarity_.metric_.copy(), adapter.n_triplets_seen_, adapter.strength_, len(adapter._votes)


BAD = {
    "width": (lambda q, p, n: (q, p[:, :-1], n), "clicked: vectors have 23 features, but 24 are expected"),
    "rows": (lambda q, p, n: (q, p[:-1], n), "equally many rows; got"),
    "none": (lambda q, p, n: (q[:0], p[:0], n[:0]), "there are no triplets"),
    "zero": (lambda q, p, n: (q, np.where(np.arange(len(p))[:, None] == 7, 0, p), n), "row 7 of clicked is a zero"),
    "nan": (lambda q, p, n: (q, p, np.where(np.arange(len(n))[:, None] == 3, np.nan, n)), "skipped: row 3 holds nan"),
    "text": (lambda q, p, n: (q.astype(str), p, n), "queries: vectors must be numbers"),
    "one": (lambda q, p, n: (q[0], p[0], n[0]), r"pass \[vector\]"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("begun", [False, True])
def test_a_bad_batch_is_named_and_changes_nothing(rng, case, begun):
    queries, items, relevant = turned(rng)
    query, clicked, skipped, _ = clicks(rng, relevant, 600, 0.0)
    good = queries[query], items[clicked], items[skipped]
    spoil, message = BAD[case]
    adapter = SimilarityAdapter()
    if begun:
        adapter.partial_fit(*good)
        before = state_of(adapter)
    with pytest.raises(ValueError, match=message):
        adapter.partial_fit(*spoil(*good))
    if not begun:
        assert not hasattr(adapter, "similarity_")
        return
    after = state_of(adapter)
    np.testing.assert_array_equal(after[0], before[0])
    assert after[1:] == before[1:]


def test_zero_vectors_are_left_out_and_counted_on_request(rng):
    queries, items, relevant = turned(rng)
    query, clicked, skipped, _ = clicks(rng, relevant, 600, 0.0)
    q, p, n = queries[query], items[clicked], items[skipped]
    q[5], n[9] = 0, 0
    adapter = SimilarityAdapter(bad="skip").fit(q, p, n)
    whole = np.ones(600, dtype=bool)
    whole[[5, 9]] = False
    twin = SimilarityAdapter().fit(q[whole], p[whole], n[whole])
    assert adapter.n_skipped_ == 2 and adapter.n_triplets_seen_ == 598
    np.testing.assert_allclose(adapter.similarity_.metric_, twin.similarity_.metric_, atol=1e-5)
    with pytest.raises(ValueError, match="all 1 triplets hold a zero vector"):
        SimilarityAdapter(bad="skip").fit(q[5:6], p[5:6], n[5:6])


@pytest.mark.parametrize(
    "parameter, value", [("C", -1), ("eta", np.inf), ("strength", 2), ("bad", "drop"), ("loss", "l2")]
)
def test_parameters_are_checked(parameter, value):
    with pytest.raises(ValueError, match=f"SimilarityAdapter: parameter `{parameter}` must be"):
        SimilarityAdapter(**{parameter: value}).fit([[1.0]], [[1.0]], [[2.0]])


def test_one_triplet_is_enough_to_begin():
    adapter = SimilarityAdapter().fit([[1.0, 0.0]], [[0.0, 1.0]], [[1.0, 0.0]])
    assert adapter.kept_identity_ and np.isfinite(adapter.similarity_.metric_).all()


def test_vectors_of_any_length_teach_the_same(rng):
    queries, items, relevant = turned(rng)
    triplets = clicks(rng, relevant, 2000, 0.1)
    small = learned(queries.astype(float), items.astype(float), triplets)
    large = learned(1e3 * queries.astype(float), 1e-4 * items.astype(float), triplets)
    np.testing.assert_allclose(small.similarity_.metric_, large.similarity_.metric_, atol=1e-6)
    assert small.strength_ == large.strength_
