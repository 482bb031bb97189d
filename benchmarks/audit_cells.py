"""Jobs of `benchmarks.audit_rivals`: which there are, which are done, what the others cost, and running them."""

from __future__ import annotations

import csv
import multiprocessing
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, fields
from pathlib import Path
from time import monotonic

from . import audit_noise
from .audit_methods import COLUMNS, Job, Line, count_rounds, measure
from .audit_sets import AuditSet


def list_jobs(
    sets: Mapping[str, AuditSet], parts: Iterable[str], n_draws: int, noises: Sequence[str] | None = None
) -> list[Job]:
    """All jobs, draw by draw and kind by kind, so that a stopped run has compared all sets; dear ones first."""
    kinds = {name: audit_noise.list_kinds(data) for name, data in sets.items()}
    return [
        Job(name, noise, draw, part)
        for draw in range(n_draws)
        for part in parts
        for noise in dict.fromkeys(noise for some in kinds.values() for noise in some)
        if noises is None or noise in noises
        for name, data in sorted(sets.items(), key=lambda one: -guess_seconds(part, one[1]))
        if noise in kinds[name]
    ]


def guess_seconds(part: str, data: AuditSet) -> float:
    """Processor seconds of a job, by measured ones of a few sets; the trees of HistGB cost most."""
    n = min(audit_noise.MOST_TRAINING, 0.7 * len(data.y)) / audit_noise.MOST_TRAINING
    if part == "nearkin":
        return 0.3 + n
    d = audit_noise.COMPONENTS if data.X.shape[1] > audit_noise.MOST_COLUMNS else min(data.X.shape[1], 120)
    n_trees = count_rounds(data.n_classes) * (data.n_classes if data.n_classes > 2 else 1)
    return 0.5 + n * (2.0 + 3.5e-4 * n_trees * d)


def tell_cost(jobs: Sequence[Job], sets: Mapping[str, AuditSet], n_jobs: int) -> str:
    """How long the jobs will take, roughly."""
    seconds = sum(guess_seconds(job.part, sets[job.set]) for job in jobs)
    return (
        f"{len(jobs)} jobs: about {seconds / 60:.0f} processor minutes, {seconds / 60 / n_jobs:.0f} on {n_jobs} cores"
    )


# ---------------------------------------------------------------------- the file


def read(path: Path) -> list[Line]:
    """Lines of a file; one that a kill cut off is left out, and of two for the same cell the later one counts."""
    if not path.is_file():
        return []
    found = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if all(row.get(name) is not None for name in COLUMNS):
                line = _parse(row)
                found[line.set, line.noise, line.draw, line.method] = line
    return list(found.values())


def _parse(row: Mapping[str, str]) -> Line:
    values = {}
    for one in fields(Line):
        text = row[one.name]
        if one.type == "str":
            values[one.name] = text
        elif one.type == "int":
            values[one.name] = int(text)
        else:
            values[one.name] = float(text) if text else None
    return Line(**values)


def append(path: Path, lines: Iterable[Line]) -> None:
    """Write lines; a new file gets its header, and a line that a kill cut off is ended."""
    is_new = not path.is_file() or path.stat().st_size == 0
    is_cut = False
    if not is_new:
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            is_cut = file.read() != b"\n"
    with path.open("a", newline="", encoding="utf-8") as file:
        if is_cut:
            file.write("\n")
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        for line in lines:
            writer.writerow({name: _write(value) for name, value in asdict(line).items()})


def _write(value: object) -> object:
    return f"{value:.5g}" if isinstance(value, float) else value


def list_missing(path: Path, jobs: Iterable[Job]) -> list[Job]:
    """Jobs of which some line is missing or is an error."""
    done = {(one.set, one.noise, one.draw, one.method) for one in read(path) if not one.error}
    return [job for job in jobs if not job.keys <= done]


def forget(path: Path, jobs: Iterable[Job]) -> None:
    """Remove the lines of some jobs and keep the others."""
    keys = set().union(*(job.keys for job in jobs))
    kept = [one for one in read(path) if (one.set, one.noise, one.draw, one.method) not in keys]
    if path.is_file():
        path.unlink()
        append(path, kept)


# ---------------------------------------------------------------------- running

_sets: dict[str, AuditSet] = {}


def _take(sets: dict[str, AuditSet]) -> None:
    _sets.update(sets)


def _measure(job: Job) -> list[Line]:
    return measure(job, _sets[job.set])


def run(
    jobs: Sequence[Job],
    sets: Mapping[str, AuditSet],
    path: Path,
    *,
    n_jobs: int = 1,
    minutes: float | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> int:
    """Measure jobs and write their lines as they come; returns how many the time did not suffice for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    until = monotonic() + (60.0 * minutes if minutes is not None else float("inf"))
    waiting = list(reversed(jobs))
    n_done, began = 0, monotonic()

    def keep(lines: list[Line]) -> None:
        nonlocal n_done
        append(path, lines)
        n_done += 1
        for one in lines:
            if one.error:
                tell(f"{one.set}, {one.noise}, draw {one.draw}, {one.method}: {one.error}")
        if n_done % max(1, len(jobs) // 50) == 0 or n_done == len(jobs):
            tell(f"[{n_done}/{len(jobs)}] {(monotonic() - began) / 60:.1f} min")

    if n_jobs == 1:
        while waiting and monotonic() < until:
            job = waiting.pop()
            keep(measure(job, sets[job.set]))
        return len(waiting)
    # Workers start afresh: a fork would copy the state of threads that this process may have.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(n_jobs, context, _take, (dict(sets),)) as pool:
        running: set[Future[list[Line]]] = set()
        while running or (waiting and monotonic() < until):
            while waiting and len(running) < 2 * n_jobs and monotonic() < until:
                running.add(pool.submit(_measure, waiting.pop()))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                keep(future.result())
    return len(waiting)
