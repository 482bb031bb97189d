"""Finding wrong labels: the audit beside cleanlab, cell by cell. ``python -m benchmarks.audit``.

Writes audit.md. The file audit.jsonl keeps every finished cell, so that a run that was stopped goes on where it was.
Needs cleanlab: ``pip install 'nearkin[paper]'``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, f1_score, precision_score, recall_score, roc_auc_score
from threadpoolctl import threadpool_limits

from nearkin import __version__, audit_labels, datasets, paper
from nearkin.paper import Cell

from .audit_report import render
from .rivals import RIVALS, CleanlabMissing, add_run_options, predict_out_of_fold, require_cleanlab, say
from .settings import HERE

Array = NDArray[Any]

#: The audit, and cleanlab with the classifiers whose probabilities it takes.
OURS = "nearkin"
JUDGES = {f"cleanlab, {name}": name for name in ("10-NN", "25-NN", "logistic")}
#: Kinds and percentages of noise; some data sets add labels that people gave.
NOISES = (
    ("uniform", 0.0), ("uniform", 10.0), ("uniform", 20.0), ("uniform", 30.0), ("next-class", 20.0), ("boundary", 20.0),
)  # fmt: skip
QUICK = ("wine", "wdbc")


@dataclass(frozen=True)
class Detection(paper.Measurement):
    """How well a method finds the wrong labels of one cell; shares in percent.

    Parameters
    ----------
    cell : Cell
        What was measured.
    auroc, average_precision : float or None
        Of the ranking; None if no label is wrong.
    precision, recall, f1 : float or None
        Of the flagged rows; None if no label is wrong.
    rate, true_rate : float
        Estimated and true share of wrong labels.
    seconds : float
        Time of the method, on one thread.
    """

    auroc: float | None
    average_precision: float | None
    precision: float | None
    recall: float | None
    f1: float | None
    rate: float
    true_rate: float
    seconds: float

    def __str__(self) -> str:
        cell = self.cell
        score = "" if self.auroc is None else f"AUROC {self.auroc:.1f}, "
        place = f"{cell.dataset}, {cell.kind} {cell.noise_text}, seed {cell.seed}, {cell.method}"
        return f"{place}: {score}rate {self.rate:.1f}"


def list_cells(data: dict[str, datasets.Dataset], n_seeds: int, *, quick: bool = False) -> list[Cell]:
    """All cells: data set, noise, seed, method; cells to compare are side by side."""
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
    """Look for the wrong labels of a cell; all numbers but the time are the same everywhere."""
    protocol, every = paper.get_protocol(data.name), np.arange(len(data.y))
    seed = paper.derive_seed(cell.seed, cell.dataset, str(cell.noise), cell.kind)
    if isinstance(cell.noise, str):
        labels = data.noisy_labels[cell.noise]
    else:
        labels = paper.flip_training_labels(data, protocol, every, cell.noise / 100.0, cell.kind, seed)
    rows = paper.prepare(data, protocol, data.X, labels, data.X[:1], data.y[:1], seed)
    with threadpool_limits(1):
        if cell.method == OURS:
            some = np.random.default_rng(0).permutation(len(labels))[:200]
            _audit(rows.raw_train[some], labels[some], seed)  # compile before the clock runs
            begun = time.perf_counter()
            doubt, flagged, rate = _audit(rows.raw_train, labels, seed)
        else:
            begun = time.perf_counter()
            doubt, flagged, rate = _cleanlab(JUDGES[cell.method], rows.train, labels, seed)
        seconds = time.perf_counter() - begun
    return score(cell, labels != data.y, doubt, flagged, rate, seconds)


def _audit(X: Array, labels: Array, seed: int) -> tuple[Array, Array, float]:
    found = audit_labels(X, labels, random_state=seed)
    return 1.0 - found.score, found.is_suspect, found.noise_rate


def _cleanlab(judge: str, X: Array, labels: Array, seed: int) -> tuple[Array, Array, float]:
    find = require_cleanlab()
    from cleanlab.count import num_label_issues
    from cleanlab.rank import get_label_quality_scores

    codes = np.unique(labels, return_inverse=True)[1]
    shares = predict_out_of_fold(RIVALS[judge].build({}, 0.0, seed), X, codes, seed)
    flagged = find(codes, shares, n_jobs=1)
    return 1.0 - get_label_quality_scores(codes, shares), flagged, float(num_label_issues(codes, shares)) / len(codes)


def score(cell: Cell, is_wrong: Array, doubt: Array, flagged: Array, rate: float, seconds: float) -> Detection:
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
    tell: Callable[[str], None] = lambda line: None,
) -> tuple[tuple[Path, ...], list[str]]:
    """Measure all cells and write ``audit.md``; ``audit.jsonl`` keeps finished cells.

    Parameters
    ----------
    out : Path
        Folder for the files; created if needed.
    names : sequence of str or None
        Data sets; None for all that some source has.
    folder : Path or None
        Folder with data files.
    n_seeds : int
        Draws of the noise.
    n_jobs : int
        Cells to measure at once.
    quick : bool
        Two small data sets, two levels of noise, two draws.
    fresh : bool
        Whether to measure again what the log holds.
    tell : callable
        Receives a line of text for every cell that is done.

    Returns
    -------
    files : tuple of Path
        Files written.
    left_out : list of str
        Data sets that no source has, and how to get them.
    """
    require_cleanlab()
    data, left_out = paper.load_available(names or (QUICK if quick else datasets.names()), folder)
    if not data:
        raise ValueError(f"no data set is here: {' '.join(left_out)}")
    n_seeds = min(n_seeds, 2) if quick else n_seeds
    out.mkdir(parents=True, exist_ok=True)
    log, page = paper.Log(out / "audit.jsonl", Detection), out / "audit.md"
    cells = list_cells(data, n_seeds, quick=quick)
    found = paper.run_cells(cells, data, log, n_jobs=n_jobs, fresh=fresh, by=detect, say=tell)
    page.write_text(render(found, OURS, tuple(JUDGES), _describe(n_seeds, left_out)), encoding="utf-8")
    return (log.path, page), left_out


def _describe(n_seeds: int, left_out: list[str]) -> list[str]:
    import cleanlab

    return [
        f"nearkin {__version__}, untouched and not told how many labels are wrong; cleanlab {cleanlab.__version__} "
        "with out-of-sample probabilities from five stratified folds, its default score and filter.",
        f"Means over {n_seeds} draws of the noise; shares in percent. Whole data sets, features prepared as in "
        "nearkin reproduce; the audit gets them unscaled.",
        "Noise: uniform (any other class), next-class (asymmetric), boundary (the class across a nearby boundary), "
        "human (labels that people gave).",
        "Time on one thread, the audit without compilation.",
        *(f"Left out: {one}" for one in left_out),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder for the results")
    add_run_options(parser)
    parser.add_argument("--seeds", type=int, default=5, help="draws of the noise")
    given = parser.parse_args(arguments)
    try:
        files, left_out = bench(
            given.out,
            names=given.datasets,
            folder=given.folder,
            n_seeds=given.seeds,
            n_jobs=given.jobs,
            quick=given.quick,
            fresh=given.fresh,
            tell=say,
        )
    except (CleanlabMissing, ValueError) as error:
        parser.error(str(error))
    for one in left_out:
        say(f"left out: {one}")
    print(f"Written: {', '.join(map(str, files))}")


if __name__ == "__main__":
    main()
