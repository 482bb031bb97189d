"""What a checkpoint belongs to: data by content, options by value; and what differs, in words."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from nearkin.saving import write_tree

__all__ = ["describe_file", "describe_learner", "differences", "digest_content", "digest_rows"]

#: Files and arrays up to this size are read whole.
_WHOLE = 1 << 19
#: Of larger ones this many blocks are read, at equal distances, the first and the last among them: a change of a
#: stretch longer than 1/127 of the file never goes unseen.
_BLOCKS, _BLOCK = 128, 1 << 12

#: A file by its name, size and digest.
FileMark = list[Any]


def describe_file(path: str | os.PathLike[str]) -> FileMark:
    """Return name, size and digest of a file; the folder may change between runs."""
    digest = hashlib.sha256()
    with Path(path).open("rb", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        for start, stop in _stretches(size):
            file.seek(start)
            digest.update(file.read(stop - start))
    return [Path(path).name, size, digest.hexdigest()]


def digest_content(paths: Sequence[str | os.PathLike[str]]) -> str:
    """Return a digest of everything that is in some files."""
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        with Path(path).open("rb") as file:
            digest.update(hashlib.file_digest(file, "blake2b").digest())
    return digest.hexdigest()


def digest_rows(X: NDArray[Any], y: NDArray[Any]) -> str:
    """Return a digest of features and labels, of every row unless there are megabytes of them."""
    digest = hashlib.sha256(f"{X.dtype.str} {X.shape} {y.dtype.str} {y.shape}".encode())
    for array in (X, y):
        if array.dtype.hasobject:
            digest.update(repr(array.tolist()).encode())
            continue
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)
        for start, stop in _stretches(len(flat)):
            digest.update(flat[start:stop].data)
    return digest.hexdigest()


def _stretches(size: int) -> Iterator[tuple[int, int]]:
    """Yield what to read of a file of this size."""
    if size <= _WHOLE:
        yield 0, size
        return
    for number in range(_BLOCKS):
        start = number * (size - _BLOCK) // (_BLOCKS - 1)
        yield start, start + _BLOCK


def describe_learner(learner: BaseEstimator) -> dict[str, Any]:
    """Return the class of a learner, its settings as text for messages, and a digest of both."""
    file = io.BytesIO()
    write_tree(clone(learner), file)
    settings = {name: _shorten(repr(value)) for name, value in learner.get_params(deep=False).items()}
    digest = hashlib.sha256(file.getvalue()).hexdigest()
    return {"class": type(learner).__name__, "settings": settings, "digest": digest}


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return in words what differs between two runs, most important first."""
    found: list[str] = []
    for name, value in new.items():
        before = old.get(name)
        if before == value or (name, before, value) == ("missing", "error", "drop"):  # no row was dropped so far
            continue
        if name == "files" and isinstance(before, list) and isinstance(value, list):
            found.append(_compare_files(before, value))
        elif name == "learner" and isinstance(before, dict):
            found += _compare_learners(before, value)
        elif name in ("first_batch", "chunks"):
            found.append(f"the {name.replace('_', ' ')} {'holds' if name == 'first_batch' else 'hold'} other rows")
        else:
            found.append(f"{name} was {_shorten(repr(before))} and is {_shorten(repr(value))}")
    return found


def _compare_files(old: Sequence[FileMark], new: Sequence[FileMark]) -> str:
    changed = [(one, other) for one, other in zip(old, new, strict=False) if one != other]
    more = f" (and {len(changed) - 1} more files differ)" if len(changed) > 1 else ""
    if not changed and len(new) > len(old):
        return f"{new[len(old)][0]} is new (fit_onto, --onto, learns new files)"
    if not changed:
        return f"{old[len(new)][0]} is gone"
    (name, size, _), (new_name, new_size, _) = changed[0]
    if name != new_name:
        return f"a file was {name} and is {new_name}{more}"
    if size != new_size:
        return f"{name} had {size:,} bytes and has {new_size:,}{more}"
    return f"{name} has other content than before{more}"


def _compare_learners(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    if old.get("class") != new["class"]:
        yield f"the learner was {old.get('class')} and is {new['class']}"
        return
    before = old.get("settings", {})
    named = [(name, before.get(name), value) for name, value in new["settings"].items() if before.get(name) != value]
    yield from (f"{name} of the learner was {was} and is {value}" for name, was, value in named)
    if not named:
        yield "a setting of the learner has changed inside, such as the state of a random generator"


def _shorten(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[: most - 4]} ..."
