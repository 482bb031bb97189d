"""From paths to a stream."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from nearkin.checks import Integer
from nearkin.streams.csv_batches import CsvReader
from nearkin.streams.file_stream import FileStream, Reader
from nearkin.streams.iterator import IteratorStream
from nearkin.streams.npy_batches import NpyReader
from nearkin.streams.parquet_batches import ParquetReader
from nearkin.streams.units import Unit

__all__ = ["SCORES", "is_many", "open_stream"]

#: End of the names of files that hold what a stream was found to be worth; they are no input.
SCORES = ".plausibility.pq"

_KINDS = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".npy": "npy",
}  # fmt: skip


def open_stream(
    source: str | os.PathLike[str] | Sequence[Any] | Iterable[Any] | Callable[..., Iterable[Any]],
    *,
    label: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    batch_rows: int = 4096,
    shuffle: bool = False,
    seed: int = 0,
    missing: str = "error",
    text_labels: bool = False,
) -> FileStream | IteratorStream:
    """Open a stream of labelled rows that need not fit into memory.

    Parameters
    ----------
    source : path, list of paths, iterable or callable
        Parquet, CSV or npy files, folders of such files, or patterns like ``"big/*.parquet"``, all of one kind; or
        chunks: pairs ``(X, y)`` or Arrow record batches, given by any iterable (such as a
        ``pyarrow.RecordBatchReader``) or by a function that returns one. A function of one argument gets the number of
        the row to begin with, so that a run that is resumed need not read what it has learned.
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
    missing : {"error", "drop"}, default="error"
        A row without a label, or with a missing or infinite number, is an error that names file and row; or it is
        dropped and counted.
    text_labels : bool, default=False
        CSV: take labels as text even if they look like numbers.

    Returns
    -------
    stream
        For `fit_stream`, `score_stream` and `nearkin.distributed.fit`.

    Notes
    -----
    Nothing is read but headers, and the line ends of CSV files. Memory is one batch, whatever the size of the files.

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
    if missing not in ("error", "drop"):
        raise ValueError(f"streams.open: `missing` must be 'error' or 'drop'; got {missing!r}.")
    for name, value, low in (("batch_rows", batch_rows, 2), ("seed", seed, 0)):
        if not Integer(low).allows(value):
            raise ValueError(f"streams.open: `{name}` must be {Integer(low)}; got {value!r}.")
    if isinstance(features, str):
        features = [features]
    if isinstance(drop, str):
        drop = [drop]
    paths = _as_paths(source)
    if paths is None:
        if shuffle:
            raise ValueError("streams.open: an iterator cannot be shuffled; give files, or shuffle before.")
        if label is not None and not isinstance(label, str):
            raise ValueError(f"streams.open: `label` must be the name of a column; got {label!r}.")
        return IteratorStream(source, label, features, drop, batch_rows=batch_rows, missing=missing)  # type: ignore[arg-type]
    files, kind = _files(paths)
    reader: Reader
    units: list[Unit]
    column = None if label is None or kind == "npy" else str(label)
    if kind == "npy":
        if features is not None or drop:
            raise ValueError("streams.open: npy files have no named columns; leave `features` and `drop` out.")
        if label is None:
            raise ValueError("streams.open: npy files need label=..., the npy file (or files) of their labels.")
        given = [label] if isinstance(label, (str, os.PathLike)) else list(label)
        reader, units = NpyReader.plan(files, [str(one) for one in given])
    elif kind == "parquet":
        reader, units = ParquetReader.plan(files, column, features, drop)
    else:
        reader, units = CsvReader.plan(files, column, features, drop, text=text_labels)
    if not units:
        raise ValueError(f"{files[0]}{' and the others' if len(files) > 1 else ''}: no rows.")
    return FileStream(
        reader, units, column, batch_rows=int(batch_rows), seed=int(seed) if shuffle else None, missing=missing
    )


def is_many(paths: Sequence[str | os.PathLike[str]]) -> bool:
    """Whether paths stand for more than one file: several, a folder, or a pattern."""
    one = os.fspath(paths[0])
    return len(paths) > 1 or Path(one).is_dir() or (glob.has_magic(one) and not Path(one).exists())


def _as_paths(source: Any) -> list[str] | None:
    if isinstance(source, (str, os.PathLike)):
        return [os.fspath(source)]
    if isinstance(source, (list, tuple)) and source and all(isinstance(one, (str, os.PathLike)) for one in source):
        return [os.fspath(one) for one in source]
    if callable(source) or hasattr(source, "__iter__"):
        return None
    raise ValueError(
        f"streams.open: paths, an iterable of chunks or a function that returns one are needed; got {source!r}."
    )


def _files(paths: Sequence[str]) -> tuple[list[str], str]:
    """Files behind paths, folders and patterns, and what kind they are."""
    found: list[str] = []
    for path in paths:
        if Path(path).is_dir():
            inside = sorted(one for one in Path(path).iterdir() if one.suffix.lower() in _KINDS and one.is_file())
            here = [str(one) for one in inside]
        elif Path(path).exists():
            here = [path]
        elif glob.has_magic(path):
            here = sorted(one for one in glob.glob(path, recursive=True) if Path(one).is_file())  # noqa: PTH207
        else:
            raise FileNotFoundError(2, "No such file or directory", path)
        here = [one for one in here if not one.endswith(SCORES)]
        if not here and len(paths) == 1:
            raise FileNotFoundError(2, "no Parquet, CSV or npy files there", path)
        found += here
    if not found:
        raise FileNotFoundError(2, "no Parquet, CSV or npy files there", paths[0])
    found = list(dict.fromkeys(found))
    kinds = {_kind(one) for one in found}
    if len(kinds) > 1:
        raise ValueError(f"streams.open: files of one kind are needed; got {' and '.join(sorted(kinds))}.")
    return found, kinds.pop()


def _kind(path: str) -> str:
    suffix = Path(path).suffix.lower()
    if suffix in _KINDS:
        return _KINDS[suffix]
    advice = {
        ".npz": "it cannot be read in pieces; save its arrays as npy files",
        ".gz": "a compressed text cannot be read in pieces; decompress it, or write Parquet",
    }.get(suffix, "the name of a file must end in .parquet, .csv, .tsv or .npy")
    raise ValueError(f"{path}: {advice}.")
