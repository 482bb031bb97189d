"""Tables as files: where they may be written, and in which format."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.errors import InputError
from nearkin.files import replacing, write_csv
from nearkin.tables.table import require_pyarrow

__all__ = ["ARRAY_SUFFIXES", "TABLE_SUFFIXES", "check_destination", "write_columns", "write_matrix"]

TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".pq")
ARRAY_SUFFIXES = (".npy", ".npz")


def check_destination(
    path: Path,
    inputs: Iterable[Path | None],
    suffixes: Sequence[str] = (),
    *,
    others: Sequence[Path] = (),
    mark: bytes | None = None,
) -> None:
    """Refuse, before any work is done, a destination that cannot or should not be written.

    Parameters
    ----------
    path : Path
        File to write.
    inputs : iterable of Path or None
        Files that are read, which must not be overwritten.
    suffixes : sequence of str
        How the name may end; any way if there are none.
    others : sequence of Path
        Files that will be written too.
    mark : bytes or None
        What the first bytes of a file hold that may be replaced; None if any file may.
    """
    if suffixes and path.suffix.lower() not in suffixes:
        raise InputError(f"cannot tell the format of {path}: its name must end in {', '.join(suffixes)}.")
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file in it.")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.parent}.")
    try:
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror} ({path.parent}).") from None
    for one in inputs:
        if one is not None and path.exists() and one.exists() and path.samefile(one):
            raise InputError(f"{path} is an input of this command and would be overwritten; choose another name.")
    if path.resolve() in [one.resolve() for one in others]:
        raise InputError(f"{path} is named twice among the files to write.")
    if mark is not None and path.is_file() and path.stat().st_size:
        with path.open("rb") as file:
            if mark not in file.read(4096):
                raise InputError(f"{path} exists and was not written by nearkin; choose another name.")


def write_columns(path: Path | None, columns: Mapping[str, Sequence[Any] | NDArray[Any]]) -> None:
    """Write columns of equal length as CSV or Parquet, by the name of the file; CSV to stdout without one."""
    if path is None:
        sys.stdout.flush()
        write_csv(sys.stdout.buffer, columns, ",")  # always UTF-8, whatever the terminal takes
        sys.stdout.buffer.flush()
        return
    if path.suffix.lower() in (".parquet", ".pq"):
        pa = require_pyarrow(path)
        from pyarrow import parquet

        table = pa.table({name: pa.array(_plain(values)) for name, values in columns.items()})
        with replacing(path) as file:
            parquet.write_table(table, file)
        return
    with replacing(path) as file:
        write_csv(file, columns, "\t" if path.suffix.lower() == ".tsv" else ",")


def write_matrix(path: Path | None, X: NDArray[Any], others: Mapping[str, Sequence[Any] | NDArray[Any]]) -> None:
    """Write rows of numbers beside other columns: as ``c0``, ``c1``, ... of a table, or as the array ``X``."""
    kind = ".csv" if path is None else path.suffix.lower()
    columns = {} if kind in ARRAY_SUFFIXES else {f"c{i}": X[:, i] for i in range(X.shape[1])}
    check_names(others, columns or ["X"])
    if path is None or kind not in ARRAY_SUFFIXES:
        write_columns(path, {**others, **columns})
        return
    if kind == ".npy" and others:
        raise InputError("npy holds one array; use .npz, .csv or .parquet to pass on other columns.")
    kept = {name: np.asarray(values) for name, values in others.items()}
    plain: dict[str, Any] = {n: one.astype(str) if one.dtype.hasobject else one for n, one in kept.items()}
    with replacing(path) as file:
        if kind == ".npy":
            np.save(file, X)
        else:
            np.savez(file, **plain, X=X)


def check_names(others: Iterable[str], taken: Iterable[str]) -> None:
    """Refuse columns to pass on that would hide a column of the result."""
    hidden = set(others) & set(taken)
    if hidden:
        raise InputError(f"the output has a column {min(hidden)!r} already; rename it in the data.")


def _plain(values: Sequence[Any] | NDArray[Any]) -> Any:
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        return values
    return values.tolist() if isinstance(values, np.ndarray) else values
