"""The cone M >= 0: ODML that projects after each step, against an eigendecomposition after each step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import nearkin
from nearkin.losses import as_loss
from nearkin.parameters import LearningRule

from .literal import Projected
from .settings import Settings
from .timing import Task, enough, interleave, row
from .triplet_data import begin, draw, part, placed, vectors

SECTION = "cone"
SIZES = (34, 100, 200, 512)
QUICK_SIZES = (34, 100)

#: Mean squared pair distance and C. With short vectors, a step that removes the hinge is long and goes far outside the
#: cone.
CASES = {"leaving": (2.0, 1.0), "far": (0.5, 10.0), "staying": (1.0, 1e-3)}


def run(settings: Settings) -> Iterator[dict]:
    for case in CASES:
        for d in QUICK_SIZES if settings.quick else SIZES:
            yield measure(case, d, settings)


def measure(case: str, d: int, settings: Settings) -> dict:
    pair, C = CASES[case]
    hinge = as_loss("hinge", 0.0)
    data = draw(d, 40_000 if d < 200 else 16_000, "float64", pair=pair)
    first = begin(nearkin.ODML(C=C, psd="project", scale=None), d, "float64")
    n = enough(
        lambda k: first.copy().learn(part(data, 0, k), LearningRule(C, hinge, 1)), settings.seconds, 8, len(data) // 2
    )

    # Both are timed after n steps, away from the start, on the triplets that follow.
    first.learn(part(data, 0, n), LearningRule(C, hinge, 1))
    after = part(data, n, 2 * n)
    loop = Projected(first.metric, C=C)
    # Few steps of the loop per round, but it continues from round to round, so it takes many in all.
    few_n = enough(
        lambda k: Projected(first.metric, C=C).learn(*vectors(part(after, 0, k))), settings.seconds, 4, min(400, n)
    )
    few_n = max(1, min(few_n, n // settings.rounds))
    stretches = iter([vectors(part(after, k * few_n, (k + 1) * few_n)) for k in range(settings.rounds)])
    tasks = [
        Task("project", n, lambda p: p.learn(after, LearningRule(C, hinge, 1)), lambda k: placed(first, k)),
        Task("eigh", few_n, lambda few: loop.learn(*few), lambda _: next(stretches)),
    ]
    times = interleave(tasks, settings.rounds)
    values = {
        "moved": loop.n_moved / loop.n_steps,
        "left the cone": loop.n_left / max(1, loop.n_moved),
        "us/step": 1e6 * times["project"].per_unit,
        "us/step eigh": 1e6 * times["eigh"].per_unit,
        "x eigh": times["eigh"].per_unit / times["project"].per_unit,
    }
    note = f"{n} steps, loop {loop.n_steps}" + ("" if np.isfinite(loop.M).all() else ", not finite")
    return row(SECTION, f"{case} d={d}", values, times, note)
