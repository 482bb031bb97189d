"""Speed of search: learning from clicks, and what mapping a query adds to a search.

    python -m benchmarks.search [--out FILE]

One thread, one core; seconds of the processor, so that other programs on the machine do not count. Medians.
"""

import argparse
import json
import statistics
import time
from functools import partial
from pathlib import Path

import numpy as np
from scipy.linalg import expm
from threadpoolctl import threadpool_limits

from benchmarks.machine import describe
from nearkin.search import Feedback, Index, SimilarityAdapter, adapt, ranking_scores, ranks_of

D = 384


def seconds(call, repeats):
    found = []
    for _ in range(repeats):
        begun = time.process_time()
        call()
        found.append(time.process_time() - begun)
    return statistics.median(found)


def unit(rng, n):
    rows = rng.normal(size=(n, D)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def learning(rng, repeats):
    """Triplets per second of `partial_fit`, vectors in memory; all steps, the check of every batch included."""
    n = 20_000
    q, p, s = unit(rng, n), unit(rng, n), unit(rng, n)
    adapter = SimilarityAdapter().fit(q[:4096], p[:4096], s[:4096])  # compiled and begun
    found = {}
    for batch in (512, 2048, 20_000):

        def run(batch=batch):
            for start in range(0, n, batch):
                part = slice(start, start + batch)
                adapter.partial_fit(q[part], p[part], s[part])

        found[str(batch)] = n / seconds(run, repeats)
    return found


def forming(rng, repeats):
    """Triplets per second that are formed from impressions of ten with two clicks."""
    n = 20_000
    shown, query = np.repeat(np.arange(n), 10), np.repeat(rng.integers(0, 5000, n), 10)
    item = np.concatenate([rng.permutation(1000)[:10] for _ in range(n)])
    clicked = np.tile(np.arange(10) % 5 == 2, n)
    feedback = Feedback.from_impressions(shown, query, item, clicked, query_ids=5000, item_ids=1000)
    made = len(feedback.triplets(np.random.default_rng(0)).query)
    return made / seconds(lambda: feedback.triplets(np.random.default_rng(0)), repeats)


def mapping(rng, repeats):
    """What the map adds to an exact search among 100,000 items, in percent."""
    items = unit(rng, 100_000)
    adapter = SimilarityAdapter().fit(unit(rng, 4096), unit(rng, 4096), unit(rng, 4096))
    adapter.set_strength(0.5, adapter.gain_)
    plain = Index(engine="exact").fit(items)
    found = {}
    for n in (1, 16, 256):
        queries = unit(rng, n)
        searched = seconds(lambda queries=queries: plain.query(queries, 10), repeats)
        inner = max(1, 2000 // n)
        mapped = seconds(lambda q=queries, k=inner: [adapter.map_queries(q) for _ in range(k)], repeats) / inner
        found[str(n)] = {"search_ms": 1e3 * searched, "map_ms": 1e3 * mapped, "percent": 100 * mapped / searched}
    return found


def one_query(rng, repeats):
    """Mapping one query beside the bare product of its matrix and the vector, in turns; microseconds."""
    found = {}
    for d in (128, 384, 768):
        q, p, s = rng.normal(size=(3, 256, d)).astype(np.float32)
        adapter = SimilarityAdapter().fit(q, p, s).set_strength(0.5)
        calls = partial(np.matmul, adapter.query_map_, q[0]), partial(adapter.map_queries, q[:1])
        inner = 400_000 // d
        turns = [[seconds(partial(repeat, call, inner), 1) for call in calls] for _ in range(4 * repeats + 1)]
        product, mapped = (1e6 * statistics.median(one) / inner for one in zip(*turns, strict=True))
        found[str(d)] = {"product_us": product, "map_us": mapped, "times": mapped / product}
    return found


def repeat(call, times):
    for _ in range(times):
        call()


def world(rng, common, turned, d=64, n_topics=40):
    """Queries and items of the same topics, in one basis or turned against each other, with a part that all share."""
    topics, shared = rng.normal(size=(n_topics, d)), common * rng.normal(size=d)
    of_query, of_item = rng.integers(0, n_topics, 600), rng.integers(0, n_topics, 2000)
    tilt = rng.normal(size=(d, d))
    turn = expm(0.12 * (tilt - tilt.T)) if turned else np.eye(d)
    queries = topics[of_query] @ turn + rng.normal(size=(600, d)) + shared
    items = topics[of_item] + rng.normal(size=(2000, d)) + shared
    queries, items = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (queries, items))
    return queries.astype(np.float32), items.astype(np.float32), of_query[:, None] == of_item[None, :]


def harm(wrong, seeds):
    """True change of nDCG@10 over all items after `adapt`, when a share of the clicks is wrong; worst case first."""
    changes = []
    for common in (0.0, 1.0, 3.0):
        for turned in (False, True):
            for seed in range(seeds):
                rng = np.random.default_rng(seed)
                queries, items, relevant = world(rng, common, turned)
                first = np.argsort(-(queries @ items.T), axis=1)[:, :50]
                q = rng.integers(0, 600, 8000)
                places = np.where(rng.random((8000, 2)) < 0.7, first[q[:, None], rng.integers(0, 50, (8000, 2))],
                                  rng.integers(0, 2000, (8000, 2)))  # fmt: skip
                good = relevant[q[:, None], places]
                kept = good[:, 0] != good[:, 1]
                q, places, good = q[kept], places[kept], good[kept]
                click = np.where(good[:, 0] ^ (rng.random(len(q)) < wrong), 0, 1)
                at = np.arange(len(q))
                feedback = Feedback.from_triplets(
                    q, places[at, click], places[at, 1 - click], query_ids=600, item_ids=2000
                )
                result = adapt(queries, items, feedback, random_state=seed)
                pair = np.nonzero(relevant)
                before, after = (
                    ranking_scores(pair[0], ranks_of(one, items, *pair), 10)["ndcg"].mean()
                    for one in (queries, result.adapter.map_queries(queries))
                )
                changes.append({"common": common, "turned": turned, "seed": seed, "kept_identity": result.kept_identity,
                                "before": float(before), "change": float(after - before)})  # fmt: skip
    return sorted(changes, key=lambda one: one["change"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    with threadpool_limits(1):
        facts = {
            "n_features": D,
            "triplets_per_second_by_batch": learning(rng, given.repeats),
            "triplets_formed_per_second": forming(rng, given.repeats),
            "mapping": mapping(rng, given.repeats),
            "one_query": one_query(rng, given.repeats),
            "change_with_40_percent_wrong_clicks": harm(0.4, given.seeds),
            "machine": describe(),
        }
    print(json.dumps(facts, indent=1))
    if given.out:
        given.out.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
