"""Queries that are never learned from, and what they say about a map.

A hash of the query's vector says whether it learns, chooses or tests. It is the same on every day, in every process and
whatever else the log holds, so that a query that tests has never taught. What such queries clicked is kept with the
model, in bounded memory.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from nearkin.arrays import Array, Index, Mask
from nearkin.search.feedback import Feedback
from nearkin.search.ranking import METRICS, ranking_scores, ranks_of
from nearkin.stored import ArrayOf, Count, Number, stored

__all__ = ["HeldOut", "Judge", "ShownPairs", "hash_rows"]

#: What an item that was not shown is worth, as a share of the average shown one, and the weight of clicks on a result
#: itself beside those on items alike.
UNSEEN, _OWN = 0.8, 0.25
#: How far being like what was shown counts against being like what was clicked.
_AGAINST = 0.5
#: Weight of the middle of a query's results beside the query, where they are smeared.
_SMEAR = 3.0
#: Most scores held at once.
_TABLE = 1 << 22


def hash_rows(X: Array) -> Index:
    """Return a number of 63 bits for every vector; equal vectors have equal numbers, in single and double precision.

    Examples
    --------
    >>> one, other = hash_rows(np.array([[0.5, -0.0], [0.5, 0.0]]))
    >>> int(one) == int(other) == int(hash_rows(np.array([[0.5, 0.0]], np.float32))[0])
    True
    """
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(X, dtype=np.float32) + np.float32(0.0)  # -0 becomes 0
    if rows.dtype.byteorder == ">":
        rows = rows.astype("<f4")
    found = [int.from_bytes(hashlib.blake2b(row.tobytes(), digest_size=8).digest(), "little") for row in rows]
    return np.array([one >> 1 for one in found], dtype=np.int64)


def share_of(key: Index) -> Array:
    """Return a number in [0, 1) for every hash."""
    return (key >> 10).astype(np.float64) / 2.0**53


@dataclass(frozen=True)
class ShownPairs:
    """Pairs of a query and an item, sorted, with their clicks and the clicks that position alone would bring them."""

    query: Index
    item: Index
    clicks: Array
    exposure: Array
    of_row: Index

    @classmethod
    def from_feedback(cls, feedback: Feedback) -> ShownPairs:
        """Count every pair.

        The attention that a position gets is its share of all clicks; the clicks of a list are divided among its rows
        by their attention. Rows of triplets and of judgements all get the same.
        """
        lengths = np.diff(feedback.start)
        of_list = np.repeat(np.arange(len(feedback)), lengths)
        clicked = feedback.row_worth
        attention = np.ones(len(of_list))
        if feedback.form == "impressions":
            place = np.arange(len(of_list)) - feedback.start[of_list]
            attention = ((np.bincount(place, clicked) + 1.0) / (np.bincount(place) + 2.0))[place]
        total = np.bincount(of_list, attention, minlength=len(feedback))
        hits = np.bincount(of_list, clicked, minlength=len(feedback))
        expected = attention / total[of_list] * hits[of_list]
        key, number = np.unique(feedback.row_query * feedback.n_items + feedback.item, return_inverse=True)
        query, item = key // feedback.n_items, key % feedback.n_items
        return cls(query, item, _add_up(number, clicked), _add_up(number, expected), number)


@stored(
    key=ArrayOf("n", of="codes", low=0),
    queries=ArrayOf("n", "d", dtype="T"),
    owner=ArrayOf("m", of="codes", low=0, below="n"),
    item=ArrayOf("m", of="codes", low=0),
    clicks=ArrayOf("m", low=0.0),
    exposure=ArrayOf("m", low=0.0),
    holdout=Number(0.0, 1.0),
    n_looks=Count(),
)
@dataclass
class HeldOut:
    """Held-out queries of all days with the items that they were shown.

    Queries and items go by the hashes of their vectors, so that rows of the index may change their order. ``owner`` is
    the query of each shown item, by number. ``n_looks`` counts the maps that were tested.
    """

    key: Index
    queries: Array
    owner: Index
    item: Index
    clicks: Array
    exposure: Array
    holdout: float
    n_looks: int = 0

    @classmethod
    def empty(cls, d: int, dtype: np.dtype, holdout: float) -> HeldOut:
        """Return a pool without queries."""
        none, counts = np.empty(0, np.int64), np.empty(0)
        return cls(none, np.empty((0, d), dtype), none, none, counts, counts, holdout)

    def part_of(self, key: Index) -> tuple[Mask, Mask, Mask]:
        """Return which queries learn, choose and test, by their hashes: half as many choose as test."""
        share = share_of(key)
        tests = share < self.holdout
        chooses = ~tests & (share < min(1.5 * self.holdout, 0.5 * (1.0 + self.holdout)))
        return ~tests & ~chooses, chooses, tests

    @property
    def has_lists(self) -> bool:
        """Whether something was shown that was not clicked, to at least half of the queries."""
        missed = np.abs(self.exposure - self.clicks) > 1e-9 * (1.0 + self.clicks)
        return 2 * len(np.unique(self.owner[missed])) >= len(self.key)

    def repeats(self, earlier: HeldOut) -> bool:
        """Whether it holds no query and no pair that an earlier pool did not hold."""
        if not len(earlier.key) or len(self.owner) != len(earlier.owner):
            return False
        pairs = [set(zip(one.key[one.owner].tolist(), one.item.tolist(), strict=True)) for one in (self, earlier)]
        return pairs[0] == pairs[1]

    def learns(self, queries: Array) -> Mask:
        """Return which queries may be learned from."""
        return self.part_of(hash_rows(queries))[0]

    def add(self, key: Index, queries: Array, item_key: Index, pairs: ShownPairs, most: int) -> HeldOut:
        """Return the pool with the pairs of a log added; of more than ``most`` queries, the newest are kept.

        ``key`` and ``queries`` are those of all queries of the log, ``item_key`` the hashes of all items.
        """
        asked = np.unique(pairs.query)
        vectors = np.concatenate([self.queries, queries[asked].astype(self.queries.dtype)])
        keys = np.concatenate([self.key, key[asked]])
        # The last appearance of a query places it, so that frequent queries are not forgotten.
        different, back = np.unique(keys[::-1], return_index=True)
        last = len(keys) - 1 - back
        kept = np.sort(last)[-most:]
        place = np.full(len(keys), -1, dtype=np.int64)
        place[kept] = np.arange(len(kept))
        place = place[last][np.searchsorted(different, keys)]
        number = np.searchsorted(asked, pairs.query) + len(self.key)
        owner = place[np.concatenate([self.owner, number])]
        item = np.concatenate([self.item, item_key[pairs.item]])
        clicks, exposure = (
            np.concatenate(two) for two in ((self.clicks, pairs.clicks), (self.exposure, pairs.exposure))
        )
        known = owner >= 0
        both, of_pair = np.unique(np.column_stack([owner[known], item[known]]), axis=0, return_inverse=True)
        both = both.reshape(-1, 2)
        clicks, exposure = (_add_up(of_pair.ravel(), one[known], len(both)) for one in (clicks, exposure))
        return HeldOut(
            keys[kept], vectors[kept], both[:, 0], both[:, 1], clicks, exposure, self.holdout, self.n_looks
        )  # fmt: skip


def _add_up(number: Index, values: Array, size: int = 0) -> Array:
    """Return the sum of the values of each number."""
    return np.bincount(number, weights=values, minlength=size).astype(np.float64, copy=False)


def _unit(rows: Array) -> Array:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(rows.dtype).tiny)


class Judge:
    """Measures maps on held-out queries, over the whole index.

    An item is relevant to a query that clicked it at least as often as the position of its appearances and the clicks
    of the query let expect. All of `METRICS` count these.

    Two measures are for feedback about some of the items only, which the old ranking may have chosen. Both add up, over
    the first results with the weights of nDCG, how alike a result is (cosine) to the items that the query clicked and
    to those it was shown. The result itself is left out: otherwise no ranking could win against the one that chose
    what to show.

    ``alike`` is to what was clicked, less half of that to what was shown. ``lift`` is the difference between the two:
    results must be like the clicked items rather than like the rest of the list. A quarter of the result's own clicks
    is added to it, less 80 % of what its positions alone would bring: to drop a result that was clicked costs.
    """

    def __init__(self, pool: HeldOut, which: Mask, items: Array, item_key: Index):
        order = np.argsort(item_key, kind="stable")
        at = np.minimum(np.searchsorted(item_key[order], pool.item), len(order) - 1)
        row = order[at]
        kept = which[pool.owner] & (item_key[row] == pool.item)
        owner, self._item = pool.owner[kept], row[kept]
        self._clicks, self._exposure = pool.clicks[kept], pool.exposure[kept]
        relevant = (self._clicks > 0) & (self._clicks >= self._exposure * (1.0 - 1e-9))
        judged = np.unique(owner[relevant])
        inside = np.isin(owner, judged)
        self._item, relevant = self._item[inside], relevant[inside]
        self._clicks, self._exposure = self._clicks[inside], self._exposure[inside]
        self._query = np.searchsorted(judged, owner[inside])  # the pool is sorted by query
        self._relevant = relevant
        self.queries, self._items = pool.queries[judged], items
        self._shape = _unit(items - items.mean(axis=0))

    def __len__(self) -> int:
        return len(self.queries)

    def score(self, mapped: Array, k: int) -> dict[str, Array]:
        """Return all measures of every query, which ``mapped`` holds as the index would get it."""
        return self._rank(mapped, k) | self._compare(mapped, k)

    def measure(self, mapped: Array, k: int, metric: str) -> dict[str, Array]:
        """Return one measure of every query, and others that cost nothing more."""
        return self._rank(mapped, k) if metric in METRICS else self._compare(mapped, k)

    def smear(self, k: int) -> Array:
        """Return queries moved towards the middle of their own results: more alike to most items that are near."""
        moved = np.empty_like(self.queries)
        step = max(1, _TABLE // len(self._items))
        for begin in range(0, len(self), step):
            part = slice(begin, begin + step)
            scores = self.queries[part] @ self._items.T
            first = np.argpartition(-scores, min(k, scores.shape[1]) - 1, axis=1)[:, :k]
            middle = self._items[first].mean(axis=1)
            moved[part] = _unit(self.queries[part]) + _SMEAR * _unit(middle)
        return moved

    def _rank(self, mapped: Array, k: int) -> dict[str, Array]:
        pair = self._query[self._relevant], self._item[self._relevant]
        found = ranking_scores(pair[0], ranks_of(mapped, self._items, *pair), k)
        return {name: found[name] for name in METRICS}

    def _compare(self, mapped: Array, k: int) -> dict[str, Array]:
        """Return lift and alike."""
        n_results = min(k + 1, len(self._items))  # one more moves up where one is left out
        weight = np.append(1.0 / np.log2(2.0 + np.arange(k)), 0.0)[:n_results]
        weight /= weight.sum()
        place = np.arange(n_results)[:, None]
        start = np.searchsorted(self._query, np.arange(len(self) + 1))
        lift, near = np.empty((2, len(self)))
        step = max(1, _TABLE // len(self._items))
        for begin in range(0, len(self), step):
            scores = mapped[begin : begin + step] @ self._items.T
            for one, row in enumerate(scores, begin):
                first = np.argpartition(-row, n_results - 1)[:n_results]
                first = first[np.argsort(-row[first], kind="stable")]
                mine = slice(start[one], start[one + 1])
                same = first[:, None] == self._item[mine]
                left_out = np.where(same.any(axis=0), same.argmax(axis=0), n_results)
                without = np.where(place < left_out, weight[place], weight[place - 1]) * ~same
                alike = (without * (self._shape[first] @ self._shape[self._item[mine]].T)).sum(axis=0)
                clicks, exposure = self._clicks[mine], self._exposure[mine]
                own = weight @ same @ (clicks - UNSEEN * exposure)
                lift[one] = (alike @ (clicks - exposure) + _OWN * own) / clicks.sum()
                near[one] = alike @ (clicks - _AGAINST * exposure) / clicks.sum()
        return {"lift": np.clip(lift, -1.0, 1.0), "alike": np.clip(near, -1.0, 1.0)}
