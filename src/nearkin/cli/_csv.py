"""CSV with a header row: by pyarrow where it is installed, by Python otherwise, with the same result."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from nearkin.cli._cells import labels_of, numbers_of
from nearkin.cli._errors import UserError

__all__ = ["CsvColumns", "read_csv"]

_DELIMITERS = (",", ";", "\t")
#: Rows that are asked for the delimiter.
_PROBE = 20


class CsvColumns:
    """Columns of text, read as numbers or labels when asked for.

    Parameters
    ----------
    path : Path
        For messages.
    names : list of str
        Header.
    cells : list
        One column each: a list of str, or an Arrow array of them.
    """

    def __init__(self, path: Path, names: list[str], cells: Sequence[Any]):
        self.path = path
        self.names = names
        self.n_rows = len(cells[0])
        self._cells = dict(zip(names, cells, strict=True))

    def numbers(self, name: str) -> NDArray[np.floating]:
        """Column of numbers, NaN where a cell is missing."""
        cells = self._cells[name]
        if not isinstance(cells, list):
            fast = _arrow_numbers(cells)
            if fast is not None:
                return fast
        return numbers_of(self.raw(name))

    def labels(self, name: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Labels and which are missing."""
        return labels_of(self.raw(name))

    def raw(self, name: str) -> list[str]:
        """Cells as they stand in the file."""
        cells = self._cells[name]
        return cells if isinstance(cells, list) else cells.to_pylist()


def read_csv(path: Path) -> CsvColumns:
    """Columns of a CSV file."""
    try:
        header, delimiter = _header(path)
        cells = _by_arrow(path, header, delimiter) or _by_python(path, header, delimiter)
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not UTF-8 text (byte {error.object[error.start]:#04x}); save it as UTF-8."
        ) from None
    except (csv.Error, EOFError, gzip.BadGzipFile) as error:
        raise UserError(f"{path} is not a readable CSV file: {error}.") from None
    return CsvColumns(path, [name.strip() for name in header], cells)


def _open(path: Path) -> TextIO:
    if path.suffix.lower() == ".gz":
        return io.TextIOWrapper(gzip.open(path), encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _header(path: Path) -> tuple[list[str], str]:
    """Names in the first row, and the delimiter that splits the first rows most evenly."""
    with _open(path) as file:
        sample = []
        for line in file:
            if "\0" in line:
                raise UserError(f"{path} is not a CSV file: it holds binary data.")
            if line.strip("\r\n"):
                sample.append(line)
            if len(sample) == _PROBE:
                break
    if not sample:
        raise UserError(f"{path} is empty; a CSV file with a header row was expected.")
    best, header, delimiter = (False, 0), [""], ","
    for candidate in _DELIMITERS:
        rows = list(csv.reader(sample, delimiter=candidate))
        fit = (len({len(row) for row in rows[:-1] or rows}) == 1 and len(rows[0]) > 1, len(rows[0]))
        if fit > best:
            best, header, delimiter = fit, rows[0], candidate
    _check_header(path, header)
    return header, delimiter


def _check_header(path: Path, header: list[str]) -> None:
    names = [name.strip() for name in header]
    repeated = next((name for i, name in enumerate(names) if name in names[:i]), None)
    try:
        numbers = [float(name) for name in names]
    except ValueError:
        numbers = []
    if numbers and (repeated is not None or not all(one.is_integer() and one >= 0 for one in numbers)):
        raise UserError(f"the first row of {path} holds numbers ({', '.join(names[:3])}, ...); a header row is needed.")
    if repeated is not None:
        raise UserError(f"the header of {path} names {repeated!r} twice; give every column its own name.")


def _by_python(path: Path, header: list[str], delimiter: str) -> list[list[str]]:
    with _open(path) as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        rows = [row for row in reader if row][1:]
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise UserError(f"data row {number} of {path} has {len(row)} fields, the header {len(header)}.")
    if not rows:
        raise UserError(f"{path} holds a header but no rows.")
    return [list(column) for column in zip(*rows, strict=True)]


def _by_arrow(path: Path, header: list[str], delimiter: str) -> list[Any] | None:
    """Columns of strings; None where pyarrow is missing or stumbles, and Python has to say why."""
    try:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv
    except ImportError:
        return None
    try:
        table = arrow_csv.read_csv(
            path,
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False
            ),
        )
    except (pa.ArrowException, OSError):
        return None
    if table.column_names != header or not table.num_rows:
        return None
    if any("\n" in column[-1].as_py() for column in table.columns):  # a quote that is never closed?
        return None
    return [column.combine_chunks() for column in table.columns]


def _arrow_numbers(cells: Any) -> NDArray[np.floating] | None:
    """Finite numbers of a column at Arrow's speed; None if there is anything else in it."""
    import pyarrow as pa
    from pyarrow import compute

    try:
        numbers = compute.cast(compute.utf8_trim_whitespace(cells), pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        return None
    return numbers if np.isfinite(numbers).all() else None
