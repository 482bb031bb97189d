"""A log of feedback while it is checked: ids become row numbers, and bad rows are named or counted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.arrays import Index, Mask
from nearkin.checks import OneOf
from nearkin.errors import InputError, Option, Row
from nearkin.search.vectors import IdTable
from nearkin.settings import check_argument

__all__ = ["Log", "number_groups"]

_WORDS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0, "1": 1.0, "0": 0.0}


class Log:
    """Columns of feedback, the rows kept so far, and the number of those left out, by reason.

    ``bad`` ("raise" or "skip") says what `drop` does, ``duplicates`` ("raise", "skip" or "keep") what `drop_repeated`
    does.
    """

    def __init__(
        self, query_ids: ArrayLike | int, item_ids: ArrayLike | int, bad: str, duplicates: str, **columns: ArrayLike
    ):
        check_argument("feedback", "bad", bad, OneOf(("raise", "skip")))
        check_argument("feedback", "duplicates", duplicates, OneOf(("raise", "skip", "keep")))
        self.bad = bad
        self.duplicates = duplicates
        self.columns = {name: np.asarray(values) for name, values in columns.items()}
        shapes = {name: values.shape for name, values in self.columns.items()}
        if len(set(shapes.values())) > 1 or any(len(shape) != 1 for shape in shapes.values()):
            raise InputError(f"columns must be equally long, with one value per row; got {shapes}.", owner="feedback")
        self.n_rows = next(iter(shapes.values()))[0]
        if not self.n_rows:
            raise InputError("there are no rows to learn from.", owner="feedback")
        self.queries = IdTable(query_ids, "queries")
        self.items = IdTable(item_ids, "items")
        self.kept = np.ones(self.n_rows, dtype=bool)
        self.skipped: dict[str, int] = {}

    def find_queries(self, name: str) -> Index:
        """Return the queries of a column by number, and drop rows with an unknown one."""
        return self._find(name, self.queries, "unknown query")

    def find_items(self, name: str) -> Index:
        """Return the items of a column by number, and drop rows with an unknown one."""
        return self._find(name, self.items, "unknown item")

    def _find(self, name: str, known: IdTable, reason: str) -> Index:
        found = known.find(self.columns[name])
        first = self.value(name, int(((found < 0) & self.kept).argmax()))
        self.drop(found < 0, f"{name} {first!r} is not among the {len(known):,} {known.name}", reason)
        return found

    def value(self, name: str, row: int) -> Any:
        """Return one value of a column as Python writes it."""
        value = self.columns[name][row]
        return value.item() if hasattr(value, "item") else value

    def flags(self, name: str) -> Mask:
        """Return a column of true and false, however they are written."""
        values = self.columns[name]
        if values.dtype.kind == "b":
            return values
        try:
            numbers = values.astype(np.float64)
        except (TypeError, ValueError):
            numbers = np.array([_WORDS.get(str(one).strip().lower(), np.nan) for one in values.tolist()])
        needed = "1 or 0, true or false are needed. Turn grades into flags first, as in grade >= 2."
        self._refuse(name, ~np.isin(numbers, (0.0, 1.0)), needed)
        return numbers == 1.0

    def whole_numbers(self, name: str) -> Index:
        """Return a column of whole numbers."""
        values = self.columns[name]
        if values.dtype.kind not in "iu":
            is_number = values.dtype.kind == "f"
            wrong = values != np.floor(values) if is_number else np.ones(self.n_rows, dtype=bool)
            self._refuse(name, wrong, "whole numbers are needed.")
        return values.astype(np.int64)

    def _refuse(self, name: str, which: Mask, needed: str) -> None:
        if which.any():
            row = int(which.argmax())
            problem = f"{{row}} holds {self.value(name, row)!r} in {name!r}; {needed}"
            raise InputError(problem, owner="feedback", row=Row(row))

    def drop(self, which: Mask, problem: str, reason: str, groups: Index | None = None) -> None:
        """Skip and count rows (or the groups they belong to), or raise for the first of them."""
        which = which & self.kept
        if not which.any():
            return
        if self.bad == "raise":
            raise InputError(
                f"{{row}}: {problem} ({int(which.sum()):,} of {self.n_rows:,} rows). Correct them, or skip and count "
                "them with {skip}.",
                owner="feedback", row=Row(which.argmax()), skip=Option("bad", "skip"),
            )  # fmt: skip
        count = int(which.sum()) if groups is None else len(np.unique(groups[which]))
        self.skipped[reason] = self.skipped.get(reason, 0) + count
        self.kept &= ~which

    def drop_repeated(self, *keys: Index) -> None:
        """Skip and count, keep, or refuse rows whose keys occur in an earlier row."""
        if self.duplicates == "keep":
            return
        rows = np.flatnonzero(self.kept)
        order = rows[np.lexsort((rows, *(one[rows] for one in reversed(keys))))]
        same = np.ones(max(0, len(order) - 1), dtype=bool)
        for one in keys:
            same &= one[order[1:]] == one[order[:-1]]
        repeated = order[1:][same]
        if not len(repeated):
            return
        if self.duplicates == "raise":
            raise InputError(
                f"{{row}} repeats an earlier one ({len(repeated):,} of {self.n_rows:,} rows). Skip and count such rows "
                "with {skip}, or let each of them count with {keep}.",
                owner="feedback", row=Row(repeated.min()),
                skip=Option("duplicates", "skip"), keep=Option("duplicates", "keep"),
            )  # fmt: skip
        self.skipped["duplicate"] = len(repeated)
        self.kept[repeated] = False


def number_groups(values: NDArray[Any]) -> tuple[Index, Index]:
    """Number the different values in order of appearance; return the first row of each, and each row's number.

    Examples
    --------
    >>> number_groups(np.array(["b", "a", "b"]))
    (array([0, 1]), array([0, 1, 0]))
    """
    _, first, number = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(first), dtype=np.int64)
    rank[order] = np.arange(len(first))
    return first[order], rank[number]
