"""What `benchmarks.audit_rivals` compares: detectors of wrong labels, classifiers, and nearkin, which is both.

Rivals of one draw share their fits: the probabilities that cleanlab judges by are also what noisy cross-validation
compares models by. nearkin gets the columns as they are, rivals get z-scores.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from nearkin import audit_labels

from .audit_noise import Draw, draw_rows
from .audit_sets import AuditSet
from .rivals import predict_out_of_fold, require_cleanlab

OURS, DOUBLED = "nearkin", "nearkin, rows twice"
#: The kind of noise under which every row is doubled.
DOUBLED_KIND = "uniform 20"
JUDGES = ("10-NN", "logistic", "forest", "HistGB")
CLEANLAB = (*(f"cleanlab {name}" for name in JUDGES), "cleanlab mean of four", "cleanlab forest, margin")
DETECTORS = (*CLEANLAB, "neighbour vote", "Data-OOB")
CV_PICK, CLEAN_LEARNING = "picked by noisy CV", "CleanLearning"
CLASSIFIERS = ("RBF-SVM", "forest", "HistGB", "logistic", CLEAN_LEARNING, CV_PICK)
#: Parts of a run: nearkin can be measured again without the rivals.
PARTS = ("nearkin", "rivals")

N_TREES, N_BAGGED, N_NEIGHBORS, N_BINS = 300, 150, 10, 10
#: Penalties that noisy cross-validation chooses from.
SVM_C, LOGISTIC_C = (0.1, 1.0, 10.0, 100.0), (0.01, 0.1, 1.0, 10.0)


@dataclass
class Line:
    """One line of the file: a method on one draw; shares from 0 to 1, None where there is nothing to measure.

    Parameters
    ----------
    set, noise, draw, method : str, str, int, str
        What was measured.
    seconds : float
        Processor time; what rivals share is counted for each of them.
    accuracy, sensitivity, gmean : float or None
        On test rows with right labels: share right, that of the rarest class, geometric mean over classes.
    auroc, ap, precision, recall, f1, flagged : float or None
        Of the ranking and of the flags among training rows.
    rate, true_rate, low, high : float or None
        Estimated and true share of wrong labels, and the interval.
    act_flagged, act_precision, act_recall : float or None
        Flags of the first tier only.
    rare_flagged, other_flagged, rare_found : float or None
        Share flagged among right labels of the rarest class and of the others; share found of the rarest class's rows
        that have another label.
    bins : str
        Suspects by confidence in ten bins: number, sum of confidence and number of right suggestions of each.
    error : str
        Why there are no values.
    """

    set: str
    noise: str
    draw: int
    method: str
    seconds: float = 0.0
    accuracy: float | None = None
    sensitivity: float | None = None
    gmean: float | None = None
    auroc: float | None = None
    ap: float | None = None
    precision: float | None = None
    recall: float | None = None
    f1: float | None = None
    flagged: float | None = None
    rate: float | None = None
    true_rate: float | None = None
    low: float | None = None
    high: float | None = None
    act_flagged: float | None = None
    act_precision: float | None = None
    act_recall: float | None = None
    rare_flagged: float | None = None
    other_flagged: float | None = None
    rare_found: float | None = None
    bins: str = ""
    error: str = ""


COLUMNS = tuple(one.name for one in fields(Line))


@dataclass(frozen=True)
class Job:
    """Lines that are measured together: a part of the methods on one draw."""

    set: str
    noise: str
    draw: int
    part: str

    @property
    def methods(self) -> tuple[str, ...]:
        if self.part == "rivals":
            return DETECTORS + CLASSIFIERS
        return (OURS, DOUBLED) if self.noise == DOUBLED_KIND else (OURS,)

    @property
    def keys(self) -> set[tuple[str, str, int, str]]:
        return {(self.set, self.noise, self.draw, method) for method in self.methods}


def measure(job: Job, data: AuditSet) -> list[Line]:
    """Lines of a job, on one thread."""
    with threadpool_limits(1), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        rows = draw_rows(data, job.noise, job.draw)
        measurement = Measurement(job, rows)
        (measure_rivals if job.part == "rivals" else measure_ours)(measurement, rows)
    return measurement.lines


@dataclass
class Measurement:
    """Lines of a job as they are found; a method that fails leaves its error."""

    job: Job
    rows: Draw
    lines: list[Line] = field(default_factory=list)

    @contextmanager
    def line(self, method: str, shared: float = 0.0) -> Iterator[Line]:
        """A line to fill in; ``shared`` are seconds spent on it before."""
        job = self.job
        line = Line(job.set, job.noise, job.draw, method)
        began = time.process_time()
        try:
            yield line
        except Exception as error:
            line.error = f"{type(error).__name__}: {error}"[:160].replace("\n", " ")
        line.seconds = shared + time.process_time() - began
        self.lines.append(line)


# ---------------------------------------------------------------------- scores


def score_flags(line: Line, rows: Draw, doubt: np.ndarray, flagged: np.ndarray, rate: float) -> None:
    """Fill in how well wrong labels were found."""
    is_wrong = rows.given != rows.right
    line.rate, line.true_rate, line.flagged = float(rate), float(is_wrong.mean()), float(flagged.mean())
    rare = rows.right == np.bincount(rows.right).argmin()
    line.rare_flagged = _share(flagged, rare & ~is_wrong)
    line.other_flagged = _share(flagged, ~rare & ~is_wrong)
    line.rare_found = _share(flagged, rare & is_wrong)
    if is_wrong.any():
        line.auroc = float(roc_auc_score(is_wrong, doubt))
        line.ap = float(average_precision_score(is_wrong, doubt))
        line.precision, line.recall = _share(is_wrong, flagged) or 0.0, _share(flagged, is_wrong)
        line.f1 = 2.0 * float((is_wrong & flagged).sum()) / float(is_wrong.sum() + flagged.sum())


def _share(these: np.ndarray, among: np.ndarray) -> float | None:
    return float(these[among].mean()) if among.any() else None


def score_classes(line: Line, predicted: np.ndarray, truth: np.ndarray, rarest: int) -> None:
    """Fill in how well test rows were classified; ``rarest`` is the rarest class of the training rows."""
    line.accuracy = float((predicted == truth).mean())
    shares = {int(code): float((predicted[truth == code] == code).mean()) for code in np.unique(truth)}
    line.sensitivity = shares.get(rarest)
    line.gmean = math.prod(shares.values()) ** (1.0 / len(shares))


def bin_confidence(confidence: np.ndarray, is_right: np.ndarray) -> str:
    """Number, sum of confidence and number right in ten bins, as text."""
    at = np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)
    parts = zip(
        np.bincount(at, minlength=N_BINS),
        np.bincount(at, confidence, minlength=N_BINS),
        np.bincount(at, is_right, minlength=N_BINS),
        strict=True,
    )
    return ";".join(f"{n}/{says:.3f}/{right:.0f}" for n, says, right in parts)


# ---------------------------------------------------------------------- nearkin


def measure_ours(found: Measurement, rows: Draw) -> None:
    _warm_up()
    for method in found.job.methods:
        with found.line(method) as line:
            if method == DOUBLED:
                twice = Draw(*(np.concatenate([one, one]) for one in (rows.X, rows.given, rows.right)),
                             rows.X_test, rows.y_test, rows.seed)  # fmt: skip
                audit = audit_labels(twice.X, twice.given, random_state=rows.seed)
                score_flags(line, twice, 1.0 - audit.score, audit.is_suspect, audit.noise_rate)
                continue
            audit = audit_labels(rows.X, rows.given, random_state=rows.seed)
            score_flags(line, rows, 1.0 - audit.score, audit.is_suspect, audit.noise_rate)
            line.low, line.high = map(float, audit.noise_interval)
            some = audit.is_suspect
            line.bins = bin_confidence(audit.confidence[some], (audit.suggested_label == rows.right)[some])
            act = getattr(audit, "is_wrong", None)
            if act is not None:
                is_wrong = rows.given != rows.right
                line.act_flagged = float(act.mean())
                line.act_precision, line.act_recall = _share(is_wrong, act), _share(act, is_wrong)
            predicted = audit.classifier.predict(rows.X_test)
            score_classes(line, predicted, rows.y_test, int(np.bincount(rows.right).argmin()))


_is_warm = False


def _warm_up() -> None:
    """Compile before the clock runs."""
    global _is_warm
    if not _is_warm:
        rng = np.random.default_rng(0)
        for k in (2, 3):
            y = np.arange(200) % k
            audit_labels(rng.normal(size=(200, 5)) + y[:, None], y, random_state=0)
        _is_warm = True


# ---------------------------------------------------------------------- rivals


def measure_rivals(found: Measurement, rows: Draw) -> None:
    """Detectors and classifiers; a model's noisy accuracy is that on rows it did not see."""
    z, z_test, given, seed = rows.z, rows.z_test, rows.given, rows.seed
    rarest = int(np.bincount(rows.right).argmin())
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    timed: dict[str, float] = {}
    shares: dict[str, np.ndarray] = {}
    noisy: dict[str, float] = {}
    predicted: dict[str, np.ndarray] = {}

    def clock(name: str, work: Callable[[], Any]) -> Any:
        began = time.process_time()
        out = work()
        timed[name] = timed.get(name, 0.0) + time.process_time() - began
        return out

    forest = clock("forest", lambda: make_forest(seed).fit(z, given))
    shares["forest"] = forest.oob_decision_function_
    judges = {
        "10-NN": KNeighborsClassifier(N_NEIGHBORS),
        "logistic": LogisticRegression(max_iter=500),
        "HistGB": make_boosting(int(given.max()) + 1, seed),
    }
    for name, judge in judges.items():
        shares[name] = clock(name, lambda judge=judge: predict_out_of_fold(judge, z, given, seed))
    for name, share in shares.items():
        noisy[name] = float((share.argmax(1) == given).mean())
    own = dict(timed)

    for name in JUDGES:
        with found.line(f"cleanlab {name}", own[name]) as line:
            judge_by_cleanlab(line, rows, shares[name])
    mean = sum(shares.values()) / len(shares)
    with found.line("cleanlab mean of four", sum(own.values())) as line:
        judge_by_cleanlab(line, rows, mean)
    with found.line("cleanlab forest, margin", own["forest"]) as line:
        judge_by_cleanlab(line, rows, shares["forest"], "normalized_margin")
    with found.line("neighbour vote") as line:
        score_flags(line, rows, *vote_by_neighbors(z, given))
    with found.line("Data-OOB") as line:
        score_flags(line, rows, *value_out_of_bag(z, given, seed))

    for name, grid in (("RBF-SVM", (SVC(), SVM_C)), ("logistic", (LogisticRegression(max_iter=500), LOGISTIC_C))):
        with found.line(name) as line:
            search = GridSearchCV(grid[0], {"C": grid[1]}, cv=folds).fit(z, given)
            noisy[name] = float(search.best_score_)
            predicted[name] = search.predict(z_test)
            score_classes(line, predicted[name], rows.y_test, rarest)
    with found.line("forest", own["forest"]) as line:
        predicted["forest"] = forest.predict(z_test)
        score_classes(line, predicted["forest"], rows.y_test, rarest)
    with found.line("HistGB") as line:
        predicted["HistGB"] = judges["HistGB"].fit(z, given).predict(z_test)
        score_classes(line, predicted["HistGB"], rows.y_test, rarest)
    with found.line(CLEAN_LEARNING) as line:
        score_classes(line, learn_cleanly(z, given, seed).predict(z_test), rows.y_test, rarest)
    with found.line(CV_PICK, sum(one.seconds for one in found.lines if one.method in CLASSIFIERS)) as line:
        predicted["10-NN"] = judges["10-NN"].fit(z, given).predict(z_test)
        best = max((name for name in noisy if name in predicted), key=noisy.__getitem__)
        score_classes(line, predicted[best], rows.y_test, rarest)


def make_forest(seed: int) -> RandomForestClassifier:
    return RandomForestClassifier(N_TREES, oob_score=True, random_state=seed, n_jobs=1)


def make_boosting(n_classes: int, seed: int) -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(max_iter=count_rounds(n_classes), early_stopping=False, random_state=seed)


def count_rounds(n_classes: int) -> int:
    """Rounds of boosting: the default, but fewer for more than three classes, since each grows a tree per class."""
    return 100 if n_classes <= 3 else max(20, 300 // n_classes)


def learn_cleanly(z: np.ndarray, given: np.ndarray, seed: int) -> Any:
    """cleanlab's own robust learner on logistic regression."""
    require_cleanlab()
    from cleanlab.classification import CleanLearning

    learner = CleanLearning(
        LogisticRegression(max_iter=500), seed=seed, find_label_issues_kwargs={"n_jobs": 1}, verbose=False
    )
    return learner.fit(z, given)


def judge_by_cleanlab(line: Line, rows: Draw, shares: np.ndarray, by: str = "self_confidence") -> None:
    """cleanlab's default filter and rate, and its default score or the margin."""
    find = require_cleanlab()
    from cleanlab.count import num_label_issues
    from cleanlab.rank import get_label_quality_scores

    flagged = find(rows.given, shares, n_jobs=1)
    doubt = 1.0 - get_label_quality_scores(rows.given, shares, method=by)
    score_flags(line, rows, doubt, flagged, float(num_label_issues(rows.given, shares)) / len(flagged))


def vote_by_neighbors(z: np.ndarray, given: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Doubt, flags and rate of a training-free vote, after SimiFeat's ranking (Zhu, Dong and Liu, 2022).

    The score is the cosine between a row's label and the labels of its ten neighbours and itself. The flip matrix is
    that of HOC's model (the labels of a row and of its two nearest rows are independent given one right class), here
    fitted by likelihood rather than by moments. Each class gets as many flags as the matrix says.
    """
    k = int(given.max()) + 1
    near = NearestNeighbors(n_neighbors=N_NEIGHBORS).fit(z).kneighbors(None, return_distance=False)
    votes = np.eye(k)[given] + sum(np.eye(k)[given[column]] for column in near.T)
    doubt = 1.0 - votes[np.arange(len(given)), given] / np.linalg.norm(votes, axis=1)
    share, flips = fit_flips(np.stack([given, given[near[:, 0]], given[near[:, 1]]], axis=1), k)
    joint = share[:, None] * flips
    right = np.diag(joint) / np.maximum(joint.sum(0), 1e-12)
    flagged = np.zeros(len(given), bool)
    for code in range(k):
        members = np.flatnonzero(given == code)
        n_flags = round((1.0 - right[code]) * len(members))
        flagged[members[np.argsort(-doubt[members], kind="stable")[:n_flags]]] = True
    return doubt, flagged, float(1.0 - np.diag(joint).sum())


def fit_flips(labels: np.ndarray, k: int, n_rounds: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Shares of the right classes and flip matrix under which rows of three labels are most likely."""
    share, flips = np.full(k, 1.0 / k), np.full((k, k), 0.2 / max(1, k - 1)) + (0.8 - 0.2 / max(1, k - 1)) * np.eye(k)
    counts = sum(np.eye(k)[column] for column in labels.T)
    for _ in range(n_rounds):
        log = np.log(share) + counts @ np.log(flips).T
        belief = np.exp(log - log.max(1, keepdims=True))
        belief /= belief.sum(1, keepdims=True)
        share = np.maximum(belief.mean(0), 1e-6)
        flips = belief.T @ counts + 1e-3
        flips /= flips.sum(1, keepdims=True)
    return share / share.sum(), flips


def value_out_of_bag(z: np.ndarray, given: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Doubt, flags and rate by Data-OOB (Kwon and Zou, 2023): how often trees that did not see a row get its label.

    As in the article, the flags are the lower of two clusters of the values. Bagged trees, which try 32 columns at a
    split rather than all if there are more. pyDVL has it too, but needs numpy < 2.
    """
    forest = RandomForestClassifier(N_BAGGED, max_features=min(32, z.shape[1]), random_state=seed, n_jobs=1)
    forest.fit(z, given)
    right, asked = np.zeros(len(given)), np.zeros(len(given))
    for tree, bag in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        out = np.setdiff1d(np.arange(len(given)), bag)
        right[out] += tree.predict(z[out].astype(np.float32)).astype(int) == given[out]
        asked[out] += 1
    value = right / np.maximum(asked, 1)
    groups = KMeans(2, n_init=3, random_state=0).fit(value[:, None])
    flagged = groups.labels_ == groups.cluster_centers_[:, 0].argmin()
    return 1.0 - value, flagged, float(flagged.mean())
