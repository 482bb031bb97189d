"""From a table as people have it to finite numbers: one decision for every column, told in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from nearkin.arrays import Array
from nearkin.errors import InputError, Option, owned_by, printable, quote_names
from nearkin.settings import Instance, check_settings, declare, setting
from nearkin.stored import Count, Flag, Items, Maybe, Part, Table, Text, stored
from nearkin.tables.cells import BadCell
from nearkin.tables.choice import REVIEWED, are_pictures, as_pictures, as_text, choose_code
from nearkin.tables.codes import (
    CategoryCode,
    Code,
    DateCode,
    NumberCode,
    PictureCode,
    TextCode,
    VectorCode,
    as_cells,
)
from nearkin.tables.frames import as_table, is_frame, is_mixed
from nearkin.tables.kinds import find_spelling
from nearkin.tables.originals import OriginalCells, keep_originals
from nearkin.tables.raw import RawColumn
from nearkin.tables.table import Table as AnyTable
from nearkin.tables.table import stack_columns

__all__ = ["ColumnUse", "TableEncoder", "encode_rows"]

NAMES = Instance((list, tuple), "a list of names")


@stored(name=Text(), kind=Text(), told=Text(), n_features=Count())
@dataclass(frozen=True)
class ColumnUse:
    """What became of a column: its ``kind``, how many features it gave, and the same in words."""

    name: str
    kind: str
    told: str
    n_features: int

    @property
    def is_left_out(self) -> bool:
        """Whether nothing of it is used."""
        return not self.n_features

    def __str__(self) -> str:
        return f"{printable(self.name, 40)}: {self.told}"


@stored(
    together=("columns_", "codes_", "is_plain_"),
    columns_=Items(Part(ColumnUse), least=1),
    codes_=Table(Text(), Part(NumberCode, CategoryCode, DateCode, PictureCode, TextCode, VectorCode)),
    is_plain_=Flag(),
    features=Maybe(Items(Text())), drop=Items(Text()), text=Items(Text()), image=Items(Text()),
)  # fmt: skip
@declare
class TableEncoder(TransformerMixin, BaseEstimator):
    r"""Turns a table of numbers, gaps, categories, dates and texts into finite numbers.

    `fit` decides what every column is and says so in `columns_`. Numbers stay as they are, and a missing one becomes
    the median, with one more feature that tells where; decimal commas and separators of thousands are understood.
    Few categories get a feature each; many become a few numbers by their spelling, as texts do by their words and
    letters (TF-IDF and truncated SVD). Dates become days, and places in year, week and day where these vary. Columns
    that are empty, constant, or name or count the rows are left out. No label is looked at.

    Fitted state is plain arrays, so that a model file holds it without pickle. Learners and classifiers of nearkin fit
    an encoder of their own when they are given a frame that is not all numbers.

    Parameters
    ----------
    {settings}

    Attributes
    ----------
    columns_ : list of ColumnUse
        What became of every column; print them.
    is_plain_ : bool
        Whether all that is used are numbers without gaps, which stay as they are.

    Examples
    --------
    >>> import nearkin
    >>> table = {"age": ["31", "", "54", "40"] * 6, "colour": ["red", "blue", "red", "green"] * 6}
    >>> import pandas
    >>> encoder = nearkin.TableEncoder()
    >>> encoder.fit_transform(pandas.DataFrame(table)).shape
    (24, 5)
    >>> print(*encoder.columns_, sep="\n")
    age: number; 6 gaps filled with 40 and marked
    colour: category, 3 values
    """

    features: Sequence[str] | None = setting(
        None, NAMES, kind="list of str or None",
        doc="Columns to use, in this order; None for all. A column that is named is not taken for a name of the rows.",
    )  # fmt: skip
    drop: Sequence[str] = setting((), NAMES, kind="list of str", doc="Columns to leave out.")
    text: Sequence[str] = setting((), NAMES, kind="list of str", doc="Columns of texts, whatever they look like.")
    image: Sequence[str] = setting(
        (), NAMES, kind="list of str",
        doc="Columns of picture files (needs Pillow): described by edges and colours. Paths start at the folder of the "
        "table, for a frame at the working folder.",
    )  # fmt: skip

    def fit(self, X: Any, y: ArrayLike | None = None) -> Self:
        """Decide what every column is.

        Parameters
        ----------
        X : frame of pandas or polars, Arrow table or array of shape (n_rows, n_columns)
            Rows. Columns of an array are called x0, x1, ...
        y : ignored
            Labels are never looked at.

        Returns
        -------
        self
            Fitted.
        """
        check_settings(self)
        with owned_by(self):
            table = as_table(X)
            self._learn(self._read(table), table)
        return self

    def fit_transform(self, X: Any, y: ArrayLike | None = None) -> Array:
        """Decide what every column is, and return the numbers; see `fit` and `transform`."""
        check_settings(self)
        with owned_by(self):
            table = as_table(X)
            columns = self._read(table)
            self._learn(columns, table)
            return self._stack(table, columns)

    def read(self, table: AnyTable) -> tuple[Array, list[str], dict[str, OriginalCells]]:
        """Decide what every column of a table is; return its features, their names, and what they cannot tell.

        Plain numbers keep their own type.
        """
        check_settings(self)
        with owned_by(self):
            columns = self._read(table)
            self._learn(columns, table)
            used = [one for one in columns if one.name in self.codes_]
            originals = {one.name: kept for one in used if (kept := keep_originals(one, self.codes_[one.name]))}
            if self.is_plain_:
                return *stack_columns({one.name: one.numbers for one in used if one.numbers is not None}), originals
            return self._stack(table, used), self.get_feature_names_out().tolist(), originals

    def _stack(self, table: AnyTable, columns: Sequence[RawColumn]) -> Array:
        blocks = [self._apply(table, one) for one in columns if one.name in self.codes_]
        return np.ascontiguousarray(np.column_stack(blocks), dtype=np.float64)

    def _read(self, table: AnyTable) -> list[RawColumn]:
        table.check_known([*(self.features or ()), *self.drop, *self.text, *self.image])
        if not table.n_rows:
            raise InputError(f"{table.path} holds no rows.")
        left_out = {"", *self.drop}
        return [self._raw(table, name) for name in self.features or table.names if name not in left_out]

    def _raw(self, table: AnyTable, name: str) -> RawColumn:
        try:
            column = table.raw(name)
        except BadCell as cell:
            problem = f"column {name!r} {cell}; correct it, or leave it out with {{drop}}."
            raise InputError(problem, place=table.place(cell.row), drop=Option("drop", [name])) from None
        return replace(column, folder=table.folder) if name in self.image else column

    def _learn(self, columns: Sequence[RawColumn], table: AnyTable) -> None:
        spellings = {one.name: find_spelling(one.cells) for one in columns if one.cells is not None}
        spellings = {name: found for name, found in spellings.items() if name not in (*self.text, *self.image)}
        has_commas = any(found is not None and found == ("comma", False) for found in spellings.values())
        ours = () if self.features is not None or not {*REVIEWED} <= {*table.names} else REVIEWED
        codes, uses = self._decide(columns, spellings, ours, has_commas=has_commas)
        if not codes:
            raise _no_features(table.path, columns, uses)
        self.columns_, self.codes_ = uses, codes
        used = [one for one in columns if one.name in codes]
        self.is_plain_ = all(_is_plain(one, codes[one.name]) for one in used)

    def _decide(
        self, columns: Sequence[RawColumn], spellings: Mapping[str, tuple[str, bool] | None], ours: Sequence[str], *,
        has_commas: bool,
    ) -> tuple[dict[str, Code], list[ColumnUse]]:  # fmt: skip
        """Return the codes of the columns that are used, and what became of every one; ``ours`` tell the label."""
        codes: dict[str, Code] = {}
        uses = []
        for one in columns:
            code: Code | None
            if one.name in ours:
                code, kind, told = None, "review", "left out: nearkin apply wrote it"
            elif one.name in self.image:
                code, kind, told = as_pictures(one)
            elif one.name in self.text:
                code, kind, told = as_text(as_cells(one), "text")
            else:
                spelled = spellings.get(one.name)
                code, kind, told = choose_code(one, spelled, is_named=self.features is not None, has_commas=has_commas)
            if code is not None:
                codes[one.name] = code
            uses.append(ColumnUse(one.name, kind, told, len(code.names(one.name)) if code is not None else 0))
        return codes, uses

    def transform(self, X: Any) -> Array:
        """Return the numbers of the rows of a table.

        Parameters
        ----------
        X : frame of pandas or polars, Arrow table or array
            With the columns that were learned, in any order.

        Returns
        -------
        ndarray of shape (n_rows, n_features_out)
            Finite numbers.
        """
        check_is_fitted(self)
        with owned_by(self):
            table = as_table(X)
            if missing := [one for one in self.codes_ if one not in table.names]:
                held = quote_names(one for one in table.names if one)
                others = f" (also {quote_names(missing[1:])})" if len(missing) > 1 else ""
                raise InputError(f"{table.path} has no column {missing[0]!r}{others}; it holds {held}.")
            blocks = [self._apply(table, self._raw(table, name)) for name in self.codes_]
        return np.ascontiguousarray(np.column_stack(blocks), dtype=np.float64)

    def _apply(self, table: AnyTable, column: RawColumn) -> Array:
        try:
            return self.codes_[column.name].apply(column)
        except BadCell as cell:
            raise InputError(f"column {column.name!r} {cell}.", place=table.place(cell.row)) from None

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the features."""
        check_is_fitted(self)
        return np.array([one for name, code in self.codes_.items() for one in code.names(name)], dtype=object)

    def check_stored(self) -> dict[str, int]:
        """Return how many features there are, as the model that holds the encoder must have."""
        told = {one.name: one.n_features for one in self.columns_ if one.n_features}
        if told != {name: len(code.names(name)) for name, code in self.codes_.items()}:
            raise ValueError("what is told of the columns differs from their codes")
        return {"e": self.n_features_out_}

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the columns were decided."""
        return "codes_" in self.__dict__

    @property
    def n_features_out_(self) -> int:
        """Number of features."""
        return sum(one.n_features for one in self.columns_)


def encode_rows(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Return a frame that is not all numbers as numbers, by the encoder of an estimator; anything else as it is.

    With ``reset`` the encoder is learned from X, if it needs one, and becomes ``encoder_``.
    """
    if reset:
        vars(estimator).pop("encoder_", None)
        if not is_mixed(X):
            return X
        encoder = TableEncoder()
        with owned_by(estimator):
            encoded = encoder.fit_transform(X)
        estimator.encoder_ = encoder
        return encoded
    known: TableEncoder | None = getattr(estimator, "encoder_", None)
    if known is None or not is_frame(X):
        return X
    with owned_by(estimator):
        return known.transform(X)


def _is_plain(column: RawColumn, code: Code) -> bool:
    """Whether a code leaves the numbers of a column as they are."""
    is_same = isinstance(code, VectorCode) or (isinstance(code, NumberCode) and code.is_plain)
    return is_same and column.numbers is not None and bool(np.isfinite(column.numbers).all())


def _no_features(path: str, columns: Sequence[RawColumn], uses: Sequence[ColumnUse]) -> InputError:
    """Return the error of a table of which nothing can be learned, with what may help."""
    why = "; ".join(map(str, uses[:3])) + ("; ..." if len(uses) > 3 else "")
    problem = f"{path} has no feature columns left{f' ({why})' if why else ''}"
    pictures = [one.name for one in columns if one.cells is not None and are_pictures(one.cells)]
    names = [one.name for one in uses if one.kind == "id"]
    texts = [one.name for one in columns if one.name in names and one.cells is not None]
    if pictures:
        return InputError(f"{problem}; learn from the pictures with {{image}}.", image=Option("image", pictures[:1]))
    if names:
        hint = "if a column holds texts, say so with {text}; " if texts else ""
        return InputError(
            f"{problem}; {hint}if one is worth learning all the same, name it with {{features}}.",
            text=Option("text", texts[:1]), features=Option("features", names[:1]),
        )  # fmt: skip
    return InputError(f"{problem}.")
