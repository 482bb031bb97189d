"""The parameter that never moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from nearkin.arrays import Array
from nearkin.measures import Measure
from nearkin.memory import check_memory
from nearkin.parameters.contract import LearningRule, MappedParameter
from nearkin.stored import Count, Part, Type, stored
from nearkin.triplets import Triplets

__all__ = ["Identity"]


@stored(measure=Part(Measure), n_features=Count(1, size="d"), dtype=Type())
class Identity(MappedParameter):
    """The identity matrix: the Euclidean distance."""

    has_mean = True
    dtype: str

    def __init__(self, n_features: int, dtype: np.dtype, measure: Measure):
        self.measure = measure
        self.n_features = n_features
        self.dtype = np.dtype(dtype).name

    def learn(self, triplets: Triplets, rule: LearningRule) -> tuple[Array, int]:
        """Weigh the triplets, without an update."""
        return rule.loss.plausibility(self.margins(triplets)), 0

    def margins(self, triplets: Triplets) -> Array:
        """``g' h``."""
        return triplets.margins(self.measure)

    def scores(self, left: Array, right: Array) -> Array:
        """The plain measure."""
        return self.measure.scores(left, right)

    def embed(self, X: Array) -> Array:
        """Return the rows themselves."""
        return X

    @property
    def components(self) -> Array:
        """The identity matrix."""
        what = f"a matrix of {self.n_features:,} features"
        check_memory(8.0 * self.n_features**2, what, "The map is the identity: use transform.", None)
        return np.eye(self.n_features, dtype=self.dtype)

    metric = components

    @classmethod
    def merge(cls, shards: Sequence[Self], weights: Sequence[float]) -> Self:
        """Return any of them."""
        return shards[0]
