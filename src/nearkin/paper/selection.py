"""Three ways to choose parameters: not at all, on the folds that also judge, or on inner folds with noisy labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nearkin.paper.methods import Method
from nearkin.paper.protocol import Split, parts

__all__ = ["N_INNER", "SELECTIONS", "inner_splits", "search"]

Params = dict[str, Any]

#: "default" changes nothing; "folds" takes what is best on the evaluation folds, as the paper seems to have done, which
#: flatters; "nested" chooses for every fold anew, by inner folds of its noisy training labels.
SELECTIONS = ("default", "folds", "nested")

#: Inner folds of "nested".
N_INNER = 3

#: The best settings of which variants are tried.
N_PARENTS = 5


def search(method: Method, n_features: int, budget: int, seed: int, score: Callable[[Params], float]) -> Params:
    """Setting with the highest score among ``budget``; the first of equals.

    The defaults are tried first. Then the first half of the settings is drawn at random, the other half are variants of
    the best so far.

    Examples
    --------
    >>> from nearkin.paper.methods import METHODS
    >>> found = search(METHODS["Robust-ODML"], 13, 50, 0, lambda params: -abs(params.get("eta", 1.0) - 3.0))
    >>> 2.5 < found["eta"] < 3.5
    True
    >>> search(METHODS["Euclidean"], 13, 50, 0, lambda params: 0.0)
    {}
    """
    if not method.space:
        return {}
    rng = np.random.default_rng(seed)
    tried: list[tuple[float, Params]] = []
    for i in range(budget):
        if i == 0:
            params: Params = {}
        elif i <= budget // 2:
            params = method.draw(n_features, rng)
        else:
            tried.sort(key=lambda one: -one[0])  # stable: the first of equals stays first
            params = method.vary(tried[rng.integers(min(N_PARENTS, i))][1], n_features, rng)
        tried.append((score(params), params))
    return max(tried, key=lambda one: one[0])[1]


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
