"""A table with named columns, whatever file it came from, and which of its columns are features."""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array
from nearkin.errors import InputError, Option, quote_names
from nearkin.tables.cells import BadCell, parse_labels, parse_numbers

__all__ = ["CellTable", "Chunk", "Layout", "Table", "check_classes", "choose_columns", "find_gap", "single_or_double"]

Labels = tuple[NDArray[Any], NDArray[np.bool_]]


class Table(ABC):
    """Some or all rows of a table.

    Parameters
    ----------
    path : str
        File, for messages.
    names : list of str
        Columns; "" for one without a name, which is taken for a row index.
    n_rows : int
        Rows.
    first_row : int
        Number of the first row in the file, from 0.
    """

    def __init__(self, path: str, names: list[str], n_rows: int, first_row: int = 0):
        self.path, self.names, self.n_rows, self.first_row = path, names, n_rows, first_row

    @abstractmethod
    def numbers(self, name: str) -> NDArray[Any]:
        """Return a column of numbers, NaN where one is missing; a column of vectors as a matrix."""

    @abstractmethod
    def labels(self, name: str, kind: str | None = None) -> Labels:
        """Return a column of labels and which are missing; without ``kind`` it is inferred."""

    @abstractmethod
    def values(self, name: str) -> list[Any]:
        """Return a column as it stands in the file."""

    def place(self, row: int) -> str:
        """Return where a row stands, for messages."""
        return f"{self.path}, data row {self.first_row + row + 1:,}"

    def features(self, columns: Iterable[str], *, needed: bool = False) -> dict[str, NDArray[Any]]:
        """Return columns of numbers; one that holds text is refused, with the advice to drop it unless ``needed``."""
        found: dict[str, NDArray[Any]] = {}
        bad: dict[str, BadCell] = {}
        for name in columns:
            try:
                found[name] = self.numbers(name)
            except BadCell as error:
                bad[name] = error
        if bad:
            first, error = next(iter(bad.items()))
            others = f" (also columns {quote_names(list(bad)[1:])})" if len(bad) > 1 else ""
            advice = f"leave {'them' if others else 'it'} out with {{drop}}"
            raise InputError(
                f"column {first!r} {error}{others}; {'the model needs numbers there' if needed else advice}.",
                place=self.path if error.row is None else self.place(error.row),
                drop=Option("drop", list(bad)),
            )
        return found

    def classes(self, name: str, kind: str | None = None) -> Labels:
        """Return a column of labels and which are missing; a label that is a quantity is refused."""
        try:
            y, missing = self.labels(name, kind)
        except BadCell as error:
            raise InputError(
                f"column {name!r} {error}; read labels as text with {{text}}.",
                place=self.path if error.row is None else self.place(error.row),
                text=Option("text_labels", True),
            ) from None
        check_classes(y, missing, f"column {name!r} of {self.path}", self.first_row)
        return y, missing

    def check_known(self, columns: Iterable[str]) -> None:
        """Refuse a name that is not a column, and suggest the nearest one."""
        held = [name for name in self.names if name]
        for name in columns:
            if name not in held:
                lower = {one.lower(): one for one in held}
                close = difflib.get_close_matches(name.lower(), lower, n=1)
                hint = f"Did you mean {lower[close[0]]!r}?" if close else f"It holds {quote_names(held)}."
                raise InputError(f"{self.path} has no column {name!r}. {hint}")


class CellTable(Table):
    """Columns of text that mean what `nearkin.tables.cells` says."""

    def __init__(self, path: str, columns: dict[str, list[str]], n_rows: int, first_row: int = 0):
        super().__init__(path, list(columns), n_rows, first_row)
        self._columns = columns

    def numbers(self, name: str) -> NDArray[Any]:
        """Return a column of numbers, NaN where a cell is missing."""
        return parse_numbers(self._columns[name])

    def labels(self, name: str, kind: str | None = None) -> Labels:
        """Return a column of labels and which are missing."""
        return parse_labels(self._columns[name], kind)

    def values(self, name: str) -> list[str]:
        """Return the cells as they stand in the file."""
        return self._columns[name]


@dataclass(frozen=True)
class Chunk:
    """Labelled rows: a missing number is NaN, a missing label is marked."""

    X: Array
    y: NDArray[Any]
    no_label: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, part: slice) -> Chunk:
        return Chunk(self.X[part], self.y[part], self.no_label[part])

    @classmethod
    def join(cls, parts: list[Chunk]) -> Chunk:
        """Return the rows of several chunks; labels that are numbers and text stay what they are."""
        if len(parts) == 1:
            return parts[0]
        labels = [one.y for one in parts]
        if len({one.dtype.kind in "USO" for one in labels}) > 1:
            labels = [one.astype(object) for one in labels]
        return cls(
            np.concatenate([one.X for one in parts]),
            np.concatenate(labels),
            np.concatenate([one.no_label for one in parts]),
        )


@dataclass(frozen=True)
class Layout:
    """How rows are made of columns, the same in all parts of a table.

    Parameters
    ----------
    columns : sequence of str
        Feature columns in order.
    widths : sequence of int
        Numbers in each: 0 for a plain column, the length of its vectors for a column of vectors.
    label : str
        Label column.
    kind : {"whole", "decimal", "number", "text"}
        How labels are written.
    dtype : str
        Of the features.
    """

    columns: Sequence[str]
    widths: Sequence[int]
    label: str
    kind: str
    dtype: str

    @property
    def names(self) -> list[str]:
        """One name for every feature; an entry of a vector is called ``name[i]``."""
        sizes = zip(self.columns, self.widths, strict=True)
        return [one for name, width in sizes for one in expand_name(name, width)]

    @property
    def needed(self) -> list[str]:
        """Columns to read."""
        return [*self.columns, self.label]

    def chunk(self, table: Table) -> Chunk:
        """Return features and labels of a table."""
        X = np.empty((table.n_rows, sum(max(1, width) for width in self.widths)), self.dtype)
        at = 0
        for (name, block), width in zip(table.features(self.columns).items(), self.widths, strict=True):
            size = max(1, width)
            if width and not block.size:  # none of the vectors is there
                block = np.full((len(X), width), np.nan)
            if block.shape != ((len(X), width) if width else (len(X),)):
                raise InputError(
                    f"column {name!r} holds {block[0].size} numbers a row, elsewhere {size}.", place=table.place(0)
                )
            X[:, at : at + size] = block.reshape(len(X), size)
            at += size
        return Chunk(X, *table.classes(self.label, self.kind))


def expand_name(name: str, width: int) -> list[str]:
    """Return the names of the features that a column gives; ``width`` is 0 unless it holds vectors."""
    return [f"{name}[{i}]" for i in range(width)] if width else [name]


def choose_columns(table: Table, label: str | None, features: Sequence[str] | None, drop: Sequence[str]) -> list[str]:
    """Return the feature columns: those named, or all, less the label and those to drop."""
    if label is not None and label in (features or ()):
        raise InputError(f"{table.path}: column {label!r} is the label and cannot be a feature too.")
    out = {"", label, *drop}
    chosen = [name for name in (features or table.names) if name not in out]
    if not chosen:
        raise InputError(f"{table.path} has no feature columns left.")
    return chosen


def check_classes(y: NDArray[Any], missing: NDArray[np.bool_], title: str, first_row: int = 0) -> None:
    """Refuse labels that are quantities."""
    if y.dtype.kind != "f":
        return
    fraction = ~missing & (~np.isfinite(y) | (y != np.floor(y)))
    if fraction.any():
        row = int(fraction.argmax())
        raise InputError(
            f"{title} holds {y[row]} in data row {first_row + row + 1:,}; a label names a class, not a quantity."
        )


def find_gap(X: Array, names: Sequence[str] | None) -> tuple[int, str]:
    """Return the first row that holds a missing or infinite number, and what is wrong with it."""
    row, column = (int(one) for one in np.argwhere(~np.isfinite(X))[0])
    name = repr(names[column]) if names else str(column + 1)
    value = X[row, column]
    return row, f"column {name} holds {'no value' if np.isnan(value) else f'an infinite value ({value})'}"


def single_or_double(dtypes: Iterable[Any]) -> str:
    """Return the precision that holds all columns: single only if every one has it."""
    return "float32" if all(one in (np.float16, np.float32) for one in dtypes) else "float64"
