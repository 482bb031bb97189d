"""What a deep learner holds besides its network: the optimiser's state and the draws to come."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import numpy as np

from nearkin.deep.network import Network, Weights
from nearkin.learners.state import State

__all__ = ["DeepState"]


@dataclass
class DeepState(State):
    """`State` with a network for its parameter; everything is replaced, nothing written to."""

    parameter: Network
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    moments: Weights = field(default_factory=dict)
    n_batches: int = 0

    def copy(self) -> DeepState:
        """A state that can learn while this one stays."""
        other = copy.copy(self)
        other.parameter, other.labels = self.parameter.copy(), self.labels.copy()
        other.source = None if self.source is None else self.source.copy()
        other.rng = copy.deepcopy(self.rng)
        return other
