"""A scale that follows a stream: moments in which older rows count for less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nearkin.arrays import Array
from nearkin.rows.scaling import Scaling
from nearkin.settings import OneOf, Real, check_argument
from nearkin.stored import ArrayOf, Number, Text, stored

__all__ = ["Moments", "MovingScale"]

#: How much a factor may change at once, and in all, either way.
_AT_ONCE, _IN_ALL = 4.0, 1e6


@stored(half_life=Number(1.0), kind=Text("auto", "pairs", "unit"))
@dataclass(frozen=True)
class MovingScale:
    """Scale of a stream that changes, as the ``scale`` of a learner; with it centres and voters forget.

    Parameters
    ----------
    half_life : float
        Rows after which older ones count half, at least 100: for the spread of every feature, to which the scale is
        brought whenever the discriminant start is renewed (without a start the scale stays); for the centres of
        ``triplets="octg"``; and for the rows that a classifier holds to vote.
    kind : {"auto", "pairs", "unit"}, default="auto"
        As the ``scale`` of a learner.

    Examples
    --------
    >>> import nearkin
    >>> nearkin.RobustLODML(scale=nearkin.MovingScale(2000.0)).half_life
    2000.0
    """

    half_life: float
    kind: str = "auto"

    def __post_init__(self) -> None:
        check_argument("MovingScale", "half_life", self.half_life, Real(100.0, 1e12))
        check_argument("MovingScale", "kind", self.kind, OneOf(("auto", "pairs", "unit")))


@stored(
    half_life=Number(1.0),
    unit=Number(0.0),
    first=ArrayOf("d", of="doubles", low=0.0),
    weight=Number(0.0),
    mean=ArrayOf("d", of="doubles"),
    variance=ArrayOf("d", of="doubles", low=0.0),
)
@dataclass(frozen=True)
class Moments:
    """Mean and variance of scaled rows in which older rows count for less, and what a standard deviation should be.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 2)) * [1.0, 3.0]
    >>> scaling = Scaling(np.zeros(2), np.ones(2))
    >>> scaling, ratio, _ = Moments.begin(scaling, 1.0, 500.0).plus(X).follow(scaling)
    >>> scaling.factor.round(1).tolist()
    [1.0, 0.3]
    """

    half_life: float
    unit: float
    first: Array  # factors at first; columns that had none are left alone
    weight: float
    mean: Array
    variance: Array

    @classmethod
    def begin(cls, scaling: Scaling, unit: float, half_life: float) -> Moments:
        """Return what is known before any row."""
        assert scaling.factor is not None
        first = scaling.factor.astype(np.float64)
        return cls(float(half_life), float(unit), first, 0.0, np.zeros(len(first)), np.zeros(len(first)))

    def plus(self, X: Array) -> Moments:
        """Take in the next rows; how they are cut into pieces matters up to rounding only."""
        n = len(X)
        decay = 2.0 ** (-1.0 / self.half_life)
        each = decay ** np.arange(n - 1, -1, -1.0)
        new, old = float(each.sum()), self.weight * decay**n
        weight = old + new
        # Deviations from the mean before stay small where the mean is large.
        gaps = X - self.mean
        step = each @ gaps / new
        mean = self.mean + new / weight * step
        square = each @ (gaps * gaps)
        variance = (old * self.variance + square) / weight - (mean - self.mean) ** 2
        return replace(self, weight=weight, mean=mean, variance=np.maximum(variance, 0.0))

    def merged(self, shards: Sequence[Moments]) -> Moments:
        """Return the mean of shards of the rows, all of which began with this one."""
        mean = np.mean([one.mean for one in shards], axis=0)
        square = np.mean([one.variance + one.mean**2 for one in shards], axis=0)
        weight = float(np.mean([one.weight for one in shards]))
        return replace(self, weight=weight, mean=mean, variance=np.maximum(square - mean**2, 0.0))

    def follow(self, scaling: Scaling) -> tuple[Scaling, Array, Moments]:
        """Return a scaling with the present spread, by how much each factor grows, and the moments on that scale."""
        assert scaling.factor is not None
        spread, factor = np.sqrt(self.variance), scaling.factor.astype(np.float64)
        live = (self.first > 0) & (spread > 0)
        ratio = np.where(live, self.unit / np.where(live, spread, 1.0), 1.0)
        ratio = np.clip(ratio, 1.0 / _AT_ONCE, _AT_ONCE)
        held = np.clip(factor * ratio, self.first / _IN_ALL, self.first * _IN_ALL)
        ratio = np.where(live, held / np.where(live, factor, 1.0), 1.0)
        made = replace(scaling, factor=(factor * ratio).astype(scaling.factor.dtype))
        return made, ratio, replace(self, mean=self.mean * ratio, variance=self.variance * ratio**2)
