"""Measure many cells: those that are missing, several at once, each kept as soon as it is done."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nearkin.datasets import Dataset
from nearkin.paper.cells import Cell, measure
from nearkin.paper.log import Log

__all__ = ["Advance", "run"]

Measure = Callable[[Cell, Dataset], Any]


@dataclass(frozen=True)
class Advance:
    """One more cell is done.

    Parameters
    ----------
    outcome : Outcome or what else was measured
        What it came to.
    done, total : int
        Cells of this run.
    seconds_left : float
        Guess, by what cells cost that are done and how large the data of the others is.
    """

    outcome: Any
    done: int
    total: int
    seconds_left: float


def run(
    cells: list[Cell],
    data: Mapping[str, Dataset],
    log: Log,
    *,
    n_jobs: int = 1,
    by: Measure | None = None,
    tell: Callable[[Advance], None] = lambda advance: None,
) -> list[Any]:
    """Outcomes of all cells in their order; only what the log does not hold is measured.

    Parameters
    ----------
    cells : list of Cell
        What is wanted.
    data : mapping of str to Dataset
        By name.
    log : Log
        Where outcomes are kept; the log is written by this process alone.
    n_jobs : int
        Cells measured at once, each in a process of its own.
    by : callable or None
        ``by(cell, data)`` gives the outcome of a cell; None is `measure`.
    tell : callable
        Told about every cell that is done.
    """
    missing = log.missing(cells)
    left = sum(_cost(cell, data) for cell in missing)
    begun, spent = time.perf_counter(), 0.0
    for done, outcome in enumerate(_measured(missing, data, n_jobs, by or measure), 1):
        log.append(outcome)
        cost = _cost(outcome.cell, data)
        spent, left = spent + cost, max(0.0, left - cost)
        tell(Advance(outcome, done, len(missing), (time.perf_counter() - begun) * left / spent))
    known = log.read()
    return [known[cell.key] for cell in cells]


def _measured(cells: list[Cell], data: Mapping[str, Dataset], n_jobs: int, by: Measure) -> Iterable[Any]:
    if n_jobs == 1 or len(cells) < 2:
        return (by(cell, data[cell.dataset]) for cell in cells)
    from sklearn.utils.parallel import Parallel, delayed

    jobs = (delayed(by)(cell, data[cell.dataset]) for cell in cells)
    found: Iterable[Any] = Parallel(n_jobs=n_jobs, batch_size=1, return_as="generator_unordered")(jobs)
    return found


def _cost(cell: Cell, data: Mapping[str, Dataset]) -> float:
    """Rough size of the work, in any unit; it was found to grow with the rows and the root of the features."""
    n_rows, n_features = data[cell.dataset].X.shape
    return n_rows * math.sqrt(n_features) * cell.n_draws * max(1, cell.budget)
