"""Grids of settings over the same folds: ``python -m benchmarks sharing``.

Digits, five folds and eight values of C, fitted one after the other, by `fit_many`, by scikit-learn's `GridSearchCV`,
and by the same inside `share_triplets`. Ratios of processor time in rounds, one thread; all give the same bits.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from threadpoolctl import threadpool_limits

from nearkin import RobustKNeighborsClassifier, RobustLODML, flip_labels
from nearkin.learners import fit_many, share_triplets

from . import machine
from .settings import HERE
from .timing import Task, interleave

CS = np.geomspace(1e-4, 1e-1, 8)
KINDS = {
    "default": RobustLODML(16, random_state=0),
    "paper's form": RobustLODML(16, init="auto", triplets="octg", random_state=0),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks sharing", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path, default=HERE / "results" / "sharing.md")
    options = parser.parse_args()
    load = machine.load()
    X, y = load_digits(return_X_y=True)
    y, _ = flip_labels(y, 0.1, random_state=0)
    lines = ["| learner | call | CPU s | times faster | quartiles |", "|---|---|---|---|---|"]
    with threadpool_limits(1):
        for name, learner in KINDS.items():
            lines += list(compare(name, learner, X, y, options.rounds))
    head = (
        f"# Triplets made once\n\nDigits, {len(CS)} values of C on 5 folds, one thread, {options.rounds} rounds; times "
        "faster than the line above, which does not share. The searches also score a 3-nearest-neighbour classifier on "
        f"the held-out rows. Load before and after: {load}, {machine.load()}. `python -m benchmarks sharing` writes "
        "this page."
    )
    options.output.write_text("\n".join([head, "", *lines]) + "\n")
    print(*lines, sep="\n")


def compare(name, learner, X, y, rounds):
    """Lines of the table for one learner."""
    folds = StratifiedKFold(5)
    rows = [train for train, _ in folds.split(X, y)]
    grid = [(C, share) for C in CS for share in rows]
    make = lambda: [clone(learner).set_params(C=C) for C, _ in grid]  # noqa: E731
    model = RobustKNeighborsClassifier(learner, n_neighbors=3)
    search = GridSearchCV(model, {"learner__C": CS}, cv=folds, refit=False)

    def shared() -> None:
        with share_triplets():
            search.fit(X, y)

    tasks = [
        Task("fit each", 1, lambda models: [one.fit(X[r], y[r]) for one, (_, r) in zip(models, grid, strict=True)],
             lambda _: make()),
        Task("fit_many", 1, lambda models: fit_many(models, X, y, rows=[r for _, r in grid]), lambda _: make()),
        Task("GridSearchCV", 1, lambda _: search.fit(X, y)),
        Task("GridSearchCV, shared triplets", 1, lambda _: shared()),
    ]  # fmt: skip
    interleave(tasks, 1)  # compiles
    times = interleave(tasks, rounds)
    for slow, fast in zip(tasks[::2], tasks[1::2], strict=True):
        yield f"| {name} | {slow.name} | {np.median(times[slow.name].cpu):.2f} | | |"
        low, middle, high = np.percentile(np.array(times[slow.name].cpu) / times[fast.name].cpu, (25, 50, 75))
        took = np.median(times[fast.name].cpu)
        yield f"| {name} | {fast.name} | {took:.2f} | {middle:.1f} | {low:.1f} to {high:.1f} |"


if __name__ == "__main__":
    main()
