"""How well queries find the items that feedback calls relevant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nearkin.arrays import Array, Index, Mask
from nearkin.checks import Integer, OneOf, generator
from nearkin.errors import InputError
from nearkin.search.feedback import Feedback
from nearkin.search.ranking import Interval, bootstrap, ranking_scores, ranks_of
from nearkin.search.vectors import as_vectors
from nearkin.settings import check_argument

__all__ = ["CANDIDATES", "RankingTask", "evaluate"]

#: Allowed values of ``candidates``.
CANDIDATES = (OneOf(("auto", "all")), Integer(1))
#: Random items among which clicked ones must be found, unless told otherwise.
_N_RANDOM = 20


def evaluate(
    queries: ArrayLike,
    items: ArrayLike,
    feedback: Feedback,
    *,
    k: int = 10,
    candidates: str | int = "auto",
    random_state: Any = None,
) -> dict[str, Interval]:
    """Measure how well (mapped) queries rank the items.

    Parameters
    ----------
    queries : array-like of shape (n_queries, n_features)
        Queries as the index gets them.
    items : array-like of shape (n_items, n_features)
        Items.
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
    check_argument("evaluate", "k", k, Integer(1))
    check_argument("evaluate", "candidates", candidates, *CANDIDATES)
    items = as_vectors(items, "items")
    queries = as_vectors(queries, "queries", items.shape[1], items.dtype)
    rng = generator(random_state)
    task = RankingTask.from_feedback(feedback, candidates, len(queries), rng)
    return {name: bootstrap(values, rng) for name, values in task.score(queries, items, k).items()}


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
        others = np.repeat(chosen, _N_RANDOM if candidates == "auto" else int(candidates))
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
