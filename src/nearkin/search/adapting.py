"""From vectors and feedback to an adapter, checked on queries that it has not seen."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from nearkin import progress
from nearkin.arrays import Array, Index, Mask
from nearkin.errors import InputError, Option, Row
from nearkin.search.adaptation import TITLES, Adaptation, Outlook
from nearkin.search.adapter import STRENGTHS, SimilarityAdapter, changing
from nearkin.search.betting import anytime_interval, queries_needed
from nearkin.search.feedback import Feedback, FeedbackTriplets
from nearkin.search.held_out import HeldOut, Judge, ShownPairs, hash_rows
from nearkin.search.inputs import as_vectors, check_lengths, parse_times, zero_rows
from nearkin.search.ranking import METRICS, Interval, bootstrap
from nearkin.search.softmax import DISAGREE, Clicks, cut_rank, learn_map, learn_ridge, learn_softmax
from nearkin.search.versions import MapVersion
from nearkin.settings import Integer, OneOf, Real, check_argument, generator

__all__ = ["adapt"]

#: Triplets whose vectors are gathered at once.
_BLOCK = 8192

#: Strengths to choose from, of all maps but the hinge's.
_SHARES = (0.15, 0.3, 0.6, 1.0)
#: Most clicks of earlier days that count beside those of today.
_MEMORY = 100_000
#: Errors of the mean by which a gain must be above 0 to be shown at the first look, about.
_SHOWN = 2.4
#: A query counts for at most this many standard deviations of the queries that choose, which are at least the second.
_WIDE, _LEAST = 4.0, 0.005
#: Queries that choose from which on their spread is trusted.
_ENOUGH = 20
#: Of so few queries no share makes three parts that say anything.
_FEW_QUERIES = 10
#: A k up to this is taken whatever the number of items.
_FEW_ITEMS = 10
#: Gains of which the report says how many queries would show them.
_GAINS = (0.01, 0.02, 0.05)

#: Least and largest value of each measure.
_BOUNDS = {**dict.fromkeys(METRICS, (0.0, 1.0)), "lift": (-1.0, 1.0), "alike": (-1.0, 1.0)}


def _serve_when_done(function: Callable[..., Adaptation]) -> Callable[..., Adaptation]:
    """Let the adapter serve its old map until all is learned and checked; if that fails, it stays as it was."""

    @functools.wraps(function)
    def wrapped(*args: Any, adapter: SimilarityAdapter | None = None, **more: Any) -> Adaptation:
        adapter = SimilarityAdapter() if adapter is None else adapter
        with changing(adapter) as new:
            done = function(*args, adapter=new, **more)
        return replace(done, adapter=adapter)

    return wrapped


@_serve_when_done
def adapt(
    queries: ArrayLike, items: ArrayLike, feedback: Feedback, *, adapter: SimilarityAdapter | None = None,
    holdout: float = 0.2, metric: str = "auto", k: int = 10, n_epochs: int = 1, n_random: int = 1,
    max_pairs: int = 20, max_evaluated: int = 1000, bad: str = "raise", test_from: Any = None,
    foretell: Callable[[Outlook], None] | None = None, random_state: Any = None,
) -> Adaptation:  # fmt: skip
    """Learn a query map from feedback, and keep it only if it helps held-out queries.

    A hash of its vector divides the queries, the same way on every day: most learn, some choose the learner and how
    strongly its map is used, the others measure the gain over the whole index. Clicks of the last two are kept with the
    adapter and never learned from. If the lower end of the gain's interval is not above zero, the adapter keeps the
    identity, or an earlier map that was shown to gain and still does so in the mean. The interval is wider with every
    call, so that calling often does not adopt by chance.

    Parameters
    ----------
    queries, items : array-like of shape (n, n_features)
        Vectors, those of the items as the index holds them.
    feedback : Feedback
        What users clicked and skipped.
    adapter : SimilarityAdapter or None, default=None
        Its settings are used; if it has learned before, it goes on. None takes the defaults.
    holdout : float, default=0.2
        Share of the queries that measure the gain; half as many choose. The first call fixes it.
    metric : {"auto", "lift", "alike", "ndcg", "recall", "precision", "map", "mrr"}, default="auto"
        Measure that chooses and decides (see `Judge`). "auto" takes the lift: whether the first results are like what
        was clicked rather than like what was shown; "alike" if there are no lists (clicks alone), or if clicks within
        the lists contradict what other queries say. The others count what was not shown or judged as wrong. A gain in
        lift counts only if results are also no less alike to what was clicked.
    k : int, default=10
        Results that lift, recall, precision and nDCG look at.
    n_epochs : int, default=1
        Passes of the hinge over the feedback; each draws pairs and random items anew.
    n_random : int, default=1
        Random items per click that count as skipped for the hinge.
    max_pairs : int, default=20
        Most pairs of a clicked and a skipped item taken from one list for the hinge.
    max_evaluated : int, default=1000
        Most held-out queries that are kept and evaluated, the newest.
    bad : {"raise", "skip"}, default="raise"
        What to do with zero vectors: raise an error that names the row, or skip and count feedback about them.
    test_from : str, float or None, default=None
        A time (see `parse_times`) that divides the log too: queries that test do so with what they were shown from
        then on, all others learn and choose from what was shown before. The feedback must have times.
    foretell : callable or None, default=None
        Called with the `Outlook` before anything is learned.
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
    >>> wanted = rng.integers(0, 300, size=400)
    >>> queries = np.roll(items[wanted], 1, axis=1) + 0.1 * rng.normal(size=(400, 8))  # another encoder
    >>> clicks = np.repeat(np.arange(400), 10)
    >>> feedback = Feedback.from_triplets(
    ...     clicks, wanted[clicks], rng.integers(0, 300, size=4000), query_ids=400, item_ids=300, bad="skip")
    >>> found = adapt(queries, items, feedback, random_state=0)
    >>> found.kept_identity, found.after["mrr"].mean > found.before["mrr"].mean
    (False, True)
    """
    _check_settings(
        holdout=holdout, metric=metric, k=k, n_epochs=n_epochs, max_evaluated=max_evaluated, n_random=n_random,
        max_pairs=max_pairs, bad=bad,
    )  # fmt: skip
    queries, items = _check_vectors(queries, items, k)
    rng = generator(random_state)
    feedback, skipped = _select_usable(queries, items, feedback, bad)
    adapter = SimilarityAdapter() if adapter is None else adapter
    earlier, served = _open_pool(adapter, items, holdout), _find_served(adapter)
    parts, late = _divide(queries, items, feedback, earlier, test_from, max_evaluated)
    pool, chooser, judge = parts.pool, parts.chooser, parts.judge
    is_auto = metric == "auto"
    if is_auto:  # of clicks alone, what was shown is what was clicked, and no map has a lift
        metric = "lift" if pool.has_lists else "alike"
    n_learned = len(np.unique(parts.learn.query))
    if foretell is not None:
        needed = _count_needed(judge, metric, k, pool.n_looks + 1)
        foretell(Outlook(n_learned, len(chooser), len(judge), needed, TITLES[metric].format(k=k)))

    epochs = (parts.learn.triplets(rng, n_random=n_random, max_pairs=max_pairs) for _ in range(n_epochs))
    lesson = _learn_maps(adapter, queries, items, parts.learn, epochs, n_epochs, rng)
    if is_auto and lesson.agreement < DISAGREE:
        metric = "alike"
    learner, strength, spread = _choose_map(adapter, chooser, lesson.moves, metric, k, len(judge))
    adapter.move_ = np.ascontiguousarray(lesson.moves[learner], dtype=adapter.query_mean_.dtype)
    before = judge.score(judge.queries, k)
    after = judge.score(_moved(adapter, judge.queries, adapter.move_, strength), k)
    pool.n_looks += 1
    gain = {
        name: anytime_interval(after[name] - before[name], pool.n_looks, _bound(spread[name], len(chooser)))
        for name in before
    }
    before_, after_ = (
        {name: bootstrap(one, rng, _BOUNDS[name]) for name, one in part.items()} for part in (before, after)
    )
    adapter.held_out_ = pool
    is_shown = gain[metric].low > 0 and (metric != "lift" or gain["alike"].mean > 0)
    is_smear = is_auto and not pool.has_lists and _is_smear(judge, after, k)
    is_shown = is_shown and not is_smear
    is_still_good = not is_shown and served is not None and _still_gains(adapter, served, judge, before, metric, k)
    if served is not None and is_still_good:  # another check has shown its gain
        adapter.rollback(served.number)
    else:
        adapter.set_strength(strength if is_shown else 0.0, gain[metric]).keep_version(TITLES[metric].format(k=k))
    return Adaptation(
        adapter, before_, after_, gain, metric, k, n_learned, len(chooser), len(judge), lesson.n_triplets,
        parts.feedback.skipped | skipped | late, learner, _measure_rivals(adapter, lesson, judge, metric, k, rng),
        _count_needed(judge, metric, k, pool.n_looks), parts.place(lesson.plausibility, lesson.clicks.rows),
        parts.feedback, pool.n_looks, None if served is None else served.number, is_still_good,
        pool.repeats(earlier), is_smear,
    )  # fmt: skip


def _check_settings(**given: Any) -> None:
    rules: dict[str, Any] = {
        "holdout": Real(0.0, 1.0, open_low=True, open_high=True),
        "metric": OneOf(("auto", "lift", "alike", *METRICS)),
        "k": Integer(1, 1_000_000_000),
        "n_epochs": Integer(1, 1_000_000),
        "max_evaluated": Integer(2, 1_000_000_000),
        "n_random": Integer(0, 100_000),
        "max_pairs": Integer(1, 1_000_000_000),
        "bad": OneOf(("raise", "skip")),
    }
    for name, value in given.items():
        check_argument("adapt", name, value, rules[name])


def _check_vectors(queries: ArrayLike, items: ArrayLike, k: int) -> tuple[Array, Array]:
    """Return the vectors as arrays of one kind."""
    items = as_vectors(items, "items")
    queries = as_vectors(queries, "queries", items.shape[1], items.dtype)
    check_lengths(items, "items")
    check_lengths(queries, "queries")
    if k > max(len(items), _FEW_ITEMS):
        raise InputError(
            f"{{k}} is {k:,}, but there are only {len(items):,} items to find.", owner="adapt", k=Option("k")
        )
    return queries, items


@dataclass(frozen=True)
class _Division:
    """Feedback in three parts by its queries: those that teach, those that choose and those that judge."""

    feedback: Feedback
    learns: Mask  # by query
    learn: Feedback
    pool: HeldOut
    chooser: Judge
    judge: Judge

    def place(self, plausibility: Array, rows: Index) -> Array:
        """Return what was learned of some rows of the part that teaches, for all rows of the feedback."""
        found = np.full(len(self.feedback.item), np.nan)
        taught = np.repeat(self.learns[self.feedback.query], np.diff(self.feedback.start))
        found[np.flatnonzero(taught)[rows]] = plausibility
        return found


def _divide(
    queries: Array, items: Array, feedback: Feedback, pool: HeldOut, test_from: Any, max_evaluated: int
) -> tuple[_Division, dict[str, int]]:
    """Return the three parts, and how much feedback belongs to none of them, by reason."""
    key, item_key, late = hash_rows(queries), hash_rows(items), dict[str, int]()
    learns, _, tests = pool.part_of(key)
    if test_from is not None:
        feedback, late = _split_by_time(feedback, tests, test_from)
    learn, held = feedback.select(learns[feedback.query]), feedback.select(~learns[feedback.query])
    pool = pool.add(key, queries, item_key, ShownPairs.from_feedback(held), max_evaluated * 3 // 2)
    _, of_chooser, of_judge = pool.part_of(pool.key)
    chooser, judge = (Judge(pool, which, items, item_key) for which in (of_chooser, of_judge))
    if not learn.n_clicks or not len(chooser) or not len(judge):
        n_queries, n_learned = (len(np.unique(one.row_query[one.relevant])) for one in (feedback, learn))
        told = "1 query with clicks is" if n_queries == 1 else f"{n_queries:,} queries with clicks are"
        raise InputError(
            f"{told} too few: {n_learned:,} would teach, {len(chooser):,} choose and {len(judge):,} test, and each "
            f"part needs some; give more queries{', or another share' if n_queries > _FEW_QUERIES else ''}.",
            owner="feedback",
        )
    return _Division(feedback, learns, learn, pool, chooser, judge), late


@dataclass(frozen=True)
class _Lesson:
    """Maps to choose from, by learner, and what was learned of today's clicks."""

    clicks: Clicks
    moves: dict[str, Array]
    ridge: Array  # of today alone
    plausibility: Array
    agreement: float
    n_triplets: int


def _learn_maps(
    adapter: SimilarityAdapter, queries: Array, items: Array, learn: Feedback,
    epochs: Iterable[FeedbackTriplets], n_epochs: int, rng: np.random.Generator,
) -> _Lesson:  # fmt: skip
    """Learn all maps, and join them with those of earlier days."""
    had_learned = hasattr(adapter, "held_out_") or not hasattr(adapter, "similarity_")
    n_triplets = _learn(adapter, queries, items, epochs, n_epochs)
    clicks = Clicks(queries, items, learn, adapter.query_mean_)
    softmax, plausibility, agreement = learn_map(clicks, rng)
    ridge = learn_ridge(clicks, clicks.worth)
    adapter.softmax_, adapter.ridge_ = (
        _join_days(adapter, name, move, len(clicks)) for name, move in (("softmax_", softmax), ("ridge_", ridge))
    )
    adapter.n_clicks_ = getattr(adapter, "n_clicks_", 0) + len(clicks)
    moves = {"softmax": adapter.softmax_, "ridge": adapter.ridge_, "low rank": cut_rank(adapter.ridge_)}
    if had_learned:  # otherwise the hinge may have learned from queries that now test
        moves["hinge"] = adapter.similarity_.metric_.T - np.eye(items.shape[1], dtype=items.dtype)
    return _Lesson(clicks, moves, ridge, plausibility, agreement, n_triplets)


def _is_smear(judge: Judge, after: dict[str, Array], k: int) -> bool:
    """Return whether results of a map are no more alike to what was clicked than smeared ones, which need no clicks.

    Without lists nothing else tells a better map from one that blurs an index which is right as it is.
    """
    return bool((after["alike"] - judge.measure(judge.smear(k), k, "alike")["alike"]).mean() <= 0)


def _find_served(adapter: SimilarityAdapter) -> MapVersion | None:
    """Return the version in use, if it is a map that a check has shown to gain."""
    now = getattr(adapter, "version_", None)
    return next(
        (
            one
            for one in getattr(adapter, "versions_", ())
            if one.number == now and one.n_looks and one.move is not None
        ),
        None,
    )


def _still_gains(
    adapter: SimilarityAdapter, served: MapVersion, judge: Judge, before: dict[str, Array], metric: str, k: int
) -> bool:  # fmt: skip
    """Return whether a map that was shown to gain still does so in the mean; that is less than a new map must show."""
    assert served.move is not None
    after = judge.measure(_moved(adapter, judge.queries, served.move, served.strength), k, metric)
    return all((after[one] - before[one]).mean() > 0 for one in {metric, "alike" if metric == "lift" else metric})


def _count_needed(judge: Judge, metric: str, k: int, look: int) -> dict[float, int]:
    """Return how many queries it takes to show some gains; differences spread about as much as the measure itself."""
    spread = float(judge.measure(judge.queries, k, metric)[metric].std())
    return {gain: queries_needed(spread, gain, look) for gain in _GAINS}


def _bound(spread: float, n_chosen: int) -> float:
    """Return the largest size of a gain that counts; few queries do not tell how far gains spread."""
    return min(1.0, max(_WIDE * spread, _LEAST)) if n_chosen >= _ENOUGH else 1.0


def _open_pool(adapter: SimilarityAdapter, items: Array, holdout: float) -> HeldOut:
    """Return the adapter's held-out queries of earlier days, or none."""
    pool: HeldOut | None = getattr(adapter, "held_out_", None)
    if pool is None:
        pool = HeldOut.empty(items.shape[1], items.dtype, holdout)
    elif pool.holdout != holdout:
        raise InputError(
            f"the adapter holds out {pool.holdout:g} of the queries since its first day; with another share it would "
            "test with queries that taught it.",
            owner="adapt",
        )
    return pool


def _join_days(adapter: SimilarityAdapter, name: str, move: Array, n_clicks: int) -> Array:
    """Return the mean of the maps of earlier days and of today, weighted by their clicks."""
    dtype = adapter.query_mean_.dtype
    if getattr(adapter, name, None) is None:
        return move.astype(dtype)
    share = n_clicks / (min(adapter.n_clicks_, _MEMORY) + n_clicks)
    return ((1.0 - share) * getattr(adapter, name) + share * move).astype(dtype)


def _moved(adapter: SimilarityAdapter, queries: Array, move: Array, strength: float) -> Array:
    """Return queries as a map would give them to the index."""
    return queries + strength * ((queries - adapter.query_mean_) @ move.T)


def _measure_rivals(
    adapter: SimilarityAdapter, lesson: _Lesson, judge: Judge, metric: str, k: int, rng: np.random.Generator
) -> dict[str, Interval]:
    """Measure maps that anybody would try first, learned from the feedback of today."""
    clicks = lesson.clicks
    moves = {
        "identity": np.zeros((clicks.d, clicks.d), clicks.dtype),
        "ridge": lesson.ridge,
        "plain softmax": learn_softmax(clicks, rng, average=False, mask=False),
    }
    moved = {name: _moved(adapter, judge.queries, one, 1.0) for name, one in moves.items()}
    scores = {name: judge.measure(one, k, metric)[metric] for name, one in moved.items()}
    return {name: bootstrap(one, rng, _BOUNDS[metric]) for name, one in scores.items()}


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


def _choose_map(
    adapter: SimilarityAdapter, chooser: Judge, moves: dict[str, Array], metric: str, k: int, n_judges: int
) -> tuple[str, float, dict[str, float]]:  # fmt: skip
    """Return the learner and the strength that promise most on the queries that choose, and how far gains spread there.

    The promise is the mean gain times the probability that the test will show it: a strong map may gain more in the
    mean, but so unevenly that it takes more queries than there are.
    """
    fixed = None if adapter.strength == "auto" else (float(adapter.strength),)
    tried = [(name, one) for name in moves for one in fixed or (STRENGTHS if name == "hinge" else _SHARES)]
    before = chooser.score(chooser.queries, k)
    best = -np.inf, tried[0]
    for number, (name, strength) in enumerate(tried, 1):
        after = chooser.measure(_moved(adapter, chooser.queries, moves[name], strength), k, metric)
        gain = after[metric] - before[metric]
        promise, likely = float(gain.mean()), _likelihood(gain, n_judges, _SHOWN)
        if metric == "lift":  # a map away from all that was shown gains in lift, but loses what was clicked
            gain = after["alike"] - before["alike"]
            promise, likely = promise + float(gain.mean()), likely * _likelihood(gain, n_judges, 0.0)
        promise *= likely if promise > 0 else 1.0
        best = max(best, (promise, (name, strength)), key=lambda pair: pair[0])
        progress.advance("choosing", number, len(tried))
    name, strength = best[1]
    after = chooser.score(_moved(adapter, chooser.queries, moves[name], strength), k)
    return name, strength, {measure: float((after[measure] - before[measure]).std()) for measure in before}


def _likelihood(gain: Array, n_judges: int, shown: float) -> float:
    """Return about how likely the mean of as many other gains is that many errors above 0."""
    error, ratio = max(float(gain.std()), 1e-9) / np.sqrt(len(gain)), n_judges / len(gain)
    return float(norm.cdf((gain.mean() / error * np.sqrt(ratio) - shown) / np.sqrt(1.0 + ratio)))


def _split_by_time(feedback: Feedback, tests: Mask, test_from: Any) -> tuple[Feedback, dict[str, int]]:
    """Return lists from a time on of queries that test, and those before it of all others; and how many are neither."""
    begin = float(parse_times([test_from])[0])
    if not np.isfinite(begin):
        raise InputError(f"`test_from` must be a time, as in 2026-03-01; got {test_from!r}.", owner="adapt")
    if feedback.time is None:
        raise InputError("{test} needs times, but the feedback has none.", owner="adapt", test=Option("test_from"))
    is_late, is_test = feedback.time >= begin, tests[feedback.query]
    counts = {
        "list of a test query before the split": int(np.count_nonzero(is_test & ~is_late)),
        "list of another query after the split": int(np.count_nonzero(~is_test & is_late)),
    }
    if not (is_test & is_late).any() or not (~is_test & ~is_late).any():
        side = "before" if is_late.all() or not (~is_test & ~is_late).any() else "from then on"
        problem = f"the split at {test_from!r} leaves nothing {side}; choose another time."
        raise InputError(problem, owner="feedback")
    return feedback.select(is_test == is_late), {reason: n for reason, n in counts.items() if n}


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
            "{row} is a zero vector, which has no direction, but has feedback. Correct it; {skip} skips and counts "
            "such feedback.",
            place="queries" if is_query else "items",
            row=Row(query if is_query else found[is_zero_item[found]][0]), skip=Option("bad", "skip"),
        )  # fmt: skip
    if unusable.all():
        raise InputError("every list holds a zero vector; there is nothing to learn from.", owner="feedback")
    return feedback.select(~unusable), {"zero vector": int(unusable.sum())}
