"""A factor L of a low-rank matrix (Algorithms 3 and 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from nearkin.arrays import Array
from nearkin.kernels import StepRule, TripletRows
from nearkin.measures import Measure
from nearkin.parameters.contract import (
    LearningRule,
    MappedParameter,
    Resident,
    bound_for,
    feed,
    feed_device,
    weighted_mean,
)
from nearkin.stored import ArrayOf, Count, Number, Part, Text, stored
from nearkin.triplets import Triplets

__all__ = ["Factor", "LowRank"]


class Factor:
    """L' of shape (r, d), so that ``M = L L'`` is positive semi-definite whatever the steps and their rounding."""

    has_mean = True
    moving: ClassVar[tuple[str, ...]] = ("L",)

    L = Resident()
    _sweep: Any

    def __init__(self, components: Array, measure: Measure):
        self.L = np.array(components, order="C")
        self.measure = measure

    @property
    def components(self) -> Array:
        """``L'``."""
        return self.L

    @property
    def limits(self) -> tuple[tuple[Array, float], ...]:
        """L, whose squares make M."""
        return ((self.L, bound_for(self.L.dtype, 0.25)),)

    @classmethod
    def merge(cls, shards: Sequence[Self], weights: Sequence[float]) -> Self:
        """Mean of the factors."""
        merged: Any = shards[0].copy()  # type: ignore[attr-defined]
        merged.L = weighted_mean([one.L for one in shards], weights)
        return merged


@stored(
    measure=Part(Measure),
    solver=Text("exact", "published", "subgradient"),
    step_size=Number(),
    n_steps=Count(1),
    L=ArrayOf("r", "d", dtype="T"),
)
class LowRank(Factor, MappedParameter):
    """L' of shape (r, d), so that ``M = L L'``.

    Parameters
    ----------
    components : ndarray of shape (r, d)
        Where L' begins.
    measure : Measure
        What ``g`` is.
    solver : {"exact", "published", "subgradient"}
        How a step is found; "published" is that of OPML.
    step_size, n_steps : float, int
        Of sub-gradient steps.
    """

    def __init__(
        self, components: Array, measure: Measure, solver: str = "exact", step_size: float = 1.0, n_steps: int = 1
    ):
        super().__init__(components, measure)
        self.solver = solver
        self.step_size = float(step_size)
        self.n_steps = int(n_steps)

    def on(self, device: Any) -> None:
        """Learn there; L stays there until it is read."""
        self._device = device

    def learn(self, triplets: Triplets, rule: LearningRule) -> tuple[Array, int]:
        """One sweep with the chosen solver."""
        if self._device is not None:
            return self._learn_on_device(triplets, rule)
        from nearkin.kernels import lowrank

        kernel = {"exact": lowrank.exact, "published": lowrank.published, "subgradient": lowrank.subgradient}
        descent = self.step_size, self.n_steps

        def sweep(rows: TripletRows, step: StepRule, plausibility: Array) -> int:
            return kernel[self.solver].run(
                rule.loss, self.L, rows, step, self.measure.is_distance, descent, plausibility
            )

        return feed(triplets, rule, sweep)

    def _learn_on_device(self, triplets: Triplets, rule: LearningRule) -> tuple[Array, int]:
        from nearkin.accelerator.factor_sweeps import FactorSweep

        sweep = self._sweep or FactorSweep(self.L, self.measure.is_distance, self._device)
        self._sweep = sweep
        return feed_device(sweep, triplets, rule)
