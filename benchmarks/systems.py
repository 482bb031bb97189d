"""The systems that the paper compares with, each against its literal loop.

To add one: a learner with ``scale=None`` and a loop ``(start, anchors, positives, negatives) -> M`` in `SYSTEMS`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import nearkin
from nearkin.learners import OnlineLearner
from nearkin.losses import as_loss

from . import literal_systems as literal
from .settings import Settings
from .timing import Task, enough, interleave, row
from .triplet_data import begin, draw, part, placed, vectors

SECTION = "systems"
C, ETA = 1e-3, 1.0
BOUNDS = (0.3, 0.7)  # of rows at mean squared distance 0.5, so that nearly every pair moves
SIZES = (16, 100, 512)
QUICK_SIZES = (100,)


@dataclass(frozen=True)
class System:
    """A learner, and the loop that says literally what it does with the same numbers."""

    learner: OnlineLearner
    literal: Callable[..., np.ndarray]


SYSTEMS = {
    "OPML": System(nearkin.RobustOPML(C, eta=ETA, scale=None), functools.partial(literal.opml, C=C, eta=ETA)),
    "SLMOML": System(nearkin.RobustSLMOML(C, eta=ETA, scale=None), functools.partial(literal.slmoml, C=C, eta=ETA)),
    "ITML": System(
        nearkin.RobustITML(C, eta=ETA, bounds=BOUNDS, scale=None),
        functools.partial(literal.itml, C=C, eta=ETA, bounds=BOUNDS),
    ),
}


def run(settings: Settings) -> Iterator[dict]:
    for system in SYSTEMS.values():
        check_same(system)
    for dtype in ("float32",) if settings.quick else ("float32", "float64"):
        for d in QUICK_SIZES if settings.quick else SIZES:
            for name in SYSTEMS:
                yield measure(name, d, dtype, settings)


def measure(name: str, d: int, dtype: str, settings: Settings) -> dict:
    system = SYSTEMS[name]
    loss = as_loss("rescaled_hinge", ETA)
    data = draw(d, 1 << 16, dtype)
    start = begin(system.learner, d, dtype)

    def slow(k: int) -> np.ndarray:
        return system.literal(np.eye(d, dtype=dtype), *vectors(part(data, 0, k)))

    n = enough(lambda k: start.copy().learn(part(data, 0, k), C, loss, 1), settings.seconds, 256, len(data))
    few = enough(slow, settings.seconds, 4, min(n, 4096))
    some = part(data, 0, n)
    tasks = [
        Task(f"{name} {hq}", n, lambda p, hq=hq: p.learn(some, C, loss, hq), lambda k: placed(start, k))
        for hq in (1, 3)
    ]
    tasks.append(Task("literal", few, lambda _: slow(few)))
    times = interleave(tasks, settings.rounds)
    values = {
        "active": start.copy().learn(some, C, loss, 3)[1] / n,
        "triplets/s": times[f"{name} 3"].rate,
        "x literal": times[f"{name} 1"].rate / times["literal"].rate,
        "HQ 3:1": times[f"{name} 1"].rate / times[f"{name} 3"].rate,
    }
    return row(SECTION, f"{name} {dtype} d={d}", values, times)


def check_same(system: System) -> None:
    """Both sides must compute the same before they are compared."""
    data = draw(16, 300, "float64", pair=1.0)
    fast = begin(system.learner, 16, "float64")
    fast.learn(data, C, as_loss("rescaled_hinge", ETA), 1)
    if not np.allclose(fast.metric, system.literal(np.eye(16), *vectors(data)), rtol=1e-10, atol=1e-10):
        raise AssertionError(f"{type(system.learner).__name__}: the kernel and the literal loop differ")
