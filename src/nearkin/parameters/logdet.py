"""A positive definite matrix learned with LogDet proximity: what SLMOML and ITML share."""

from __future__ import annotations

import copy
from typing import Self

import numpy as np

from nearkin.arrays import Array
from nearkin.kernels import StepRule, TripletRows
from nearkin.losses import Loss
from nearkin.measures import DISTANCE
from nearkin.parameters.lowrank import LowRank
from nearkin.parameters.sweep import feed
from nearkin.rows import Rows
from nearkin.triplets import Triplets

__all__ = ["LogDet", "PairBounds", "pair_bounds"]


#: Most rows whose pairwise distances are looked at.
_ROWS = 512


class LogDet(LowRank):
    """A square L, begun at the identity: ``M = L L'`` is positive definite whatever the steps and their rounding."""

    _as_pairs = False

    def __init__(self, n_features: int, dtype: np.dtype):
        super().__init__(np.eye(n_features, dtype=dtype), DISTANCE)

    def learn(self, triplets: Triplets, C: float, loss: Loss, max_hq_iter: int) -> tuple[Array, int]:
        """One sweep."""
        from nearkin.kernels import logdet

        kernel, bounds = logdet.by_pair if self._as_pairs else logdet.by_triplet, self._kernel_bounds()

        def sweep(rows: TripletRows, rule: StepRule, plausibility: Array) -> int:
            return kernel.run(loss, self.L, rows, rule, self._as_pairs, bounds, plausibility)

        return feed(triplets, C, loss, max_hq_iter, sweep)

    def _kernel_bounds(self) -> tuple[float, float, bool]:
        return 0.0, 0.0, False

    def copy(self) -> Self:
        """Deep copy."""
        other = copy.copy(self)
        other.L = self.L.copy()
        return other


class PairBounds(LogDet):
    """The same, learned from bounds on the squared distances of a triplet's two pairs."""

    _as_pairs = True

    def __init__(self, n_features: int, dtype: np.dtype, similar: float, dissimilar: float, step: str):
        super().__init__(n_features, dtype)
        self.similar = float(similar)
        self.dissimilar = float(dissimilar)
        self.step = step

    def _kernel_bounds(self) -> tuple[float, float, bool]:
        return self.similar, self.dissimilar, self.step == "hinge"

    def margins(self, triplets: Triplets) -> Array:
        """1 less the larger excess of the two pairs, so that its hinge is that of the worse pair."""
        z = np.empty(len(triplets))
        for part, g, h in triplets.directions(self.measure):
            p, q = ((self.embed(0.5 * one) ** 2).sum(axis=1) for one in (g - h, g + h))
            z[part] = 1.0 - np.maximum(p - self.similar, np.where(q > 0.0, self.dissimilar - q, -np.inf))
        return z


def pair_bounds(rows: Rows, low: float = 5.0, high: float = 95.0) -> tuple[float, float]:
    """Percentiles of the squared distances between two different rows, of a part of them if they are many.

    Rows are taken at even steps, not drawn, so that learning from explicit pairs needs no seed.
    """
    which = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _ROWS)).astype(np.int64))
    some = rows.take(which).astype(np.float64)
    squared = -DISTANCE.scores(some, some)[np.triu_indices(len(some), 1)]
    squared = squared[squared > 1e-12 * squared.max(initial=0.0)]  # equal rows are no pair
    if not len(squared):
        return 1.0, 1.0
    near, far = np.percentile(squared, (low, high))
    return float(near), float(far)
