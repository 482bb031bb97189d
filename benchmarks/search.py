"""Speed of search: learning from clicks, and what mapping a query adds to a search.

    python -m benchmarks.search [--out FILE]

One thread, one core; seconds of the processor, so that other programs on the machine do not count. Medians.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.machine import describe
from nearkin.search import Feedback, Index, SimilarityAdapter

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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    with threadpool_limits(1):
        facts = {
            "n_features": D,
            "triplets_per_second_by_batch": learning(rng, given.repeats),
            "triplets_formed_per_second": forming(rng, given.repeats),
            "mapping": mapping(rng, given.repeats),
            "machine": describe(),
        }
    print(json.dumps(facts, indent=1))
    if given.out:
        given.out.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
