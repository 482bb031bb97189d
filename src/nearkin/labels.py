"""Labels of any hashable kind, numbered in order of first appearance so that nothing depends on their names."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

__all__ = ["Labels", "as_labels", "first_appearance"]

Codes = NDArray[np.int64]


def as_labels(y: ArrayLike, owner: str) -> NDArray[Any]:
    """One-dimensional array of labels; missing and continuous values are refused with a clear message."""
    if isinstance(y, (list, tuple)) and any(isinstance(one, tuple) for one in y):
        labels = np.empty(len(y), dtype=object)
        labels[:] = y
    else:
        labels = column_or_1d(np.asarray(y), warn=True)
    if labels.dtype.kind in "fc":
        if not np.isfinite(labels).all():
            bad = int(np.flatnonzero(~np.isfinite(labels))[0])
            raise ValueError(
                f"{owner}: y holds {labels[bad]} at row {bad}; every row needs a label. Drop such rows first."
            )
        check_classification_targets(labels)
    if labels.dtype.kind == "O":
        for row, label in enumerate(labels):
            if label is None or label != label or type(label).__name__ == "NAType":
                raise ValueError(
                    f"{owner}: y holds {label!r} at row {row}; every row needs a label. Drop such rows first."
                )
    return labels


def first_appearance(labels: NDArray[Any]) -> tuple[list[Any], Codes]:
    """Distinct labels in order of first appearance, and the number of each row's label.

    Examples
    --------
    >>> first_appearance(np.array(["b", "a", "b"]))
    (['b', 'a'], array([0, 1, 0]))
    """
    try:
        distinct, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    except TypeError:  # labels of several kinds cannot be sorted
        seen: dict[Any, int] = {}
        codes = np.array([seen.setdefault(label, len(seen)) for label in labels], dtype=np.int64)
        return list(seen), codes
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return distinct[order].tolist(), rank[inverse.ravel()].astype(np.int64)


class Labels:
    """Numbers given to labels, growing as new ones appear unless the classes were declared.

    Parameters
    ----------
    declared : iterable or None
        All classes there will ever be; None to let new ones appear.

    Examples
    --------
    >>> labels = Labels()
    >>> labels.encode(np.array(["b", "a", "b"]), "Demo").tolist(), labels.classes.tolist()
    ([0, 1, 0], ['a', 'b'])
    """

    def __init__(self, declared: Iterable[Any] | None = None):
        self.codes: dict[Any, int] = {}
        self.allowed: list[Any] | None = None if declared is None else list(declared)

    def copy(self) -> Labels:
        """Independent copy."""
        other = Labels(self.allowed)
        other.codes = dict(self.codes)
        return other

    @property
    def classes(self) -> NDArray[Any]:
        """All classes known or declared, sorted where they can be."""
        known = list(self.codes) if self.allowed is None else self.allowed
        with contextlib.suppress(TypeError):
            known = sorted(known)
        if any(isinstance(one, tuple) for one in known) or len({type(one) for one in known}) > 1:
            out = np.empty(len(known), dtype=object)
            out[:] = known
            return out
        return np.asarray(known)

    def check_declared(self, declared: list[Any], owner: str) -> None:
        """Refuse a later declaration that differs from the first."""
        if self.allowed is not None and set(declared) != set(self.allowed):
            raise ValueError(f"{owner}: `classes` differs from the one of the first call; leave it out.")

    def encode(self, labels: NDArray[Any], owner: str, *, grow: bool = True) -> Codes:
        """Numbers of the labels; new labels get new numbers, or are refused."""
        distinct, inverse = first_appearance(labels)
        unknown = [one for one in distinct if one not in self.codes]
        if self.allowed is not None:
            strange = [one for one in distinct if one not in self.allowed]
            if strange:
                raise ValueError(
                    f"{owner}: y holds {strange[:5]}, which are not among the declared classes "
                    f"{self.classes.tolist()[:20]}. "
                    "Declare them in `classes` at the first call, or leave `classes` out to let new classes appear."
                )
        if unknown and not grow:
            raise ValueError(
                f"{owner}: y holds {unknown[:5]}, which were not in training; known classes are "
                f"{self.classes.tolist()[:20]}. Learn them first with partial_fit."
            )
        for one in unknown:
            self.codes[one] = len(self.codes)
        return np.array([self.codes[one] for one in distinct], dtype=np.int64)[inverse]
