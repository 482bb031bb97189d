"""From vectors and feedback to an adapter that was checked on queries it has not seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin import progress
from nearkin.checks import Integer, Real, Rule, generator
from nearkin.search.adapter import STRENGTHS, SimilarityAdapter
from nearkin.search.feedback import Feedback, FeedbackTriplets
from nearkin.search.ranking import METRICS, Interval, bootstrap, ranking_scores, ranks_of
from nearkin.search.vectors import as_vectors, zero_rows

__all__ = ["Adaptation", "adapt", "evaluate"]

Array = NDArray[np.floating]
Index = NDArray[np.int64]

#: Triplets whose vectors are gathered at once.
_BLOCK = 8192
#: Random items among which those that were clicked are to be found.
_CANDIDATES = 20


@dataclass(frozen=True)
class Adaptation:
    """A checked adapter, and what the check measured.

    Parameters
    ----------
    adapter : SimilarityAdapter
        Ready for use; it keeps the identity if no gain was shown.
    before, after : dict of str to Interval
        Means over the held-out queries with bootstrap intervals, by the names of `METRICS`: of the vectors as they
        were, and of the learned map at its chosen strength (also if the identity is kept in the end).
    gain : dict of str to Interval
        Of the differences, query by query.
    metric : str
        The measure that decides.
    k : int
        Results that were looked at.
    n_learned, n_chosen, n_held_out : int
        Queries that were learned from, that chose the strength, and that measured the gain.
    n_triplets : int
        Triplets learned, repeated passes counted.
    skipped : dict of str to int
        Feedback that was left out, by reason.

    See Also
    --------
    adapt : Makes it.

    Examples
    --------
    >>> none = {name: Interval(0.0, 0.0, 0.0) for name in METRICS}
    >>> Adaptation(SimilarityAdapter(), none, none, none, "ndcg", 10, 8, 1, 1, 100, {}).n_triplets
    100
    """

    adapter: SimilarityAdapter
    before: dict[str, Interval]
    after: dict[str, Interval]
    gain: dict[str, Interval]
    metric: str
    k: int
    n_learned: int
    n_chosen: int
    n_held_out: int
    n_triplets: int
    skipped: dict[str, int]

    @property
    def kept_identity(self) -> bool:
        """Whether the vectors stay as they were."""
        return self.adapter.kept_identity_


def adapt(
    queries: ArrayLike,
    items: ArrayLike,
    feedback: Feedback,
    *,
    adapter: SimilarityAdapter | None = None,
    holdout: float = 0.2,
    metric: str = "ndcg",
    k: int = 10,
    n_epochs: int = 1,
    n_random: int = 1,
    max_pairs: int = 20,
    candidates: str | int = "auto",
    max_evaluated: int = 1000,
    bad: str = "raise",
    random_state: Any = None,
) -> Adaptation:
    """Learn a query map from feedback, and keep it only if it helps queries that were held out.

    Queries are divided at random: one part is learned from, a second chooses how strongly the map is used, a third
    measures the gain. If the lower end of the gain's 95 % interval is not above zero, the identity is kept.

    Parameters
    ----------
    queries : array-like of shape (n_queries, n_features)
        Vectors of the queries.
    items : array-like of shape (n_items, n_features)
        Vectors of the items, as the index holds them.
    feedback : Feedback
        What users clicked and skipped.
    adapter : SimilarityAdapter or None, default=None
        With the parameters to use; one that has learned already learns on. None takes the defaults.
    holdout : float, default=0.2
        Share of the queries that measure the gain; of the others, the same share chooses the strength.
    metric : {"ndcg", "recall", "precision", "map", "mrr"}, default="ndcg"
        Measure that chooses and decides.
    k : int, default=10
        Results that recall, precision and nDCG look at.
    n_epochs : int, default=1
        Passes over the feedback; pairs and random items are drawn anew in each.
    n_random : int, default=1
        Random items per click as further negatives.
    max_pairs : int, default=20
        Most pairs of a clicked and a skipped item taken from one list.
    candidates : "auto", "all" or int, default="auto"
        Items among which relevant ones are to be found. "all": the whole collection, where everything that was not
        judged counts as wrong. A number: the items that were shown or judged for the query, and so many random ones.
        "auto": all for judgements, 20 otherwise: the old ranking chose what was shown, and among all items no other
        ranking could beat it.
    max_evaluated : int, default=1000
        Most queries of a part that are evaluated.
    bad : {"raise", "skip"}, default="raise"
        What to do with zero vectors: an error that names the row, or leave out feedback about them and count it.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    Adaptation
        The adapter and the figures.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> items = rng.normal(size=(300, 8))
    >>> wanted = rng.integers(0, 300, size=200)
    >>> queries = np.roll(items[wanted], 1, axis=1)  # another encoder
    >>> clicks = np.repeat(np.arange(200), 20)
    >>> feedback = Feedback.from_triplets(
    ...     clicks, wanted[clicks], rng.integers(0, 300, size=4000), query_ids=200, item_ids=300, bad="skip")
    >>> found = adapt(queries, items, feedback, random_state=0)
    >>> found.kept_identity, found.after["mrr"].mean > found.before["mrr"].mean
    (False, True)
    """
    _check_arguments(
        metric=metric, k=k, holdout=holdout, n_epochs=n_epochs, max_evaluated=max_evaluated, candidates=candidates
    )
    items = as_vectors(items, "items")
    queries = as_vectors(queries, "queries", items.shape[1], items.dtype)
    if feedback.n_items != len(items) or feedback.query.max(initial=-1) >= len(queries):
        raise ValueError(
            f"feedback speaks of {feedback.n_items:,} items and of query {feedback.query.max(initial=-1):,}, but there "
            f"are {len(items):,} items and {len(queries):,} queries; give all vectors, in the order of their ids."
        )
    rng = generator(random_state)
    feedback, zeros = _without_zeros(queries, items, feedback, bad)
    rest, held = feedback.split(holdout, rng)
    learn, choose = rest.split(holdout, rng)
    adapter = SimilarityAdapter() if adapter is None else adapter
    n_triplets = 0
    for epoch in range(n_epochs):
        triplets = _with_direction(learn.triplets(rng, n_random=n_random, max_pairs=max_pairs), items)
        total = n_epochs * len(triplets.query)
        for start in range(0, len(triplets.query), _BLOCK):
            query, positive, negative = (one[start : start + _BLOCK] for one in triplets)
            adapter.partial_fit(queries[query], items[positive], items[negative])
            n_triplets += len(query)
            progress.advance("triplets", min(total, epoch * len(triplets.query) + start + len(query)), total)
    if not n_triplets:
        raise ValueError("feedback: no click can be compared with anything; raise n_random, or show skipped items.")
    chooser, exam = (_Exam.of(part, candidates, max_evaluated, rng) for part in (choose, held))
    strength = _choose(adapter, queries, items, chooser, metric, k)
    adapter.set_strength(strength, Interval(0.0, 0.0, 0.0))
    plain = exam.scores(queries, items, k)
    learned = exam.scores(adapter.map_queries(queries), items, k)
    gain = {name: bootstrap(learned[name] - plain[name], rng) for name in METRICS}
    adapter.set_strength(strength if gain[metric].low > 0 else 0.0, gain[metric])
    return Adaptation(
        adapter,
        {name: bootstrap(plain[name], rng) for name in METRICS},
        {name: bootstrap(learned[name], rng) for name in METRICS},
        gain, metric, k,
        len(np.unique(learn.query)), chooser.n_queries, exam.n_queries,
        n_triplets, feedback.skipped | zeros,
    )  # fmt: skip


def evaluate(
    queries: ArrayLike,
    items: ArrayLike,
    feedback: Feedback,
    *,
    k: int = 10,
    candidates: str | int = "auto",
    random_state: Any = None,
) -> dict[str, Interval]:
    """Ranking measures of mapped queries over all items.

    Parameters
    ----------
    queries : array-like of shape (n_queries, n_features)
        Queries as they are sent to the index.
    items : array-like of shape (n_items, n_features)
        Items.
    feedback : Feedback
        Says which items are relevant; all others count as not.
    k : int, default=10
        Results that recall, precision and nDCG look at.
    candidates : "auto", "all" or int, default="auto"
        Items among which relevant ones are to be found. "all": the whole collection, where everything that was not
        judged counts as wrong. A number: the items that were shown or judged for the query, and so many random ones.
        "auto": all for judgements, 20 otherwise: the old ranking chose what was shown, and among all items no other
        ranking could beat it.
    random_state : int, Generator or None
        Seed of the bootstrap.

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
    _check_arguments(k=k, candidates=candidates)
    items = as_vectors(items, "items")
    queries = as_vectors(queries, "queries", items.shape[1], items.dtype)
    rng = generator(random_state)
    exam = _Exam.of(feedback, candidates, len(queries), rng)
    scores = exam.scores(queries, items, k)
    return {name: bootstrap(values, rng) for name, values in scores.items()}


def _check_arguments(**given: Any) -> None:
    rules: dict[str, Rule] = {
        "k": Integer(1), "n_epochs": Integer(1), "max_evaluated": Integer(2),
        "holdout": Real(0.0, 1.0, open_low=True, open_high=True),
    }  # fmt: skip
    for name, value in given.items():
        if name == "candidates" and value not in ("auto", "all") and not Integer(1).allows(value):
            raise ValueError(f"adapt: `candidates` must be 'auto', 'all' or {Integer(1)}; got {value!r}.")
        if name == "metric" and value not in METRICS:
            raise ValueError(f"adapt: `metric` must be one of {', '.join(METRICS)}; got {value!r}.")
        if name in rules and not rules[name].allows(value):
            raise ValueError(f"adapt: `{name}` must be {rules[name]}; got {value!r}.")


def _with_direction(triplets: FeedbackTriplets, items: Array) -> FeedbackTriplets:
    """Triplets without zero vectors, which may have been drawn as random items."""
    zero = zero_rows(items)
    if not len(zero):
        return triplets
    kept = ~np.isin(triplets.negative, zero)
    return FeedbackTriplets(*(one[kept] for one in triplets))


def _without_zeros(queries: Array, items: Array, feedback: Feedback, bad: str) -> tuple[Feedback, dict[str, int]]:
    """Feedback about vectors that have a direction; zero vectors nobody speaks of do no harm."""
    zero_query, zero_item = np.zeros(len(queries), dtype=bool), np.zeros(len(items), dtype=bool)
    zero_query[zero_rows(queries)] = True
    zero_item[zero_rows(items)] = True
    lists = zero_query[feedback.query]
    lists |= np.add.reduceat(zero_item[feedback.item].astype(np.int64), feedback.start[:-1]) > 0
    if not lists.any():
        return feedback, {}
    if bad == "raise":
        at = int(lists.argmax())
        which = feedback.item[feedback.start[at] : feedback.start[at + 1]]
        name, row = (
            ("queries", feedback.query[at]) if zero_query[feedback.query[at]] else ("items", which[zero_item[which]][0])
        )
        raise ValueError(
            f"{name}: row {row} is a zero vector, which has no direction, and feedback speaks of it. "
            "Mend it, or skip and count such feedback with bad='skip'."
        )
    if lists.all():
        raise ValueError("feedback: every list of it speaks of a zero vector; nothing is left to learn from.")
    return feedback.only(~lists), {"zero vector": int(lists.sum())}


@dataclass(frozen=True)
class _Exam:
    """Queries with relevant items, and the items among which those are to be found."""

    query: Index
    item: Index
    relevant: NDArray[np.bool_]
    among_all: bool

    @classmethod
    def of(cls, feedback: Feedback, candidates: str | int, most: int, rng: np.random.Generator) -> _Exam:
        """At most so many queries; candidates beside the judged items are drawn once, the same for every map."""
        query, item, relevant = feedback.judged()
        asked = np.unique(query[relevant])
        if not len(asked):
            raise ValueError(
                "feedback: among the queries that were held out none has an item that was clicked at least as often as "
                "it was skipped; more feedback is needed, or another share held out."
            )
        asked = np.sort(rng.permutation(asked)[:most])
        kept = np.isin(query, asked)
        query, item, relevant = query[kept], item[kept], relevant[kept]
        if candidates == "auto":
            candidates = _CANDIDATES if feedback.ranked else "all"
        if candidates == "all":
            return cls(query[relevant], item[relevant], np.ones(int(relevant.sum()), dtype=bool), True)
        others = np.repeat(asked, int(candidates))
        drawn = rng.integers(0, feedback.n_items, size=len(others))
        fresh = ~np.isin(others * feedback.n_items + drawn, query * feedback.n_items + item)
        key = np.unique(others[fresh] * feedback.n_items + drawn[fresh])
        query = np.concatenate([query, key // feedback.n_items])
        item = np.concatenate([item, key % feedback.n_items])
        relevant = np.concatenate([relevant, np.zeros(len(key), dtype=bool)])
        order = np.lexsort((item, query))
        return cls(query[order], item[order], relevant[order], False)

    @property
    def n_queries(self) -> int:
        return len(np.unique(self.query))

    def scores(self, queries: Array, items: Array, k: int) -> dict[str, Array]:
        """Ranking scores of every query."""
        if self.among_all:
            ranks = ranks_of(queries, items, self.query, self.item)
            return ranking_scores(self.query, ranks, k)
        ranks = np.empty(len(self.query), dtype=np.int64)
        asked, start = np.unique(self.query, return_index=True)
        for one, begin, end in zip(asked, start, [*start[1:], len(self.query)], strict=True):
            found = items[self.item[begin:end]] @ queries[one]
            ranks[begin:end][np.argsort(-found, kind="stable")] = np.arange(1, end - begin + 1)
        return ranking_scores(self.query[self.relevant], ranks[self.relevant], k)


def _choose(
    adapter: SimilarityAdapter, queries: Array, items: Array, exam: _Exam, metric: str, k: int
) -> float:  # fmt: skip
    """Strength with the best mean of the measure."""
    if adapter.strength != "auto":
        return float(adapter.strength)
    means = []
    for strength in STRENGTHS:
        adapter.set_strength(strength, Interval(0.0, 0.0, 0.0))
        means.append(exam.scores(adapter.map_queries(queries), items, k)[metric].mean())
        progress.advance("choosing", len(means), len(STRENGTHS))
    return STRENGTHS[int(np.argmax(means))]
