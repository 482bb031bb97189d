"""Arrow record batches as features and labels: which columns, and what their types mean."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.streams.batch import Chunk

__all__ = ["Layout", "layout_of", "require_pyarrow", "to_chunk"]


def require_pyarrow(what: str) -> Any:
    """The module pyarrow, or a message how to get it."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError(f"{what} needs pyarrow; install it with: pip install 'nearkin[arrow]'") from None
    return pyarrow


@dataclass(frozen=True)
class Layout:
    """Columns of a table that are features, and the one that is the label.

    Parameters
    ----------
    columns : tuple of str
        Feature columns in order.
    widths : tuple of int
        Numbers in each: 0 for a plain column, the length of its vectors for a column of vectors.
    label : str or None
        Label column.
    text : bool
        Whether labels are text.
    dtype : str
        Of the features.
    """

    columns: tuple[str, ...]
    widths: tuple[int, ...]
    label: str | None
    text: bool
    dtype: str

    @property
    def names(self) -> list[str]:
        """One name for every feature; an entry of a vector is called ``name[i]``."""
        out: list[str] = []
        for name, width in zip(self.columns, self.widths, strict=True):
            out.extend([name] if not width else [f"{name}[{i}]" for i in range(width)])
        return out

    @property
    def needed(self) -> list[str]:
        """Columns to read."""
        return [*self.columns, *([self.label] if self.label else [])]


def layout_of(
    schema: Any, first: Any, where: str, label: str | None, features: Sequence[str] | None, drop: Sequence[str]
) -> Layout:
    """Layout of tables with a schema.

    Parameters
    ----------
    schema : pyarrow.Schema
        Columns and types.
    first : callable
        Gives the length of the vectors in a column whose type does not tell it.
    where : str
        For messages.
    label, features, drop
        As the user gave them.
    """
    pa = require_pyarrow(where)
    # pandas writes an index that has no name as a column
    held = [name for name in schema.names if not name.startswith("__index_level_")]
    for name in (*(features or ()), *drop, *([label] if label else [])):
        check_column(name, held, where)
    if label is None:
        raise ValueError(f"{where}: name the column of labels with label=...; it holds {_listed(held)}.")
    if features is not None and label in features:
        raise ValueError(f"{where}: column {label!r} is the label and cannot be a feature too.")
    chosen = [name for name in (features or held) if name != label and name not in drop]
    if not chosen:
        raise ValueError(f"{where} has no feature columns left.")
    widths, kinds = [], []
    for name in chosen:
        kind = schema.field(name).type
        if pa.types.is_fixed_size_list(kind):
            widths.append(kind.list_size)
            kind = kind.value_type
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            widths.append(first(name))
            kind = kind.value_type
        else:
            widths.append(0)
        if not _is_number(pa, kind):
            raise ValueError(
                f"{where}: column {name!r} holds {kind}, which is no number; leave it out with drop=[{name!r}]."
            )
        kinds.append(kind)
    single = all(pa.types.is_float16(one) or pa.types.is_float32(one) for one in kinds)
    kind = schema.field(label).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    if not (text or pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_floating(kind)):
        raise ValueError(f"{where}: label column {label!r} holds {kind}; whole numbers or text are needed.")
    return Layout(tuple(chosen), tuple(widths), label, bool(text), "float32" if single else "float64")


def check_column(name: str, held: Sequence[str], where: str) -> None:
    """Refuse a name that is no column, with the nearest one."""
    if name in held:
        return
    lower = {one.lower(): one for one in held}
    close = difflib.get_close_matches(name.lower(), lower, n=1)
    hint = f"Did you mean {lower[close[0]]!r}?" if close else f"It holds {_listed(held)}."
    raise ValueError(f"{where} has no column {name!r}. {hint}")


def to_chunk(batch: Any, layout: Layout, where: str) -> Chunk:
    """Features and labels of a record batch."""
    pa = require_pyarrow(where)
    n = batch.num_rows
    X = np.empty((n, len(layout.names)), layout.dtype)
    at = 0
    for name, width in zip(layout.columns, layout.widths, strict=True):
        column = batch.column(name)
        if width:
            X[:, at : at + width] = _vectors(pa, column, width, name, where)
        else:
            X[:, at] = _numbers(pa, column)
        at += max(1, width)
    y, no_label = _labels(pa, batch.column(layout.label), layout, where)
    return Chunk(X, y, no_label)


def _numbers(pa: Any, column: Any) -> NDArray[Any]:
    if pa.types.is_floating(column.type) or (pa.types.is_integer(column.type) and not column.null_count):
        return column.to_numpy(zero_copy_only=False)
    return column.cast(pa.float64()).to_numpy(zero_copy_only=False)


def _vectors(pa: Any, column: Any, width: int, name: str, where: str) -> NDArray[Any]:
    """Rows of a column of vectors; NaN where there is none."""
    import pyarrow.compute as compute

    valid = np.asarray(column.is_valid())
    lengths = np.asarray(compute.list_value_length(column).fill_null(width))
    if (lengths != width).any():
        row = int(np.argmax(lengths != width))
        raise ValueError(f"{where}: a vector in column {name!r} has {lengths[row]} numbers, the first one has {width}.")
    flat = _numbers(pa, column.flatten()).reshape(-1, width)
    if valid.all():
        return flat
    out = np.full((len(column), width), np.nan)
    out[valid] = flat[valid] if len(flat) == len(column) else flat
    return out


def _labels(pa: Any, column: Any, layout: Layout, where: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    missing = np.asarray(column.is_null(nan_is_null=True))
    kind = column.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    if is_text != layout.text:
        raise ValueError(
            f"{where}: label column {layout.label!r} holds {kind} here and {'text' if layout.text else 'numbers'} "
            "elsewhere; write it as one type."
        )
    if is_text:
        return np.array(column.fill_null("").to_pylist(), dtype=np.str_), missing
    if pa.types.is_boolean(kind):
        return np.asarray(column.fill_null(False)), missing
    y = np.asarray(column.fill_null(0))
    if y.dtype.kind == "f":
        y = np.where(missing, 0, y)
        broken = y != np.floor(y)
        if broken.any():
            raise ValueError(
                f"{where}: label column {layout.label!r} holds {y[broken.argmax()]}; a label names a class, not a "
                "quantity."
            )
    return y, missing


def _is_number(pa: Any, kind: Any) -> bool:
    types = pa.types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)


def _listed(names: Sequence[str], most: int = 8) -> str:
    rest = len(names) - most
    return ", ".join(repr(one) for one in names[:most]) + (f" and {rest} more" if rest > 0 else "")
