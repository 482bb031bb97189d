"""Section 4.1: what wrong labels do on Wine. Table 1, and Figures 8 to 11 as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.preprocessing import StandardScaler, normalize

from nearkin import datasets
from nearkin.learners import ODML, RobustLODML
from nearkin.neighbors import RobustKNeighborsClassifier
from nearkin.noise import flip_labels
from nearkin.paper.methods import as_printed
from nearkin.paper.protocol import derive_seed
from nearkin.paper.report import Record
from nearkin.paper.scores import get_printed_triplets, summarise
from nearkin.paper.sources import digest_sources
from nearkin.rows import Rows
from nearkin.triplets import OCTG, Triplets

__all__ = [
    "CS",
    "ETA",
    "NOISE_RATE",
    "WineRun",
    "count_triplets",
    "draw_runs",
    "join_neighbours",
    "make_trace_records",
    "scale_rows",
    "trace_batch",
    "trace_robust",
]

Array = NDArray[Any]

#: Accuracies by the name of a line: a row per run, a column per C.
Trace = dict[str, NDArray[np.float64]]

#: Of section 4.1: share of wrong labels, share of test rows, and eta of Figure 10.
NOISE_RATE, TEST_SHARE, ETA = 0.1, 0.3, 3.0

#: The range of section 4.2.
CS = tuple(float(C) for C in np.logspace(-6, np.log10(30.0), 10))

#: Neighbours of a row among which the batch looks. Of what was tried only this gives the printed counts and hinges.
_BATCH: dict[str, Any] = {"n_neighbors": 5}
_OCTG: dict[str, Any] = {"n_centers": 1, "margin": 1.0}


def scale_rows(X: Array) -> Array:
    """z-scores, then rows of length 1: the scaling that gives the OCTG column of Table 1."""
    rows: Array = normalize(StandardScaler().fit_transform(np.asarray(X, dtype=np.float64)))
    return rows


def count_triplets(data: datasets.Dataset, *, n_draws: int = 50, seed: int = 0) -> list[Record]:
    """Table 1: counts and mean hinges of triplets by what is wrong in them, over draws of the noise."""
    X = scale_rows(data.X)
    records = []
    for name, params, build in (("Batch", _BATCH, join_neighbours), ("OCTG", _OCTG, _build_octg)):
        draws = []
        for draw in range(n_draws):
            noisy, is_wrong = flip_labels(data.y, NOISE_RATE, random_state=derive_seed(seed, data.name, draw))
            draws.append(_count_kinds(build(X, noisy, **params), is_wrong))
        for kind, (paper_count, paper_hinge) in get_printed_triplets()[name].items():
            counts, hinges = zip(*(one[kind] for one in draws), strict=True)
            known = [hinge for hinge in hinges if hinge is not None]
            count_mean, count_std = summarise(list(counts))
            hinge_mean, hinge_std = summarise(known) if known else (None, None)
            records.append({
                "dataset": data.name, "noise": round(100 * NOISE_RATE), "method": name, "figure": kind,
                "count_mean": count_mean, "count_std": count_std, "paper_count": paper_count,
                "hinge_mean": hinge_mean, "hinge_std": hinge_std, "paper_hinge": paper_hinge,
                "draws": n_draws, "params": params, "seed": seed, "sources": digest_sources("wine"),
            })  # fmt: skip
    return records


def join_neighbours(X: Array, y: Array, n_neighbors: int = 5) -> Triplets:
    """Join the rows of the same label with those of other labels among the nearest of every row: a batch of triplets.

    Examples
    --------
    >>> triplets = join_neighbours(np.array([[0.0], [0.2], [1.0], [1.4]]), np.array([0, 0, 1, 1]), 2)
    >>> list(zip(triplets.anchor.tolist(), triplets.positive.tolist(), triplets.negative.tolist()))
    [(0, 1, 2), (1, 0, 2), (2, 3, 1), (3, 2, 1)]
    """
    _, nearest = NearestNeighbors(n_neighbors=n_neighbors).fit(X).kneighbors()
    found = [
        (row, same, other)
        for row, near in enumerate(nearest)
        for same in near[y[near] == y[row]]
        for other in near[y[near] != y[row]]
    ]
    anchor, positive, negative = np.array(found, dtype=np.int64).reshape(-1, 3).T.copy()
    rows, origin = Rows(X), np.arange(len(X))
    return Triplets(rows, rows, anchor, positive, negative, origin, origin)


def _build_octg(X: Array, y: Array, **params: Any) -> Triplets:
    return OCTG(**params).build(X, y)


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


def trace_batch(runs: list[WineRun], cs: tuple[float, ...] = CS) -> Trace:
    """Figure 9: accuracy of 3-NN against C for ODML on a batch of triplets, and for ODML without the wrong ones."""
    scores: dict[str, list[Any]] = {}
    for run in runs:
        triplets = join_neighbours(run.train, run.labels, **_BATCH)
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
    return {name: np.array(values) for name, values in scores.items()}


def trace_robust(runs: list[WineRun], cs: tuple[float, ...] = CS) -> Trace:
    """Figure 10: accuracy against C for Robust-LODML on the triplets of OCTG, with plain 3-NN and with Robust-kNN."""
    scores: dict[str, list[Any]] = {}
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
    return {name: np.array(values) for name, values in scores.items()}


def make_trace_records(figure: int, trace: Trace, cs: tuple[float, ...], against: str, seed: int = 0) -> list[Record]:
    """Mean accuracies of a figure, and how far each lies above one of its lines, with standard errors over runs."""
    records = []
    for name, values in trace.items():
        for C, here, there in zip(cs, values.T, trace[against].T, strict=True):
            (mean, std), (lead, lead_std) = summarise(here.tolist()), summarise((here - there).tolist())
            records.append({
                "figure": figure, "dataset": "wine", "noise": round(100 * NOISE_RATE), "line": name, "C": C,
                "mean": mean, "error": std / np.sqrt(len(here)), "against": against, "lead": lead,
                "lead_error": lead_std / np.sqrt(len(here)), "runs": len(here), "seed": seed,
                "sources": digest_sources("paper"),
            })  # fmt: skip
    return records
