"""One parameter per modality under one set of weights: what OMDML and LOMDML learn."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array
from nearkin.kernels import StepRule, TripletRows
from nearkin.losses import Loss
from nearkin.measures import DISTANCE
from nearkin.parameters.full import FullMatrix
from nearkin.parameters.lowrank import LowRank
from nearkin.parameters.modalities import Modalities
from nearkin.parameters.sweep import feed, steps_at_once
from nearkin.triplets import Triplets

__all__ = ["Modal", "ModalFull", "ModalLowRank"]


class Modal:
    """Distance ``sum_k theta_k d2_k``; a kind of parameter says what the blocks are.

    Parameters
    ----------
    modalities : Modalities
        Which columns belong to which.
    """

    def __init__(self, modalities: Modalities):
        self.modalities = modalities
        self.measure = modalities.measure
        self.theta = np.full(len(modalities), 1.0 / len(modalities))

    def embed(self, X: Array) -> Array:
        """``sqrt(theta_k) L_k' x_k``, one after the other."""
        return np.concatenate(
            [
                block.embed(part) * part.dtype.type(weight)
                for block, part, weight in zip(self._blocks, self.modalities.split(X), np.sqrt(self.theta), strict=True)
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

    @property
    def query_map(self) -> Array:
        """As `components`; both sides are mapped alike."""
        return self.components

    item_map = query_map

    @property
    def _blocks(self) -> list[Any]:
        raise TypeError(f"{type(self).__name__} must say what its blocks are.")

    def _weighted(self, name: str, weights: Array) -> list[Array]:
        return [
            np.asarray(getattr(block, name) * getattr(block, name).dtype.type(weight))
            for block, weight in zip(self._blocks, weights, strict=True)
        ]


class Hedged(Modal):
    """Blocks that move together in one sweep, with weights by Hedge."""

    def __init__(self, modalities: Modalities, blocks: list[Any], beta: float, margin: float):
        super().__init__(modalities)
        self.blocks = blocks
        self.beta = float(beta)
        self.margin = float(margin)

    @property
    def _blocks(self) -> list[Any]:
        return self.blocks

    def learn(self, triplets: Triplets, C: float, loss: Loss, max_hq_iter: int) -> tuple[Array, int]:
        """One sweep over all modalities."""
        from nearkin.kernels.modalities import Hedging

        kernel, places = self._sweep()
        hedging = Hedging(self.modalities.starts, self.theta, self.beta, self.margin)

        def sweep(rows: TripletRows, rule: StepRule, plausibility: Array) -> int:
            return kernel.run(loss, places, hedging, self._grouped(rows), rule, plausibility)

        return feed(triplets, C, loss, max_hq_iter, sweep, self._at_once)

    _at_once: int | None = None

    def _sweep(self) -> tuple[Any, NDArray[np.intp]]:
        """The loop, and the addresses of the blocks."""
        raise TypeError(f"{type(self).__name__} must have a loop.")

    def _grouped(self, v: TripletRows) -> TripletRows:
        group = self.modalities.grouped
        positives = group(v.positives)
        negatives = positives if v.negatives is v.positives else group(v.negatives)
        return v._replace(anchors=group(v.anchors), positives=positives, negatives=negatives)

    def copy(self) -> Self:
        """Deep copy."""
        other = copy.copy(self)
        other.theta = self.theta.copy()
        other.blocks = [block.copy() for block in self.blocks]
        return other


class ModalFull(Hedged):
    """A full matrix on the cone for each modality."""

    def __init__(self, modalities: Modalities, dtype: np.dtype, beta: float, margin: float):
        blocks = [FullMatrix(d, dtype, DISTANCE, "project") for d in modalities.sizes]
        super().__init__(modalities, blocks, beta, margin)

    @property
    def _at_once(self) -> int:  # type: ignore[override]
        return steps_at_once(max(self.modalities.sizes))

    def _sweep(self) -> tuple[Any, NDArray[np.intp]]:
        from nearkin.kernels import modalities

        for block in self.blocks:
            block._root = None
        matrices, states = [block.M for block in self.blocks], [block.tracked for block in self.blocks]
        return modalities.full, modalities.matrix_addresses(matrices, states)

    @property
    def sizes(self) -> tuple[Array, ...]:
        """What must stay finite."""
        return tuple(block.M for block in self.blocks)

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


class ModalLowRank(Hedged):
    """A factor for each modality, begun at the given components."""

    def __init__(self, modalities: Modalities, starts: list[Array], dtype: np.dtype, beta: float, margin: float):
        blocks = [LowRank(start.astype(dtype), DISTANCE, "subgradient") for start in starts]
        super().__init__(modalities, blocks, beta, margin)

    def _sweep(self) -> tuple[Any, NDArray[np.intp]]:
        from nearkin.kernels import modalities

        return modalities.low_rank, modalities.factor_addresses([block.L for block in self.blocks])

    @property
    def sizes(self) -> tuple[Array, ...]:
        """What must stay finite: the metrics, which are squares."""
        return tuple(block.L * block.L for block in self.blocks)

    def margins(self, triplets: Triplets) -> Array:
        """Of the mapped rows, each mapped once."""
        rows = np.concatenate([self.embed(block) for _, block in triplets.rows.blocks()])
        pool = np.concatenate([self.embed(block) for _, block in triplets.pool.blocks()])
        return triplets.of(rows, pool).margins(DISTANCE)

    def scores(self, left: Array, right: Array) -> Array:
        """The plain measure between mapped rows."""
        return DISTANCE.scores(self.embed(left), self.embed(right))
