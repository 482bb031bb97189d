r"""The two measures, and the one shape they share.

For a triplet ``(x, x+, x-)`` both families have a signed matrix ``A`` with ``z = <A, M>``:
similarity ``A = x w'`` with ``w = x+ - x-`` (Eq. 22), distance ``A = v v' - u u'`` with ``u = x - x+``,
``v = x - x-`` (Eq. 25). Since ``v v' - u u' = sym(g h')`` with ``g = u + v`` and ``h = v - u = x+ - x-``,

    ``z = g' M h``   for both,

with ``g = x`` for a similarity and ``g = (x - x+) + (x - x-)`` for a distance. So a measure is: which ``g``, and
whether ``A`` is ``g h'`` or its symmetric part. Everything after that (steps, kernels) is written once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nearkin.arrays import Array
from nearkin.stored import Flag, Text, stored

__all__ = ["DISTANCE", "SIMILARITY", "LinearScores", "Measure"]


class LinearScores(NamedTuple):
    """Scores of any x with every vector j, ``unit * ((x - origin)' directions[j] - offsets[j])``.

    A term of x alone is left out.
    """

    origin: Array
    directions: Array
    offsets: Array
    unit: float


@stored(name=Text("distance", "similarity"), is_distance=Flag())
@dataclass(frozen=True)
class Measure:
    """A distance ``(x - y)' M (x - y)``, Eq. (1), or a similarity ``x' M y``, Eq. (2) read without the square.

    Parameters
    ----------
    name : str
        "distance" or "similarity".
    is_distance : bool
        Whether ``A`` is the symmetric part of ``g h'``.

    Examples
    --------
    >>> x, p, n = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]), np.array([[2.0, 0.0]])
    >>> g, h = DISTANCE.directions(x, p, n)
    >>> (g @ np.eye(2) * h).sum(), ((x - n) ** 2).sum() - ((x - p) ** 2).sum()
    (np.float64(-1.0), np.float64(-1.0))
    """

    name: str
    is_distance: bool

    def directions(self, anchor: Array, positive: Array, negative: Array) -> tuple[Array, Array]:
        """``g`` and ``h`` of every row, so that ``z = g' M h``."""
        h = positive - negative
        if self.is_distance:
            return (anchor - positive) + (anchor - negative), h
        return anchor, h

    def squared_norm(self, g: Array, h: Array) -> Array:
        """``||A||_F^2`` of every row without forming ``A``."""
        gg, hh, gh = (g * g).sum(-1), (h * h).sum(-1), (g * h).sum(-1)
        return 0.5 * (gg * hh + gh * gh) if self.is_distance else gg * hh

    def scores(self, left: Array, right: Array) -> Array:
        """All pairs of two embedded sets, larger is closer: ``-||a - b||^2`` or ``a' b``.

        Distances are taken from the mean of ``right``, so that a common offset costs no digits.
        """
        if not self.is_distance:
            return left @ right.T
        centre = right.mean(axis=0)
        left, right = left - centre, right - centre
        out = left @ right.T
        out *= 2.0
        out -= (left * left).sum(axis=1)[:, None]
        out -= (right * right).sum(axis=1)[None, :]
        return np.minimum(out, 0.0, out=out)

    def linear(self, right: Array) -> LinearScores:
        """What decides which of some vectors is closer to x: ``-||x - y||^2 = 2 (x'y - ||y||^2 / 2) - ||x||^2``.

        Examples
        --------
        >>> y = np.array([[0.0, 1.0], [2.0, 2.0]])
        >>> origin, directions, offsets, unit = DISTANCE.linear(y)
        >>> scores = unit * (directions @ (np.array([1.0, 1.0]) - origin) - offsets)
        >>> float(scores[0] - scores[1]), DISTANCE.scores(np.array([[1.0, 1.0]]), y).tolist()
        (1.0, [[-1.0, -2.0]])
        """
        if not self.is_distance:
            return LinearScores(np.zeros_like(right[0]), right, np.zeros_like(right[:, 0]), 1.0)
        origin = right.mean(axis=0)
        directions = right - origin
        return LinearScores(origin, directions, 0.5 * np.einsum("ij,ij->i", directions, directions), 2.0)

    def pair_scores(self, left: Array, right: Array) -> Array:
        """Score of ``left[i]`` with ``right[i]``, larger is closer."""
        if not self.is_distance:
            return (left * right).sum(axis=1)
        difference = left - right
        return -(difference * difference).sum(axis=1)


DISTANCE = Measure("distance", is_distance=True)
SIMILARITY = Measure("similarity", is_distance=False)
