"""One cell of a table: what is to be measured, and what came out."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.datasets import Dataset
from nearkin.paper.methods import METHODS, Method
from nearkin.paper.protocol import Split, seed_of, splits
from nearkin.paper.scores import Confusion, confusion
from nearkin.paper.selection import inner_splits, search

__all__ = ["Cell", "Outcome", "measure"]

Params = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """Everything that decides the number in a cell.

    Parameters
    ----------
    dataset : str
        Name in the registry.
    noise : float or str
        Percentage of wrong training labels, or the name of labels that people gave.
    method : str
        Name in ``METHODS``.
    selection : str
        One of ``SELECTIONS``.
    kind : str
        Kind of noise.
    grouped : bool
        Whether copies stay in the same fold.
    seed : int
        Of folds, noise, search and learners.
    n_draws : int
        How often folds and noise are drawn.
    budget : int
        Settings tried by a search; 0 where nothing is searched.
    """

    dataset: str
    noise: float | str
    method: str
    selection: str = "default"
    kind: str = "uniform"
    grouped: bool = False
    seed: int = 0
    n_draws: int = 1
    budget: int = 0

    @property
    def key(self) -> str:
        """Text that differs between any two cells.

        Examples
        --------
        >>> Cell("wine", 20, "ODML").key == Cell("wine", 20.0, "ODML").key != Cell("wine", 20, "OPML").key
        True
        """
        noise = self.noise if isinstance(self.noise, str) else float(self.noise)
        return json.dumps(asdict(self) | {"noise": noise}, sort_keys=True)


@dataclass(frozen=True)
class Outcome:
    """What a cell came to, fold by fold.

    Parameters
    ----------
    cell : Cell
        What was measured.
    accuracies : list of float
        In percent, one per fold of every draw.
    confusions : list or None
        ``[[TP, FN], [FP, TN]]`` per fold, where there are two classes.
    params : dict or list of dict
        What differs from the defaults; for "nested" one setting per fold.
    seconds : float
        Time spent, search included.
    """

    cell: Cell
    accuracies: list[float]
    confusions: list[Confusion] | None
    params: Params | list[Params]
    seconds: float

    def as_line(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_line(cls, line: str) -> Outcome:
        """Inverse of `as_line`."""
        held = json.loads(line)
        return cls(**held | {"cell": Cell(**held["cell"])})


def measure(cell: Cell, data: Dataset) -> Outcome:
    """Choose parameters as the cell says, fit and test on every fold; the same numbers wherever it runs."""
    from threadpoolctl import threadpool_limits

    begun = time.perf_counter()
    method = METHODS[cell.method]
    with threadpool_limits(1):
        rate = data.info.noisy_labels[cell.noise].wrong if isinstance(cell.noise, str) else cell.noise / 100.0
        folds = list(splits(data, cell.noise, cell.kind, grouped=cell.grouped, seed=cell.seed, n_draws=cell.n_draws))
        wanted = _chosen(cell, method, rate, folds)
        fitted = [_fitted(method, params, rate, fold) for params, fold in zip(wanted, folds, strict=True)]
    predictions, chosen = [found for found, _ in fitted], [params for _, params in fitted]
    accuracies = [_accuracy(found, fold) for found, fold in zip(predictions, folds, strict=True)]
    confusions = None
    if len(np.unique(data.y)) == 2:
        confusions = [confusion(fold.test_labels, found) for found, fold in zip(predictions, folds, strict=True)]
    shown: Params | list[Params] = chosen if cell.selection == "nested" and method.space else chosen[0]
    return Outcome(cell, accuracies, confusions, shown, time.perf_counter() - begun)


def _chosen(cell: Cell, method: Method, rate: float, folds: list[Split]) -> list[Params]:
    """Parameters for every fold."""
    if cell.selection == "default" or not method.space:
        return [{}] * len(folds)

    def found(judged: list[Split]) -> Params:
        seed = seed_of(cell.seed, cell.dataset, cell.method)
        score = partial(_mean_accuracy, method, rate, judged)
        return search(method, folds[0].train.shape[1], cell.budget, seed, score)

    if cell.selection == "folds":
        return [found(folds)] * len(folds)
    return [found(inner_splits(fold)) for fold in folds]


def _mean_accuracy(method: Method, rate: float, folds: list[Split], params: Params) -> float:
    """Mean over folds; minus infinity for a setting with which the learner diverges."""
    try:
        return float(np.mean([_accuracy(_predictions(method, params, rate, fold), fold) for fold in folds]))
    except ValueError:
        if not params:  # the defaults must work
            raise
        return -np.inf


def _fitted(method: Method, params: Params, rate: float, fold: Split) -> tuple[NDArray[Any], Params]:
    """Predictions and the parameters behind them: the defaults, where those chosen on inner folds diverge here."""
    try:
        return _predictions(method, params, rate, fold), params
    except ValueError:
        if not params:
            raise
        return _predictions(method, {}, rate, fold), {}


def _predictions(method: Method, params: Params, rate: float, fold: Split) -> NDArray[Any]:
    train, test = (fold.raw_train, fold.raw_test) if method.raw else (fold.train, fold.test)
    model = method.build(params, rate, fold.seed).fit(train, fold.labels)
    found: NDArray[Any] = model.predict(test)
    return found


def _accuracy(found: NDArray[Any], fold: Split) -> float:
    return 100.0 * float(np.mean(found == fold.test_labels))
