"""Where data comes from: a folder of the user's, scikit-learn, or OpenML. Whatever is read must match a checksum.

A file must match byte for byte. The other sources do not have our files, so they must match by content: the same rows
and labels, in any order.
"""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.datasets.registry import DatasetInfo

__all__ = [
    "VARIABLE",
    "DatasetNotFound",
    "WrongChecksum",
    "find_folder",
    "from_openml",
    "from_sklearn",
    "hash_rows",
    "read_checked",
    "unpack",
]

Array = NDArray[Any]

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


def find_folder(data_dir: str | os.PathLike[str] | None) -> Path | None:
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


def read_checked(info: DatasetInfo, folder: Path | None) -> bytes | None:
    """Bytes of the file of a data set; None if there is no such file."""
    if folder is None or not (folder / info.file).is_file():
        return None
    path = folder / info.file
    data = path.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != info.sha256:
        raise WrongChecksum(str(path), info.sha256, found)
    return data


def unpack(data: bytes) -> dict[str, Array]:
    """Arrays of an npz file, read from the bytes that were checked; Python objects are refused."""
    with np.load(io.BytesIO(data), allow_pickle=False) as held:
        return {name: held[name] for name in held.files}


def from_sklearn(info: DatasetInfo) -> dict[str, Array]:
    """Rows and labels that scikit-learn carries."""
    from sklearn import datasets

    X, y = getattr(datasets, str(info.sklearn))(return_X_y=True)
    return _check_content(info, X, y, f"{info.sklearn} of scikit-learn")


def from_openml(info: DatasetInfo) -> dict[str, Array]:
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
    """Checksum of labelled rows that does not depend on their order.

    Examples
    --------
    >>> X, y = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0, 1])
    >>> hash_rows(X, y) == hash_rows(X[::-1].astype(np.uint8), y[::-1])
    True
    """
    rows = np.column_stack([X, y]).astype("<f8") + 0.0  # turns -0.0 into 0.0
    order = np.lexsort(rows.T[::-1])
    return hashlib.sha256(np.ascontiguousarray(rows[order]).tobytes()).hexdigest()
