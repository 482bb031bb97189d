"""From a name to arrays: the first source that has the data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.datasets.registry import DatasetInfo, info
from nearkin.datasets.sources import (
    VARIABLE,
    DatasetNotFound,
    find_folder,
    from_openml,
    from_sklearn,
    read_checked,
    unpack,
)

__all__ = ["Dataset", "load", "where"]

Array = NDArray[Any]
Folder = str | os.PathLike[str]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows, labels and what is known about them.

    Parameters
    ----------
    name : str
        Name that `load` takes.
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


def where(name: str, data_dir: Folder | None = None) -> str | None:
    """Source from which `load` would take a data set; downloads nothing.

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
    if read_checked(entry, find_folder(data_dir)) is not None:
        return "folder"
    if entry.sklearn is not None:
        return "scikit-learn"
    return "OpenML" if entry.openml is not None else None


def load(name: str, data_dir: Folder | None = None) -> Dataset:
    """Load rows and labels of a data set, raw and in the order of their source.

    The sources, in this order: a data folder, scikit-learn, OpenML. The data must match its checksum.

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
    entry, folder = info(name), find_folder(data_dir)
    data = read_checked(entry, folder)
    if data is not None:
        return _make_dataset(entry, unpack(data), "folder")
    if entry.sklearn is not None:
        return _make_dataset(entry, from_sklearn(entry), "scikit-learn")
    if entry.openml is None:
        raise DatasetNotFound(_explain(entry, folder))
    try:
        return _make_dataset(entry, from_openml(entry), "OpenML")
    except OSError as error:
        raise DatasetNotFound(f"{_explain(entry, folder)} OpenML did not answer: {error}.") from error


def _make_dataset(entry: DatasetInfo, arrays: dict[str, Array], source: str) -> Dataset:
    # Some files store columns together; learners read rows.
    X, y = np.ascontiguousarray(arrays.pop("X")), arrays.pop("y")
    groups = arrays.pop(entry.groups) if entry.groups else None
    noisy = {name: arrays.pop(labels.array) for name, labels in entry.noisy_labels.items()}
    return Dataset(entry.name, X, y, entry, source, groups, noisy, arrays)


def _explain(entry: DatasetInfo, folder: Path | None) -> str:
    """How to get a data set that no source has."""
    looked = f"{folder} does not hold it" if folder else "now none is named"
    other = f"Other sources: {entry.elsewhere}" if entry.elsewhere else "nearkin can read no other source of it."
    return (
        f"Data set {entry.name!r} is not here. Put {entry.file} (sha256 {entry.sha256}) into a folder and name the "
        f"folder by data_dir or the environment variable {VARIABLE} ({looked}). {other} "
        f"The file was made from: {entry.origin}"
    )
