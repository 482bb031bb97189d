"""What happens to suspects when labels are cleaned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.errors import InputError
from nearkin.settings import OneOf, Real

__all__ = ["DEFAULT_HOW", "MIN_CONFIDENCE", "WAYS", "Cleaning", "take_rows"]

#: What may be done. Dropping never makes a right label wrong, which relabelling does where classes overlap.
WAYS = ("drop", "relabel")
DEFAULT_HOW = "drop"

#: Confidence from which suggestions leave about as few wrong labels as dropping does; docs/audit.md has figures.
MIN_CONFIDENCE = 0.8


@dataclass(frozen=True)
class Cleaning:
    """What happens to suspects: drop all, or relabel those with a confident suggestion and drop the others.

    A suggestion below the bound is dropped, not kept: its row is a suspect, so its label is in doubt too.

    Parameters
    ----------
    how : {"drop", "relabel"}
        Leave suspects out, or give them the suggested label.
    min_confidence : float in [0, 1] or None
        Least confidence of a suggestion that is taken; None is 0.8. Only for "relabel".

    Examples
    --------
    >>> rule = Cleaning("relabel", 0.8)
    >>> kept, relabelled = rule.apply(np.array([False, True, True]), np.array([0.9, 0.9, 0.3]))
    >>> kept.tolist(), relabelled.tolist()
    ([True, True, False], [False, True, False])
    """

    how: str = DEFAULT_HOW
    min_confidence: float | None = None

    def __post_init__(self) -> None:
        if not OneOf(WAYS).allows(self.how):
            raise InputError(f"`how` must be 'drop' or 'relabel'; got {self.how!r}.", owner="LabelAudit")
        if self.min_confidence is None:
            return
        if not Real(0.0, 1.0).allows(self.min_confidence):
            raise InputError(
                f"`min_confidence` must be {Real(0.0, 1.0)} or None; got {self.min_confidence!r}.", owner="LabelAudit"
            )
        if self.how != "relabel":
            raise InputError(
                "`min_confidence` is for how='relabel'; 'drop' leaves out every suspect.", owner="LabelAudit"
            )

    def apply(
        self, is_suspect: NDArray[np.bool_], confidence: NDArray[np.floating]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which rows stay, and which of them take the suggested label."""
        least = MIN_CONFIDENCE if self.min_confidence is None else self.min_confidence
        relabelled = is_suspect & (confidence >= least) & (self.how == "relabel")
        return ~is_suspect | relabelled, relabelled


def take_rows(values: Any, rows: NDArray[np.int64], index: NDArray[np.int64] | None = None) -> Any:
    """Entries of an array, frame, series, list or tuple, as the same kind of thing.

    Parameters
    ----------
    values : array-like
        One entry a row.
    rows : ndarray of int64
        Rows to take, also repeatedly.
    index : ndarray of int64 or None
        Rows whose names the entries get where these have names (pandas); None for their own.

    Examples
    --------
    >>> take_rows(("a", "b", "c"), np.array([2, 0, 2]))
    ('c', 'a', 'c')
    """
    if isinstance(values, (list, tuple)):
        return type(values)([values[i] for i in rows.tolist()])
    if type(values).__module__.startswith("pandas.") and not hasattr(values, "iloc"):
        return values.take(rows)  # the arrays behind its columns, which scikit-learn does not index
    from sklearn.utils import _safe_indexing

    found = _safe_indexing(values, rows)
    if index is not None and hasattr(values, "iloc"):
        found.index = values.index[index]
    return found
