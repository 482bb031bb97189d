"""From paths, or chunks that the caller makes, to a stream."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from nearkin.errors import InputError, Option
from nearkin.settings import Integer, OneOf, check_argument
from nearkin.streams.batch import IteratorStream
from nearkin.streams.file_stream import FileStream
from nearkin.tables import CsvReader, NpyReader, ParquetReader, Reader, Unit, kind_of

__all__ = ["SCORES", "find_files", "is_many", "list_files", "open_stream"]

#: Suffix of score files, which are never read as input.
SCORES = ".plausibility.pq"

#: Suffixes of the files that are taken from a folder.
_SUFFIXES = (".parquet", ".pq", ".csv", ".tsv", ".txt", ".npy")
_OWNER = "streams.open"


def open_stream(
    source: str | os.PathLike[str] | Sequence[Any] | Iterable[Any] | Callable[..., Iterable[Any]],
    *,
    label: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    features: Sequence[str] | None = None, drop: Sequence[str] = (), batch_rows: int = 4096, shuffle: bool = False,
    seed: int = 0, missing: str = "error", text_labels: bool = False, text: Sequence[str] = (),
) -> FileStream | IteratorStream:  # fmt: skip
    """Open a stream of labelled rows that need not fit into memory.

    Parameters
    ----------
    source : path, list of paths, iterable or callable
        Parquet, CSV or npy files, folders of such files, or patterns like ``"big/*.parquet"``, all of one kind; or
        chunks: pairs ``(X, y)`` or Arrow record batches, from any iterable (such as a ``pyarrow.RecordBatchReader``) or
        from a function that returns one. A function of one argument gets the number of the row to begin with, so a
        resumed run skips what it has learned.
    label : str, path or list of paths
        Column of labels; for npy files the npy file (or files) of labels.
    features : list of str or None, default=None
        Columns to use, in this order; None for all but the label. A column of vectors gives one feature per entry.
    drop : list of str
        Columns to leave out.
    batch_rows : int, default=4096
        Rows learned together. The first batch fixes the scale and the class centres, so let it be typical.
    shuffle : bool, default=False
        Whether to read the row groups (ranges of an array, blocks of lines) in an order drawn anew for every pass.
    seed : int, default=0
        For that order.
    missing : {"error", "drop", "fill"}, default="error"
        A row without a label, or with a missing or infinite number, is an error that names file and row; or it is
        dropped and counted; or its missing numbers are filled, as they always are where a `TableEncoder` is needed.
    text_labels : bool, default=False
        CSV: take labels as text even if they look like numbers.
    text : list of str
        Columns of texts, to be learned from as such.

    Returns
    -------
    stream
        For `fit_stream`, `score_stream` and `nearkin.distributed.fit`.

    Notes
    -----
    Nothing is read but headers, the line ends of CSV files, and the first rows. Where these are not all numbers, a
    `nearkin.TableEncoder` is learned from them, which makes the features of all rows; the model keeps it. Memory is one
    batch, whatever the size of the files.

    Examples
    --------
    >>> import numpy as np
    >>> import nearkin.streams
    >>> rng = np.random.default_rng(0)
    >>> chunks = [(rng.normal(size=(30, 2)), np.arange(30) % 2) for _ in range(4)]
    >>> stream = nearkin.streams.open(chunks, batch_rows=50)
    >>> [len(batch.X) for batch in stream.batches(epoch=0)]
    [50, 50, 20]
    """
    check_argument(_OWNER, "missing", missing, OneOf(("error", "drop", "fill")))
    check_argument(_OWNER, "batch_rows", batch_rows, Integer(2, 1_000_000_000))
    check_argument(_OWNER, "seed", seed, Integer(0))
    features = [features] if isinstance(features, str) else features
    drop, text = ([one] if isinstance(one, str) else one for one in (drop, text))
    if features is not None:
        features = [*features, *(one for one in text if one not in features)]
    paths = _as_paths(source)
    if paths is None:
        if shuffle:
            raise InputError("an iterator cannot be shuffled; give files, or shuffle before.", owner=_OWNER)
        if label is not None and not isinstance(label, str):
            raise InputError(f"`label` must be the name of a column; got {label!r}.", owner=_OWNER)
        return IteratorStream(source, label, features, drop, batch_rows=batch_rows, missing=missing)  # type: ignore[arg-type]
    files, kind = list_files(paths)
    column = None if label is None or kind == "arrays" else str(label)
    plan: tuple[Reader, list[Unit]]
    if kind == "arrays":
        plan = NpyReader.plan(files, _label_files(label, features, drop))
    elif kind == "parquet":
        plan = ParquetReader.plan(files, column, features, drop, text=text, fills=missing == "fill")
    else:
        fills = missing == "fill"
        plan = CsvReader.plan(files, column, features, drop, text_labels=text_labels, text=text, fills=fills)
    if not plan[1]:
        raise InputError(f"{files[0]}{' and the others' if len(files) > 1 else ''}: no rows.")
    order = int(seed) if shuffle else None
    return FileStream(plan[0], plan[1], column, batch_rows=int(batch_rows), seed=order, missing=missing)


def is_many(paths: Sequence[str | os.PathLike[str]]) -> bool:
    """Return whether paths stand for more than one file: several, a folder, or a pattern."""
    one = os.fspath(paths[0])
    return len(paths) > 1 or Path(one).is_dir() or (glob.has_magic(one) and not Path(one).exists())


def _label_files(label: Any, features: Sequence[str] | None, drop: Sequence[str]) -> list[str]:
    """Return the npy files of labels."""
    if features is not None or drop:
        raise InputError("npy files have no named columns; leave `features` and `drop` out.", owner=_OWNER)
    if label is None:
        problem = "npy files need {label}, the npy file (or files) of their labels."
        raise InputError(problem, owner=_OWNER, label=Option("label"))
    return [str(one) for one in ([label] if isinstance(label, (str, os.PathLike)) else label)]


def _as_paths(source: Any) -> list[str] | None:
    """Return the paths that were given; None if chunks were."""
    if isinstance(source, (str, os.PathLike)):
        return [os.fspath(source)]
    if isinstance(source, (list, tuple)) and source and all(isinstance(one, (str, os.PathLike)) for one in source):
        return [os.fspath(one) for one in source]
    if callable(source) or hasattr(source, "__iter__"):
        return None
    needed = "paths, an iterable of chunks or a function that returns one are needed"
    raise InputError(f"{needed}; got {source!r}.", owner=_OWNER)


def find_files(paths: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return the files behind paths, folders and patterns."""
    found: list[str] = []
    for path in [os.fspath(one) for one in paths]:
        if Path(path).is_dir():
            inside = sorted(one for one in Path(path).iterdir() if one.suffix.lower() in _SUFFIXES and one.is_file())
            here = [str(one) for one in inside]
        elif Path(path).exists():
            here = [path]
        elif glob.has_magic(path):
            here = sorted(one for one in glob.glob(path, recursive=True) if Path(one).is_file())  # noqa: PTH207
        else:
            raise FileNotFoundError(2, "No such file or directory", path)
        found += [one for one in here if not one.endswith(SCORES)]
    return list(dict.fromkeys(found))


def list_files(paths: Sequence[str | os.PathLike[str]]) -> tuple[list[str], str]:
    """Return the files behind paths, folders and patterns, and their kind."""
    found = find_files(paths)
    if not found:
        raise FileNotFoundError(2, "no Parquet, CSV or npy files there", os.fspath(paths[0]))
    kinds = {_kind(one) for one in found}
    if len(kinds) > 1:
        raise InputError(f"files of one kind are needed; got {' and '.join(sorted(kinds))}.", owner=_OWNER)
    return found, kinds.pop()


def _kind(path: str) -> str:
    advice = {
        ".npz": "it cannot be read in pieces; save its arrays as npy files",
        **dict.fromkeys((".xlsx", ".xlsm"), "a workbook cannot be read in pieces; save it as CSV or Parquet"),
        ".gz": "a compressed text cannot be read in pieces; decompress it, or write Parquet",
    }.get(Path(path).suffix.lower())
    if advice is not None:
        raise InputError(f"{path}: {advice}.")
    return kind_of(Path(path))
