"""Rows that come in several modalities: which columns belong to which, and learners that take them apart or joined."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_array

from nearkin.checks import check_rows, named_errors
from nearkin.learners._learner import OnlineLearner
from nearkin.measures import DISTANCE, LinearScores, Measure
from nearkin.rows import Scaling

__all__ = ["EqualShares", "ModalLearner", "Modalities", "joined"]

Array = NDArray[np.floating]
Index = NDArray[np.int64]


@dataclass(frozen=True)
class EqualShares(Measure):
    """Distance before learning where K modalities have weight 1 / K each: the mean of theirs, not the sum."""

    n_modalities: int = 1

    def scores(self, left: Array, right: Array) -> Array:
        """All pairs."""
        return super().scores(left, right) / self.n_modalities

    def linear(self, right: Array) -> LinearScores:
        """With a smaller unit."""
        form = super().linear(right)
        return form._replace(unit=form.unit / self.n_modalities)

    def pair_scores(self, left: Array, right: Array) -> Array:
        """Row by row."""
        return super().pair_scores(left, right) / self.n_modalities


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


def _wrong(given: Any, rule: str) -> ValueError:
    return ValueError(f"parameter `modalities` must be {rule}; got {given!r}.")


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


def joined(X: Any) -> Any:
    """One matrix from a dict or list of matrices with equally many rows; anything else as it is."""
    parts = _parts(X)
    return X if parts is None else _side_by_side(_checked(parts, [np.float64, np.float32]))


def _parts(X: Any) -> dict[Any, Any] | None:
    """Matrices by name, if X is several."""
    if isinstance(X, Mapping) and not sparse.issparse(X):  # one kind of sparse matrix is a dict
        return dict(X)
    if isinstance(X, (list, tuple)) and X and all(len(getattr(one, "shape", ())) == 2 for one in X):
        return dict(enumerate(X))
    return None


def _checked(parts: dict[Any, Any], dtype: Any) -> dict[Any, Any]:
    """The same as finite numbers, with equally many rows."""
    checked = {}
    for name, part in parts.items():
        try:
            checked[name] = check_array(part, accept_sparse="csr", dtype=dtype)
        except ValueError as error:
            raise ValueError(f"modality {name!r}: {error}") from error
    n_rows = {name: part.shape[0] for name, part in checked.items()}
    if len(set(n_rows.values())) > 1:
        raise ValueError(f"modalities must have equally many rows; got {n_rows}.")
    return checked


def _side_by_side(parts: dict[Any, Any]) -> Any:
    if not parts:
        raise ValueError("X must have at least one modality; got none.")
    if any(sparse.issparse(one) for one in parts.values()):
        return sparse.hstack(list(parts.values()), format="csr")
    return np.concatenate(list(parts.values()), axis=1)


class ModalLearner(OnlineLearner):
    """Base of the learners with several modalities, which are given by a parameter or by X itself."""

    modalities: Any

    #: Width of each modality by name, where X came as a dict or list.
    _widths: dict[Any, int] | None = None

    @property
    def modalities_(self) -> dict[Any, Index]:
        """Columns of each modality by its name."""
        known = self._modalities("modalities_")
        return dict(zip(known.names, known.columns, strict=True))

    @property
    def weights_(self) -> Array:
        """Weight of each modality in the distance, in the order of `modalities_`; they sum to 1."""
        return self._learned("weights_").parameter.theta.copy()  # type: ignore[attr-defined]

    def _modalities(self, attribute: str) -> Modalities:
        found: Modalities = self._learned(attribute).parameter.modalities  # type: ignore[attr-defined]
        return found

    def _check_rows(self, X: ArrayLike, *, reset: bool) -> Array | sparse.csr_array:
        parts = _parts(X)
        if parts is None:
            if not reset and self._widths is not None:
                raise ValueError(
                    f"{self._name} learned from {len(self._widths)} modalities, {list(self._widths)}; "
                    "give the same ones, as a dict or list of matrices."
                )
            if reset:
                self._widths = None
            return super()._check_rows(X, reset=reset)
        if self.modalities is not None:
            raise ValueError(f"{self._name}: parameter `modalities` must be None where X is a dict or list of them.")
        dtype = [np.float64, np.float32] if reset or not self._is_begun else self._state.dtype
        with named_errors(self):
            parts = _checked(parts if reset else self._known(parts), dtype)
            whole = _side_by_side(parts)
        widths = {name: int(part.shape[1]) for name, part in parts.items()}
        if reset:
            self._widths = widths
        elif widths != self._widths:
            raise ValueError(f"{self._name}: columns of modalities must be {self._widths}; got {widths}.")
        return check_rows(self, whole, dtype=dtype, reset=reset)

    def _known(self, parts: dict[Any, Any]) -> dict[Any, Any]:
        """The modalities in the order in which they were learned."""
        if self._widths is None:
            raise ValueError("it learned from one matrix; give one, not a dict or list.")
        if set(parts) != set(self._widths):
            raise ValueError(f"modalities must be {list(self._widths)}; got {list(parts)}.")
        return {name: parts[name] for name in self._widths}

    def _group(self, n_features: int) -> Modalities:
        """Modalities of the rows that are being learned."""
        if self._widths is not None:
            by_count = Modalities.of(list(self._widths.values()), n_features)
            return Modalities(list(self._widths), by_count.columns)
        with named_errors(self):
            return Modalities.of(self.modalities, n_features, getattr(self, "feature_names_in_", None))

    def _learn_scaling(self, X: Array | sparse.csr_array) -> Scaling:
        """Every modality to mean squared distance 1, so that the margin 1 means the same in each."""
        scaling = super()._learn_scaling(X)
        if scaling.factor is None or scaling.unit_rows:
            return scaling
        factor = scaling.factor.copy()
        known = self._group(len(factor))
        n_live = int(np.count_nonzero(factor))
        for columns in known.columns:
            factor[columns] *= math.sqrt(n_live / max(1, int(np.count_nonzero(factor[columns]))))
        return replace(scaling, factor=factor)
