"""Put wrong labels into data on purpose."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.arrays import Array, Codes, Index, Mask
from nearkin.errors import InputError
from nearkin.labels import as_labels, sorted_classes
from nearkin.settings import Real, generator

__all__ = ["flip_labels", "flip_near_boundary", "flip_to_next"]

#: Flipped rows are drawn among this many times as many rows, those nearest to another class.
_CANDIDATES = 2


def flip_labels(y: ArrayLike, rate: float, *, random_state: Any = None) -> tuple[NDArray[Any], Mask]:
    """Replace a share of the labels by another class, drawn uniformly.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Right labels.
    rate : float
        Share to replace; ``round(rate * n_samples)`` rows are, chosen uniformly.
    random_state : int, Generator, RandomState or None
        Seed.

    Returns
    -------
    noisy : ndarray of shape (n_samples,)
        Labels, some of them wrong.
    is_wrong : ndarray of bool of shape (n_samples,)
        Which ones.

    Examples
    --------
    >>> noisy, is_wrong = flip_labels([0, 1, 2, 0, 1], 0.4, random_state=0)
    >>> int(is_wrong.sum()), bool((noisy[is_wrong] != np.array([0, 1, 2, 0, 1])[is_wrong]).all())
    (2, True)
    """
    labels, classes, codes, rng = _checked(y, rate, random_state, "flip_labels")
    chosen = rng.permutation(len(labels))[: round(rate * len(labels))]
    wrong = (codes[chosen] + rng.integers(1, len(classes), len(chosen))) % len(classes)
    return _replaced(labels, chosen, classes[wrong])


def flip_to_next(y: ArrayLike, rate: float, *, random_state: Any = None) -> tuple[NDArray[Any], Mask]:
    """Replace a share of the labels by the next class: every class is mistaken for one other only.

    Harder than uniform noise, since the wrong labels of a class agree with each other.

    Parameters
    ----------
    y, rate, random_state : array-like, float, seed
        See `flip_labels`.

    Returns
    -------
    noisy, is_wrong : ndarray of shape (n_samples,)
        See `flip_labels`; a wrong label is the class after the right one in sorted order, the first after the last.

    Examples
    --------
    >>> noisy, is_wrong = flip_to_next(["a", "b", "c"], 1.0, random_state=0)
    >>> noisy.tolist(), int(is_wrong.sum())
    (['b', 'c', 'a'], 3)
    """
    labels, classes, codes, rng = _checked(y, rate, random_state, "flip_to_next")
    chosen = rng.permutation(len(labels))[: round(rate * len(labels))]
    return _replaced(labels, chosen, classes[(codes[chosen] + 1) % len(classes)])


def flip_near_boundary(
    X: ArrayLike, y: ArrayLike, rate: float, *, random_state: Any = None
) -> tuple[NDArray[Any], Mask]:
    """Replace a share of the labels where classes meet by the class that is near.

    A row is near another class if its distance to the nearest row of another class is small compared with the distance
    to the nearest other row of its own. The rows to flip are drawn uniformly among twice as many, those nearest to
    another class. People make such mistakes, and they are the hardest to find: neighbours share them.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Features on comparable scales.
    y, rate, random_state : array-like, float, seed
        See `flip_labels`.

    Returns
    -------
    noisy, is_wrong : ndarray of shape (n_samples,)
        See `flip_labels`; a wrong label is the class of the nearest row of another class.

    Examples
    --------
    >>> X, y = [[0.0], [1.0], [4.0], [5.0], [9.0], [10.0]], [0, 0, 0, 1, 1, 1]
    >>> noisy, is_wrong = flip_near_boundary(X, y, 1 / 6, random_state=0)
    >>> bool(is_wrong[2] or is_wrong[3]), int(is_wrong.sum())
    (True, 1)
    """
    owner = "flip_near_boundary"
    labels, classes, codes, rng = _checked(y, rate, random_state, owner)
    rows = np.asarray(X, dtype=np.float64)
    if rows.ndim != 2 or len(rows) != len(labels):
        raise InputError(
            f"X must have one row for each of the {len(labels)} labels; its shape is {rows.shape}.", owner=owner
        )
    distance = _to_classes(rows, codes, len(classes))
    at = np.arange(len(codes))
    own = distance[at, codes].copy()
    distance[at, codes] = np.inf
    other = distance.argmin(axis=1)
    n_wrong = round(rate * len(labels))
    nearest = np.argsort(distance[at, other] / np.maximum(own, np.finfo(float).tiny), kind="stable")
    chosen = rng.permutation(nearest[: _CANDIDATES * n_wrong])[:n_wrong]
    return _replaced(labels, chosen, classes[other[chosen]])


def _checked(
    y: ArrayLike, rate: float, random_state: Any, owner: str
) -> tuple[NDArray[Any], NDArray[Any], Codes, np.random.Generator]:
    if not Real(0.0, 1.0).allows(rate):
        raise InputError(f"`rate` must be {Real(0.0, 1.0)}; got {rate!r}.", owner=owner)
    labels = as_labels(y, owner)
    rng = generator(random_state)
    classes, codes = sorted_classes(labels)
    if len(classes) < 2:
        raise InputError("y holds one class, so no label can be wrong.", owner=owner)
    return labels, classes, codes, rng


def _replaced(labels: NDArray[Any], chosen: Index, wrong: NDArray[Any]) -> tuple[NDArray[Any], Mask]:
    noisy = labels.copy()
    noisy[chosen] = wrong
    is_wrong = np.zeros(len(labels), dtype=bool)
    is_wrong[chosen] = True
    return noisy, is_wrong


def _to_classes(rows: Array, codes: Codes, n_classes: int) -> Array:
    """Distance of every row to the nearest row of every class, itself left out; infinite where there is none."""
    from sklearn.neighbors import NearestNeighbors

    out = np.full((len(rows), n_classes), np.inf)
    for code in range(n_classes):
        is_member = codes == code
        search = NearestNeighbors().fit(rows[is_member])
        out[~is_member, code] = search.kneighbors(rows[~is_member], 1)[0][:, 0]
        if is_member.sum() > 1:
            out[is_member, code] = search.kneighbors(None, 1)[0][:, 0]  # None leaves each row itself out
    return out
