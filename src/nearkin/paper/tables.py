"""The tables as data: which data sets, how much noise, which columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from nearkin.datasets import Dataset
from nearkin.paper.cells import Cell
from nearkin.paper.methods import GRID, PAPER, RIVALS
from nearkin.paper.scores import METRICS

__all__ = ["QUICK_BUDGET", "TABLES", "Table", "cells_of", "quick"]

_SMALL = ("wine", "letters", "yale", "ionosphere", "wdbc", "australian", "german")
_COVID = ("covid-resnet18", "covid-mobilenetv2")

#: Settings tried in a quick run; any number would do for a look.
QUICK_BUDGET = 4

#: Rows beyond which a search tries a fifth of the settings: a fit there costs as much as dozens of the small sets.
_MANY_ROWS = 2000


@dataclass(frozen=True)
class Table:
    """An experiment: the product of its lists is what is measured.

    Parameters
    ----------
    name : str
        As on the command line.
    title : str
        Heading of the report.
    datasets : tuple of str
        Names in the registry.
    noise : tuple of float
        Percentages; empty where people gave the labels.
    methods : tuple of str
        Columns.
    metrics : tuple of str
        What is reported of every cell.
    grouped : tuple of bool
        Folds: plain, with copies kept together, or both.
    matrix : bool
        Whether confusion matrices are reported.
    quick_datasets : tuple of str
        Data sets of a quick run.
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


TABLES = {
    table.name: table
    for table in (
        Table("table1", "Table 1: triplets that wrong labels spoil", ("wine",), (10.0,), (), quick_datasets=("wine",)),
        Table("table3", "Table 3: accuracy of kNN under label noise", _SMALL, (0.0, 5.0, 10.0, 15.0, 20.0)),
        Table(
            "table4",
            "Table 4: COVID-19, six metrics",
            _COVID,
            (0.0, 5.0, 10.0, 15.0, 20.0),
            metrics=METRICS,
            grouped=(False, True),
            quick_datasets=_COVID[:1],
        ),
        Table(
            "table5",
            "Table 5: COVID-19, mean confusion matrices",
            _COVID,
            (20.0,),
            ("Robust-LODML", "Robust-ODML", "nearkin"),
            grouped=(False, True),
            matrix=True,
            quick_datasets=_COVID[:1],
        ),
        Table("grid", "What each part adds: triplets, loss and classifier", _SMALL, (0.0, 10.0, 20.0), GRID),
        Table(
            "rivals",
            "Rivals without metric learning",
            (*_SMALL, _COVID[0]),
            (0.0, 10.0, 20.0, 30.0),
            (*RIVALS, "nearkin"),
        ),
        Table(
            "human",
            "Labels that people gave",
            ("cifar10n", "music-genres"),
            (),
            (*PAPER, *RIVALS),
            quick_datasets=("music-genres",),
        ),
    )
}


def quick(table: Table) -> Table:
    """The same with small data sets that come with scikit-learn, where there are some, and two levels of noise."""
    noise = tuple(one for one in table.noise if one in (0.0, 10.0, 20.0))
    return replace(table, datasets=table.quick_datasets, noise=tuple(dict.fromkeys((*noise[:1], *noise[-1:]))))


def cells_of(
    table: Table,
    data: dict[str, Dataset],
    *,
    selection: str = "default",
    kind: str = "uniform",
    seed: int = 0,
    n_draws: int = 1,
    budget: int = 0,
) -> list[Cell]:
    """Cells of a table in the order of its lists, for the data sets that are here."""
    out = []
    for dataset in (one for one in table.datasets if one in data):
        levels: tuple[float | str, ...] = table.noise or tuple(data[dataset].noisy_labels)
        for noise, grouped, method in product(levels, table.grouped, table.methods):
            here = kind if table.noise else "human"
            few = max(1, budget // 5) if len(data[dataset].X) > _MANY_ROWS else budget
            tried = 0 if selection == "default" else few
            out.append(Cell(dataset, noise, method, selection, here, grouped, seed, n_draws, tried))
    return out
