"""Results go to stdout or to a file; a file appears only when it is complete."""

from __future__ import annotations

import csv
import io
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nearkin.cli._errors import UserError

__all__ = ["check_destination", "replacing", "write_columns"]

#: Rows turned into text at once.
_BLOCK = 4096


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


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """File to write to; it takes the place of ``path`` when the block ends, and is removed when it fails."""
    target = path.resolve()
    if target.exists() and not target.is_file():  # a pipe or a device is written, never replaced
        with target.open("wb") as file:
            yield file
        return
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        part.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_columns(path: Path | None, columns: Mapping[str, Sequence[Any] | NDArray[Any]]) -> None:
    """Write columns of equal length as CSV or Parquet, by the name of the file; CSV to stdout without one."""
    if path is None:
        sys.stdout.flush()
        _write_csv(sys.stdout.buffer, columns, ",")  # always UTF-8, whatever the terminal takes
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
        _write_csv(file, columns, "\t" if path.suffix.lower() == ".tsv" else ",")


def _write_csv(file: BinaryIO, columns: Mapping[str, Sequence[Any] | NDArray[Any]], delimiter: str) -> None:
    n_rows = len(next(iter(columns.values())))
    for start in range(0, max(n_rows, 1), _BLOCK):
        text = io.StringIO()
        writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
        if start == 0:
            writer.writerow(columns)
        writer.writerows(zip(*(_cells(values[start : start + _BLOCK]) for values in columns.values()), strict=True))
        file.write(text.getvalue().encode())


def _cells(values: Sequence[Any] | NDArray[Any]) -> Sequence[Any]:
    """Values as csv should show them: single precision with its nine digits, not with the noise of a double."""
    if isinstance(values, np.ndarray) and values.dtype == np.float32:
        return [f"{one:.9g}" for one in values.tolist()]
    return values.tolist() if isinstance(values, np.ndarray) else values


def _plain(values: Sequence[Any] | NDArray[Any]) -> Any:
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        return values
    return values.tolist() if isinstance(values, np.ndarray) else values


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
