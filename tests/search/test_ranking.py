"""Ranks and ranking measures, against a literal reading of their definitions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearkin.search import METRICS, Interval, bootstrap, ranking_scores, ranks_of


def literal(relevant, k):
    """Measures of one ranked list of 0 and 1."""
    n = sum(relevant)
    gains = [r / math.log2(i + 2) for i, r in enumerate(relevant[:k])]
    ideal = sum(1 / math.log2(i + 2) for i in range(min(k, n)))
    hits = [i for i, r in enumerate(relevant) if r]
    return {
        "recall": sum(relevant[:k]) / n,
        "precision": sum(relevant[:k]) / k,
        "ndcg": sum(gains) / ideal,
        "map": sum((j + 1) / (i + 1) for j, i in enumerate(hits)) / n,
        "mrr": 1 / (hits[0] + 1),
    }


@given(
    st.lists(st.lists(st.booleans(), min_size=1, max_size=12).filter(any), min_size=1, max_size=4), st.integers(1, 6)
)
def test_measures_are_those_of_the_books(lists, k):
    query = np.concatenate([[number] * sum(one) for number, one in enumerate(lists)])
    ranks = np.concatenate([np.flatnonzero(one) + 1 for one in lists])
    mixed = np.random.default_rng(0).permutation(len(query))  # their order does not matter
    found = ranking_scores(query[mixed], ranks[mixed], k)
    assert set(found) == set(METRICS)
    for number, one in enumerate(lists):
        for name, value in literal([int(r) for r in one], k).items():
            assert found[name][number] == pytest.approx(value)


@pytest.mark.parametrize("n_relevant", [3, 40])  # few are counted, many are sorted
def test_ranks_are_places_in_a_stable_sort(rng, n_relevant):
    queries = rng.integers(-2, 3, size=(5, 3)).astype(float)
    items = rng.integers(-2, 3, size=(60, 3)).astype(float)  # small whole numbers make many ties
    query = np.repeat(np.arange(5), n_relevant)
    item = np.concatenate([rng.permutation(60)[:n_relevant] for _ in range(5)])
    expected = [int(np.flatnonzero(np.argsort(-(items @ queries[q]), kind="stable") == i)[0]) + 1
                for q, i in zip(query, item, strict=True)]  # fmt: skip
    assert ranks_of(queries, items, query, item).tolist() == expected


def test_ranks_do_not_depend_on_the_size_of_blocks(rng, monkeypatch):
    queries, items = rng.normal(size=(7, 4)), rng.normal(size=(30, 4))
    query, item = rng.integers(0, 7, 50), rng.integers(0, 30, 50)
    at_once = ranks_of(queries, items, query, item)
    monkeypatch.setattr("nearkin.search.ranking._TABLE", 31)
    assert (ranks_of(queries, items, query, item) == at_once).all()


def test_an_interval_holds_the_true_mean_about_as_often_as_it_says(rng):
    held = 0
    for _ in range(200):
        found = bootstrap(rng.normal(loc=0.3, size=60), rng)
        held += found.low <= 0.3 <= found.high
    assert 0.88 <= held / 200 <= 0.99


def test_few_equal_scores_do_not_look_certain(rng):
    assert bootstrap(np.ones(5), rng, (0.0, 1.0)).low == pytest.approx(0.025 ** (1 / 5), abs=0.03)
    held = [bootstrap(rng.random(8) < 0.9, rng, (0.0, 1.0)) for _ in range(200)]
    assert np.mean([one.low <= 0.9 <= one.high for one in held]) > 0.93


def test_an_interval_is_shown_as_mean_and_ends():
    assert str(Interval(-0.0123, -0.05, 0.02)) == "-0.012 [-0.050, 0.020]"
