"""Structures that all sweeps take. Importing this module does not load numba."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["StepRule", "TripletRows"]


class TripletRows(NamedTuple):
    """Rows of a set of triplets and, for every triplet, the numbers of its three rows."""

    anchors: NDArray[np.floating]
    positives: NDArray[np.floating]
    negatives: NDArray[np.floating]
    anchor: NDArray[np.int64]
    positive: NDArray[np.int64]
    negative: NDArray[np.int64]


class StepRule(NamedTuple):
    """Limits of a step: ``C`` of every triplet, the loss's parameters and the number of half-quadratic iterations."""

    C: NDArray[np.float64]
    params: tuple[float, float]
    max_hq_iter: int
