"""A full matrix M (Algorithms 1 and 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from nearkin.arrays import Array
from nearkin.errors import InputError
from nearkin.measures import Measure
from nearkin.parameters.contract import (
    LearningRule,
    MappedParameter,
    Resident,
    feed,
    feed_device,
    steps_at_once,
    weighted_mean,
)  # fmt: skip
from nearkin.stored import ArrayOf, Part, Text, Type, stored
from nearkin.triplets import Triplets

__all__ = ["FullMatrix", "from_eigenpairs"]

#: Features and triplets from which a full matrix is learned in blocks: for fewer, packing costs more than it saves.
_IN_BLOCKS = 16
_ENOUGH = 12


@stored(
    measure=Part(Measure),
    psd=Text("none", "project", "exact", "end"),
    dtype=Type(),
    M=ArrayOf("d", "d"),
    numbers=ArrayOf(5, of="doubles"),
    nulls=ArrayOf(2, "t", "d", of="doubles"),
    inverse=ArrayOf("i", "i", of="doubles"),
)
class FullMatrix(MappedParameter):
    """M of shape (d, d), begun at the identity.

    ``psd`` says what a step does at the border of the cone: "none", "project", "exact" or "end". M is shown in the type
    of the rows.
    """

    has_mean = True
    moving: ClassVar[tuple[str, ...]] = ("M", "numbers", "nulls", "inverse")
    bounded: ClassVar[dict[str, float]] = {"M": 0.5}

    M = Resident("M")
    dtype: str
    _sweep: Any
    _root: Array | None = None  # the components of this M, once read

    def __init__(self, n_features: int, dtype: np.dtype, measure: Measure, psd: str = "none"):
        from nearkin.kernels.inverse import start_tracking

        self.measure = measure
        self.psd = psd
        self.dtype = np.dtype(dtype).name
        # On the cone, eigenvalues next to zero need the digits whatever the rows' type is.
        self.M = np.eye(n_features, dtype=np.float64 if psd in ("project", "exact") else dtype)
        # State of the projecting sweep, saved with M.
        self.numbers, self.nulls, self.inverse = start_tracking(n_features, psd == "project")

    def check_stored(self) -> None:
        """Refuse a state that the projecting sweep could not use: it has room for Z and W, or needs none."""
        d, (_, room, _) = len(self.M), self.nulls.shape
        n_nulls = self.numbers[1]
        is_tracked = self.psd == "project"
        if is_tracked != (len(self.inverse) == d) or is_tracked != (room > 0) or not 0 <= n_nulls <= room <= d:
            raise ValueError(f"psd={self.psd!r} needs another state than {self.nulls.shape}, {self.inverse.shape}")
        if self.psd in ("project", "exact") and self.M.dtype != np.float64:
            raise ValueError("a matrix on the cone is kept in double precision")

    def on(self, device: Any) -> None:
        """Learn there; M stays there until it is read."""
        self._device = device

    def learn(self, triplets: Triplets, rule: LearningRule) -> tuple[Array, int]:
        """One sweep; ``psd`` chooses what a step does."""
        self.forget_root()
        if self._device is not None:
            return self._learn_on_device(triplets, rule)
        from nearkin.kernels import cone, full

        more: Any
        if self.psd in ("project", "exact"):
            run, more = (cone.project if self.psd == "project" else cone.exact).run, self.tracked
            at_once = steps_at_once(len(self.M))
        else:
            in_blocks = len(self.M) >= _IN_BLOCKS and len(triplets) >= _ENOUGH
            run, more = (full.in_blocks if in_blocks else full.one_by_one).run, self.measure.is_distance
            at_once = None
        M = self.M
        return feed(triplets, rule, lambda rows, step, found: run(rule.loss, M, rows, step, more, found), at_once)

    @property
    def tracked(self) -> Any:
        """State of the projecting sweep as it takes it."""
        from nearkin.kernels.inverse import resume_tracking

        return resume_tracking(self.numbers, self.nulls, self.inverse)

    def _learn_on_device(self, triplets: Triplets, rule: LearningRule) -> tuple[Array, int]:
        from nearkin.accelerator.matrix_sweep import FullSweep

        sweep = self._sweep or FullSweep(self.M, self.measure.is_distance, self._device)
        self._sweep = sweep
        return feed_device(sweep, triplets, rule)

    def forget_root(self) -> None:
        """Say that M has moved."""
        self._root = None

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
            advice = "Fit with psd='project', 'exact' or 'end'." if self.psd == "none" else "Lower `C`."
            raise InputError(
                f"the learned matrix has a negative eigenvalue ({values[0]:.3g}), so it is not a distance and has no "
                f"map. {advice}"
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

    @classmethod
    def merge(cls, shards: Sequence[Self], weights: Sequence[float]) -> Self:
        """Mean of the matrices."""
        from nearkin.kernels.inverse import track_mean

        merged = shards[0].copy()
        if all(np.array_equal(one.M, merged.M) for one in shards[1:]):
            return merged
        merged.M = weighted_mean([one.M for one in shards], weights)
        merged.forget_root()
        merged.numbers, merged.nulls, merged.inverse = track_mean([one.tracked for one in shards])
        return merged


def from_eigenpairs(vectors: Array, values: Array) -> Array:
    """Return the symmetric matrix with these eigenvectors (columns) and eigenvalues."""
    return (vectors * values) @ vectors.T
