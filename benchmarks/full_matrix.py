"""Full matrix M: RobustOASIS (similarity) and RobustODML without a cone (distance)."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

import nearkin
from nearkin.losses import as_loss
from nearkin.parameters import LearningRule

from . import literal
from .machine import gemm, stream
from .settings import Settings
from .timing import Task, enough, interleave, row
from .triplet_data import begin, draw, part, placed, vectors

SECTION = "full"
C, ETA = 1e-3, 1.0
SIZES = (16, 64, 100, 512, 1024, 2048)
QUICK_SIZES = (16, 100, 512)

#: Beyond this size M exceeds a core's own cache, and a loop that walks it for every triplet waits for memory.
STREAMS_FROM = 512

LEARNERS = {
    "similarity": nearkin.RobustOASIS(C=C, eta=ETA, scale=None),
    "distance": nearkin.RobustODML(C=C, eta=ETA, psd="none", scale=None),
}


def run(settings: Settings) -> Iterator[dict]:
    check_same()
    for dtype in ("float32",) if settings.quick else ("float32", "float64"):
        for d in QUICK_SIZES if settings.quick else SIZES:
            yield measure(d, dtype, settings)


def measure(d: int, dtype: str, settings: Settings) -> dict:
    loss = as_loss("rescaled_hinge", ETA)
    data = draw(d, 1 << 20, dtype)
    start = {name: begin(learner, d, dtype) for name, learner in LEARNERS.items()}

    def learn(name: str, n: int, hq: int):
        return start[name].copy().learn(part(data, 0, n), LearningRule(C, loss, hq))

    least = min(len(data), 1024 if d >= 512 else 4096)
    n = enough(lambda k: learn("similarity", k, 3), settings.seconds, least, len(data))
    learn("distance", least, 3)
    some = part(data, 0, n)
    few_n = enough(lambda k: _literal("similarity", _few(data, k), d, dtype, 1), settings.seconds, 4, min(n, 4096))
    few = _few(data, few_n)
    public = vectors(some)

    tasks = [gemm(dtype)]
    if d >= STREAMS_FROM:
        tasks.append(stream())
    for name in LEARNERS:
        for hq in (3, 1):
            learning = functools.partial(_learn, triplets=some, loss=loss, hq=hq)
            tasks.append(Task(f"{name} {hq}", n, learning, functools.partial(placed, start[name])))
        tasks.append(Task(f"{name} literal", few_n, lambda _, name=name: _literal(name, few, d, dtype, 1)))
    tasks.append(Task("fit_triplets", n, lambda _: nearkin.RobustOASIS(C=C, eta=ETA, scale=None).fit_triplets(*public)))
    times = interleave(tasks, settings.rounds)

    rate = {key: t.rate for key, t in times.items()}
    values = {"active": learn("similarity", n, 3)[1] / n}
    for name in LEARNERS:
        values |= {
            f"{name} triplets/s": rate[f"{name} 3"],
            f"{name} of limit": 4.0 * d * d * rate[f"{name} 3"] / rate["gemm"],
            f"{name} x literal": rate[f"{name} 1"] / rate[f"{name} literal"],
            f"{name} HQ 3:1": rate[f"{name} 1"] / rate[f"{name} 3"],
        }
    if d >= STREAMS_FROM:
        traffic = 3.0 * d * d * np.dtype(dtype).itemsize * rate["similarity 3"]
        values["loop traffic of stream"] = traffic / rate["stream"]
    values["distance / similarity"] = rate["distance 3"] / rate["similarity 3"]
    values["fit_triplets / kernel"] = rate["fit_triplets"] / rate["similarity 3"]
    return row(SECTION, f"{dtype} d={d}", values, times)


def _learn(parameter, triplets, loss, hq: int):
    return parameter.learn(triplets, LearningRule(C, loss, hq))


def _few(data, n: int):
    return vectors(part(data, 0, n))


def _literal(name: str, few, d: int, dtype: str, hq: int):
    M = np.eye(d, dtype=dtype)
    return literal.full_matrix(M, *few, is_distance=name == "distance", C=C, eta=ETA, max_hq_iter=hq)


def check_same() -> None:
    """Both sides must agree before they are timed."""
    data = draw(16, 300, "float64", pair=1.0)
    for name, learner in LEARNERS.items():
        for hq in (1, 3):
            fast = begin(learner, 16, "float64")
            fast.learn(data, LearningRule(0.1, as_loss("rescaled_hinge", ETA), hq))
            slow = literal.full_matrix(
                np.eye(16), *vectors(data), is_distance=name == "distance", C=0.1, eta=ETA, max_hq_iter=hq
            )
            if not np.allclose(fast.M, slow, rtol=1e-10, atol=1e-10):
                raise AssertionError(f"full matrix, {name}: the kernel and the literal loop differ")
