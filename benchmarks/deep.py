"""Networks and wrong labels: the robust loss against the plain one and against linear learners.

    python -m benchmarks.deep [--data FOLDER] [--seeds 3] [--tasks digits,music] [--summary]

Writes every cell to ``deep.json`` as it is done, so that a run that was stopped goes on, and then the tables of
``deep.md``. Digits come with scikit-learn; the others need the data folder and are left out without it.

Training labels are flipped uniformly; test labels are right. All learners have their defaults, except for what the
name of a row says. Every learner is judged by the same classifiers on its embeddings: 10-NN with labels as given, and
Robust-kNN with 10 neighbours (Algorithm 5, rate estimated). AUROC says how well `plausibility_` finds the flipped
labels; where a loss trusts all labels, the plausibility that the rescaled hinge would give under the final map stands
in for it.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

import nearkin
from nearkin.deep import OAHU, DeepMetric, RobustOAHU
from nearkin.noise import flip_labels
from nearkin.paper.methods import as_printed

RESULTS = Path(__file__).parent / "results"
NOISE = (0.0, 0.2, 0.4)


class Task(NamedTuple):
    """Rows and labels to learn and to test on."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    image_shape: tuple[int, int] | None = None


def _split(X: np.ndarray, y: np.ndarray, shape: tuple[int, int], seed: int) -> Task:
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
    return Task(X, y, X_test, y_test, shape)


def digits(folder: Path, seed: int) -> Task:
    """1,797 images of 8 x 8, 10 classes, 30 % to test on."""
    return _split(*load_digits(return_X_y=True), (8, 8), seed)


def _pixels(folder: Path, name: str, seed: int) -> Task:
    with np.load(folder / f"{name}.npz") as file:
        X, y = file["X"].astype(np.float32), file["y"]
    return _split(X.reshape(-1, 32, 32).transpose(0, 2, 1).reshape(len(X), -1), y, (32, 32), seed)


def yale(folder: Path, seed: int) -> Task:
    """2,414 faces of 32 x 32, 38 classes, 30 % to test on."""
    return _pixels(folder, "yaleb_32x32", seed)


def coil(folder: Path, seed: int) -> Task:
    """1,440 images of 32 x 32, 20 objects, 30 % to test on."""
    return _pixels(folder, "coil20_32x32", seed)


def _given(folder: Path, name: str) -> Task:
    with np.load(folder / f"{name}.npz") as file:
        parts = [file[one] for one in ("X", "y", "X_test", "y_test")]
    return Task(parts[0].astype(np.float32), parts[1], parts[2].astype(np.float32), parts[3])


def music(folder: Path, seed: int) -> Task:
    """700 songs by 124 audio features, 10 genres, 300 to test on."""
    return _given(folder, "music_genre_crowd")


def cifar(folder: Path, seed: int) -> Task:
    """4,000 images by 512 features of a ResNet-18, 10 classes, 2,000 to test on."""
    return _given(folder, "cifar10n_resnet18pq")


#: The first two chose the defaults.
TASKS: dict[str, Callable[[Path, int], Task]] = {
    "digits": digits, "music": music, "yale": yale, "coil": coil, "cifar": cifar,
}  # fmt: skip
CHOSEN_ON = ("digits", "music")

LEARNERS: dict[str, Callable[[Task], Any]] = {
    "Euclidean": lambda task: nearkin.Euclidean(),
    "LODML": lambda task: as_printed(nearkin.LODML, n_epochs=3),
    "RobustLODML": lambda task: as_printed(nearkin.RobustLODML, n_epochs=3),
    "DeepMetric, hinge": lambda task: DeepMetric(image_shape=task.image_shape, loss="hinge"),
    "DeepMetric, hinge, 5 passes": lambda task: DeepMetric(image_shape=task.image_shape, loss="hinge", n_epochs=5),
    "DeepMetric": lambda task: DeepMetric(image_shape=task.image_shape),
    "OAHU": lambda task: OAHU(),
    "RobustOAHU": lambda task: RobustOAHU(),
}
PLAIN, ROBUST = "DeepMetric, hinge", "DeepMetric"


def cell(task: Task, name: str, noise: float, seed: int) -> dict[str, float]:
    """Accuracies and AUROC in per cent, and seconds of `fit`."""
    noisy, is_wrong = flip_labels(task.y, noise, random_state=seed)
    fresh = LEARNERS[name](task).set_params(random_state=seed)
    began = time.process_time()
    robust = nearkin.RobustKNeighborsClassifier(fresh, n_neighbors=10, weights="plausibility").fit(task.X, noisy)
    found: dict[str, float] = {"seconds": time.process_time() - began}
    found["Robust-kNN"] = 100.0 * robust.score(task.X_test, task.y_test)
    learner = robust.learner_
    near = KNeighborsClassifier(10).fit(learner.transform(task.X), noisy)
    found["10-NN"] = 100.0 * near.score(learner.transform(task.X_test), task.y_test)
    if noise > 0.0:
        plausibility = learner.plausibility_
        if (plausibility == 1.0).all():
            plausibility = learner.set_params(loss="rescaled_hinge").plausibility(task.X, noisy)
        found["AUROC"] = 100.0 * roc_auc_score(is_wrong, -plausibility)
    return found


def run(folder: Path, tasks: list[str], seeds: int, out: Path) -> list[dict[str, Any]]:
    """Measure the missing cells, one after the other."""
    records: list[dict[str, Any]] = json.loads(out.read_text()) if out.exists() else []
    done = {(one["task"], one["learner"], one["noise"], one["seed"]) for one in records}
    for seed in range(seeds):
        for name in tasks:
            task = TASKS[name](folder, seed)
            for noise, learner in product(NOISE, LEARNERS):
                if (name, learner, noise, seed) in done or ("OAHU" in learner and name not in CHOSEN_ON):
                    continue
                found = cell(task, learner, noise, seed)
                records.append({"task": name, "learner": learner, "noise": noise, "seed": seed, **found})
                out.write_text(json.dumps(records, indent=0) + "\n")
                print(name, f"{noise:.0%}", learner, {key: round(value, 1) for key, value in found.items()}, flush=True)
    return records


def of(records: list[dict[str, Any]], **where: Any) -> list[dict[str, Any]]:
    return [one for one in records if all(one[key] == value for key, value in where.items())]


def text(records: list[dict[str, Any]], key: str) -> str:
    values = [one[key] for one in records if key in one]
    return f"{np.mean(values):.1f} ± {np.std(values, ddof=1) if len(values) > 1 else 0.0:.1f}" if values else "-"


def gap(records: list[dict[str, Any]], name: str, key: str, noise: float) -> str:
    """Mean difference of the robust loss to the plain one, in points."""
    plain, robust = (
        {one["seed"]: one[key] for one in of(records, task=name, learner=learner, noise=noise)}
        for learner in (PLAIN, ROBUST)
    )
    both = sorted(set(plain) & set(robust))
    return f"{np.mean([robust[seed] - plain[seed] for seed in both]):+.1f}" if both else "-"


def tables(records: list[dict[str, Any]]) -> str:
    """Markdown: one table per task, and the differences that decide the goal."""
    n_seeds = len({one["seed"] for one in records})
    names = [name for name in TASKS if of(records, task=name)]
    lines = [
        "# Networks and wrong labels",
        "",
        f"Mean ± standard deviation over {n_seeds} seeds (flips, weights at the start and, for images, the split), in",
        "per cent, at 0, 20 and 40 % uniform noise; seconds of processor time of `fit`, one thread.",
        "",
    ]
    columns = ["10-NN 0 %", "20 %", "40 %", "Robust-kNN 0 %", "20 %", "40 %", "AUROC 20 %", "40 %", "seconds"]
    for name in names:
        lines += [f"## {name}: {(TASKS[name].__doc__ or '').rstrip('.')}", ""]
        lines += ["| learner | " + " | ".join(columns) + " |", "|---" * 10 + "|"]
        for learner in LEARNERS:
            cells = [of(records, task=name, learner=learner, noise=noise) for noise in NOISE]
            if not any(cells):
                continue
            row = [text(one, key) for key in ("10-NN", "Robust-kNN") for one in cells]
            row += [text(one, "AUROC") for one in cells[1:]]
            row.append(f"{np.mean([r['seconds'] for one in cells for r in one]):.1f}")
            lines.append(f"| {learner} | " + " | ".join(row) + " |")
        lines.append("")
    lines += ["## Robust against plain loss, in points", ""]
    lines += ["| task | classifier | 0 % | 20 % | 40 % |", "|---" * 5 + "|"]
    for name, key in product(names, ("10-NN", "Robust-kNN")):
        lines.append(f"| {name} | {key} | " + " | ".join(gap(records, name, key, noise) for noise in NOISE) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("NEARKIN_DATA"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--out", type=Path, default=RESULTS / "deep.json")
    parser.add_argument("--summary", action="store_true", help="only rewrite the tables")
    options = parser.parse_args()
    torch.set_num_threads(1)
    tasks = [name for name in options.tasks.split(",") if options.data or name == "digits"]
    if options.summary:
        records = json.loads(options.out.read_text())
    else:
        records = run(Path(options.data or "."), tasks, options.seeds, options.out)
    options.out.with_suffix(".md").write_text(tables(records))


if __name__ == "__main__":
    main()
