"""The tables as data: which data sets, how much noise, which columns, and how to choose parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from nearkin.datasets import Dataset, info
from nearkin.paper.cells import Cell
from nearkin.paper.methods import GRID, PAPER
from nearkin.paper.scores import METRICS

__all__ = ["SEVEN", "TABLES", "Table", "list_cells", "narrow", "shrink"]

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
    or both. ``matrix`` adds confusion matrices to the report; ``selection`` is one of ``SELECTIONS``.
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
            Cell(dataset, noise, method, table.selection, kind, grouped, table.seed, table.n_draws, budget)
            for noise, grouped, method in product(levels, table.grouped, table.methods)
        ]
    return cells
