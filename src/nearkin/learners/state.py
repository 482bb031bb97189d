"""What a learner holds, and how it is kept whole when something fails."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.arrays import Array
from nearkin.labels import Labels, as_labels
from nearkin.measures import Measure
from nearkin.parameters import Parameter
from nearkin.rows import Scaling
from nearkin.triplets import TripletSource

__all__ = ["State"]


@dataclass
class State:
    """Everything learned; replaced as a whole, so that a rejected batch leaves the old one."""

    scaling: Scaling
    parameter: Parameter
    labels: Labels
    dtype: np.dtype
    source: TripletSource | None = None
    n_rows: int = 0
    n_triplets: int = 0
    n_updates: int = 0

    @property
    def measure(self) -> Measure:
        """For the triplet source."""
        return self.parameter.measure

    def scores(self, left: Array, right: Array) -> Array:
        """For the triplet source: pairs under the metric learned so far."""
        return self.parameter.scores(left, right)

    def frozen(self) -> Parameter:
        """For the triplet source: the metric as it is now."""
        return self.parameter.copy()

    def scaled(self, X: ArrayLike) -> Array:
        """For the triplet source: raw rows on the learner's scale."""
        return self.scaling.apply(np.asarray(X, dtype=self.dtype))

    def codes_of(self, labels: ArrayLike) -> NDArray[np.int64]:
        """For the triplet source: numbers of labels."""
        return self.labels.encode(as_labels(labels, "OCTG"), "OCTG")

    def forget(self) -> None:
        """Forget the labels of classes that the triplet source has given up, if it does that."""
        living = None if self.source is None else self.source.living
        if living is not None and len(living) < len(self.labels.codes):
            self.labels.keep(living.tolist())

    def copy(self) -> State:
        """A state that can learn while this one stays."""
        return State(
            self.scaling, self.parameter.copy(), self.labels.copy(), self.dtype,
            None if self.source is None else self.source.copy(), self.n_rows, self.n_triplets, self.n_updates,
        )  # fmt: skip
