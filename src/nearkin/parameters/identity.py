"""The parameter that never moves."""

from __future__ import annotations

import numpy as np

from nearkin.arrays import Array
from nearkin.losses import Loss
from nearkin.measures import Measure
from nearkin.triplets import Triplets

__all__ = ["Identity"]


class Identity:
    """The metric that is never moved: the Euclidean distance."""

    def __init__(self, n_features: int, dtype: np.dtype, measure: Measure):
        self.measure = measure
        self.n_features = n_features
        self.dtype = np.dtype(dtype).name

    def learn(self, triplets: Triplets, C: float, loss: Loss, max_hq_iter: int) -> tuple[Array, int]:
        """Only look: plausibilities, no update."""
        return loss.plausibility(self.margins(triplets)), 0

    def margins(self, triplets: Triplets) -> Array:
        """``g' h``."""
        return triplets.margins(self.measure)

    def scores(self, left: Array, right: Array) -> Array:
        """The plain measure."""
        return self.measure.scores(left, right)

    def embed(self, X: Array) -> Array:
        """The rows themselves."""
        return X

    def copy(self) -> Identity:
        """Nothing to copy."""
        return self

    @property
    def metric(self) -> Array:
        """The identity matrix."""
        return np.eye(self.n_features, dtype=self.dtype)

    components = query_map = item_map = metric
