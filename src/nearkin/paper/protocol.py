"""From a data set to training and test parts: folds, noise in the training labels, preparation of the features."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.model_selection import KFold, StratifiedGroupKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from nearkin.datasets import Dataset
from nearkin.noise import flip_labels, flip_near_boundary, flip_to_next

__all__ = [
    "KINDS", "PROTOCOLS", "Protocol", "Split", "derive_seed", "draw_splits", "flip_training_labels", "get_protocol",
    "prepare", "split_inside",
]  # fmt: skip

Array = NDArray[Any]

#: Kinds of noise: any other class, the next class, the class across a nearby boundary, labels that people gave.
KINDS = ("uniform", "next-class", "boundary", "human")

#: Inner folds of the selection "nested".
N_INNER = 3


@dataclass(frozen=True)
class Protocol:
    """How a data set is prepared before anything is learned.

    With ``n_components``, rows are brought to length 1, then reduced to this many whitened principal components.
    """

    n_folds: int = 10
    z_score: bool = True
    n_components: int | None = None


#: Section 4.2 of the paper. Where it is silent or contradicts its own numbers, docs/reproduce.md explains the choice.
PROTOCOLS = {
    "letters": Protocol(n_folds=5, z_score=False),
    "yale": Protocol(n_folds=5, z_score=False, n_components=100),
    "covid-resnet18": Protocol(n_folds=5),
    "covid-mobilenetv2": Protocol(n_folds=5),
}


def get_protocol(dataset: str) -> Protocol:
    """Protocol of a data set by its name."""
    return PROTOCOLS.get(dataset, Protocol())


@dataclass(frozen=True, eq=False)
class Split:
    """One fold: what a method may learn from, and what tests it.

    ``train`` and ``test`` are on the scale of the paper's methods; ``raw_train`` and ``raw_test`` are the same rows for
    methods that scale features themselves. Training labels are noisy, test labels are right.
    """

    train: Array
    labels: Array
    test: Array
    test_labels: Array
    raw_train: Array
    raw_test: Array
    seed: int


def derive_seed(*parts: int | float | str) -> int:
    """Seed that depends on all parts and on nothing else."""
    words = [zlib.crc32(repr(part).encode()) for part in parts]
    return int(np.random.SeedSequence(words).generate_state(1)[0] >> 1)


def draw_splits(
    data: Dataset, noise: float | str, kind: str = "uniform", *, grouped: bool = False, seed: int = 0, n_draws: int = 1
) -> Iterator[Split]:
    """Folds of all draws, each with its own noise; the same for every method.

    ``noise`` is a percentage of wrong training labels, for ``kind="human"`` the name of labels in the data. With
    ``grouped``, rows of a group stay in the same fold.
    """
    protocol = get_protocol(data.name)
    for draw in range(n_draws):
        of_draw = derive_seed(seed, data.name, draw)
        if isinstance(noise, str):
            X_test, y_test = data.extra["X_test"], data.extra["y_test"]
            yield prepare(data, protocol, data.X, data.noisy_labels[noise], X_test, y_test, of_draw)
            continue
        for fold, (train, test) in enumerate(_draw_folds(data, protocol, grouped, of_draw)):
            of_fold = derive_seed(seed, data.name, draw, fold, float(noise), kind)
            labels = flip_training_labels(data, protocol, train, noise / 100.0, kind, of_fold)
            yield prepare(data, protocol, data.X[train], labels, data.X[test], data.y[test], of_fold)


def _draw_folds(data: Dataset, protocol: Protocol, grouped: bool, seed: int) -> Iterator[tuple[Array, Array]]:
    folds = (StratifiedGroupKFold if grouped else StratifiedKFold)(protocol.n_folds, shuffle=True, random_state=seed)
    return folds.split(data.X, data.y, data.groups if grouped else None)


def flip_training_labels(data: Dataset, protocol: Protocol, train: Array, rate: float, kind: str, seed: int) -> Array:
    """Labels of the rows ``train`` with a kind of noise; see `KINDS`."""
    y = data.y[train]
    if kind == "uniform":
        return flip_labels(y, rate, random_state=seed)[0]
    if kind == "next-class":
        return flip_to_next(y, rate, random_state=seed)[0]
    rows = prepare(data, protocol, data.X[train], y, data.X[train[:1]], y[:1], seed).train
    return flip_near_boundary(rows, y, rate, random_state=seed)[0]


def split_inside(split: Split) -> list[Split]:
    """Folds inside a training part, tested by its noisy labels: they show neither right labels nor test rows.

    The folds are stratified unless a class has fewer rows than there are folds.
    """
    X, y, raw = split.train, split.labels, split.raw_train
    fewest = np.unique(y, return_counts=True)[1].min()
    folds = (StratifiedKFold if fewest >= N_INNER else KFold)(N_INNER, shuffle=True, random_state=split.seed)
    return [
        Split(X[train], y[train], X[test], y[test], raw[train], raw[test], split.seed)
        for train, test in folds.split(y, y)
    ]


def prepare(
    data: Dataset, protocol: Protocol, X_train: Array, labels: Array, X_test: Array, test_labels: Array, seed: int
) -> Split:
    """Prepare features by what the training rows alone say."""
    kept = np.setdiff1d(np.arange(data.X.shape[1]), data.info.drop_columns)
    raw_train, raw_test = (np.asarray(X[:, kept], dtype=np.float64) for X in (X_train, X_test))
    if protocol.n_components is not None:
        most = min(protocol.n_components, *raw_train.shape)
        components = make_pipeline(Normalizer(), PCA(most, whiten=True, svd_solver="full")).fit(raw_train)
        raw_train, raw_test = components.transform(raw_train), components.transform(raw_test)
    train, test = _scale(raw_train, raw_test, z_score=protocol.z_score)
    return Split(train, labels, test, test_labels, raw_train, raw_test, seed)


def _scale(train: Array, test: Array, *, z_score: bool) -> tuple[Array, Array]:
    """z-scores or differences from the mean, times one number that makes the mean squared distance of two rows 1.

    The margin 1 then means the same for every data set; neighbours do not depend on that number.
    """
    mean, spread = train.mean(axis=0), train.std(axis=0)
    factor = np.where(spread > 0, spread, 1.0) if z_score else np.ones_like(spread)
    together = np.sqrt(2.0 * ((spread / factor) ** 2).sum()) or 1.0
    return (train - mean) / (factor * together), (test - mean) / (factor * together)
