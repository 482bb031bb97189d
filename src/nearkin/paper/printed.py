"""The numbers that the paper prints, for comparison."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

__all__ = ["confusion", "scores", "triplet_figures"]

#: Name of the scores in Table 3, the metric of kNN with three neighbours.
_ACCURACY = "Accuracy"


@cache
def _tables() -> dict[str, Any]:
    held: dict[str, Any] = json.loads(resources.files(__package__).joinpath("printed.json").read_text("utf-8"))
    return held


def scores(dataset: str, noise: float | str, method: str, metric: str = _ACCURACY) -> tuple[float | None, float | None]:
    """Mean and standard deviation of Table 3, for COVID-19 of Table 4; None where nothing is printed.

    Examples
    --------
    >>> scores("wine", 20, "Robust-LODML"), scores("wine", 30, "Robust-LODML")
    ((95.29, 6.68), (None, None))
    >>> scores("covid-resnet18", 20, "Robust-ODML", "Sensitivity")
    (97.94, 2.03)
    """
    if dataset == "covid-resnet18":
        rows = _tables()["table4"][metric]
    else:
        rows = _tables()["table3"].get(dataset, {}) if metric == _ACCURACY else {}
    mean, std = rows.get(method, {}).get(f"{noise:g}" if not isinstance(noise, str) else noise, (None, None))
    return mean, std


def confusion(dataset: str, noise: float | str, method: str) -> list[list[float]] | None:
    """Mean confusion matrix of Table 5, ``[[TP, FN], [FP, TN]]``.

    Examples
    --------
    >>> confusion("covid-resnet18", 20, "Robust-ODML")
    [[42.8, 1.0], [9.2, 259.0]]
    """
    if dataset != "covid-resnet18" or noise != 20:
        return None
    found: list[list[float]] | None = _tables()["table5"].get(method)
    return found


def triplet_figures() -> dict[str, dict[str, tuple[int, float | None]]]:
    """Count and mean hinge of Table 1 by source and kind of triplet.

    Examples
    --------
    >>> triplet_figures()["OCTG"]["noisy"]
    (35, 1.67)
    """
    return {
        source: {figure: (count, hinge) for figure, (count, hinge) in rows.items()}
        for source, rows in _tables()["table1"].items()
    }
