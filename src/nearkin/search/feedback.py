"""What users said about results, in three forms, made one: lists of items that were shown, some of them clicked.

A triplet (query, clicked, skipped) is a list of two. Judgements (query, item, relevant?) are one list per query,
without an order. An impression is a list in the order in which it was shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.search.vectors import Places, as_ids

__all__ = ["Feedback", "FeedbackTriplets"]

Index = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: Longest list whose pairs are looked at all at once, and most pairs that are looked at together.
_LONG = 64
_PAIRS = 1 << 22


class FeedbackTriplets(NamedTuple):
    """Triplets as places: query ``query[t]`` prefers item ``positive[t]`` to item ``negative[t]``.

    Parameters
    ----------
    query, positive, negative : ndarray of int64 of shape (n_triplets,)
        Places in the queries, the items and the items.

    Examples
    --------
    >>> FeedbackTriplets(np.array([0]), np.array([2]), np.array([1])).positive.tolist()
    [2]
    """

    query: Index
    positive: Index
    negative: Index


@dataclass(frozen=True)
class Feedback:
    """Lists of items that were shown or judged, by their places in the arrays of queries and items.

    Made by `from_triplets`, `from_judgements` or `from_impressions`, which check ids and rows. What they skip on
    request is counted in `skipped`.

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
    ranked : bool
        Whether the rows of a list stand in the order in which they were shown. Then a click says that the item is
        better than those skipped above it and than the next one below; the rest was perhaps never looked at.
    n_items : int
        How many items there are.
    skipped : dict of str to int
        What was left out, by reason.

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
    ranked: bool
    n_items: int
    skipped: dict[str, int] = field(default_factory=dict)

    # ------------------------------------------------------------------ the three forms

    @classmethod
    def from_triplets(
        cls,
        query: ArrayLike,
        clicked: ArrayLike,
        skipped: ArrayLike,
        *,
        query_ids: ArrayLike | int,
        item_ids: ArrayLike | int,
        bad: str = "raise",
        duplicates: str = "keep",
    ) -> Feedback:
        """Feedback from triplets of ids, in the order of time.

        Parameters
        ----------
        query, clicked, skipped : array-like of shape (n_triplets,)
            Ids of a query, of the item that was right for it and of one that was not.
        query_ids, item_ids : array-like or int
            Ids of all queries and items in the order of their vectors; a number stands for 0, 1, 2, ...
        bad : {"raise", "skip"}, default="raise"
            What to do with ids that are unknown and with triplets whose two items are one.
        duplicates : {"raise", "skip", "keep"}, default="keep"
            What to do with a triplet that came before. Two users may well agree, so they are kept.

        Returns
        -------
        Feedback
            Lists of two.
        """
        rows = _Rows(query_ids, item_ids, bad, duplicates, query=query, clicked=clicked, skipped=skipped)
        q, p, n = rows.places("query"), rows.places("clicked"), rows.places("skipped")
        rows.drop(p == n, "the clicked item is the skipped one", "same item")
        rows.drop_repeated((q, p, n))
        q, p, n = q[rows.kept], p[rows.kept], n[rows.kept]
        item = np.column_stack([n, p]).ravel()  # the skipped one stood above
        relevant = np.tile(np.array([False, True]), len(q))
        return cls(q, 2 * np.arange(len(q) + 1), item, relevant, True, rows.n_items, rows.counts)

    @classmethod
    def from_judgements(
        cls,
        query: ArrayLike,
        item: ArrayLike,
        relevant: ArrayLike,
        *,
        query_ids: ArrayLike | int,
        item_ids: ArrayLike | int,
        bad: str = "raise",
        duplicates: str = "raise",
    ) -> Feedback:
        """Feedback from judged pairs; all pairs of a query form one list.

        Parameters
        ----------
        query, item : array-like of shape (n_rows,)
            Ids.
        relevant : array-like of shape (n_rows,)
            Whether the item is right for the query: true or false, 1 or 0.
        query_ids, item_ids : array-like or int
            Ids of all queries and items in the order of their vectors; a number stands for 0, 1, 2, ...
        bad : {"raise", "skip"}, default="raise"
            What to do with ids that are unknown and with queries none of whose items is relevant.
        duplicates : {"raise", "skip", "keep"}, default="raise"
            What to do with a pair that came before, whatever it says.

        Returns
        -------
        Feedback
            One list per query, in the order in which the queries first appear.
        """
        rows = _Rows(query_ids, item_ids, bad, duplicates, query=query, item=item, relevant=relevant)
        q, i, r = rows.places("query"), rows.places("item"), rows.truth("relevant")
        rows.drop_repeated((q, i))
        _, group = _numbered(q)
        return cls._of_lists(rows, q, i, r, group, np.arange(len(q)), ranked=False, empty="query without relevant item")

    @classmethod
    def from_impressions(
        cls,
        impression: ArrayLike,
        query: ArrayLike,
        item: ArrayLike,
        clicked: ArrayLike,
        rank: ArrayLike | None = None,
        *,
        query_ids: ArrayLike | int,
        item_ids: ArrayLike | int,
        bad: str = "raise",
        duplicates: str = "raise",
    ) -> Feedback:
        """Feedback from ranked lists with clicks, one row per item that was shown.

        Parameters
        ----------
        impression : array-like of shape (n_rows,)
            Which list the row belongs to: whole numbers or text.
        query, item : array-like of shape (n_rows,)
            Ids; all rows of an impression have one query.
        clicked : array-like of shape (n_rows,)
            Whether the item was clicked: true or false, 1 or 0.
        rank : array-like of shape (n_rows,) or None, default=None
            Places in the list, the top one first; without them rows stand in their order.
        query_ids, item_ids : array-like or int
            Ids of all queries and items in the order of their vectors; a number stands for 0, 1, 2, ...
        bad : {"raise", "skip"}, default="raise"
            What to do with ids that are unknown and with impressions without a click.
        duplicates : {"raise", "skip", "keep"}, default="raise"
            What to do with an item that came before in the same impression.

        Returns
        -------
        Feedback
            One list per impression, in the order in which they first appear.
        """
        columns = {"impression": impression, "query": query, "item": item, "clicked": clicked}
        if rank is not None:
            columns["rank"] = rank
        rows = _Rows(query_ids, item_ids, bad, duplicates, **columns)
        shown, group = _numbered(as_ids(rows.columns["impression"], "impression"))
        q, i, r = rows.places("query"), rows.places("item"), rows.truth("clicked")
        first = np.full(len(shown), -1, dtype=np.int64)
        first[group[::-1]] = np.arange(len(group))[::-1]
        other, asked = np.flatnonzero(q != q[first[group]]), rows.columns["query"]
        if len(other):
            raise ValueError(
                f"feedback: row {other[0]} asks {_plain(asked[other[0]])!r}, but its impression "
                f"{_plain(shown[group[other[0]]])!r} began with {_plain(asked[first[group[other[0]]]])!r}; "
                "an impression has one query."
            )
        rows.drop_repeated((group, i))
        place = rows.whole("rank") if rank is not None else np.arange(len(q))
        return cls._of_lists(rows, q, i, r, group, place, ranked=True, empty="impression without a click")

    @classmethod
    def _of_lists(
        cls, rows: _Rows, q: Index, item: Index, relevant: Mask, group: Index, place: Index, *, ranked: bool, empty: str
    ) -> Feedback:
        """Rows sorted into lists; a list in which nothing is relevant says nothing."""
        hits = np.bincount(group[rows.kept], weights=relevant[rows.kept], minlength=int(group.max(initial=-1)) + 1)
        rows.drop(hits[group] == 0, f"{empty}: nothing can be learned from it", empty, per=group)
        kept = np.flatnonzero(rows.kept)
        order = kept[np.lexsort((place[kept], group[kept]))]
        _, start = np.unique(group[order], return_index=True)
        start = np.append(start, len(order)).astype(np.int64)
        return cls(q[order[start[:-1]]], start, item[order], relevant[order], ranked, rows.n_items, rows.counts)

    # ------------------------------------------------------------------ what it is used for

    def __len__(self) -> int:
        return len(self.query)

    @property
    def row_query(self) -> Index:
        """Query of every row."""
        return np.repeat(self.query, np.diff(self.start))

    def triplets(self, rng: np.random.Generator, *, n_random: int = 1, max_pairs: int = 20) -> FeedbackTriplets:
        """Triplets to learn from, list after list in the order of time.

        Parameters
        ----------
        rng : numpy.random.Generator
            Draws pairs of long lists, and random items.
        n_random : int, default=1
            Items drawn at random for every click as further negatives. Without them only items that were shown are
            compared, and what is learned need not hold among all the others.
        max_pairs : int, default=20
            Most pairs of a clicked and a skipped item taken from one list.

        Returns
        -------
        FeedbackTriplets
            Places of queries and items.
        """
        found = list(self._pairs(rng, max_pairs))
        if n_random:
            found.append(self._random(rng, n_random))
        at, positive, negative = (np.concatenate(parts) for parts in zip(*found, strict=True))
        order = np.argsort(at, kind="stable")
        return FeedbackTriplets(self.query[at[order]], positive[order], negative[order])

    def _pairs(self, rng: np.random.Generator, most: int) -> Iterator[tuple[Index, Index, Index]]:
        """Pairs within lists: number of the list, clicked, skipped."""
        yield np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
        lengths = np.diff(self.start)
        for length in np.unique(lengths[lengths <= _LONG]):
            same = np.flatnonzero(lengths == length)
            step = max(1, _PAIRS // max(1, int(length) ** 2))
            for begin in range(0, len(same), step):
                yield self._pairs_of(same[begin : begin + step], int(length), rng, most)
        for one in np.flatnonzero(lengths > _LONG):
            rows = np.arange(self.start[one], self.start[one + 1])
            clicked, other = rows[self.relevant[rows]], rows[~self.relevant[rows]]
            if self.ranked:  # only what stands above the last click was surely seen
                other = other[other < clicked[-1]]
            if len(other):
                pick = rng.integers(0, len(clicked) * len(other), size=most)
                better, worse = clicked[pick // len(other)], other[pick % len(other)]
                sound = worse < better if self.ranked else np.ones(len(pick), dtype=bool)
                at = np.full(int(sound.sum()), one, dtype=np.int64)
                yield at, self.item[better[sound]], self.item[worse[sound]]

    def _pairs_of(self, lists: Index, length: int, rng: np.random.Generator, most: int) -> tuple[Index, Index, Index]:
        """Pairs of lists of one length."""
        rows = self.start[lists][:, None] + np.arange(length)
        relevant = self.relevant[rows]
        allowed = relevant[:, :, None] & ~relevant[:, None, :]
        if self.ranked:
            above = np.tri(length, k=-1, dtype=bool)
            following = np.cumsum(~relevant, axis=1)  # the next skipped one is the first whose count exceeds the own
            following = (following[:, None, :] == following[:, :, None] + 1) & ~above
            allowed &= above | following
        at, better, worse = np.nonzero(allowed)
        if len(at) and np.bincount(at).max() > most:
            shuffled = np.lexsort((rng.random(len(at)), at))
            begin = np.concatenate([[0], np.cumsum(np.bincount(at))])
            few = np.arange(len(at)) - begin[at] < most  # `at` is sorted, and so is at[shuffled]
            chosen = np.sort(shuffled[few])
            at, better, worse = at[chosen], better[chosen], worse[chosen]
        return lists[at], self.item[rows[at, better]], self.item[rows[at, worse]]

    def _random(self, rng: np.random.Generator, n_random: int) -> tuple[Index, Index, Index]:
        """Clicks with items drawn at random; an item that some list has as relevant to the query is no negative."""
        clicks = np.flatnonzero(self.relevant)
        rows = np.repeat(clicks, n_random)
        drawn = rng.integers(0, self.n_items, size=len(rows))
        query = self.row_query
        known = np.unique(query[clicks] * self.n_items + self.item[clicks])
        key = query[rows] * self.n_items + drawn
        sound = known[np.minimum(np.searchsorted(known, key), len(known) - 1)] != key
        at = np.repeat(np.arange(len(self)), np.diff(self.start))[rows]
        return at[sound], self.item[rows[sound]], drawn[sound]

    def judged(self) -> tuple[Index, Index, Mask]:
        """Pairs of a query and an item that it was shown with, each once, and whether the item is relevant.

        Returns
        -------
        query, item : ndarray of int64 of shape (n_pairs,)
            Places, sorted.
        relevant : ndarray of bool of shape (n_pairs,)
            Whether it was clicked at least as often as it was skipped.
        """
        key, number = np.unique(self.row_query * self.n_items + self.item, return_inverse=True)
        balance = np.bincount(number, weights=np.where(self.relevant, 1.0, -1.0))
        ever = np.bincount(number, weights=self.relevant) > 0
        return key // self.n_items, key % self.n_items, ever & (balance >= 0)

    def split(self, share: float, rng: np.random.Generator) -> tuple[Feedback, Feedback]:
        """Feedback to learn from, and that of a share of the queries, which is held out.

        Parameters
        ----------
        share : float
            Share of the queries that are held out, in (0, 1).
        rng : numpy.random.Generator
            Draws them.

        Returns
        -------
        learn, held_out : Feedback
            No query is in both.
        """
        asked = np.unique(self.query)
        n_held = round(share * len(asked))
        if not 0 < n_held < len(asked):
            raise ValueError(
                f"feedback: of {len(asked)} queries with feedback a share of {share:g} cannot be held out while some "
                "are left to learn from; more queries are needed, or another share."
            )
        held = np.zeros(int(self.query.max()) + 1, dtype=bool)
        held[rng.permutation(asked)[:n_held]] = True
        return self.only(~held[self.query]), self.only(held[self.query])

    def only(self, lists: Mask) -> Feedback:
        """Some of the lists."""
        lengths = np.diff(self.start)
        rows = np.repeat(lists, lengths)
        start = np.concatenate([[0], np.cumsum(lengths[lists])])
        kept = self.item[rows], self.relevant[rows]
        return Feedback(self.query[lists], start, *kept, self.ranked, self.n_items, self.skipped)


class _Rows:
    """Rows of a table of feedback while they are checked: which are kept, and what was left out."""

    def __init__(
        self, query_ids: ArrayLike | int, item_ids: ArrayLike | int, bad: str, duplicates: str, **columns: ArrayLike
    ):
        for name, value, allowed in (("bad", bad, ("raise", "skip")), ("duplicates", duplicates, _DUPLICATES)):
            if value not in allowed:
                raise ValueError(f"feedback: `{name}` must be one of {allowed}; got {value!r}.")
        self.bad = bad
        self.duplicates = duplicates
        self.columns = {name: np.asarray(values) for name, values in columns.items()}
        sizes = {name: values.shape for name, values in self.columns.items()}
        if len(set(sizes.values())) > 1 or any(len(shape) != 1 for shape in sizes.values()):
            raise ValueError(f"feedback: columns must have one value per row and equally many rows; got {sizes}.")
        self.n = next(iter(sizes.values()))[0]
        if not self.n:
            raise ValueError("feedback: no rows came; nothing can be learned from none.")
        self._queries = Places(_all_ids(query_ids), "queries")
        self._items = Places(_all_ids(item_ids), "items")
        self.n_items = len(self._items)
        self.kept = np.ones(self.n, dtype=bool)
        self.counts: dict[str, int] = {}

    def places(self, name: str) -> Index:
        """Places of the ids of a column."""
        known = self._queries if name == "query" else self._items
        at = known.of(self.columns[name])
        what = "query" if name == "query" else "item"
        self.drop(at < 0, f"{name} {{value!r}} is not among the {len(known):,} {known.name}", f"unknown {what}", name)
        return at

    def truth(self, name: str) -> Mask:
        """Column of true and false."""
        values = self.columns[name]
        if values.dtype.kind == "b":
            return values
        try:
            numbers = values.astype(np.float64)
        except (TypeError, ValueError):
            numbers = np.array([_TRUTH.get(str(one).strip().lower(), np.nan) for one in values.tolist()])
        unclear = np.flatnonzero(~np.isin(numbers, (0.0, 1.0)))
        if len(unclear):
            raise ValueError(
                f"feedback: row {unclear[0]} holds {_plain(values[unclear[0]])!r} in {name!r}; "
                "1 or 0, true or false are needed. Grades can be cut first, as in grade >= 2."
            )
        return numbers == 1.0

    def whole(self, name: str) -> Index:
        """Column of whole numbers."""
        values = self.columns[name]
        if values.dtype.kind not in "iu":
            unclear = np.flatnonzero(values != np.floor(values)) if values.dtype.kind == "f" else np.arange(self.n)
            if len(unclear):
                raise ValueError(
                    f"feedback: row {unclear[0]} holds {_plain(values[unclear[0]])!r} in {name!r}; "
                    "whole numbers are needed."
                )
        return values.astype(np.int64)

    def drop(self, which: Mask, why: str, short: str, column: str | None = None, per: Index | None = None) -> None:
        """Leave rows out, or raise for the first; counted by row, or by the groups of ``per``."""
        which = which & self.kept
        if not which.any():
            return
        row = int(which.argmax())
        if self.bad == "raise":
            words = why if column is None else why.format(value=_plain(self.columns[column][row]))
            raise ValueError(
                f"feedback: row {row}: {words} ({int(which.sum()):,} such in {self.n:,} rows). "
                "Mend them, or skip and count them with bad='skip'."
            )
        count = int(which.sum()) if per is None else len(np.unique(per[which]))
        self.counts[short] = self.counts.get(short, 0) + count
        self.kept &= ~which

    def drop_repeated(self, keys: tuple[Index, ...]) -> None:
        """Deal with rows whose keys came before."""
        if self.duplicates == "keep":
            return
        at = np.flatnonzero(self.kept)
        order = at[np.lexsort((at, *(one[at] for one in reversed(keys))))]
        same = np.ones(max(0, len(order) - 1), dtype=bool)
        for one in keys:
            same &= one[order[1:]] == one[order[:-1]]
        again = order[1:][same]
        if not len(again):
            return
        if self.duplicates == "raise":
            row = int(again.min())
            raise ValueError(
                f"feedback: row {row} repeats an earlier one ({len(again):,} such in {self.n:,} rows). Count and skip "
                "them with duplicates='skip', or let each count with duplicates='keep'."
            )
        self.counts["duplicate"] = len(again)
        self.kept[again] = False


_DUPLICATES = ("raise", "skip", "keep")
_TRUTH = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0, "1": 1.0, "0": 0.0}


def _all_ids(ids: ArrayLike | int) -> ArrayLike:
    return np.arange(ids) if isinstance(ids, (int, np.integer)) else ids


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _numbered(values: NDArray[Any]) -> tuple[NDArray[Any], Index]:
    """Different values in the order of their first row, and the number of each row's value."""
    found, first, number = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(found), dtype=np.int64)
    rank[order] = np.arange(len(found))
    return found[order], rank[number]
