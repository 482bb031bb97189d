"""Triplets handed to compiled sweeps, on the processor or on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nearkin.arrays import SMALLEST, Array
from nearkin.kernels import StepRule, TripletRows
from nearkin.parameters.contract import LearningRule
from nearkin.triplets import Triplets

__all__ = ["Resident", "feed", "feed_device", "steps_at_once"]


def feed(
    triplets: Triplets, rule: LearningRule, sweep: Callable[..., int], most: int | None = None
) -> tuple[Array, int]:
    """Feed the pieces of a set of triplets to ``sweep(rows, rule, plausibility)``, at most ``most`` at a time.

    Compiled code cannot be interrupted, so slow steps are taken in small numbers.
    """
    plausibility = np.ones(len(triplets))
    caps = np.full(len(triplets), float(rule.C))
    updates = 0
    for part, rows in triplets.vectors():
        size = part.stop - part.start
        for start in range(0, size, most or max(1, size)):
            stop = min(start + (most or size), size)
            at = slice(part.start + start, part.start + stop)
            some = TripletRows(*rows[:3], *(one[start:stop] for one in rows[3:]))
            updates += sweep(some, StepRule(caps[at], rule.loss.params, rule.max_hq_iter), plausibility[at])
    return plausibility, updates


def steps_at_once(n_features: int) -> int:
    """Return how many steps on the cone take about a second."""
    return max(32, 100_000_000 // n_features**2)


class Resident:
    """An array that lives on a device between sweeps; reading it copies it back."""

    def __set_name__(self, owner: Any, name: str) -> None:
        self.name = name
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
