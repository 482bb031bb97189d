"""Parts of files that can be read again on their own: row groups, ranges of an array, blocks of lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from nearkin.tables.table import Chunk

__all__ = ["Reader", "Unit"]


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
        Where in the file it is; only its reader knows what the numbers mean.
    """

    path: str
    n_rows: int
    first_row: int
    at: tuple[int, ...] = ()


class Reader(Protocol):
    """Reads units of one kind of file; a dataclass of plain values, so that it can be sent elsewhere."""

    kind: str
    n_bytes: int

    @property
    def names(self) -> list[str] | None:
        """Names of the features."""

    def read(self, unit: Unit, start: int, size: int) -> Iterator[Chunk]:
        """Yield the rows of a unit from ``start`` on, about ``size`` at a time."""
