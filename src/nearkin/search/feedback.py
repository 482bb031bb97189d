"""Feedback about results, in three forms that become one: lists of items, some of them clicked.

A triplet (query, clicked, skipped) is a list of two. Judgements (query, item, relevant?) are one list per query, in no
order. An impression is a list in the order in which a user saw it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nearkin.arrays import Index, Mask
from nearkin.errors import InputError, Option, Row, placed_at, quote_names
from nearkin.labels import first_appearance
from nearkin.memory import check_memory
from nearkin.search.inputs import Log, as_ids
from nearkin.tables import open_table

__all__ = ["FORMS", "PAIR_BYTES", "Feedback", "FeedbackTriplets", "read_feedback"]

#: Most bytes that it takes to draw one random item.
PAIR_BYTES = 100.0

#: Columns of each form of feedback; ``rank`` may be missing.
FORMS = {
    "triplets": ("query", "clicked", "skipped"),
    "impressions": ("impression", "query", "item", "clicked", "rank"),
    "judgements": ("query", "item", "relevant"),
}
_OPTIONAL = {"rank"}

#: Longest list whose pairs are all formed; most pairs formed at once.
_LONG = 64
_PAIRS = 1 << 22

#: Number of a list, its clicked item and the skipped one, of every pair.
Pairs = tuple[Index, Index, Index]


class FeedbackTriplets(NamedTuple):
    """Triplets by number: query ``query[t]`` prefers item ``positive[t]`` to item ``negative[t]``."""

    query: Index
    positive: Index
    negative: Index


@dataclass(frozen=True)
class Feedback:
    """Lists of items that were shown or judged; queries and items are row numbers of their vectors.

    `from_triplets`, `from_judgements` and `from_impressions` make it from columns of ids, one row per entry. They take

    * ``query_ids``, ``item_ids``: ids of all queries and items in the order of their vectors; a number stands for
      0, 1, 2, ...
    * ``bad`` ("raise" or "skip"): what to do with unknown ids, and with rows or lists that teach nothing;
    * ``duplicates`` ("raise", "skip" or "keep"): what to do with rows that repeat an earlier one.

    `skipped` counts what was left out.

    Parameters
    ----------
    query : ndarray of int64 of shape (n_lists,)
        Query of each list.
    start : ndarray of int64 of shape (n_lists + 1,)
        List i has the rows ``start[i]:start[i + 1]``.
    item : ndarray of int64 of shape (n_rows,)
        Item of each row.
    relevant : ndarray of bool of shape (n_rows,)
        Whether it was clicked, or judged relevant.
    form : {"triplets", "judgements", "impressions"}
        What it was made of.
    n_items : int
        Number of items.
    skipped : dict of str to int
        Number of rows left out, by reason.

    Examples
    --------
    >>> feedback = Feedback.from_triplets(["q1", "q2"], [10, 30], [20, 10], query_ids=["q1", "q2"],
    ...                                   item_ids=[10, 20, 30])
    >>> feedback.triplets(np.random.default_rng(0), n_random=0)
    FeedbackTriplets(query=array([0, 1]), positive=array([0, 2]), negative=array([1, 0]))
    """

    query: Index
    start: Index
    item: Index
    relevant: Mask
    form: str
    n_items: int
    skipped: dict[str, int] = field(default_factory=dict)

    # ------------------------------------------------------------------ the three forms

    @classmethod
    def from_triplets(
        cls, query: ArrayLike, clicked: ArrayLike, skipped: ArrayLike, *, query_ids: ArrayLike | int,
        item_ids: ArrayLike | int, bad: str = "raise", duplicates: str = "keep",
    ) -> Feedback:  # fmt: skip
        """Make lists of two: a query, an item that was right for it and one that was not, in order of time.

        A triplet of the same item twice is bad. Two users may well agree, so repeated triplets are kept by default.
        """
        log = Log(query_ids, item_ids, bad, duplicates, query=query, clicked=clicked, skipped=skipped)
        q, p, n = log.find("query"), log.find("clicked"), log.find("skipped")
        log.drop(p == n, "the clicked item is the skipped one", "same item")
        log.drop_repeated(q, p, n)
        q, p, n = q[log.kept], p[log.kept], n[log.kept]
        item = np.column_stack([n, p]).ravel()  # the skipped one stood above
        relevant = np.tile(np.array([False, True]), len(q))
        return cls(q, 2 * np.arange(len(q) + 1), item, relevant, "triplets", len(log.items), log.skipped)

    @classmethod
    def from_judgements(
        cls, query: ArrayLike, item: ArrayLike, relevant: ArrayLike, *, query_ids: ArrayLike | int,
        item_ids: ArrayLike | int, bad: str = "raise", duplicates: str = "raise",
    ) -> Feedback:  # fmt: skip
        """Make one list per query from judged pairs, in order of appearance; ``relevant`` is true or false, 1 or 0.

        A query without a relevant item is bad; a pair counts as repeated whatever its judgement.
        """
        log = Log(query_ids, item_ids, bad, duplicates, query=query, item=item, relevant=relevant)
        q, i, r = log.find("query"), log.find("item"), log.flags("relevant")
        log.drop_repeated(q, i)
        _, group = first_appearance(q)
        return cls._from_lists(log, (q, i, r), group, np.arange(len(q)), "judgements", "query without relevant item")

    @classmethod
    def from_impressions(
        cls, impression: ArrayLike, query: ArrayLike, item: ArrayLike, clicked: ArrayLike,
        rank: ArrayLike | None = None, *, query_ids: ArrayLike | int, item_ids: ArrayLike | int, bad: str = "raise",
        duplicates: str = "raise",
    ) -> Feedback:  # fmt: skip
        """Make one list per impression from ranked results with clicks, one row per item that was shown.

        ``impression`` (whole numbers or text) says which list a row belongs to; all its rows have the same query.
        ``clicked`` is true or false, 1 or 0. ``rank`` is the position, smallest at the top; None takes rows in their
        order. An impression without a click is bad; an item that occurs again in its impression is repeated.
        """
        ranks = {} if rank is None else {"rank": rank}
        rows = {"impression": impression, "query": query, "item": item, "clicked": clicked}
        log = Log(query_ids, item_ids, bad, duplicates, **rows, **ranks)
        _, group = first_appearance(as_ids(log.columns["impression"], "impression"))
        first = np.unique(group, return_index=True)[1]
        q, i, r = log.find("query"), log.find("item"), log.flags("clicked")
        other = np.flatnonzero(q != q[first[group]])
        if len(other):
            begin = first[group[other[0]]]
            problem = (
                f"{{row}} has the query {log.value('query', other[0])!r}, but its impression "
                f"{log.value('impression', begin)!r} began with {log.value('query', begin)!r}; an impression has one "
                "query."
            )
            raise InputError(problem, owner="feedback", row=Row(other[0]))
        log.drop_repeated(group, i)
        position = log.whole_numbers("rank") if rank is not None else np.arange(len(q))
        return cls._from_lists(log, (q, i, r), group, position, "impressions", "impression without a click")

    @classmethod
    def _from_lists(
        cls, log: Log, rows: tuple[Index, Index, Mask], group: Index, position: Index, form: str, reason: str
    ) -> Feedback:
        """Sort rows into lists; a list without a click is dropped for ``reason``."""
        query, item, relevant = rows
        hits = np.bincount(group[log.kept], weights=relevant[log.kept], minlength=int(group.max(initial=-1)) + 1)
        log.drop(hits[group] == 0, f"{reason}: nothing can be learned from it", reason, group)
        kept = np.flatnonzero(log.kept)
        order = kept[np.lexsort((position[kept], group[kept]))]
        _, start = np.unique(group[order], return_index=True)
        start = np.append(start, len(order)).astype(np.int64)
        query = query[order[start[:-1]]]
        return cls(query, start, item[order], relevant[order], form, len(log.items), log.skipped)

    # ------------------------------------------------------------------ what it is used for

    def __len__(self) -> int:
        return len(self.query)

    @property
    def ranked(self) -> bool:
        """Whether lists are in the order in which they were shown.

        Then a click says that the item is better than those skipped above it and than the next one below.
        """
        return self.form != "judgements"

    @property
    def row_query(self) -> Index:
        """Query of every row."""
        return np.repeat(self.query, np.diff(self.start))

    def triplets(self, rng: np.random.Generator, *, n_random: int = 1, max_pairs: int = 20) -> FeedbackTriplets:
        """Return triplets to learn from, list after list in order of time; for the options see `adapt`.

        Without random items only those that were shown are compared, and what is learned need not hold among all the
        others.
        """
        none = np.empty(0, np.int64)
        found = [(none, none, none), *_pair_within_lists(self, rng, max_pairs)]
        if n_random:
            found.append(_pair_with_random(self, rng, n_random))
        at, positive, negative = (np.concatenate(parts) for parts in zip(*found, strict=True))
        order = np.argsort(at, kind="stable")
        return FeedbackTriplets(self.query[at[order]], positive[order], negative[order])

    def judgements(self) -> tuple[Index, Index, Mask]:
        """Return pairs of a query and an item, sorted, and whether it was clicked at least as often as usual.

        Usual is the mean of all items shown for the query, so that more feedback does not make fewer items relevant.
        """
        key, number = np.unique(self.row_query * self.n_items + self.item, return_inverse=True)
        shown, clicks = np.bincount(number), np.bincount(number, weights=self.relevant)
        _, query = np.unique(key // self.n_items, return_inverse=True)
        usual = np.bincount(query, clicks) / np.bincount(query, shown)
        is_relevant = (clicks > 0) & (clicks >= shown * usual[query] * (1.0 - 1e-9))
        return key // self.n_items, key % self.n_items, is_relevant

    def split(self, share: float, rng: np.random.Generator) -> tuple[Feedback, Feedback]:
        """Return the feedback to learn from and that of a random share of the queries, which is held out."""
        queries = np.unique(self.query)
        n_held = round(share * len(queries))
        if not 0 < n_held < len(queries):
            raise InputError(
                f"{share:g} of {len(queries)} queries with feedback cannot be held out while others remain to learn "
                "from; give more queries, or another share.",
                owner="feedback",
            )
        held = np.zeros(int(self.query.max()) + 1, dtype=bool)
        held[rng.permutation(queries)[:n_held]] = True
        return self.select(~held[self.query]), self.select(held[self.query])

    def select(self, lists: Mask) -> Feedback:
        """Return the feedback of some of the lists."""
        lengths = np.diff(self.start)
        rows = np.repeat(lists, lengths)
        start = np.concatenate([[0], np.cumsum(lengths[lists])])
        kept = self.item[rows], self.relevant[rows]
        return Feedback(self.query[lists], start, *kept, self.form, self.n_items, self.skipped)


# ---------------------------------------------------------------------- comparisons that a list implies


def _pair_within_lists(feedback: Feedback, rng: np.random.Generator, most: int) -> Iterator[Pairs]:
    """Yield pairs of a clicked and a skipped item of the same list, at most ``most`` per list."""
    lengths = np.diff(feedback.start)
    for length in np.unique(lengths[lengths <= _LONG]):
        same = np.flatnonzero(lengths == length)
        step = max(1, _PAIRS // max(1, int(length) ** 2))
        for begin in range(0, len(same), step):
            yield _pair_equally_long(feedback, same[begin : begin + step], int(length), rng, most)
    for one in np.flatnonzero(lengths > _LONG):
        yield _draw_from_long(feedback, int(one), rng, most)


def _pair_equally_long(
    feedback: Feedback, lists: Index, length: int, rng: np.random.Generator, most: int
) -> Pairs:  # fmt: skip
    rows = feedback.start[lists][:, None] + np.arange(length)
    relevant = feedback.relevant[rows]
    allowed = relevant[:, :, None] & ~relevant[:, None, :]
    if feedback.ranked:
        above = np.tri(length, k=-1, dtype=bool)
        n_skipped = np.cumsum(~relevant, axis=1)  # the next skipped item raises the count by one
        following = (n_skipped[:, None, :] == n_skipped[:, :, None] + 1) & ~above
        allowed &= above | following
    at, better, worse = np.nonzero(allowed)
    if len(at) and np.bincount(at).max() > most:
        shuffled = np.lexsort((rng.random(len(at)), at))
        begin = np.concatenate([[0], np.cumsum(np.bincount(at))])
        first = np.arange(len(at)) - begin[at] < most  # `at` is sorted, and so is at[shuffled]
        chosen = np.sort(shuffled[first])
        at, better, worse = at[chosen], better[chosen], worse[chosen]
    return lists[at], feedback.item[rows[at, better]], feedback.item[rows[at, worse]]


def _draw_from_long(feedback: Feedback, at: int, rng: np.random.Generator, most: int) -> Pairs:
    rows = np.arange(feedback.start[at], feedback.start[at + 1])
    clicked, other = rows[feedback.relevant[rows]], rows[~feedback.relevant[rows]]
    if feedback.ranked:  # users have surely seen only what stands above the last click
        other = other[other < clicked[-1]]
    drawn = rng.integers(0, len(clicked) * len(other), size=most) if len(other) else np.empty(0, np.int64)
    better, worse = clicked[drawn // max(1, len(other))], other[drawn % max(1, len(other))]
    if feedback.ranked:
        better, worse = better[worse < better], worse[worse < better]
    return np.full(len(better), at, dtype=np.int64), feedback.item[better], feedback.item[worse]


def _pair_with_random(feedback: Feedback, rng: np.random.Generator, n_random: int) -> Pairs:
    """Pair every click with ``n_random`` random items, except those that some list calls relevant to the query."""
    clicks = np.flatnonzero(feedback.relevant)
    what = f"{n_random:,} random items for {len(clicks):,} clicks"
    check_memory(PAIR_BYTES * len(clicks) * n_random, what, "Lower `n_random`.", "feedback")
    rows = np.repeat(clicks, n_random)
    drawn = rng.integers(0, feedback.n_items, size=len(rows))
    query = feedback.row_query
    known = np.unique(query[clicks] * feedback.n_items + feedback.item[clicks])
    key = query[rows] * feedback.n_items + drawn
    sound = known[np.minimum(np.searchsorted(known, key), len(known) - 1)] != key
    at = np.repeat(np.arange(len(feedback)), np.diff(feedback.start))[rows]
    return at[sound], feedback.item[rows[sound]], drawn[sound]


# ---------------------------------------------------------------------- from files


def read_feedback(
    path: str | os.PathLike[str], *, query_ids: ArrayLike | int, item_ids: ArrayLike | int, form: str = "auto",
    column: Mapping[str, str] | None = None, bad: str = "raise", duplicates: str | None = None,
) -> Feedback:  # fmt: skip
    r"""Read a log of feedback.

    Parameters
    ----------
    path : path-like
        CSV, Parquet or npz file.
    query_ids, item_ids : array-like or int
        Ids of all queries and items in the order of their vectors; a number stands for 0, 1, 2, ...
    form : {"auto", "triplets", "judgements", "impressions"}, default="auto"
        What a row says; "auto" tells by the columns. They are named after the arguments of `Feedback.from_triplets`,
        `Feedback.from_judgements` and `Feedback.from_impressions`.
    column : mapping of str to str or None, default=None
        Names of columns in the file, where they are called otherwise there.
    bad, duplicates : str
        As in those functions; None for ``duplicates`` takes the default of the form.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "clicks.csv"
    ...     _ = path.write_text("who,clicked,skipped\n0,2,1\n1,0,2\n")
    ...     read_feedback(path, query_ids=2, item_ids=3, column={"query": "who"}).form
    'triplets'
    """
    names = dict(column or {})
    roles = {role for columns in FORMS.values() for role in columns}
    for role in names:
        if role not in roles:
            raise InputError(f"{role!r} is not a column of feedback; the columns are {quote_names(sorted(roles))}.")
    options: dict[str, Any] = {} if duplicates is None else {"duplicates": duplicates}
    table = open_table(Path(path))
    held = {role: names.get(role, role) for role in roles if names.get(role, role) in table.names}
    with placed_at(path):
        form = _recognise_form(form, held, table.names)
    for role in FORMS[form]:
        if role in held:
            options[role], missing = table.labels(held[role])
            if missing.any():
                problem = f"column {held[role]!r} holds nothing in {{row}}."
                raise InputError(problem, place=str(path), row=Row(missing.argmax()))
    with placed_at(path):
        return getattr(Feedback, f"from_{form}")(**options, query_ids=query_ids, item_ids=item_ids, bad=bad)


def _recognise_form(form: str, held: Collection[str], names: Collection[str]) -> str:
    for one in FORMS if form == "auto" else (form,):
        if not {*FORMS[one]} - {*held} - _OPTIONAL:
            return one
    if not names:
        raise InputError("the array has no name; feedback needs named columns: CSV, Parquet or npz.")
    if form == "auto":
        forms = "; ".join(f"{one}: {', '.join(columns)}" for one, columns in FORMS.items())
        needed = f"fit no form of feedback. The forms are {forms}"
    else:
        needed = f"do not fit {form}, which need {', '.join(FORMS[form])}"
    problem = f"the columns {quote_names(names)} {needed}. Rename columns, or say which is which with {{column}}."
    raise InputError(problem, column=Option("column"))
