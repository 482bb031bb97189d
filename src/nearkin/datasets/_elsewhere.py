"""The other sources: what scikit-learn carries, and OpenML through scikit-learn's cache.

Neither has our files, so what they give is compared by content: the same rows and labels, in any order.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.datasets._errors import WrongChecksum
from nearkin.datasets._info import DatasetInfo

__all__ = ["fingerprint", "from_openml", "from_sklearn"]

Array = NDArray[Any]


def fingerprint(X: Array, y: Array) -> str:
    """Checksum of labelled rows that does not depend on their order.

    Examples
    --------
    >>> X, y = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0, 1])
    >>> fingerprint(X, y) == fingerprint(X[::-1].astype(np.uint8), y[::-1])
    True
    """
    rows = np.column_stack([X, y]).astype("<f8") + 0.0  # makes -0.0 the same as 0.0
    order = np.lexsort(rows.T[::-1])
    return hashlib.sha256(np.ascontiguousarray(rows[order]).tobytes()).hexdigest()


def from_sklearn(info: DatasetInfo) -> dict[str, Array]:
    """Rows and labels that come with scikit-learn."""
    from sklearn import datasets

    X, y = getattr(datasets, str(info.sklearn))(return_X_y=True)
    return _checked(info, X, y, f"{info.sklearn} of scikit-learn")


def from_openml(info: DatasetInfo) -> dict[str, Array]:
    """Rows and labels from OpenML, or from scikit-learn's cache of it."""
    from sklearn.datasets import fetch_openml

    # This parser needs no pandas, but it numbers the values of nominal columns, which are numbers already.
    found = fetch_openml(data_id=info.openml, as_frame=False, parser="liac-arff")
    X = np.array(found.data, dtype=np.float64)
    for column, name in enumerate(found.feature_names):
        if name in (found.categories or {}):
            values = np.array([float(value) for value in found.categories[name]])
            X[:, column] = values[X[:, column].astype(np.intp)]
    y = np.unique(np.asarray(found.target, dtype=str), return_inverse=True)[1]
    return _checked(info, X, y, f"data set {info.openml} of OpenML")


def _checked(info: DatasetInfo, X: Array, y: Array, what: str) -> dict[str, Array]:
    X = X.astype(info.dtype)
    found = fingerprint(X, y)
    if found != info.content:
        raise WrongChecksum(f"The content of {what}", str(info.content), found)
    return {"X": X, "y": y.astype(np.int64)}
