"""A set of triplets by index, with where each of its members came from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.arrays import Array, Index
from nearkin.kernels import TripletRows
from nearkin.measures import DISTANCE, Measure
from nearkin.rows import Rows

__all__ = ["NoisyRoles", "Triplets"]


#: Triplets whose vectors are gathered at once, and most numbers that their anchors may take.
_GATHER = 4096
_GATHER_NUMBERS = 1 << 20


class NoisyRoles(NamedTuple):
    """Which triplets have a wrongly labelled anchor, positive or negative (Figure 7 of the paper).

    Parameters
    ----------
    anchor, positive, negative : ndarray of bool of shape (n_triplets,)
        Whether the label of the row in that role is wrong.

    Examples
    --------
    >>> roles = NoisyRoles(np.array([True, False]), np.array([False, False]), np.array([False, False]))
    >>> roles.any.tolist()
    [True, False]
    """

    anchor: NDArray[np.bool_]
    positive: NDArray[np.bool_]
    negative: NDArray[np.bool_]

    @property
    def any(self) -> NDArray[np.bool_]:
        """Noisy in some role."""
        return self.anchor | self.positive | self.negative


@dataclass(frozen=True)
class Triplets:
    """Triplets ``(rows[anchor], pool[positive], pool[negative])``.

    Parameters
    ----------
    rows : Rows
        The batch whose rows are anchors.
    pool : Rows
        Where positives and negatives come from: the batch itself, remembered rows, or centres.
    anchor, positive, negative : ndarray of shape (n_triplets,)
        Indices into ``rows``, ``pool`` and ``pool``.
    row_origin, pool_origin : ndarray of int64
        Number of the stream's row behind every member; -1 for a centre, which is no row.
    classes : ndarray of int64 of shape (n_triplets,) or None, default=None
        Class of every anchor as the learner numbers it, for learners that ask; None where nobody knows.

    Examples
    --------
    >>> from nearkin.triplets import OCTG
    >>> triplets = OCTG().build([[0.0], [0.2], [1.0], [1.2]], ["a", "a", "b", "b"])
    >>> len(triplets), triplets.noisy_roles([False, True, False, False]).anchor.tolist()
    (2, [True, False])
    """

    rows: Rows
    pool: Rows
    anchor: Index
    positive: Index
    negative: Index
    row_origin: Index
    pool_origin: Index
    classes: Index | None = None

    def __len__(self) -> int:
        return len(self.anchor)

    def vectors(self) -> Iterator[tuple[slice, TripletRows]]:
        """Pieces of the triplets with their dense vectors; a single piece without copies when all is dense."""
        if self.rows.is_dense and self.pool.is_dense:
            pool = self.pool.dense
            yield (
                slice(0, len(self)),
                TripletRows(self.rows.dense, pool, pool, self.anchor, self.positive, self.negative),
            )
            return
        step = self._step
        for start in range(0, len(self), step):
            part = slice(start, min(len(self), start + step))
            here = np.arange(part.stop - part.start)
            members = (
                self.rows.take(self.anchor[part]),
                self.pool.take(self.positive[part]),
                self.pool.take(self.negative[part]),
            )
            yield part, TripletRows(*members, here, here, here)

    @property
    def _step(self) -> int:
        return max(1, min(_GATHER, _GATHER_NUMBERS // max(1, self.rows.n_features)))

    def of(self, rows: Array, pool: Array) -> Triplets:
        """The same triplets of other vectors, given for every row and every member of the pool."""
        return replace(self, rows=Rows(rows), pool=Rows(pool))

    def directions(self, measure: Measure) -> Iterator[tuple[slice, Array, Array]]:
        """Pieces of the triplets with the vectors ``g`` and ``h`` of `nearkin.measures`."""
        for part, v in self.vectors():
            for start in range(0, part.stop - part.start, self._step):
                inner = slice(start, min(part.stop - part.start, start + self._step))
                members = v.anchors[v.anchor[inner]], v.positives[v.positive[inner]], v.negatives[v.negative[inner]]
                yield slice(part.start + inner.start, part.start + inner.stop), *measure.directions(*members)

    def margins(self, measure: Measure = DISTANCE) -> Array:
        """``z`` of every triplet under the measure before learning (M the identity)."""
        z = np.empty(len(self))
        for part, g, h in self.directions(measure):
            z[part] = (g * h).sum(axis=1)
        return z

    def noisy_roles(self, is_noisy: ArrayLike) -> NoisyRoles:
        """Which roles are played by wrongly labelled rows.

        Parameters
        ----------
        is_noisy : array-like of bool of shape (n_rows_of_the_stream,)
            Whether the label of each row is wrong.
        """
        noisy = np.append(np.asarray(is_noisy, dtype=bool), False)  # the last entry answers for centres (-1)
        pool = noisy[self.pool_origin]
        return NoisyRoles(noisy[self.row_origin[self.anchor]], pool[self.positive], pool[self.negative])

    @classmethod
    def join(cls, parts: Sequence[Triplets]) -> Triplets:
        """One set from several; vectors are gathered, so this is for looking at triplets, not for learning."""
        rows = [np.concatenate([block for _, block in part.rows.blocks()]) for part in parts]
        pool = [np.concatenate([block for _, block in part.pool.blocks()]) for part in parts]
        row_start = np.cumsum([0, *map(len, rows)])[:-1]
        pool_start = np.cumsum([0, *map(len, pool)])[:-1]
        return cls(
            Rows(np.concatenate(rows)),
            Rows(np.concatenate(pool)),
            np.concatenate([t.anchor + s for t, s in zip(parts, row_start, strict=True)]),
            np.concatenate([t.positive + s for t, s in zip(parts, pool_start, strict=True)]),
            np.concatenate([t.negative + s for t, s in zip(parts, pool_start, strict=True)]),
            np.concatenate([t.row_origin for t in parts]),
            np.concatenate([t.pool_origin for t in parts]),
        )
