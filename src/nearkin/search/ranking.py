"""How good a ranking is: ranks of the relevant items, scores of every query, and how sure their mean is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["METRICS", "Interval", "bootstrap", "ranking_scores", "ranks_of"]

Array = NDArray[np.floating]
Index = NDArray[np.int64]

#: Names of what `ranking_scores` gives; the first four depend on how many results are looked at.
METRICS = ("recall", "precision", "ndcg", "map", "mrr")

#: Most scores held at once.
_TABLE = 1 << 22
#: Items of one query whose ranks are counted one by one.
_FEW = 8
#: Draws of the bootstrap.
_DRAWS = 2000


def ranks_of(queries: Array, items: Array, query: Index, item: Index) -> Index:
    """Rank (from 1) of item ``item[i]`` when all items are sorted by their inner product with query ``query[i]``.

    Among equal scores the item that stands first in ``items`` comes first. Memory is bounded: scores are made for a
    block of queries at a time and only counted.

    Parameters
    ----------
    queries : ndarray of shape (n_queries, n_features)
        Mapped queries.
    items : ndarray of shape (n_items, n_features)
        Items.
    query, item : ndarray of int64 of shape (n_pairs,)
        Pairs to be ranked.

    Returns
    -------
    ndarray of int64 of shape (n_pairs,)
        Ranks.

    Examples
    --------
    >>> items = np.array([[1.0], [3.0], [2.0]])
    >>> ranks_of(np.array([[1.0]]), items, np.array([0, 0]), np.array([1, 0])).tolist()
    [1, 3]
    """
    ranks = np.empty(len(query), dtype=np.int64)
    order = np.argsort(query, kind="stable")
    sorted_query = query[order]
    step = max(1, _TABLE // max(1, len(items)))
    asked = np.unique(query)
    for start in range(0, len(asked), step):
        here = asked[start : start + step]
        scores = queries[here] @ items.T
        first, last = np.searchsorted(sorted_query, here, "left"), np.searchsorted(sorted_query, here, "right")
        for row, (low, high) in enumerate(zip(first, last, strict=True)):
            pairs = order[low:high]
            ranks[pairs] = _ranks(scores[row], item[pairs])
    return ranks


def _ranks(scores: Array, wanted: Index) -> Index:
    """Ranks of a few among all scores of one query."""
    own = scores[wanted]
    if len(wanted) <= _FEW:  # to count is cheaper than to sort
        above = [np.count_nonzero(scores > one) for one in own]
        equal = [np.count_nonzero(scores[:at] == one) for at, one in zip(wanted, own, strict=True)]
        return np.array(above, dtype=np.int64) + np.array(equal, dtype=np.int64) + 1
    rank = np.empty(len(scores), dtype=np.int64)
    rank[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return rank[wanted]


def ranking_scores(query: Index, ranks: Index, k: int) -> dict[str, Array]:
    """Scores of every query from the ranks of its relevant items.

    Parameters
    ----------
    query : ndarray of int64 of shape (n_pairs,)
        Number of the query of each relevant item.
    ranks : ndarray of int64 of shape (n_pairs,)
        Rank of the item, from 1.
    k : int
        Results that are looked at by recall, precision and nDCG; MAP and MRR look at all.

    Returns
    -------
    dict of str to ndarray of shape (n_queries_with_relevant_items,)
        Under the names `METRICS`, queries in rising order.

    Examples
    --------
    >>> found = ranking_scores(np.array([0, 0]), np.array([1, 4]), k=2)
    >>> {name: round(float(value[0]), 3) for name, value in found.items()}
    {'recall': 0.5, 'precision': 0.5, 'ndcg': 0.613, 'map': 0.75, 'mrr': 1.0}
    """
    order = np.lexsort((ranks, query))
    query, ranks = query[order], ranks[order]
    _, start, count = np.unique(query, return_index=True, return_counts=True)
    place = np.arange(len(query)) - np.repeat(start, count) + 1  # 1 for the best ranked relevant item of its query
    inside = ranks <= k
    ideal = np.cumsum(1.0 / np.log2(1.0 + np.arange(1, k + 1)))

    def total(values: NDArray[Any]) -> Array:
        return np.add.reduceat(values.astype(np.float64), start) if len(start) else np.empty(0)

    hits = total(inside)
    return {
        "recall": hits / count,
        "precision": hits / k,
        "ndcg": total(np.where(inside, 1.0 / np.log2(1.0 + ranks), 0.0)) / ideal[np.minimum(count, k) - 1],
        "map": total(place / ranks) / count,
        "mrr": 1.0 / ranks[start],
    }


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % bootstrap interval.

    Parameters
    ----------
    mean, low, high : float
        The mean of all values, and the 2.5 and 97.5 % points of the means of resampled ones.

    Examples
    --------
    >>> str(Interval(0.5, 0.4, 0.6))
    '0.500 [0.400, 0.600]'
    """

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def bootstrap(values: Array, rng: np.random.Generator) -> Interval:
    """Interval of a mean over queries; queries are drawn, so that several clicks of one query count once.

    Parameters
    ----------
    values : ndarray of shape (n_queries,)
        One number per query, such as a score or the difference of two.
    rng : numpy.random.Generator
        Draws them again, 2,000 times.

    Returns
    -------
    Interval
        Mean, and the middle 95 % of the means drawn.

    Examples
    --------
    >>> found = bootstrap(np.array([0.0, 1.0, 1.0, 1.0]), np.random.default_rng(0))
    >>> found.mean, found.low < 0.75 < found.high
    (0.75, True)
    """
    n = len(values)
    means = np.empty(_DRAWS)
    step = max(1, _TABLE // n)
    for start in range(0, _DRAWS, step):
        part = slice(start, min(_DRAWS, start + step))
        means[part] = values[rng.integers(0, n, size=(part.stop - part.start, n))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return Interval(float(values.mean()), float(low), float(high))
