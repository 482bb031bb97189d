"""From a name to arrays: which source has them, and what to say if none does."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.datasets import _elsewhere, _folder
from nearkin.datasets._errors import DatasetNotFound
from nearkin.datasets._info import DatasetInfo
from nearkin.datasets._registry import REGISTRY

__all__ = ["Dataset", "info", "load", "names", "where"]

Array = NDArray[Any]
Folder = str | os.PathLike[str]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows, labels and what is known about them.

    Parameters
    ----------
    name : str
        As `load` knows it.
    X : ndarray of shape (n_rows, n_features)
        Raw features, not scaled.
    y : ndarray of shape (n_rows,)
        Right labels, 0, 1, ...
    info : DatasetInfo
        Registry entry.
    source : str
        ``"folder"``, ``"scikit-learn"`` or ``"OpenML"``.
    groups : ndarray of shape (n_rows,) or None, default=None
        Rows with equal values are copies of each other and belong on the same side of a split.
    noisy_labels : mapping of str to ndarray, default={}
        Labels that people gave, each of shape (n_rows,).
    extra : mapping of str to ndarray, default={}
        Other arrays, such as a test set; ``info.extra`` describes them.

    Examples
    --------
    >>> from nearkin import datasets
    >>> wine = datasets.load("wine")
    >>> wine.X.shape, wine.groups, wine.info.n_classes
    ((178, 13), None, 3)
    """

    name: str
    X: Array
    y: Array
    info: DatasetInfo
    source: str
    groups: Array | None = None
    noisy_labels: Mapping[str, Array] = field(default_factory=dict)
    extra: Mapping[str, Array] = field(default_factory=dict)


def names() -> tuple[str, ...]:
    """Names of all data sets, those of the paper first.

    Returns
    -------
    tuple of str
        Names that `load` and `info` understand.

    Examples
    --------
    >>> from nearkin import datasets
    >>> datasets.names()[:3]
    ('wine', 'letters', 'yale')
    """
    return tuple(REGISTRY)


def info(name: str) -> DatasetInfo:
    """Registry entry of a data set; reads no data.

    Parameters
    ----------
    name : str
        One of `names`.

    Returns
    -------
    DatasetInfo
        Size, licence, citation, traps and sources.

    Examples
    --------
    >>> from nearkin import datasets
    >>> datasets.info("letters").title
    'Letter Recognition'
    """
    if name in REGISTRY:
        return REGISTRY[name]
    near = difflib.get_close_matches(str(name).lower(), REGISTRY, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"known are {', '.join(REGISTRY)}."
    raise ValueError(f"there is no data set {name!r}; {hint}")


def where(name: str, data_dir: Folder | None = None) -> str | None:
    """Source from which `load` would take a data set; nothing is downloaded.

    Parameters
    ----------
    name : str
        One of `names`.
    data_dir : path, default=None
        Folder with data files; the environment variable ``NEARKIN_DATA`` by default.

    Returns
    -------
    str or None
        ``"folder"``, ``"scikit-learn"``, ``"OpenML"``, or None if there is none.

    Examples
    --------
    >>> from nearkin import datasets
    >>> datasets.where("wine") in ("folder", "scikit-learn")
    True
    """
    entry = info(name)
    if _folder.checked_bytes(entry, _folder.data_folder(data_dir)) is not None:
        return "folder"
    if entry.sklearn is not None:
        return "scikit-learn"
    return "OpenML" if entry.openml is not None else None


def load(name: str, data_dir: Folder | None = None) -> Dataset:
    """Rows and labels of a data set, raw and in the order of their source.

    A data folder comes first, then what scikit-learn carries, then OpenML. What is read is compared with a checksum.

    Parameters
    ----------
    name : str
        One of `names`.
    data_dir : path, default=None
        Folder with data files; the environment variable ``NEARKIN_DATA`` by default.

    Returns
    -------
    Dataset
        Arrays and the registry entry.

    Examples
    --------
    >>> from nearkin import datasets
    >>> wine = datasets.load("wine")
    >>> wine.X.shape, wine.y[:3].tolist()
    ((178, 13), [0, 0, 0])
    """
    entry = info(name)
    folder = _folder.data_folder(data_dir)
    data = _folder.checked_bytes(entry, folder)
    if data is not None:
        return _dataset(entry, _folder.read_file(data), "folder")
    if entry.sklearn is not None:
        return _dataset(entry, _elsewhere.from_sklearn(entry), "scikit-learn")
    if entry.openml is None:
        raise DatasetNotFound(_how_to_get(entry, folder))
    try:
        arrays = _elsewhere.from_openml(entry)
    except OSError as error:
        raise DatasetNotFound(f"{_how_to_get(entry, folder)} OpenML did not answer: {error}.") from error
    return _dataset(entry, arrays, "OpenML")


def _dataset(entry: DatasetInfo, arrays: dict[str, Array], source: str) -> Dataset:
    # Some files keep columns together; learners read rows.
    X, y = np.ascontiguousarray(arrays.pop("X")), arrays.pop("y")
    groups = arrays.pop(entry.groups) if entry.groups else None
    noisy = {name: arrays.pop(labels.array) for name, labels in entry.noisy_labels.items()}
    return Dataset(entry.name, X, y, entry, source, groups, noisy, arrays)


def _how_to_get(entry: DatasetInfo, folder: Path | None) -> str:
    looked = f"{folder} does not hold it" if folder else "now none is named"
    other = (
        f"Other sources: {entry.elsewhere}" if entry.elsewhere else "There is no other source that nearkin can read."
    )
    return (
        f"Data set {entry.name!r} is not here. Put {entry.file} (sha256 {entry.sha256}) into a folder and name the "
        f"folder by data_dir or the environment variable {_folder.VARIABLE} ({looked}). {other} "
        f"The file was made from: {entry.origin}"
    )
