"""From vectors and feedback to an adapter, checked on queries that it has not seen."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nearkin import progress
from nearkin._version import __version__
from nearkin.arrays import Array
from nearkin.errors import InputError, Option, Row
from nearkin.files import replacing
from nearkin.search.adapter import NO_GAIN, STRENGTHS, SimilarityAdapter
from nearkin.search.feedback import Feedback, FeedbackTriplets
from nearkin.search.inputs import as_vectors, check_lengths, zero_rows
from nearkin.search.ranking import CANDIDATES, METRICS, Interval, RankingTask, bootstrap
from nearkin.settings import Integer, OneOf, Real, check_argument, generator

__all__ = ["Adaptation", "adapt"]

#: Triplets whose vectors are gathered at once.
_BLOCK = 8192

_TITLES = {"ndcg": "nDCG@{k}", "recall": "recall@{k}", "precision": "precision@{k}", "map": "MAP", "mrr": "MRR"}


@dataclass(frozen=True)
class Adaptation:
    """A checked adapter, and what the check measured.

    Parameters
    ----------
    adapter : SimilarityAdapter
        Ready for use; it keeps the identity if no gain was shown.
    before, after : dict of str to Interval
        Means over the held-out queries with bootstrap intervals, by the names of `METRICS`: of the vectors as they
        were, and of the learned map at its chosen strength (even if the identity is kept in the end).
    gain : dict of str to Interval
        Of the differences, query by query.
    metric, k : str, int
        The measure that decides, and the results that it looks at.
    n_learned, n_chosen, n_held_out : int
        Queries learned from, queries that chose the strength, and queries that measured the gain.
    n_triplets : int
        Triplets learned, counting every pass.
    skipped : dict of str to int
        Feedback left out, by reason.

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

    @property
    def verdict(self) -> str:
        """What the check decided, in words."""
        measure = _TITLES[self.metric].format(k=self.k)
        if not self.kept_identity:
            return f"{measure} gains {self.gain[self.metric]}; the map is used at strength {self.adapter.strength_:g}."
        return (
            f"{measure}: a gain above zero was not shown, so the identity is kept. Queries that pass through this "
            "adapter stay as they are."
        )

    def table(self) -> list[list[str]]:
        """Return every measure before and after, and its gain, as text."""
        parts = self.before, self.after, self.gain
        return [[_TITLES[name].format(k=self.k), *(str(part[name]) for part in parts)] for name in self.before]

    def write_json(self, path: str | os.PathLike[str]) -> None:
        """Write all figures to a file."""
        figures = {"nearkin": __version__, **{name: one for name, one in vars(self).items() if name != "adapter"}}
        for name in ("before", "after", "gain"):
            figures[name] = {key: asdict(one) for key, one in figures[name].items()}
        figures |= {"kept_identity": self.kept_identity, "strength": self.adapter.strength_}
        with replacing(path, "json") as file:
            file.write(json.dumps(figures, indent=2).encode())


def adapt(
    queries: ArrayLike, items: ArrayLike, feedback: Feedback, *, adapter: SimilarityAdapter | None = None,
    holdout: float = 0.2, metric: str = "ndcg", k: int = 10, n_epochs: int = 1, n_random: int = 1,
    max_pairs: int = 20, candidates: str | int = "auto", max_evaluated: int = 1000, bad: str = "raise",
    random_state: Any = None,
) -> Adaptation:  # fmt: skip
    """Learn a query map from feedback, and keep it only if it helps held-out queries.

    Queries are divided at random: the adapter learns from the first part, the second chooses how strongly the map is
    used, the third measures the gain. If the lower end of the gain's 95 % interval is not above zero, the adapter keeps
    the identity.

    Parameters
    ----------
    queries, items : array-like of shape (n, n_features)
        Vectors, those of the items as the index holds them.
    feedback : Feedback
        What users clicked and skipped.
    adapter : SimilarityAdapter or None, default=None
        Its settings are used; if it has learned before, it goes on. None takes the defaults.
    holdout : float, default=0.2
        Share of the queries that measure the gain; of the others, the same share chooses the strength.
    metric : {"ndcg", "recall", "precision", "map", "mrr"}, default="ndcg"
        Measure that chooses and decides.
    k : int, default=10
        Results that recall, precision and nDCG look at.
    n_epochs : int, default=1
        Passes over the feedback; each draws pairs and random items anew.
    n_random : int, default=1
        Random items per click that count as skipped.
    max_pairs : int, default=20
        Most pairs of a clicked and a skipped item taken from one list.
    candidates : "auto", "all" or int, default="auto"
        Items among which relevant ones must be found. "all": the whole collection, where everything that was not
        judged counts as wrong. A number: the items shown or judged for the query, and that many random ones. "auto":
        all for judgements, otherwise 20, because the old ranking chose what was shown, and among all items no other
        ranking could beat it.
    max_evaluated : int, default=1000
        Most queries of a part that are evaluated.
    bad : {"raise", "skip"}, default="raise"
        What to do with zero vectors: raise an error that names the row, or skip and count feedback about them.
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
    check_argument("adapt", "holdout", holdout, Real(0.0, 1.0, open_low=True, open_high=True))
    check_argument("adapt", "metric", metric, OneOf(METRICS))
    check_argument("adapt", "k", k, Integer(1, 1_000_000_000))
    check_argument("adapt", "n_epochs", n_epochs, Integer(1, 1_000_000))
    check_argument("adapt", "candidates", candidates, *CANDIDATES)
    check_argument("adapt", "max_evaluated", max_evaluated, Integer(2, 1_000_000_000))
    check_argument("adapt", "n_random", n_random, Integer(0, 100_000))
    check_argument("adapt", "max_pairs", max_pairs, Integer(1, 1_000_000_000))
    check_argument("adapt", "bad", bad, OneOf(("raise", "skip")))
    items = as_vectors(items, "items")
    queries = as_vectors(queries, "queries", items.shape[1], items.dtype)
    check_lengths(items, "items")
    check_lengths(queries, "queries")
    rng = generator(random_state)
    feedback, skipped = _select_usable(queries, items, feedback, bad)
    rest, held = feedback.split(holdout, rng)
    learn, choose = rest.split(holdout, rng)
    adapter = SimilarityAdapter() if adapter is None else adapter
    epochs = (learn.triplets(rng, n_random=n_random, max_pairs=max_pairs) for _ in range(n_epochs))
    n_triplets = _learn(adapter, queries, items, epochs, n_epochs)
    chooser, judge = (RankingTask.from_feedback(part, candidates, max_evaluated, rng) for part in (choose, held))
    strength = _choose_strength(adapter, queries, items, chooser, metric, k)
    before = judge.score(queries, items, k)
    after = judge.score(adapter.set_strength(strength, NO_GAIN).map_queries(queries), items, k)
    gains = {name: after[name] - before[name] for name in METRICS}
    gain, before_, after_ = ({name: bootstrap(part[name], rng) for name in METRICS} for part in (gains, before, after))
    adapter.set_strength(strength if gain[metric].low > 0 else 0.0, gain[metric])
    n_queries = len(np.unique(learn.query)), chooser.n_queries, judge.n_queries
    return Adaptation(adapter, before_, after_, gain, metric, k, *n_queries, n_triplets, feedback.skipped | skipped)


def _learn(
    adapter: SimilarityAdapter, queries: Array, items: Array, epochs: Iterable[FeedbackTriplets], n_epochs: int
) -> int:
    """Learn all epochs block by block; return the number of triplets."""
    zero, n_learned = zero_rows(items), 0
    for number, triplets in enumerate(epochs):
        if len(zero):  # a random item may be a zero vector
            usable = ~np.isin(triplets.negative, zero)
            triplets = FeedbackTriplets(*(one[usable] for one in triplets))
        query, positive, negative = triplets
        total = n_epochs * len(query)
        for start in range(0, len(query), _BLOCK):
            part = slice(start, start + _BLOCK)
            adapter.partial_fit(queries[query[part]], items[positive[part]], items[negative[part]])
            n_learned += len(query[part])
            progress.advance("triplets", min(total, number * len(query) + start + len(query[part])), total)
    if not n_learned:
        raise InputError(
            "no click can be compared with a skipped item; raise {random}, or give skipped items.",
            owner="feedback", random=Option("n_random"),
        )  # fmt: skip
    return n_learned


def _choose_strength(
    adapter: SimilarityAdapter, queries: Array, items: Array, task: RankingTask, metric: str, k: int
) -> float:  # fmt: skip
    """Return the strength with the best mean of the measure."""
    if adapter.strength != "auto":
        return float(adapter.strength)
    means = []
    for strength in STRENGTHS:
        mapped = adapter.set_strength(strength, NO_GAIN).map_queries(queries)
        means.append(task.score(mapped, items, k)[metric].mean())
        progress.advance("choosing", len(means), len(STRENGTHS))
    return STRENGTHS[int(np.argmax(means))]


def _select_usable(queries: Array, items: Array, feedback: Feedback, bad: str) -> tuple[Feedback, dict[str, int]]:
    """Return feedback about vectors that have a direction; zero vectors without feedback do no harm."""
    if feedback.n_items != len(items) or feedback.query.max(initial=-1) >= len(queries):
        raise InputError(
            f"feedback is about {feedback.n_items:,} items and query {feedback.query.max(initial=-1):,}, but there are "
            f"{len(items):,} items and {len(queries):,} queries; give all vectors, in the order of their ids.",
            owner="adapt",
        )
    is_zero_query, is_zero_item = (np.asarray(~one.any(axis=1)) for one in (queries, items))
    zero_rows_before = np.concatenate([[0], np.cumsum(is_zero_item[feedback.item])])
    unusable = is_zero_query[feedback.query] | (np.diff(zero_rows_before[feedback.start]) > 0)
    if not unusable.any():
        return feedback, {}
    if bad == "raise":
        at = int(unusable.argmax())
        query, found = feedback.query[at], feedback.item[feedback.start[at] : feedback.start[at + 1]]
        is_query = is_zero_query[query]
        raise InputError(
            "{row} is a zero vector, which has no direction, but has feedback. Correct it, or skip and count such "
            "feedback with {skip}.",
            place="queries" if is_query else "items",
            row=Row(query if is_query else found[is_zero_item[found]][0]), skip=Option("bad", "skip"),
        )  # fmt: skip
    if unusable.all():
        raise InputError("every list holds a zero vector; there is nothing to learn from.", owner="feedback")
    return feedback.select(~unusable), {"zero vector": int(unusable.sum())}
