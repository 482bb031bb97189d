"""Why a robust loss gains little in retrieval with OCTG: mAP of OASIS and Robust-OASIS by step size, eta and centres.

    python -m benchmarks.retrieval_steps --out results/retrieval-steps --jobs 16

COIL-20 with a fifth of the labels wrong, queries and gallery as in `benchmarks.retrieval`, nothing chosen. The mean
plausibility of right and of wrong labels says what the loss holds back. One centre per class is the mean of all its
rows, in which wrong labels cancel; several centres may settle on wrong rows.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit

from nearkin import OASIS, OCTG, RobustOASIS, datasets, flip_labels
from nearkin.paper.methods import as_printed

from .imbalance import find_error, show
from .retrieval import CS, ETAS, rank, score
from .units import add_options, measure_all

CENTERS, NOISE, N_DRAWS = (1, 5), 20.0, 3


def measure(draw: int, n_centers: int, *, folder: Path | None = None) -> dict[str, Any]:
    """mAP by step size and eta (0 is OASIS), and mean plausibilities of right and wrong labels."""
    data = datasets.load("coil20", folder)
    gallery, asked = next(StratifiedShuffleSplit(1, test_size=0.25, random_state=draw).split(data.X, data.y))
    X = data.X.astype(np.float32)
    labels, is_wrong = flip_labels(data.y[gallery], NOISE / 100.0, random_state=draw)
    found = []
    for C, eta in product(CS, (0.0, *ETAS)):
        given = {"C": C, "n_epochs": 5, "random_state": 0, "triplets": OCTG(n_centers=n_centers)}
        made = as_printed(RobustOASIS, eta=eta, **given) if eta else as_printed(OASIS, **given)
        learner = made.fit(X[gallery], labels)
        here = score(rank(learner, X[gallery], X[asked]), data.y[gallery], data.y[asked])["map"]
        weights = learner.plausibility_
        means = [round(float(weights[some].mean()), 4) for some in (~is_wrong, is_wrong)]
        found.append({"C": C, "eta": eta, "map": here, "right": means[0], "wrong": means[1]})
    return {"found": found}


def list_table(runs: list[dict[str, Any]]) -> Iterator[str]:
    """mAP of OASIS by centres and step size, and what Robust-OASIS adds, with standard errors over draws."""
    yield "| centres of a class, C | OASIS | " + " | ".join(f"Robust-OASIS, η = {eta:g}" for eta in ETAS) + " |"
    yield "| --- | --- |" + " --- |" * len(ETAS)
    for n_centers, C in product(CENTERS, CS):
        here = [run["found"] for run in runs if run["n_centers"] == n_centers]
        base, *robust = (
            np.array([one["map"] for some in here for one in some if (one["C"], one["eta"]) == (C, eta)])
            for eta in (0.0, *ETAS)
        )
        cells = [f"{base.mean():.1f} ± {find_error(base):.1f}", *(show(one - base) for one in robust)]
        yield f"| {n_centers}, {C:g} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    given = parser.parse_args()
    places = product(range(1 if given.quick else N_DRAWS), CENTERS)
    units = [{"draw": draw, "n_centers": n_centers} for draw, n_centers in places]
    runs = measure_all(
        units, partial(measure, folder=given.folder), given.out / "retrieval_steps.jsonl", n_jobs=given.jobs
    )
    (given.out / "retrieval_steps.json").write_text(json.dumps(runs, indent=1) + "\n")
    print(*list_table(runs), sep="\n")


if __name__ == "__main__":
    main()
