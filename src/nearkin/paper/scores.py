"""Scores of predictions: accuracy, and the six metrics of Eqs. (34) to (39) for two classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["METRICS", "Confusion", "count_outcomes", "score_binary", "summarise"]

#: In the order of Table 4.
METRICS = ("Accuracy", "Sensitivity", "Precision", "Specificity", "G-mean", "F1-Score")

#: ``[[TP, FN], [FP, TN]]``, the layout of Table 5.
Confusion = list[list[float]]


def count_outcomes(y: NDArray[Any], predicted: NDArray[Any]) -> Confusion:
    """Count right and wrong predictions; class 1 is the positive one.

    Examples
    --------
    >>> count_outcomes(np.array([1, 1, 0, 0, 0]), np.array([1, 0, 1, 0, 0]))
    [[1.0, 1.0], [1.0, 2.0]]
    """
    positive, found = y == 1, predicted == 1
    table = [[positive & found, positive & ~found], [~positive & found, ~positive & ~found]]
    return [[float(one.sum()) for one in row] for row in table]


def score_binary(table: Confusion) -> dict[str, float]:
    """Eqs. (34) to (39) in percent; a share of nothing is 0.

    Examples
    --------
    >>> found = score_binary([[42.8, 1.0], [9.2, 259.0]])
    >>> {name: round(value, 2) for name, value in found.items()}["Sensitivity"]
    97.72
    """
    (tp, fn), (fp, tn) = table
    sensitivity, precision, specificity = _share(tp, tp + fn), _share(tp, tp + fp), _share(tn, tn + fp)
    values = (
        _share(tp + tn, tp + fn + fp + tn),
        sensitivity,
        precision,
        specificity,
        math.sqrt(sensitivity * specificity),
        _share(2 * precision * sensitivity, precision + sensitivity),
    )
    return {name: 100.0 * value for name, value in zip(METRICS, values, strict=True)}


def summarise(values: list[float]) -> tuple[float, float]:
    """Mean and sample standard deviation; the latter is 0 for a single value.

    Examples
    --------
    >>> summarise([90.0, 94.0])[0], round(summarise([90.0, 94.0])[1], 2), summarise([90.0])
    (92.0, 2.83, (90.0, 0.0))
    """
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
