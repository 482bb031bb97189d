"""A table with named columns, whatever file it came from: columns as numbers, labels, or values to pass on."""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array
from nearkin.errors import InputError, Option, quote_names
from nearkin.tables.cells import NO_NUMBER, BadCell, parse_labels, parse_numbers, unquote_formulas
from nearkin.tables.raw import Cells, RawColumn

__all__ = [
    "ArrowTable", "CellTable", "JoinedTable", "Table", "check_classes", "check_regular", "decoding", "find_gap",
    "require_pyarrow", "single_or_double", "stack_columns",
]  # fmt: skip

Labels = tuple[NDArray[Any], NDArray[np.bool_]]

#: What pandas calls an index that has no name.
_INDEX = "__index_level_"
#: Characters of a label.
_LONGEST = 10_000


class Table(ABC):
    """Some or all rows of a table, the first of them ``first_row`` of the file, counted from 0.

    A column without a name is called "" and taken for a row index.
    """

    def __init__(self, path: str, names: Sequence[str], n_rows: int, first_row: int = 0, folder: str | None = None):
        self.path, self.n_rows, self.first_row = path, n_rows, first_row
        #: Where paths in cells start.
        self.folder = str(Path(path).parent) if folder is None else folder
        self.names = ["" if one.startswith(_INDEX) else one for one in names]

    @abstractmethod
    def numbers(self, name: str) -> NDArray[Any]:
        """Return a column of numbers, NaN where one is missing; a column of vectors as a matrix."""

    @abstractmethod
    def labels(self, name: str, kind: str | None = None) -> Labels:
        """Return a column of labels and which are missing; without ``kind`` it is inferred."""

    @abstractmethod
    def values(self, name: str) -> list[Any]:
        """Return a column as it stands in the file."""

    def some_values(self, name: str, rows: NDArray[np.int64]) -> list[Any]:
        """Return some rows of a column as they stand in the file."""
        found = self.values(name)
        return [found[row] for row in rows.tolist()]

    @abstractmethod
    def raw(self, name: str) -> RawColumn:
        """Return a column as it came, for an encoder."""

    def _short(self, name: str, labels: list[str]) -> list[str]:
        """Return labels, none of which may be so long that an array of all would not fit into memory."""
        row = max(range(len(labels)), key=lambda i: len(labels[i]), default=0)
        if labels and len(labels[row]) > _LONGEST:
            problem = f"column {name!r} holds a text of {len(labels[row]):,} characters; is it a label at all?"
            raise InputError(problem, place=self.place(row))
        return labels

    def has_vectors(self, name: str) -> bool:
        """Whether a column holds vectors, such as embeddings."""
        return False

    @property
    def n_unnamed(self) -> int:
        """Columns without a name."""
        return self.names.count("")

    def place(self, row: int | None) -> str:
        """Return where a row stands, for messages."""
        return self.path if row is None else f"{self.path}, data row {self.first_row + row + 1:,}"

    def choose(self, label: str | None, features: Sequence[str] | None, drop: Sequence[str]) -> list[str]:
        """Return the feature columns: those named, or all, less the label and those to drop."""
        if label is not None and label in (features or ()):
            raise InputError(f"{self.path}: column {label!r} is the label and cannot be a feature too.")
        out = {"", label, *drop}
        chosen = [name for name in (features or self.names) if name not in out]
        if not chosen:
            raise InputError(f"{self.path} has no feature columns left.")
        return chosen

    def check_known(self, columns: Iterable[str]) -> None:
        """Refuse a name that is not a column, and suggest the nearest one."""
        held = dict.fromkeys(name for name in self.names if name)
        for name in columns:
            if name not in held:
                lower = {one.lower(): one for one in held}
                close = difflib.get_close_matches(name.lower(), lower, n=1)
                hint = f"Did you mean {lower[close[0]]!r}?" if close else f"It holds {quote_names(held)}."
                raise InputError(f"{self.path} has no column {name!r}. {hint}")

    def check_label(self, label: str | None) -> str:
        """Return the label column, which must be named and there."""
        if not label:
            held = quote_names(name for name in self.names if name)
            raise InputError(
                f"{{label}} is needed: which column of {self.path} holds the labels? It holds {held}.",
                label=Option("label"),
            )
        several = [one.strip() for one in label.split(",")]
        if label not in self.names and len(several) > 1 and set(several) <= set(self.names):
            raise InputError(
                "{label} takes one column. For answers of several annotators use nearkin consensus; several labels per "
                "row (multi-label) are audited one column at a time.",
                label=Option("label"),
            )
        self.check_known([label])
        return label

    def features(self, columns: Iterable[str], *, needed: bool = False) -> dict[str, NDArray[Any]]:
        """Return columns of numbers; one that holds text is refused, with the advice to drop it unless ``needed``."""
        found: dict[str, NDArray[Any]] = {}
        bad: dict[str, BadCell] = {}
        for name in columns:
            try:
                found[name] = self.numbers(name)
            except BadCell as error:
                bad[name] = error
        if not bad:
            return found
        first, cell = next(iter(bad.items()))
        others = f" (also columns {quote_names(list(bad)[1:])})" if len(bad) > 1 else ""
        if needed:
            advice = "the model needs numbers there"
        elif not found:
            advice = "no column holds numbers"
        else:
            advice = f"correct {'them' if others else 'it'}, or leave {'them' if others else 'it'} out with {{drop}}"
        raise InputError(
            f"column {first!r} {cell}{others}; {advice}.", place=self.place(cell.row), drop=Option("drop", list(bad))
        )

    def matrix(self, columns: Iterable[str], *, needed: bool = False) -> tuple[Array, list[str]]:
        """Return columns of numbers side by side, and a name for each; an entry of a vector is called ``name[i]``."""
        return stack_columns(self.features(columns, needed=needed))

    def classes(self, name: str, kind: str | None = None) -> Labels:
        """Return a column of labels and which are missing; labels of another kind and quantities are refused."""
        try:
            y, missing = self.labels(name, kind)
        except BadCell as error:
            raise InputError(
                f"column {name!r} {error}; read labels as text with {{text}}.",
                place=self.place(error.row),
                text=Option("text_labels", True),
            ) from None
        check_classes(y, missing, f"column {name!r} of {self.path}", self.first_row)
        return y, missing


class CellTable(Table):
    """Columns of text that mean what `nearkin.tables.cells` says."""

    def __init__(
        self, path: str, columns: dict[str, list[str]], n_rows: int, first_row: int = 0, folder: str | None = None
    ):
        super().__init__(path, list(columns), n_rows, first_row, folder)
        self._columns = columns

    def numbers(self, name: str) -> NDArray[Any]:
        return parse_numbers(self._columns[name])

    def labels(self, name: str, kind: str | None = None) -> Labels:
        return parse_labels(self._short(name, self.values(name)), kind)

    def values(self, name: str) -> list[str]:
        return unquote_formulas(self._columns[name])

    def raw(self, name: str) -> RawColumn:
        try:
            numbers = self.numbers(name)
        except BadCell:
            return RawColumn.of_cells(name, Cells.of(self.values(name)))
        return RawColumn(name, self.n_rows, "numbers", numbers, texts=lambda: Cells.of(self._columns[name]))


class ArrowTable(Table):
    """Columns that Arrow holds, found by ``column``; with ``holds_cells`` text stands for what it says, as in CSV."""

    def __init__(
        self, path: str, names: Sequence[str], n_rows: int, column: Callable[[str], Any],
        *, first_row: int = 0, holds_cells: bool = False,
    ):  # fmt: skip
        super().__init__(path, names, n_rows, first_row)
        self._column, self._holds_cells = column, holds_cells

    def has_vectors(self, name: str) -> bool:
        return is_list(self._column(name).type)

    def numbers(self, name: str) -> NDArray[Any]:
        column = self._whole(name)
        with self._decoding(name):
            if self._holds_cells and is_text(column.type):
                fast = _cast_cells(column)
                return parse_numbers(column.to_pylist()) if fast is None else fast
            return _vectors(column) if is_list(column.type) else _numbers(column)

    def labels(self, name: str, kind: str | None = None) -> Labels:
        column = self._whole(name)
        if hasattr(column, "dictionary_decode"):
            column = column.dictionary_decode()
        holds_text = is_text(column.type)
        if self._holds_cells and holds_text:
            return parse_labels(self._short(name, self.values(name)), kind)
        check_label_type(column.type, name, self.path)
        if kind is not None and holds_text != (kind == "text"):
            raise InputError(
                f"{self.path}: label column {name!r} holds {column.type} here and "
                f"{'text' if kind == 'text' else 'numbers'} elsewhere; write it as one type."
            )
        with self._decoding(name):
            missing = np.asarray(column.is_null(nan_is_null=True))
            if holds_text:
                texts = np.array(self._short(name, column.fill_null("").to_pylist()), dtype=np.str_)
                return texts, missing | (np.char.strip(texts) == "")
            return np.asarray(column.fill_null(False if str(column.type) == "bool" else 0)), missing

    def values(self, name: str) -> list[Any]:
        column = self._column(name)
        with self._decoding(name):
            found = column.to_pylist()
        return unquote_formulas(found) if self._holds_cells and is_text(column.type) else found

    def some_values(self, name: str, rows: NDArray[np.int64]) -> list[Any]:
        column = self._column(name)
        with self._decoding(name):
            found = column.take(rows).to_pylist()
        return unquote_formulas(found) if self._holds_cells and is_text(column.type) else found

    def raw(self, name: str) -> RawColumn:
        column = self._whole(name)
        with self._decoding(name):
            if self._holds_cells and is_text(column.type):
                numbers = _cast_cells(column, has_gaps=True)
                if numbers is None:
                    return RawColumn.of_cells(name, _cells(column, self.values(name)))
                return RawColumn(name, self.n_rows, "numbers", numbers, texts=lambda: _cells(column))
            return _raw_arrow(name, column)

    def _whole(self, name: str) -> Any:
        column = self._column(name)
        return column.combine_chunks() if hasattr(column, "combine_chunks") else column

    def _decoding(self, name: str) -> AbstractContextManager[None]:
        return decoding(f"{self.path}, column {name!r}")


class JoinedTable(Table):
    """A table with one more column, of vectors."""

    def __init__(self, table: Table, name: str, vectors: NDArray[Any]):
        super().__init__(table.path, [*table.names, name], table.n_rows, table.first_row, table.folder)
        self._table, self._name, self._vectors = table, name, vectors

    def has_vectors(self, name: str) -> bool:
        return name == self._name or self._table.has_vectors(name)

    def numbers(self, name: str) -> NDArray[Any]:
        return self._vectors if name == self._name else self._table.numbers(name)

    def labels(self, name: str, kind: str | None = None) -> Labels:
        return self._table.labels(name, kind)

    def values(self, name: str) -> list[Any]:
        return self._vectors.tolist() if name == self._name else self._table.values(name)

    def raw(self, name: str) -> RawColumn:
        if name == self._name:
            return RawColumn(name, self.n_rows, "vectors", self._vectors)
        return self._table.raw(name)


@contextmanager
def decoding(path: object, what: str = "") -> Iterator[None]:
    """Make whatever a decoder raises in the block one error that names the file; foreign files raise anything."""
    try:
        yield
    except (InputError, BadCell, FileNotFoundError, PermissionError):
        raise
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 text (byte {error.object[error.start]:#04x}); save it as UTF-8."
        ) from None
    except MemoryError:
        raise InputError(f"{path} does not fit into memory, or it is damaged.") from None
    except Exception as error:
        words = " ".join(str(error).split()) or type(error).__name__
        problem = f"is not {what}, or it is damaged" if what else "cannot be read, it is damaged"
        raise InputError(f"{path} {problem} ({words[:200]}).") from None


def check_regular(path: Path) -> None:
    """Refuse what is not a file that can be read again: a folder, a pipe, a device."""
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a data file.")
    if not path.exists():
        raise InputError(f"{path}: no such file.")
    if not path.is_file():
        raise InputError(f"{path} is not a regular file but a device or a pipe; write its content to a file first.")


def require_pyarrow(what: object) -> Any:
    """Return the module pyarrow, or say how to get it."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError(f"{what} needs pyarrow; install it with: pip install 'nearkin[arrow]'") from None
    return pyarrow


def check_classes(y: NDArray[Any], missing: NDArray[np.bool_], title: str, first_row: int = 0) -> None:
    """Refuse labels that are quantities."""
    if y.dtype.kind != "f":
        return
    fraction = ~missing & (~np.isfinite(y) | (y != np.floor(y)))
    if fraction.any():
        row = int(fraction.argmax())
        raise InputError(
            f"{title} holds {y[row]} in data row {first_row + row + 1:,}; a label names a class, not a quantity. "
            "Divide a numeric target (regression) into classes first."
        )


def stack_columns(blocks: Mapping[str, NDArray[Any]]) -> tuple[Array, list[str]]:
    """Return columns of numbers side by side, and a name for each; an entry of a vector is called ``name[i]``."""
    names = []
    for name, block in blocks.items():
        names += [name] if block.ndim == 1 else [f"{name}[{i}]" for i in range(block.shape[1])]
    held = list(blocks.values())
    X = held[0] if len(held) == 1 and held[0].ndim == 2 else np.column_stack(held)
    return np.ascontiguousarray(X, dtype=single_or_double(block.dtype for block in held)), names


def find_gap(X: Array, names: Sequence[str] | None) -> tuple[int, str]:
    """Return the first row that holds a missing or infinite number, and what is wrong with it."""
    row, column = (int(one) for one in np.argwhere(~np.isfinite(X))[0])
    name = repr(names[column]) if names else str(column + 1)
    value = X[row, column]
    return row, f"column {name} holds {'no value' if np.isnan(value) else f'an infinite value ({value})'}"


def single_or_double(dtypes: Iterable[Any]) -> str:
    """Return the precision that holds all columns: single only if every one has it."""
    return "float32" if all(one in (np.float16, np.float32) for one in dtypes) else "float64"


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type is text."""
    return str(kind) in ("string", "large_string", "string_view")


def is_list(kind: Any) -> bool:
    """Return whether an Arrow type is a vector."""
    return hasattr(kind, "value_field")


def check_label_type(kind: Any, name: str, path: str) -> None:
    """Refuse an Arrow type that cannot hold labels."""
    from pyarrow import types

    if types.is_null(kind):
        raise InputError(
            f"{path}: no row has a label in column {name!r}; leave this file out, or label some of its rows."
        )
    if not (is_text(kind) or types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)):
        raise InputError(f"{path}: label column {name!r} holds {kind}; whole numbers or text are needed.")


def _cast_cells(column: Any, *, has_gaps: bool = False) -> NDArray[Any] | None:
    """Return finite numbers of a column of text at Arrow's speed; None if it holds anything else.

    With ``has_gaps`` missing numbers are NaN, and infinite ones are let through.
    """
    import pyarrow as pa
    from pyarrow import compute

    cells = compute.utf8_trim_whitespace(column)
    if has_gaps:
        gaps = compute.is_in(cells, value_set=pa.array(sorted(NO_NUMBER), type=cells.type))
        cells = compute.if_else(gaps, pa.scalar(None, type=cells.type), cells)
    try:
        numbers = compute.cast(cells, pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        return None
    return numbers if has_gaps or np.isfinite(numbers).all() else None


def _cells(column: Any, values: Sequence[Any] | None = None) -> Cells:
    """Return the texts of a column; ``values`` are they as they stand in the file, where these differ."""
    coded = column.dictionary_encode()
    if hasattr(coded, "combine_chunks"):
        coded = coded.combine_chunks()
    texts = coded.dictionary.to_pylist()
    if values is not None and any(text is not None and text.startswith("'") for text in texts):
        return Cells.of(values)
    return Cells.numbered(texts, np.asarray(coded.indices.fill_null(-1)).astype(np.int64))


def _raw_arrow(name: str, column: Any) -> RawColumn:
    import pyarrow as pa
    from pyarrow import compute, types

    kind = column.type
    if types.is_dictionary(kind) and not is_text(kind.value_type):
        column = column.dictionary_decode()
        kind = column.type
    if types.is_dictionary(kind) or is_text(kind):
        return RawColumn.of_cells(name, _cells(column))
    if types.is_timestamp(kind) or types.is_date(kind):
        plain = compute.cast(column, pa.timestamp("us"), safe=False)
        return RawColumn.of_array(name, plain.to_numpy(zero_copy_only=False).astype("datetime64[us]"))
    if types.is_duration(kind):
        return RawColumn.of_array(name, column.to_numpy(zero_copy_only=False).astype("timedelta64[us]"))
    if types.is_null(kind):
        return RawColumn(name, len(column), "nothing", np.full(len(column), np.nan))
    if is_list(kind):
        return RawColumn(name, len(column), "vectors", _vectors(column))
    words = "true or false" if types.is_boolean(kind) else str(kind)
    try:
        return RawColumn(name, len(column), words, _numbers(column))
    except BadCell:
        return RawColumn(name, len(column), words)  # which nothing is made of


def _numbers(column: Any) -> NDArray[Any]:
    from pyarrow import float64, types

    kind = column.type
    if types.is_floating(kind) or (types.is_integer(kind) and not column.null_count):
        return column.to_numpy(zero_copy_only=False)
    if types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal(kind):
        return column.cast(float64()).to_numpy(zero_copy_only=False)
    raise BadCell(f"holds {'text' if is_text(kind) else kind}, not numbers")


def _vectors(column: Any) -> NDArray[Any]:
    """Return the rows of a column of vectors, NaN where there is none."""
    from pyarrow import compute

    valid = np.asarray(column.is_valid())
    lengths = np.asarray(compute.list_value_length(column).fill_null(-1))
    width = getattr(column.type, "list_size", None) or (int(lengths[valid.argmax()]) if valid.any() else 0)
    other = valid & (lengths != width)
    if other.any():
        row = int(other.argmax())
        raise BadCell(f"holds vectors that differ in length: {width} first, {lengths[row]} here", row)
    flat = _numbers(column.flatten()).reshape(-1, width) if width else np.empty((len(column), 0))
    if valid.all():
        return flat
    out = np.full((len(column), width), np.nan, flat.dtype if flat.dtype.kind == "f" else np.float64)
    out[valid] = flat[valid] if len(flat) == len(column) else flat
    return out
