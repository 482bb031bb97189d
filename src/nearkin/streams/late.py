"""Labels that come later: a table of labels by id, and rows that wait until their label is in it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array
from nearkin.errors import InputError, Option
from nearkin.settings import Integer, Real, check_argument
from nearkin.stored import ArrayOf, Count, Number, stored
from nearkin.streams.batch import Batch
from nearkin.streams.opening import find_files
from nearkin.tables import Arrays, Table, open_table

__all__ = ["LabelJoin", "LabelTable", "LateLabels", "Waiting"]


@dataclass
class LabelTable:
    """Labels by the id of their row.

    Ids are compared as text, so that 17 in one file and "17" in another are the same row. Of several labels for an id
    the last one counts; ``n_changed`` ids had more than one.

    Examples
    --------
    >>> table = LabelTable({"17": "spam", "19": "ham"})
    >>> y, found = table.find(["19", "20", "17"])
    >>> y.tolist(), found.tolist()
    (['ham', 'spam'], [True, False, True])
    """

    labels: dict[str, Any]
    n_changed: int = 0
    holds_text: bool = True

    @classmethod
    def read(cls, paths: Sequence[str], on: str, label: str) -> LabelTable:
        """Read tables with a column of ids and one of labels; rows that hold no label yet are left out."""
        found: dict[str, Any] = {}
        changed: set[str] = set()
        kind: bool | None = None  # whether labels are numbers
        for path in paths:
            table = open_table(Path(path))
            if isinstance(table, Arrays):
                raise InputError(f"{path} has no named columns; a table with {on!r} and {label!r} is needed.")
            _check_columns(table, on, label)
            y, missing = table.classes(label)
            are_numbers = y.dtype.kind not in "USO"
            if not missing.all():
                if kind is not None and kind != are_numbers:
                    raise InputError(
                        f"{path}: column {label!r} holds {'numbers' if are_numbers else 'text'} here and "
                        f"{'numbers' if kind else 'text'} in {paths[0]}; write it as one type."
                    )
                kind = are_numbers
            for one, value, is_missing in zip(id_texts(table.values(on)), y.tolist(), missing, strict=True):
                if one is None or is_missing:
                    continue
                if found.setdefault(one, value) != value:
                    changed.add(one)
                    found[one] = value
        return cls(found, len(changed), holds_text=not kind)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def kind(self) -> str:
        """How labels are written."""
        return "text" if self.holds_text else "number"

    def find(self, ids: Iterable[str]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the labels of those ids that have one, and which they are."""
        values = [self.labels.get(one) for one in ids]
        found = np.array([one is not None for one in values], dtype=bool)
        return np.array([one for one in values if one is not None]), found


def id_texts(values: Iterable[Any]) -> list[str | None]:
    """Return ids as text; None where there is none.

    >>> id_texts([17, 17.0, " 17", "017", None, float("nan"), ""])
    ['17', '17', '17', '017', None, None, None]
    """
    out: list[str | None] = []
    for one in values:
        if isinstance(one, (float, np.floating)) and float(one).is_integer():
            one = int(one)
        text = "" if one is None or one != one else str(one).strip()
        out.append(text or None)
    return out


def _check_columns(table: Table, on: str, label: str) -> None:
    """Refuse a table without these columns."""
    if on == label:
        raise InputError(
            "{on} names the column of ids and {label} that of labels; they cannot be the same.",
            on=Option("on"), label=Option("label"),
        )  # fmt: skip
    table.check_known([on, label])


@stored(
    limit=Count(1),
    rows=ArrayOf("n", "d"),
    ids=ArrayOf("n", of="labels"),
    arrived=ArrayOf("n"),
    n_joined=Count(),
    n_expired=Count(),
    waited=Number(0.0),
)
class Waiting:
    """Rows whose label has not come yet, in the order in which they came; at most ``limit`` of them.

    ``arrived`` is when each came, in seconds since 1970. ``n_joined`` rows have met their label so far, after they had
    ``waited`` that many seconds in all; ``n_expired`` were given up, because they were the oldest of too many or had
    waited too long.

    Examples
    --------
    >>> waiting = Waiting(limit=2)
    >>> waiting.add(np.eye(3), np.array(["a", "b", "c"]), now=0.0)
    >>> rows, y = waiting.take(LabelTable({"c": 1}), now=60.0)
    >>> rows.tolist(), y.tolist(), waiting.ids.tolist(), waiting.n_expired
    ([[0.0, 0.0, 1.0]], [1], ['b'], 1)
    """

    def __init__(self, limit: int = 50_000):
        self.limit = limit
        self.rows: Array = np.empty((0, 0))
        self.ids: NDArray[np.str_] = np.empty(0, dtype=np.str_)
        self.arrived: NDArray[np.float64] = np.empty(0)
        self.n_joined = 0
        self.n_expired = 0
        self.waited = 0.0

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_entered(self) -> int:
        """Rows that ever had to wait."""
        return len(self) + self.n_joined + self.n_expired

    def add(self, rows: Array, ids: NDArray[np.str_], now: float) -> None:
        """Let rows wait; the oldest make room."""
        if not len(ids):
            return
        mine = self.rows if len(self) else np.empty((0, rows.shape[1]), rows.dtype)
        self.rows = np.concatenate([mine, rows])
        self.ids = np.concatenate([self.ids, ids])
        self.arrived = np.concatenate([self.arrived, np.full(len(ids), now)])
        self.expire(-math.inf)

    def take(self, table: LabelTable, now: float, n_new: int = 0) -> tuple[Array, NDArray[Any]]:
        """Return the rows whose label has come, and their labels; the last ``n_new`` rows have not waited at all."""
        y, found = table.find(self.ids.tolist())
        rows = self.rows[found]
        old = found & (np.arange(len(self)) < len(self) - n_new)
        self.n_joined += int(old.sum())
        self.waited += float(np.maximum(now - self.arrived[old], 0.0).sum())
        self._keep(~found)
        return rows, y

    def expire(self, before: float) -> None:
        """Give up the rows that came before a time, and the oldest of too many."""
        self._expire((self.arrived < before) | (np.arange(len(self)) < len(self) - self.limit))

    def facts(self) -> dict[str, Any]:
        """Return how many rows wait and since when, met their label and after how many hours, or expired."""
        return {
            "waiting": len(self),
            "oldest": float(self.arrived.min()) if len(self) else None,
            "joined": self.n_joined,
            "hours": self.waited / 3600 / max(1, self.n_joined),
            "expired": self.n_expired,
        }

    def _expire(self, out: NDArray[np.bool_]) -> None:
        self.n_expired += int(out.sum())
        self._keep(~out)

    def _keep(self, which: NDArray[np.bool_]) -> None:
        if not which.all():
            self.rows, self.ids, self.arrived = self.rows[which], self.ids[which], self.arrived[which]


@dataclass
class LabelJoin:
    """Puts labels in the place of ids, and lets rows wait that have none yet."""

    table: LabelTable
    waiting: Waiting
    now: float

    def __call__(self, batch: Batch, *, is_first_pass: bool = True) -> Batch:
        """Return the rows of a batch that have a label; the others begin to wait in the first pass."""
        ids = np.array([one or "" for one in id_texts(batch.y.tolist())], dtype=np.str_)
        y, found = self.table.find(ids.tolist())
        if is_first_pass:
            self.waiting.add(batch.X[~found], ids[~found], self.now)
        kept = batch.kept.copy()
        kept[np.flatnonzero(kept)[~found]] = False
        return replace(batch, X=batch.X[found], y=y, kept=kept, n_waiting=int((~found).sum()))


@dataclass(frozen=True)
class LateLabels:
    """Where the labels of rows are found when they come.

    Parameters
    ----------
    tables : path or list of paths
        Tables, or folders of tables, with a column of ids and one of labels. They may hold labels of all days or only
        new ones.
    on : str
        Column of ids, in these tables and in the files of rows.
    max_rows : int, default=50_000
        Rows that may wait; then the oldest expire.
    max_days : float or None, default=None
        Days after which a row expires; None for never.

    Examples
    --------
    >>> LateLabels("labels.csv", on="order").max_rows
    50000
    """

    tables: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    on: str
    max_rows: int = 50_000
    max_days: float | None = None

    def read(self, label: str) -> LabelTable:
        """Return the labels that are known now."""
        check_argument("LateLabels", "max_rows", self.max_rows, Integer(1, 100_000_000))
        if self.max_days is not None:
            check_argument("LateLabels", "max_days", self.max_days, Real(0.0))
        return LabelTable.read(self.files, self.on, label)

    @property
    def files(self) -> list[str]:
        """The tables themselves; a folder may be empty."""
        tables = [self.tables] if isinstance(self.tables, (str, os.PathLike)) else list(self.tables)
        return find_files(tables)

    def store(self, before: Waiting | None, now: float) -> Waiting:
        """Return the rows that wait, with today's limits."""
        waiting = Waiting(int(self.max_rows)) if before is None else before
        waiting.limit = int(self.max_rows)
        waiting.expire(-math.inf if self.max_days is None else now - 86_400 * self.max_days)
        return waiting
