"""From a table as people have it to finite numbers: one decision for every column, told in one line."""

from __future__ import annotations

import warnings
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
from nearkin.tables.codes import (
    CategoryCode,
    Code,
    DateCode,
    NumberCode,
    PictureCode,
    TextCode,
    VectorCode,
    as_cells,
    read_numbers,
)
from nearkin.tables.frames import as_table, is_frame, is_mixed
from nearkin.tables.images import PICTURES
from nearkin.tables.kinds import (
    DATES,
    NUMBERS,
    counts_rows,
    find_spelling,
    find_unit,
    is_free_text,
    looks_like_id,
    share_of_numbers,
    without_unit,
)
from nearkin.tables.originals import OriginalCells, keep_originals
from nearkin.tables.raw import Cells, RawColumn
from nearkin.tables.table import Table as AnyTable
from nearkin.tables.table import stack_columns

__all__ = ["ColumnUse", "TableEncoder", "encode_rows"]

#: Categories up to which each has a column of its own, whatever share of the rows it has.
_FEW = 30
#: Share of the rows that differ from which texts are names of rows.
_NAMES = 0.95
#: Dimensions of many categories, by whether they are names of several words or codes, and the fewest and most of texts.
_OF_NAMES, _OF_CODES, _OF_TEXTS = 20, 6, (8, 100)
#: Words of a name, and of a text from which it deserves the most dimensions.
_NAME, _LONG = 1.5, 20

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
            self._learn(self._read(table), table.path)
        return self

    def fit_transform(self, X: Any, y: ArrayLike | None = None) -> Array:
        """Decide what every column is, and return the numbers; see `fit` and `transform`."""
        check_settings(self)
        with owned_by(self):
            table = as_table(X)
            columns = self._read(table)
            self._learn(columns, table.path)
            return self._stack(table, columns)

    def read(self, table: AnyTable) -> tuple[Array, list[str], dict[str, OriginalCells]]:
        """Decide what every column of a table is; return its features, their names, and what they cannot tell.

        Plain numbers keep their own type.
        """
        check_settings(self)
        with owned_by(self):
            columns = self._read(table)
            self._learn(columns, table.path)
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

    def _learn(self, columns: Sequence[RawColumn], path: str) -> None:
        spellings = {one.name: find_spelling(one.cells) for one in columns if one.cells is not None}
        spellings = {name: found for name, found in spellings.items() if name not in (*self.text, *self.image)}
        has_commas = any(found is not None and found == ("comma", False) for found in spellings.values())
        is_named = self.features is not None
        codes, uses = self._decide(columns, spellings, is_named=is_named, has_commas=has_commas)
        if not codes:
            raise _no_features(path, columns, uses)
        self.columns_, self.codes_ = uses, codes
        used = [one for one in columns if one.name in codes]
        self.is_plain_ = all(_is_plain(one, codes[one.name]) for one in used)

    def _decide(
        self, columns: Sequence[RawColumn], spellings: Mapping[str, tuple[str, bool] | None], *, is_named: bool,
        has_commas: bool,
    ) -> tuple[dict[str, Code], list[ColumnUse]]:  # fmt: skip
        """Return the codes of the columns that are used, and what became of every one."""
        codes: dict[str, Code] = {}
        uses = []
        for one in columns:
            if one.name in self.image:
                code, kind, told = _as_pictures(one)
            elif one.name in self.text:
                code, kind, told = _as_text(as_cells(one), "text")
            elif (spelled := spellings.get(one.name)) is not None:
                name, is_open = spelled
                if name in DATES:
                    code, kind, told = _as_date(one, name, is_open=is_open)
                else:
                    code, kind, told = _as_number(one, "comma" if is_open and has_commas else name, is_named)
            elif one.cells is not None and (unit := find_unit(one.cells)):
                code, kind, told = _as_quantity(one, unit, is_named=is_named, has_commas=has_commas)
            elif one.cells is not None:
                code, kind, told = _as_category(one, is_named)
            elif one.dates is not None:
                code, kind, told = _as_date(one, "plain")
            elif one.numbers is None:
                code, kind, told = None, "unknown", f"left out: it holds {one.kind}, of which nothing is made"
            elif one.numbers.ndim == 2:
                code, kind, told = _as_vectors(one)
            else:
                comma = has_commas and one.texts is not None and _has_thousands(one.texts())
                code, kind, told = _as_number(one, "comma" if comma else "plain", is_named)
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


Decision = tuple[Code | None, str, str]


def _as_number(column: RawColumn, spelling: str, is_named: bool) -> Decision:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the words below tell the same
        numbers = read_numbers(column, spelling)
    gaps = np.isnan(numbers)
    n_gaps = int(gaps.sum())
    if n_gaps == len(numbers):
        return None, "empty", "left out: it is empty"
    present = numbers[~gaps]
    code = NumberCode.learn(numbers, spelling)
    if (present == present[0]).all() and not code.is_only_flag:
        return None, "constant", f"left out: it is {_brief(present[0])} in all rows"
    if not is_named and not n_gaps and spelling == "plain" and column.kind != "true or false":
        if counts_rows(numbers):
            return None, "id", "left out: it counts the rows"
        if looks_like_id(column.name) and len(numbers) > 20 and _all_differ(numbers):
            return None, "id", "left out: it names the rows"
    if code.is_only_flag:
        return (
            code,
            "number",
            f"whether it is there: it is {_brief(present[0])} in all {len(present):,} rows that hold it",
        )
    words = ["true or false" if column.kind == "true or false" else "number"]
    if spelling == "comma":
        words[0] += " with decimal comma"
    elif spelling == "time":
        words[0] = "time of the day, in hours"
    n_bad = 0 if column.cells is None else n_gaps - int((column.cells.codes < 0).sum())
    if n_gaps:
        kinds = f"{n_gaps:,} gap{'s' * (n_gaps > 1)}" + (f" ({n_bad:,} of them no number)" if n_bad else "")
        words.append(f"{kinds} filled with {_brief(code.fill)}" + (" and marked" if code.is_flagged else ""))
    return code, "number", "; ".join(words)


def _as_quantity(column: RawColumn, unit: str, *, is_named: bool, has_commas: bool) -> Decision:
    """Decide about numbers with a unit behind them."""
    assert column.cells is not None
    bare = RawColumn.of_cells(column.name, without_unit(column.cells, unit))
    assert bare.cells is not None
    spelled = find_spelling(bare.cells)
    if spelled is None or spelled[0] not in NUMBERS:
        return _as_category(column, is_named)
    code, kind, told = _as_number(bare, "comma" if spelled[1] and has_commas else spelled[0], is_named)
    if not isinstance(code, NumberCode):
        return code, kind, told
    return replace(code, unit=unit), kind, told.replace("number", f"number of {unit}", 1)


def _all_differ(numbers: Array) -> bool:
    return bool((numbers == np.floor(numbers)).all()) and len(np.unique(numbers)) == len(numbers)


def _as_category(column: RawColumn, is_named: bool) -> Decision:
    cells = column.cells
    assert cells is not None
    n, k = cells.n_present, len(cells.distinct)
    if not k:
        return None, "empty", "left out: it is empty"
    n_gaps = len(cells.codes) - n
    if k == 1:
        code = CategoryCode.learn(cells)
        if not code.is_flagged:
            return None, "constant", f"left out: it is {printable(cells.distinct[0], 30)!r} in all rows"
    if is_free_text(cells):
        return _as_text(cells, "text")
    if k >= _NAMES * n and k > 5 and not is_named:
        if _are_pictures(cells):
            return None, "id", "left out: it names picture files, learned only if you say so"
        _warn_of_numbers(column, "left out, since it seems to name the rows")
        return None, "id", "left out: it names the rows"
    if k > _FEW:
        _warn_of_numbers(column, "taken for categories")
        decided = _as_text(cells, "many categories")
        return decided if decided[0] is not None else (None, "id", "left out: it names the rows")
    code = CategoryCode.learn(cells)
    shown = " or ".join(printable(one, 20) for one in code.values.tolist()) if k == 2 else f"{k:,} values"
    words = f"category, {shown}"
    if code.has_rest or (k > 2 and len(code.values) < k):
        words += f", the {len(code.values):,} most frequent one by one"
    if n_gaps:
        words += f"; {n_gaps:,} gap{'s' * (n_gaps > 1)}" + (" marked" if code.is_flagged else "")
    return code, "category", words


def _no_features(path: str, columns: Sequence[RawColumn], uses: Sequence[ColumnUse]) -> InputError:
    """Return the error of a table of which nothing can be learned, with what may help."""
    why = "; ".join(map(str, uses[:3])) + ("; ..." if len(uses) > 3 else "")
    problem = f"{path} has no feature columns left{f' ({why})' if why else ''}"
    pictures = [one.name for one in columns if one.cells is not None and _are_pictures(one.cells)]
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


def _are_pictures(cells: Cells) -> bool:
    return bool(cells.distinct) and all(one.lower().endswith(PICTURES) for one in cells.distinct)


def _warn_of_numbers(column: RawColumn, taken: str) -> None:
    """Warn of a column of numbers, by more than half, that is not taken for one."""
    assert column.cells is not None
    if 4 * share_of_numbers(Cells.of(column.cells.distinct[:1000])) < 1:  # to read all may take long
        return
    share = share_of_numbers(column.cells)
    if 2 * share > 1:
        unread = next((one for one in column.cells.distinct if not share_of_numbers(Cells.of([one]))), "")
        problem = f"column {column.name!r} is {taken}, though {100 * share:.0f} % of its cells are numbers"
        warnings.warn(problem + (f"; others are like {unread[:40]!r}." if unread else "."), stacklevel=6)


def _as_text(cells: Cells, kind: str) -> Decision:
    if not cells.n_present:
        return None, "empty", "left out: it is empty"
    if len(cells.distinct) == 1:
        return None, "constant", f"left out: it is {printable(cells.distinct[0], 30)!r} in all rows"
    some = cells.distinct[:1000]
    length = sum(len(one.split()) for one in some) / len(some)
    if kind == "text":
        most = np.sqrt(cells.n_present) * min(1.0, length / _LONG)
        n_dimensions = int(np.clip(most, *_OF_TEXTS))
    else:
        most = _OF_NAMES if length >= _NAME else _OF_CODES
        n_dimensions = min(most, max(2, int(np.sqrt(cells.n_present) / 2)))
    code = TextCode.learn(cells, n_dimensions, has_words=kind == "text")
    n_gaps = len(cells.codes) - cells.n_present
    how = "words and letters" if kind == "text" else "spelling"
    what = kind if kind == "text" else f"{len(cells.distinct):,} categories"
    words = f"{what}, as {len(code.space):,} numbers by {how}"
    if n_gaps:
        words += f"; {n_gaps:,} gap{'s' * (n_gaps > 1)}" + (" marked" if code.is_flagged else "")
    return code, kind, words


def _as_date(column: RawColumn, spelling: str, *, is_open: bool = False) -> Decision:
    dates = column.dates
    if dates is not None and np.isnat(dates).all():
        return None, "empty", "left out: it is empty"
    code = DateCode.learn(column, spelling)
    if not code.names(""):
        return None, "constant", "left out: it is one date in all rows"
    parts = ["days"] * code.has_age + [f"place in the {one}" for one in code.rounds]
    order = (
        f" ({spelling}{', though day first fits too' * is_open})" if spelling in ("month first", "day first") else ""
    )
    return code, "date", f"date{order}, as " + ", ".join(parts) + ("; gaps marked" if code.is_flagged else "")


def _as_vectors(column: RawColumn) -> Decision:
    vectors = column.numbers
    assert vectors is not None
    if not vectors.size or np.isnan(vectors).all():
        return None, "empty", "left out: it is empty"
    code = VectorCode.learn(vectors)
    n_gaps = int(np.isnan(vectors).any(axis=1).sum())
    return code, "vectors", f"vectors of {vectors.shape[1]:,} numbers" + (f"; {n_gaps:,} gaps filled" if n_gaps else "")


def _as_pictures(column: RawColumn) -> Decision:
    n_dimensions = int(np.clip(1.5 * np.sqrt(column.n_rows), *_OF_TEXTS))
    try:
        code, n_bad = PictureCode.learn(column, n_dimensions)
    except BadCell as cell:
        raise InputError(f"column {column.name!r} {cell}.") from None
    except ImportError as error:
        raise ImportError(f"column {column.name!r}: {error}") from None
    words = f"pictures, as {len(code.space):,} numbers by edges and colours"
    return code, "pictures", words + (f"; {n_bad:,} cannot be read" if n_bad else "")


def _has_thousands(cells: Cells) -> bool:
    """Whether points stand before three digits wherever they stand, as between thousands."""
    dotted = [one for one in cells.distinct if "." in one]
    return bool(dotted) and all(_is_grouped(one) for one in dotted)


def _is_grouped(text: str) -> bool:
    first, *groups = text.lstrip("+-").split(".")
    return 1 <= len(first) <= 3 and first != "0" and all(len(one) == 3 and one.isdigit() for one in groups)


def _brief(value: Any) -> str:
    return f"{float(value):.6g}"
