"""What a person sees of the rows of a table: the values of its columns as they stand there."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from nearkin.arrays import Index
from nearkin.tables.table import Table

__all__ = ["ShownColumns"]

#: What stands for an empty cell.
MISSING = "missing"


@dataclass(frozen=True)
class ShownColumns:
    """Columns of a table that whoever judges a row may see, in their order; the table is kept, not copied.

    Examples
    --------
    >>> from nearkin.tables import as_table
    >>> import numpy as np
    >>> import pandas
    >>> table = as_table(pandas.DataFrame({"size": [1.0, 2.5], "note": ["a long text", None], "label": [0, 1]}))
    >>> shown = ShownColumns.of(table, ["label"])
    >>> shown.names, shown.values("size", np.array([1, 0])), shown.values("note", np.array([1, 0]))
    (('size', 'note'), ['2.5', '1'], ['missing', 'a long text'])
    """

    table: Table
    names: tuple[str, ...]

    @classmethod
    def of(cls, table: Table, hidden: Collection[str | None]) -> ShownColumns:
        """Return all columns with a name but some, and but vectors, which nobody can read."""
        return cls(table, tuple(one for one in table.names if one and one not in hidden and not table.has_vectors(one)))

    def without(self, names: Collection[str]) -> ShownColumns:
        """Return the other columns."""
        return replace(self, names=tuple(one for one in self.names if one not in names))

    def values(self, name: str, rows: Index) -> list[str]:
        """Return the values of some rows in a column as text."""
        return [_write(one) for one in self.table.some_values(name, rows)]


def _write(value: Any) -> str:
    """Return a value as a table would have it."""
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
        return MISSING
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return f"{value:.0f}"
    return str(value) if str(value).strip() else MISSING
