"""The tables as data, and how one cell of them is measured: its folds, its parameters, the outcome."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from nearkin.datasets import Dataset, info
from nearkin.paper.methods import GRID, METHODS, PAPER, Method
from nearkin.paper.protocol import Split, derive_seed, draw_splits, split_inside
from nearkin.paper.scores import METRICS, Confusion, count_outcomes
from nearkin.paper.sources import digest_sources

__all__ = [
    "SELECTIONS", "SEVEN", "TABLES", "Cell", "Measurement", "Outcome", "Table", "list_cells", "measure", "narrow",
    "search", "shrink",
]  # fmt: skip

Params = dict[str, Any]

#: "default" changes nothing but how rows come, which inner folds choose; "folds" takes the setting that is best on the
#: evaluation folds, as the paper seems to have done, which flatters; "nested" chooses for every fold anew, on inner
#: folds of its noisy training labels.
SELECTIONS = ("default", "folds", "nested")

#: A search varies one of this many best settings.
N_PARENTS = 5

#: The data sets of Table 3.
SEVEN = ("wine", "letters", "yale", "ionosphere", "wdbc", "australian", "german")
_COVID = ("covid-resnet18", "covid-mobilenetv2")
_LEVELS = (0.0, 5.0, 10.0, 15.0, 20.0)

#: Settings that a quick run tries; any number would do for a look.
_QUICK_BUDGET = 4

#: Rows beyond which a search tries a fifth of the settings: a fit there costs as much as dozens on the small sets.
_MANY_ROWS = 2000


@dataclass(frozen=True)
class Table:
    """An experiment: the product of its data sets, levels of noise, columns and kinds of folds is what it measures.

    ``noise`` are percentages, none if people gave the labels. Folds are plain, or keep copies together (``grouped``),
    or both. ``matrix`` adds confusion matrices to the report; ``selection`` is one of ``SELECTIONS``. ``settings`` has
    for a data set and a column settings that a search tries first.
    """

    name: str
    title: str
    datasets: tuple[str, ...]
    noise: tuple[float, ...] = ()
    methods: tuple[str, ...] = PAPER
    metrics: tuple[str, ...] = METRICS[:1]
    grouped: tuple[bool, ...] = (False,)
    matrix: bool = False
    quick_datasets: tuple[str, ...] = ("wine", "wdbc")
    selection: str = "default"
    kind: str = "uniform"
    seed: int = 0
    n_draws: int = 1
    budget: int = 32
    settings: Mapping[str, Mapping[str, list[Params]]] = field(default_factory=dict)


TABLES = {
    table.name: table
    for table in (
        Table("table1", "Table 1: triplets that wrong labels spoil", ("wine",), (10.0,), (), n_draws=50),
        Table("table3", "Table 3: accuracy of kNN under label noise", SEVEN, _LEVELS),
        Table(
            "table4", "Table 4: COVID-19, six metrics", _COVID, _LEVELS,
            metrics=METRICS, grouped=(False, True), quick_datasets=_COVID[:1],
        ),
        Table(
            "table5", "Table 5: COVID-19, mean confusion matrices", _COVID, (20.0,),
            ("Robust-LODML", "Robust-ODML", "nearkin"),
            grouped=(False, True), matrix=True, quick_datasets=_COVID[:1],
        ),
        Table("grid", "What each part adds: triplets, loss and classifier", SEVEN, (0.0, 10.0, 20.0), GRID),
    )
}  # fmt: skip


def shrink(table: Table) -> Table:
    """Quick form of a table: small data sets, from scikit-learn if possible, and two levels of noise."""
    names = tuple(name for name in table.quick_datasets if name in table.datasets)
    noise = tuple(one for one in table.noise if one in (0.0, 10.0, 20.0))
    ends = tuple(dict.fromkeys((*noise[:1], *noise[-1:])))
    return replace(table, datasets=names, noise=ends, budget=_QUICK_BUDGET)


def narrow(table: Table, **changes: Any) -> Table:
    """Replace fields of a table after checking that they suit it; None leaves a field as it is."""
    changes = {name: value for name, value in changes.items() if value is not None}
    for name in changes.get("datasets", ()):
        _check_dataset(table, name)
        if info(name).groups is None:
            table = replace(table, grouped=(False,))
    if "noise" in changes and (not table.noise or table.name == "table1"):
        raise ValueError(f"the noise of {table.name} is fixed.")
    unknown = [name for name in changes.get("methods", ()) if name not in table.methods]
    if unknown:
        raise ValueError(f"{table.name} has no column {unknown[0]!r}; it has {', '.join(table.methods) or 'none'}.")
    return replace(table, **changes)


def _check_dataset(table: Table, name: str) -> None:
    entry = info(name)  # an unknown name is an error
    if (table.matrix or len(table.metrics) > 1) and entry.n_classes != 2:
        raise ValueError(f"{table.name} needs two classes; {name} has {entry.n_classes}.")
    if not table.noise and not entry.noisy_labels:
        raise ValueError(f"{table.name} needs labels that people gave; {name} has none.")
    if table.name == "table1" and name != "wine":
        raise ValueError("table1 is about wine only.")


def list_cells(table: Table, data: dict[str, Dataset]) -> list[Cell]:
    """Cells of a table in the order of its lists, for the data sets that were found."""
    cells = []
    for dataset in (name for name in table.datasets if name in data):
        levels: tuple[float | str, ...] = table.noise or tuple(data[dataset].noisy_labels)
        kind = table.kind if table.noise else "human"
        budget = max(1, table.budget // 5) if len(data[dataset].X) > _MANY_ROWS else table.budget
        if table.selection == "default":
            budget = 0
        cells += [
            Cell(
                dataset, noise, method, table.selection, kind, grouped, table.seed, table.n_draws, budget,
                tuple(json.dumps(one) for one in table.settings.get(dataset, {}).get(method, ())) if budget else (),
            )
            for noise, grouped, method in product(levels, table.grouped, table.methods)
        ]  # fmt: skip
    return cells


@dataclass(frozen=True)
class Cell:
    """Everything that decides the number in a cell.

    ``noise`` is a percentage of wrong training labels, or the name of labels that people gave; ``budget`` is the number
    of settings that a search tries, the first of them those of ``given``, as JSON. The other fields are as in `Table`
    and `draw_splits`.
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
    given: tuple[str, ...] = ()

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
        cell = held["cell"]
        return cls(**held | {"cell": Cell(**cell | {"given": tuple(cell.get("given", ()))})})


@dataclass(frozen=True)
class Outcome(Measurement):
    """Accuracies of a cell in percent, one per fold of every draw, and confusions if there are two classes.

    ``params`` is what differs from the defaults; for "nested" there is one setting per fold. ``seconds`` include the
    search. ``sources`` is the digest of the code that measured it.
    """

    accuracies: list[float]
    confusions: list[Confusion] | None
    params: Params | list[Params]
    seconds: float
    sources: str = ""

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
    shown: Params | list[Params] = used if _differs_by_fold(cell, method) else used[0]
    sources = digest_sources("nearkin" if method.raw else "paper")
    return Outcome(cell, accuracies, confusions, shown, time.perf_counter() - begun, sources)


def _differs_by_fold(cell: Cell, method: Method) -> bool:
    """Whether every fold has parameters of its own."""
    return bool(method.space) and (
        cell.selection == "nested" or (cell.selection == "default" and len(method.forms) > 1)
    )


def choose_params(cell: Cell, method: Method, rate: float, folds: list[Split]) -> list[Params]:
    """Parameters for every fold, chosen as the cell says."""
    if cell.selection == "default" or not method.space:
        return [choose_form(method, rate, fold) for fold in folds]

    def choose_on(inner: list[Split]) -> Params:
        seed = derive_seed(cell.seed, cell.dataset, cell.method)
        score = partial(_score_setting, method, rate, inner)
        first = [*map(json.loads, cell.given), *method.first]
        return search(method, folds[0].train.shape[1], cell.budget, seed, score, first)

    if cell.selection == "folds":
        return [choose_on(folds)] * len(folds)
    return [choose_on(split_inside(fold)) for fold in folds]


def choose_form(method: Method, rate: float, fold: Split) -> Params:
    """One of the forms of a method: the one with the most right answers about noisy labels that were left out.

    It sees neither right labels nor test rows. Where rows are many, one inner fold is enough.
    """
    if len(method.forms) == 1:
        return method.forms[0]
    inner = split_inside(fold)[: 1 if len(fold.labels) > _MANY_ROWS else None]
    return max(method.forms, key=lambda form: _score_setting(method, rate, inner, form))


def search(
    method: Method, n_features: int, budget: int, seed: int, score: Callable[[Params], float],
    first: Sequence[Params] = (),
) -> Params:  # fmt: skip
    """Setting with the highest score among ``budget``; the first of equals.

    The search tries the defaults first, then the settings ``first``. Of the others it draws some at random, up to half
    of all; the rest are variants of the best so far.
    """
    if not method.space:
        return {}
    rng = np.random.default_rng(seed)
    tried: list[tuple[float, Params]] = []
    for i in range(budget):
        if i <= len(first):
            params: Params = ({}, *first)[i]
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
    train, test = (fold.raw_train, fold.raw_test) if method.takes_raw(params) else (fold.train, fold.test)
    found: NDArray[Any] = method.build(params, rate, fold.seed).fit(train, fold.labels).predict(test)
    return found


def _score_accuracy(found: NDArray[Any], fold: Split) -> float:
    return 100.0 * float(np.mean(found == fold.test_labels))
