"""Draws for `benchmarks.audit_rivals`: which rows are learned from, and how their labels are made wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

from nearkin import flip_labels, paper
from nearkin.noise import flip_near_boundary, flip_to_next

from .audit_sets import AuditSet

MOST_TRAINING, MOST_TESTING = 900, 600
#: Wider sets become principal components of the training rows, for every method.
MOST_COLUMNS, COMPONENTS = 300, 64
#: Labels that a class keeps at least, so that every fold has some.
FEWEST_GIVEN = 6
#: Clean rows of each class that a weak rule learns from.
RULE_ROWS = 15
#: Largest share of wrong labels, for two classes and for more.
MOST_WRONG_OF_TWO, MOST_WRONG = 0.3, 0.4


@dataclass(frozen=True)
class Draw:
    """One split with its labels; the same for every method."""

    X: np.ndarray
    given: np.ndarray
    right: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    seed: int

    @property
    def z(self) -> np.ndarray:
        return standardize(self.X, self.X)

    @property
    def z_test(self) -> np.ndarray:
        return standardize(self.X_test, self.X)


def standardize(X: np.ndarray, by: np.ndarray) -> np.ndarray:
    """z-scores; columns that do not vary become 0."""
    deviation = by.std(0)
    return (X - by.mean(0)) / np.where(deviation > 1e-9, deviation, np.inf)


def make_none(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return y


def make_uniform(rate: float) -> Callable[..., np.ndarray]:
    """Any other class; two classes at most `MOST_WRONG_OF_TWO`."""

    def make(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return flip_labels(y, min(rate, MOST_WRONG_OF_TWO) if y.max() == 1 else rate, random_state=rng)[0]

    return make


def make_next(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The next class, 20 %."""
    return flip_to_next(y, 0.2, random_state=rng)[0]


def make_by_class(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Any other class at rates from 0 to 40 %, in random order; 5 and 35 % for two classes."""
    k = int(y.max()) + 1
    rates = rng.permutation([0.05, 0.35] if k == 2 else np.linspace(0.0, 0.4, k))
    is_wrong = rng.random(len(y)) < rates[y]
    return np.where(is_wrong, (y + rng.integers(1, k, len(y))) % k, y)


def make_boundary(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The class across a nearby boundary, 20 %."""
    return flip_near_boundary(X, y, 0.2, random_state=rng)[0]


def make_by_rule(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Predictions of a small model that learned from few right labels: a logistic regression or a tree.

    If more are wrong than `MOST_WRONG`, some are put right at random.
    """
    k = int(y.max()) + 1
    some = []
    for code in range(k):
        members = rng.permutation(np.flatnonzero(y == code))
        some.append(members[: min(RULE_ROWS, max(2, len(members) // 3))])
    at = np.concatenate(some)
    seed = int(rng.integers(2**31))
    rule = LogisticRegression(max_iter=500) if seed % 2 else DecisionTreeClassifier(random_state=seed)
    given = rule.fit(X[at], y[at]).predict(X)
    wrong = rng.permutation(np.flatnonzero(given != y))
    mended = wrong[round((MOST_WRONG_OF_TWO if k == 2 else MOST_WRONG) * len(y)) :]
    given[mended] = y[mended]
    return given


def make_rare_lost(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """30 % of the rare class get the label of the other."""
    rare = int(np.bincount(y).argmin())
    members = rng.permutation(np.flatnonzero(y == rare))
    given = y.copy()
    given[members[: round(0.3 * len(members))]] = 1 - rare
    return given


#: Kinds of noise by name: they take z-scores, right labels and a generator, and return labels.
KINDS: dict[str, Callable[..., np.ndarray]] = {
    "none": make_none,
    "uniform 10": make_uniform(0.1),
    "uniform 20": make_uniform(0.2),
    "uniform 40": make_uniform(0.4),
    "next class": make_next,
    "by class": make_by_class,
    "boundary": make_boundary,
    "weak rule": make_by_rule,
    "rare lost": make_rare_lost,
}
#: Kinds for sets with a rare class.
RARE_KINDS = ("none", "uniform 10", "rare lost")


def list_kinds(data: AuditSet) -> list[str]:
    """Kinds of noise that a set gets. The next class of two is the other one, which is uniform noise."""
    if data.is_rare:
        return list(RARE_KINDS)
    out = [name for name in KINDS if name != "rare lost" and (name != "next class" or data.n_classes > 2)]
    return [*out, *(f"human {name}" for name in data.given)]


def draw_rows(data: AuditSet, kind: str, draw: int) -> Draw:
    """Split and spoil; the split depends on set and draw alone, so that kinds of noise can be compared."""
    split = np.random.default_rng(paper.derive_seed(draw, data.name))
    train, test = (_split_rare if data.is_rare else _split)(data.y, split)
    X, X_test = data.X[train].astype(np.float64), data.X[test].astype(np.float64)
    if X.shape[1] > MOST_COLUMNS:
        project = PCA(COMPONENTS, random_state=0).fit(X)
        X, X_test = project.transform(X), project.transform(X_test)
    seed = paper.derive_seed(draw, data.name, kind)
    right = data.y[train]
    if kind.startswith("human "):
        given = data.given[kind.removeprefix("human ")][train]
    else:
        given = KINDS[kind](standardize(X, X), right, np.random.default_rng(seed))
    return Draw(X, _keep_classes(given, right), right, X_test, data.y[test], seed % 2**31)


def _split(y: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    n = min(MOST_TRAINING, int(0.7 * len(y)))
    sizes = {"train_size": n, "test_size": min(MOST_TESTING, len(y) - n)}
    train, test = train_test_split(np.arange(len(y)), stratify=y, random_state=int(rng.integers(2**31)), **sizes)
    return train, test


def _split_rare(y: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Training rows in the ratio of the set; of each class up to half of the test rows, since each is judged alone."""
    n = min(MOST_TRAINING, int(0.6 * len(y)))
    train, test = [], []
    for code in range(2):
        members = rng.permutation(np.flatnonzero(y == code))
        mine = max(FEWEST_GIVEN, round(n * len(members) / len(y)))
        train.append(members[:mine])
        test.append(members[mine:][: MOST_TESTING // 2])
    return rng.permutation(np.concatenate(train)), np.concatenate(test)


def _keep_classes(given: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Put labels of a class right until enough rows have it, in the order of the rows."""
    given = given.copy()
    for code in range(int(right.max()) + 1):
        missing = FEWEST_GIVEN - int((given == code).sum())
        lost = np.flatnonzero((right == code) & (given != code))
        given[lost[: max(0, missing)]] = code
    return given
