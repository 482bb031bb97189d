"""Which label a row should have instead of the one it was given."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["suggest"]

Array = NDArray[np.floating]
Codes = NDArray[np.int64]

#: Most votes (rows times classes) held at once.
_TABLE = 1 << 22


def suggest(
    truths: Callable[[Codes], Array], codes: Codes, plausibility: Array, is_suspect: NDArray[np.bool_], n_classes: int
) -> tuple[Codes, Array]:
    """Suggested class of every row and the probability that it is right.

    A row that is no suspect keeps its label, which is right with the row's plausibility q. For a suspect the best other
    class is suggested. Class k has the probability ``(1 - q) t_k / (sum of t over all other classes)``, where t is the
    share of k in the votes times the probability that a row of class k is labelled as this one is.

    Parameters
    ----------
    truths : callable
        ``truths(rows)`` gives numbers that are proportional to the probabilities of the classes of some rows, of shape
        (n_asked, n_classes); those of the classes as given do not matter.
    codes : ndarray of int64 of shape (n_samples,)
        Labels as given.
    plausibility : ndarray of shape (n_samples,)
        Probability that they are right.
    is_suspect : ndarray of bool of shape (n_samples,)
        Rows for which another class is wanted.
    n_classes : int
        Number of classes.

    Examples
    --------
    >>> shares = np.array([[0.1, 0.6, 0.3]])
    >>> codes, confidence = suggest(lambda rows: shares[rows], np.array([0]), np.array([0.1]), np.array([True]), 3)
    >>> codes.tolist(), confidence.round(2).tolist()
    ([1], [0.6])
    """
    best, confidence = codes.copy(), plausibility.astype(np.float64)
    rows = np.flatnonzero(is_suspect)
    step = max(1, _TABLE // n_classes)
    for start in range(0, len(rows), step):
        here = rows[start : start + step]
        others = np.array(truths(here))
        at = np.arange(len(here))
        others[at, codes[here]] = -1.0  # not even among equals
        best[here] = others.argmax(axis=1)
        others[at, codes[here]] = 0.0
        total = others.sum(axis=1)
        # Where all neighbours agree with the label every other class is as likely.
        share = np.divide(others[at, best[here]], total, out=np.full(len(here), 1.0 / (n_classes - 1)), where=total > 0)
        confidence[here] = (1.0 - plausibility[here]) * share
    return best, confidence
