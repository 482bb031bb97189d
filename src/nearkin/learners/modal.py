"""Learners of rows that come in several modalities, apart or joined."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils.validation import check_array

from nearkin.arrays import Array, Index
from nearkin.checks import check_rows, named_errors
from nearkin.learners.base import OnlineLearner
from nearkin.parameters import Modalities
from nearkin.rows import Scaling

__all__ = ["ModalLearner", "joined"]


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
