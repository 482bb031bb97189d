"""Feedback about results, in five forms that become one: lists of items, some of them clicked.

A triplet (query, clicked, skipped) is a list of two. Judgements (query, item, relevant?) are one list per query, in no
order. An impression is a list in the order in which a user saw it, given item by item or as a whole. A click of which
nothing else is known is a list of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nearkin.arrays import Array, Index, Mask
from nearkin.errors import InputError, Option, Row
from nearkin.labels import first_appearance
from nearkin.search.inputs import Log, Tally, as_ids
from nearkin.search.pairing import pair_with_random, pair_within_lists

__all__ = ["Entries", "Feedback", "FeedbackTriplets", "arrange", "mark_clicks"]

#: Why rows are joined to an earlier one.
_REPEATED, _CONTRADICTING = "duplicate", "duplicate that contradicts (the largest grade counts)"


class FeedbackTriplets(NamedTuple):
    """Triplets by number: query ``query[t]`` prefers item ``positive[t]`` to item ``negative[t]``."""

    query: Index
    positive: Index
    negative: Index


@dataclass(frozen=True)
class Feedback:
    """Lists of items that were shown or judged; queries and items are row numbers of their vectors.

    `from_triplets`, `from_judgements`, `from_impressions` and `from_clicks` make it from columns of ids, one row per
    entry, and `from_lists` from lists. They take

    * ``query_ids``, ``item_ids``: ids of all queries and items in the order of their vectors; a number stands for
      0, 1, 2, ...
    * ``bad`` ("raise" or "skip"): what to do with unknown ids and other rows that cannot be used;
    * ``duplicates`` ("raise", "skip" or "keep"): what to do with rows that repeat an earlier one.

    `skipped` counts what was left out. ``relevant`` and ``clicked`` are true or false, 1 or 0, or grades: if any is
    neither 0 nor 1, a grade g counts as ``1 - 2 ** -g`` of a click. A list without a click stays: it says what was
    shown.

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
    form : {"triplets", "judgements", "impressions", "clicks"}
        What it was made of.
    n_items : int
        Number of items.
    skipped : dict of str to int
        Number of rows left out, by reason.
    worth : ndarray of shape (n_rows,) or None, default=None
        What each click counts, in (0, 1], and 0 for all other rows; None if every click counts the same.
    time : ndarray of shape (n_lists,) or None, default=None
        When each list was shown, in seconds since 1970, if that is known.
    first_skipped : dict of str to str
        Where the first row stands that was left out, by reason.
    share : float, default=1.0
        Share of the lists of a log that was too long to be held.

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
    worth: Array | None = None
    time: Array | None = None
    first_skipped: dict[str, str] = field(default_factory=dict)
    share: float = 1.0

    # ------------------------------------------------------------------ the five forms

    @classmethod
    def from_triplets(
        cls, query: ArrayLike, clicked: ArrayLike, skipped: ArrayLike, *, query_ids: ArrayLike | int,
        item_ids: ArrayLike | int, bad: str = "raise", duplicates: str = "keep",
    ) -> Feedback:  # fmt: skip
        """Make lists of two: a query, an item that was right for it and one that was not, in order of time.

        A triplet of the same item twice is bad. Two users may well agree, so repeated triplets are kept by default.
        """
        log = Log.of_arrays(query_ids, item_ids, bad, duplicates, query=query, clicked=clicked, skipped=skipped)
        found = Entries.from_triplets(log, 0)
        return arrange(found, "triplets", len(log.items), duplicates, log.tally)

    @classmethod
    def from_judgements(
        cls, query: ArrayLike, item: ArrayLike, relevant: ArrayLike, *, query_ids: ArrayLike | int,
        item_ids: ArrayLike | int, bad: str = "raise", duplicates: str = "raise",
    ) -> Feedback:  # fmt: skip
        """Make one list per query from judged pairs, in order of appearance.

        A pair counts as repeated whatever its judgement; with ``duplicates="skip"`` its largest grade holds, and
        `skipped` counts apart how many repeats are of pairs whose judgements contradict each other.
        """
        log = Log.of_arrays(query_ids, item_ids, bad, duplicates, query=query, item=item, relevant=relevant)
        return arrange(Entries.from_judgements(log), "judgements", len(log.items), duplicates, log.tally)

    @classmethod
    def from_impressions(
        cls, impression: ArrayLike, query: ArrayLike, item: ArrayLike, clicked: ArrayLike,
        rank: ArrayLike | None = None, *, query_ids: ArrayLike | int, item_ids: ArrayLike | int, bad: str = "raise",
        duplicates: str = "raise", time: ArrayLike | None = None,
    ) -> Feedback:  # fmt: skip
        """Make one list per impression from ranked results with clicks, one row per item that was shown.

        ``impression`` (whole numbers or text) says which list a row belongs to; all its rows have the same query.
        ``rank`` is the position, smallest at the top; None takes rows in their order. ``time`` is when it was shown
        (see `parse_times`). An item that occurs again in its impression is repeated; with ``duplicates="skip"`` it
        counts as clicked if any of its rows says so.
        """
        log = Log.of_arrays(
            query_ids, item_ids, bad, duplicates, impression=impression, query=query, item=item, clicked=clicked,
            rank=rank, time=time,
        )  # fmt: skip
        _, group = first_appearance(as_ids(log.columns["impression"], "impression"))
        q = log.find("query")
        found = Entries.from_rows(log, group, q)
        used = np.flatnonzero(log.kept)
        _, first, number = np.unique(group[used], return_index=True, return_inverse=True)
        begins = used[first[number]]
        differs = q[used] != q[begins]
        if differs.any():
            other, begin = used[differs][0], begins[differs][0]
            problem = (
                f"{{row}} has the query {log.value('query', other)!r}, but its impression "
                f"{log.value('impression', begin)!r} began with {log.value('query', begin)!r}; an impression has one "
                "query."
            )
            raise InputError(problem, owner="feedback", row=Row(other))
        return arrange(found, "impressions", len(log.items), duplicates, log.tally)

    @classmethod
    def from_clicks(
        cls, query: ArrayLike, item: ArrayLike, *, query_ids: ArrayLike | int, item_ids: ArrayLike | int,
        clicked: ArrayLike | None = None, bad: str = "raise", duplicates: str = "keep", time: ArrayLike | None = None,
    ) -> Feedback:  # fmt: skip
        """Make one list per click from clicks alone, without what else was shown; ``clicked`` may hold grades.

        Clicks are compared with random items and with the clicks of other queries only.

        Examples
        --------
        >>> len(Feedback.from_clicks([0, 1, 1], [2, 0, 0], query_ids=2, item_ids=3))
        3
        """
        log = Log.of_arrays(query_ids, item_ids, bad, duplicates, query=query, item=item, clicked=clicked, time=time)
        found = Entries.from_rows(log, np.arange(log.n_rows), log.find("query"))
        return arrange(found, "clicks", len(log.items), duplicates, log.tally)

    @classmethod
    def from_lists(
        cls, query: ArrayLike, items: Sequence[Sequence[Any]], clicks: Sequence[Sequence[Any]], *,
        query_ids: ArrayLike | int, item_ids: ArrayLike | int, clicks_as: str = "ids", bad: str = "raise",
        time: ArrayLike | None = None,
    ) -> Feedback:  # fmt: skip
        """Make impressions of lists: the items that each query was shown, from the top, and those that were clicked.

        ``clicks_as`` says how ``clicks`` names them: "ids", "positions" (from 1), "positions0" (from 0), or "flags",
        a number for every item. An item that occurs again in its list counts once.

        Examples
        --------
        >>> shown = [["a", "b", "c"], ["c", "a"]]
        >>> Feedback.from_lists([0, 1], shown, [["b"], []], query_ids=2, item_ids=["a", "b", "c"]).relevant.tolist()
        [False, True, False, False, False]
        """
        lengths = np.array([len(one) for one in items], dtype=np.int64)
        number = np.repeat(np.arange(len(lengths)), lengths)
        flags = [mark_clicks(shown, clicked, clicks_as) for shown, clicked in zip(items, clicks, strict=True)]
        wrong = next((row for row, one in enumerate(flags) if one is None), None)
        if wrong is not None:
            problem = f"{{row}}: clicks {clicks[wrong]!r} do not fit the items as {clicks_as}."
            raise InputError(problem, owner="feedback", row=Row(wrong))
        flat = {"item": [one for shown in items for one in shown], "clicked": [x for one in flags for x in one or ()]}
        more = {} if time is None else {"time": np.asarray(time)[number]}
        return cls.from_impressions(
            number, np.asarray(query)[number], flat["item"], flat["clicked"], query_ids=query_ids, item_ids=item_ids,
            bad=bad, duplicates="skip", **more,
        )  # fmt: skip

    # ------------------------------------------------------------------ what it is used for

    def __len__(self) -> int:
        return len(self.query)

    @property
    def row_worth(self) -> Array:
        """What every row counts: 1 for a click and 0 for none, unless clicks have grades."""
        return self.relevant.astype(np.float64) if self.worth is None else self.worth.astype(np.float64)

    @property
    def n_clicks(self) -> int:
        """Number of clicks."""
        return int(np.count_nonzero(self.relevant))

    @property
    def n_without_click(self) -> int:
        """Number of lists in which nothing was clicked."""
        clicks = np.concatenate([[0], np.cumsum(self.relevant)])
        return int(np.count_nonzero(np.diff(clicks[self.start]) == 0))

    @property
    def ranked(self) -> bool:
        """Whether lists are in the order in which they were shown.

        Then a click says that the item is better than those skipped above it and than the next one below.
        """
        return self.form in ("triplets", "impressions")

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
        found = [(none, none, none), *pair_within_lists(self, rng, max_pairs)]
        if n_random:
            found.append(pair_with_random(self, rng, n_random))
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
        return replace(
            self, query=self.query[lists], start=start, item=self.item[rows], relevant=self.relevant[rows],
            worth=None if self.worth is None else self.worth[rows],
            time=None if self.time is None else self.time[lists],
        )  # fmt: skip

    def without_clicks(self, rows: Mask) -> Feedback:
        """Return the feedback in which some rows were shown but not clicked."""
        worth = None if self.worth is None else np.where(rows, 0.0, self.worth)
        return replace(self, relevant=self.relevant & ~rows, worth=worth)


# ---------------------------------------------------------------------- from rows to lists


@dataclass
class Entries:
    """Rows of feedback by number, in the order of the log: the list that a row belongs to, its query and its item.

    ``grade`` is above 0 for a click. ``rank`` (None: as they come), ``time`` (None: unknown) and ``row``, the number in
    the file, are of every row too. Lists have any numbers.
    """

    group: Index
    query: Index
    item: Index
    grade: Array
    rank: Index | None = None
    time: Array | None = None
    row: Index | None = None

    @classmethod
    def from_triplets(cls, log: Log, first: int) -> Entries:
        """Make two rows of every triplet, the skipped item above the clicked one; lists count from ``first``."""
        q, p, n = log.find("query"), log.find("clicked"), log.find("skipped")
        log.drop(p == n, "the clicked item is the skipped one", "same item")
        kept = log.check()
        item = np.column_stack([n[kept], p[kept]]).ravel()
        grade = np.tile(np.array([0.0, 1.0]), int(kept.sum()))
        group = first + np.flatnonzero(kept)
        return cls(np.repeat(group, 2), np.repeat(q[kept], 2), item, grade, row=np.repeat(log.rows[kept], 2))

    @classmethod
    def from_judgements(cls, log: Log) -> Entries:
        """Make a list of the rows of every query."""
        q, i, grade = log.find("query"), log.find("item"), log.grades("relevant")
        kept = log.check()
        return cls(q[kept], q[kept], i[kept], grade[kept], row=log.rows[kept])

    @classmethod
    def from_rows(cls, log: Log, group: Index, query: Index, grade: Array | None = None) -> Entries:
        """Take rows of impressions or clicks, whose lists and queries are known."""
        i = log.find("item")
        if grade is None:
            grade = log.grades("clicked") if "clicked" in log.columns else np.ones(log.n_rows)
        rank = log.ranks("rank") if "rank" in log.columns else None
        time = log.times("time") if "time" in log.columns else None
        kept = log.check()
        return cls(
            group[kept], query[kept], i[kept], grade[kept], None if rank is None else rank[kept],
            None if time is None else time[kept], log.rows[kept],
        )  # fmt: skip


def arrange(found: Entries, form: str, n_items: int, duplicates: str, tally: Tally, *, grade: str = "auto") -> Feedback:
    """Sort rows into lists.

    ``grade`` says what the grades are: "grade", of which g counts as ``1 - 2 ** -g`` of a click, "share" of a click, or
    "auto", which takes them for grades if any is neither 0 nor 1.
    """
    number = found.group = _number_lists(found.group)  # the hashes of a long log are many bytes
    if form == "triplets":
        found, number = _drop_repeated_triplets(found, number, duplicates, tally)
    else:
        key = (found.query if form == "clicks" else number).astype(np.int64)
        key *= n_items
        key += found.item
        found, number = _drop_repeated(found, number, key, form, duplicates, tally)
        del key
    order = _order_rows(number, found.rank)
    number = number[order]
    start = np.flatnonzero(np.concatenate([[True], number[1:] != number[:-1]])) if len(number) else number
    grades = found.grade[order]
    worth = None
    if grade != "auto" or ((grades != 0.0) & (grades != 1.0)).any():
        worth = grades if grade == "share" else 1.0 - np.exp2(-grades.astype(np.float64))
    time = None
    if found.time is not None and len(start):
        time = np.minimum.reduceat(found.time[order], start)
    return Feedback(
        found.query[order][start].astype(np.int64), np.append(start, len(number)).astype(np.int64),
        found.item[order].astype(np.int64), grades > 0, form, n_items, tally.counts, worth, time, tally.first,
    )  # fmt: skip


def _number_lists(group: Index) -> Index:
    """Number lists by their first appearance. Most rows of a list stand together, so that runs of rows are few."""
    begins = np.ones(len(group), dtype=bool)
    begins[1:] = group[1:] != group[:-1]
    _, of_run = first_appearance(group[begins])
    small = np.int32 if len(group) < 2**31 else np.int64
    run = np.cumsum(begins, dtype=small)
    return of_run.astype(small)[np.subtract(run, 1, out=run)]


def _order_rows(number: Index, rank: Index | None) -> Index | slice:
    """Return the order of rows by list and rank; most logs have it."""
    is_sorted = bool((number[1:] >= number[:-1]).all())
    if is_sorted and (rank is None or bool(((number[1:] > number[:-1]) | (rank[1:] >= rank[:-1])).all())):
        return slice(None)
    return np.lexsort((number,) if rank is None else (rank, number))


def _drop_repeated_triplets(
    found: Entries, number: Index, duplicates: str, tally: Tally
) -> tuple[Entries, Index]:  # fmt: skip
    if duplicates == "keep":
        return found, number
    pairs = found.item.reshape(-1, 2)
    _, both = np.unique(np.column_stack([found.query[::2], pairs]), axis=0, return_inverse=True)
    return _drop_repeated(found, number, np.repeat(both.ravel(), 2) * 2 + np.arange(2 * len(pairs)) % 2, "triplets",
                          duplicates, tally)  # fmt: skip


def _drop_repeated(
    found: Entries, number: Index, key: Index, form: str, duplicates: str, tally: Tally
) -> tuple[Entries, Index]:
    """Join and count, keep, or refuse rows whose key occurs in an earlier row; of joined rows the largest grade holds.

    A list that shows an item and then tells of its click does not contradict itself; two judgements of one pair are.
    """
    if duplicates == "keep":
        return found, number
    ordered = np.sort(key)
    if not (ordered[1:] == ordered[:-1]).any():
        return found, number
    order = np.argsort(key, kind="stable")
    again = key[order[1:]] == key[order[:-1]]
    repeated = order[1:][again]
    n_repeated = len(repeated) // 2 if form == "triplets" else len(repeated)
    if duplicates == "raise":
        first = int(repeated.min() if found.row is None else found.row[repeated].min())
        raise InputError(
            f"{{row}} repeats an earlier one ({n_repeated:,} of {len(key):,} rows). Skip and count such rows with "
            "{skip}, or let each of them count with {keep}.",
            owner="feedback", row=Row(first), skip=Option("duplicates", "skip"), keep=Option("duplicates", "keep"),
        )  # fmt: skip
    begin = np.flatnonzero(np.concatenate([[True], ~again]))
    grade, given = found.grade.copy(), found.grade[order]
    grade[order[begin]] = largest = np.maximum.reduceat(given, begin)
    if form == "judgements":
        differ = np.repeat(largest > np.minimum.reduceat(given, begin), np.diff(np.append(begin, len(key))))
        contradicting = order[1:][again & differ[1:]]
        _count_joined(found, contradicting, len(contradicting), _CONTRADICTING, tally)
        repeated_alike = order[1:][again & ~differ[1:]]
        _count_joined(found, repeated_alike, len(repeated_alike), _REPEATED, tally)
    else:
        _count_joined(found, repeated, n_repeated, _REPEATED, tally)
    kept = np.ones(len(key), dtype=bool)
    kept[repeated] = False
    parts = {name: None if (one := getattr(found, name)) is None else one[kept] for name in ("rank", "time", "row")}
    return Entries(found.group[kept], found.query[kept], found.item[kept], grade[kept], **parts), number[kept]


def _count_joined(found: Entries, rows: Index, count: int, reason: str, tally: Tally) -> None:
    if count:
        tally.add(reason, count, "" if found.row is None else tally.name_row(int(found.row[rows].min())))


def mark_clicks(shown: Sequence[Any], clicked: Sequence[Any], clicks_as: str) -> list[float] | None:
    """Return a number for every item shown, above 0 for clicked ones; None if ``clicked`` does not fit.

    ``clicks_as`` is as in `Feedback.from_lists`.
    """
    flags = [0.0] * len(shown)
    try:
        if clicks_as == "flags":
            return [float(one or 0) for one in clicked] if len(clicked) == len(shown) else None
        if clicks_as == "ids":
            place = {str(one): at for at, one in reversed(list(enumerate(shown)))}
            for one in clicked:
                flags[place[str(one)]] = 1.0
            return flags
        first = 0 if clicks_as == "positions0" else 1
        for one in clicked:
            at = int(one) - first
            if not 0 <= at < len(shown) or float(one) != int(one):
                return None
            flags[at] = 1.0
    except (KeyError, TypeError, ValueError):
        return None
    return flags
