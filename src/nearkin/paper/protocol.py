"""From a data set to training and test parts: folds, noise in the training labels, preparation of the features."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.datasets import Dataset

__all__ = ["KINDS", "PROTOCOLS", "Protocol", "Split", "noisy", "parts", "prepared", "protocol_of", "seed_of", "splits"]

Array = NDArray[Any]

#: Kinds of noise: any other class, the next class, the class beyond a near boundary, labels that people gave.
KINDS = ("uniform", "next-class", "boundary", "human")


@dataclass(frozen=True)
class Protocol:
    """What is done to a data set before anything is learned.

    Parameters
    ----------
    n_folds : int
        Stratified folds.
    z_score : bool
        Whether features are brought to mean 0 and standard deviation 1.
    n_components : int or None
        Rows are brought to length 1, then reduced to so many whitened principal components.
    """

    n_folds: int = 10
    z_score: bool = True
    n_components: int | None = None


#: Section 4.2 of the paper; where it is silent or does not fit its own numbers, what docs/reproduce.md explains.
PROTOCOLS = {
    "letters": Protocol(n_folds=5, z_score=False),
    "yale": Protocol(n_folds=5, z_score=False, n_components=100),
    "covid-resnet18": Protocol(n_folds=5),
    "covid-mobilenetv2": Protocol(n_folds=5),
}


def protocol_of(dataset: str) -> Protocol:
    """Protocol of a data set by its name.

    Examples
    --------
    >>> protocol_of("wine"), protocol_of("letters").n_folds
    (Protocol(n_folds=10, z_score=True, n_components=None), 5)
    """
    return PROTOCOLS.get(dataset, Protocol())


@dataclass(frozen=True, eq=False)
class Split:
    """One fold: what a method may learn from, and what it is tested on.

    ``train`` and ``test`` are on the scale of the paper's methods; ``raw_train`` and ``raw_test`` are the same rows for
    methods that scale themselves. Labels of the training part are noisy, those of the test part are right.
    """

    train: Array
    labels: Array
    test: Array
    test_labels: Array
    raw_train: Array
    raw_test: Array
    seed: int


def seed_of(*parts: int | float | str) -> int:
    """Seed that depends on all parts and on nothing else.

    Examples
    --------
    >>> seed_of(0, "wine", 1) == seed_of(0, "wine", 1) != seed_of(0, "wine", 2)
    True
    """
    words = [zlib.crc32(repr(part).encode()) for part in parts]
    return int(np.random.SeedSequence(words).generate_state(1)[0] >> 1)


def splits(
    data: Dataset, noise: float | str, kind: str = "uniform", *, grouped: bool = False, seed: int = 0, n_draws: int = 1
) -> Iterator[Split]:
    """Folds of all draws, each with noise of its own; the same for every method.

    Parameters
    ----------
    data : Dataset
        Rows and right labels.
    noise : float or str
        Percentage of wrong training labels; for ``kind="human"`` the name of the labels in ``data.noisy_labels``.
    kind : str
        One of `KINDS`.
    grouped : bool
        Whether rows of a group stay in the same fold.
    seed : int
        Of folds and noise.
    n_draws : int
        How often folds and noise are drawn anew.
    """
    protocol = protocol_of(data.name)
    if isinstance(noise, str):
        labels, X_test, y_test = data.noisy_labels[noise], data.extra["X_test"], data.extra["y_test"]
        for draw in range(n_draws):
            yield prepared(data, protocol, data.X, labels, X_test, y_test, seed_of(seed, data.name, draw))
        return
    for draw in range(n_draws):
        for fold, (train, test) in enumerate(_folds(data, protocol, grouped, seed_of(seed, data.name, draw))):
            here = seed_of(seed, data.name, draw, fold, float(noise), kind)
            labels = noisy(data, protocol, train, noise / 100.0, kind, here)
            yield prepared(data, protocol, data.X[train], labels, data.X[test], data.y[test], here)


def parts(labels: Array, n_parts: int, seed: int) -> Iterator[tuple[Array, Array]]:
    """Inner folds by the labels as given; plain ones where a class has fewer rows than there are folds."""
    from sklearn.model_selection import KFold, StratifiedKFold

    fewest = np.unique(labels, return_counts=True)[1].min()
    kind = StratifiedKFold if fewest >= n_parts else KFold
    yield from kind(n_parts, shuffle=True, random_state=seed).split(labels, labels)


def prepared(
    data: Dataset, protocol: Protocol, X_train: Array, labels: Array, X_test: Array, test_labels: Array, seed: int
) -> Split:
    """Features prepared by what is learned from the training rows alone."""
    kept = np.setdiff1d(np.arange(data.X.shape[1]), data.info.drop_columns)
    raw_train, raw_test = (np.asarray(X[:, kept], dtype=np.float64) for X in (X_train, X_test))
    if protocol.n_components is not None:
        raw_train, raw_test = _principal(raw_train, raw_test, protocol.n_components)
    train, test = _scaled(raw_train, raw_test, z_score=protocol.z_score)
    return Split(train, labels, test, test_labels, raw_train, raw_test, seed)


def _folds(data: Dataset, protocol: Protocol, grouped: bool, seed: int) -> Iterator[tuple[Array, Array]]:
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    if grouped:
        folds = StratifiedGroupKFold(protocol.n_folds, shuffle=True, random_state=seed)
        yield from folds.split(data.X, data.y, data.groups)
    else:
        yield from StratifiedKFold(protocol.n_folds, shuffle=True, random_state=seed).split(data.X, data.y)


def noisy(data: Dataset, protocol: Protocol, train: Array, rate: float, kind: str, seed: int) -> Array:
    """Labels of the rows ``train`` with noise of a kind; see `splits`."""
    from nearkin.noise import flip_labels, flip_near_boundary, flip_to_next

    y = data.y[train]
    if kind == "uniform":
        return flip_labels(y, rate, random_state=seed)[0]
    if kind == "next-class":
        return flip_to_next(y, rate, random_state=seed)[0]
    rows = prepared(data, protocol, data.X[train], y, data.X[train[:1]], y[:1], seed).train
    return flip_near_boundary(rows, y, rate, random_state=seed)[0]


def _principal(train: Array, test: Array, n_components: int) -> tuple[Array, Array]:
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Normalizer

    most = min(n_components, *train.shape)
    mapping = make_pipeline(Normalizer(), PCA(most, whiten=True, svd_solver="full")).fit(train)
    return mapping.transform(train), mapping.transform(test)


def _scaled(train: Array, test: Array, *, z_score: bool) -> tuple[Array, Array]:
    """z-scores or differences from the mean, times one number that makes the mean squared distance of two rows 1.

    The margin 1 then means the same for every data set; neighbours do not depend on that number.
    """
    mean, spread = train.mean(axis=0), train.std(axis=0)
    factor = np.where(spread > 0, spread, 1.0) if z_score else np.ones_like(spread)
    together = np.sqrt(2.0 * ((spread / factor) ** 2).sum()) or 1.0
    return (train - mean) / (factor * together), (test - mean) / (factor * together)
