"""Interleaved rounds and their summary.

A round times every competitor of a row once, so that a slow moment of the machine hits all of them alike. Ratios are
taken within a round; a row reports their median and quartiles. The clock is the processor time of this process, which
another process on the same core does not stretch; wall time is kept beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Task:
    """A competitor: ``call(prepare(round))`` does ``work`` units, and only the call is timed."""

    name: str
    work: float
    call: Callable[[Any], Any]
    prepare: Callable[[int], Any] = lambda number: None


@dataclass
class Times:
    """Seconds of every round, of processor time and on the wall, each for ``work`` units."""

    work: float
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    @property
    def per_unit(self) -> np.ndarray:
        return np.asarray(self.cpu) / self.work

    @property
    def rate(self) -> np.ndarray:
        return self.work / np.asarray(self.cpu)


def clock(call: Callable[[], Any]) -> tuple[float, float]:
    """Processor and wall seconds of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return max(time.process_time() - cpu, 1e-9), time.perf_counter() - wall


def interleave(tasks: Iterable[Task], rounds: int) -> dict[str, Times]:
    """Time all tasks once per round, every other round in reverse."""
    tasks = list(tasks)
    times = {task.name: Times(task.work) for task in tasks}
    for number in range(rounds):
        for task in tasks if number % 2 == 0 else reversed(tasks):
            argument = task.prepare(number)
            cpu, wall = clock(lambda task=task, argument=argument: task.call(argument))
            times[task.name].cpu.append(cpu)
            times[task.name].wall.append(wall)
    return times


def enough(run: Callable[[int], Any], seconds: float, least: int, most: int) -> int:
    """How many units make a call of about ``seconds``; the first call, which may compile, does not count."""
    n = max(1, min(least, most))
    run(n)
    while True:
        took, _ = clock(lambda n=n: run(n))
        if n >= most or took >= 0.4 * seconds:
            return int(np.clip(n * seconds / took, least, most))
        n = int(min(most, max(2 * n, min(8 * n, 0.5 * n * seconds / took))))


def value(per_round: Any) -> dict[str, float]:
    """Median and quartiles of one number per round."""
    numbers = np.atleast_1d(np.asarray(per_round, dtype=float))
    low, median, high = np.percentile(numbers, [25, 50, 75])
    return {"median": float(median), "low": float(low), "high": float(high)}


def row(section: str, name: str, values: dict[str, Any], times: dict[str, Times] | None = None, note: str = "") -> dict:
    """One row of the results; ``values`` are numbers, one per round or one in all."""
    raw = {key: {"work": t.work, "cpu": t.cpu, "wall": t.wall} for key, t in (times or {}).items()}
    return {
        "section": section,
        "name": name,
        "values": {key: value(numbers) for key, numbers in values.items()},
        "note": note,
        "rounds": raw,
    }


def skipped(section: str, name: str, why: str) -> dict:
    """A row that could not be measured, with the reason."""
    return row(section, name, {}, note=f"skipped: {why}")
