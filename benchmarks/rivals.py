"""nearkin beside tools without metric learning, under the paper's protocol: ``python -m benchmarks.rivals TABLE``.

TABLE is ``rivals`` (noise put into the data sets of the paper) or ``human`` (labels that people gave). The columns with
cleanlab need ``pip install 'nearkin[paper]'``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nearkin import paper
from nearkin.datasets import Dataset

KINDS = paper.KINDS[:-1]


class CleanlabMissing(ImportError):
    """cleanlab is not installed; the message says how to get it."""


def require_cleanlab() -> Any:
    """Return the function of cleanlab that finds wrong labels."""
    try:
        from cleanlab.filter import find_label_issues
    except ImportError as error:
        raise CleanlabMissing(f"columns with cleanlab need pip install 'nearkin[paper]' ({error}).") from error
    return find_label_issues


def predict_out_of_fold(judge: Any, X: np.ndarray, codes: np.ndarray, seed: int) -> np.ndarray:
    """Class probabilities of every row from a model that did not see it: five stratified folds."""
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    return cross_val_predict(judge, X, codes, cv=folds, method="predict_proba")


class Cleaned:
    """Drop the rows whose labels cleanlab doubts, then fit.

    Parameters
    ----------
    judge : estimator
        Its out-of-fold probabilities are what cleanlab judges labels by.
    classifier : estimator
        Fitted on the remaining rows.
    seed : int
        Seed of the judge's folds.
    """

    def __init__(self, judge: Any, classifier: Any, seed: int):
        self.judge, self.classifier, self.seed = judge, classifier, seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        find = require_cleanlab()
        codes = np.unique(y, return_inverse=True)[1]
        is_doubtful = find(codes, predict_out_of_fold(self.judge, X, codes, self.seed), n_jobs=1)
        self.classifier.fit(X[~is_doubtful], y[~is_doubtful])
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.classifier.predict(X)


def make_logistic() -> Any:
    """Logistic regression on z-scores."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))


def _clean_first(make: Callable[[], Any]) -> Callable[..., Any]:
    return lambda params, rate, seed: Cleaned(make_logistic(), make(), seed)


#: What a user could do without metric learning.
RIVALS = {
    method.name: method
    for method in (
        paper.Method("10-NN", lambda params, rate, seed: KNeighborsClassifier(10)),
        paper.Method("25-NN", lambda params, rate, seed: KNeighborsClassifier(25)),
        paper.Method("logistic", lambda params, rate, seed: make_logistic()),
        paper.Method("cleanlab > 3-NN", _clean_first(lambda: KNeighborsClassifier(3))),
        paper.Method("cleanlab > logistic", _clean_first(make_logistic)),
    )
}

TABLES = {
    table.name: table
    for table in (
        paper.Table(
            "rivals",
            "Rivals without metric learning",
            (*paper.SEVEN, "covid-resnet18"),
            (0.0, 10.0, 20.0, 30.0),
            (*RIVALS, "nearkin"),
        ),
        paper.Table(
            "human",
            "Labels that people gave",
            ("cifar10n", "music-genres"),
            methods=(*paper.PAPER, *RIVALS),
            quick_datasets=("music-genres",),
        ),
    )
}


def measure(cell: paper.Cell, data: Dataset) -> paper.Outcome:
    """Measure a cell of the paper's columns or of the rivals'."""
    return paper.measure(cell, data, paper.METHODS | RIVALS)


def drop_unavailable(table: paper.Table) -> tuple[paper.Table, list[str]]:
    """Table without the columns of cleanlab if it is not installed, and advice on how to get them."""
    needy = [name for name in table.methods if name.startswith("cleanlab")]
    try:
        if needy:
            require_cleanlab()
    except CleanlabMissing as error:
        return replace(table, methods=tuple(name for name in table.methods if name not in needy)), [str(error)]
    return table, []


def split_names(text: str) -> tuple[str, ...]:
    """Names separated by commas."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Options that the comparisons with other tools share."""
    parser.add_argument("--datasets", type=split_names, help="names, separated by commas; all by default")
    parser.add_argument("--data", type=Path, dest="folder", help="folder with data files; NEARKIN_DATA by default")
    parser.add_argument("--jobs", type=int, default=1, help="cells to measure at once")
    parser.add_argument("--quick", action="store_true", help="small data sets, few cells")
    parser.add_argument("--fresh", action="store_true", help="measure finished cells again")


def say(line: str) -> None:
    """Report progress."""
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    add_run_options(parser)
    parser.add_argument("--noise", help="percentages, separated by commas")
    parser.add_argument("--methods", action="append", help="only this column; repeatable")
    parser.add_argument("--kind", choices=KINDS, default="uniform", help="kind of label noise")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=1, help="draws of folds and noise")
    given = parser.parse_args(arguments)
    table = paper.shrink(TABLES[given.table]) if given.quick else TABLES[given.table]
    try:
        table = paper.narrow(
            table,
            datasets=given.datasets,
            noise=tuple(map(float, split_names(given.noise))) if given.noise else None,
            methods=tuple(given.methods) if given.methods else None,
            kind=given.kind,
            seed=given.seed,
            n_draws=given.draws,
        )
        table, advice = drop_unavailable(table)
        if not table.methods:
            raise ValueError(advice[0])
        result = paper.reproduce(
            table,
            given.out,
            folder=given.folder,
            n_jobs=given.jobs,
            fresh=given.fresh,
            by=measure,
            left_out=advice,
            say=say,
        )
    except ValueError as error:
        parser.error(str(error))
    for one in result.left_out:
        say(f"left out: {one}")
    print(f"Written: {', '.join(map(str, result.files))}")


if __name__ == "__main__":
    main()
