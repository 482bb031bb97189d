"""A factor L of a low-rank matrix (Algorithms 3 and 4)."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearkin.arrays import Array
from nearkin.kernels import StepRule, TripletRows
from nearkin.losses import Loss
from nearkin.measures import Measure
from nearkin.parameters.sweep import Kept, feed, feed_device
from nearkin.triplets import Triplets

__all__ = ["LowRank"]


class LowRank:
    """L' of shape (r, d), so that ``M = L L'`` (Algorithms 3 and 4)."""

    _transient = ("_sweep",)
    _sweep: Any = None
    L = Kept()

    def __init__(
        self, components: Array, measure: Measure, solver: str = "exact", step_size: float = 1.0, n_steps: int = 1
    ):
        self.L = np.array(components, order="C")
        self.measure = measure
        self.solver = solver
        self.step_size = float(step_size)
        self.n_steps = int(n_steps)

    def learn(self, triplets: Triplets, C: float, loss: Loss, max_hq_iter: int) -> tuple[Array, int]:
        """One sweep with the chosen solver."""
        from nearkin.kernels import lowrank

        kernel = {"exact": lowrank.exact, "published": lowrank.published, "subgradient": lowrank.subgradient}
        descent = self.step_size, self.n_steps

        def sweep(rows: TripletRows, rule: StepRule, plausibility: Array) -> int:
            return kernel[self.solver].run(loss, self.L, rows, rule, self.measure.is_distance, descent, plausibility)

        return feed(triplets, C, loss, max_hq_iter, sweep)

    def learn_on(self, device: Any, triplets: Triplets, C: float, loss: Loss, max_hq_iter: int) -> tuple[Array, int]:
        """`learn` with exact steps on a device, where L stays until somebody asks for it."""
        from nearkin.accelerator.factor_sweeps import FactorSweep

        sweep = self._sweep or FactorSweep(self.L, self.measure.is_distance, device)
        self._sweep = sweep
        return feed_device(sweep, triplets, C, loss, max_hq_iter)

    def margins(self, triplets: Triplets) -> Array:
        """Of the mapped rows, each mapped once."""
        rows = np.concatenate([self.embed(block) for _, block in triplets.rows.blocks()])
        pool = np.concatenate([self.embed(block) for _, block in triplets.pool.blocks()])
        return triplets.of(rows, pool).margins(self.measure)

    def scores(self, left: Array, right: Array) -> Array:
        """The plain measure between mapped rows."""
        return self.measure.scores(self.embed(left), self.embed(right))

    def embed(self, X: Array) -> Array:
        """``X L``."""
        return X @ self.L.T

    def copy(self) -> LowRank:
        """Deep copy."""
        return LowRank(self.L, self.measure, self.solver, self.step_size, self.n_steps)

    @property
    def metric(self) -> Array:
        """``L L'``."""
        return self.L.T @ self.L

    @property
    def components(self) -> Array:
        """``L'``."""
        return self.L

    @property
    def query_map(self) -> Array:
        """``L'``; both sides are mapped alike."""
        return self.L

    @property
    def item_map(self) -> Array:
        """``L'``."""
        return self.L
