"""From a file to features and labels: which columns, in which order, and whether they are whole."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nearkin.cli._arrays import Arrays, read_arrays, read_labels
from nearkin.cli._cells import NotNumbers
from nearkin.cli._csv import read_csv
from nearkin.cli._errors import UserError
from nearkin.cli._parquet import read_parquet
from nearkin.cli._text import names

__all__ = ["Columns", "Data", "check_passed_on", "open_table", "read_for_model", "read_rows", "read_training"]

Array = NDArray[np.floating]

_SUFFIXES = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".npy", ".npz"), "arrays"),
}
_MARKS = {b"PAR1": "parquet", b"PK\x03\x04": "arrays", b"\x93NUM": "arrays"}


class Columns(Protocol):
    """A table whose columns have names."""

    path: Path
    names: list[str]
    n_rows: int

    def numbers(self, name: str) -> Array:
        """Column of numbers, NaN where one is missing."""

    def labels(self, name: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Labels and which are missing."""

    def raw(self, name: str) -> list[Any]:
        """Values to be passed on."""


@dataclass
class Data:
    """Rows for a model."""

    X: Array
    names: list[str] | None = None
    label: str | None = None
    y: NDArray[Any] | None = None
    y_missing: NDArray[np.bool_] | None = None
    ids: dict[str, Sequence[Any] | NDArray[Any]] = field(default_factory=dict)
    n_unnamed: int = 0


def read_training(
    path: Path,
    label: str | None,
    labels: Path | None,
    features: Sequence[str],
    drop: Sequence[str],
    ids: Sequence[str] = (),
) -> Data:
    """Features and labels to learn from; every row needs both.

    Parameters
    ----------
    path : Path
        Data file.
    label : str or None
        Column (or array) of labels.
    labels : Path or None
        File of labels instead.
    features, drop : sequence of str
        Columns to use, or to leave out.
    ids : sequence of str
        Columns to pass on, which are no features.
    """
    if label is not None and labels is not None:
        raise UserError("--label names a column and --labels a file; give one of them.")
    source = open_table(path)
    if labels is None and label is None:
        if not isinstance(source, Arrays):
            raise UserError(f"--label is needed: which column of {path} holds the labels? {_listed(source.names)}")
        if not source.names:
            raise UserError(f"{path} holds features only; give the labels with --labels FILE.")
        if "y" not in source.names:
            raise UserError(f"{path} holds no array y; name the labels with --label NAME or --labels FILE.")
        label = "y"
    if isinstance(source, Arrays):
        if drop:
            raise UserError(f"--drop needs named columns, which {path} has not.")
        data = Data(_as_floats([source.features(_only(features))]), label=label)
        data.ids = _passed_on(source, ids, len(data.X))
    else:
        _check_known(source, ids)
        chosen = _choose(source, label, features, [*drop, *ids])
        data = _features(source, chosen)
        data.label, data.n_unnamed = label, source.names.count("")
        data.ids = {name: source.raw(name) for name in ids}
    if labels is not None:
        data.y, data.y_missing = read_labels(labels)
    elif label is not None:
        if not isinstance(source, Arrays):
            _check_known(source, [label])
        data.y, data.y_missing = source.labels(label)
    title = f"label column {label!r} of {path}" if labels is None else str(labels)
    _check_finite(data, path)
    _check_labels(data, title)
    return data


def read_for_model(
    path: Path,
    wanted: Sequence[str] | None,
    n_features: int,
    label: str | None,
    *,
    label_is_asked: bool,
    ids: Sequence[str] = (),
    array: str | None = None,
    drop: Sequence[str] = (),
) -> Data:
    """Features in the order of a fitted model, and labels if there are any.

    Parameters
    ----------
    path : Path
        Data file.
    wanted : sequence of str or None
        Names of the model's features; None if it was fitted without.
    n_features : int
        How many it has.
    label : str or None
        Column of labels.
    label_is_asked : bool
        Whether it is an error if there is none.
    ids : sequence of str
        Columns to pass on.
    array : str or None
        Array with the features, for npz.
    drop : sequence of str
        Columns that are no features; needed only if the model knows no names.
    """
    source = open_table(path)
    if isinstance(source, Arrays):
        data = Data(_as_floats([source.features(array)]))
        data.ids = _passed_on(source, ids, len(data.X))
    else:
        _check_known(source, [*ids, *([label] if label and label_is_asked else [])])
        if wanted is not None:
            data = _matched(source, wanted)
        else:
            data = _features(source, _choose(source, label, (), [*drop, *ids], strict=False))
        data.ids = {name: source.raw(name) for name in ids}
    if data.X.shape[1] != n_features:
        raise UserError(f"{path} has {data.X.shape[1]} feature columns, the model was fitted on {n_features}.")
    if label is not None and (label_is_asked or label in source.names):
        data.label = label
        data.y, data.y_missing = source.labels(label)
        _check_length(data, f"label column {label!r} of {path}")
    _check_finite(data, path)
    return data


def read_rows(path: Path, source: Columns | Arrays, drop: Sequence[str]) -> Array:
    """All columns but those to drop as finite numbers; npz: the array X, or the only matrix there is."""
    if isinstance(source, Arrays):
        data = Data(_as_floats([source.features(None)]))
    else:
        data = _features(source, _choose(source, None, (), drop))
    _check_finite(data, path)
    return data.X


def check_passed_on(ids: Iterable[str], taken: Iterable[str]) -> None:
    """Refuse columns to pass on that would hide a column of the result."""
    hidden = set(ids) & set(taken)
    if hidden:
        raise UserError(f"--id {min(hidden)}: the output has a column of that name already; rename it in the data.")


def open_table(path: Path) -> Columns | Arrays:
    """A file of data, by its name or its first bytes."""
    if path.is_dir():
        raise UserError(f"{path} is a folder, not a data file.")
    if not path.exists():
        raise UserError(f"{path}: no such file.")
    suffix = path.with_suffix("").suffix if path.suffix.lower() == ".gz" else path.suffix
    kind = _SUFFIXES.get(suffix.lower())
    if kind is None:
        with path.open("rb") as file:
            kind = _MARKS.get(file.read(4))
        if kind is None:
            raise UserError(
                f"cannot tell the format of {path}: its name must end in .csv, .tsv, .parquet, .npz or .npy."
            )
    if kind == "csv":
        return read_csv(path)
    return read_parquet(path) if kind == "parquet" else read_arrays(path)


def _passed_on(source: Arrays, ids: Sequence[str], n_rows: int) -> dict[str, Sequence[Any] | NDArray[Any]]:
    """Arrays with one value a row."""
    for name in ids:
        if np.shape(source.named(name)) != (n_rows,):
            raise UserError(f"array {name!r} of {source.path} does not hold one value a row and cannot be passed on.")
    return {name: source.named(name) for name in ids}


def _only(features: Sequence[str]) -> str | None:
    if len(features) > 1:
        raise UserError("arrays have no named columns: --features takes the name of one array.")
    return features[0] if features else None


def _choose(
    source: Columns, label: str | None, features: Sequence[str], drop: Sequence[str], *, strict: bool = True
) -> list[str]:
    """Names of the feature columns."""
    if strict:
        _check_known(source, [*features, *drop, *([label] if label is not None else [])])
    if label is not None and label in features:
        raise UserError(f"column {label!r} is the label and cannot be a feature too.")
    out = {"", label, *drop}
    chosen = [name for name in (features or source.names) if name not in out]
    if not chosen:
        raise UserError(f"{source.path} has no feature columns left.")
    return chosen


def _features(source: Columns, chosen: Iterable[str], *, needed: bool = False) -> Data:
    blocks, expanded, text = [], [], dict[str, str]()
    for name in chosen:
        try:
            block = source.numbers(name)
        except NotNumbers as error:
            text[name] = str(error)
            continue
        expanded.extend([name] if block.ndim == 1 else [f"{name}[{i}]" for i in range(block.shape[1])])
        blocks.append(block)
    if text:
        first, cell = next(iter(text.items()))
        columns = f"column {first!r}" if len(text) == 1 else f"columns {names(text)}"
        advice = "the model needs numbers there" if needed else f"leave out with --drop {_quoted(','.join(text))}"
        raise UserError(f"text in {columns} of {source.path} ({first!r} holds {cell}); {advice}.")
    return Data(_as_floats(blocks), expanded)


def _matched(source: Columns, wanted: Sequence[str]) -> Data:
    """Columns by name, in the order wanted; an entry of a vector column is called ``name[i]``."""
    held = set(source.names)
    home = {name: name if name in held else name.rpartition("[")[0] for name in wanted}
    missing = [name for name in wanted if home[name] not in held]
    if missing:
        raise UserError(
            f"{source.path} lacks {len(missing)} of the model's {len(wanted)} columns: {names(missing)}. "
            f"{_listed(source.names)}"
        )
    data = _features(source, dict.fromkeys(home.values()), needed=True)
    assert data.names is not None
    at = {name: i for i, name in enumerate(data.names)}
    missing = [name for name in wanted if name not in at]
    if missing:
        raise UserError(f"the vectors in {source.path} are too short for the model: no {names(missing)}.")
    order = [at[name] for name in wanted]
    X = data.X if order == list(range(data.X.shape[1])) else data.X[:, order]
    return Data(X, list(wanted))


def _as_floats(blocks: Sequence[NDArray[Any]]) -> Array:
    single = all(block.dtype in (np.float16, np.float32) for block in blocks)
    dtype = np.float32 if single else np.float64
    if len(blocks) == 1 and blocks[0].ndim == 2:
        return np.ascontiguousarray(blocks[0], dtype=dtype)
    X = np.column_stack(blocks)
    return np.ascontiguousarray(X, dtype=dtype)


def _check_known(source: Columns, asked: Iterable[str]) -> None:
    for name in asked:
        if name not in source.names or not name:
            lower = {one.lower(): one for one in source.names if one}
            close = difflib.get_close_matches(name.lower(), lower, n=1)
            hint = f"Did you mean {lower[close[0]]!r}?" if close else _listed(source.names)
            raise UserError(f"{source.path} has no column {name!r}. {hint}")


def _check_finite(data: Data, path: Path) -> None:
    whole = np.isfinite(data.X)
    if whole.all():
        return
    row, column = (int(one) for one in np.argwhere(~whole)[0])
    name = f"column {data.names[column]!r}" if data.names else f"column {column + 1}"
    value = data.X[row, column]
    what = "no value" if np.isnan(value) else f"an infinite value ({value})"
    count = int((~whole).any(axis=1).sum())
    rows = "1 row is" if count == 1 else f"{count:,} rows are"
    raise UserError(f"{name} of {path} holds {what} in data row {row + 1} ({rows} affected); fill or drop such rows.")


def _check_labels(data: Data, title: str) -> None:
    _check_length(data, title)
    y, missing = data.y, data.y_missing
    assert y is not None and missing is not None
    if missing.any():
        raise UserError(
            f"{title} holds no label in data row {int(missing.argmax()) + 1} ({int(missing.sum()):,} in all); "
            "fill or drop such rows."
        )
    if y.dtype.kind == "f":
        fraction = ~np.isfinite(y) | (y != np.floor(y))
        if fraction.any():
            row = int(fraction.argmax())
            raise UserError(f"{title} holds {y[row]} in data row {row + 1}; a label names a class, not a quantity.")
    n_classes = len(np.unique(y))
    if n_classes == 1:
        raise UserError(f"{title} holds one class, {str(y[0])!r}, in all rows; at least two are needed.")
    if len(y) > 10 and 2 * n_classes > len(y):
        raise UserError(f"{title} holds {n_classes:,} different values in {len(y):,} rows; is it a class at all?")


def _check_length(data: Data, title: str) -> None:
    if data.y is not None and len(data.y) != len(data.X):
        raise UserError(f"{title} holds {len(data.y):,} labels for {len(data.X):,} rows.")


def _listed(columns: Sequence[str]) -> str:
    return f"It holds {names(name for name in columns if name)}."


def _quoted(text: str) -> str:
    return f'"{text}"' if " " in text else text
