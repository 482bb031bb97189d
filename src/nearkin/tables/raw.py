"""A column as it came, before anything is decided about it: numbers, dates, or cells of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array
from nearkin.tables.cells import NO_NUMBER

__all__ = ["Cells", "RawColumn"]


@dataclass(frozen=True)
class Cells:
    """Texts of a column: those that differ, without spaces around them, and which each row holds; -1 is missing."""

    distinct: list[str]
    codes: NDArray[np.int64]
    #: What a code has computed while it learned and needs again when it is applied.
    memo: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, values: Iterable[Any]) -> Cells:
        """Number the texts of rows.

        >>> Cells.of(["b", None, " b", "NA"])
        Cells(distinct=['b'], codes=array([ 0, -1,  0, -1]))
        """
        known: dict[Any, int] = {}
        numbers = np.array([known.setdefault(_hashable(one), len(known)) for one in values], dtype=np.int64)
        return cls.numbered([None if _is_missing(one) else str(one) for one in known], numbers)

    @classmethod
    def numbered(cls, texts: Sequence[str | None], codes: NDArray[np.int64]) -> Cells:
        """Return cells of texts that are numbered already; texts that mean the same become one."""
        known: dict[str, int] = {}
        place = np.full(len(texts) + 1, -1, dtype=np.int64)
        for i, one in enumerate(texts):
            text = "" if one is None else one.strip()
            if text not in NO_NUMBER and text != "<NA>":
                place[i] = known.setdefault(text, len(known))
        return cls(list(known), place[codes])

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Rows of every text."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.distinct))

    @property
    def n_present(self) -> int:
        """Rows that hold a text."""
        return int(self.counts.sum())


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ == "NAType" or (not isinstance(value, str) and value != value)


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return str(value)
    return value


@dataclass
class RawColumn:
    """A column of which one of ``numbers`` (a matrix for vectors), ``dates`` and ``cells`` is known.

    A missing number is NaN, a missing date NaT. ``texts`` makes the cells of numbers that were written as text.
    ``kind`` names the type for messages, and says of numbers whether they are "true or false". Paths in cells start at
    ``folder``.
    """

    name: str
    n_rows: int
    kind: str
    numbers: Array | None = None
    dates: NDArray[np.datetime64] | None = None
    cells: Cells | None = None
    texts: Callable[[], Cells] | None = None
    folder: str = ""

    @classmethod
    def of_cells(cls, name: str, cells: Cells) -> RawColumn:
        """Return a column of text."""
        return cls(name, len(cells.codes), "text", cells=cells)

    @classmethod
    def of_array(cls, name: str, values: NDArray[Any]) -> RawColumn:
        """Return a column of an array of any type; a matrix is a column of vectors."""
        values, n = np.asarray(values), len(values)
        kind = values.dtype.kind
        if kind == "M":
            return cls(name, n, "dates", dates=values.astype("datetime64[us]"))
        if kind == "m":
            seconds = values.astype("timedelta64[us]").astype(np.float64) / 1e6
            return cls(name, n, "durations", np.where(np.isnat(values), np.nan, seconds))
        if kind in "fiub":
            exact = values if kind == "f" and values.dtype != np.longdouble else values.astype(np.float64)
            return cls(name, n, "true or false" if kind == "b" else str(values.dtype), exact)
        listed = values.tolist()
        first = next((one for one in listed if one is not None), None)
        if isinstance(first, (list, tuple, np.ndarray)):
            return cls(name, n, "vectors", stack_vectors(listed))
        return cls.of_cells(name, Cells.of(listed))


def stack_vectors(values: Sequence[Any]) -> Array:
    """Return vectors as rows of a matrix, NaN where there is none; they must be of one length."""
    width = next(len(one) for one in values if one is not None)
    out = np.full((len(values), width), np.nan)
    for i, one in enumerate(values):
        if one is not None:
            out[i] = one
    return out
