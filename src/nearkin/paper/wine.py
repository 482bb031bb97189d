"""Section 4.1: what wrong labels do on Wine. Table 1, and Figures 8 to 11 as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler, normalize

from nearkin import datasets
from nearkin.learners import ODML, RobustLODML
from nearkin.neighbors import RobustKNeighborsClassifier
from nearkin.noise import flip_labels
from nearkin.paper.methods import as_printed
from nearkin.paper.protocol import derive_seed
from nearkin.paper.report import Record
from nearkin.paper.scores import get_printed_triplets, summarise
from nearkin.triplets import OCTG, BatchTriplets

__all__ = [
    "CS",
    "ETA",
    "NOISE_RATE",
    "WineRun",
    "count_triplets",
    "draw_runs",
    "scale_rows",
    "trace_batch",
    "trace_robust",
]

Array = NDArray[Any]

#: Of section 4.1: share of wrong labels, share of test rows, and eta of Figure 10.
NOISE_RATE, TEST_SHARE, ETA = 0.1, 0.3, 3.0

#: The range of section 4.2.
CS = tuple(float(C) for C in np.logspace(-6, np.log10(30.0), 10))

#: Of 45 settings (targets, impostors per target, margin) the closest to the printed batch column, which none meets.
_BATCH: dict[str, Any] = {"n_targets": 2, "max_impostors": 1, "margin": 1.0}
_OCTG: dict[str, Any] = {"n_centers": 1, "margin": 1.0}


def scale_rows(X: Array) -> Array:
    """z-scores, then rows of length 1: the scaling that gives the OCTG column of Table 1."""
    rows: Array = normalize(StandardScaler().fit_transform(np.asarray(X, dtype=np.float64)))
    return rows


def count_triplets(data: datasets.Dataset, *, n_draws: int = 50, seed: int = 0) -> list[Record]:
    """Table 1: counts and mean hinges of triplets by what is wrong in them, over draws of the noise."""
    X = scale_rows(data.X)
    records = []
    for name, source, params in (("Batch", BatchTriplets, _BATCH), ("OCTG", OCTG, _OCTG)):
        draws = []
        for draw in range(n_draws):
            noisy, is_wrong = flip_labels(data.y, NOISE_RATE, random_state=derive_seed(seed, data.name, draw))
            draws.append(_count_kinds(source(**params).build(X, noisy), is_wrong))
        for kind, (paper_count, paper_hinge) in get_printed_triplets()[name].items():
            counts, hinges = zip(*(one[kind] for one in draws), strict=True)
            known = [hinge for hinge in hinges if hinge is not None]
            count_mean, count_std = summarise(list(counts))
            hinge_mean, hinge_std = summarise(known) if known else (None, None)
            records.append({
                "dataset": data.name, "noise": round(100 * NOISE_RATE), "method": name, "figure": kind,
                "count_mean": count_mean, "count_std": count_std, "paper_count": paper_count,
                "hinge_mean": hinge_mean, "hinge_std": hinge_std, "paper_hinge": paper_hinge,
                "draws": n_draws, "params": params, "seed": seed,
            })  # fmt: skip
    return records


def _count_kinds(triplets: Any, is_wrong: NDArray[np.bool_]) -> dict[str, tuple[float, float | None]]:
    hinge, roles = np.maximum(0.0, 1.0 - triplets.margins()), triplets.noisy_roles(is_wrong)
    noisy = roles.anchor | roles.positive | roles.negative
    kinds = {
        "triplets": np.ones(len(hinge), dtype=bool),
        "normal": ~noisy,
        "noisy": noisy,
        "anchor_noisy": roles.anchor,
        "positive_noisy": roles.positive,
        "negative_noisy": roles.negative,
    }
    return {kind: (float(one.sum()), float(hinge[one].mean()) if one.any() else None) for kind, one in kinds.items()}


@dataclass(frozen=True, eq=False)
class WineRun:
    """One division of Wine into training rows with wrong labels and test rows, z-scored and of length 1."""

    train: Array
    labels: Array
    is_wrong: Array
    test: Array
    test_labels: Array
    seed: int

    def score_three_nearest(self, model: Any = None) -> float:
        """Accuracy of 3-NN in percent, under the metric of a model or the Euclidean one."""
        train, test = (self.train, self.test) if model is None else map(model.transform, (self.train, self.test))
        return 100.0 * float(KNeighborsClassifier(3).fit(train, self.labels).score(test, self.test_labels))


def draw_runs(n_runs: int = 10, seed: int = 0) -> list[WineRun]:
    """Divisions drawn at random, as the paper says."""
    wine = datasets.load("wine")
    runs = []
    for run in range(n_runs):
        here = derive_seed(seed, "wine", run)
        X, X_test, y, y_test = train_test_split(
            wine.X.astype(np.float64), wine.y, test_size=TEST_SHARE, stratify=wine.y, random_state=here
        )
        scaler = StandardScaler().fit(X)
        noisy, is_wrong = flip_labels(y, NOISE_RATE, random_state=here)
        train, test = (normalize(scaler.transform(one)) for one in (X, X_test))
        runs.append(WineRun(train, noisy, is_wrong, test, y_test, here))
    return runs


def trace_batch(runs: list[WineRun], cs: tuple[float, ...] = CS) -> dict[str, list[float]]:
    """Figure 9: accuracy of 3-NN against C for ODML on batch triplets, and for ODML without the wrong ones."""
    scores: dict[str, list[list[float]]] = {}
    for run in runs:
        triplets = BatchTriplets(n_targets=2, max_impostors=1).build(run.train, run.labels)
        roles = triplets.noisy_roles(run.is_wrong)
        left_out = {
            "ODML": np.zeros(len(triplets), dtype=bool),
            "ideal ODML": roles.anchor | roles.positive | roles.negative,
            "anchor ideal": roles.anchor,
            "positive ideal": roles.positive,
            "negative ideal": roles.negative,
        }
        members = triplets.anchor, triplets.positive, triplets.negative
        for name, dropped in left_out.items():
            rows = [run.train[one[~dropped]] for one in members]
            models = (as_printed(ODML, C=C, scale=None, random_state=run.seed).fit_triplets(*rows) for C in cs)
            scores.setdefault(name, []).append([run.score_three_nearest(model) for model in models])
        scores.setdefault("Euclidean", []).append([run.score_three_nearest()] * len(cs))
    return _average(scores)


def trace_robust(runs: list[WineRun], cs: tuple[float, ...] = CS) -> dict[str, list[float]]:
    """Figure 10: accuracy against C for Robust-LODML on the triplets of OCTG, with plain 3-NN and with Robust-kNN."""
    scores: dict[str, list[list[float]]] = {}
    for run in runs:
        made = [as_printed(RobustLODML, C=C, eta=ETA, scale=None, random_state=run.seed) for C in cs]
        models = [one.fit(run.train, run.labels) for one in made]
        voting = [
            RobustKNeighborsClassifier.algorithm5(model, noise_rate=NOISE_RATE).fit(run.train, run.labels)
            for model in models
        ]
        found = {
            "Robust-LODML, 3-NN": [run.score_three_nearest(model) for model in models],
            "Robust-LODML, Robust-kNN": [100.0 * one.score(run.test, run.test_labels) for one in voting],
            "Euclidean": [run.score_three_nearest()] * len(cs),
        }
        for name, values in found.items():
            scores.setdefault(name, []).append(values)
    return _average(scores)


def _average(scores: dict[str, list[list[float]]]) -> dict[str, list[float]]:
    return {name: np.mean(values, axis=0).tolist() for name, values in scores.items()}
