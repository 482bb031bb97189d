"""Learners of rows that come in several modalities, apart or joined."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils.validation import check_array

from nearkin.arrays import Array, Index
from nearkin.errors import InputError, owned_by, placed_at
from nearkin.measures import DISTANCE, Measure
from nearkin.parameters import Modalities
from nearkin.rows import Scaling, check_finite
from nearkin.settings import declare, setting
from nearkin.stored import Anything, Count, Maybe, Table, stored

__all__ = ["ModalMixin", "join_modalities"]


def join_modalities(X: Any) -> Any:
    """Join a dict or list of matrices with equally many rows to one matrix; return anything else as it is."""
    parts = _parts(X)
    return X if parts is None else _side_by_side(_check_parts(parts, [np.float64, np.float32]))


def _parts(X: Any) -> dict[Any, Any] | None:
    """Matrices by name, if X is several."""
    if isinstance(X, Mapping) and not sparse.issparse(X):  # one kind of sparse matrix is a dict
        return dict(X)
    if isinstance(X, (list, tuple)) and X and all(len(getattr(one, "shape", ())) == 2 for one in X):
        return dict(enumerate(X))
    return None


def _check_parts(parts: dict[Any, Any], dtype: Any) -> dict[Any, Any]:
    """Return the same as finite numbers, with equally many rows."""
    checked = {}
    for name, part in parts.items():
        try:
            checked[name] = check_array(part, accept_sparse="csr", dtype=dtype, ensure_all_finite=False)
        except ValueError as error:
            raise InputError(f"modality {name!r}: {error}") from error
        with placed_at(f"modality {name!r}"):
            check_finite(checked[name], names=getattr(part, "columns", None))
    n_rows = {name: part.shape[0] for name, part in checked.items()}
    if len(set(n_rows.values())) > 1:
        raise InputError(f"modalities must have equally many rows; got {n_rows}.")
    return checked


def _side_by_side(parts: dict[Any, Any]) -> Any:
    if not parts:
        raise InputError("X must have at least one modality; got none.")
    if any(sparse.issparse(one) for one in parts.values()):
        return sparse.hstack(list(parts.values()), format="csr")
    return np.concatenate(list(parts.values()), axis=1)


@stored(_widths=Maybe(Table(Anything(), Count(1))))
@declare
class ModalMixin:
    """What learners with several modalities share, which are given by a setting or by X itself."""

    fitted = """
    weights_ : ndarray of shape (n_modalities,)
        Share of each modality in the distance.
    modalities_ : dict
        Columns of each modality by its name.
    """

    modalities: Any = setting(
        None, kind="list, dict or None",
        doc="""Which columns belong together: how many each modality has (``[3, 5]``), or its columns as a slice, as
        numbers or, for a data frame, as names; in a dict by name. None is one modality, unless X itself is a dict or
        list of matrices with equally many rows: then `partial_fit`, `transform` and all others take the same form.""",
    )  # fmt: skip

    measure: ClassVar[Measure] = DISTANCE
    _learned: ClassVar[Any]
    _dtypes: ClassVar[Any]

    # Width of each modality by name, where X came as a dict or list.
    _widths = None

    @property
    def modalities_(self) -> dict[Any, Index]:
        """Columns of each modality by its name."""
        known: Modalities = self._learned("modalities_").parameter.modalities
        return dict(zip(known.names, known.columns, strict=True))

    @property
    def weights_(self) -> Array:
        """Weight of each modality in the distance, in the order of `modalities_`; they sum to 1."""
        return np.array(self._learned("weights_").parameter.theta)

    def check_rows(self, X: ArrayLike, *, reset: bool = False) -> Array | sparse.csr_array:
        """Validate rows, given as one matrix or as a dict or list of matrices."""
        parts = _parts(X)
        if parts is None:
            if not reset and self._widths is not None:
                raise ValueError(
                    f"{type(self).__name__} learned from {len(self._widths)} modalities, {list(self._widths)}; "
                    "give the same ones, as a dict or list of matrices."
                )
            if reset:
                self._widths = None
            return super().check_rows(X, reset=reset)  # type: ignore[misc]
        if self.modalities is not None:
            raise InputError("parameter `modalities` must be None where X is a dict or list of them.", owner=self)
        with owned_by(self):
            parts = _check_parts(parts if reset else self._known(parts), self._dtypes(reset))
            whole = _side_by_side(parts)
        widths = {name: int(part.shape[1]) for name, part in parts.items()}
        if reset:
            self._widths = widths
        elif widths != self._widths:
            raise InputError(f"columns of modalities must be {self._widths}; got {widths}.", owner=self)
        return super().check_rows(whole, reset=reset)  # type: ignore[misc]

    def _known(self, parts: dict[Any, Any]) -> dict[Any, Any]:
        """The modalities in the order in which they were learned."""
        if self._widths is None:
            raise InputError("it learned from one matrix; give one, not a dict or list.")
        if set(parts) != set(self._widths):
            raise InputError(f"modalities must be {list(self._widths)}; got {list(parts)}.")
        return {name: parts[name] for name in self._widths}

    def _group(self, n_features: int) -> Modalities:
        """Modalities of the rows that are being learned."""
        if self._widths is not None:
            by_count = Modalities.of(list(self._widths.values()), n_features)
            return Modalities(list(self._widths), by_count.columns)
        with owned_by(self):
            return Modalities.of(self.modalities, n_features, getattr(self, "feature_names_in_", None))

    def _learn_scaling(self, X: Array | sparse.csr_array) -> Scaling:
        """Bring every modality to mean squared distance 1, so that the margin 1 means the same in each."""
        scaling: Scaling = super()._learn_scaling(X)  # type: ignore[misc]
        if scaling.factor is None or scaling.unit_rows:
            return scaling
        factor, late = scaling.factor.copy(), scaling.late
        known = self._group(len(factor))
        n_live = int(np.count_nonzero(factor))
        for k, columns in enumerate(known.columns):
            live = int(np.count_nonzero(factor[columns]))
            factor[columns] *= math.sqrt(n_live / max(1, live))
            if late is not None:
                late = late.regroup(columns, k, (2.0 * live) ** -0.5 if live else 0.0)
        return replace(scaling, factor=factor, late=late)
