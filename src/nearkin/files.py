"""Files that appear only when complete, and tables as CSV."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

__all__ = ["discard_parts", "replacing", "sync_folder", "write_csv"]

#: Rows turned into text at once.
_BLOCK = 4096

#: Files in the making.
_parts: set[Path] = set()


@contextmanager
def replacing(path: str | os.PathLike[str], *, durable: bool = False) -> Iterator[BinaryIO]:
    """Open a file that replaces ``path`` when the block ends, and disappears if the block fails.

    With ``durable`` it survives a loss of power from then on.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "one.txt") as file:
    ...         _ = file.write(b"whole")
    ...     (Path(folder) / "one.txt").read_text()
    'whole'
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_file():  # a pipe or a device is written, never replaced
        with target.open("wb") as file:
            yield file
        return
    handle, name = tempfile.mkstemp(prefix=".nearkin-", suffix=".part", dir=target.parent)
    part = Path(name)
    _parts.add(part)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        part.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        part.replace(target)
        if durable:
            sync_folder(target.parent)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    finally:
        _parts.discard(part)


def discard_parts() -> None:
    """Remove unfinished files, for a process that ends without leaving its blocks."""
    for part in tuple(_parts):
        part.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a loss of power, where the platform can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_csv(file: BinaryIO, columns: Mapping[str, Sequence[Any] | NDArray[Any]], delimiter: str = ",") -> None:
    """Write columns of equal length as UTF-8 with a header row.

    >>> file = io.BytesIO()
    >>> write_csv(file, {"row": np.array([1, 2]), "label": ["a", "b, c"]})
    >>> file.getvalue().decode().splitlines()
    ['row,label', '1,a', '2,"b, c"']
    """
    n_rows = len(next(iter(columns.values())))
    for start in range(0, max(n_rows, 1), _BLOCK):
        text = io.StringIO()
        writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
        if start == 0:
            writer.writerow(columns)
        writer.writerows(zip(*(_cells(values[start : start + _BLOCK]) for values in columns.values()), strict=True))
        file.write(text.getvalue().encode())


def _cells(values: Sequence[Any] | NDArray[Any]) -> Sequence[Any]:
    """Return values as CSV should show them: single precision with nine digits, not with those of a double."""
    if isinstance(values, np.ndarray) and values.dtype == np.float32:
        return [f"{one:.9g}" for one in values.tolist()]
    return values.tolist() if isinstance(values, np.ndarray) else values


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
