"""Algorithm 5, literally: Robust-kNN (sec. 3.16)."""

from collections.abc import Callable, Hashable, Sequence
from math import floor

import numpy as np

from .common import Array


def robust_knn(
    X_train: Array,
    y_train: Sequence[Hashable],
    weights: Array,
    X_test: Array,
    k: int,
    noise_rate: float,
    measure: Callable[[Array, Array], float],
) -> np.ndarray:
    """Labels of `X_test` by weighted votes of the k nearest kept rows; smaller `measure(x, y)` is closer.

    The paper's second eta is `noise_rate` (A17); votes are weighted by the instance weights (A18). The
    lower row wins a tie in weight (it is dropped first) or in distance (it counts as nearer); a tie in the
    vote goes to the class of the nearest neighbour among the tied classes.
    """
    n = len(X_train)
    order = np.argsort(weights, kind="stable")  # Alg. 5, 1
    n_dropped = floor(noise_rate * n + 1e-9)
    kept = sorted(int(i) for i in order[n_dropped:])  # Alg. 5, 2; back in row order

    predicted = []
    for x in X_test:  # Alg. 5, 3
        neighbours = sorted(kept, key=lambda i: measure(x, X_train[i]))[:k]  # 3.1; sorted() is stable
        votes: dict[Hashable, float] = {}  # in order of the nearest neighbour of each class
        for i in neighbours:
            votes[y_train[i]] = votes.get(y_train[i], 0.0) + float(weights[i])
        predicted.append(max(votes, key=lambda label: votes[label]))  # 3.2; max() keeps the first of a tie
    return np.array(predicted)
