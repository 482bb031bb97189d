"""From a name to arrays: a folder of the user's, scikit-learn, or OpenML, whichever has the data first.

Whatever is read must match a checksum: a file byte for byte; the other sources, which do not have our files, by
content: the same rows and labels, in any order.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.datasets.registry import DatasetInfo, info

__all__ = ["Dataset", "DatasetNotFound", "WrongChecksum", "hash_rows", "load", "where"]

Array = NDArray[Any]
Folder = str | os.PathLike[str]

#: Environment variable that names the data folder.
VARIABLE = "NEARKIN_DATA"


class DatasetNotFound(FileNotFoundError):
    """No source has the data set; the message says how to get it.

    Parameters
    ----------
    message : str
        What is missing, where nearkin looked, and where it can come from.

    Examples
    --------
    >>> from nearkin import datasets
    >>> issubclass(datasets.DatasetNotFound, FileNotFoundError)
    True
    """

    def __init__(self, message: str):
        super().__init__(message)


class WrongChecksum(ValueError):
    """The data is not what the registry describes: it is another version, or damaged.

    Parameters
    ----------
    what : str
        The file, or the name of the data at its source.
    expected : str
        sha256 in the registry.
    found : str
        sha256 of the data.

    Examples
    --------
    >>> from nearkin import datasets
    >>> str(datasets.WrongChecksum("wine.npz", "3baa", "0c1d"))
    'wine.npz has the sha256 0c1d instead of 3baa: it is damaged or another version. Get it anew.'
    """

    def __init__(self, what: str, expected: str, found: str):
        self.what, self.expected, self.found = what, expected, found
        super().__init__(what, expected, found)

    def __str__(self) -> str:
        return (
            f"{self.what} has the sha256 {self.found} instead of {self.expected}: "
            "it is damaged or another version. Get it anew."
        )


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
    if _read_checked(entry, _find_folder(data_dir)) is not None:
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
    entry, folder = info(name), _find_folder(data_dir)
    data = _read_checked(entry, folder)
    if data is not None:
        return _make_dataset(entry, _unpack(data), "folder")
    if entry.sklearn is not None:
        return _make_dataset(entry, _from_sklearn(entry), "scikit-learn")
    if entry.openml is None:
        raise DatasetNotFound(_explain(entry, folder))
    try:
        return _make_dataset(entry, _from_openml(entry), "OpenML")
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


# ---------------------------------------------------------------------- sources


def _find_folder(data_dir: Folder | None) -> Path | None:
    """Folder that the caller or the environment names; None if neither does."""
    named = data_dir if data_dir is not None else os.environ.get(VARIABLE) or None
    if named is None:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        origin = VARIABLE if data_dir is None else "data_dir"
        raise NotADirectoryError(
            f"{origin} names {folder}, which is not a folder; name the folder with the data files."
        )
    return folder


def _read_checked(info: DatasetInfo, folder: Path | None) -> bytes | None:
    """Bytes of the file of a data set; None if there is no such file."""
    if folder is None or not (folder / info.file).is_file():
        return None
    path = folder / info.file
    data = path.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != info.sha256:
        raise WrongChecksum(str(path), info.sha256, found)
    return data


def _unpack(data: bytes) -> dict[str, Array]:
    """Arrays of an npz file, read from the bytes that were checked; Python objects are refused."""
    with np.load(io.BytesIO(data), allow_pickle=False) as held:
        return {name: held[name] for name in held.files}


def _from_sklearn(info: DatasetInfo) -> dict[str, Array]:
    """Rows and labels that scikit-learn carries."""
    from sklearn import datasets

    X, y = getattr(datasets, str(info.sklearn))(return_X_y=True)
    return _check_content(info, X, y, f"{info.sklearn} of scikit-learn")


def _from_openml(info: DatasetInfo) -> dict[str, Array]:
    """Rows and labels from OpenML, or from scikit-learn's cache of it."""
    from sklearn.datasets import fetch_openml

    # This parser works without pandas, but replaces the values of nominal columns, numbers already, by codes.
    found = fetch_openml(data_id=info.openml, as_frame=False, parser="liac-arff")
    X = np.array(found.data, dtype=np.float64)
    for column, name in enumerate(found.feature_names):
        if name in (found.categories or {}):
            values = np.array([float(value) for value in found.categories[name]])
            X[:, column] = values[X[:, column].astype(np.intp)]
    y = np.unique(np.asarray(found.target, dtype=str), return_inverse=True)[1]
    return _check_content(info, X, y, f"data set {info.openml} of OpenML")


def _check_content(info: DatasetInfo, X: Array, y: Array, source: str) -> dict[str, Array]:
    X = X.astype(info.dtype)
    found = hash_rows(X, y)
    if found != info.content:
        raise WrongChecksum(f"The content of {source}", str(info.content), found)
    return {"X": X, "y": y.astype(np.int64)}


def hash_rows(X: Array, y: Array) -> str:
    """Checksum of labelled rows that depends on neither their order nor their type."""
    rows = np.column_stack([X, y]).astype("<f8") + 0.0  # turns -0.0 into 0.0
    order = np.lexsort(rows.T[::-1])
    return hashlib.sha256(np.ascontiguousarray(rows[order]).tobytes()).hexdigest()
