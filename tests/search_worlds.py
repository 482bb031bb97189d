"""Small worlds in which the truth is known and clicks are drawn."""

import numpy as np
from scipy.linalg import expm

from nearkin.search import Feedback


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def turned(rng, *, n_queries=300, n_items=600, n_topics=20, d=24, common=0.0):
    """Make queries of the same topics as the items, but from another encoder; ``common`` is a part that all share."""
    topics = unit(rng.normal(size=(n_topics, d)))
    tilt = rng.normal(size=(d, d))
    turn = expm(0.18 * (tilt - tilt.T))
    of_item, of_query = rng.integers(0, n_topics, n_items), rng.integers(0, n_topics, n_queries)
    shared = common * unit(rng.normal(size=(1, d)))
    items = unit(topics[of_item] + 0.12 * rng.normal(size=(n_items, d)) + shared)
    queries = unit(topics[of_query] @ turn + 0.12 * rng.normal(size=(n_queries, d)) + shared)
    return queries.astype(np.float32), items.astype(np.float32), of_query[:, None] == of_item[None, :]


def aligned(rng, *, n_queries=300, n_items=600, d=24, n_relevant=12):
    """Make a world whose index is right as it is: there is nothing to gain."""
    queries, items = unit(rng.normal(size=(n_queries, d))), unit(rng.normal(size=(n_items, d)))
    scores = queries @ items.T
    relevant = scores >= np.sort(scores, axis=1)[:, -n_relevant][:, None]
    return queries.astype(np.float32), items.astype(np.float32), relevant


def clicks(rng, relevant, n, wrong):
    """Draw triplets of row numbers; a share has its two items exchanged."""
    query = rng.integers(0, len(relevant), n)
    clicked = np.array([rng.choice(np.flatnonzero(relevant[q])) for q in query])
    skipped = np.array([rng.choice(np.flatnonzero(~relevant[q])) for q in query])
    swap = rng.random(n) < wrong
    clicked[swap], skipped[swap] = skipped[swap], clicked[swap].copy()
    return query, clicked, skipped, swap


def as_feedback(relevant, query, clicked, skipped):
    return Feedback.from_triplets(query, clicked, skipped, query_ids=len(relevant), item_ids=relevant.shape[1])


def mean_average_precision(queries, items, relevant):
    """Compute it as textbooks define it."""
    found = []
    for q, wanted in zip(queries, relevant, strict=True):
        hits = wanted[np.argsort(-(items @ q), kind="stable")]
        found.append((np.cumsum(hits) / np.arange(1, len(hits) + 1))[hits].mean())
    return float(np.mean(found))
