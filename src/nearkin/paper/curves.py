"""Figures 9 to 11 as numbers: what wrong labels do to a metric learned from Wine, by C and row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.paper.protocol import seed_of

__all__ = ["CS", "ETA", "NOISE_RATE", "WineRun", "batch_curves", "robust_curves", "wine_runs"]

Array = NDArray[Any]

#: Of section 4.1: share of wrong labels, share of test rows, and eta of Figure 10.
NOISE_RATE, TEST_SHARE, ETA = 0.1, 0.3, 3.0

#: The range of section 4.2.
CS = tuple(float(C) for C in np.logspace(-6, np.log10(30.0), 10))


@dataclass(frozen=True, eq=False)
class WineRun:
    """One division of Wine into training rows with wrong labels and test rows, z-scored and brought to length 1."""

    train: Array
    labels: Array
    is_wrong: Array
    test: Array
    test_labels: Array
    seed: int


def wine_runs(n_runs: int = 10, seed: int = 0) -> list[WineRun]:
    """Divisions drawn at random, as the paper says."""
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler, normalize

    from nearkin import datasets
    from nearkin.noise import flip_labels

    wine = datasets.load("wine")
    out = []
    for run in range(n_runs):
        here = seed_of(seed, "wine", run)
        X, X_test, y, y_test = train_test_split(
            wine.X.astype(np.float64), wine.y, test_size=TEST_SHARE, stratify=wine.y, random_state=here
        )
        scaler = StandardScaler().fit(X)
        noisy, is_wrong = flip_labels(y, NOISE_RATE, random_state=here)
        train, test = (normalize(scaler.transform(one)) for one in (X, X_test))
        out.append(WineRun(train, noisy, is_wrong, test, y_test, here))
    return out


def batch_curves(runs: list[WineRun], cs: tuple[float, ...] = CS) -> dict[str, list[float]]:
    """Accuracy of 3-NN against C for ODML on batch triplets, and for those who know which triplets to leave out."""
    from nearkin.learners import ODML
    from nearkin.triplets import BatchTriplets

    scores: dict[str, list[list[float]]] = {}
    for run in runs:
        triplets = BatchTriplets(n_targets=2, max_impostors=1).build(run.train, run.labels)
        roles = triplets.noisy_roles(run.is_wrong)
        none = np.zeros(len(triplets), dtype=bool)
        left_out = {
            "ODML": none,
            "ideal ODML": roles.anchor | roles.positive | roles.negative,
            "anchor ideal": roles.anchor,
            "positive ideal": roles.positive,
            "negative ideal": roles.negative,
        }
        members = triplets.anchor, triplets.positive, triplets.negative
        for name, dropped in left_out.items():
            rows = [run.train[one[~dropped]] for one in members]
            models = (ODML(C, scale=None, random_state=run.seed).fit_triplets(*rows) for C in cs)
            scores.setdefault(name, []).append([_three_nearest(run, model) for model in models])
        scores.setdefault("Euclidean", []).append([_three_nearest(run, None)] * len(cs))
    return _means(scores)


def robust_curves(runs: list[WineRun], cs: tuple[float, ...] = CS) -> dict[str, list[float]]:
    """Accuracy against C for Robust-LODML on the triplets of OCTG, with plain 3-NN and with Robust-kNN."""
    from nearkin.learners import RobustLODML
    from nearkin.neighbors import RobustKNeighborsClassifier

    scores: dict[str, list[list[float]]] = {}
    for run in runs:
        models = [RobustLODML(C=C, eta=ETA, scale=None, random_state=run.seed).fit(run.train, run.labels) for C in cs]
        voting = [
            RobustKNeighborsClassifier.algorithm5(model, noise_rate=NOISE_RATE).fit(run.train, run.labels)
            for model in models
        ]
        found = {
            "Robust-LODML, 3-NN": [_three_nearest(run, model) for model in models],
            "Robust-LODML, Robust-kNN": [100.0 * one.score(run.test, run.test_labels) for one in voting],
            "Euclidean": [_three_nearest(run, None)] * len(cs),
        }
        for name, values in found.items():
            scores.setdefault(name, []).append(values)
    return _means(scores)


def _three_nearest(run: WineRun, model: Any) -> float:
    from sklearn.neighbors import KNeighborsClassifier

    train, test = (run.train, run.test) if model is None else (model.transform(run.train), model.transform(run.test))
    return 100.0 * float(KNeighborsClassifier(3).fit(train, run.labels).score(test, run.test_labels))


def _means(scores: dict[str, list[list[float]]]) -> dict[str, list[float]]:
    return {name: np.mean(values, axis=0).tolist() for name, values in scores.items()}
