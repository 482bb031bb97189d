"""Settings that were chosen on the evaluation folds, measured on folds and noise that the choice has not seen.

    python -m benchmarks.unseen --out results/unseen --jobs 16

Every cell of ``results/table3-folds`` has the setting with the best accuracy on the folds that also evaluate it, as in
the paper; such a number is the maximum of many. Here the same setting is measured on four other draws of folds and
noise. The difference is what the choice flatters, and the spread over draws is what one draw leaves open.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nearkin import datasets
from nearkin.paper import METHODS, Cell, measure
from nearkin.paper.scores import get_printed_score, summarise

from .units import add_options, measure_all

CHOSEN = Path(__file__).parents[1] / "results" / "table3-folds" / "table3.json"
N_DRAWS = 4


def measure_cell(
    dataset: str, noise: float, method: str, *, chosen: dict[str, Any], folder: Path | None = None
) -> dict[str, Any]:
    """Mean accuracy of every draw, with the setting that the record of the cell has."""
    data, params = datasets.load(dataset, folder), chosen[_name(dataset, noise, method)]["params"]
    methods = {method: replace(METHODS[method], forms=(params,))}
    cells = (Cell(dataset, noise, method, seed=draw + 1) for draw in range(N_DRAWS))
    means = [float(np.mean(measure(cell, data, methods).accuracies)) for cell in cells]
    mean, spread = summarise(means)
    seen = chosen[_name(dataset, noise, method)]["mean"]
    return {
        "params": params, "draws": means, "mean": mean, "spread": spread, "seen": seen,
        "paper_mean": get_printed_score(dataset, noise, method)[0],
    }  # fmt: skip


def read_chosen(path: Path = CHOSEN) -> dict[str, Any]:
    """Cells of the record whose settings are measured, by name."""
    return {_name(one["dataset"], one["noise"], one["method"]): one for one in json.loads(path.read_text("utf-8"))}


def _name(dataset: str, noise: float, method: str) -> str:
    return f"{dataset}, {noise:g}, {method}"


def list_table(records: list[dict[str, Any]]) -> Iterator[str]:
    """Mean and spread over the other draws, and in brackets how much lower than on the folds of the choice."""
    yield "| data | method | " + " | ".join(f"{one:g} %" for one in sorted({one["noise"] for one in records})) + " |"
    yield "| --- | --- |" + " --- |" * len({one["noise"] for one in records})
    for dataset, method in dict.fromkeys((one["dataset"], one["method"]) for one in records):
        cells = sorted(
            (one for one in records if (one["dataset"], one["method"]) == (dataset, method)),
            key=lambda one: one["noise"],
        )
        told = (f"{one['mean']:.1f} ± {one['spread']:.1f} ({one['mean'] - one['seen']:+.1f})" for one in cells)
        yield f"| {dataset} | {method} | " + " | ".join(told) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    given = parser.parse_args()
    chosen = read_chosen()
    units = [{name: one[name] for name in ("dataset", "noise", "method")} for one in chosen.values()]
    if given.quick:
        units = units[:2]
    records = measure_all(
        units, partial(measure_cell, chosen=chosen, folder=given.folder), given.out / "unseen.jsonl", n_jobs=given.jobs
    )
    (given.out / "unseen.json").write_text(json.dumps(records, indent=1) + "\n")
    print(*list_table(records), sep="\n")


if __name__ == "__main__":
    main()
