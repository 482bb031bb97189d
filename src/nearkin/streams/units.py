"""Pieces of input that anybody can read again: a row group, a range of an array, some lines of a text file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

__all__ = ["Order", "Piece", "Unit"]


@dataclass(frozen=True)
class Unit:
    """Rows that are read together.

    Parameters
    ----------
    path : str
        File.
    n_rows : int
        Rows in it.
    first_row : int
        Number of its first row in the file, from 0.
    at : tuple of int
        Where in the file it is, in the words of its reader.
    """

    path: str
    n_rows: int
    first_row: int
    at: tuple[int, ...] = ()


class Piece(NamedTuple):
    """Rows ``start`` to ``stop`` of the unit with this number."""

    unit: int
    start: int
    stop: int


class Order:
    """Units laid end to end for one pass over the data, as they are or drawn anew for every pass.

    Parameters
    ----------
    sizes : sequence of int
        Rows of every unit.
    epoch : int
        Number of the pass.
    seed : int or None
        None for the order of the files.

    Examples
    --------
    >>> Order([5, 4], 0, None).pieces(3, 7)
    [Piece(unit=0, start=3, stop=5), Piece(unit=1, start=0, stop=2)]
    """

    def __init__(self, sizes: Sequence[int], epoch: int, seed: int | None):
        n = len(sizes)
        self._units = np.arange(n) if seed is None else np.random.default_rng([seed, epoch]).permutation(n)
        self._ends = np.cumsum(np.asarray(sizes, dtype=np.int64)[self._units])

    def pieces(self, first: int, last: int) -> list[Piece]:
        """Pieces that hold rows ``first`` to ``last``."""
        found = []
        at = int(np.searchsorted(self._ends, first, side="right"))
        while first < last and at < len(self._ends):
            begin = int(self._ends[at - 1]) if at else 0
            stop = min(last, int(self._ends[at]))
            found.append(Piece(int(self._units[at]), first - begin, stop - begin))
            first, at = stop, at + 1
        return found
