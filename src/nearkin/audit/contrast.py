"""Which columns of a table speak for another label than the given one, by one rule.

The score of a column is a log-likelihood ratio. With g the given class and b the other one,

    score = log p(value | b) - log p(value | g),

so a positive score speaks for b, and e to the power of the score says how many times more often rows of b look like
that. Only rows that are not suspects count as rows of a class, and columns are looked at one by one.

* A number is normal around the median of each class, with one spread for all classes: 1.4826 times the median distance
  from the own median, or the root mean square where more than half of the rows sit on their median. Then
  ``score = [(x - m_g)^2 - (x - m_b)^2] / (2 v)``.
* A category has its share among the rows of each class. As if five more rows of either class had been drawn from all
  rows, ``p = (1 - t) share + t share of all``, with ``t = 5 / (5 + rows of the smaller class)``: what few rows say
  counts little, and a value that neither class has says nothing.
* A missing value is a category of its own, beside the numbers.
* Dates are several numbers, whose scores are summed. Texts are compared by their words (`nearkin.audit.words`).

No feature and no column has a score beyond 8 (a factor of 3,000), so that one of them cannot hide the others.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearkin.arrays import Array, Codes, Index, Mask
from nearkin.noise.model import split_rows, spread_rows
from nearkin.tables import ColumnUse, DateCode, NumberCode, OriginalCells

__all__ = ["INEXACT", "LARGEST", "N_SHOWN", "ClassContrast", "Column", "Feature", "blend_share", "list_columns"]

#: Columns shown of a row, the largest score, and the smallest that is shown.
N_SHOWN, LARGEST, _SMALLEST = 5, 8.0, 0.05
#: Columns without names up to which they are shown: more are pixels or embeddings, which say nothing to a person.
_UNNAMED = 100
#: Rows of each class of which medians are taken: as many as make that many numbers in all, but never fewer than these.
_NUMBERS, _FEWEST = 4_000_000, 200
#: Rows that are added to the shares of categories.
_ADDED = 5.0
#: A spread, as a share of the medians, that is only rounding; and a factor whose square is finite.
_ROUNDING, _HUGE = 1e-9, 1e100
#: From a median distance to the standard deviation of a normal distribution.
_NORMAL = 1.4826
#: Kinds of columns whose features a person cannot read, and those whose words are compared as such.
INEXACT, _WORDS = ("vectors", "pictures", "text"), ("category", "many categories")
MISSING = "missing"


@dataclass(frozen=True)
class Feature:
    """What one column says about a label: see `nearkin.audit.contrast` for the rule."""

    name: str
    #: Of the row, as the table has it.
    value: str
    #: Above 0 it speaks for the other label, below 0 for the given one.
    score: float
    #: The median, or the most frequent value, among the trusted rows of either class.
    usual_given: str
    usual_other: str


@dataclass(frozen=True)
class Column:
    """A column that a person can read: its name, the features that are numbers, and what these cannot tell."""

    name: str
    features: slice
    cells: OriginalCells | None = None
    code: Any = None
    is_category: bool = False

    @property
    def has_words(self) -> bool:
        """Whether its values are words rather than numbers."""
        return self.cells is not None and self.cells.has_words

    @property
    def has_numbers(self) -> bool:
        """Whether its first feature is its value; it is not where a column only tells its gaps."""
        return self.features.stop > self.features.start

    def write(self, number: float) -> str:
        """Write a number as the table would have it."""
        if np.isnan(number):
            return MISSING
        if isinstance(self.code, DateCode):
            seconds = np.datetime64(round(number * 86400.0), "s")
            return str(seconds).replace("T", " ")[: 16 if "day" in self.code.rounds else 10]
        if isinstance(self.code, NumberCode):
            if self.code.spelling == "time":
                minutes = round(number * 60.0)
                return f"{minutes // 60:02}:{minutes % 60:02}"
            if self.code.unit:
                return f"{_brief(number)} {self.code.unit}"
        return _brief(number)


def _brief(number: float) -> str:
    return f"{number:.0f}" if number == round(number) and abs(number) < 1e15 else f"{number:.6g}"


def list_columns(
    model: Any, X: Any, columns: Sequence[ColumnUse], originals: Mapping[str, OriginalCells]
) -> list[Column]:
    """Return the columns behind the features that a person can read; none of modalities and of anonymous pixels."""
    if isinstance(X, Mapping):
        return []
    n_features = np.shape(X)[1]
    if columns:
        codes = getattr(getattr(model, "encoder_", None), "codes_", {})
        return _list_encoded(columns, codes, originals)
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = [f"feature {j}" for j in range(n_features)] if n_features <= _UNNAMED else []
    return [Column(str(name), slice(j, j + 1)) for j, name in enumerate(names)]


def _list_encoded(
    columns: Sequence[ColumnUse], codes: Mapping[str, Any], originals: Mapping[str, OriginalCells]
) -> list[Column]:
    found, start = [], 0
    for one in columns:
        code, cells = codes.get(one.name), originals.get(one.name)
        is_category = one.kind in _WORDS or (cells is not None and cells.has_words and one.kind == "number")
        # The last feature may tell gaps, which count as a category here.
        n_numbers = one.n_features - (getattr(code, "is_flagged", False) is True)
        if one.n_features and one.kind not in INEXACT and (cells is not None or not is_category):
            features = slice(start, start + (0 if is_category else n_numbers))
            found.append(Column(one.name, features, cells, code, is_category))
        start += one.n_features
    return found


class ClassContrast:
    """What is usual in every class, column by column, and how far single rows depart from it.

    Costs one pass over a bounded number of rows of each class; a row then costs its number of features.
    """

    def __init__(self, X: Any, columns: Sequence[Column], codes: Codes, is_suspect: Mask):
        self.columns, self._codes = list(columns), codes
        self._trusted = np.flatnonzero(~is_suspect)
        self._sizes = np.bincount(codes[self._trusted], minlength=int(codes.max()) + 1)
        self._shares = [None if one.cells is None else self._count(one.cells, one.is_category) for one in self.columns]
        self._numeric = np.array([j for one in self.columns for j in range(one.features.start, one.features.stop)], int)
        self._X = np.asarray(X) if len(self._numeric) else np.zeros((len(codes), 0))
        self._learn_numbers()

    def _learn_numbers(self) -> None:
        """Find the median of every feature in every class, and its spread within classes."""
        d, n_classes = len(self._numeric), len(self._sizes)
        low, high = (end(axis=0)[self._numeric].astype(np.float64) for end in (self._X.min, self._X.max))
        # Numbers are scaled by powers of two, so that no square overflows.
        self._exponents = np.frexp(np.maximum(high, -low))[1]
        self._gaps = {j: one.cells.codes for one, j in self._homes() if one.cells is not None}
        most = max(_FEWEST, _NUMBERS // (max(1, d) * n_classes))
        order = self._trusted[np.argsort(self._codes[self._trusted], kind="stable")]
        groups = np.split(order, np.cumsum(self._sizes)[:-1])
        self._medians, away = np.full((n_classes, d), np.nan), []
        for c, rows in enumerate(groups):
            block = self._numbers(rows[spread_rows(len(rows), most)])
            self._medians[c] = _median(block)
            away.append(np.abs(block - self._medians[c]))
        far = np.concatenate(away)
        self._spread = _NORMAL * np.nan_to_num(_median(far))
        still = self._spread == 0.0
        if still.any():
            held = np.nan_to_num(far[:, still])
            self._spread[still] = np.sqrt((held * held).sum(axis=0) / np.maximum((~np.isnan(far[:, still])).sum(0), 1))

    def _homes(self) -> list[tuple[Column, int]]:
        """Columns with the place of each of their features among the numbers."""
        owners = [one for one in self.columns for _ in range(one.features.start, one.features.stop)]
        return [(one, j) for j, one in enumerate(owners)]

    def _numbers(self, rows: Index) -> Array:
        """Return scaled numbers of rows; NaN is missing."""
        found = np.ldexp(self._X[np.ix_(rows, self._numeric)].astype(np.float64), -self._exponents)
        for j, codes in self._gaps.items():
            found[codes[rows] < 0, j] = np.nan
        return found

    def _count(self, cells: OriginalCells, is_category: bool) -> _Shares:
        """Count the words of every class, or only whether there is a value."""
        values = cells.codes + 1 if is_category else (cells.codes >= 0).astype(np.int64)
        return _Shares(values, self._codes, self._trusted, self._sizes)

    # ------------------------------------------------------------------ rows

    def scores(self, rows: Index, given: Codes, other: Codes) -> Array:
        """Return what every column says about rows, whose classes are to be told apart; see the module for the rule."""
        found = np.zeros((len(rows), len(self.columns)))
        for part in split_rows(len(rows), max(1, len(self._numeric))):
            by_number = self._score_numbers(rows[part], given[part], other[part])
            start = 0
            for c, column in enumerate(self.columns):
                end = start + column.features.stop - column.features.start
                found[part, c] = by_number[:, start:end].sum(axis=1)
                start = end
        for c, shares in enumerate(self._shares):
            if shares is not None:
                found[:, c] += shares.compare(rows, given, other)
        return np.clip(found, -LARGEST, LARGEST)

    def _score_numbers(self, rows: Index, given: Codes, other: Codes) -> Array:
        own, others, x = self._medians[given], self._medians[other], self._numbers(rows)
        spread = np.maximum(self._spread, _ROUNDING * np.maximum(np.abs(own), np.abs(others)))
        spread = np.where(spread > 0.0, spread, 1.0)
        with np.errstate(over="ignore", invalid="ignore"):  # what is too large is cut, what is missing says nothing
            # [(x - g)^2 - (x - b)^2] / 2 = (b - g) (x - (g + b) / 2), which squares nothing
            apart = np.clip((others - own) / spread, -_HUGE, _HUGE)
            beyond = np.clip((x - 0.5 * (own + others)) / spread, -_HUGE, _HUGE)
            return np.nan_to_num(np.clip(apart * beyond, -LARGEST, LARGEST))

    def choose(self, rows: Index, given: Codes, other: Codes) -> tuple[Index, Array]:
        """Return the columns that speak most about each row, at most five, and their scores.

        Where fewer have something to say, the other places hold the number of columns.
        """
        scores = self.scores(rows, given, other)
        at = np.argsort(-np.abs(scores), axis=1, kind="stable")[:, :N_SHOWN]
        found = np.take_along_axis(scores, at, axis=1)
        return np.where(np.abs(found) >= _SMALLEST, at, len(self.columns)), found

    def values(self, column: int, rows: Index) -> list[str]:
        """Return what the cells of a column say, as the table has it."""
        one = self.columns[column]
        if one.cells is not None and one.has_words:
            words = (*one.cells.words, MISSING)
            return [words[code] for code in one.cells.codes[rows].tolist()]
        numbers = self._X[rows, one.features.start] if one.has_numbers else np.full(len(rows), one.code.fill)
        if one.cells is not None:
            numbers = np.where(one.cells.codes[rows] < 0, np.nan, numbers)
        return [one.write(number) for number in numbers.astype(np.float64).tolist()]

    def usual(self, column: int, code: int) -> str:
        """Return what the trusted rows of a class usually hold."""
        one, shares = self.columns[column], self._shares[column]
        if one.has_words:
            assert one.cells is not None and shares is not None
            return (MISSING, *one.cells.words)[shares.most_frequent(code)]
        if not one.has_numbers:
            assert shares is not None
            return one.write(one.code.fill) if shares.most_frequent(code) else MISSING
        if shares is not None and not shares.most_frequent(code):
            return MISSING
        j = int(np.searchsorted(self._numeric, one.features.start))
        return one.write(float(np.ldexp(self._medians[code, j], self._exponents[j])))

    def features_of(self, row: int, given: int, other: int) -> tuple[Feature, ...]:
        """Return the columns that speak most about one row."""
        at = np.array([row])
        columns, scores = self.choose(at, np.array([given]), np.array([other]))
        return tuple(
            Feature(self.columns[c].name, self.values(c, at)[0], score, self.usual(c, given), self.usual(c, other))
            for c, score in zip(columns[0].tolist(), scores[0].tolist(), strict=True)
            if c < len(self.columns)
        )


def blend_share(counts: Any, size: Any, of_all: Array, sizes: Index) -> Array:
    """Return the share of a value in a class, drawn towards that in all rows; ``sizes`` of both classes lie down."""
    added = _ADDED / (_ADDED + sizes.min(axis=0))
    found: Array = (1.0 - added) * counts / np.maximum(size, 1) + added * of_all
    return found


class _Shares:
    """How often each value stands in each class, among trusted rows and among all."""

    def __init__(self, values: Index, codes: Codes, trusted: Index, sizes: Index):
        self.values, self.sizes = values, sizes
        self.of_all = np.bincount(values) / len(values)
        # Values and classes may be thousands: only pairs that occur are counted.
        self.pairs, self.counts = np.unique(values[trusted] * len(sizes) + codes[trusted], return_counts=True)

    def compare(self, rows: Index, given: Codes, other: Codes) -> Array:
        """Return the logarithm of how many times more often the values of rows stand in the other class."""
        values = self.values[rows]
        sizes = np.stack([self.sizes[given], self.sizes[other]])
        own, others = (
            blend_share(self._count(values, code), self.sizes[code], self.of_all[values], sizes)
            for code in (given, other)
        )
        return np.log(others / own)

    def _count(self, values: Index, codes: Codes) -> Index:
        wanted = values * len(self.sizes) + codes
        at = np.minimum(np.searchsorted(self.pairs, wanted), len(self.pairs) - 1)
        return np.where(self.pairs[at] == wanted, self.counts[at], 0)

    def most_frequent(self, code: int) -> int:
        """Return the most frequent value of a class."""
        own = np.flatnonzero(self.pairs % len(self.sizes) == code)
        return int(self.pairs[own[self.counts[own].argmax()]] // len(self.sizes)) if len(own) else 0


def _median(block: Array) -> Array:
    """Median of every column without its gaps; NaN where there is nothing else."""
    found = np.median(block, axis=0)
    gappy = np.isnan(found)
    if gappy.any():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found[gappy] = np.nanmedian(block[:, gappy], axis=0)
    return found
