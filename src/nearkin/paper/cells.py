"""One cell of a table: what to measure, how to choose its parameters, and the outcome."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from nearkin.datasets import Dataset
from nearkin.paper.methods import METHODS, Method
from nearkin.paper.protocol import Split, derive_seed, draw_splits, split_inside
from nearkin.paper.scores import Confusion, count_outcomes

__all__ = ["SELECTIONS", "Cell", "Measurement", "Outcome", "measure", "search"]

Params = dict[str, Any]

#: "default" changes nothing; "folds" takes the setting that is best on the evaluation folds, as the paper seems to have
#: done, which flatters; "nested" chooses for every fold anew, on inner folds of its noisy training labels.
SELECTIONS = ("default", "folds", "nested")

#: A search varies one of this many best settings.
N_PARENTS = 5


@dataclass(frozen=True)
class Cell:
    """Everything that decides the number in a cell.

    ``noise`` is a percentage of wrong training labels, or the name of labels that people gave; ``budget`` is the number
    of settings that a search tries. The other fields are as in `Table` and `draw_splits`.
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
        """Text that differs between any two cells; 20 and 20.0 are the same noise."""
        noise = self.noise if isinstance(self.noise, str) else float(self.noise)
        return json.dumps(asdict(self) | {"noise": noise}, sort_keys=True)

    @property
    def noise_text(self) -> str:
        """The noise as readers see it."""
        return self.noise if isinstance(self.noise, str) else f"{self.noise:g} %"


@dataclass(frozen=True)
class Measurement:
    """A measured cell, which a log keeps as one line."""

    cell: Cell

    def to_line(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_line(cls, line: str) -> Self:
        """Inverse of `to_line`."""
        held = json.loads(line)
        return cls(**held | {"cell": Cell(**held["cell"])})


@dataclass(frozen=True)
class Outcome(Measurement):
    """Accuracies of a cell in percent, one per fold of every draw, and confusions if there are two classes.

    ``params`` is what differs from the defaults; for "nested" there is one setting per fold. ``seconds`` include the
    search.
    """

    accuracies: list[float]
    confusions: list[Confusion] | None
    params: Params | list[Params]
    seconds: float

    def __str__(self) -> str:
        cell = self.cell
        return f"{cell.dataset}, {cell.noise_text}, {cell.method}: {np.mean(self.accuracies):.2f}"


def measure(cell: Cell, data: Dataset, methods: Mapping[str, Method] = METHODS) -> Outcome:
    """Choose parameters as the cell says, then fit and test on every fold; the numbers are the same everywhere."""
    begun = time.perf_counter()
    method = methods[cell.method]
    with threadpool_limits(1):
        rate = data.info.noisy_labels[cell.noise].wrong if isinstance(cell.noise, str) else cell.noise / 100.0
        folds = list(
            draw_splits(data, cell.noise, cell.kind, grouped=cell.grouped, seed=cell.seed, n_draws=cell.n_draws)
        )
        chosen = choose_params(cell, method, rate, folds)
        fitted = [_predict_or_default(method, params, rate, fold) for params, fold in zip(chosen, folds, strict=True)]
    predictions, used = [found for found, _ in fitted], [params for _, params in fitted]
    accuracies = [_score_accuracy(found, fold) for found, fold in zip(predictions, folds, strict=True)]
    confusions = None
    if len(np.unique(data.y)) == 2:
        confusions = [count_outcomes(fold.test_labels, found) for found, fold in zip(predictions, folds, strict=True)]
    shown: Params | list[Params] = used if cell.selection == "nested" and method.space else used[0]
    return Outcome(cell, accuracies, confusions, shown, time.perf_counter() - begun)


def choose_params(cell: Cell, method: Method, rate: float, folds: list[Split]) -> list[Params]:
    """Parameters for every fold, chosen as the cell says."""
    if cell.selection == "default" or not method.space:
        return [{}] * len(folds)

    def choose_on(inner: list[Split]) -> Params:
        seed = derive_seed(cell.seed, cell.dataset, cell.method)
        score = partial(_score_setting, method, rate, inner)
        return search(method, folds[0].train.shape[1], cell.budget, seed, score)

    if cell.selection == "folds":
        return [choose_on(folds)] * len(folds)
    return [choose_on(split_inside(fold)) for fold in folds]


def search(method: Method, n_features: int, budget: int, seed: int, score: Callable[[Params], float]) -> Params:
    """Setting with the highest score among ``budget``; the first of equals.

    The search tries the defaults first. It draws the first half of the settings at random; the other half are variants
    of the best so far.
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


def _score_setting(method: Method, rate: float, folds: list[Split], params: Params) -> float:
    """Mean accuracy over folds; minus infinity for a setting with which the learner diverges."""
    try:
        return float(np.mean([_score_accuracy(_predict(method, params, rate, fold), fold) for fold in folds]))
    except ValueError:
        if not params:  # the defaults must work
            raise
        return -np.inf


def _predict_or_default(method: Method, params: Params, rate: float, fold: Split) -> tuple[NDArray[Any], Params]:
    """Predictions and the parameters behind them: the defaults if those chosen on inner folds diverge here."""
    try:
        return _predict(method, params, rate, fold), params
    except ValueError:
        if not params:
            raise
        return _predict(method, {}, rate, fold), {}


def _predict(method: Method, params: Params, rate: float, fold: Split) -> NDArray[Any]:
    train, test = (fold.raw_train, fold.raw_test) if method.raw else (fold.train, fold.test)
    found: NDArray[Any] = method.build(params, rate, fold.seed).fit(train, fold.labels).predict(test)
    return found


def _score_accuracy(found: NDArray[Any], fold: Split) -> float:
    return 100.0 * float(np.mean(found == fold.test_labels))
