"""npz and npy: features without names, whole or in ranges of rows."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nearkin.errors import InputError, Option, quote_names
from nearkin.tables.batches import Chunk, Unit
from nearkin.tables.cells import parse_labels
from nearkin.tables.table import Labels, check_classes, check_regular, decoding, single_or_double

__all__ = ["Arrays", "NpyReader", "read_arrays", "read_labels"]

#: Rows of one unit.
_RANGE = 1 << 16


class Arrays:
    """Named arrays of an npz file, or the one of an npy file, which has no name."""

    def __init__(self, path: Path, arrays: dict[str, NDArray[Any]]):
        self.path = path
        self._arrays = arrays

    @property
    def names(self) -> list[str]:
        """Names of the arrays."""
        return [name for name in self._arrays if name]

    def features(self, name: str | None) -> NDArray[Any]:
        """Return the array of this name; without one X, or the only matrix there is."""
        if name is None:
            matrices = [key for key, one in self._arrays.items() if one.ndim == 2]
            name = matrices[0] if len(matrices) == 1 and "X" not in self._arrays else "X"
            if not self.names:
                name = ""
            if name not in self._arrays:
                raise InputError(
                    f"{self.path} holds no array X but {quote_names(self.names)}; name one with {{features}}.",
                    features=Option("features"),
                )
        X = self.array(name)
        title = f"array {name!r} of {self.path}" if name else str(self.path)
        if X.ndim != 2 or not X.size:
            raise InputError(f"{title} has shape {X.shape}; one row per example and one column per feature are needed.")
        if X.dtype.kind not in "fiub":
            raise InputError(f"{title} holds {X.dtype}; numbers are needed.")
        return X

    def labels(self, name: str) -> Labels:
        """Return the labels in the array of this name, and which are missing."""
        return _one_label_a_row(self.array(name), f"array {name!r} of {self.path}")

    def array(self, name: str) -> NDArray[Any]:
        """Return one array."""
        if name not in self._arrays:
            held = quote_names(self.names) or "an array without a name"
            raise InputError(f"{self.path} has no array {name!r}; it holds {held}.")
        _check_text(self._arrays[name], f"array {name!r} of {self.path}" if name else str(self.path))
        return self._arrays[name]


@dataclass(frozen=True)
class NpyReader:
    """Reads ranges of npy files of features, each with an npy file of ``labels``; both are mapped into memory."""

    labels: dict[str, str]
    dtype: str
    kind: ClassVar[str] = "npy"
    names: ClassVar[list[str] | None] = None
    n_bytes: ClassVar[int] = 0

    @classmethod
    def plan(cls, paths: Sequence[str], labels: Sequence[str]) -> tuple[NpyReader, list[Unit]]:
        """Return a reader of the files and their ranges."""
        if len(labels) != len(paths):
            raise InputError(
                f"{len(paths)} npy files of features need as many npy files of labels in {{label}}; got {len(labels)}.",
                label=Option("label"),
            )
        units, dtypes, width = [], [], None
        for path, own in zip(paths, labels, strict=True):
            if Path(own).suffix.lower() != ".npy":
                raise InputError(f"{own}: the labels of npy files that are read in batches must be an npy file too.")
            X, y = _map(path), _map(own)
            if X.ndim != 2 or X.dtype.kind not in "fiub":
                raise InputError(
                    f"{path} holds {X.dtype} of shape {X.shape}; numbers of shape (rows, features) are needed."
                )
            if y.shape != (len(X),):
                raise InputError(f"{own} holds labels of shape {y.shape}; {path} needs ({len(X)},).")
            if width is not None and X.shape[1] != width:
                raise InputError(f"{path} has {X.shape[1]} features, {paths[0]} has {width}.")
            width = X.shape[1]
            dtypes.append(X.dtype)
            units += [Unit(path, min(_RANGE, len(X) - at), at) for at in range(0, len(X), _RANGE)]
        return cls(dict(zip(paths, labels, strict=True)), single_or_double(dtypes)), units

    def read(self, unit: Unit, start: int, size: int) -> Iterator[Chunk]:
        """Yield the rows of a range from ``start`` on, at most ``size`` at a time."""
        own = self.labels[unit.path]
        X, y = _map(unit.path), _map(own)
        last = unit.first_row + unit.n_rows
        if len(X) < last or len(y) < last:
            raise InputError(f"{unit.path}: the file has changed since the stream was opened.")
        for at in range(unit.first_row + start, last, size):
            part = slice(at, min(at + size, last))
            labels, missing = _one_label_a_row(np.array(y[part]), own)
            check_classes(labels, missing, own, at)
            yield Chunk(np.array(X[part], dtype=self.dtype), labels, missing)


def read_arrays(path: Path) -> Arrays:
    """Read an npz or npy file; Python objects are never unpickled."""
    check_regular(path)
    with _decoding(path), path.open("rb") as file:
        found = np.load(file, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return Arrays(path, {"": found})
        with found:
            return Arrays(path, {name: np.asarray(found[name]) for name in found.files})


def read_labels(path: Path) -> Labels:
    """Read labels from an npy file, or from text with one label a line, and say which are missing."""
    if path.suffix.lower() == ".npy":
        return _one_label_a_row(read_arrays(path).array(""), str(path))
    check_regular(path)
    try:
        return parse_labels(path.read_text(encoding="utf-8-sig").splitlines())
    except UnicodeDecodeError:
        raise InputError(f"{path} is neither npy nor UTF-8 text with one label a line.") from None


def _map(path: str) -> NDArray[Any]:
    check_regular(Path(path))
    with _decoding(path):
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(found, np.ndarray):
        raise InputError(f"{path} is an npz archive, which cannot be read in pieces; save its arrays as npy files.")
    return found


@contextmanager
def _decoding(path: str | Path) -> Iterator[None]:
    with decoding(path, "an npy or npz file"):
        try:
            yield
        except ValueError as error:
            if "Object arrays" in str(error):
                raise InputError(f"{path} holds Python objects; save plain numbers or text instead.") from None
            if "pickle" in str(error):  # NumPy takes anything else for one, and recommends to load it
                raise InputError(f"{path} is not an npy or npz file.") from None
            raise


def _check_text(y: NDArray[Any], title: str) -> None:
    """Refuse text that Python could not hold."""
    if y.dtype.kind == "U" and y.size:
        codes = np.frombuffer(y.tobytes(), np.dtype(np.uint32).newbyteorder(y.dtype.byteorder))
        if codes.max() > sys.maxunicode or ((codes >= 0xD800) & (codes < 0xE000)).any():
            raise InputError(f"{title} is damaged: it holds text with characters that do not exist.")


def _one_label_a_row(y: NDArray[Any], title: str) -> Labels:
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise InputError(f"{title} has shape {y.shape}; one label per row is needed.")
    if y.dtype.kind not in "fiubUS":
        raise InputError(f"{title} holds {y.dtype}; whole numbers or text are needed as labels.")
    _check_text(y, title)
    if y.dtype.kind == "S":
        with decoding(title, "an array of UTF-8 labels"):
            y = np.char.decode(y, "utf-8")
    if y.dtype.kind == "f":
        return y, np.isnan(y)
    return y, (y == "") if y.dtype.kind == "U" else np.zeros(len(y), dtype=bool)
