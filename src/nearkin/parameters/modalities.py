"""Rows that come in several modalities: which columns belong to which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearkin.arrays import Array, Index
from nearkin.errors import InputError
from nearkin.measures import DISTANCE, LinearScores, Measure
from nearkin.stored import stored

__all__ = ["EqualShares", "Modalities"]


@stored()
@dataclass(frozen=True)
class EqualShares(Measure):
    """Distance before learning where K modalities have weight 1 / K each: the mean of theirs, not the sum."""

    n_modalities: int = 1

    def scores(self, left: Array, right: Array) -> Array:
        """All pairs."""
        return super().scores(left, right) / self.n_modalities

    @property
    def after_mapping(self) -> Measure:
        """The distance itself: a learned map holds the weights."""
        return DISTANCE

    def linear(self, right: Array) -> LinearScores:
        """With a smaller unit."""
        form = super().linear(right)
        return form._replace(unit=form.unit / self.n_modalities)

    def pair_scores(self, left: Array, right: Array) -> Array:
        """Row by row."""
        return super().pair_scores(left, right) / self.n_modalities


@stored("names", "columns", "starts", "order")
class Modalities:
    """Disjoint sets of columns that together are all.

    Parameters
    ----------
    names : sequence
        One per modality.
    columns : sequence of ndarray of int
        Of the joined rows.
    """

    def __init__(self, names: Sequence[Any], columns: Sequence[Index]):
        self.names = list(names)
        self.columns = [np.asarray(one, dtype=np.int64) for one in columns]
        self.starts = np.cumsum([0, *map(len, self.columns)])
        order = np.concatenate(self.columns)
        self.order = None if np.array_equal(order, np.arange(len(order))) else order

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def sizes(self) -> list[int]:
        """Columns of each."""
        return [len(one) for one in self.columns]

    @property
    def measure(self) -> Measure:
        """Distance before learning, as triplet sources see it."""
        K = len(self)
        return DISTANCE if K == 1 else EqualShares(DISTANCE.name, is_distance=True, n_modalities=K)

    def grouped(self, X: Array) -> Array:
        """Rows with the columns of each modality side by side."""
        return X if self.order is None else np.ascontiguousarray(X[:, self.order])

    def split(self, X: Array) -> list[Array]:
        """The columns of each modality."""
        X = X if self.order is None else X[:, self.order]
        return [X[:, a:b] for a, b in zip(self.starts[:-1], self.starts[1:], strict=True)]

    def block_diagonal(self, blocks: Sequence[Array]) -> Array:
        """Matrix whose columns are those of the rows; block k has the columns of modality k."""
        out = np.zeros((sum(map(len, blocks)), int(self.starts[-1])), dtype=blocks[0].dtype)
        row = 0
        for block, columns in zip(blocks, self.columns, strict=True):
            out[row : row + len(block), columns] = block
            row += len(block)
        return out

    def square(self, blocks: Sequence[Array]) -> Array:
        """The same where rows are features too."""
        out = self.block_diagonal(blocks)
        if self.order is None:
            return out
        back = np.empty_like(out)
        back[self.order] = out
        return back

    @classmethod
    def of(cls, given: Any, n_features: int, feature_names: Any = None) -> Modalities:
        """From the parameter `modalities` of a learner; every message tells the rule and the value."""
        if given is None:
            return cls(["all"], [np.arange(n_features)])
        if isinstance(given, Mapping):
            names, specs = list(given), list(given.values())
        elif isinstance(given, Sequence) and not isinstance(given, str):
            names, specs = list(range(len(given))), list(given)
        else:
            raise _wrong(given, "None, a list or a dict")
        if not specs:
            raise _wrong(given, "at least one modality")
        if all(_is_count(one) for one in specs):
            ends = np.cumsum(specs)
            columns = [np.arange(end - n, end) for end, n in zip(ends, specs, strict=True)]
        else:
            columns = [_columns(one, n_features, feature_names, given) for one in specs]
        every = np.concatenate(columns)
        if min(map(len, columns)) == 0 or not np.array_equal(np.sort(every), np.arange(n_features)):
            raise _wrong(given, f"sets of columns, none of them empty, that hold each of the {n_features} columns once")
        return cls(names, columns)


def _wrong(given: Any, rule: str) -> InputError:
    return InputError(f"parameter `modalities` must be {rule}; got {given!r}.")


def _is_count(one: Any) -> bool:
    return isinstance(one, (int, np.integer)) and not isinstance(one, (bool, np.bool_))


def _columns(spec: Any, n_features: int, feature_names: Any, given: Any) -> Index:
    if isinstance(spec, slice):
        return np.arange(n_features)[spec]
    rule = "counts of columns, slices, lists of column numbers or, for a data frame, of column names"
    if isinstance(spec, str) or not isinstance(spec, (Sequence, np.ndarray)):
        raise _wrong(given, rule)
    if all(isinstance(one, str) for one in spec):
        known = {} if feature_names is None else {name: i for i, name in enumerate(feature_names)}
        missing = [one for one in spec if one not in known]
        if missing:
            raise _wrong(given, f"made of columns that are there, which {missing[0]!r} is not")
        return np.array([known[one] for one in spec], dtype=np.int64)
    if not all(_is_count(one) and -n_features <= one < n_features for one in spec):
        raise _wrong(given, rule)
    return np.arange(n_features)[np.asarray(spec, dtype=np.int64)]
