"""Parts of files that can be read again on their own (row groups, ranges, blocks of lines), and their rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array
from nearkin.errors import InputError, quote_names
from nearkin.tables.encoder import TableEncoder
from nearkin.tables.table import ArrowTable, Table, check_label_type, is_list, is_text, single_or_double

__all__ = ["COLUMN_BYTES", "Chunk", "Layout", "Reader", "Unit", "layout_of", "note_others"]

#: What pyarrow takes to read a column, however few its rows, measured.
COLUMN_BYTES = 10_000


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
        X, no_label = (np.concatenate([getattr(one, name) for one in parts]) for name in ("X", "no_label"))
        return cls(X, np.concatenate(labels), no_label)


@dataclass(frozen=True)
class Unit:
    """Rows that are read together, numbered from 0 in the file; only its reader knows what ``at`` means."""

    path: str
    n_rows: int
    first_row: int
    at: tuple[int, ...] = ()


class Reader(Protocol):
    """Reads units of one kind of file; a dataclass of plain values, so that it can be sent elsewhere."""

    kind: ClassVar[str]

    @property
    def n_bytes(self) -> int:
        """Most bytes that reading takes beside the rows."""

    @property
    def names(self) -> list[str] | None:
        """Names of the features."""

    def read(self, unit: Unit, start: int, size: int) -> Iterator[Chunk]:
        """Yield the rows of a unit from ``start`` on, at most ``size`` at a time."""


@dataclass(frozen=True)
class Layout:
    """How rows are made of columns, the same in all parts of a table.

    ``widths`` holds the numbers in each feature column: 0 if it is plain, the length of its vectors if it holds those.
    ``kind`` says how labels are written: "whole", "decimal", "number" or "text"; ``dtype`` is that of the features.
    A layout ``is_fixed`` if a model has learned its columns, so that none can be left out. An ``encoder`` makes the
    features of columns that are not all numbers.
    """

    columns: Sequence[str]
    widths: Sequence[int]
    label: str
    kind: str
    dtype: str
    is_fixed: bool = False
    encoder: TableEncoder | None = None

    @property
    def names(self) -> list[str]:
        """One name for every feature; an entry of a vector is called ``name[i]``."""
        if self.encoder is not None:
            return self.encoder.get_feature_names_out().tolist()
        out: list[str] = []
        for name, width in zip(self.columns, self.widths, strict=True):
            out += [f"{name}[{i}]" for i in range(width)] if width else [name]
        return out

    @property
    def needed(self) -> list[str]:
        """Columns to read."""
        return [*(self.columns if self.encoder is None else self.encoder.codes_), self.label]

    def encoded(self, table: Table, *, is_named: bool, text: Sequence[str] = (), fills: bool = False) -> Layout:
        """Return the layout with an encoder learned from the first rows, if these are not all numbers.

        Numbers alone need none unless it ``fills`` gaps. A column of numbers with a few cells of something else is left
        to those who read it, who refuse it.
        """
        others = sorted({*table.names} - {"", *self.columns})
        encoder = TableEncoder(features=list(self.columns) if is_named else None, drop=others, text=list(text))
        raw = {name: table.raw(name) for name in self.columns}
        if not fills and not text and all(one.numbers is not None for one in raw.values()):
            return self
        encoder.fit(table)
        odd = [one for one in encoder.columns_ if raw[one.name].numbers is None and "no number" not in one.told]
        return replace(self, encoder=encoder, dtype="float64") if odd or fills or text else self

    def arranged(
        self, learned: Mapping[str, int], kind: str | None, place: str, encoder: TableEncoder | None = None
    ) -> Layout:
        """Return the layout of the columns that a model has learned, by name and in its order.

        ``learned`` holds their widths, and ``kind`` says how its labels are written, if that is known; "words" are text
        of which none looks like a number. ``encoder`` is that of the model.
        """
        widths = dict(zip(self.columns, self.widths, strict=True))
        if missing := [name for name in learned if name not in widths]:
            others = f" (also {quote_names(missing[1:])})" if len(missing) > 1 else ""
            held = quote_names(self.columns)
            raise InputError(f"{place} has no column {missing[0]!r}{others}, which the model needs; it holds {held}.")
        for name, width in learned.items() if encoder is None else ():
            if widths[name] != width:
                words = [f"vectors of {one:,} numbers" if one else "single numbers" for one in (widths[name], width)]
                raise InputError(f"{place}: column {name!r} holds {words[0]}; the model has learned {words[1]}.")
        own = self.kind
        if kind == "text" and own in ("whole", "decimal"):  # of CSV, where text may look like numbers
            own = "text"
        if kind is not None and (kind in ("text", "words")) != (own == "text"):
            words = ["text" if one in ("text", "words") else "numbers" for one in (own, kind)]
            raise InputError(
                f"{place}: label column {self.label!r} holds {words[0]}; the model has learned {words[1]}."
            )
        dtype = self.dtype if encoder is None else "float64"
        return replace(
            self, columns=list(learned), widths=list(learned.values()), kind=own, is_fixed=True, dtype=dtype,
            encoder=encoder,
        )  # fmt: skip

    def chunk(self, table: Table) -> Chunk:
        """Return features and labels of a table."""
        if self.encoder is not None:
            return Chunk(self.encoder.transform(table), *table.classes(self.label, self.kind))
        X = np.empty((table.n_rows, sum(max(1, width) for width in self.widths)), self.dtype)
        at = 0
        for (name, block), width in zip(
            table.features(self.columns, needed=self.is_fixed).items(), self.widths, strict=True
        ):
            size = max(1, width)
            if width and not block.size:  # none of the vectors is there
                block = np.full((len(X), width), np.nan)
            if block.shape != ((len(X), width) if width else (len(X),)):
                problem = f"column {name!r} holds {block[0].size} numbers a row, elsewhere {size}."
                raise InputError(problem, place=table.place(0))
            X[:, at : at + size] = block.reshape(len(X), size)
            at += size
        return Chunk(X, *table.classes(self.label, self.kind))


def note_others(names: Mapping[str, Sequence[str]], needed: Sequence[str], drop: Sequence[str]) -> None:
    """Warn of columns that are left out because the first file, which says what is read, does not have them.

    ``names`` are those of the columns of every file.
    """
    known = {"", *needed, *drop}
    first = next(iter(names), "")
    for path, held in names.items():
        if others := [name for name in held if name not in known]:
            problem = f"{path} has columns that {first} does not have, which are left out: {quote_names(others)}."
            warnings.warn(problem, stacklevel=4)
            return


def layout_of(
    schema: Any,
    path: str,
    width: Callable[[str], int],
    label: str | None,
    features: Sequence[str] | None,
    drop: Sequence[str],
    sample: Callable[[Sequence[str]], Table] | None = None,
    *,
    text: Sequence[str] = (),
    fills: bool = False,
) -> Layout:
    """Return the layout of Arrow tables; ``width`` finds the length of vectors where the type does not tell it.

    ``sample`` reads the first rows of some columns, of which an encoder is learned where they are not all numbers.
    """
    empty = ArrowTable(path, schema.names, 0, schema.empty_table().column)
    empty.check_known([*(features or ()), *drop, *text])
    label = empty.check_label(label)
    chosen = empty.choose(label, features, drop)
    if sample is not None and (text or fills or any(empty.raw(one).numbers is None for one in chosen)):
        kind = schema.field(label).type
        kind = getattr(kind, "value_type", kind)
        check_label_type(kind, label, path)
        layout = Layout(chosen, [0] * len(chosen), label, "text" if is_text(kind) else "number", "float64")
        return layout.encoded(sample(chosen), is_named=features is not None, text=text, fills=fills)
    found = empty.features(chosen)
    kinds = [schema.field(name).type for name in chosen]
    widths = [
        (getattr(kind, "list_size", None) or width(name)) if is_list(kind) else 0
        for name, kind in zip(chosen, kinds, strict=True)
    ]
    dtypes = [
        kind.value_type.to_pandas_dtype() if is_list(kind) else block.dtype
        for kind, block in zip(kinds, found.values(), strict=True)
    ]
    kind = schema.field(label).type
    kind = getattr(kind, "value_type", kind)  # of a dictionary
    check_label_type(kind, label, path)
    return Layout(chosen, widths, label, "text" if is_text(kind) else "number", single_or_double(dtypes))
