"""Scores of predictions (Eqs. (34) to (39) for two classes), and those that the paper prints."""

from __future__ import annotations

import json
import math
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "METRICS", "Confusion", "count_outcomes", "get_printed_confusion", "get_printed_score", "get_printed_triplets",
    "score_binary", "summarise",
]  # fmt: skip

#: In the order of Table 4.
METRICS = ("Accuracy", "Sensitivity", "Precision", "Specificity", "G-mean", "F1-Score")

#: ``[[TP, FN], [FP, TN]]``, the layout of Table 5.
Confusion = list[list[float]]

#: The data set of Tables 4 and 5.
_COVID = "covid-resnet18"


def count_outcomes(y: NDArray[Any], predicted: NDArray[Any]) -> Confusion:
    """Count right and wrong predictions; class 1 is the positive one."""
    positive, found = y == 1, predicted == 1
    table = [[positive & found, positive & ~found], [~positive & found, ~positive & ~found]]
    return [[float(one.sum()) for one in row] for row in table]


def score_binary(table: Confusion) -> dict[str, float]:
    """Eqs. (34) to (39) in percent; a share of nothing is 0."""
    (tp, fn), (fp, tn) = table
    sensitivity, precision, specificity = _share(tp, tp + fn), _share(tp, tp + fp), _share(tn, tn + fp)
    accuracy = _share(tp + tn, tp + fn + fp + tn)
    f1 = _share(2 * precision * sensitivity, precision + sensitivity)
    values = accuracy, sensitivity, precision, specificity, math.sqrt(sensitivity * specificity), f1
    return {name: 100.0 * value for name, value in zip(METRICS, values, strict=True)}


def summarise(values: list[float]) -> tuple[float, float]:
    """Mean and sample standard deviation; the latter is 0 for a single value."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


# ---------------------------------------------------------------------- what the paper prints


@cache
def _read_printed() -> dict[str, Any]:
    """Numbers that the paper prints."""
    held: dict[str, Any] = json.loads(resources.files(__package__).joinpath("printed.json").read_text("utf-8"))
    return held


def get_printed_score(
    dataset: str, noise: float | str, method: str, metric: str = METRICS[0]
) -> tuple[float | None, float | None]:
    """Mean and standard deviation in Table 3, for COVID-19 in Table 4; None if nothing is printed."""
    if dataset == _COVID:
        rows = _read_printed()["table4"][metric]
    else:
        rows = _read_printed()["table3"].get(dataset, {}) if metric == METRICS[0] else {}
    mean, std = rows.get(method, {}).get(noise if isinstance(noise, str) else f"{noise:g}", (None, None))
    return mean, std


def get_printed_confusion(dataset: str, noise: float | str, method: str) -> list[list[float]] | None:
    """Mean confusion matrix in Table 5, ``[[TP, FN], [FP, TN]]``."""
    if dataset != _COVID or noise != 20:
        return None
    found: list[list[float]] | None = _read_printed()["table5"].get(method)
    return found


def get_printed_triplets() -> dict[str, dict[str, tuple[int, float | None]]]:
    """Count and mean hinge in Table 1, by source and kind of triplet."""
    return {
        source: {kind: (count, hinge) for kind, (count, hinge) in rows.items()}
        for source, rows in _read_printed()["table1"].items()
    }
