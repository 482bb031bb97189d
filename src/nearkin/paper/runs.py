"""Measure many cells, several at once; a log keeps each as soon as it is done, so that a killed run can go on."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from nearkin.datasets import Dataset
from nearkin.files import replacing
from nearkin.paper.cells import Cell, Measurement, Outcome, measure

__all__ = ["Log", "run_cells"]

Measure = Callable[[Cell, Dataset], Any]


class Log:
    """File of measurements as JSON lines.

    Parameters
    ----------
    path : Path
        The file; the first measurement creates it.
    kind : type
        Class of the measurements.
    """

    def __init__(self, path: Path, kind: type[Measurement] = Outcome):
        self.path = path
        self.kind = kind

    def read(self) -> dict[str, Any]:
        """Measurements by the key of their cell. Lines that a kill left incomplete do not count."""
        if not self.path.is_file():
            return {}
        found = {}
        for line in self.path.read_text("utf-8", errors="replace").splitlines():
            try:
                outcome = self.kind.from_line(line)
            except (json.JSONDecodeError, TypeError, KeyError):
                continue
            found[outcome.cell.key] = outcome
        return found

    def append(self, outcome: Measurement) -> None:
        """Write one line and wait until it is on disk."""
        line = (outcome.to_line() + "\n").encode()
        handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":  # a line cut off by a kill must not swallow this one
                line = b"\n" + line
            os.write(handle, line)
            os.fsync(handle)
        finally:
            os.close(handle)

    def forget(self, cells: list[Cell]) -> None:
        """Remove some cells and keep the others."""
        keys = {cell.key for cell in cells}
        kept = [outcome.to_line() + "\n" for key, outcome in self.read().items() if key not in keys]
        with replacing(self.path) as file:
            file.write("".join(kept).encode())

    def list_missing(self, cells: list[Cell]) -> list[Cell]:
        """Cells without a measurement."""
        known = self.read()
        return [cell for cell in cells if cell.key not in known]


def run_cells(
    cells: list[Cell],
    data: Mapping[str, Dataset],
    log: Log,
    *,
    n_jobs: int = 1,
    fresh: bool = False,
    by: Measure = measure,
    say: Callable[[str], None] = lambda line: None,
) -> list[Any]:
    """Measurements of all cells in their order; only those that the log lacks are made.

    Parameters
    ----------
    cells : list of Cell
        What to measure.
    data : mapping of str to Dataset
        Data sets by name.
    log : Log
        Keeps the measurements; only this process writes it.
    n_jobs : int
        Cells to measure at once, each in a process of its own.
    fresh : bool
        Whether to measure again what the log holds.
    by : callable
        ``by(cell, data)`` measures a cell.
    say : callable
        Receives a line of text for every cell that is done.
    """
    if fresh:
        log.forget(cells)
    missing = log.list_missing(cells)
    if len(missing) < len(cells):
        say(f"{len(cells) - len(missing)} of {len(cells)} cells are done already; `fresh` measures them again.")
    left = sum(_estimate_cost(cell, data) for cell in missing)
    begun, spent = time.perf_counter(), 0.0
    for done, outcome in enumerate(_measure_all(missing, data, n_jobs, by), 1):
        log.append(outcome)
        cost = _estimate_cost(outcome.cell, data)
        spent, left = spent + cost, max(0.0, left - cost)
        to_go = f"{_format_time((time.perf_counter() - begun) * left / spent)} left" if done < len(missing) else "done"
        say(f"[{done}/{len(missing)}] {outcome} in {_format_time(outcome.seconds)}; {to_go}")
    known = log.read()
    return [known[cell.key] for cell in cells]


def _measure_all(cells: list[Cell], data: Mapping[str, Dataset], n_jobs: int, by: Measure) -> Iterable[Any]:
    if n_jobs == 1 or len(cells) < 2:
        return (by(cell, data[cell.dataset]) for cell in cells)
    from sklearn.utils.parallel import Parallel, delayed

    jobs = (delayed(by)(cell, data[cell.dataset]) for cell in cells)
    found: Iterable[Any] = Parallel(n_jobs=n_jobs, batch_size=1, return_as="generator_unordered")(jobs)
    return found


def _estimate_cost(cell: Cell, data: Mapping[str, Dataset]) -> float:
    """Rough size of the work, in any unit: in practice it grows with the rows and the root of the features."""
    n_rows, n_features = data[cell.dataset].X.shape
    return n_rows * math.sqrt(n_features) * cell.n_draws * max(1, cell.budget)


def _format_time(seconds: float) -> str:
    """Seconds, minutes or hours, whichever reads best.

    Examples
    --------
    >>> [_format_time(seconds) for seconds in (0.4, 75, 600, 9000)]
    ['0.4 s', '75 s', '10 min', '2.5 h']
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
