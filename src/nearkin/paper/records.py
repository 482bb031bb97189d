"""From outcomes to the records of a table: ours beside what the paper prints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from nearkin.paper import printed
from nearkin.paper.cells import Outcome
from nearkin.paper.scores import METRICS, six_metrics, summary

__all__ = ["records"]

Record = dict[str, Any]


def records(
    outcomes: Iterable[Outcome], metrics: tuple[str, ...] = METRICS[:1], *, matrix: bool = False
) -> list[Record]:
    """One record per cell and metric; all numbers in percent.

    Parameters
    ----------
    outcomes : iterable of Outcome
        Measured cells.
    metrics : tuple of str
        Names out of ``METRICS``; all but the first need two classes.
    matrix : bool
        Whether to add the mean confusion matrix.
    """
    return [_record(outcome, metric, matrix=matrix) for outcome in outcomes for metric in metrics]


def _record(outcome: Outcome, metric: str, *, matrix: bool) -> Record:
    cell = outcome.cell
    mean, std = summary(_values(outcome, metric))
    # The paper has uniform noise, and does not know of the copies.
    comparable = cell.kind == "uniform" and not cell.grouped
    paper_mean, paper_std = (
        printed.scores(cell.dataset, cell.noise, cell.method, metric) if comparable else (None, None)
    )
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
        record["paper_confusion"] = printed.confusion(cell.dataset, cell.noise, cell.method) if comparable else None
    return record


def _values(outcome: Outcome, metric: str) -> list[float]:
    if metric == METRICS[0]:
        return outcome.accuracies
    return [six_metrics(one)[metric] for one in outcome.confusions or []]
