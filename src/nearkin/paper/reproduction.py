"""One table from start to end: data, cells, files.

Cells are measured one by one or several at once. A log keeps each as soon as it is done, so that a killed run can go
on.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn.utils.parallel import Parallel, delayed

from nearkin import datasets
from nearkin._version import __version__
from nearkin.datasets import Dataset
from nearkin.files import claim, replacing
from nearkin.paper.report import Record, lay_out, make_records, render_html, render_markdown
from nearkin.paper.tables import Cell, Measurement, Outcome, Table, list_cells, measure
from nearkin.paper.wine import count_triplets

__all__ = ["Log", "Result", "load_available", "reproduce", "run_cells"]

Measure = Callable[[Cell, Dataset], Any]

_ENDINGS = ("json", "md", "html")

_SELECTION = {
    "default": "Parameters: untouched defaults.",
    "folds": "Parameters: the best of {budget} settings on the evaluation folds themselves, as the paper "
    "seems to have chosen them; such numbers are too good.",
    "nested": "Parameters: chosen for every fold by inner folds of its noisy training labels, the best of {budget} "
    "settings.",
}
_KIND = {
    "uniform": "Noise: training labels replaced by any other class, drawn anew for every fold.",
    "next-class": "Noise: training labels replaced by the next class; the paper has no such numbers.",
    "boundary": "Noise: training labels replaced near the boundary by the class beyond; the paper has no such numbers.",
    "human": "Noise: labels that people gave; the test rows are others, with right labels.",
}


@dataclass(frozen=True)
class Result:
    """A measured table: the content of its JSON file, what could not be measured and how it could, and all files."""

    records: list[Record]
    left_out: list[str]
    files: list[Path]


def reproduce(
    table: Table,
    out: Path,
    *,
    folder: Path | None = None,
    n_jobs: int = 1,
    fresh: bool = False,
    by: Measure = measure,
    left_out: Iterable[str] = (),
    say: Callable[[str], None] = lambda line: None,
) -> Result:
    """Measure a table and write ``NAME.json``, ``NAME.md`` and ``NAME.html``; ``cells.jsonl`` keeps finished cells.

    ``folder`` holds the data, and ``left_out`` says what the caller left out; for the other options see `run_cells`.
    """
    data, missing = load_available(table.datasets, folder)
    left_out = [*missing, *left_out]
    if not data:
        raise ValueError(f"nothing of {table.name} can be measured: {' '.join(left_out)}")
    out.mkdir(parents=True, exist_ok=True)
    log = Log(out / "cells.jsonl")
    claim([(log.path, "cells"), *((out / f"{table.name}.{ending}", "records") for ending in _ENDINGS)])
    if table.name == "table1":
        records = count_triplets(data["wine"], n_draws=table.n_draws, seed=table.seed)
        about = [f"Means and standard deviations over {table.n_draws} draws of the noise, seed {table.seed}."]
    else:
        cells = list_cells(table, data)
        outcomes = run_cells(cells, data, log, n_jobs=n_jobs, fresh=fresh, by=by, say=say)
        records = make_records(outcomes, table.metrics, matrix=table.matrix)
        about = _describe(cells)
    about += [f"nearkin {__version__}.", *(f"Left out: {one}" for one in left_out)]
    return Result(records, left_out, _write(out, table, records, about))


def load_available(names: Iterable[str], folder: Path | None = None) -> tuple[dict[str, datasets.Dataset], list[str]]:
    """Data sets by name, and for each that no source has a text that says how to get it."""
    data, missing = {}, []
    for name in names:
        try:
            data[name] = datasets.load(name, folder)
        except (datasets.DatasetNotFound, datasets.WrongChecksum) as error:
            missing.append(str(error))
    return data, missing


class Log:
    """File of measurements of one kind as JSON lines; the first one creates it."""

    def __init__(self, path: Path, kind: type[Measurement] = Outcome):
        self.path, self.kind = path, kind

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
        with replacing(self.path, "cells") as file:
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
    """Return the measurements of all cells in their order; ``by`` makes those that the log lacks, or all if ``fresh``.

    Of ``n_jobs`` cells at once each has a process of its own; only this process writes the log. ``say`` receives a line
    of text for every cell that is done.
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
    jobs = (delayed(by)(cell, data[cell.dataset]) for cell in cells)
    found: Iterable[Any] = Parallel(n_jobs=n_jobs, batch_size=1, return_as="generator_unordered")(jobs)
    return found


def _estimate_cost(cell: Cell, data: Mapping[str, Dataset]) -> float:
    """Rough size of the work, in any unit: in practice it grows with the rows and the root of the features."""
    n_rows, n_features = data[cell.dataset].X.shape
    return n_rows * math.sqrt(n_features) * cell.n_draws * max(1, cell.budget)


def _format_time(seconds: float) -> str:
    """Seconds, minutes or hours, whichever reads best."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _describe(cells: list[Cell]) -> list[str]:
    cell, budgets = cells[0], sorted({one.budget for one in cells}, reverse=True)
    return [
        "Our mean and standard deviation over folds in percent; in brackets the printed ones and the difference. Test "
        "labels are right.",
        _SELECTION[cell.selection].format(budget=" or, for many rows, ".join(map(str, budgets))),
        _KIND[cell.kind],
        "The proposed methods are told how many labels are wrong; nearkin is not, and is never tuned.",
        f"Draws of folds and noise: {cell.n_draws}; seed {cell.seed}.",
    ]


def _write(out: Path, table: Table, records: list[Record], about: list[str]) -> list[Path]:
    sheets = lay_out(table, records)
    texts = {
        "json": json.dumps(records, indent=1) + "\n",
        "md": render_markdown(table.title, about, sheets),
        "html": render_html(table.title, about, sheets),
    }
    for ending, text in texts.items():
        with replacing(out / f"{table.name}.{ending}", "records") as file:
            file.write(text.encode())
    return [out / f"{table.name}.{ending}" for ending in texts]
