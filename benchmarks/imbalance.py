"""Rare classes: the paper's own methods on one row of the rare class among ten and among a hundred.

    python -m benchmarks.imbalance --out results/imbalance --jobs 16
    python -m benchmarks.imbalance --out results/imbalance --show

Training rows are thinned until the rare class has its share; all other rows test, so that sensitivity (of the rare
class) and specificity do not depend on the share. Labels are wrong at random, as in the paper. Robust-kNN is told the
share of wrong labels. OCTG is plain or balanced by class (``OCTG(balance=True)``). Errors are those of the mean over
draws and sets, a set with a draw as the unit.
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

from nearkin import (
    OASIS,
    OCTG,
    ODML,
    RobustKNeighborsClassifier,
    RobustLODML,
    RobustLOSL,
    RobustOASIS,
    RobustODML,
    datasets,
    flip_labels,
)  # fmt: skip
from nearkin.learners import Euclidean
from nearkin.paper import derive_seed
from nearkin.paper.methods import as_printed
from nearkin.paper.scores import count_outcomes, score_binary

from .units import add_options, measure_all
from .why import scale

#: The rare class of each set; "made" is generated, and only it and Letters have rows enough for one among a hundred.
RARE = {"wdbc": 0, "ionosphere": 1, "australian": 1, "german": 1, "letters": 25, "made": 1}
LARGE = ("letters", "made")
NOISE = (0.0, 10.0, 20.0)
N_DRAWS, N_COMMON = 10, 2000

LEARNERS = {
    "Robust-LODML": RobustLODML, "Robust-ODML": RobustODML, "Robust-LOSL": RobustLOSL, "Robust-OASIS": RobustOASIS,
    "ODML": ODML, "OASIS": OASIS, "Euclidean": Euclidean,
}  # fmt: skip
METRICS = ("Sensitivity", "Specificity", "G-mean")
SOURCES = ("plain", "balanced")

Array = np.ndarray


def measure(dataset: str, share: int, noise: float, draw: int, *, folder: Path | None = None) -> dict[str, Any]:
    """Sensitivity, specificity and G-mean in percent by method and triplets."""
    seed = derive_seed("imbalance", dataset, share, noise, draw)
    X, is_rare = load(dataset, folder)
    train, test = thin(is_rare, share, np.random.default_rng(derive_seed("imbalance", dataset, share, draw)))
    labels, _ = flip_labels(is_rare[train].astype(np.int64), noise / 100.0, random_state=seed)
    rows, asked = scale(X[train], X[test], "z-scores")
    scores: dict[str, Any] = {}
    for name, source in product(LEARNERS, SOURCES):
        triplets = OCTG("auto", max_impostors=3, balance=source == "balanced")
        found = predict(name, triplets, rows, labels, asked, noise / 100.0, seed)
        for classifier, predicted in found.items():
            table = score_binary(count_outcomes(is_rare[test].astype(np.int64), predicted))
            scores[f"{name}, {source}, {classifier}"] = {metric: round(table[metric], 3) for metric in METRICS}
    return {"scores": scores, "n_rare": int(is_rare[train].sum()), "n_common": int((~is_rare[train]).sum())}


def load(dataset: str, folder: Path | None) -> tuple[Array, Array]:
    """Rows, and which are of the rare class."""
    if dataset == "made":
        rng = np.random.default_rng(0)
        is_rare = np.arange(8000) % 4 == 0
        X = rng.normal(size=(len(is_rare), 12)) * np.r_[np.ones(4), np.full(8, 2.0)]  # eight columns are noise
        X[is_rare, :4] += (
            np.where(rng.random((is_rare.sum(), 1)) < 0.5, 1.6, -1.6) * np.array([1.0, 1.0, 0.0, 0.0]) + 0.8
        )
        return X, is_rare
    data = datasets.load(dataset, folder)
    X = np.delete(np.asarray(data.X, dtype=np.float64), list(data.info.drop_columns), axis=1)
    return X, data.y == RARE[dataset]


def thin(is_rare: Array, share: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Training rows with one of the rare class for ``share`` others, from two thirds of all; the rest tests."""
    common, rare = (rng.permutation(np.flatnonzero(one)) for one in (~is_rare, is_rare))
    n_common = min(N_COMMON, 2 * len(common) // 3)
    n_rare = min(max(2, n_common // share), 2 * len(rare) // 3)
    train = np.sort(np.r_[common[:n_common], rare[:n_rare]])
    test = np.sort(np.r_[common[n_common : n_common + N_COMMON], rare[n_rare : n_rare + N_COMMON]])
    return train, test


def predict(
    name: str, triplets: OCTG, rows: Array, labels: Array, asked: Array, rate: float, seed: int
) -> dict[str, Array]:
    """Predictions by 3-NN and by Robust-kNN, on one learner in the paper's form."""
    given: dict[str, Any] = {"triplets": triplets, "scale": None, "random_state": seed}
    if name != "Euclidean":
        given["n_epochs"] = 3
    learner = as_printed(LEARNERS[name], **given)
    plain = RobustKNeighborsClassifier(learner, n_neighbors=3, noise_rate=0.0, weights="uniform").fit(rows, labels)
    found = {"3-NN": plain.predict(asked)}
    fitted = plain.learner_.set_params(loss="rescaled_hinge")
    found["Robust-kNN"] = (
        RobustKNeighborsClassifier.algorithm5(fitted, noise_rate=rate).fit(rows, labels).predict(asked)
    )
    return found


# ---------------------------------------------------------------- the table


def list_places() -> Iterator[dict[str, Any]]:
    """Every set, share, level of noise and draw; the largest sets first."""
    for share, name in product((10, 100), reversed(RARE)):
        if share == 10 or name in LARGE:
            yield from (
                {"dataset": name, "share": share, "noise": noise, "draw": draw}
                for noise, draw in product(NOISE, range(N_DRAWS))
            )


def list_table(runs: list[dict[str, Any]], classifier: str = "Robust-kNN", metric: str = "G-mean") -> Iterator[str]:
    """A metric by method: with plain triplets, and what balanced ones add, by share and noise."""
    shares = sorted({run["share"] for run in runs})
    levels = sorted({run["noise"] for run in runs})
    heads = [f"1:{share}, {noise:g} % wrong" for share, noise in product(shares, levels)]
    yield "| " + " | ".join([f"{metric}, {classifier}", *heads]) + " |"
    yield "| --- |" + " --- |" * len(heads)
    for name in LEARNERS:
        cells = []
        for share, noise in product(shares, levels):
            here = [run["scores"] for run in runs if (run["share"], run["noise"]) == (share, noise)]
            plain, balanced = (
                np.array([one[f"{name}, {source}, {classifier}"][metric] for one in here]) for source in SOURCES
            )
            cells.append(f"{plain.mean():.1f} ± {find_error(plain):.1f} ({show(balanced - plain)})")
        yield f"| {name} | " + " | ".join(cells) + " |"


def find_error(values: Array) -> float:
    """Standard error of a mean."""
    return float(np.std(values, ddof=1)) / len(values) ** 0.5 if len(values) > 1 else 0.0


def show(values: Array) -> str:
    """Mean difference with its standard error."""
    return f"{np.mean(values):+.1f} ± {find_error(values):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--show", action="store_true", help="only the tables of the record")
    given = parser.parse_args()
    path = given.out / "imbalance.json"
    if not given.show:
        units = list(list_places())
        if given.quick:
            units = [one for one in units if one["dataset"] == "wdbc" and one["draw"] < 2]
        runs = measure_all(
            units, partial(measure, folder=given.folder), given.out / "imbalance.jsonl", n_jobs=given.jobs
        )
        path.write_text(json.dumps(runs, indent=1) + "\n")
    runs = json.loads(path.read_text("utf-8"))
    for classifier, metric in product(("3-NN", "Robust-kNN"), METRICS):
        print(*list_table(runs, classifier, metric), "", sep="\n")


if __name__ == "__main__":
    main()
