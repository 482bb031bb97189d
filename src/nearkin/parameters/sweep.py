"""Triplets handed to compiled sweeps, on the processor or on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nearkin.arrays import SMALLEST, Array
from nearkin.kernels import StepRule, TripletRows
from nearkin.losses import Loss
from nearkin.triplets import Triplets

__all__ = ["Kept", "feed", "feed_device", "steps_at_once"]


def feed(
    triplets: Triplets, C: float, loss: Loss, max_hq_iter: int, sweep: Callable[..., int], most: int | None = None
) -> tuple[Array, int]:
    """Feed the pieces of a set of triplets to ``sweep(rows, rule, plausibility)``, at most ``most`` at a time.

    Compiled code cannot be interrupted, so slow steps are taken in small numbers.
    """
    plausibility = np.ones(len(triplets))
    caps = np.full(len(triplets), float(C))
    updates = 0
    for part, rows in triplets.vectors():
        size = part.stop - part.start
        for start in range(0, size, most or max(1, size)):
            stop = min(start + (most or size), size)
            at = slice(part.start + start, part.start + stop)
            some = TripletRows(*rows[:3], *(one[start:stop] for one in rows[3:]))
            updates += sweep(some, StepRule(caps[at], loss.params, max_hq_iter), plausibility[at])
    return plausibility, updates


def steps_at_once(n_features: int) -> int:
    """Steps on the cone that take no more than about a second."""
    return max(32, 100_000_000 // n_features**2)


class Kept:
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


def feed_device(sweep: Any, triplets: Triplets, C: float, loss: Loss, max_hq_iter: int) -> tuple[Array, int]:
    """Feed the pieces of a set of triplets to a sweep on a device."""
    parts = [
        sweep.learn(vectors, C, loss.params, max_hq_iter) for _, vectors in triplets.vectors() if len(vectors.anchor)
    ]
    shares = np.concatenate([one for one, _ in parts]) if parts else np.empty(0)
    return np.clip(shares, SMALLEST, 1.0), sum(updates for _, updates in parts)
