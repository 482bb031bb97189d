"""How good a ranking is: ranks of relevant items, measures of every query, and intervals of their means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array, Index
from nearkin.stored import stored

__all__ = ["METRICS", "Interval", "bootstrap", "ranking_scores", "ranks_of"]

#: Names of the measures; MAP and MRR look at all results, the others at the first k.
METRICS = ("recall", "precision", "ndcg", "map", "mrr")

#: Most scores held at once.
_TABLE = 1 << 22
#: Most items of a query whose ranks are counted one by one, which is then cheaper than sorting.
_FEW = 8
#: Resamples of the bootstrap.
_DRAWS = 2000


def ranks_of(queries: Array, items: Array, query: Index, item: Index) -> Index:
    """Rank items (from 1) among all items, sorted by their inner product with a query.

    Among equal scores the item that stands first in ``items`` comes first. Queries are scored in blocks, in bounded
    memory.

    Parameters
    ----------
    queries : ndarray of shape (n_queries, n_features)
        Mapped queries.
    items : ndarray of shape (n_items, n_features)
        Items.
    query, item : ndarray of int64 of shape (n_pairs,)
        Pairs of a query and an item, by row number.

    Returns
    -------
    ndarray of int64 of shape (n_pairs,)
        Rank of ``item[i]`` for ``query[i]``.

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
    different = np.unique(query)
    for start in range(0, len(different), step):
        here = different[start : start + step]
        scores = queries[here] @ items.T
        first, last = np.searchsorted(sorted_query, here, "left"), np.searchsorted(sorted_query, here, "right")
        for row, (low, high) in enumerate(zip(first, last, strict=True)):
            pairs = order[low:high]
            ranks[pairs] = _rank(scores[row], item[pairs])
    return ranks


def _rank(scores: Array, wanted: Index) -> Index:
    """Rank a few items among all scores of one query."""
    own = scores[wanted]
    if len(wanted) <= _FEW:
        above = [np.count_nonzero(scores > one) for one in own]
        equal = [np.count_nonzero(scores[:at] == one) for at, one in zip(wanted, own, strict=True)]
        return np.array(above, dtype=np.int64) + np.array(equal, dtype=np.int64) + 1
    rank = np.empty(len(scores), dtype=np.int64)
    rank[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return rank[wanted]


def ranking_scores(query: Index, ranks: Index, k: int) -> dict[str, Array]:
    """Compute the measures of every query from the ranks of its relevant items.

    Parameters
    ----------
    query : ndarray of int64 of shape (n_pairs,)
        Query of each relevant item, by number.
    ranks : ndarray of int64 of shape (n_pairs,)
        Rank of the item, from 1.
    k : int
        Results that recall, precision and nDCG look at; MAP and MRR look at all.

    Returns
    -------
    dict of str to ndarray of shape (n_queries_with_relevant_items,)
        By the names of `METRICS`, queries in rising order.

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


@stored()
@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % bootstrap interval.

    Parameters
    ----------
    mean, low, high : float
        The mean, and the 2.5 and 97.5 % points of the means of resampled values.

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
    """Compute the interval of a mean by resampling queries, so that many clicks of one query count once.

    Parameters
    ----------
    values : ndarray of shape (n_queries,)
        One number per query, such as a score or the difference of two.
    rng : numpy.random.Generator
        Draws 2,000 resamples.

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
