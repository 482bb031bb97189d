"""From outcomes to the records of a table: our numbers beside those that the paper prints."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from nearkin.paper.cells import Outcome
from nearkin.paper.scores import METRICS, score_binary, summarise

__all__ = ["get_printed_confusion", "get_printed_score", "get_printed_triplets", "make_records"]

Record = dict[str, Any]

#: The data set of Tables 4 and 5.
_COVID = "covid-resnet18"


@cache
def _read_printed() -> dict[str, Any]:
    """Numbers that the paper prints."""
    held: dict[str, Any] = json.loads(resources.files(__package__).joinpath("printed.json").read_text("utf-8"))
    return held


def get_printed_score(
    dataset: str, noise: float | str, method: str, metric: str = METRICS[0]
) -> tuple[float | None, float | None]:
    """Mean and standard deviation in Table 3, for COVID-19 in Table 4; None if nothing is printed.

    Examples
    --------
    >>> get_printed_score("wine", 20, "Robust-LODML"), get_printed_score("wine", 30, "Robust-LODML")
    ((95.29, 6.68), (None, None))
    >>> get_printed_score("covid-resnet18", 20, "Robust-ODML", "Sensitivity")
    (97.94, 2.03)
    """
    if dataset == _COVID:
        rows = _read_printed()["table4"][metric]
    else:
        rows = _read_printed()["table3"].get(dataset, {}) if metric == METRICS[0] else {}
    mean, std = rows.get(method, {}).get(noise if isinstance(noise, str) else f"{noise:g}", (None, None))
    return mean, std


def get_printed_confusion(dataset: str, noise: float | str, method: str) -> list[list[float]] | None:
    """Mean confusion matrix in Table 5, ``[[TP, FN], [FP, TN]]``.

    Examples
    --------
    >>> get_printed_confusion("covid-resnet18", 20, "Robust-ODML")
    [[42.8, 1.0], [9.2, 259.0]]
    """
    if dataset != _COVID or noise != 20:
        return None
    found: list[list[float]] | None = _read_printed()["table5"].get(method)
    return found


def get_printed_triplets() -> dict[str, dict[str, tuple[int, float | None]]]:
    """Count and mean hinge in Table 1, by source and kind of triplet.

    Examples
    --------
    >>> get_printed_triplets()["OCTG"]["noisy"]
    (35, 1.67)
    """
    return {
        source: {kind: (count, hinge) for kind, (count, hinge) in rows.items()}
        for source, rows in _read_printed()["table1"].items()
    }


def make_records(
    outcomes: Iterable[Outcome], metrics: tuple[str, ...] = METRICS[:1], *, matrix: bool = False
) -> list[Record]:
    """One record per cell and metric; all numbers in percent.

    Parameters
    ----------
    outcomes : iterable of Outcome
        Measured cells.
    metrics : tuple of str
        Names in ``METRICS``; all but the first need two classes.
    matrix : bool
        Whether to add the mean confusion matrix.
    """
    return [_make_record(outcome, metric, matrix=matrix) for outcome in outcomes for metric in metrics]


def _make_record(outcome: Outcome, metric: str, *, matrix: bool) -> Record:
    cell = outcome.cell
    if metric == METRICS[0]:
        mean, std = summarise(outcome.accuracies)
    else:
        mean, std = summarise([score_binary(one)[metric] for one in outcome.confusions or []])
    # The paper has uniform noise, and ignores that rows have copies.
    comparable = cell.kind == "uniform" and not cell.grouped
    place = cell.dataset, cell.noise, cell.method
    paper_mean, paper_std = get_printed_score(*place, metric) if comparable else (None, None)
    record: Record = {
        "dataset": cell.dataset,
        "noise": cell.noise,
        "method": cell.method,
        "selection": cell.selection,
        "metric": metric,
        "mean": mean,
        "std": std,
        "folds": len(outcome.accuracies),
        "paper_mean": paper_mean,
        "paper_std": paper_std,
        "difference": None if paper_mean is None else mean - paper_mean,
        "params": outcome.params,
        "seconds": outcome.seconds,
        "kind": cell.kind,
        "grouped": cell.grouped,
        "draws": cell.n_draws,
        "budget": cell.budget,
        "seed": cell.seed,
    }
    if matrix:
        record["confusion"] = np.mean(outcome.confusions or [], axis=0).tolist()
        record["paper_confusion"] = get_printed_confusion(*place) if comparable else None
    return record
