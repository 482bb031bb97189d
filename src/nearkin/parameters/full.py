"""A full matrix M (Algorithms 1 and 2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearkin.arrays import Array
from nearkin.kernels import StepRule, TripletRows
from nearkin.losses import Loss
from nearkin.measures import Measure
from nearkin.parameters.sweep import Kept, feed, feed_device, steps_at_once
from nearkin.triplets import Triplets

__all__ = ["FullMatrix", "from_eigenpairs"]

#: Features and triplets from which a full matrix is learned in blocks: for fewer, packing costs more than it saves.
_IN_BLOCKS = 16
_ENOUGH = 12


class FullMatrix:
    """M of shape (d, d), begun at the identity (Algorithms 1 and 2)."""

    # Components of this M, made when somebody asks, and a sweep that goes on; not saved.
    _transient = ("_root", "_sweep")
    _root: Array | None = None
    _sweep: Any = None
    M = Kept()

    def __init__(self, n_features: int, dtype: np.dtype, measure: Measure, psd: str = "none"):
        from nearkin.kernels import inverse

        self.measure = measure
        self.psd = psd
        self.dtype = np.dtype(dtype).name
        # On the cone, eigenvalues next to zero need the digits whatever the rows' type is.
        self.M = np.eye(n_features, dtype=np.float64 if psd in ("project", "exact") else dtype)
        # State of the projecting sweep, saved with M.
        self.numbers, self.nulls, self.inverse = inverse.start_tracking(n_features, psd == "project")

    def learn(self, triplets: Triplets, C: float, loss: Loss, max_hq_iter: int) -> tuple[Array, int]:
        """One sweep; ``psd`` chooses what a step does."""
        from nearkin.kernels import blocks, cone, full

        self._root = None
        if self.psd in ("project", "exact"):
            on_cone = cone.project if self.psd == "project" else cone.exact

            def sweep(rows: TripletRows, rule: StepRule, plausibility: Array) -> int:
                return on_cone.run(loss, self.M, rows, rule, self.tracked, plausibility)

            return feed(triplets, C, loss, max_hq_iter, sweep, steps_at_once(len(self.M)))
        in_blocks = len(self.M) >= _IN_BLOCKS and len(triplets) >= _ENOUGH
        free = blocks.sweep if in_blocks else full.sweep

        def free_sweep(rows: TripletRows, rule: StepRule, plausibility: Array) -> int:
            return free.run(loss, self.M, rows, rule, self.measure.is_distance, plausibility)

        return feed(triplets, C, loss, max_hq_iter, free_sweep)

    @property
    def tracked(self) -> Any:
        """State of the projecting sweep as it takes it."""
        from nearkin.kernels import inverse

        return inverse.Tracked(self.numbers, self.nulls, self.inverse)

    def learn_on(self, device: Any, triplets: Triplets, C: float, loss: Loss, max_hq_iter: int) -> tuple[Array, int]:
        """`learn` on a device, where M stays until somebody asks for it; not for steps that are projected."""
        from nearkin.accelerator.matrix_sweep import FullSweep

        sweep = self._sweep or FullSweep(self.M, self.measure.is_distance, device)
        self._root, self._sweep = None, sweep
        return feed_device(sweep, triplets, C, loss, max_hq_iter)

    def embed(self, X: Array) -> Array:
        """``X M^(1/2)``."""
        return X @ self.components.T

    def margins(self, triplets: Triplets) -> Array:
        """``g' M h``."""
        z, M = np.empty(len(triplets)), self.metric
        for part, g, h in triplets.directions(self.measure):
            z[part] = ((g @ M) * h).sum(axis=1)
        return z

    def scores(self, left: Array, right: Array) -> Array:
        """``-(x - y)' M (x - y)`` or ``x' M y``."""
        M = self.metric
        if not self.measure.is_distance:
            return (left @ M) @ right.T
        centre = right.mean(axis=0)
        left, right = left - centre, right - centre
        mapped = left @ M
        return 2.0 * mapped @ right.T - (mapped * left).sum(1)[:, None] - ((right @ M) * right).sum(1)[None, :]

    def copy(self) -> FullMatrix:
        """Deep copy."""
        other = FullMatrix.__new__(FullMatrix)
        other.measure, other.psd, other.dtype, other._root = self.measure, self.psd, self.dtype, self._root
        for name in ("M", "numbers", "nulls", "inverse"):
            setattr(other, name, getattr(self, name).copy())
        return other

    @property
    def metric(self) -> Array:
        """M; for ``psd="end"`` its positive semi-definite part, while learning goes on with M itself."""
        if self.psd != "end":
            return self.M.astype(self.dtype, copy=False)
        values, vectors = np.linalg.eigh(self.M)
        return self.M if values[0] >= 0 else from_eigenpairs(vectors, np.maximum(values, 0))

    @property
    def components(self) -> Array:
        """Square root of the positive semi-definite part of M's symmetric part, largest eigenvalue first."""
        if self._root is not None:
            return self._root
        metric = self.metric
        values, vectors = np.linalg.eigh(0.5 * (metric + metric.T))
        if self.measure.is_distance and values[0] < -1e-6 * max(1.0, values[-1]):
            raise ValueError(
                f"the learned matrix has a negative eigenvalue ({values[0]:.3g}), so it is no distance and has no map. "
                "Fit with psd='project', 'exact' or 'end'."
            )
        values, vectors = values[::-1], vectors[:, ::-1]
        # Signs are free; a fixed choice makes equal models look equal.
        signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(len(values))])
        self._root = np.ascontiguousarray((vectors * signs * np.sqrt(np.maximum(values, 0))).T)
        return self._root

    @property
    def query_map(self) -> Array:
        """``M'``: a mapped query is ``M' q``."""
        return self.components if self.measure.is_distance else np.ascontiguousarray(self.metric.T)

    @property
    def item_map(self) -> Array:
        """The identity: items stay as they are in their index."""
        return self.components if self.measure.is_distance else np.eye(len(self.M), dtype=self.M.dtype)


def from_eigenpairs(vectors: Array, values: Array) -> Array:
    """Symmetric matrix of eigenvectors (columns) and eigenvalues."""
    return (vectors * values) @ vectors.T
