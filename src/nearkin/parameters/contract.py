"""The contract of all parameters, and how triplets reach their compiled sweeps, on the processor or on a device."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from nearkin.arrays import SMALLEST, Array, Codes
from nearkin.errors import InputError
from nearkin.kernels import StepRule, TripletRows
from nearkin.losses import Loss
from nearkin.measures import Measure
from nearkin.memory import check_memory
from nearkin.triplets import Triplets

__all__ = [
    "LearningRule", "MappedParameter", "Parameter", "Resident", "check_metric_fits", "feed", "feed_device",
    "steps_at_once", "weighted_mean",
]  # fmt: skip

#: Learns some triplets, writes how plausible each is, and returns how many moved the parameter.
Sweep = Callable[[TripletRows, StepRule, Array], int]


@dataclass(frozen=True)
class LearningRule:
    """How far one triplet may move a parameter: aggressiveness, loss and half-quadratic iterations.

    ``carried`` is that of `nearkin.kernels.StepRule`.
    """

    C: float
    loss: Loss
    max_hq_iter: int
    carried: float = 0.0


class Parameter(ABC):
    """What a learner learns; all rows it meets are scaled already."""

    measure: Measure

    #: Whether learning needs the classes of anchors.
    by_class: ClassVar[bool] = False

    #: Whether one space holds all rows, so that neighbours can be searched there.
    has_one_space: ClassVar[bool] = True

    #: Type of the rows' numbers, in which what is learned is shown, where it is kept.
    dtype: str | None = None

    #: Whether shards have a mean, see `merge`.
    has_mean: ClassVar[bool] = False

    #: Attributes that learning changes, which `copy` copies: arrays, parameters, or lists of them.
    moving: ClassVar[tuple[str, ...]] = ()

    #: Those that must stay so small that their power of one over this number is finite; see `find_overflow`.
    bounded: ClassVar[dict[str, float]] = {}

    @abstractmethod
    def learn(self, triplets: Triplets, rule: LearningRule) -> tuple[Array, int]:
        """Learn from triplets in order; return their plausibilities and the number of updates."""

    @abstractmethod
    def margins(self, triplets: Triplets) -> Array:
        """Return ``z`` of every triplet."""

    @abstractmethod
    def scores(self, left: Array, right: Array) -> Array:
        """Score all pairs of rows; larger is closer."""

    def item_scores(self, queries: Array, items: Array, codes: Codes) -> Array:
        """Score all pairs of queries with items of known classes."""
        return self.scores(queries, items)

    def anchor_scores(self, anchors: Array, codes: Codes, others: Array) -> Array:
        """Score all pairs of anchors of known classes with other rows, for a triplet source."""
        return self.scores(anchors, others)

    def find_overflow(self) -> np.dtype | None:
        """Return the type of the first array of `bounded` that grew too large, None while all is well."""
        for name, power in self.bounded.items():
            value = getattr(self, name)
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, Parameter):
                    if (found := one.find_overflow()) is not None:
                        return found
                elif not np.abs(one).max(initial=0.0) <= float(np.finfo(self.dtype or one.dtype).max) ** power:
                    return one.dtype
        return None

    def on(self, device: Any) -> None:
        """Learn on this device from now on; None is the processor."""
        if device is not None:
            raise InputError(f"what is learned here ({type(self).__name__}) lives on the processor only.")

    def copy(self) -> Self:
        """Return a parameter that learns on its own."""
        other = copy.copy(self)
        for name in self.moving:
            value = getattr(self, name)
            setattr(other, name, [one.copy() for one in value] if isinstance(value, list) else value.copy())
        return other

    @classmethod
    def merge(cls, shards: Sequence[Self], weights: Sequence[float]) -> Self:
        """Return the mean of what shards of the rows have learned, weighted by their triplets."""
        cls.check_mergeable()
        raise NotImplementedError(f"{cls.__name__} says that it has a mean, and must implement merge().")

    @classmethod
    def check_mergeable(cls) -> None:
        """Refuse a kind of parameter that has no mean."""
        if not cls.has_mean:
            raise InputError(
                f"learning in shards needs a mean, and what is learned here ({cls.__name__}) has none. Learn it in one "
                "process, or use a learner of one matrix or map, such as RobustLODML."
            )


def check_metric_fits(d: int, dtype: np.dtype) -> None:
    """Refuse to show a matrix of d x d that memory cannot hold."""
    advice = "Use components_, which makes it, or transform."
    check_memory(float(d) ** 2 * dtype.itemsize, f"a matrix of {d:,} features", advice, None)


class MappedParameter(Parameter):
    """A parameter with a map to a space where the measure is Euclidean distance or inner product."""

    #: Whether the map is a matrix.
    has_matrix: ClassVar[bool] = True

    @property
    @abstractmethod
    def components(self) -> Array:
        """The map, of shape (r, d)."""

    @property
    def metric(self) -> Array:
        """M, of shape (d, d)."""
        L = self.components
        check_metric_fits(L.shape[1], L.dtype)
        return L.T @ L

    @property
    def query_map(self) -> Array:
        """Left side of the score, of shape (r, d)."""
        return self.components

    @property
    def item_map(self) -> Array:
        """Right side of the score, of shape (r, d)."""
        return self.components

    def embed(self, X: Array) -> Array:
        """Map rows by `components`."""
        return X @ self.components.T

    def margins(self, triplets: Triplets) -> Array:
        """Return the margins of the mapped rows, each mapped once."""
        places = [one for one in (triplets.rows, triplets.pool, triplets.others) if one is not None]
        mapped = (np.concatenate([self.embed(block) for _, block in one.blocks()]) for one in places)
        return triplets.of(*mapped).margins(self.measure)

    def scores(self, left: Array, right: Array) -> Array:
        """Score all pairs by the plain measure between mapped rows."""
        return self.measure.scores(self.embed(left), self.embed(right))


def weighted_mean(arrays: Sequence[Array], weights: Sequence[float]) -> Array:
    """Return the weighted mean, taken in double precision step by step, so that equal arrays are their own mean.

    Examples
    --------
    >>> weighted_mean([np.array([1.0]), np.array([4.0])], [2.0, 1.0])
    array([2.])
    """
    mean = np.array(arrays[0], dtype=np.float64)
    total = weights[0]
    for array, weight in zip(arrays[1:], weights[1:], strict=True):
        total += weight
        mean += (weight / total) * (array - mean)
    return mean.astype(arrays[0].dtype)


def feed(triplets: Triplets, rule: LearningRule, sweep: Sweep, most: int | None = None) -> tuple[Array, int]:
    """Feed the pieces of a set of triplets to ``sweep(rows, rule, plausibility)``, at most ``most`` at a time.

    Compiled code cannot be interrupted, so slow steps are taken in small numbers.
    """
    plausibility = np.ones(len(triplets))
    caps = np.full(len(triplets), float(rule.C))
    limits = rule.loss.params, rule.max_hq_iter, rule.carried
    updates = 0
    for part, rows in triplets.vectors():
        size = part.stop - part.start
        for start in range(0, size, most or max(1, size)):
            stop = min(start + (most or size), size)
            at = slice(part.start + start, part.start + stop)
            some = TripletRows(*rows[:3], *(one[start:stop] for one in rows[3:]))
            updates += sweep(some, StepRule(caps[at], *limits), plausibility[at])
    return plausibility, updates


def steps_at_once(n_features: int) -> int:
    """Return how many steps on the cone take about a second."""
    return max(32, 100_000_000 // n_features**2)


class Resident:
    """An array that lives on a device between sweeps; reading it copies it back."""

    def __init__(self, name: str):
        self.name = name

    def __set_name__(self, owner: Any, name: str) -> None:
        owner._device = owner._sweep = None

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


def feed_device(sweep: Any, triplets: Triplets, rule: LearningRule) -> tuple[Array, int]:
    """Feed the pieces of a set of triplets to a sweep on a device."""
    parts = [
        sweep.learn(vectors, rule.C, rule.loss.params, rule.max_hq_iter)
        for _, vectors in triplets.vectors()
        if len(vectors.anchor)
    ]
    shares = np.concatenate([one for one, _ in parts]) if parts else np.empty(0)
    return np.clip(shares, SMALLEST, 1.0), sum(updates for _, updates in parts)
