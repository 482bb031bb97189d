"""A positive definite matrix learned with LogDet proximity: what SLMOML and ITML share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearkin.arrays import Array
from nearkin.measures import DISTANCE, Measure
from nearkin.parameters.contract import LearningRule, MappedParameter, feed
from nearkin.parameters.lowrank import Factor
from nearkin.rows import Rows
from nearkin.stored import ArrayOf, Flag, Maybe, Number, Part, stored
from nearkin.triplets import Triplets

__all__ = ["LogDet", "PairBounds"]

#: Most rows whose pairwise distances are measured.
_ROWS = 512


@stored(similar=Number(), dissimilar=Number(), is_hinge=Flag())
@dataclass(frozen=True)
class PairBounds:
    """Largest squared distance of a similar and smallest of a dissimilar pair.

    A pair beyond its bound pays a hinge, or else the LogDet divergence of ITML.
    """

    similar: float
    dissimilar: float
    is_hinge: bool = False

    @classmethod
    def measure(cls, rows: Rows, low: float = 5.0, high: float = 95.0, *, is_hinge: bool = False) -> PairBounds:
        """Take percentiles of the squared distances between two different rows, of some of them if they are many.

        Rows are taken at even steps, not drawn, so that learning from explicit pairs needs no seed.
        """
        which = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _ROWS)).astype(np.int64))
        some = rows.take(which).astype(np.float64)
        squared = -DISTANCE.scores(some, some)[np.triu_indices(len(some), 1)]
        squared = squared[squared > 1e-12 * squared.max(initial=0.0)]  # equal rows are not a pair
        if not len(squared):
            return cls(1.0, 1.0, is_hinge)
        near, far = np.percentile(squared, (low, high))
        return cls(float(near), float(far), is_hinge)


@stored(measure=Part(Measure), L=ArrayOf("d", "d", dtype="T"), bounds=Maybe(Part(PairBounds)))
class LogDet(Factor, MappedParameter):
    """A square L, begun at the identity, learned from triplets or, with bounds, from their two pairs."""

    def __init__(self, n_features: int, dtype: np.dtype, bounds: PairBounds | None = None):
        super().__init__(np.eye(n_features, dtype=dtype), DISTANCE)
        self.bounds = bounds

    def learn(self, triplets: Triplets, rule: LearningRule) -> tuple[Array, int]:
        """One sweep."""
        from nearkin.kernels import logdet

        as_pairs, one = self.bounds is not None, self.bounds or PairBounds(0.0, 0.0)
        run, more = (logdet.by_pair if as_pairs else logdet.by_triplet).run, (one.similar, one.dissimilar, one.is_hinge)
        L = self.L
        return feed(triplets, rule, lambda rows, step, found: run(rule.loss, L, rows, step, as_pairs, more, found))

    def margins(self, triplets: Triplets) -> Array:
        """Those of the triplets; with bounds 1 less the larger excess of the two pairs, the hinge of the worse one."""
        if self.bounds is None:
            return super().margins(triplets)
        z = np.empty(len(triplets))
        for part, g, h in triplets.directions(self.measure):
            p, q = ((self.embed(0.5 * one) ** 2).sum(axis=1) for one in (g - h, g + h))
            far = np.where(q > 0.0, self.bounds.dissimilar - q, -np.inf)
            z[part] = 1.0 - np.maximum(p - self.bounds.similar, far)
        return z
