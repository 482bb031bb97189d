"""Pictures as numbers, without a network: the directions of edges in cells (HOG) and the colours of a coarse grid."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nearkin.arrays import Array
from nearkin.errors import InputError
from nearkin.tables.table import CellTable, Table

__all__ = [
    "PICTURES",
    "describe_pictures",
    "holds_picture_folders",
    "n_numbers",
    "read_picture_folder",
    "require_pillow",
]

#: Names of picture files.
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
#: Edge of the square that a picture is brought to, of the cells in which edges are counted, and of those of colours.
_EDGE, _CELL, _PATCH = 32, 4, 8
#: Directions of edges, without sign.
_BINS = 9
#: Pictures described at once.
_AT_ONCE = 256


def require_pillow() -> Any:
    """Return Pillow's module Image, or raise with the way to install it."""
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("pictures need Pillow; install it with: pip install 'nearkin[images]'") from None
    return Image


def holds_picture_folders(path: Path) -> bool:
    """Whether a folder holds pictures, by themselves or in folders, one for each class."""
    if not path.is_dir():
        return False
    return any(_is_picture(two) for one in path.iterdir() for two in (one.iterdir() if one.is_dir() else (one,)))


def read_picture_folder(path: Path) -> Table:
    """Return the table of the pictures in a folder: ``file``, and ``class``, the name of the folder it lies in."""
    found = sorted(one for one in path.rglob("*") if _is_picture(one))
    if not found:
        raise InputError(f"{path} is a folder, not a data file, and it holds no pictures.")
    inside = [one.relative_to(path) for one in found]
    classes = [one.parts[0] if len(one.parts) > 1 else "" for one in inside]
    return CellTable(str(path), {"file": [str(one) for one in inside], "class": classes}, len(inside), folder=str(path))


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in PICTURES and not path.name.startswith(".") and path.is_file()


def describe_pictures(paths: Sequence[Path]) -> Array:
    """Return a row of numbers for each picture; NaN for one that cannot be read."""
    out = np.full((len(paths), n_numbers()), np.nan, dtype=np.float32)
    for start in range(0, len(paths), _AT_ONCE):
        found = {i: _read(paths[i]) for i in range(start, min(start + _AT_ONCE, len(paths)))}
        pixels = {i: one for i, one in found.items() if one is not None}
        if pixels:
            out[list(pixels)] = _describe(np.stack(list(pixels.values())))
    return out


def n_numbers() -> int:
    """Return how many numbers describe a picture."""
    return (_EDGE // _CELL) ** 2 * _BINS + (_EDGE // _PATCH) ** 2 * 6


def _read(path: Path) -> Array | None:
    Image = require_pillow()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a picture that is a bomb, among others
            with Image.open(path) as image:
                image.draft("RGB", (_EDGE, _EDGE))
                small = image.convert("RGB").resize((_EDGE, _EDGE), Image.Resampling.BOX)
                return np.asarray(small, dtype=np.float32) / 255.0
    except Exception:  # whatever a broken or hostile file raises, there is no picture
        return None


def _describe(pixels: Array) -> Array:
    """Return edges and colours of pictures of shape (n, edge, edge, 3)."""
    n, k = len(pixels), _EDGE // _CELL
    grey = pixels.mean(axis=3)
    down, right = np.gradient(grey, axis=(1, 2))
    size, place = np.hypot(down, right), np.arctan2(down, right) % np.pi / np.pi * _BINS
    low = place.astype(np.int64)
    share = place - low
    rows = np.arange(_EDGE) // _CELL
    cell = (np.arange(n)[:, None, None] * k + rows[:, None]) * k + rows
    total = np.zeros(n * k * k * _BINS)
    for bin_, part in ((low % _BINS, 1.0 - share), ((low + 1) % _BINS, share)):  # the two directions beside an edge
        total += np.bincount((cell * _BINS + bin_).ravel(), (size * part).ravel(), minlength=len(total))
    edges = total.reshape(n, k, k, _BINS).astype(np.float32)
    energy = np.pad((edges**2).sum(axis=3), ((0, 0), (1, 1), (1, 1)))
    around = sum(energy[:, i : i + k, j : j + k] for i in range(3) for j in range(3))
    edges /= np.sqrt(around + 0.05)[..., None]
    m = _EDGE // _PATCH
    patches = pixels.reshape(n, m, _PATCH, m, _PATCH, 3)
    colours = [patches.mean(axis=(2, 4)), patches.std(axis=(2, 4))]
    return np.concatenate([edges.reshape(n, -1), *(one.reshape(n, -1) for one in colours)], axis=1)
