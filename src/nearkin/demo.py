"""A first look: five methods on wine with a fifth of the labels flipped, and how many flipped labels they find."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_wine
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nearkin import progress
from nearkin.audit import LabelAudit, audit_labels
from nearkin.files import StrPath, claim, replacing
from nearkin.learners import ODML, RobustLODML
from nearkin.neighbors import RobustKNeighborsClassifier
from nearkin.noise import flip_labels
from nearkin.picture import draw_spaces

__all__ = ["Demo", "DemoResult", "Detection", "Score", "run_demo", "show_demo"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Demo:
    """The protocol: the share of labels to flip, stratified folds, and how often to draw folds and flips."""

    noise_rate: float = 0.2
    n_folds: int = 10
    n_draws: int = 5


@dataclass(frozen=True)
class Score:
    """Accuracy of one method on clean test labels: all folds of all draws, their mean and standard deviation."""

    method: str
    folds: tuple[float, ...]
    mean: float
    spread: float


@dataclass(frozen=True)
class Detection:
    """Labels flipped in one draw and rows that the classifier doubts.

    ``precision`` is the share of doubtful rows whose label was wrong, ``recall`` that of wrong labels that were found.
    """

    n_rows: int
    n_wrong: int
    n_doubtful: int
    n_found: int
    estimated_rate: float
    precision: float
    recall: float


@dataclass(frozen=True)
class DemoResult:
    """Everything `run_demo` measures."""

    demo: Demo
    seed: int
    n_rows: int
    n_features: int
    n_classes: int
    scores: tuple[Score, ...]
    detections: tuple[Detection, ...]
    seconds: float


_DEFAULT = Demo()


def _make_methods(seed: int) -> dict[str, Any]:
    """Fresh estimators by name; each scales features by its own training folds."""
    return {
        "Euclidean, 3-NN": make_pipeline(StandardScaler(), KNeighborsClassifier(3)),
        "Euclidean, 25-NN": make_pipeline(StandardScaler(), KNeighborsClassifier(25)),
        "ODML, 3-NN": make_pipeline(ODML(random_state=seed), KNeighborsClassifier(3)),
        "Robust-LODML + Robust-kNN": RobustKNeighborsClassifier(n_neighbors=3, random_state=seed),
        "Robust-LODML + jury (default)": RobustKNeighborsClassifier(random_state=seed),
    }


def run_demo(seed: int = 0, demo: Demo = _DEFAULT) -> DemoResult:
    """Compare the methods on wine with flipped labels.

    Only labels of the training folds are flipped; test rows keep their clean labels. All methods see the same folds and
    flips, with their default parameters. The doubtful rows of the last one are compared with the flipped ones.
    """
    begun = time.perf_counter()
    X, y = load_wine(return_X_y=True)
    folds: dict[str, list[float]] = {}
    detections = []
    for draw in range(demo.n_draws):
        rng = np.random.default_rng([seed, draw])
        for train, test in StratifiedKFold(demo.n_folds, shuffle=True, random_state=_draw_seed(rng)).split(X, y):
            noisy, _ = flip_labels(y[train], demo.noise_rate, random_state=rng)
            for method, estimator in _make_methods(_draw_seed(rng)).items():
                accuracy = float(estimator.fit(X[train], noisy).score(X[test], y[test]))
                folds.setdefault(method, []).append(accuracy)
        detections.append(_detect(X, y, demo, rng))
        progress.advance("comparing", draw + 1, demo.n_draws)
    scores = tuple(Score(name, tuple(one), float(np.mean(one)), float(np.std(one))) for name, one in folds.items())
    shape = len(X), X.shape[1], len(np.unique(y))
    return DemoResult(demo, seed, *shape, scores, tuple(detections), time.perf_counter() - begun)


def show_demo(page: StrPath | None, picture: StrPath | None, seed: int = 0, demo: Demo = _DEFAULT) -> LabelAudit:
    """Write the page of an audit of wine with flipped labels, and a picture of its rows before and after learning.

    Parameters
    ----------
    page, picture : path-like or None
        Files to write, ``.html`` and ``.svg``; only files of the same kinds are replaced. None writes none.
    seed : int
        Seed of the flips and of the audit.
    demo : Demo
        Tells the share of labels to flip.

    Returns
    -------
    LabelAudit
        What the page shows.
    """
    claim([(path, kind) for path, kind in ((page, "page"), (picture, "figure")) if path is not None])
    wine = load_wine()
    noisy, is_wrong = flip_labels(wine.target, demo.noise_rate, random_state=np.random.default_rng([seed, 0]))
    audit = audit_labels(wine.data, wine.target_names[noisy], random_state=seed)
    if page is not None:
        told = [f"flipped by the demo: {'yes' if one else 'no'}" for one in is_wrong.tolist()]
        audit.to_html(page, title="Wine with flipped labels", texts=told)
    if picture is None:
        return audit
    learner = RobustLODML(random_state=seed).fit(wine.data, noisy)
    drawn = draw_spaces(
        f"Wine, {100 * demo.noise_rate:.0f} % of the labels flipped: two principal directions",
        [("before: z-scored features", StandardScaler().fit_transform(wine.data)),
         ("after: the space of RobustLODML", learner.transform(wine.data))],
        noisy, wine.target_names, is_wrong, "label was flipped",
    )  # fmt: skip
    with replacing(picture, "figure") as file:
        file.write(drawn.encode())
    return audit


def _detect(X: Array, y: Array, demo: Demo, rng: np.random.Generator) -> Detection:
    noisy, is_wrong = flip_labels(y, demo.noise_rate, random_state=rng)
    model = list(_make_methods(_draw_seed(rng)).values())[-1].fit(X, noisy)
    is_doubtful = model.decision_.is_suspect
    n_wrong, n_doubtful, n_found = (int(one.sum()) for one in (is_wrong, is_doubtful, is_doubtful & is_wrong))
    precision, recall = n_found / max(1, n_doubtful), n_found / max(1, n_wrong)
    return Detection(len(y), n_wrong, n_doubtful, n_found, float(model.noise_rate_), precision, recall)


def _draw_seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31 - 1))
