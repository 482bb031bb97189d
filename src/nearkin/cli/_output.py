"""Results go to stdout or to a file; a file appears only when it is complete."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.cli._errors import UserError
from nearkin.files import replacing, write_csv

__all__ = ["TABLES", "check_destination", "replacing", "write_columns"]

#: Endings of files that `write_columns` writes.
TABLES = (".csv", ".tsv", ".parquet", ".pq")


def check_destination(path: Path, inputs: Sequence[Path], kinds: Sequence[str] = ()) -> None:
    """Refuse, before any work is done, a destination that cannot or should not be written."""
    if kinds and path.suffix.lower() not in kinds:
        raise UserError(f"cannot tell the format of {path}: its name must end in {', '.join(kinds)}.")
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file in it.")
    if not path.parent.is_dir():
        raise UserError(f"cannot write {path}: there is no folder {path.parent}.")
    try:
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror} ({path.parent}).") from None
    for one in inputs:
        if path.exists() and one.exists() and path.samefile(one):
            raise UserError(f"{path} is an input of this command and would be overwritten; choose another name.")


def write_columns(path: Path | None, columns: Mapping[str, Sequence[Any] | NDArray[Any]]) -> None:
    """Write columns of equal length as CSV or Parquet, by the name of the file; CSV to stdout without one."""
    if path is None:
        sys.stdout.flush()
        write_csv(sys.stdout.buffer, columns, ",")  # always UTF-8, whatever the terminal takes
        sys.stdout.buffer.flush()
        return
    if path.suffix.lower() in (".parquet", ".pq"):
        from nearkin.cli._parquet import require_pyarrow

        pa, parquet, _ = require_pyarrow(path)
        table = pa.table({name: pa.array(_plain(values)) for name, values in columns.items()})
        with replacing(path) as file:
            parquet.write_table(table, file)
        return
    with replacing(path) as file:
        write_csv(file, columns, "\t" if path.suffix.lower() == ".tsv" else ",")


def _plain(values: Sequence[Any] | NDArray[Any]) -> Any:
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        return values
    return values.tolist() if isinstance(values, np.ndarray) else values
