"""Tables and arrays as files, each with a mark by which nearkin knows it again."""

from __future__ import annotations

import codecs
import csv
import io
import sys
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nearkin.errors import InputError, printable
from nearkin.files import StrPath, naming, replacing
from nearkin.tables.cells import quote_formula
from nearkin.tables.table import require_pyarrow

__all__ = ["CsvDialect", "check_names", "write_arrays", "write_columns", "write_csv", "write_matrix"]

_ARRAYS = (".npy", ".npz")
#: Rows turned into text at once.
_BLOCK = 4096
#: Spaces that end the header of an npy file beyond those of NumPy, which are less than 100.
_SPACES = 128


@dataclass(frozen=True)
class CsvDialect:
    """How a CSV file is written: what separates its fields and ends its lines, and how it codes text."""

    delimiter: str = ","
    encoding: str = "utf-8"
    line_end: str = "\n"


def write_csv(
    file: BinaryIO, columns: Mapping[str, Sequence[Any] | NDArray[Any]], dialect: CsvDialect = CsvDialect()
) -> None:
    """Write columns of equal length with a header row.

    Text that a spreadsheet would take for a formula gets an apostrophe in front, which our reader removes.

    >>> file = io.BytesIO()
    >>> write_csv(file, {"row": np.array([1, -2]), "label": ["=a", "b, c"]})
    >>> file.getvalue().decode().splitlines()
    ['row,label', "1,'=a", '-2,"b, c"']
    """
    n_rows = len(next(iter(columns.values())))
    encoder = codecs.getincrementalencoder(dialect.encoding)()  # which writes a byte order mark once
    for start in range(0, max(n_rows, 1), _BLOCK):
        block = [_cells(values[start : start + _BLOCK]) for values in columns.values()]
        header = [_cells(list(columns))] if start == 0 else []
        # The usual quoting overlooks carriage returns.
        is_odd = any("\r" in one for cells in (*header, *block) for one in cells if isinstance(one, str))
        text = io.StringIO()
        how: dict[str, Any] = {"quoting": csv.QUOTE_NONNUMERIC if is_odd else csv.QUOTE_MINIMAL}
        writer = csv.writer(text, delimiter=dialect.delimiter, lineterminator=dialect.line_end, **how)
        writer.writerows((*header, *zip(*block, strict=True)))
        try:
            file.write(encoder.encode(text.getvalue()))
        except UnicodeEncodeError as error:
            half = printable(error.object[error.start : error.end])
            problem = f"a value holds {half}, half a character, which a table cannot hold. Replace it."
            raise InputError(problem) from None


def _cells(values: Sequence[Any] | NDArray[Any]) -> Sequence[Any]:
    """Return values as CSV should show them: single precision with nine digits, not with those of a double."""
    if isinstance(values, np.ndarray) and values.dtype == np.float32:
        return [f"{one:.9g}" for one in values.tolist()]
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        return values.tolist()
    plain = values.tolist() if isinstance(values, np.ndarray) else values
    return [quote_formula(one) if isinstance(one, str) else one for one in plain]


def write_columns(
    path: Path | None, columns: Mapping[str, Sequence[Any] | NDArray[Any]], kind: str, dialect: CsvDialect | None = None
) -> None:
    """Write columns of equal length as CSV or Parquet, by the name of the file; CSV to stdout without one.

    Fields of .tsv are separated by tabs whatever the ``dialect``.
    """
    dialect = dialect or CsvDialect()
    if path is None:
        with naming("standard output"):
            sys.stdout.flush()
            if sys.stdout.isatty():
                shown = io.BytesIO()
                write_csv(shown, columns)
                sys.stdout.writelines(f"{printable(line)}\n" for line in shown.getvalue().decode().split("\n")[:-1])
            else:
                write_csv(sys.stdout.buffer, columns, dialect)  # whatever the locale
                sys.stdout.buffer.flush()
        return
    with replacing(path, kind) as file:
        if path.suffix.lower() in (".csv", ".tsv"):
            write_csv(file, columns, replace(dialect, delimiter="\t") if path.suffix.lower() == ".tsv" else dialect)
            return
        pa = require_pyarrow(path)
        from pyarrow import parquet

        table = pa.table({name: pa.array(_plain(values)) for name, values in columns.items()})
        parquet.write_table(table.replace_schema_metadata({"nearkin.table": kind}), file)


def write_matrix(path: Path | None, X: NDArray[Any], others: Mapping[str, Sequence[Any] | NDArray[Any]]) -> None:
    """Write rows of numbers beside other columns: as ``c0``, ``c1``, ... of a table, or as the array ``X``."""
    kind = ".csv" if path is None else path.suffix.lower()
    columns = {} if kind in _ARRAYS else {f"c{i}": X[:, i] for i in range(X.shape[1])}
    check_names(others, columns or ["X"])
    if path is None or kind not in _ARRAYS:
        write_columns(path, {**others, **columns}, "matrix")
        return
    if kind == ".npy" and others:
        raise InputError("npy holds one array; use .npz, .csv or .parquet to pass on other columns.")
    kept = {name: np.asarray(values) for name, values in others.items()}
    write_arrays(path, {**{n: one.astype(str) if one.dtype.hasobject else one for n, one in kept.items()}, "X": X})


def write_arrays(path: StrPath, arrays: Mapping[str, NDArray[Any]], kind: str = "matrix") -> None:
    """Write arrays as npz, or a single one as npy."""
    with replacing(path, kind) as file:
        if Path(path).suffix.lower() == ".npy":
            (only,) = arrays.values()
            _write_npy(file, only)
            return
        with zipfile.ZipFile(file, "w") as archive:
            archive.comment = b"nearkin " + kind.encode()
            for name, one in arrays.items():
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asanyarray(one), allow_pickle=False)


def _write_npy(file: BinaryIO, X: NDArray[Any]) -> None:
    X = np.ascontiguousarray(X)
    usual = io.BytesIO()
    np.lib.format.write_array_header_1_0(usual, np.lib.format.header_data_from_array_1_0(X))
    start, size, header = usual.getvalue()[:8], usual.getvalue()[8:10], usual.getvalue()[10:-1]
    file.write(start + (int.from_bytes(size, "little") + _SPACES).to_bytes(2, "little"))
    file.write(header + b" " * _SPACES + b"\n" + X.tobytes())


def check_names(others: Iterable[str], taken: Iterable[str]) -> None:
    """Refuse columns to pass on that would hide a column of the result."""
    hidden = set(others) & set(taken)
    if hidden:
        raise InputError(f"the output has a column {min(hidden)!r} already; rename it in the data.")


def _plain(values: Sequence[Any] | NDArray[Any]) -> Any:
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        return values
    return values.tolist() if isinstance(values, np.ndarray) else values
