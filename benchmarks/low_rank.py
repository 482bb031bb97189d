"""Low rank: RobustLODML."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import nearkin
from nearkin.losses import as_loss
from nearkin.parameters import LearningRule

from . import literal
from .machine import gemm
from .settings import Settings
from .timing import Task, enough, interleave, row
from .triplet_data import begin, draw, part, placed, vectors

SECTION = "lowrank"
C, ETA = 1e-3, 1.0
SIZES = ((16, 10), (64, 10), (64, 32), (512, 10), (512, 64), (1024, 64), (2048, 64))
QUICK_SIZES = ((64, 10), (512, 10), (512, 64), (1024, 64))


def learner(d: int, r: int, solver: str = "exact"):
    """Starts at r orthonormal directions that mix all features."""
    directions, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((d, r)))
    return nearkin.RobustLODML(r, C=C, eta=ETA, init=directions.T, solver=solver, scale=None)


def run(settings: Settings) -> Iterator[dict]:
    check_same()
    for dtype in ("float32",) if settings.quick else ("float32", "float64"):
        for d, r in QUICK_SIZES if settings.quick else SIZES:
            yield measure(d, r, dtype, settings)


def measure(d: int, r: int, dtype: str, settings: Settings) -> dict:
    loss = as_loss("rescaled_hinge", ETA)
    data = draw(d, 1 << 20, dtype)
    exact = begin(learner(d, r), d, dtype)
    subgradient = begin(learner(d, r, "subgradient"), d, dtype)
    L0 = np.ascontiguousarray(exact.components.T)

    n = enough(
        lambda k: exact.copy().learn(part(data, 0, k), LearningRule(C, loss, 3)),
        settings.seconds,
        min(len(data), 1024),
        len(data),
    )
    subgradient.copy().learn(part(data, 0, 64), LearningRule(C, loss, 1))
    some = part(data, 0, n)

    def plain(few):
        return literal.low_rank(L0, *few, C=C, eta=ETA, max_hq_iter=1)

    few_n = enough(lambda k: plain(vectors(part(data, 0, k))), settings.seconds, 8, min(n, 4096))
    few = vectors(part(data, 0, few_n))
    public = vectors(some)
    tasks = [
        gemm(dtype),
        Task("exact 3", n, lambda p: p.learn(some, LearningRule(C, loss, 3)), lambda k: placed(exact, k)),
        Task("exact 1", n, lambda p: p.learn(some, LearningRule(C, loss, 1)), lambda k: placed(exact, k)),
        Task("subgradient 1", n, lambda p: p.learn(some, LearningRule(C, loss, 1)), lambda k: placed(subgradient, k)),
        Task("literal", few_n, lambda _: plain(few)),
        Task("fit_triplets", n, lambda model: model.fit_triplets(*public), lambda _: learner(d, r)),
    ]
    times = interleave(tasks, settings.rounds)
    rate = {key: t.rate for key, t in times.items()}
    values = {
        "active": exact.copy().learn(some, LearningRule(C, loss, 3))[1] / n,
        "triplets/s": rate["exact 3"],
        "of limit": 8.0 * d * r * rate["exact 3"] / rate["gemm"],
        "x literal": rate["exact 1"] / rate["literal"],
        "subgradient x literal": rate["subgradient 1"] / rate["literal"],
        "HQ 3:1": rate["exact 1"] / rate["exact 3"],
        "fit_triplets / kernel": rate["fit_triplets"] / rate["exact 3"],
    }
    return row(SECTION, f"{dtype} d={d} r={r}", values, times)


def check_same() -> None:
    """The sub-gradient kernel must agree with the literal loop."""
    data = draw(16, 200, "float64", pair=1.0)
    fast = begin(learner(16, 10, "subgradient"), 16, "float64")
    slow = np.ascontiguousarray(fast.components.T)
    for hq in (1, 3):
        fast = begin(learner(16, 10, "subgradient"), 16, "float64")
        fast.learn(data, LearningRule(0.01, as_loss("rescaled_hinge", ETA), hq))
        loop = literal.low_rank(slow, *vectors(data), C=0.01, eta=ETA, max_hq_iter=hq)
        if not np.allclose(fast.components.T, loop, rtol=1e-9, atol=1e-9):
            raise AssertionError("low rank: the kernel and the literal loop differ")
