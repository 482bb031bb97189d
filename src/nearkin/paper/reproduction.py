"""One table from start to end: data, cells, files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from nearkin import datasets
from nearkin._version import __version__
from nearkin.files import replacing
from nearkin.paper.cells import Cell, measure
from nearkin.paper.records import Record, make_records
from nearkin.paper.report import lay_out, render_html, render_markdown
from nearkin.paper.runs import Log, Measure, run_cells
from nearkin.paper.tables import Table, list_cells
from nearkin.paper.wine import count_triplets

__all__ = ["Result", "load_available", "reproduce"]

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
    """A measured table.

    Parameters
    ----------
    records : list of dict
        The content of the JSON file.
    left_out : list of str
        What could not be measured, and how it could.
    files : list of Path
        JSON, Markdown, HTML.
    """

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

    Parameters
    ----------
    table : Table
        What to measure.
    out : Path
        Folder for the files; created if needed.
    folder : Path or None
        Folder with data files.
    n_jobs : int
        Cells to measure at once.
    fresh : bool
        Whether to measure again what the log holds.
    by : callable
        ``by(cell, data)`` measures a cell.
    left_out : iterable of str
        What the caller left out of the table, for the report.
    say : callable
        Receives a line of text for every cell that is done.

    Returns
    -------
    Result
        Records and files.
    """
    data, missing = load_available(table.datasets, folder)
    left_out = [*missing, *left_out]
    if not data:
        raise ValueError(f"nothing of {table.name} can be measured: {' '.join(left_out)}")
    out.mkdir(parents=True, exist_ok=True)
    if table.name == "table1":
        records = count_triplets(data["wine"], n_draws=table.n_draws, seed=table.seed)
        about = [f"Means and standard deviations over {table.n_draws} draws of the noise, seed {table.seed}."]
    else:
        cells = list_cells(table, data)
        outcomes = run_cells(cells, data, Log(out / "cells.jsonl"), n_jobs=n_jobs, fresh=fresh, by=by, say=say)
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
        with replacing(out / f"{table.name}.{ending}") as file:
            file.write(text.encode())
    return [out / f"{table.name}.{ending}" for ending in texts]
