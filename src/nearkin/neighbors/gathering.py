"""Rows of a stream from which a classifier decides, and the rows at which it decides anew."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array
from nearkin.labels import Labels, as_labels
from nearkin.reservoir import Reservoir
from nearkin.stored import Count, Part, stored

__all__ = ["Gathered"]

#: A decision is made anew when the stream has grown by this share since the last one, or by the second since one that
#: does not know a class.
_GROWTH, _FOR_CLASS = 0.25, 0.125


@stored(held=Part(Reservoir, d="d"), numbering=Part(Labels), n_decided=Count(), n_known=Count())
@dataclass
class Gathered:
    """Rows held, and when the next decision is due.

    The first batch is decided on as a whole; later rows bring decisions at row numbers that do not depend on how they
    came in batches.

    Parameters
    ----------
    held : Reservoir
        Rows held.
    numbering : Labels
        Numbers of their classes.
    n_decided : int
        Rows of the stream at the last decision.
    n_known : int
        Classes that it knows.

    Examples
    --------
    >>> gathered = Gathered(Reservoir(100, 100, np.random.default_rng(0)), Labels())
    >>> _ = gathered.add(np.zeros((8, 1)), np.array([0, 1] * 4), "Demo")
    >>> [gathered.add(np.zeros((1, 1)), np.array([0]), "Demo") is not None for _ in range(4)]
    [False, True, False, True]
    """

    held: Reservoir
    numbering: Labels
    n_decided: int = 0
    n_known: int = 0

    def copy(self) -> Self:
        """Return one that goes on while this one stays."""
        other = copy.copy(self)
        other.held, other.numbering = self.held.copy(), self.numbering.copy()
        return other

    def add(self, rows: Array, labels: NDArray[Any], owner: str) -> Reservoir | None:
        """Offer the next rows; return those held where the last decision was due, None if none was."""
        codes, due, start = self.numbering.encode(labels, owner), None, 0
        if not self.n_decided:
            self.held.add(rows, codes)
            return self._decide()
        n_met = np.maximum.accumulate(np.maximum(codes + 1, len(self.held.seen)))
        for end, n_classes in enumerate(n_met.tolist(), 1):
            share = _GROWTH if n_classes == self.n_known else _FOR_CLASS
            if self.held.n_rows_seen + end - start - self.n_decided >= max(1, int(share * self.n_decided)):
                self.held.add(rows[start:end], codes[start:end])
                due, start = self._decide(), end
        if start < len(rows):
            self.held.add(rows[start:], codes[start:])
        return due

    def _decide(self) -> Reservoir:
        self.n_decided, self.n_known = self.held.n_rows_seen, len(self.held.seen)
        return self.held.copy()

    def labels_of(self, held: Reservoir) -> NDArray[Any]:
        """Labels of rows held."""
        names = list(self.numbering.codes)
        return as_labels([names[code] for code in held.codes], "partial_fit")
