"""npz and npy: features without names."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.cli._cells import labels_of
from nearkin.cli._errors import UserError
from nearkin.cli._text import names

__all__ = ["Arrays", "read_arrays", "read_labels"]

Array = NDArray[Any]


class Arrays:
    """Named arrays of an npz file, or the one of an npy file (under no name)."""

    def __init__(self, path: Path, arrays: dict[str, Array]):
        self.path = path
        self._arrays = arrays

    @property
    def names(self) -> list[str]:
        """Names of the arrays."""
        return [name for name in self._arrays if name]

    def features(self, name: str | None) -> Array:
        """The array called ``name``; without one X, or the only matrix there is."""
        if name is None:
            if not self.names:
                return self._checked("")
            matrices = [key for key, one in self._arrays.items() if one.ndim == 2]
            name = matrices[0] if len(matrices) == 1 and "X" not in self._arrays else "X"
            if name not in self._arrays:
                raise UserError(f"{self.path} holds no array X but {names(self.names)}; name one with --features.")
        return self._checked(name)

    def _checked(self, name: str) -> Array:
        X = self.named(name)
        title = f"array {name!r} of {self.path}" if name else str(self.path)
        if X.ndim != 2 or not X.size:
            raise UserError(f"{title} has shape {X.shape}; one row per example and one column per feature are needed.")
        if X.dtype.kind not in "fiub":
            raise UserError(f"{title} holds {X.dtype}; numbers are needed.")
        return X

    def labels(self, name: str) -> tuple[Array, NDArray[np.bool_]]:
        """Labels in the array called ``name``, and which are missing."""
        return _one_label_a_row(self.named(name), f"array {name!r} of {self.path}")

    def named(self, name: str) -> Array:
        """One array."""
        if name not in self._arrays:
            held = "an array without a name; give labels with --labels FILE" if not self.names else names(self.names)
            raise UserError(f"{self.path} has no array {name!r}; it holds {held}.")
        return self._arrays[name]


def read_arrays(path: Path) -> Arrays:
    """Arrays of an npz or npy file; Python objects are never unpickled."""
    try:
        with path.open("rb") as file:
            found = np.load(file, allow_pickle=False)
            if isinstance(found, np.ndarray):
                return Arrays(path, {"": found})
            with found:
                return Arrays(path, {name: found[name] for name in found.files})
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        if "Object arrays" in str(error):
            raise UserError(f"{path} holds Python objects; save plain numbers or text instead.") from None
        raise UserError(f"{path} is no npy or npz file, or it is damaged ({error}).") from None


def read_labels(path: Path) -> tuple[Array, NDArray[np.bool_]]:
    """Labels from an npy file, or from text with one label a line."""
    if path.suffix.lower() == ".npy":
        found = read_arrays(path)
        return _one_label_a_row(found.named(""), str(path))
    try:
        return labels_of(path.read_text(encoding="utf-8-sig").splitlines())
    except UnicodeDecodeError:
        raise UserError(f"{path} is neither npy nor UTF-8 text with one label a line.") from None


def _one_label_a_row(y: Array, title: str) -> tuple[Array, NDArray[np.bool_]]:
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise UserError(f"{title} has shape {y.shape}; one label per row is needed.")
    if y.dtype.kind not in "fiubUS":
        raise UserError(f"{title} holds {y.dtype}; whole numbers or text are needed as labels.")
    if y.dtype.kind == "S":
        y = np.char.decode(y, "utf-8")
    missing = np.isnan(y) if y.dtype.kind == "f" else (y == "" if y.dtype.kind == "U" else np.zeros(len(y), dtype=bool))
    return y, np.asarray(missing, dtype=bool)
