"""Every learner on three data sets: accuracy at 0 and 20 % wrong labels, and time per 1,000 rows.

    python -m benchmarks.methods [--data FOLDER] [--draws 2] [--out FILE]

Writes a Markdown table. Wine and WDBC come with scikit-learn; Letters (a sample of 2,000 rows) needs the data folder,
and without it the digits of scikit-learn (a sample of 1,000 rows) take its place. Ten stratified folds for the small
sets, five otherwise; training labels are flipped uniformly, test labels are right. Every learner has its defaults, and
classifies by plain 3-NN under its measure, so that only the measure differs.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import StratifiedKFold

import nearkin
from nearkin.noise import flip_labels

PLAIN = (
    "OASIS",
    "ODML",
    "LOSL",
    "LODML",
    "OPML",
    "SLMOML",
    "ITML",
    "LPAODML",
    "OKS",
    "OMKS",
    "OMDML",
    "LOMDML",
    "LSMDML",
)
NOISE = (0.0, 0.2)


def data_sets(folder: str | None) -> dict[str, tuple[np.ndarray, np.ndarray, int]]:
    """Rows, labels and number of folds by name."""
    sets = {"Wine": (*load_wine(return_X_y=True), 10), "WDBC": (*load_breast_cancer(return_X_y=True), 10)}
    letters = Path(folder) / "letters.npz" if folder else None
    if letters and letters.exists():
        with np.load(letters) as file:
            X, y = file["X"].astype(np.float64), file["y"]
        name, n = "Letters (2,000 rows)", 2000
    else:
        (X, y), name, n = load_digits(return_X_y=True), "digits (1,000 rows)", 1000
    some = np.random.default_rng(0).permutation(len(y))[:n]
    sets[name] = X[some], y[some], 5
    return sets


def measure(
    name: str, X: np.ndarray, y: np.ndarray, folds: int, noise: float, draws: int
) -> tuple[float, float, float]:
    """Mean accuracy in per cent, its deviation over the draws, and milliseconds of `fit` per 1,000 rows."""
    means, seconds, rows = [], 0.0, 0
    for draw in range(draws):
        right = 0
        for fold, (train, test) in enumerate(StratifiedKFold(folds, shuffle=True, random_state=draw).split(X, y)):
            labels = flip_labels(y[train], noise, random_state=1000 * draw + fold)[0]
            learner = getattr(nearkin, name)(random_state=0)
            began = time.process_time()
            learner.fit(X[train], labels)
            seconds += time.process_time() - began
            rows += len(train)
            model = nearkin.RobustKNeighborsClassifier(learner, n_neighbors=3, noise_rate=0.0, weights="uniform")
            right += int((model.fit(X[train], labels).predict(X[test]) == y[test]).sum())
        means.append(100.0 * right / len(y))
    return float(np.mean(means)), float(np.std(means)), 1e6 * seconds / rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("NEARKIN_DATA"))
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--out", default="benchmarks/results/methods.md")
    options = parser.parse_args()
    sets = data_sets(options.data)
    lines = ["| | " + " | ".join(sets) + " | ms per 1,000 rows |", "|---|" + "---|" * (len(sets) + 1)]
    for name in ("Euclidean", *(one for plain in PLAIN for one in (plain, f"Robust{plain}"))):
        cells, times = [], []
        for X, y, folds in sets.values():
            getattr(nearkin, name)(random_state=0).fit(X[:60], y[:60])  # compiled before the clock runs
            found = [measure(name, X, y, folds, noise, options.draws) for noise in NOISE]
            cells.append(" / ".join(f"{mean:.1f}" for mean, _, _ in found))
            times.append(np.mean([per_row for _, _, per_row in found]))
        lines.append(f"| {name} | " + " | ".join(cells) + " | " + " / ".join(f"{one:.1f}" for one in times) + " |")
        print(lines[-1], flush=True)
    Path(options.out).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
