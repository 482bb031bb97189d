"""Triplet sources, literally: OCTG (sec. 3.15), one-pass (sec. 3.5) and LMNN batch triplets (sec. 3.12).

All distances are squared Euclidean (A12, A15); all orderings are stable, so the lower index wins a tie.
"""

from collections.abc import Hashable, Sequence

import numpy as np

from .common import Array


def squared_distance(x: Array, y: Array) -> float:
    """||x - y||^2."""
    return float(np.sum((x - y) ** 2))


def octg(
    X: Array, y: Sequence[Hashable], centers: Array, center_labels: Sequence[Hashable], margin: float = 1.0
) -> list[tuple[int, int, int]]:
    """OCTG with fixed centres, paper sec. 3.4: (row, positive centre, negative centre).

    V_plus is the nearest centre of the row's class. A centre V_minus of another class that violates
    d^2(x, V_plus) + margin < d^2(x, V_minus) is an impostor; impostors come nearest first (A32).
    A row whose class has no centre gives no triplet.
    """
    triplets = []
    for row, (x, label) in enumerate(zip(X, y, strict=True)):
        d2 = [squared_distance(x, V) for V in centers]
        own = [i for i, other in enumerate(center_labels) if other == label]
        others = [i for i, other in enumerate(center_labels) if other != label]
        if not own:
            continue
        positive = min(own, key=lambda i: d2[i])  # closest centre of the same class
        impostors = [i for i in others if not d2[positive] + margin < d2[i]]
        triplets += [(row, positive, negative) for negative in sorted(impostors, key=lambda i: d2[i])]
    return triplets


def one_pass(X: Array, y: Sequence[Hashable]) -> list[tuple[int, int, int]]:
    """One-pass triplets of OPML, sec. 3.5: (row, positive row, negative row).

    Keeps the newest row of every class, classes in order of registration, and the previous row. With two
    classes seen, y among them: if the previous row has label y it is the positive, and the negative is the
    newest row of the class registered last (of the one before it, if that class is y itself); otherwise
    the previous row is the negative and the newest row of class y the positive.
    """
    triplets: list[tuple[int, int, int]] = []
    newest: dict[Hashable, int] = {}  # class -> row; a dict keeps the order of registration
    for row in range(len(X)):
        label = y[row]
        if len(newest) >= 2 and label in newest:
            previous = row - 1
            if y[previous] == label:
                registered = list(newest)
                last = registered[-1] if registered[-1] != label else registered[-2]
                triplets.append((row, previous, newest[last]))
            else:
                triplets.append((row, newest[label], previous))
        newest[label] = row  # then store x
    return triplets


def batch(X: Array, y: Sequence[Hashable], k: int, margin: float = 1.0) -> list[tuple[int, int, int]]:
    """LMNN triplets, sec. 3.12: (row i, target neighbour j, impostor l).

    Targets of i: its k nearest rows of the same class, i excluded (all of them when there are fewer).
    Impostors of (i, j): rows l of other classes with d^2(i, l) <= margin + d^2(i, j). Both nearest first.
    """
    triplets = []
    n = len(X)
    for i in range(n):
        d2 = [squared_distance(X[i], X[j]) for j in range(n)]
        same = sorted((j for j in range(n) if j != i and y[j] == y[i]), key=lambda j: d2[j])
        other = sorted((j for j in range(n) if y[j] != y[i]), key=lambda j: d2[j])
        for target in same[:k]:
            triplets += [(i, target, imp) for imp in other if d2[imp] <= margin + d2[target]]
    return triplets


def weighted_centre_update(center: Array, count: float, x: Array, weight: float) -> tuple[Array, float]:
    """n_V <- n_V + w, V <- V + (w / n_V) (x - V), sec. 3.15(4); returns the new V and n_V.

    A weight of zero on a count of zero changes nothing.
    """
    new_count = count + weight
    if new_count == 0.0:
        return center.copy(), new_count
    return center + (weight / new_count) * (x - center), new_count
