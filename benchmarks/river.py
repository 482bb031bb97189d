"""Beside river: ``python -m benchmarks river``, with ``pip install river``.

River's own `evaluate.progressive_val_score` on three streams that ship with it: every row is predicted, then learned.
Our models stand behind a small adapter with river's two methods; all settings are defaults. Seconds are those of the
processor for the whole stream, prediction included.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import nearkin

from .settings import HERE

#: Rows that the first call of `partial_fit` gets: it fixes the scale.
FIRST = 50


def adapt(model: Any, vote: Callable[[Any, np.ndarray], Any]) -> Any:
    """One of our models as a classifier of river; ``vote(model, row)`` predicts."""
    from river import base

    class Adapted(base.Classifier):
        def __init__(self) -> None:
            self.rows: list[list[float]] = []
            self.labels: list[Any] = []
            self.seen: Counter[Any] = Counter()

        @property
        def _multiclass(self) -> bool:
            return True

        def learn_one(self, x: dict[str, float], y: Any) -> None:
            self.seen[y] += 1
            self.rows.append(list(x.values()))
            self.labels.append(y)
            if model.__sklearn_is_fitted__() or (len(self.rows) >= FIRST and len(self.seen) > 1):
                model.partial_fit(np.array(self.rows, dtype=float), self.labels)
                self.rows, self.labels = [], []

        def predict_one(self, x: dict[str, float], **_: Any) -> Any:
            if not model.__sklearn_is_fitted__():
                return self.seen.most_common(1)[0][0] if self.seen else None
            return vote(model, np.array([list(x.values())], dtype=float))

        def predict_proba_one(self, x: dict[str, float], **_: Any) -> dict[Any, float]:
            return {self.predict_one(x): 1.0}

    return Adapted()


def ask_witnesses(learner: Any, row: np.ndarray) -> Any:
    """Class with most votes of the nearest witnesses of a learner's start."""
    state = learner.state_
    witnesses = state.start.witnesses
    distances = ((state.scaled(row) - witnesses.placed) ** 2).sum(axis=1)
    return list(state.labels.codes)[int(witnesses.vote(-distances[None])[0])]


def ask_jury(audit: Any, row: np.ndarray) -> Any:
    """Class that the jury of a stream audit predicts."""
    return audit.predict(row).tolist()[0]


def make_models(n_classes: int) -> dict[str, Callable[[], Any]]:
    """Ours, and river's."""
    from river import forest, linear_model, naive_bayes, neighbors, preprocessing, tree

    linear = linear_model.LogisticRegression if n_classes == 2 else linear_model.SoftmaxRegression
    return {
        "nearkin StreamAudit, its jury": lambda: adapt(nearkin.StreamAudit(random_state=0), ask_jury),
        "nearkin RobustLODML, its witnesses": lambda: adapt(nearkin.RobustLODML(random_state=0), ask_witnesses),
        "river logistic regression": lambda: preprocessing.StandardScaler() | linear(),
        "river Gaussian naive Bayes": naive_bayes.GaussianNB,
        "river KNN": lambda: preprocessing.StandardScaler() | neighbors.KNNClassifier(),
        "river Hoeffding adaptive tree": lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=0),
        "river adaptive random forest": lambda: forest.ARFClassifier(seed=0),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks river", description=__doc__)
    parser.add_argument("--rows", type=int, help="first rows of every stream only")
    parser.add_argument("-o", "--output", type=Path, default=HERE / "results" / "river.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    import river
    from river import datasets, evaluate, metrics

    kinds = {"Bananas": datasets.Bananas, "Phishing": datasets.Phishing, "ImageSegments": datasets.ImageSegments}
    table: dict[str, list[str]] = {}
    for name, kind in kinds.items():
        n_classes = len({y for _, y in kind()})
        for who, make in make_models(n_classes).items():
            rows = kind() if options.rows is None else kind().take(options.rows)
            begun = time.process_time()
            found = evaluate.progressive_val_score(rows, make(), metrics.Accuracy())
            took = time.process_time() - begun
            table.setdefault(who, []).append(f"{100 * found.get():.2f} | {took:.1f}")
            print(f"{name}: {who}: {table[who][-1]}", flush=True)
    head = "| | " + " | ".join(f"{name} % | s" for name in kinds) + " |"
    lines = [
        head,
        "|---|" + "---|" * (2 * len(kinds)),
        *(f"| {who} | {' | '.join(one)} |" for who, one in table.items()),
    ]
    options.output.write_text("\n".join(lines) + "\n")
    print(f"river {river.__version__}\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
