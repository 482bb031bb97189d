"""Beside river: ``python -m benchmarks river``, with ``pip install river``.

River's own `evaluate.progressive_val_score` on three streams that ship with it: every row is predicted, then learned.
Our models stand behind a small adapter with river's two methods; all settings are defaults. Seconds are those of the
processor for the whole stream, prediction included. In a second run of each, a fifth of the labels that are learned are
others than those that count.
"""

from __future__ import annotations

import argparse
import random
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import nearkin

from .settings import HERE

#: Rows that the first call of `partial_fit` gets: it fixes the scale.
FIRST = 50
#: Share of labels that are learned wrong, in the second run.
WRONG = 0.2


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


class NearestRows:
    """Votes of the five nearest of the last 1,000 rows in a learner's space, weighed by plausibility."""

    def __init__(self, learner: Any):
        self.learner = learner
        self.rows: deque[np.ndarray] = deque(maxlen=1000)
        self.labels: deque[Any] = deque(maxlen=1000)
        self.weights: deque[float] = deque(maxlen=1000)

    def __sklearn_is_fitted__(self) -> bool:
        return self.learner.__sklearn_is_fitted__()

    def partial_fit(self, X: np.ndarray, y: list[Any]) -> None:
        """Learn, and keep the rows."""
        self.learner.partial_fit(X, y)
        self.rows.extend(X)
        self.labels.extend(y)
        self.weights.extend(self.learner.plausibility_.tolist())

    def vote(self, row: np.ndarray) -> Any:
        """Class with most votes."""
        placed = self.learner.transform(np.concatenate([np.stack(self.rows), row]))
        distances = np.square(placed[:-1] - placed[-1]).sum(axis=1)
        votes: Counter[Any] = Counter()
        for one in np.argsort(distances, kind="stable")[:5].tolist():
            votes[self.labels[one]] += self.weights[one]  # type: ignore[assignment]
        return votes.most_common(1)[0][0]


def learn_wrong(model: Any, share: float) -> Any:
    """A model that learns a share of labels as others that were met before."""
    from river import base

    class Wrong(base.Classifier):
        def __init__(self) -> None:
            self.rng = random.Random(0)
            self.met: list[Any] = []

        @property
        def _multiclass(self) -> bool:
            return True

        def learn_one(self, x: dict[str, float], y: Any) -> None:
            if y not in self.met:
                self.met.append(y)
            others = [one for one in self.met if one != y]
            model.learn_one(x, self.rng.choice(others) if others and self.rng.random() < share else y)

        def predict_one(self, x: dict[str, float], **_: Any) -> Any:
            return model.predict_one(x)

    return Wrong()


def make_models(n_classes: int) -> dict[str, Callable[[], Any]]:
    """Ours, and river's."""
    from river import forest, linear_model, naive_bayes, neighbors, preprocessing, tree

    linear = linear_model.LogisticRegression if n_classes == 2 else linear_model.SoftmaxRegression
    return {
        "nearkin StreamAudit, its jury": lambda: adapt(nearkin.StreamAudit(random_state=0), ask_jury),
        "nearkin RobustLODML, nearest rows": lambda: adapt(
            NearestRows(nearkin.RobustLODML(random_state=0)), NearestRows.vote
        ),
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
            found, begun = [], time.process_time()
            for share in (0.0, WRONG):
                rows = kind() if options.rows is None else kind().take(options.rows)
                model = learn_wrong(make(), share) if share else make()
                found.append(f"{100 * evaluate.progressive_val_score(rows, model, metrics.Accuracy()).get():.1f}")
            took = (time.process_time() - begun) / 2
            table.setdefault(who, []).append(f"{' / '.join(found)} | {took:.1f}")
            print(f"{name}: {who}: {table[who][-1]}", flush=True)
    head = "| | " + " | ".join(f"{name}, 0 / 20 % wrong | s" for name in kinds) + " |"
    lines = [
        head,
        "|---|" + "---|" * (2 * len(kinds)),
        *(f"| {who} | {' | '.join(one)} |" for who, one in table.items()),
    ]
    options.output.write_text("\n".join(lines) + "\n")
    print(f"river {river.__version__}\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
