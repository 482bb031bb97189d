"""How good a ranking is: ranks of relevant items, measures of every query, and intervals of their means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.arrays import Array, Index, Mask
from nearkin.errors import InputError
from nearkin.memory import check_memory
from nearkin.search.feedback import Feedback
from nearkin.search.inputs import as_vectors, check_lengths
from nearkin.search.pairing import PAIR_BYTES
from nearkin.settings import Integer, OneOf, check_argument, generator
from nearkin.stored import Number, stored

__all__ = ["CANDIDATES", "METRICS", "Interval", "RankingTask", "bootstrap", "evaluate", "ranking_scores", "ranks_of"]

#: Names of the measures; MAP and MRR look at all results, the others at the first k.
METRICS = ("recall", "precision", "ndcg", "map", "mrr")

#: Allowed values of ``candidates``; "auto" takes this many random items among which clicked ones must be found.
CANDIDATES = (OneOf(("auto", "all")), Integer(1, 1_000_000))
_N_RANDOM = 20

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
    queries, items : ndarray of shape (n, n_features)
        Mapped queries, and items.
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
    different, first = np.unique(query[order], return_index=True)
    pairs = np.split(order, first[1:])
    step = max(1, _TABLE // max(1, len(items)))
    for start in range(0, len(different), step):
        part = slice(start, start + step)
        for scores, here in zip(queries[different[part]] @ items.T, pairs[part], strict=True):
            ranks[here] = _rank(scores, item[here])
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
    query, ranks : ndarray of int64 of shape (n_pairs,)
        Query of each relevant item, by number, and the item's rank, from 1.
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


@stored(mean=Number(), low=Number(), high=Number())
@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % interval.

    Parameters
    ----------
    mean, low, high : float
        The mean, and the ends of the interval.

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


def bootstrap(values: Array, rng: np.random.Generator, bounds: tuple[float, float] | None = None) -> Interval:
    """Compute the interval of a mean by weighing queries at random, so that many clicks of one query count once.

    Parameters
    ----------
    values : ndarray of shape (n_queries,)
        One number per query, such as a score or the difference of two.
    rng : numpy.random.Generator
        Draws 2,000 resamples.
    bounds : tuple of float or None, default=None
        Least and largest value that could have come. With them, each end of the interval counts one more query that
        has the worst value for it (Gaffke, 2005), so that five queries with the same score do not look certain.

    Returns
    -------
    Interval
        Mean, and the middle 95 % of the means drawn.

    Examples
    --------
    >>> found = bootstrap(np.array([0.0, 1.0, 1.0, 1.0]), np.random.default_rng(0))
    >>> found.mean, found.low < 0.75 < found.high
    (0.75, True)
    >>> bootstrap(np.ones(5), np.random.default_rng(0), (0.0, 1.0)).low < 0.5
    True
    """
    n = len(values)
    means = np.empty((_DRAWS, 2))
    step = max(1, _TABLE // n)
    for start in range(0, _DRAWS, step):
        part = slice(start, min(_DRAWS, start + step))
        if bounds is None:
            means[part] = values[rng.integers(0, n, size=(part.stop - part.start, n))].mean(axis=1)[:, None]
        else:
            weights = rng.standard_exponential((part.stop - part.start, n + 1))
            weights /= weights.sum(axis=1, keepdims=True)
            means[part] = (weights[:, :n] @ values)[:, None] + weights[:, n:] * np.array(bounds)
    low, high = np.quantile(means[:, 0], 0.025), np.quantile(means[:, 1], 0.975)
    return Interval(float(values.mean()), float(low), float(high))


def evaluate(
    queries: ArrayLike, items: ArrayLike, feedback: Feedback, *, k: int = 10, candidates: str | int = "auto",
    random_state: Any = None,
) -> dict[str, Interval]:  # fmt: skip
    """Measure how well (mapped) queries rank the items.

    Parameters
    ----------
    queries, items : array-like of shape (n, n_features)
        As the index gets them.
    feedback : Feedback
        Says which items are relevant; all others count as wrong.
    k : int, default=10
        Results that recall, precision and nDCG look at.
    candidates : "auto", "all" or int, default="auto"
        Items among which relevant ones must be found; see `adapt`.
    random_state : int, Generator or None
        Seed of random candidates and of the bootstrap.

    Returns
    -------
    dict of str to Interval
        By the names of `METRICS`.

    Examples
    --------
    >>> feedback = Feedback.from_judgements([0], [1], [True], query_ids=1, item_ids=2)
    >>> evaluate([[1.0, 0.0]], [[0.0, 1.0], [2.0, 0.0]], feedback, k=1)["recall"].mean
    1.0
    """
    check_argument("evaluate", "k", k, Integer(1, 1_000_000_000))
    check_argument("evaluate", "candidates", candidates, *CANDIDATES)
    items = as_vectors(items, "items")
    queries = as_vectors(queries, "queries", items.shape[1], items.dtype)
    check_lengths(items, "items")
    check_lengths(queries, "queries")
    rng = generator(random_state)
    task = RankingTask.from_feedback(feedback, candidates, len(queries), rng)
    return {name: bootstrap(one, rng, (0.0, 1.0)) for name, one in task.score(queries, items, k).items()}


@dataclass(frozen=True)
class RankingTask:
    """Pairs of a query and one of its candidates, sorted by query, and whether the candidate is relevant.

    With ``among_all`` every item is a candidate, and the pairs are the relevant ones only.
    """

    query: Index
    item: Index
    relevant: Mask
    among_all: bool

    @classmethod
    def from_feedback(
        cls, feedback: Feedback, candidates: str | int, most: int, rng: np.random.Generator
    ) -> RankingTask:  # fmt: skip
        """Take at most ``most`` queries; random candidates are drawn once, so that all maps rank the same ones."""
        query, item, relevant = feedback.judgements()
        chosen = np.unique(query[relevant])
        if not len(chosen):
            raise InputError(
                "no held-out query has an item that was clicked at least as often as skipped; give more feedback, or "
                "hold out another share.",
                owner="feedback",
            )
        chosen = np.sort(rng.permutation(chosen)[:most])
        kept = np.isin(query, chosen)
        query, item, relevant = query[kept], item[kept], relevant[kept]
        if candidates == "all" or (candidates == "auto" and not feedback.ranked):
            return cls(query[relevant], item[relevant], relevant[relevant], True)
        n_random = _N_RANDOM if candidates == "auto" else int(candidates)
        what = f"ranking {n_random:,} random items for {len(chosen):,} queries"
        check_memory(PAIR_BYTES * len(chosen) * n_random, what, "Lower `candidates`.", "feedback")
        others = np.repeat(chosen, n_random)
        drawn = rng.integers(0, feedback.n_items, size=len(others))
        key = np.setdiff1d(others * feedback.n_items + drawn, query * feedback.n_items + item)
        query = np.concatenate([query, key // feedback.n_items])
        item = np.concatenate([item, key % feedback.n_items])
        relevant = np.concatenate([relevant, np.zeros(len(key), dtype=bool)])
        order = np.lexsort((item, query))
        return cls(query[order], item[order], relevant[order], False)

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(np.unique(self.query))

    def score(self, queries: Array, items: Array, k: int) -> dict[str, Array]:
        """Return the ranking measures of every query."""
        if self.among_all:
            return ranking_scores(self.query, ranks_of(queries, items, self.query, self.item), k)
        ranks = np.empty(len(self.query), dtype=np.int64)
        numbers, start = np.unique(self.query, return_index=True)
        for one, begin, end in zip(numbers, start, [*start[1:], len(self.query)], strict=True):
            scores = items[self.item[begin:end]] @ queries[one]
            ranks[begin:end][np.argsort(-scores, kind="stable")] = np.arange(1, end - begin + 1)
        return ranking_scores(self.query[self.relevant], ranks[self.relevant], k)
