"""Rows of the table of `benchmarks.spaces`: the package's learners with their defaults, and rivals that could win.

ITML, LMNN and one LFDA come from metric-learn (``pip install --no-deps metric-learn``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import NeighborhoodComponentsAnalysis

import nearkin
from nearkin.learners import OnlineLearner

#: Scores of queries with items, larger is closer.
Score = Callable[[np.ndarray, np.ndarray], np.ndarray]
#: Takes rows, labels and a seed; returns the score that was learned.
Fit = Callable[[np.ndarray, np.ndarray, int], Score]


@dataclass(frozen=True)
class Method:
    """One row of the table.

    Parameters
    ----------
    name : str
        As in the table.
    fit : callable
        Learns a score.
    family : {"baseline", "ours", "printed", "rival"}
        What `select` goes by.
    about : str
        Settings that are not defaults, for the reader of the table.
    most_features : int or None
        Wider sets would take minutes for a single fit.
    """

    name: str
    fit: Fit
    family: str
    about: str = ""
    most_features: int | None = None


def score_mapped(transform: Callable[[np.ndarray], np.ndarray]) -> Score:
    """Minus the squared Euclidean distance between mapped rows."""

    def score(queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        left, right = transform(queries), transform(items)
        return 2.0 * left @ right.T - (left * left).sum(1)[:, None] - (right * right).sum(1)

    return score


# ---------------------------------------------------------------------- the package's learners

#: Learners by the names of their plain forms; each has a robust one.
PLAIN = (
    "OASIS", "ODML", "LOSL", "LODML", "OPML", "SLMOML", "ITML", "LPAODML", "OKS", "OMKS", "OMDML", "LOMDML", "LSMDML",
)  # fmt: skip
#: Those for rows in several modalities; here the two halves of the columns.
MODAL = ("OMDML", "LOMDML", "LSMDML")


def fit_learner(name: str, **settings: Any) -> Fit:
    """Fit a learner of the package; similarities retrieve by their own score."""

    def fit(X: np.ndarray, y: np.ndarray, seed: int) -> Score:
        halves: dict[str, Any] = {}
        if name.removeprefix("Robust") in MODAL and X.shape[1] > 1:
            halves["modalities"] = [X.shape[1] // 2, X.shape[1] - X.shape[1] // 2]
        learner = getattr(nearkin, name)(random_state=seed, **halves, **settings).fit(X, y)
        if not hasattr(learner, "transform"):
            return functools.partial(score_unmapped, learner)
        if learner.measure.is_distance:
            return score_mapped(learner.transform)
        return lambda queries, items: learner.map_queries(queries) @ learner.map_items(items).T

    return fit


def score_unmapped(learner: OnlineLearner, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
    """All pairs in blocks, for learners that have no map."""
    left, right = (learner.map_blocks(X, np.asarray) for X in (queries, items))
    return learner.state_.parameter.scores(left, right)


def list_learners() -> list[Method]:
    """Every learner as it comes, and once more as its article has it where the default starts elsewhere."""
    found = []
    for plain in PLAIN:
        for name in (plain, f"Robust{plain}"):
            about = "two halves of the columns" if plain in MODAL else ""
            found.append(Method(name, fit_learner(name), "ours", about))
            printed = as_printed(name)
            if printed:
                found.append(Method(f"{name} (printed)", fit_learner(name, **printed), "printed", about))
    return found


def as_printed(name: str) -> dict[str, Any]:
    """Settings that bring a learner back to the form of its article; none if the default is that form."""
    given = getattr(nearkin, name)().get_params()
    if given.get("init") != "discriminant":
        return {}
    if name.endswith("OPML"):
        return {"init": "identity", "C": 0.0005}
    printed: dict[str, Any] = {"init": "auto" if "n_components" in given else "identity"}
    return printed | {key: value for key, value in (("triplets", "octg"), ("C", 0.1)) if given[key] == "auto"}


# ---------------------------------------------------------------------- rivals


def fit_nca(X: np.ndarray, y: np.ndarray, seed: int, **settings: Any) -> Score:
    return score_mapped(NeighborhoodComponentsAnalysis(random_state=seed, **settings).fit(X, y).transform)


def fit_small_nca(X: np.ndarray, y: np.ndarray, seed: int) -> Score:
    return fit_nca(X, y, seed, n_components=min(16, X.shape[1]), max_iter=30)


def fit_lda(X: np.ndarray, y: np.ndarray, seed: int) -> Score:
    model = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(X, y)
    return score_mapped(model.transform)


def fit_lfda(X: np.ndarray, y: np.ndarray, seed: int) -> Score:
    """LFDA (Sugiyama 2007) with its within-class scatter shrunk, so that it runs with more features than rows."""
    n, d = X.shape
    centred = X.copy()
    within, between = np.zeros((d, d)), np.zeros((d, d))
    for label in np.unique(y):
        rows = X[y == label]
        squared = euclidean_distances(rows, squared=True)
        reach = np.sqrt(np.sort(squared, axis=0)[min(7, len(rows) - 1)])
        near = np.exp(-squared / np.maximum(np.outer(reach, reach), 1e-12))
        local = rows.T @ (near.sum(0)[:, None] * rows) - rows.T @ near @ rows  # sum of A_ij (x_i - x_j)(x_i - x_j)' / 2
        centred[y == label] -= rows.mean(0)
        within += local / len(rows)
        # Pairs of a class count A_ij (1/n - 1/n_c). All pairs are added with 1/n below, so take those of the class off.
        between += local * (1.0 / n - 1.0 / len(rows)) - (len(rows) * rows.T @ rows - _outer_sum(rows)) / n
    between += (n * X.T @ X - _outer_sum(X)) / n
    share = ledoit_wolf_shrinkage(centred)
    within = (1.0 - share) * within + share * np.trace(within) / d * np.eye(d)
    values, vectors = linalg.eigh(between, within)
    return score_mapped(lambda rows: rows @ (vectors * np.sqrt(np.maximum(values, 0.0))))


def _outer_sum(rows: np.ndarray) -> np.ndarray:
    total = rows.sum(0)
    return np.outer(total, total)


def fit_peer(name: str, limit: Callable[[np.ndarray], dict[str, Any]] = lambda y: {}) -> Fit:
    """Fit a learner of metric-learn; ``limit`` chooses settings from the labels."""

    def fit(X: np.ndarray, y: np.ndarray, seed: int) -> Score:
        learner = getattr(_import_metric_learn(), name)
        seeded = {"random_state": seed} if "random_state" in learner().get_params() else {}
        return score_mapped(learner(**seeded, **limit(y)).fit(X, y).transform)

    return fit


@functools.cache
def _import_metric_learn() -> Any:
    """Import metric-learn 0.7, which still uses an argument of scikit-learn that was renamed."""
    import metric_learn
    from metric_learn import _util

    for name in ("check_array", "check_X_y"):
        setattr(_util, name, _rename(getattr(_util, name)))
    return metric_learn


def _rename(check: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(check)
    def renamed(*given: Any, **settings: Any) -> Any:
        if "force_all_finite" in settings:
            settings["ensure_all_finite"] = settings.pop("force_all_finite")
        return check(*given, **settings)

    return renamed


def _limit_itml(y: np.ndarray) -> dict[str, Any]:
    """Its default of 20 pairs per pair of classes and 1,000 rounds takes minutes for ten classes and hours for more."""
    return {"n_constraints": min(20 * len(np.unique(y)) ** 2, 1000), "max_iter": 100}


RIVALS = (
    Method("LDA", fit_lda, "rival", "shrunk by Ledoit and Wolf's rule"),
    Method("NCA", fit_nca, "rival"),
    Method("NCA(16)", fit_small_nca, "rival", "16 dimensions, 30 iterations"),
    Method("LFDA", fit_lfda, "rival", "shrunk in the same way"),
    Method("metric-learn LFDA", fit_peer("LFDA"), "rival"),
    Method("metric-learn ITML", fit_peer("ITML_Supervised", _limit_itml), "rival",
           "at most 1,000 pairs, 100 rounds", most_features=100),
    Method("metric-learn LMNN", fit_peer("LMNN"), "rival", most_features=100),
)  # fmt: skip

BASELINE = Method("z-scores", lambda X, y, seed: score_mapped(np.asarray), "baseline")

METHODS = {one.name: one for one in (BASELINE, *list_learners(), *RIVALS)}


def select(words: str | None) -> tuple[Method, ...]:
    """Methods by names or families, separated by commas; all by default."""
    if words is None:
        return tuple(METHODS.values())
    found: dict[str, Method] = {}
    for word in map(str.strip, words.split(",")):
        mine = {name: one for name, one in METHODS.items() if word in (name, one.family)}
        if not mine:
            raise ValueError(f"no method {word!r}; there are baseline, ours, printed, rival, and {', '.join(METHODS)}")
        found |= mine
    return tuple(found.values())
