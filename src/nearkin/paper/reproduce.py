"""One table from start to end: data, cells, files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nearkin import datasets
from nearkin._version import __version__
from nearkin.paper.cells import Cell
from nearkin.paper.cleaning import CleanlabMissing, require_cleanlab
from nearkin.paper.log import Log
from nearkin.paper.records import records
from nearkin.paper.report import as_html, as_markdown, sheets
from nearkin.paper.runner import Advance, run
from nearkin.paper.tables import QUICK_BUDGET, TABLES, Table, cells_of, quick
from nearkin.paper.triplet_statistics import triplet_records

__all__ = ["Request", "Result", "reproduce"]

#: What a search tries and how often noise is drawn, where nobody says.
BUDGET, DRAWS, TRIPLET_DRAWS = 32, 1, 50

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
class Request:
    """What is asked for; None stands for what the table says.

    Parameters
    ----------
    table : str
        Name in ``TABLES``.
    out : Path
        Folder for the files; made if need be.
    datasets : tuple of str or None
        Names in the registry.
    noise : tuple of float or None
        Percentages.
    methods : tuple of str or None
        Columns.
    selection : str
        One of ``SELECTIONS``.
    kind : str
        Kind of noise.
    folder : Path or None
        Folder with data files.
    n_jobs : int
        Cells measured at once.
    seed : int
        Of everything that is drawn.
    budget : int or None
        Settings that a search tries.
    n_draws : int or None
        How often folds and noise are drawn.
    quick : bool
        Small data sets and few cells.
    fresh : bool
        Whether to measure again what is in the log.
    """

    table: str
    out: Path
    datasets: tuple[str, ...] | None = None
    noise: tuple[float, ...] | None = None
    methods: tuple[str, ...] | None = None
    selection: str = "default"
    kind: str = "uniform"
    folder: Path | None = None
    n_jobs: int = 1
    seed: int = 0
    budget: int | None = None
    n_draws: int | None = None
    quick: bool = False
    fresh: bool = False


@dataclass(frozen=True)
class Result:
    """What was written.

    Parameters
    ----------
    table : Table
        As it was measured.
    records : list of dict
        As in the JSON file.
    left_out : tuple of str
        What could not be measured, and how it could.
    files : tuple of Path
        JSON, Markdown, HTML.
    """

    table: Table
    records: list[dict[str, Any]]
    left_out: tuple[str, ...] = ()
    files: tuple[Path, ...] = field(default=())


def reproduce(
    request: Request,
    *,
    begin: Callable[[int, int], None] = lambda n_known, n_all: None,
    tell: Callable[[Advance], None] = lambda advance: None,
) -> Result:
    """Measure a table and write ``NAME.json``, ``NAME.md`` and ``NAME.html``; finished cells are in ``cells.jsonl``.

    Parameters
    ----------
    request : Request
        What is asked for.
    begin : callable
        Told how many cells are known already, and how many there are.
    tell : callable
        Told about every cell that is done.

    Returns
    -------
    Result
        Records and files.
    """
    table = _asked(request)
    data, left_out = _loaded(table, request.folder)
    table, advice = _with_what_is_installed(table)
    left_out += advice
    if not data or not (table.methods or table.name == "table1"):
        raise ValueError(f"nothing of {table.name} can be measured: {' '.join(left_out)}")
    request.out.mkdir(parents=True, exist_ok=True)
    if table.name == "table1":
        n_draws = request.n_draws or TRIPLET_DRAWS
        found = triplet_records(data["wine"], n_draws=n_draws, seed=request.seed)
        about = [f"Means and standard deviations over {n_draws} draws of the noise, seed {request.seed}."]
    else:
        cells = _cells(request, table, data)
        outcomes = _run(request, cells, data, begin, tell)
        found = records(outcomes, table.metrics, matrix=table.matrix)
        about = _about(cells)
    about += [f"nearkin {__version__}.", *(f"Left out: {one}" for one in left_out)]
    return Result(table, found, tuple(left_out), _written(request.out, table, found, about))


def _asked(request: Request) -> Table:
    table = TABLES[request.table]
    table = quick(table) if request.quick else table
    for name in request.datasets or ():
        info = datasets.info(name)  # an unknown name is an error
        if table.matrix or len(table.metrics) > 1:
            if info.n_classes != 2:
                raise ValueError(f"{table.name} needs two classes; {name} has {info.n_classes}.")
            if True in table.grouped and info.groups is None:
                table = replace(table, grouped=(False,))
        if not table.noise and not info.noisy_labels:
            raise ValueError(f"{table.name} needs labels that people gave; {name} has none.")
    if request.datasets:
        if table.name == "table1" and request.datasets != ("wine",):
            raise ValueError("table1 is about wine only.")
        table = replace(table, datasets=request.datasets)
    if request.noise is not None:
        if not table.noise or table.name == "table1":
            raise ValueError(f"the noise of {table.name} is fixed; leave out --noise.")
        table = replace(table, noise=request.noise)
    if request.methods is not None:
        unknown = [name for name in request.methods if name not in table.methods]
        if unknown:
            raise ValueError(f"{table.name} has no column {unknown[0]!r}; it has {', '.join(table.methods) or 'none'}.")
        table = replace(table, methods=request.methods)
    return table


def _loaded(table: Table, folder: Path | None) -> tuple[dict[str, datasets.Dataset], list[str]]:
    data, missing = {}, []
    for name in table.datasets:
        try:
            data[name] = datasets.load(name, folder)
        except (datasets.DatasetNotFound, datasets.WrongChecksum) as error:
            missing.append(str(error))
    return data, missing


def _with_what_is_installed(table: Table) -> tuple[Table, list[str]]:
    needy = [name for name in table.methods if name.startswith("cleanlab")]
    if not needy:
        return table, []
    try:
        require_cleanlab()
    except CleanlabMissing as error:
        return replace(table, methods=tuple(name for name in table.methods if name not in needy)), [str(error)]
    return table, []


def _cells(request: Request, table: Table, data: dict[str, datasets.Dataset]) -> list[Cell]:
    usual = QUICK_BUDGET if request.quick else BUDGET
    return cells_of(
        table,
        data,
        selection=request.selection,
        kind=request.kind,
        seed=request.seed,
        n_draws=request.n_draws or DRAWS,
        budget=request.budget or usual,
    )


def _run(
    request: Request,
    cells: list[Cell],
    data: dict[str, datasets.Dataset],
    begin: Callable[[int, int], None],
    tell: Callable[[Advance], None],
) -> list[Any]:
    log = Log(request.out / "cells.jsonl")
    if request.fresh:
        log.forget(cells)
    begin(len(cells) - len(log.missing(cells)), len(cells))
    return run(cells, data, log, n_jobs=request.n_jobs, tell=tell)


def _about(cells: list[Cell]) -> list[str]:
    cell, budgets = cells[0], sorted({one.budget for one in cells}, reverse=True)
    return [
        "Our mean and standard deviation over folds in percent; in brackets the printed ones and the difference. Test "
        "labels are right.",
        _SELECTION[cell.selection].format(budget=" or, for many rows, ".join(map(str, budgets))),
        _KIND[cell.kind],
        "The proposed methods are told how many labels are wrong; nearkin is not, and is never tuned.",
        f"Draws of folds and noise: {cell.n_draws}; seed {cell.seed}.",
    ]


def _written(out: Path, table: Table, found: list[dict[str, Any]], about: list[str]) -> tuple[Path, ...]:
    laid = sheets(table, found)
    texts = {
        "json": json.dumps(found, indent=1) + "\n",
        "md": as_markdown(table.title, about, laid),
        "html": as_html(table.title, about, laid),
    }
    files = []
    for ending, text in texts.items():
        path = out / f"{table.name}.{ending}"
        part = path.with_suffix(f".{ending}.part")
        part.write_text(text, encoding="utf-8")
        part.replace(path)
        files.append(path)
    return tuple(files)
