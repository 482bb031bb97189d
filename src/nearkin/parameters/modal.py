"""One block per modality under one set of weights: what OMDML, LOMDML and LSMDML learn."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array
from nearkin.kernels import StepRule, TripletRows
from nearkin.measures import DISTANCE, Measure
from nearkin.parameters.contract import LearningRule, MappedParameter, feed, steps_at_once, weighted_mean
from nearkin.parameters.full import FullMatrix
from nearkin.parameters.lowrank import LowRank
from nearkin.parameters.modalities import Modalities
from nearkin.stored import stored
from nearkin.triplets import Triplets

__all__ = ["Modal", "ModalFull", "ModalLowRank"]


class Modal:
    """Distance ``sum_k theta_k d2_k`` of blocks that each have a map.

    Parameters
    ----------
    modalities : Modalities
        Which columns belong to which.
    blocks : list
        One for each modality.
    """

    measure: Measure

    def __init__(self, modalities: Modalities, blocks: list[Any]):
        self.modalities = modalities
        self.measure = modalities.measure
        self.theta = np.full(len(modalities), 1.0 / len(modalities))
        self.blocks = blocks

    def embed(self, X: Array) -> Array:
        """``sqrt(theta_k) L_k' x_k``, one after the other."""
        return np.concatenate(
            [
                block.embed(part) * part.dtype.type(weight)
                for block, part, weight in zip(self.blocks, self.modalities.split(X), np.sqrt(self.theta), strict=True)
            ],
            axis=1,
        )

    @property
    def metric(self) -> Array:
        """Block-diagonal, ``theta_k M_k``."""
        return self.modalities.square(self._weighted("metric", self.theta))

    @property
    def components(self) -> Array:
        """Block-diagonal, ``sqrt(theta_k) L_k'``."""
        return self.modalities.block_diagonal(self._weighted("components", np.sqrt(self.theta)))

    def _weighted(self, name: str, weights: Array) -> list[Array]:
        found = [getattr(block, name) for block in self.blocks]
        return [np.asarray(one * one.dtype.type(weight)) for one, weight in zip(found, weights, strict=True)]


class Hedged(Modal):
    """Blocks that move together in one sweep, with weights by Hedge.

    Parameters
    ----------
    modalities, blocks
        See `Modal`.
    beta : float
        What is left of a weight after a mistake.
    margin : float
        Sum of margins below which a triplet is learned.
    """

    has_mean = True
    moving: ClassVar[tuple[str, ...]] = ("theta", "blocks")

    def __init__(self, modalities: Modalities, blocks: list[Any], beta: float, margin: float):
        super().__init__(modalities, blocks)
        self.beta = float(beta)
        self.margin = float(margin)

    @abstractmethod
    def _sweep(self) -> tuple[Any, NDArray[np.intp], int | None]:
        """The loop, the addresses of the blocks, and how many triplets to take at once."""

    def learn(self, triplets: Triplets, rule: LearningRule) -> tuple[Array, int]:
        """One sweep over all modalities."""
        from nearkin.kernels.modalities import Hedging

        kernel, places, at_once = self._sweep()
        hedging = Hedging(self.modalities.starts, self.theta, self.beta, self.margin)

        def sweep(rows: TripletRows, step: StepRule, plausibility: Array) -> int:
            return kernel.run(rule.loss, places, hedging, self._grouped(rows), step, plausibility)

        return feed(triplets, rule, sweep, at_once)

    def _grouped(self, v: TripletRows) -> TripletRows:
        group = self.modalities.grouped
        positives = group(v.positives)
        negatives = positives if v.negatives is v.positives else group(v.negatives)
        return v._replace(anchors=group(v.anchors), positives=positives, negatives=negatives)

    @property
    def limits(self) -> tuple[tuple[Array, float], ...]:
        """Those of the blocks."""
        return tuple(one for block in self.blocks for one in block.limits)

    @classmethod
    def merge(cls, shards: Sequence[Self], weights: Sequence[float]) -> Self:
        """Means of the weights and of each block."""
        merged: Any = shards[0].copy()  # type: ignore[attr-defined]
        merged.theta = weighted_mean([one.theta for one in shards], weights)
        merged.blocks = [
            block.merge([one.blocks[i] for one in shards], weights) for i, block in enumerate(merged.blocks)
        ]
        return merged


@stored("modalities", "measure", "theta", "blocks", "beta", "margin")
class ModalFull(Hedged, MappedParameter):
    """A full matrix on the cone for each modality."""

    def __init__(self, modalities: Modalities, dtype: np.dtype, beta: float, margin: float):
        blocks = [FullMatrix(d, dtype, DISTANCE, "project") for d in modalities.sizes]
        super().__init__(modalities, blocks, beta, margin)

    def _sweep(self) -> tuple[Any, NDArray[np.intp], int | None]:
        from nearkin.kernels import modalities

        for block in self.blocks:
            block.forget_root()
        matrices, states = [block.M for block in self.blocks], [block.tracked for block in self.blocks]
        places = modalities.matrix_addresses(matrices, states)
        return modalities.full, places, steps_at_once(max(self.modalities.sizes))

    def margins(self, triplets: Triplets) -> Array:
        """``sum_k theta_k g_k' M_k h_k``."""
        z, M = np.empty(len(triplets)), self.metric
        for part, g, h in triplets.directions(DISTANCE):
            z[part] = ((g @ M) * h).sum(axis=1)
        return z

    def scores(self, left: Array, right: Array) -> Array:
        """Sum of the modalities'."""
        parts = zip(self.blocks, self.modalities.split(left), self.modalities.split(right), strict=True)
        scores = [block.scores(one, other) for block, one, other in parts]
        total = scores[0] * left.dtype.type(self.theta[0])
        for weight, one in zip(self.theta[1:], scores[1:], strict=True):
            total += left.dtype.type(weight) * one
        return total


@stored("modalities", "measure", "theta", "blocks", "beta", "margin")
class ModalLowRank(Hedged, MappedParameter):
    """A factor for each modality, begun at the given components."""

    def __init__(self, modalities: Modalities, starts: list[Array], dtype: np.dtype, beta: float, margin: float):
        blocks = [LowRank(start.astype(dtype), DISTANCE, "subgradient") for start in starts]
        super().__init__(modalities, blocks, beta, margin)

    def _sweep(self) -> tuple[Any, NDArray[np.intp], int | None]:
        from nearkin.kernels import modalities

        return modalities.low_rank, modalities.factor_addresses([block.L for block in self.blocks]), None
