"""A factor L of a low-rank matrix (Algorithms 3 and 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from nearkin.arrays import Array, Index
from nearkin.kernels.few_triplets import learn_factor
from nearkin.measures import Measure
from nearkin.parameters.contract import LearningRule, MappedParameter, Resident, feed, feed_device, weighted_mean
from nearkin.stored import ArrayOf, Count, Number, Part, Text, stored
from nearkin.triplets import Triplets

__all__ = ["Factor", "LowRank"]


class Factor:
    """L' of shape (r, d), so that ``M = L L'`` is positive semi-definite whatever the steps and their rounding."""

    has_mean = True
    moving: ClassVar[tuple[str, ...]] = ("L",)
    bounded: ClassVar[dict[str, float]] = {"L": 0.25}  # its squares make M

    L = Resident("L")
    components: Any = L
    _sweep: Any

    def __init__(self, components: Array, measure: Measure):
        self.L = np.array(components, order="C")
        self.measure = measure

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
    """L' of shape (r, d), so that ``M = L L'``, begun at some components.

    ``solver`` says how a step is found, where "published" is that of OPML; ``step_size`` and ``n_steps`` are those of
    "subgradient".
    """

    def __init__(
        self, components: Array, measure: Measure, solver: str = "exact", step_size: float = 1.0, n_steps: int = 1
    ):
        super().__init__(components, measure)
        self.solver = solver
        self.step_size = float(step_size)
        self.n_steps = int(n_steps)

    def widen(self, columns: Index, sample: Array) -> None:
        """Begin directions for columns that L hardly sees, from a sample of their rows.

        Their leading principal directions are added to the components that have the least weight: the start has as much
        of them as a start that had seen them from the beginning, at the least cost for the others.
        """
        L = self.L.astype(np.float64)
        weights = np.sqrt((L**2).sum(axis=1))
        size = np.sqrt((weights**2).mean())
        unseen = np.sqrt((L[:, columns] ** 2).sum(axis=0)) < 0.5 * size
        if not unseen.any():
            return
        sample = sample[:, unseen] - sample[:, unseen].mean(axis=0)
        _, spread, found = np.linalg.svd(sample, full_matrices=False)
        found = found[spread > 1e-10 * spread[0]][: len(L)]
        found *= np.where(found[np.arange(len(found)), np.abs(found).argmax(axis=1)] < 0, -1.0, 1.0)[:, None]
        # Of equal ones the last, in which the first batch varies least.
        weakest = np.argsort(np.round(weights[::-1] / size, 6), kind="stable")[: len(found)]
        L[np.ix_(len(L) - 1 - weakest, columns[unseen])] += size * found
        self.L = L.astype(self.L.dtype)

    def on(self, device: Any) -> None:
        """Learn there; L stays there until it is read."""
        self._device = device

    def learn(self, triplets: Triplets, rule: LearningRule) -> tuple[Array, int]:
        """One sweep with the chosen solver."""
        if self._device is not None:
            return self._learn_on_device(triplets, rule)
        L, descent = self.L, (self.step_size, self.n_steps)
        if triplets.are_few:
            few = (self.measure, rule.loss.weight_of_hinge, self.solver, descent)
            return feed(triplets, rule, lambda rows, step, found: learn_factor(L, rows, step, *few, found))
        from nearkin.kernels import lowrank

        kernels = {"exact": lowrank.exact, "published": lowrank.published, "subgradient": lowrank.subgradient}
        run, more = kernels[self.solver].run, (self.measure.is_distance, descent)
        return feed(triplets, rule, lambda rows, step, found: run(rule.loss, L, rows, step, *more, found))

    def _learn_on_device(self, triplets: Triplets, rule: LearningRule) -> tuple[Array, int]:
        from nearkin.accelerator.factor_sweeps import FactorSweep

        sweep = self._sweep or FactorSweep(self.L, self.measure.is_distance, self._device)
        self._sweep = sweep
        return feed_device(sweep, triplets, rule)
