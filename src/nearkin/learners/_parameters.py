"""What a learner learns: a full matrix M, a factor L, or nothing.

A parameter knows how to learn from triplets (by handing arrays to a kernel), to score pairs, and to show itself as
a metric or a map.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from nearkin.kernels.machine.announce import announcing_compilation
from nearkin.losses import Loss, exponential_weight
from nearkin.measures import Measure
from nearkin.triplets import Triplets
from nearkin.triplets._triplets import Vectors

__all__ = ["FullMatrix", "Identity", "LowRank", "Parameter"]

Array = NDArray[np.floating]

#: From this many features on, a full matrix is learned in blocks, if there are triplets enough: for fewer, to put the
#: matrix in order would take longer than to learn.
_IN_BLOCKS = 16
_ENOUGH = 12

_SMALLEST = float(np.finfo(np.float64).tiny)

#: Most directions in which the projecting sweep expects M to be singular at a time.
_NULLS = 32


class Parameter(Protocol):
    """Shape shared by all parameters."""

    measure: Measure

    def learn(self, triplets: Triplets, C: float, loss: Loss, max_hq_iter: int) -> tuple[Array, int]:
        """Learn from triplets in order; returns their plausibilities and the number of updates."""

    def margins(self, triplets: Triplets) -> Array:
        """``z`` of every triplet."""

    def scores(self, left: Array, right: Array) -> Array:
        """All pairs of scaled rows, larger is closer."""

    def copy(self) -> Parameter:
        """A parameter that learns on its own."""

    def embed(self, X: Array) -> Array:
        """Scaled rows mapped by `components`."""

    @property
    def metric(self) -> Array:
        """M, of shape (d, d)."""

    @property
    def components(self) -> Array:
        """Map to a space where the measure is Euclidean distance or inner product, of shape (r, d)."""

    @property
    def query_map(self) -> Array:
        """Left side of the score, of shape (r, d)."""

    @property
    def item_map(self) -> Array:
        """Right side of the score, of shape (r, d)."""


class _Sweep(NamedTuple):
    """A kernel from the disk cache for the built-in losses, and the loop with its step to compile for others."""

    cached: Callable[..., int]
    loop: Callable[..., int]
    step: tuple[Any, ...]

    def run(self, loss: Loss, *arguments: Any) -> int:
        """Run with the loss's weight; returns the number of updates."""
        if loss.weight_of_hinge is exponential_weight:
            with announcing_compilation(self.cached):
                return self.cached(*arguments)
        return self.loop(*arguments, _compiled(loss.weight_of_hinge), *self.step)


_own_weights: dict[Callable[..., float], Any] = {}


def _compiled(weight: Callable[..., float]) -> Any:
    from nearkin.kernels.machine import compile as _compile

    if weight not in _own_weights:
        _own_weights[weight] = _compile.step(weight)
    return _own_weights[weight]


def _learn(triplets: Triplets, C: float, sweep: Callable[..., int], most: int | None = None) -> tuple[Array, int]:
    """Feed the pieces of a set of triplets to ``sweep(vectors, C, plausibility)``, at most ``most`` triplets at a time.

    Compiled code cannot be interrupted, so that slow steps are taken in small numbers.
    """
    plausibility = np.ones(len(triplets))
    caps = np.full(len(triplets), float(C))
    updates = 0
    for part, vectors in triplets.vectors():
        size = part.stop - part.start
        for start in range(0, size, most or max(1, size)):
            stop = min(start + (most or size), size)
            members = (one[start:stop] for one in (vectors.anchor, vectors.positive, vectors.negative))
            at = slice(part.start + start, part.start + stop)
            updates += sweep(Vectors(*vectors[:3], *members), caps[at], plausibility[at])
    return plausibility, updates


def steps_at_once(n_features: int) -> int:
    """Steps on the cone that take no more than about a second."""
    return max(32, 100_000_000 // n_features**2)


class _Kept:
    """An array that a sweep on a device may be ahead of: who reads it here first brings the numbers home."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, one: Any, owner: type | None = None) -> Any:
        if one is None:
            return self
        if one._sweep is not None:
            vars(one)[self.name] = one._sweep.result
            one._sweep = None
        return vars(one)[self.name]

    def __set__(self, one: Any, values: Array) -> None:
        one._sweep = None
        vars(one)[self.name] = values


def _learn_on(sweep: Any, triplets: Triplets, C: float, loss: Loss, max_hq_iter: int) -> tuple[Array, int]:
    """Feed the pieces of a set of triplets to a sweep on a device."""
    parts = [
        sweep.learn(vectors, C, loss.params, max_hq_iter) for _, vectors in triplets.vectors() if len(vectors.anchor)
    ]
    shares = np.concatenate([one for one, _ in parts]) if parts else np.empty(0)
    return np.clip(shares, _SMALLEST, 1.0), sum(updates for _, updates in parts)


class FullMatrix:
    """M of shape (d, d), begun at the identity (Algorithms 1 and 2)."""

    # Components of this M, made when somebody asks, and a sweep that goes on; not saved.
    _transient = ("_root", "_sweep")
    _root: Array | None = None
    _sweep: Any = None
    M = _Kept()

    def __init__(self, n_features: int, dtype: np.dtype, measure: Measure, psd: str = "none"):
        self.measure = measure
        self.psd = psd
        self.dtype = np.dtype(dtype).name
        # On the cone, eigenvalues next to zero need the digits whatever the rows' type is.
        self.M = np.eye(n_features, dtype=np.float64 if psd in ("project", "exact") else dtype)
        # Kept by the projecting sweep (nearkin.kernels.inverse): numbers, of which the first is a lower bound of M's
        # smallest eigenvalue and the third says that there is no inverse yet; directions in which M is singular or
        # nearly so and their products with the inverse; the inverse.
        tracked = n_features if psd == "project" else 0
        self.numbers = np.array([1.0, 0.0, 1e9, 1.0, 1.0])
        self.nulls = np.zeros((2, min(tracked, _NULLS), n_features))
        self.inverse = np.zeros((tracked, tracked))

    def learn(self, triplets: Triplets, C: float, loss: Loss, max_hq_iter: int) -> tuple[Array, int]:
        """One sweep; ``psd`` chooses what a step does."""
        from nearkin.kernels import blocks, cone, full

        kernels = {
            "project": _Sweep(cone.sweep_project, cone.sweep_with, (cone.project_step,)),
            "exact": _Sweep(cone.sweep_exact, cone.sweep_with, (cone.exact_step,)),
        }
        free = (
            _Sweep(blocks.sweep, blocks.sweep_with, ())
            if len(self.M) >= _IN_BLOCKS and len(triplets) >= _ENOUGH
            else _Sweep(full.sweep, full.sweep_with, ())
        )
        kernel = kernels.get(self.psd, free)

        def sweep(v: Any, caps: Array, plausibility: Array) -> int:
            return kernel.run(
                loss,
                self.M, *v, self.measure.is_distance, caps, loss.params, max_hq_iter,
                (self.numbers, self.nulls, self.inverse), plausibility,
            )  # fmt: skip

        self._root = None
        return _learn(triplets, C, sweep, steps_at_once(len(self.M)) if self.psd in ("project", "exact") else None)

    def learn_on(self, device: Any, triplets: Triplets, C: float, loss: Loss, max_hq_iter: int) -> tuple[Array, int]:
        """`learn` on a device, where M stays until somebody asks for it; not for steps that are projected."""
        from nearkin.accelerator.full import FullSweep

        sweep = self._sweep or FullSweep(self.M, self.measure.is_distance, device)
        self._root, self._sweep = None, sweep
        return _learn_on(sweep, triplets, C, loss, max_hq_iter)

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
        return self.M if values[0] >= 0 else _outer(vectors, np.maximum(values, 0))

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


class LowRank:
    """L' of shape (r, d), so that ``M = L L'`` (Algorithms 3 and 4)."""

    _transient = ("_sweep",)
    _sweep: Any = None
    L = _Kept()

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

        kernel = {
            "exact": _Sweep(lowrank.sweep, lowrank.sweep_with, (lowrank.exact_solve,)),
            "published": _Sweep(lowrank.sweep_published, lowrank.sweep_with, (lowrank.published_solve,)),
            "subgradient": _Sweep(lowrank.sweep_subgradient, lowrank.sweep_with, (lowrank.subgradient_solve,)),
        }[self.solver]

        def sweep(v: Any, caps: Array, plausibility: Array) -> int:
            return kernel.run(
                loss,
                self.L, *v, self.measure.is_distance, caps, loss.params, max_hq_iter, self.step_size, self.n_steps,
                plausibility,
            )  # fmt: skip

        return _learn(triplets, C, sweep)

    def learn_on(self, device: Any, triplets: Triplets, C: float, loss: Loss, max_hq_iter: int) -> tuple[Array, int]:
        """`learn` with exact steps on a device, where L stays until somebody asks for it."""
        from nearkin.accelerator.lowrank import FactorSweep

        sweep = self._sweep or FactorSweep(self.L, self.measure.is_distance, device)
        self._sweep = sweep
        return _learn_on(sweep, triplets, C, loss, max_hq_iter)

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


class Identity:
    """The metric that is never moved: the Euclidean distance."""

    def __init__(self, n_features: int, dtype: np.dtype, measure: Measure):
        self.measure = measure
        self.n_features = n_features
        self.dtype = np.dtype(dtype).name

    def learn(self, triplets: Triplets, C: float, loss: Loss, max_hq_iter: int) -> tuple[Array, int]:
        """Only look: plausibilities, no update."""
        return loss.plausibility(self.margins(triplets)), 0

    def margins(self, triplets: Triplets) -> Array:
        """``g' h``."""
        return triplets.margins(self.measure)

    def scores(self, left: Array, right: Array) -> Array:
        """The plain measure."""
        return self.measure.scores(left, right)

    def embed(self, X: Array) -> Array:
        """The rows themselves."""
        return X

    def copy(self) -> Identity:
        """Nothing to copy."""
        return self

    @property
    def metric(self) -> Array:
        """The identity matrix."""
        return np.eye(self.n_features, dtype=self.dtype)

    components = query_map = item_map = metric


def _outer(vectors: Array, values: Array) -> Array:
    return (vectors * values) @ vectors.T
