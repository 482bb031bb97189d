"""Versions of a query map: what is kept of each, and the one that is served."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from nearkin.arrays import Array
from nearkin.search.inputs import as_vectors
from nearkin.search.ranking import Interval
from nearkin.stored import ArrayOf, Count, Maybe, Number, Part, Text, stored

__all__ = ["IDENTITY", "NO_GAIN", "MapVersion", "ServedMap"]

#: The gain before anything was measured.
NO_GAIN = Interval(0.0, 0.0, 0.0)


@stored(
    number=Count(),
    n_looks=Count(),
    n_triplets=Count(),
    strength=Number(0.0, 1.0),
    gain=Part(Interval),
    move=Maybe(ArrayOf("d", "d", dtype="T")),
    measure=Maybe(Text()),
)
@dataclass(frozen=True, eq=False)
class MapVersion:
    """A query map that was served, and what was known of it.

    Parameters
    ----------
    number : int
        Counts up; 0 is the identity, to which one can always go back.
    n_looks : int
        Checks on held-out queries until then, this one included: the day, if there is one a day.
    n_triplets : int
        Triplets learned from until then.
    strength : float
        How much of the map is used; 0 for the identity.
    gain : Interval
        The gain over the identity that decided.
    move : ndarray of shape (n_features, n_features) or None
        Matrix D of ``q + strength D (q - mean)``; None for the identity.
    measure : str, default=""
        What gained, as in "lift@10"; empty for pairs put right in a stream.

    See Also
    --------
    SimilarityAdapter.rollback : Serve an earlier version again.

    Examples
    --------
    >>> print(MapVersion(2, 1, 8000, 0.6, Interval(0.05, 0.02, 0.08), np.eye(2), "lift@10"))
    version 2: strength 0.6, gain 0.050 [0.020, 0.080] in lift@10, check 1, 8,000 triplets
    """

    number: int
    n_looks: int
    n_triplets: int
    strength: float
    gain: Interval
    move: Array | None
    measure: str = ""

    def __str__(self) -> str:
        if not self.number:
            return "version 0: identity"
        kind = f"strength {self.strength:g}" if self.strength else "identity kept"
        return (
            f"version {self.number}: {kind}, gain {self.gain} in {self.measure or 'pairs put right'}, "
            f"{f'check {self.n_looks}' if self.n_looks else 'not checked'}, {self.n_triplets:,} "
            f"{'triplet' if self.n_triplets == 1 else 'triplets'}"
        )


#: The version before all others.
IDENTITY = MapVersion(0, 0, 0, 0.0, NO_GAIN, None)


class ServedMap:
    """Matrix and constant that queries meet, in one object: a thread that reads it has a whole version.

    Without a ``move`` it is the identity.
    """

    __slots__ = ("_one", "dtype", "is_identity", "matrix", "offset")

    def __init__(self, mean: Array, strength: float, move: Array | None):
        unchanged = np.eye(len(mean))
        moved = np.zeros_like(unchanged) if move is None else strength * move.astype(np.float64)
        self.matrix: Array = (unchanged + moved).astype(mean.dtype)
        self.offset: Array = (-moved @ mean).astype(mean.dtype)
        self.is_identity = move is None or strength == 0.0
        self.dtype = mean.dtype
        self._one = (1, len(mean))

    def apply(self, Q: ArrayLike) -> Array:
        """Map raw queries."""
        if type(Q) is np.ndarray and Q.shape == self._one and Q.dtype == self.dtype:
            one = Q[0]
            if math.isfinite(np.vdot(one, one)):  # so all numbers are; other queries are looked at more closely
                mapped = one.copy() if self.is_identity else self.matrix.dot(one)
                if not self.is_identity:
                    mapped += self.offset
                return mapped[None]
        Q = as_vectors(Q, "queries", self._one[1], self.dtype)
        if self.is_identity:
            return Q.copy()
        mapped = Q @ self.matrix.T
        mapped += self.offset
        return mapped
