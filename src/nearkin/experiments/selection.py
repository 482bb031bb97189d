"""Three ways to choose parameters: not at all, on the folds that also judge, or on inner folds with noisy labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nearkin.experiments.methods import Method
from nearkin.experiments.protocol import Split, parts

__all__ = ["N_INNER", "SELECTIONS", "best", "candidates", "inner_splits"]

#: "default" changes nothing; "folds" takes what is best on the evaluation folds, as the paper seems to have done, which
#: flatters; "nested" chooses for every fold anew, by inner folds of its noisy training labels.
SELECTIONS = ("default", "folds", "nested")

#: Inner folds of "nested".
N_INNER = 3


def candidates(method: Method, n_features: int, budget: int, seed: int) -> list[dict[str, Any]]:
    """Settings to try: the defaults first, then random ones.

    Examples
    --------
    >>> from nearkin.experiments.methods import METHODS
    >>> tried = candidates(METHODS["Robust-ODML"], 13, 3, seed=0)
    >>> tried[0], sorted(tried[1])
    ({}, ['C', 'eta', 'n_centers', 'n_epochs'])
    >>> candidates(METHODS["Euclidean"], 13, 3, seed=0)
    [{}]
    """
    if not method.space:
        return [{}]
    rng = np.random.default_rng(seed)
    return [{}] + [method.draw(n_features, rng) for _ in range(budget - 1)]


def best(tried: Sequence[dict[str, Any]], score: Callable[[dict[str, Any]], float]) -> dict[str, Any]:
    """Setting with the highest score; the first of equals.

    Examples
    --------
    >>> best([{"C": 1}, {"C": 3}, {"C": 2}], lambda params: -abs(params["C"] - 2.5))
    {'C': 3}
    """
    if len(tried) == 1:
        return tried[0]
    return max(tried, key=score)


def inner_splits(split: Split) -> list[Split]:
    """Folds inside a training part, judged by its labels as given: neither right labels nor test rows are seen."""
    found = []
    for train, test in parts(split.labels, N_INNER, split.seed):
        found.append(
            Split(
                split.train[train],
                split.labels[train],
                split.train[test],
                split.labels[test],
                split.raw_train[train],
                split.raw_train[test],
                split.seed,
            )
        )
    return found
