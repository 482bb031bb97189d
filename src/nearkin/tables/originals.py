"""What the cells of a column say, where its features cannot tell: words, and which cells are empty."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from nearkin.arrays import Index
from nearkin.stored import ArrayOf, Items, Text, stored
from nearkin.tables.codes import CategoryCode, Code, DateCode, NumberCode, as_cells
from nearkin.tables.raw import RawColumn

__all__ = ["OriginalCells", "keep_originals"]

#: Characters of a cell that are kept.
_LENGTH = 60


@stored(words=Items(Text(), size="w"), codes=ArrayOf("n", of="codes", low=-1, below="w"))
@dataclass(frozen=True)
class OriginalCells:
    """Words that the cells of a column hold, cut where they are long, and which of them each row has; -1 is missing.

    Cells of numbers and dates stand in the features already: they have one word, "", and only gaps are told.
    """

    words: tuple[str, ...]
    codes: Index

    @property
    def has_words(self) -> bool:
        """Whether there is more to know than which cells are empty."""
        return self.words != ("",)

    def take(self, rows: Index) -> OriginalCells:
        """Return some of the rows."""
        return OriginalCells(self.words, self.codes[rows])


def keep_originals(column: RawColumn, code: Code) -> OriginalCells | None:
    """Return what features cannot tell about a column; None where they tell all of it, or nobody could read it.

    >>> from nearkin.tables.raw import Cells
    >>> column = RawColumn.of_cells("colour", Cells.of(["red", "", "blue", "red"]))
    >>> keep_originals(column, CategoryCode.learn(column.cells))
    OriginalCells(words=('red', 'blue'), codes=array([ 0, -1,  1,  0]))
    """
    if isinstance(code, CategoryCode) or (isinstance(code, NumberCode) and column.kind == "true or false"):
        cells = as_cells(column)
        words = (one if len(one) <= _LENGTH else one[: _LENGTH - 1] + "…" for one in cells.distinct)
        return OriginalCells(tuple(words), cells.codes)
    if not isinstance(code, (NumberCode, DateCode)):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of cells that cannot be read the features have warned
        gaps = np.isnan(code.read(column))
    return OriginalCells(("",), -gaps.astype(np.int64)) if gaps.any() else None
