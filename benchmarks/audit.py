"""Finding wrong labels: the audit beside cleanlab, cell by cell."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin import datasets
from nearkin._version import __version__
from nearkin.files import replacing
from nearkin.paper.cells import Cell
from nearkin.paper.cleaning import out_of_fold, require_cleanlab
from nearkin.paper.detection_report import as_markdown
from nearkin.paper.log import Log
from nearkin.paper.methods import METHODS
from nearkin.paper.protocol import noisy, prepared, protocol_of, seed_of
from nearkin.paper.runner import Advance, run

__all__ = ["JUDGES", "NOISES", "Detection", "bench", "cells_of", "detect"]

Array = NDArray[Any]

#: The audit, and cleanlab with the classifiers that give it probabilities.
OURS = "nearkin"
JUDGES = {f"cleanlab, {name}": name for name in ("10-NN", "25-NN", "logistic")}
#: Kinds and percentages of noise; labels that people gave come with the data sets that have some.
NOISES = (
    ("uniform", 0.0), ("uniform", 10.0), ("uniform", 20.0), ("uniform", 30.0), ("next-class", 20.0), ("boundary", 20.0),
)  # fmt: skip
QUICK = ("wine", "wdbc")


@dataclass(frozen=True)
class Detection:
    """How well wrong labels were found in one cell; shares in percent.

    Parameters
    ----------
    cell : Cell
        What was measured.
    auroc, average_precision : float or None
        Of the ranking; None where no label is wrong.
    precision, recall, f1 : float or None
        Of the rows that were flagged; None where no label is wrong.
    rate, true_rate : float
        Estimated and true share of wrong labels.
    seconds : float
        Time of the method, on one thread.
    """

    cell: Cell
    auroc: float | None
    average_precision: float | None
    precision: float | None
    recall: float | None
    f1: float | None
    rate: float
    true_rate: float
    seconds: float

    def as_line(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_line(cls, line: str) -> Detection:
        """Inverse of `as_line`."""
        held = json.loads(line)
        return cls(**held | {"cell": Cell(**held["cell"])})


def cells_of(data: dict[str, datasets.Dataset], n_seeds: int, *, quick: bool = False) -> list[Cell]:
    """All cells: data set, noise, seed, method; those that are compared stand side by side.

    Examples
    --------
    >>> cells = cells_of({"wine": datasets.load("wine")}, 2)
    >>> len(cells), cells[0].method, cells[0].noise
    (48, 'nearkin', 0.0)
    """
    out = []
    for name, one in data.items():
        noises: tuple[tuple[str, float | str], ...] = (
            NOISES[:3:2] if quick else (*NOISES, *(("human", labels) for labels in one.noisy_labels))
        )
        out += [
            Cell(name, level, method, kind=kind, seed=seed)
            for kind, level in noises
            for seed in range(n_seeds)
            for method in (OURS, *JUDGES)
        ]
    return out


def detect(cell: Cell, data: datasets.Dataset) -> Detection:
    """Look for the wrong labels of a cell; the same numbers wherever it runs, but for the time."""
    from threadpoolctl import threadpool_limits

    protocol, every = protocol_of(data.name), np.arange(len(data.y))
    seed = seed_of(cell.seed, cell.dataset, str(cell.noise), cell.kind)
    if isinstance(cell.noise, str):
        labels = data.noisy_labels[cell.noise]
    else:
        labels = noisy(data, protocol, every, cell.noise / 100.0, cell.kind, seed)
    rows = prepared(data, protocol, data.X, labels, data.X[:1], data.y[:1], seed)
    with threadpool_limits(1):
        if cell.method == OURS:
            some = np.random.default_rng(0).permutation(len(labels))[:200]
            _audit(rows.raw_train[some], labels[some], seed)  # what compiles, compiles before the clock runs
            begun = time.perf_counter()
            doubt, flagged, rate = _audit(rows.raw_train, labels, seed)
        else:
            begun = time.perf_counter()
            doubt, flagged, rate = _cleanlab(JUDGES[cell.method], rows.train, labels, seed)
        seconds = time.perf_counter() - begun
    return _scored(cell, labels != data.y, doubt, flagged, rate, seconds)


def _audit(X: Array, labels: Array, seed: int) -> tuple[Array, Array, float]:
    from nearkin.audit import audit_labels

    found = audit_labels(X, labels, random_state=seed)
    return 1.0 - found.score, found.is_suspect, found.noise_rate


def _cleanlab(judge: str, X: Array, labels: Array, seed: int) -> tuple[Array, Array, float]:
    find = require_cleanlab()
    from cleanlab.count import num_label_issues
    from cleanlab.rank import get_label_quality_scores

    codes = np.unique(labels, return_inverse=True)[1]
    shares = out_of_fold(METHODS[judge].build({}, 0.0, seed), X, codes, seed)
    flagged = find(codes, shares, n_jobs=1)
    return 1.0 - get_label_quality_scores(codes, shares), flagged, float(num_label_issues(codes, shares)) / len(codes)


def _scored(cell: Cell, is_wrong: Array, doubt: Array, flagged: Array, rate: float, seconds: float) -> Detection:
    from sklearn.metrics import average_precision_score, f1_score, precision_score, recall_score, roc_auc_score

    found: dict[str, float | None] = dict.fromkeys(("auroc", "average_precision", "precision", "recall", "f1"))
    if is_wrong.any():
        found["auroc"] = 100.0 * float(roc_auc_score(is_wrong, doubt))
        found["average_precision"] = 100.0 * float(average_precision_score(is_wrong, doubt))
        for name, score in (("precision", precision_score), ("recall", recall_score), ("f1", f1_score)):
            found[name] = 100.0 * float(score(is_wrong, flagged, zero_division=0.0))
    return Detection(cell, **found, rate=100.0 * rate, true_rate=100.0 * float(is_wrong.mean()), seconds=seconds)


def bench(
    out: Path,
    *,
    names: Sequence[str] | None = None,
    folder: Path | None = None,
    n_seeds: int = 5,
    n_jobs: int = 1,
    quick: bool = False,
    fresh: bool = False,
    begin: Callable[[int, int], None] = lambda n_known, n_all: None,
    tell: Callable[[Advance], None] = lambda advance: None,
) -> tuple[tuple[Path, ...], list[str]]:
    """Measure all cells and write ``audit.md``; finished cells are in ``audit.jsonl``.

    Parameters
    ----------
    out : Path
        Folder for the files; made if need be.
    names : sequence of str or None
        Data sets; None for all that can be had.
    folder : Path or None
        Folder with data files.
    n_seeds : int
        Draws of the noise.
    n_jobs : int
        Cells measured at once.
    quick : bool
        Two small data sets, two levels of noise, two draws.
    fresh : bool
        Whether to measure again what is known.
    begin, tell : callable
        Told how many cells are known, and about every cell that is done.

    Returns
    -------
    files : tuple of Path
        What was written.
    left_out : list of str
        Data sets that could not be had, and how they could.
    """
    require_cleanlab()
    data, left_out = {}, []
    for name in names or (QUICK if quick else datasets.names()):
        try:
            data[name] = datasets.load(name, folder)
        except (datasets.DatasetNotFound, datasets.WrongChecksum) as error:
            left_out.append(str(error))
    if not data:
        raise ValueError(f"no data set can be had: {' '.join(left_out)}")
    n_seeds = min(n_seeds, 2) if quick else n_seeds
    cells = cells_of(data, n_seeds, quick=quick)
    out.mkdir(parents=True, exist_ok=True)
    log = Log(out / "audit.jsonl", Detection)
    if fresh:
        log.forget(cells)
    begin(len(cells) - len(log.missing(cells)), len(cells))
    found = run(cells, data, log, n_jobs=n_jobs, by=detect, tell=tell)
    path = out / "audit.md"
    with replacing(path) as file:
        file.write(as_markdown(found, OURS, tuple(JUDGES), _about(n_seeds, left_out)).encode())
    return (log.path, path), left_out


def _about(n_seeds: int, left_out: list[str]) -> list[str]:
    import cleanlab

    return [
        f"nearkin {__version__}, untouched and not told how many labels are wrong; cleanlab {cleanlab.__version__} "
        "with out-of-sample probabilities from five stratified folds, its default score and filter.",
        f"Means over {n_seeds} draws of the noise; shares in percent. Whole data sets, features prepared as in "
        "nearkin reproduce; the audit gets them unscaled.",
        "Noise: uniform (any other class), next-class (asymmetric), boundary (the class that is near), human (labels "
        "that people gave).",
        "Time on one thread, the audit without compilation.",
        *(f"Left out: {one}" for one in left_out),
    ]
