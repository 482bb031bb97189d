"""What every parameter of a learner can do."""

from __future__ import annotations

from typing import Protocol

from nearkin.arrays import Array
from nearkin.losses import Loss
from nearkin.measures import Measure
from nearkin.triplets import Triplets

__all__ = ["Parameter"]


class Parameter(Protocol):
    """Shape shared by all parameters."""

    measure: Measure

    def learn(self, triplets: Triplets, C: float, loss: Loss, max_hq_iter: int) -> tuple[Array, int]:
        """Learn from triplets in order; returns their plausibilities and the number of updates."""

    def margins(self, triplets: Triplets) -> Array:
        """``z`` of every triplet."""

    def scores(self, left: Array, right: Array) -> Array:
        """All pairs of scaled rows, larger is closer."""

    def copy(self) -> Parameter:
        """A parameter that learns on its own."""

    def embed(self, X: Array) -> Array:
        """Scaled rows mapped by `components`."""

    @property
    def metric(self) -> Array:
        """M, of shape (d, d)."""

    @property
    def components(self) -> Array:
        """Map to a space where the measure is Euclidean distance or inner product, of shape (r, d)."""

    @property
    def query_map(self) -> Array:
        """Left side of the score, of shape (r, d)."""

    @property
    def item_map(self) -> Array:
        """Right side of the score, of shape (r, d)."""
