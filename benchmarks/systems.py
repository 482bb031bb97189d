"""The systems that the paper compares with, each against its literal loop.

To add one: a learner with ``scale=None`` and a loop ``(start, anchors, positives, negatives) -> M`` in `SYSTEMS`. Where
classes matter they take turns. A similarity of a kernel starts with a full budget on both sides, and is its terms.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

import nearkin
from nearkin.learners import OnlineLearner
from nearkin.losses import as_loss
from nearkin.parameters import LearningRule
from nearkin.triplets import Triplets

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
    n_classes: int = 0
    halves: bool = False  # whether the features come in two modalities

    @property
    def budget(self) -> int:
        """Terms, of a similarity of a kernel."""
        return getattr(self.learner, "budget", 0)

    def data(self, d: int, n: int, dtype: str, pair: float) -> Triplets:
        """Random triplets."""
        made = draw(d, n, dtype, pair=pair)
        return replace(made, classes=np.arange(len(made)) % self.n_classes) if self.n_classes else made

    def begin(self, data: Triplets) -> tuple[Any, Any]:
        """The parameter before anything is timed, and the same for the literal loop."""
        d, dtype = data.rows.n_features, data.rows.dtype.name
        learner = clone(self.learner).set_params(modalities=[d // 2, d - d // 2]) if self.halves else self.learner
        parameter = begin(learner, d, dtype)
        if hasattr(parameter, "projections"):
            return parameter, (np.eye(d), *(parameter.projections[0] or (np.eye(d), np.eye(d))))
        if not self.budget:
            return parameter, np.eye(d, dtype=dtype)
        parameter.learn(part(data, 0, self.budget), LearningRule(C, as_loss("rescaled_hinge", ETA), 1))
        return parameter, parameter.terms_of(0)

    def shown(self, parameter: Any) -> np.ndarray:
        """What the literal loop returns."""
        return parameter.terms_of(0)[0] if self.budget else parameter.metric


SYSTEMS = {
    "OPML": System(
        nearkin.RobustOPML(C, exact=False, eta=ETA, scale=None), functools.partial(literal.opml, C=C, eta=ETA)
    ),
    "SLMOML": System(nearkin.RobustSLMOML(C, eta=ETA, scale=None), functools.partial(literal.slmoml, C=C, eta=ETA)),
    "ITML": System(
        nearkin.RobustITML(C, eta=ETA, bounds=BOUNDS, scale=None),
        functools.partial(literal.itml, C=C, eta=ETA, bounds=BOUNDS),
    ),
    "OMDML": System(
        nearkin.RobustOMDML(C, eta=ETA, scale=None), functools.partial(literal.omdml, C=C, eta=ETA), halves=True
    ),
    "LSMDML": System(
        nearkin.RobustLSMDML(C, eta=ETA, n_projections=50, scale=None),
        functools.partial(literal.lsmdml, C=C, eta=ETA),
    ),
    "LPA-ODML": System(
        nearkin.RobustLPAODML(C, eta=ETA, scale=None), functools.partial(literal.lpa, C=C, eta=ETA, n_classes=5), 5
    ),
    "OKS": System(
        nearkin.RobustOKS(C, eta=ETA, gamma=1.0, budget=500, scale=None),
        functools.partial(literal.oks, C=C, eta=ETA, gamma=1.0),
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
    data = system.data(d, 1 << 16, dtype, 0.5)
    start, slow_start = system.begin(data)

    def slow(k: int) -> np.ndarray:
        return system.literal(copy.deepcopy(slow_start), *vectors(part(data, 0, k)))

    n = enough(
        lambda k: start.copy().learn(part(data, 0, k), LearningRule(C, loss, 1)), settings.seconds, 256, len(data)
    )
    few = enough(slow, settings.seconds, 4, min(n, 4096))
    some = part(data, 0, n)
    tasks = [
        Task(f"{name} {hq}", n, lambda p, hq=hq: p.learn(some, LearningRule(C, loss, hq)), lambda k: placed(start, k))
        for hq in (1, 3)
    ]
    tasks.append(Task("literal", few, lambda _: slow(few)))
    times = interleave(tasks, settings.rounds)
    values = {
        "active": start.copy().learn(some, LearningRule(C, loss, 3))[1] / n,
        "triplets/s": times[f"{name} 3"].rate,
        "x literal": times[f"{name} 1"].rate / times["literal"].rate,
        "HQ 3:1": times[f"{name} 1"].rate / times[f"{name} 3"].rate,
    }
    return row(SECTION, f"{name} {dtype} d={d}", values, times)


def check_same(system: System) -> None:
    """Both sides must compute the same before they are compared."""
    data = system.data(16, 600, "float64", 1.0)
    fast, slow_start = system.begin(data)
    fast.learn(data, LearningRule(C, as_loss("rescaled_hinge", ETA), 1))
    slow = system.literal(slow_start, *vectors(data))
    if not np.allclose(system.shown(fast), slow, rtol=1e-10, atol=1e-10):
        raise AssertionError(f"{type(system.learner).__name__}: the kernel and the literal loop differ")
