"""A first look: wine with a fifth of the labels flipped, five methods, and the flipped labels found again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin import progress

__all__ = ["DEMO", "Demo", "DemoResult", "Detection", "Score", "run_demo"]

Array = NDArray[np.floating]


@dataclass(frozen=True)
class Demo:
    """What is compared, and how.

    Parameters
    ----------
    noise_rate : float
        Share of labels flipped to another class, uniformly.
    n_folds : int
        Stratified folds.
    n_draws : int
        How often folds and flips are drawn anew.
    """

    noise_rate: float = 0.2
    n_folds: int = 10
    n_draws: int = 5


DEMO = Demo()


@dataclass(frozen=True)
class Score:
    """Accuracy of one method on clean test labels, fold by fold."""

    method: str
    folds: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over all folds of all draws."""
        return float(np.mean(self.folds))

    @property
    def spread(self) -> float:
        """Standard deviation over the folds."""
        return float(np.std(self.folds))


@dataclass(frozen=True)
class Detection:
    """Labels flipped in one draw, and the rows that the classifier finds doubtful."""

    n_rows: int
    n_wrong: int
    n_doubtful: int
    n_found: int
    estimated_rate: float

    @property
    def precision(self) -> float:
        """Share of doubtful rows whose label was wrong."""
        return self.n_found / self.n_doubtful if self.n_doubtful else 0.0

    @property
    def recall(self) -> float:
        """Share of wrong labels that were found doubtful."""
        return self.n_found / self.n_wrong if self.n_wrong else 0.0


@dataclass(frozen=True)
class DemoResult:
    """Everything `run_demo` measured."""

    demo: Demo
    seed: int
    n_rows: int
    n_features: int
    n_classes: int
    scores: tuple[Score, ...]
    detections: tuple[Detection, ...]
    seconds: float

    @property
    def best(self) -> Score:
        """Method with the highest mean."""
        return max(self.scores, key=lambda score: score.mean)


def _methods(seed: int) -> dict[str, Any]:
    """Fresh estimators by name; every one scales the features from its own training folds."""
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from nearkin.learners import ODML
    from nearkin.neighbors import RobustKNeighborsClassifier

    return {
        "Euclidean, 3-NN": make_pipeline(StandardScaler(), KNeighborsClassifier(3)),
        "Euclidean, 25-NN": make_pipeline(StandardScaler(), KNeighborsClassifier(25)),
        "ODML, 3-NN": make_pipeline(ODML(random_state=seed), KNeighborsClassifier(3)),
        "Robust-LODML + Robust-kNN": RobustKNeighborsClassifier(n_neighbors=3, random_state=seed),
        "Robust-LODML + jury (default)": RobustKNeighborsClassifier(random_state=seed),
    }


def run_demo(seed: int = 0, demo: Demo = DEMO, methods: Callable[[int], dict[str, Any]] = _methods) -> DemoResult:
    """Compare the methods on wine with flipped labels.

    Test rows keep their clean labels; only the labels of the training folds are flipped. All methods see the same folds
    and flips, with their default parameters.

    Parameters
    ----------
    seed : int
        Of folds, flips and learners.
    demo : Demo
        Noise rate, folds and draws.
    methods : callable
        Gives fresh estimators by name for a seed; the last one must be a `RobustKNeighborsClassifier`, whose doubtful
        rows are compared with the flipped ones.

    Returns
    -------
    DemoResult
        Scores and detections.

    Examples
    --------
    >>> result = run_demo(demo=Demo(n_folds=3, n_draws=1))
    >>> [score.method for score in result.scores][-1], len(result.scores[0].folds)
    ('Robust-LODML + jury (default)', 3)
    """
    from sklearn.datasets import load_wine

    begun = time.perf_counter()
    X, y = load_wine(return_X_y=True)
    folds: dict[str, list[float]] = {}
    detections = []
    for draw in range(demo.n_draws):
        rng = np.random.default_rng([seed, draw])
        for method, accuracies in _accuracies(X, y, demo, methods, rng).items():
            folds.setdefault(method, []).extend(accuracies)
        detections.append(_detect(X, y, demo, methods, rng))
        progress.advance("comparing", draw + 1, demo.n_draws)
    scores = tuple(Score(method, tuple(accuracies)) for method, accuracies in folds.items())
    return DemoResult(
        demo, seed, len(X), X.shape[1], len(np.unique(y)), scores, tuple(detections), time.perf_counter() - begun
    )


def _accuracies(
    X: Array, y: NDArray[Any], demo: Demo, methods: Callable[[int], dict[str, Any]], rng: np.random.Generator
) -> dict[str, list[float]]:
    from sklearn.model_selection import StratifiedKFold

    from nearkin.noise import flip_labels

    split = StratifiedKFold(demo.n_folds, shuffle=True, random_state=_seed(rng))
    out: dict[str, list[float]] = {}
    for train, test in split.split(X, y):
        noisy, _ = flip_labels(y[train], demo.noise_rate, random_state=rng)
        for method, estimator in methods(_seed(rng)).items():
            accuracy = float(estimator.fit(X[train], noisy).score(X[test], y[test]))
            out.setdefault(method, []).append(accuracy)
    return out


def _detect(
    X: Array, y: NDArray[Any], demo: Demo, methods: Callable[[int], dict[str, Any]], rng: np.random.Generator
) -> Detection:
    from nearkin.noise import flip_labels

    noisy, is_wrong = flip_labels(y, demo.noise_rate, random_state=rng)
    model = list(methods(_seed(rng)).values())[-1].fit(X, noisy)
    is_doubtful = np.ones(len(y), dtype=bool)
    is_doubtful[model.kept_] = False
    return Detection(
        len(y),
        int(is_wrong.sum()),
        int(is_doubtful.sum()),
        int((is_doubtful & is_wrong).sum()),
        float(model.noise_rate_),
    )


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31 - 1))
