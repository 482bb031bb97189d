"""All values of the rows that a person may judge, for the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from nearkin.arrays import Index

if TYPE_CHECKING:
    from nearkin.audit.label_audit import LabelAudit

__all__ = ["RowValues", "choose_values"]

#: Columns that are shown at once, and the most that the page holds.
_AT_ONCE, _MOST = 40, 1000
#: Characters of a value, of a name, and of a value where room is scarce.
_LENGTH, _NAME, _SHORT = 4000, 100, 280

#: Names of columns, values of every row, and how many columns are left out.
RowValues = tuple[list[str], dict[int, list[str]], int]


def choose_values(audit: LabelAudit, rows: Index) -> Iterator[RowValues]:
    """Yield the values of rows, all of them first, then less and less, for a page that has little room.

    Without a table they are those of the columns that a person can read.
    """
    shown = audit.shown_columns
    names = [one.name for one in audit.contrast.columns] if shown is None else list(shown.names)
    at = audit.numbers()[rows]
    columns = [
        audit.contrast.values(c, rows) if shown is None else shown.values(name, at)
        for c, name in enumerate(names[:_MOST])
    ]
    steps = [(_MOST, _LENGTH), (_AT_ONCE, _LENGTH), (_AT_ONCE, _SHORT)]
    for n, longest in steps if len(columns) > _AT_ONCE else [steps[0], (_MOST, _SHORT)]:
        kept = [[_cut(value, longest) for value in column] for column in columns[:n]]
        values = [list(one) for one in zip(*kept, strict=True)] or [[] for _ in rows]
        yield (
            [_cut(one, _NAME) for one in names[:n]],
            dict(zip(rows.tolist(), values, strict=True)),
            len(names) - len(kept),
        )


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
