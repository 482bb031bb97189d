"""npy files, mapped into memory and read range by range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.streams.batch import Chunk
from nearkin.streams.units import Unit

__all__ = ["NpyReader"]

#: Rows of one unit.
_RANGE = 1 << 16


class NpyReader:
    """Reads features from npy files, each with an npy file of labels.

    Parameters
    ----------
    labels : dict
        File of labels for every file of features.
    dtype : str
        Of the features.
    """

    kind = "npy"
    names: list[str] | None = None
    n_bytes = 0

    def __init__(self, labels: dict[str, str], dtype: str):
        self.labels = labels
        self.dtype = dtype

    @classmethod
    def plan(cls, paths: Sequence[str], labels: Sequence[str]) -> tuple[NpyReader, list[Unit]]:
        """Reader of the files, and their ranges."""
        if len(labels) != len(paths):
            raise ValueError(
                f"{len(paths)} npy files of features need {len(paths)} npy files of labels in label=[...]; "
                f"got {len(labels)}."
            )
        units, dtypes, width = [], [], None
        for path, own in zip(paths, labels, strict=True):
            X, y = _mapped(path), _mapped(own)
            if X.ndim != 2 or X.dtype.kind not in "fiub":
                raise ValueError(
                    f"{path} holds {X.dtype} of shape {X.shape}; numbers of shape (rows, features) needed."
                )
            if y.shape != (len(X),):
                raise ValueError(f"{own} holds labels of shape {y.shape}; {path} needs ({len(X)},).")
            if width is not None and X.shape[1] != width:
                raise ValueError(f"{path} has {X.shape[1]} features, {paths[0]} has {width}.")
            width = X.shape[1]
            dtypes.append(X.dtype)
            units += [Unit(path, min(_RANGE, len(X) - at), at) for at in range(0, len(X), _RANGE)]
        single = all(one in (np.float16, np.float32) for one in dtypes)
        return cls(dict(zip(paths, labels, strict=True)), "float32" if single else "float64"), units

    def read(self, unit: Unit, start: int, size: int) -> Iterator[Chunk]:
        """Rows of a range from ``start`` on, at most ``size`` at a time."""
        X, y = _mapped(unit.path), _mapped(self.labels[unit.path])
        last = unit.first_row + unit.n_rows
        if len(X) < last or len(y) < last:
            raise ValueError(f"{unit.path}: the file has changed since the stream was opened.")
        for at in range(unit.first_row + start, last, size):
            part = slice(at, min(at + size, last))
            labels = np.array(y[part])
            missing = np.isnan(labels) if labels.dtype.kind == "f" else np.zeros(len(labels), dtype=bool)
            yield Chunk(np.array(X[part], dtype=self.dtype), labels, missing)


def _mapped(path: str) -> NDArray[Any]:
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is not an npy file of plain numbers or text, or it is damaged ({error}).") from None
    if not isinstance(found, np.ndarray):
        raise ValueError(f"{path} is an npz archive, which cannot be read in pieces; save its arrays as npy files.")
    return found
