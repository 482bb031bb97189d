"""What speaks against a click: what near queries clicked, the list it stood in, and where the item ranks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nearkin.arrays import Array, Index
from nearkin.errors import InputError
from nearkin.search.adaptation import Adaptation
from nearkin.search.feedback import Feedback
from nearkin.search.inputs import as_ids
from nearkin.search.ranking import ranks_of

__all__ = ["Names", "Suspect", "find_suspects"]

#: Plausibility below which a click is doubted.
_DOUBT = 0.5
#: Near queries of a suspect, items that each of them shows, and items of its list.
_NEAR, _ITEMS, _LIST = 5, 3, 12
#: Characters of a text.
_TEXT = 300


@dataclass
class Suspect:
    """A query and an item it clicked, by row number, and what is known about the click."""

    query: int
    item: int
    plausibility: float
    n_clicks: int
    n_shown: int
    rank_before: int
    rank_after: int
    shown: list[tuple[int, bool]] = field(default_factory=list)  # a list in which it was clicked
    near: list[tuple[int, float, list[tuple[int, int, float]]]] = field(default_factory=list)

    def as_facts(self) -> dict[str, Any]:
        """Return plain values: ``near`` holds a query, its cosine, and items with clicks and cosine to this item."""
        near = [[q, round(alike, 2), [[i, n, round(c, 2)] for i, n, c in items]] for q, alike, items in self.near]
        return {
            "q": self.query, "i": self.item, "p": round(self.plausibility, 3), "clicks": self.n_clicks,
            "shown": self.n_shown, "before": self.rank_before, "after": self.rank_after,
            "list": [[i, int(clicked)] for i, clicked in self.shown], "near": near,
        }  # fmt: skip


def find_suspects(
    done: Adaptation, queries: Array, items: Array, kept: Collection[tuple[int, int]], most: int
) -> tuple[list[Suspect], int, int]:
    """Return the least plausible clicks, how many pairs were clicked and learned, and how many of them are doubted."""
    feedback = done.feedback
    assert feedback is not None
    rows = np.flatnonzero(np.isfinite(done.plausibility))
    n_items, row_query = feedback.n_items, feedback.row_query
    key, number = np.unique(row_query[rows] * n_items + feedback.item[rows], return_inverse=True)
    clicks = np.bincount(number)
    plausibility = np.bincount(number, done.plausibility[rows]) / np.maximum(clicks, 1)
    trusted = np.array([q * n_items + i for q, i in kept], dtype=np.int64)
    doubted = np.flatnonzero((plausibility < _DOUBT) & ~np.isin(key, trusted))
    chosen = doubted[np.argsort(plausibility[doubted], kind="stable")[:most]]
    if not len(chosen):
        return [], len(key), 0
    q, i = key[chosen] // n_items, key[chosen] % n_items
    before = ranks_of(queries, items, q, i)
    after = ranks_of(_learned(done, queries), items, q, i)
    all_keys = row_query * n_items + feedback.item
    shown = np.bincount(np.searchsorted(key[np.sort(chosen)], all_keys[np.isin(all_keys, key[chosen])]))
    place = np.argsort(np.argsort(chosen))
    found = [
        Suspect(int(q[at]), int(i[at]), float(plausibility[one]), int(clicks[one]), int(shown[place[at]]),
                int(before[at]), int(after[at]))
        for at, one in enumerate(chosen)
    ]  # fmt: skip
    first_click = rows[np.unique(number, return_index=True)[1]][chosen]
    for one, row in zip(found, first_click, strict=True):
        one.shown = _list_around(feedback, int(row))
    _ask_near(found, queries, items, key, clicks, n_items)
    return found, len(key), len(doubted)


def _learned(done: Adaptation, queries: Array) -> Array:
    """Return queries by the learned map, also where the identity was kept."""
    adapter = done.adapter
    if not adapter.kept_identity_:
        return adapter.map_queries(queries)
    return queries + (queries - adapter.query_mean_) @ adapter.move_.T


def _list_around(feedback: Feedback, row: int) -> list[tuple[int, bool]]:
    at = int(np.searchsorted(feedback.start, row, side="right")) - 1
    begin, end = int(feedback.start[at]), int(feedback.start[at + 1])
    begin = max(begin, min(row - _LIST // 2, end - _LIST))
    part = slice(begin, min(end, begin + _LIST))
    return list(zip(feedback.item[part].tolist(), feedback.relevant[part].tolist(), strict=True))


def _ask_near(
    found: list[Suspect], queries: Array, items: Array, key: Index, clicks: Index, n_items: int
) -> None:  # fmt: skip
    """Note what the nearest queries clicked, most clicked first."""
    asked, start = np.unique(key // n_items, return_index=True)
    end = np.append(start[1:], len(key))
    directions, middle = _directions(queries[asked] - queries.mean(axis=0)), items.mean(axis=0)
    for one in found:
        mine = int(np.searchsorted(asked, one.query))
        alike = directions @ directions[mine]
        alike[mine] = -np.inf
        n_near = min(_NEAR, len(asked) - 1)
        near = np.argsort(-alike, kind="stable")[:n_near]
        near = near[alike[near] > 0.0]
        own = _directions(items[[one.item]] - middle)[0]
        for other in near:
            part = np.arange(start[other], end[other])
            part = part[np.argsort(-clicks[part], kind="stable")[:_ITEMS]]
            cosine = _directions(items[key[part] % n_items] - middle) @ own
            clicked = zip((key[part] % n_items).tolist(), clicks[part].tolist(), cosine.tolist(), strict=True)
            one.near.append((int(asked[other]), float(alike[other]), list(clicked)))


def _directions(rows: Array) -> Array:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(rows.dtype).tiny)


class Names:
    """Ids and texts of queries and items, of which a page shows some."""

    def __init__(
        self, query_ids: ArrayLike | int | None, item_ids: ArrayLike | int | None, query_texts: Sequence[str] | None,
        item_texts: Sequence[str] | None, n_queries: int, n_items: int,
    ):  # fmt: skip
        self._ids = {"queries": _ids(query_ids, n_queries), "items": _ids(item_ids, n_items)}
        self._texts = {"queries": query_texts, "items": item_texts}
        for name, size in (("queries", n_queries), ("items", n_items)):
            for what, held in (("ids", self._ids[name]), ("texts", self._texts[name])):
                if held is not None and len(held) != size:
                    problem = f"there are {len(held):,} {what} for {size:,} {name}."
                    raise InputError(problem, owner="page")

    def of(self, suspects: Sequence[Suspect]) -> dict[str, dict[str, list[str]]]:
        """Return id and text of all queries and items that the evidence names, by row number."""
        queries = {one.query for one in suspects} | {q for one in suspects for q, _, _ in one.near}
        items = {one.item for one in suspects} | {i for one in suspects for i, _ in one.shown}
        items |= {i for one in suspects for _, _, clicked in one.near for i, _, _ in clicked}
        return {name: {str(row): self._name(name, row) for row in rows} for name, rows in
                (("queries", sorted(queries)), ("items", sorted(items)))}  # fmt: skip

    def _name(self, kind: str, row: int) -> list[str]:
        ids, texts = self._ids[kind], self._texts[kind]
        text = "" if texts is None else str(texts[row])
        return [str(row if ids is None else ids[row]), text if len(text) <= _TEXT else text[: _TEXT - 1] + "…"]


def _ids(ids: ArrayLike | int | None, n_rows: int) -> Sequence[Any] | None:
    return None if ids is None or isinstance(ids, (int, np.integer)) else as_ids(ids, "ids").tolist()
