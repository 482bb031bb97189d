"""What people decided about doubtful clicks, and what becomes of the clicks."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from nearkin.arrays import Index, Mask
from nearkin.errors import InputError, placed_at, quote_names
from nearkin.search.feedback import Feedback
from nearkin.search.inputs import IdTable
from nearkin.tables import open_log, unquote_formulas

__all__ = ["Decisions", "read_decisions"]

_COLUMNS = ("query", "item", "decision")
_WORDS = {"wrong": True, "keep": False}


@dataclass(frozen=True)
class Decisions:
    """Clicks that were looked at: query and item by row number, and whether the click is wrong.

    ``n_unknown`` decisions were about queries or items that are no longer there, ``n_changed`` pairs were decided both
    ways (the last decision holds), and ``n_unclicked`` pairs were never clicked in the log (`among_clicks`).

    Examples
    --------
    >>> feedback = Feedback.from_clicks([0, 0], [1, 2], query_ids=1, item_ids=3)
    >>> wrong = Decisions(np.array([0]), np.array([2]), np.array([True]))
    >>> wrong.apply(feedback).relevant.tolist()
    [True, False]
    """

    query: Index
    item: Index
    is_wrong: Mask
    n_unknown: int = 0
    n_changed: int = 0
    n_unclicked: int = 0

    @property
    def kept(self) -> set[tuple[int, int]]:
        """Clicks that are right."""
        kept = ~self.is_wrong
        return set(zip(self.query[kept].tolist(), self.item[kept].tolist(), strict=True))

    def among_clicks(self, feedback: Feedback) -> Decisions:
        """Return the decisions about pairs that were clicked, and how many others there are."""
        clicked = feedback.row_query[feedback.relevant] * feedback.n_items + feedback.item[feedback.relevant]
        among = np.isin(self.query * feedback.n_items + self.item, clicked)
        return replace(
            self, query=self.query[among], item=self.item[among], is_wrong=self.is_wrong[among],
            n_unclicked=int(np.count_nonzero(~among)),
        )  # fmt: skip

    def apply(self, feedback: Feedback) -> Feedback:
        """Return the feedback in which wrong clicks count as shown but not clicked."""
        wrong = self.query[self.is_wrong] * feedback.n_items + self.item[self.is_wrong]
        return feedback.without_clicks(np.isin(feedback.row_query * feedback.n_items + feedback.item, wrong))


def read_decisions(
    path: str | os.PathLike[str], *, query_ids: ArrayLike | int, item_ids: ArrayLike | int
) -> Decisions:  # fmt: skip
    r"""Read the decisions that a page of clicks downloads.

    Parameters
    ----------
    path : path-like
        CSV or JSON lines with query, item and decision, which is ``keep`` or ``wrong``; of several about one click the
        last holds.
    query_ids, item_ids : array-like or int
        Ids of all queries and items in the order of their vectors; a number stands for 0, 1, 2, ...

    Returns
    -------
    Decisions
        By row number; those about unknown ids are counted, and so are pairs that were decided both ways.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "decisions.csv"
    ...     _ = path.write_text("query,item,decision\n0,2,wrong\n1,0,keep\n")
    ...     read_decisions(path, query_ids=2, item_ids=3).kept
    {(1, 0)}
    """
    file = open_log(Path(path))
    missing = [one for one in _COLUMNS if one not in file.names]
    if missing:
        raise InputError(
            f"{path} holds no decisions: the columns query, item and decision are needed; it holds "
            f"{quote_names(file.names)}."
        )
    queries, items = IdTable(query_ids, "queries"), IdTable(item_ids, "items")
    made: dict[tuple[int, int], bool] = {}
    changed: set[tuple[int, int]] = set()
    n_unknown = 0
    for part in file.parts(_COLUMNS):
        values = [list(part.columns[one]) for one in _COLUMNS]
        if file.kind == "csv":
            values = [unquote_formulas(one) for one in values]
        with placed_at(path):
            for row, reason in part.odd:
                raise InputError(f"data row {row + 1:,}: {reason}.")
            for row, word in zip(part.rows, values[2], strict=True):
                if word not in _WORDS:
                    raise InputError(f"data row {row + 1:,} holds {word!r}; a decision is keep or wrong.")
        for q, i, word in zip(queries.find(values[0]), items.find(values[1]), values[2], strict=True):
            if q < 0 or i < 0:
                n_unknown += 1
            else:
                if made.get((int(q), int(i)), _WORDS[word]) != _WORDS[word]:
                    changed.add((int(q), int(i)))
                made[int(q), int(i)] = _WORDS[word]
    pairs = np.array(list(made), dtype=np.int64).reshape(-1, 2)
    return Decisions(pairs[:, 0], pairs[:, 1], np.array(list(made.values()), dtype=bool), n_unknown, len(changed))
