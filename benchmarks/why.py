"""What helps, and how much: a complete factorial experiment over the parts of the paper's method.

    python -m benchmarks.why --out results/why --jobs 16
    python -m benchmarks.why --out results/why --show      # tables and pictures from the record alone

Six factors, every combination of their levels on five sets with five draws of folds and noise: the source of triplets,
the loss, the metric, the classifier, the scaling of rows, and whether C is chosen on inner folds. Robust-kNN takes its
plausibility from the triplets of the same source by the rescaled hinge, whatever the learner's loss, and is told the
share of wrong labels. Combinations that cannot differ (a loss where nothing is learned) are measured once and count in
each of their places, so that the design stays complete.

The unit of a standard error is a set with a draw: its 192 combinations share rows and noise, so an effect is computed
within it, and the error is that of the mean over the 25 of them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler, normalize

from nearkin import LODML, OCTG, ODML, RandomTriplets, RobustKNeighborsClassifier, datasets, flip_labels
from nearkin.learners import Euclidean
from nearkin.paper import derive_seed
from nearkin.paper.methods import as_printed

from .units import add_options, measure_all

SETS = ("australian", "german", "ionosphere", "wdbc", "wine")
NOISE = (0.0, 20.0, 40.0)
N_DRAWS, N_FOLDS, N_INNER = 5, 3, 2

#: The first level of each factor is the one the others are compared with.
FACTORS: dict[str, tuple[str, ...]] = {
    "triplets": ("random", "OCTG"),
    "loss": ("hinge", "rescaled"),
    "metric": ("none", "full", "low rank"),
    "classifier": ("3-NN", "Robust-kNN"),
    "scaling": ("none", "z-scores", "unit rows", "z-scores, unit rows"),
    "search": ("default", "inner folds"),
}
NAMES = tuple(FACTORS)
DESIGN = tuple(product(*FACTORS.values()))

#: The paper's method, its scaling included, with the default of C.
WHOLE = ("OCTG", "rescaled", "low rank", "Robust-kNN", "z-scores", "default")

#: Values of C that the inner folds choose among; the default is 0.1.
CS = (0.01, 0.1, 1.0, 10.0)
C_DEFAULT = 0.1

Array = np.ndarray


# ---------------------------------------------------------------- one set, one draw, one level of noise


def measure(
    dataset: str, draw: int, noise: float, *, n_folds: int = N_FOLDS, folder: Path | None = None
) -> dict[str, Any]:
    """Accuracy in percent of every combination, in the order of the design, over all rows of a set."""
    data = datasets.load(dataset, folder)
    X = np.delete(np.asarray(data.X, dtype=np.float64), list(data.info.drop_columns), axis=1)
    seed = derive_seed("why", dataset, draw)
    right = np.zeros(len(DESIGN))
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    for fold, (train, test) in enumerate(folds.split(X, data.y)):
        here = derive_seed("why", dataset, draw, fold, noise)
        labels, _ = flip_labels(data.y[train], noise / 100.0, random_state=here)
        for scaling in FACTORS["scaling"]:
            rows, asked = scale(X[train], X[test], scaling)
            found = try_all(rows, labels, asked, noise / 100.0, here)
            for at, combination in enumerate(DESIGN):
                if combination[NAMES.index("scaling")] == scaling:
                    right[at] += np.sum(found[without_scaling(combination)] == data.y[test])
    return {"accuracy": [round(100.0 * float(one) / len(X), 4) for one in right]}


def scale(train: Array, test: Array, scaling: str) -> tuple[Array, Array]:
    """Bring rows to a scale, then to a mean squared distance of 1, so that the margin means the same everywhere."""
    if scaling.startswith("z-scores"):
        scaler = StandardScaler().fit(train)
        train, test = scaler.transform(train), scaler.transform(test)
    if scaling.endswith("unit rows"):
        train, test = normalize(train), normalize(test)
    mean, number = train.mean(axis=0), np.sqrt(2.0 * train.var(axis=0).sum()) or 1.0
    return (train - mean) / number, (test - mean) / number


def without_scaling(combination: tuple[str, ...]) -> tuple[str, ...]:
    """A combination without its scaling."""
    return tuple(level for name, level in zip(NAMES, combination, strict=True) if name != "scaling")


def try_all(rows: Array, labels: Array, asked: Array, rate: float, seed: int) -> dict[tuple[str, ...], Array]:
    """Predictions of every combination of the other five factors."""
    found = {}
    for triplets, loss, metric in product(FACTORS["triplets"], FACTORS["loss"], FACTORS["metric"]):
        fit = partial(predict, triplets=triplets, loss=loss, metric=metric, rate=rate, seed=seed)
        at_default = fit(rows, labels, asked, C=C_DEFAULT)
        best = dict.fromkeys(FACTORS["classifier"], C_DEFAULT) if metric == "none" else choose(fit, rows, labels, seed)
        others = set(best.values()) - {C_DEFAULT}
        refitted = {C: found_here for C in others if (found_here := try_fit(fit, rows, labels, asked, C))}
        for classifier, C in best.items():
            found[triplets, loss, metric, classifier, "default"] = at_default[classifier]
            found[triplets, loss, metric, classifier, "inner folds"] = refitted.get(C, at_default)[classifier]
    return found


def choose(fit: Any, rows: Array, labels: Array, seed: int) -> dict[str, float]:
    """C with the most right answers about noisy labels that were left out, by classifier; the first of equals."""
    right = {classifier: np.zeros(len(CS)) for classifier in FACTORS["classifier"]}
    fewest = np.unique(labels, return_counts=True)[1].min()
    folds = StratifiedKFold(min(N_INNER, int(fewest)), shuffle=True, random_state=seed)
    for inside, outside in folds.split(rows, labels):
        for at, C in enumerate(CS):
            for classifier, answers in try_fit(fit, rows[inside], labels[inside], rows[outside], C).items():
                right[classifier][at] += np.sum(answers == labels[outside])
    return {classifier: CS[int(counts.argmax())] for classifier, counts in right.items()}


def try_fit(fit: Any, rows: Array, labels: Array, asked: Array, C: float) -> dict[str, Array]:
    """Predictions of both classifiers, or none if the learner diverges with this C."""
    try:
        return dict(fit(rows, labels, asked, C=C))
    except ValueError:
        return {}


def predict(
    rows: Array, labels: Array, asked: Array, *, C: float, triplets: str, loss: str, metric: str, rate: float, seed: int
) -> dict[str, Array]:
    """Predictions of both classifiers on one learner."""
    source = OCTG() if triplets == "OCTG" else RandomTriplets()
    given = {"triplets": source, "scale": None, "random_state": seed}
    if metric == "none":
        learner = Euclidean(**given)
    else:
        given |= {"C": C, "loss": {"hinge": "hinge", "rescaled": "rescaled_hinge"}[loss], "n_epochs": 3}
        half = {"n_components": max(1, rows.shape[1] // 2)} if metric == "low rank" else {}
        learner = as_printed(LODML if half else ODML, **given, **half)
    plain = RobustKNeighborsClassifier(learner, n_neighbors=3, noise_rate=0.0, weights="uniform").fit(rows, labels)
    fitted = plain.learner_.set_params(loss="rescaled_hinge")
    robust = RobustKNeighborsClassifier.algorithm5(fitted, noise_rate=rate).fit(rows, labels)
    return dict(zip(FACTORS["classifier"], (plain.predict(asked), robust.predict(asked)), strict=True))


# ---------------------------------------------------------------- effects


def list_contrasts() -> list[tuple[str, str]]:
    """Every level that is compared with the first of its factor."""
    return [(name, level) for name, levels in FACTORS.items() for level in levels[1:]]


def get_signs(name: str, level: str) -> Array:
    """A level against the first of its factor: weights of all combinations, whose sum of products is the effect."""
    at = NAMES.index(name)
    own = np.array([one[at] == level for one in DESIGN], dtype=float)
    first = np.array([one[at] == FACTORS[name][0] for one in DESIGN], dtype=float)
    return own / own.sum() - first / first.sum()


def get_pair_signs(one: tuple[str, str], other: tuple[str, str]) -> Array:
    """How much the effect of one level is larger where the other is present."""
    places = [NAMES.index(name) for name, _ in (one, other)]
    signs = np.zeros(len(DESIGN))
    for levels in product((one[1], FACTORS[one[0]][0]), (other[1], FACTORS[other[0]][0])):
        here = np.array([tuple(held[at] for at in places) == levels for held in DESIGN], dtype=float)
        sign = np.prod([1.0 if level in pair else -1.0 for level, pair in zip(levels, (one, other), strict=True)])
        signs += sign * here / here.sum()
    return signs


def estimate(runs: list[dict[str, Any]], signs: Array, noise: float | None = None) -> tuple[float, float]:
    """An effect in points and its standard error, clustered by set and draw."""
    clusters: dict[tuple[str, int], list[float]] = {}
    for run in runs:
        if noise is None or run["noise"] == noise:
            clusters.setdefault((run["dataset"], run["draw"]), []).append(float(signs @ np.array(run["accuracy"])))
    means = [float(np.mean(one)) for one in clusters.values()]
    error = float(np.std(means, ddof=1)) / len(means) ** 0.5 if len(means) > 1 else 0.0
    return float(np.mean(means)), error


def list_main(runs: list[dict[str, Any]]) -> Iterator[str]:
    """Lines of the table of main effects, by noise and over all."""
    levels = sorted({run["noise"] for run in runs})
    yield "| part | " + " | ".join(f"{one:g} % wrong" for one in levels) + " | all |"
    yield "| --- |" + " --- |" * (len(levels) + 1)
    for name, level in list_contrasts():
        cells = [estimate(runs, get_signs(name, level), one) for one in (*levels, None)]
        yield f"| {name}: {level}, against {FACTORS[name][0]} | " + " | ".join(map(show, cells)) + " |"


def list_pairs(runs: list[dict[str, Any]], n: int = 8) -> Iterator[str]:
    """Lines of the table of the interactions that are largest beside their errors."""
    yield "| parts together | points more than the sum of both |"
    yield "| --- | --- |"
    found = [(one, other, *estimate(runs, get_pair_signs(one, other))) for one, other in list_contrast_pairs()]
    for one, other, mean, error in sorted(found, key=lambda held: -abs(held[2]))[:n]:
        yield f"| {one[1]} ({one[0]}) with {other[1]} ({other[0]}) | {show((mean, error))} |"


def list_replaced(runs: list[dict[str, Any]]) -> Iterator[str]:
    """Lines of the table of what is lost if one part of the paper's method is another one, by noise and over all."""
    levels = sorted({run["noise"] for run in runs})
    yield "| in place of | " + " | ".join(f"{one:g} % wrong" for one in levels) + " | all |"
    yield "| --- |" + " --- |" * (len(levels) + 1)
    yield "| (accuracy of the whole) | " + " | ".join(tell_whole(runs, one) for one in (*levels, None)) + " |"
    for at, name in enumerate(NAMES):
        for level in FACTORS[name]:
            if level != WHOLE[at]:
                cells = [estimate(runs, get_change_signs(at, level), one) for one in (*levels, None)]
                yield f"| {name}: {level}, not {WHOLE[at]} | " + " | ".join(map(show, cells)) + " |"


def get_change_signs(at: int, level: str) -> Array:
    """One combination, the paper's with another level of one factor, against the paper's."""
    signs = np.zeros(len(DESIGN))
    signs[DESIGN.index((*WHOLE[:at], level, *WHOLE[at + 1 :]))] = 1.0
    signs[DESIGN.index(WHOLE)] = -1.0
    return signs


def tell_whole(runs: list[dict[str, Any]], noise: float | None) -> str:
    """Mean accuracy of the paper's method."""
    at = DESIGN.index(WHOLE)
    return f"{np.mean([run['accuracy'][at] for run in runs if noise is None or run['noise'] == noise]):.1f}"


def list_contrast_pairs() -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """Pairs of contrasts of different factors."""
    return [(one, other) for one, other in combinations(list_contrasts(), 2) if one[0] != other[0]]


def show(cell: tuple[float, float]) -> str:
    """An effect with its standard error."""
    return f"{cell[0]:+.1f} ± {cell[1]:.1f}"


# ---------------------------------------------------------------- the command


def load_runs(folder: Path) -> list[dict[str, Any]]:
    """Runs of the record."""
    held = json.loads((folder / "why.json").read_text("utf-8"))
    assert held["factors"] == {name: list(levels) for name, levels in FACTORS.items()}
    return list(held["runs"])


def write_all(runs: list[dict[str, Any]], folder: Path) -> None:
    """Table and pictures, from the record alone."""
    from .why_pictures import draw_interactions, draw_main

    pairs = list_pairs(runs, n=len(list_contrast_pairs()))
    lines = ["# What helps", "", *list_main(runs), "", *list_replaced(runs), "", *pairs]
    (folder / "why.md").write_text("\n".join(lines) + "\n")
    (folder / "why_main.svg").write_text(draw_main(runs))
    (folder / "why_interactions.svg").write_text(draw_interactions(runs))
    print(*lines, sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--show", action="store_true", help="only draw what the record holds")
    given = parser.parse_args()
    if not given.show:
        sets, draws = (("wine",), 2) if given.quick else (SETS, N_DRAWS)
        places = product(sets, range(draws), NOISE[:2] if given.quick else NOISE)
        units = [{"dataset": name, "draw": draw, "noise": noise} for name, draw, noise in places]
        runs = measure_all(units, partial(measure, folder=given.folder), given.out / "why.jsonl", n_jobs=given.jobs)
        held = {"factors": {name: list(levels) for name, levels in FACTORS.items()}, "runs": runs}
        (given.out / "why.json").write_text(json.dumps(held) + "\n")
    write_all(load_runs(given.out), given.out)


if __name__ == "__main__":
    main()
