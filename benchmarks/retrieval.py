"""Images found by a similarity that was learned from partly wrong labels: mAP of OASIS and of the robust forms.

    python -m benchmarks.retrieval --out results/retrieval --jobs 16
    python -m benchmarks.retrieval --out results/retrieval --show

A quarter of the images are queries, the others the gallery, whose labels are partly wrong; right labels decide whether
an answer is right. All learners are in the paper's form with five passes. A quarter of the gallery, with its given
labels, chooses the step size, for Robust-OASIS also eta. For "+ plausibility" a row that
`RobustKNeighborsClassifier` doubts is learned from with the label that the other rows vote for; "kept rows" leaves it
out instead, as the first version did.
COIL-20 comes as raw pixels, Yale of unit length and reduced to 100 whitened components.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import normalize

from nearkin import OASIS, RobustKNeighborsClassifier, RobustLODML, RobustOASIS, datasets, flip_labels
from nearkin.paper.methods import as_printed
from nearkin.search import Index, ranking_scores

from .imbalance import find_error, show
from .units import add_options, measure_all

SETS, NOISE, N_DRAWS = ("coil20", "yale"), (0.0, 20.0, 40.0), 5
CS, ETAS = (0.03, 0.1, 0.3, 1.0), (0.1, 0.3, 1.0)
#: Learners, and the settings that a choice tries.
LEARNERS: dict[str, tuple[Callable[..., Any], dict[str, tuple[float, ...]]]] = {
    "OASIS": (OASIS, {"C": CS}), "Robust-OASIS": (RobustOASIS, {"C": CS, "eta": ETAS}),
    "Robust-LODML": (RobustLODML, {"C": CS}),
}  # fmt: skip
#: Which rows and labels a learner sees.
LESSONS = ("", " + plausibility", " + kept rows")
BASE = "OASIS"

Array = np.ndarray


def measure(dataset: str, noise: float, draw: int, *, folder: Path | None = None) -> dict[str, Any]:
    """mAP and precision at 10 in percent by method."""
    data = datasets.load(dataset, folder)
    gallery, asked = next(StratifiedShuffleSplit(1, test_size=0.25, random_state=draw).split(data.X, data.y))
    X = prepare(dataset, data.X.astype(np.float32), gallery)
    given, _ = flip_labels(data.y[gallery], noise / 100.0, random_state=draw)
    lessons = dict(zip(LESSONS, list_lessons(X[gallery], given), strict=True))
    scores, chosen = {}, {}
    for (name, (learner, tried)), (words, (kept, labels)) in product(LEARNERS.items(), lessons.items()):
        rows, told = X[gallery][kept], labels[kept]
        make = partial(as_printed, learner, n_epochs=5, random_state=0)
        chosen[name + words] = choose(make, tried, rows, told)
        found = rank(make(**chosen[name + words]).fit(rows, told), X[gallery], X[asked])
        scores[name + words] = score(found, data.y[gallery], data.y[asked])
    order = Index(measure="cosine").fit(X[gallery]).query(X[asked], k=len(gallery))[1]
    scores["cosine"] = score(order, data.y[gallery], data.y[asked])
    return {"scores": scores, "chosen": chosen}


def prepare(dataset: str, X: Array, gallery: Array) -> Array:
    """Faces in changing light need their length and their main directions taken out; no label is used."""
    if dataset != "yale":
        return X
    whiten = PCA(100, whiten=True, random_state=0).fit(normalize(X[gallery]))
    return np.asarray(whiten.transform(normalize(X)), dtype=np.float32)


def list_lessons(rows: Array, given: Array) -> list[tuple[Array, Array]]:
    """Rows to learn from and labels of all rows: as given, doubtful ones corrected, doubtful ones left out."""
    classifier = RobustKNeighborsClassifier(n_neighbors="auto", random_state=0).fit(rows, given)
    everything, kept = np.arange(len(given)), classifier.kept_
    corrected = given.copy()
    doubted = np.setdiff1d(everything, kept)  # they have no vote on their own label
    if len(doubted):
        corrected[doubted] = classifier.predict(rows[doubted])
    return [(everything, given), (everything, corrected), (kept, given)]


def choose(
    make: Callable[..., Any], tried: dict[str, tuple[float, ...]], rows: Array, labels: Array
) -> dict[str, float]:
    """Settings with the best mAP on a quarter of the rows, by the labels that the learner is told."""
    fit, check = next(StratifiedShuffleSplit(1, test_size=0.25, random_state=0).split(rows, labels))

    def judge(settings: dict[str, float]) -> float:
        learner = make(**settings).fit(rows[fit], labels[fit])
        return score(rank(learner, rows[fit], rows[check]), labels[fit], labels[check])["map"]

    return max((dict(zip(tried, values, strict=True)) for values in product(*tried.values())), key=judge)


def rank(learner: Any, gallery: Array, asked: Array) -> Array:
    """The whole gallery in the order of every query."""
    order: Array = Index(learner).fit(gallery).query(asked, k=len(gallery))[1]
    return order


def score(order: Array, labels: Array, wanted: Array) -> dict[str, float]:
    """mAP and precision at 10 in percent."""
    query, place = np.nonzero(labels[order] == wanted[:, None])
    found = ranking_scores(query, place + 1, 10)
    return {name: round(100.0 * float(np.mean(found[name])), 3) for name in ("map", "precision")}


def list_table(runs: list[dict[str, Any]]) -> Iterator[str]:
    """mAP by method, and its lead over OASIS with the standard error over draws."""
    places = [(name, noise) for name in SETS for noise in NOISE if any(run["dataset"] == name for run in runs)]
    yield "| mAP | " + " | ".join(f"{name}, {noise:g} % wrong" for name, noise in places) + " |"
    yield "| --- |" + " --- |" * len(places)
    for method in runs[0]["scores"]:
        cells = []
        for place in places:
            here = [run["scores"] for run in runs if (run["dataset"], run["noise"]) == place]
            own, base = (np.array([one[which]["map"] for one in here]) for which in (method, BASE))
            lead = "" if method == BASE else f" ({show(own - base)})"
            cells.append(f"{own.mean():.1f} ± {find_error(own):.1f}{lead}")
        yield f"| {method} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--show", action="store_true", help="only the table of the record")
    given = parser.parse_args()
    path = given.out / "retrieval.json"
    if not given.show:
        sets, draws = (SETS[1:], 1) if given.quick else (SETS, N_DRAWS)
        units = [
            {"dataset": name, "noise": noise, "draw": draw} for name, noise, draw in product(sets, NOISE, range(draws))
        ]
        runs = measure_all(
            units,
            partial(measure, folder=given.folder),
            given.out / "retrieval.jsonl",
            what="nearkin",
            n_jobs=given.jobs,
        )
        path.write_text(json.dumps(runs, indent=1) + "\n")
    print(*list_table(json.loads(path.read_text("utf-8"))), sep="\n")


if __name__ == "__main__":
    main()
