"""From a file to features and labels: which columns, in which order, and whether every row is whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array
from nearkin.errors import InputError, Option, quote_names
from nearkin.tables.choice import REVIEWED
from nearkin.tables.csv_files import read_csv, read_csv_names
from nearkin.tables.encoder import ColumnUse, TableEncoder
from nearkin.tables.excel_files import read_excel
from nearkin.tables.images import read_picture_folder
from nearkin.tables.numpy_files import Arrays, read_arrays, read_labels
from nearkin.tables.originals import OriginalCells
from nearkin.tables.parquet_files import read_parquet, read_parquet_names
from nearkin.tables.shown import ShownColumns
from nearkin.tables.table import JoinedTable, Labels, Table, check_classes, check_regular, find_gap, single_or_double

__all__ = [
    "LabelledRows",
    "column_names",
    "encode_table",
    "kind_of",
    "open_table",
    "read_for_model",
    "read_matrix",
    "read_training",
]

#: Name of the column that a file of vectors becomes.
EMBEDDING = "embedding"

_SUFFIXES = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".npy", ".npz"), "arrays"),
    **dict.fromkeys((".xlsx", ".xlsm"), "excel"),
}
_READERS: dict[str, Callable[[Path], Table | Arrays]]
_READERS = {"csv": read_csv, "parquet": read_parquet, "arrays": read_arrays, "excel": read_excel}
#: Files that people try, and what to do with them.
_FOREIGN = dict.fromkeys((".xls", ".ods"), "a spreadsheet of a kind that is not read; save it as .xlsx or CSV")
_FIRST_BYTES = {b"PAR1": "parquet", b"PK\x03\x04": "arrays", b"\x93NUM": "arrays"}


@dataclass
class LabelledRows:
    """Rows for a model, and what else the file says about them.

    ``X`` is finite and ``names`` are those of its columns. ``no_label`` tells which labels of ``y`` are missing,
    ``others`` are columns to pass on, of all rows of the file, and ``n_unnamed`` columns without a name were left out.
    ``encoder`` made the features of a table, and ``columns`` says what became of every column. Rows to learn from have
    labels; ``numbers`` are theirs in the file, and those of ``unlabelled``, the other rows, where there are any.
    ``originals`` are what features cannot tell about the cells of all rows of the file, by column, and ``shown`` are
    all columns but the label, for whoever judges a row.
    """

    X: Array
    names: list[str] | None = None
    label: str | None = None
    y: NDArray[Any] | None = None
    no_label: NDArray[np.bool_] | None = None
    others: Mapping[str, Sequence[Any] | NDArray[Any]] = field(default_factory=dict)
    n_unnamed: int = 0
    encoder: TableEncoder | None = None
    columns: list[ColumnUse] = field(default_factory=list)
    numbers: NDArray[np.int64] | None = None
    unlabelled: LabelledRows | None = None
    originals: dict[str, OriginalCells] = field(default_factory=dict)
    shown: ShownColumns | None = None

    @property
    def needed_encoder(self) -> TableEncoder | None:
        """What made the features, unless they are numbers as they stand in the table."""
        return None if self.encoder is None or self.encoder.is_plain_ else self.encoder

    def take(self, rows: NDArray[np.bool_]) -> LabelledRows:
        """Return some of the rows."""
        at = np.flatnonzero(rows)
        y, no_label = (None if one is None else one[at] for one in (self.y, self.no_label))
        return replace(self, X=self.X[at], y=y, no_label=no_label, numbers=at)


def open_table(path: Path) -> Table | Arrays:
    """Open a file of data; its name or its first bytes tell the format."""
    return _READERS[kind_of(path)](path)


def kind_of(path: Path) -> str:
    """Return "csv", "parquet", "excel" or "arrays"."""
    check_regular(path)
    suffix = path.with_suffix("").suffix if path.suffix.lower() == ".gz" else path.suffix
    kind = _SUFFIXES.get(suffix.lower())
    if suffix.lower() in _FOREIGN:
        raise InputError(f"{path} is {_FOREIGN[suffix.lower()]}.")
    if kind is None:
        with path.open("rb") as file:
            kind = _FIRST_BYTES.get(file.read(4))
    if kind is None:
        raise InputError(
            f"cannot tell the format of {path}: its name must end in .csv, .tsv, .xlsx, .parquet, .npz or .npy."
        )
    return kind


def column_names(path: Path) -> list[str] | None:
    """Return the names of the columns of a file, "" for those without one; None of arrays, which have no names."""
    kind = kind_of(path)
    if kind == "excel":
        return read_excel(path).names
    return None if kind == "arrays" else read_csv_names(path) if kind == "csv" else read_parquet_names(path)


def read_training(
    path: Path,
    label: str | None = None,
    labels: Path | None = None,
    features: Sequence[str] = (),
    drop: Sequence[str] = (),
    others: Mapping[str, str] | Sequence[str] = (),
    text: Sequence[str] = (),
    image: Sequence[str] = (),
    embedding: Path | None = None,
) -> LabelledRows:
    """Read features and labels to learn from; what a table holds beside numbers is encoded.

    Labels stand in the column (or array) ``label`` or in the file ``labels``; rows without one are set apart.
    ``others`` are columns to pass on, perhaps with what they are for; they are features only if ``features`` names
    them. Columns of ``text`` are read as texts, those of ``image`` as picture files, unless vectors stand for them: a
    column of vectors, or the file ``embedding`` with one for each row. A folder of pictures has the columns ``file``
    and ``class``.
    """
    if label is not None and labels is not None:
        raise InputError(
            "{label} names a column and {labels} a file; give one of them.",
            label=Option("label"), labels=Option("labels"),
        )  # fmt: skip
    source = open_table(path) if not path.is_dir() else read_picture_folder(path)
    if path.is_dir():
        is_classless = isinstance(source, Table) and not any(source.values("class"))
        if is_classless and label in (None, "class") and labels is None:
            raise InputError(f"the pictures in {path} have no classes; put them into a folder for each class.")
        label, image = label or ("class" if labels is None else None), image or ["file"]
    if isinstance(source, Arrays):
        if embedding is not None:
            raise InputError(f"{path} holds vectors already; leave {{embedding}} out.", embedding=Option("embedding"))
        rows = _from_arrays(source, label, labels, features, drop)
    else:
        source = _join(source, embedding)
        source.check_known([*features, *drop, *others, *text, *image])
        label = None if labels is not None else source.check_label(label)
        rows = encode_table(source, label, features, drop, others, text, image)
    rows.others = _pass_on(source, list(others), len(rows.X))
    _check_whole(rows, path)
    if labels is not None:
        title, (rows.y, rows.no_label) = str(labels), read_labels(labels)
    else:
        title, (rows.y, rows.no_label) = f"column {rows.label!r} of {path}", source.labels(str(rows.label))
    _check_labels(rows, title)
    assert rows.no_label is not None
    if rows.no_label.any():
        return replace(rows.take(~rows.no_label), unlabelled=rows.take(rows.no_label))
    return rows


def read_labelled(path: Path, label: str | None, labels: Path | None) -> tuple[dict[str, Any], str, Labels]:
    """Return the columns of a file as they stand, the name of the labels, and the labels; arrays have no columns.

    The labels are those that `read_training` would read, and stand in the columns under their name.
    """
    source = open_table(path) if not path.is_dir() else read_picture_folder(path)
    if labels is None:
        label = label or ("class" if path.is_dir() else "y" if isinstance(source, Arrays) else None)
        name = str(label) if isinstance(source, Arrays) else source.check_label(label)
        found = source.labels(name)
    else:
        name, found = label or "label", read_labels(labels)
    columns = {} if isinstance(source, Arrays) else {one: source.values(one) for one in source.names if one}
    n_rows = len(source.features(None)) if isinstance(source, Arrays) else source.n_rows
    if len(found[0]) != n_rows:
        raise InputError(f"{path} has {n_rows:,} rows and {labels or name} {len(found[0]):,} labels.")
    return {**columns, name: found[0].tolist()}, name, found


def encode_table(
    table: Table, label: str | None, features: Sequence[str] = (), drop: Sequence[str] = (),
    others: Mapping[str, str] | Sequence[str] = (), text: Sequence[str] = (), image: Sequence[str] = (),
) -> LabelledRows:  # fmt: skip
    """Return the features of a table, numbers as they are, all else by an encoder; see `read_training`."""
    _check_roles(label, features, drop, others, text, image)
    used = set(table.names) - {"", label, *drop}
    has_vectors = bool(text or image) and any(table.has_vectors(one) for one in (features or used))
    media = [one for one in [*text, *image] if (one in features if features else not has_vectors)]
    passed = [one for one in [*others, *text, *image] if one not in [*features, *media]]
    chosen = set(table.choose(label, features or None, [*drop, *passed]))
    encoder = TableEncoder(
        features=list(features) or None,
        drop=[one for one in table.names if one and one not in chosen],
        text=[one for one in text if one in media],
        image=[one for one in image if one in media],
    )
    X, names, originals = encoder.read(table)
    rows = LabelledRows(X, names, originals=originals)
    words = {**dict.fromkeys([*text, *image], "shown"), **dict.fromkeys(others, "passed on")}
    words |= others if isinstance(others, Mapping) else {}
    left_out = [ColumnUse(one, "dropped", "left out: dropped as you asked", 0) for one in drop if one != label]
    left_out += [
        ColumnUse(one, "shown", f"not learned: {words[one]}", 0) for one in dict.fromkeys(passed) if one not in drop
    ]
    columns = [*encoder.columns_, *left_out]
    rows.label, rows.n_unnamed, rows.encoder, rows.columns = label, table.n_unnamed, encoder, columns
    # What an earlier review wrote beside the label tells the label.
    told = {one.name for one in columns if one.name in REVIEWED and not one.n_features}
    rows.shown = ShownColumns.of(table, {label, *told})
    return rows


def _check_roles(
    label: str | None, features: Sequence[str], drop: Sequence[str], others: Mapping[str, str] | Sequence[str],
    text: Sequence[str], image: Sequence[str],
) -> None:  # fmt: skip
    """Refuse a column that is to be learned from and dropped, or that is the label and something else."""
    roles = {"features": features, "text": text, "image": image}
    for role, names in roles.items():
        if twice := [one for one in names if one in drop]:
            raise InputError(
                f"column {twice[0]!r} is in {{role}} and in {{drop}}; name it in one of them.",
                role=Option(role), drop=Option("drop"),
            )  # fmt: skip
        if label is not None and label in names and role != "features":
            raise InputError(f"column {label!r} is the label and cannot be in {{role}} too.", role=Option(role))
    if label is not None and label in others:
        use = others[label] if isinstance(others, Mapping) else "passed on"
        raise InputError(f"column {label!r} is the label and has no other use ({use}).")


def read_for_model(
    path: Path,
    wanted: Sequence[str] | None,
    n_features: int,
    label: str | None = None,
    *,
    needs_label: bool = False,
    others: Sequence[str] = (),
    array: str | None = None,
    drop: Sequence[str] = (),
    encoder: TableEncoder | None = None,
    embedding: Path | None = None,
    ids: Sequence[str] = (),
) -> LabelledRows:
    """Read features in the order of a fitted model, and labels if there are any.

    ``wanted`` are the names of the model's features, None if it was fitted without any: then all columns but those to
    ``drop`` are features. With ``needs_label`` a file without the column ``label`` is refused. ``others`` are columns
    to pass on, and ``array`` is the one with the features in an npz file. ``encoder`` is that of the model, if it has
    one; arrays hold what it would make. ``ids`` are names of ids: where ``others`` is empty, the first one that the
    file holds is passed on.
    """
    source = read_picture_folder(path) if path.is_dir() else open_table(path)
    others = others or [one for one in ids if one in source.names and one not in drop][:1]
    if isinstance(source, Arrays):
        rows = LabelledRows(_as_floats(source.features(array)))
    else:
        source = _join(source, embedding)
        source.check_known([*others, *([label] if label and needs_label else [])])
        if encoder is not None:
            rows = LabelledRows(encoder.transform(source), encoder.get_feature_names_out().tolist())
        elif wanted is None:
            rows = LabelledRows(*source.matrix(source.choose(label, None, [*drop, *others])))
        else:
            rows = _match(source, wanted)
    rows.others = _pass_on(source, others, len(rows.X))
    if rows.X.shape[1] != n_features:
        raise InputError(f"{path} has {rows.X.shape[1]} feature columns, the model was fitted on {n_features}.")
    if label is not None and (needs_label or label in source.names):
        rows.label = label
        rows.y, rows.no_label = source.labels(label)
        _check_length(rows, f"column {label!r} of {path}")
    _check_whole(rows, path)
    return rows


def read_matrix(source: Table | Arrays, drop: Sequence[str]) -> Array:
    """Return all columns but those to drop as finite numbers; npz: the array X, or the only matrix there is."""
    if isinstance(source, Arrays):
        rows = LabelledRows(_as_floats(source.features(None)))
    else:
        source.check_known(drop)
        rows = LabelledRows(*source.matrix(source.choose(None, None, drop)))
    _check_whole(rows, source.path)
    return rows.X


def _join(table: Table, embedding: Path | None) -> Table:
    """Return a table with the vectors of a file beside it, if one is given."""
    if embedding is None:
        return table
    found = open_table(embedding)
    if not isinstance(found, Arrays):
        raise InputError(f"{embedding} must be an npy or npz file, with one vector for each row.")
    vectors = _as_floats(found.features(None))
    if len(vectors) != table.n_rows:
        raise InputError(f"{embedding} holds {len(vectors):,} vectors for the {table.n_rows:,} rows of {table.path}.")
    if EMBEDDING in table.names:
        raise InputError(f"{table.path} has a column {EMBEDDING!r} already; leave it or the file out.")
    return JoinedTable(table, EMBEDDING, vectors)


def _from_arrays(
    source: Arrays, label: str | None, labels: Path | None, features: Sequence[str], drop: Sequence[str]
) -> LabelledRows:
    if labels is None and label is None:
        if not source.names:
            raise InputError(
                f"{source.path} holds features only; give the labels with {{labels}}.", labels=Option("labels", "FILE")
            )
        if "y" not in source.names:
            raise InputError(
                f"{source.path} holds no array y; name the labels with {{label}} or {{labels}}.",
                label=Option("label", "NAME"), labels=Option("labels", "FILE"),
            )  # fmt: skip
        label = "y"
    if drop:
        raise InputError(f"{{drop}} needs named columns, which {source.path} does not have.", drop=Option("drop"))
    if len(features) > 1:
        raise InputError(
            "arrays have no named columns: {features} takes the name of one array.", features=Option("features")
        )
    X = source.features(features[0] if features else None)
    return LabelledRows(_as_floats(X), label=label)


def _match(source: Table, wanted: Sequence[str]) -> LabelledRows:
    """Return columns by name, in the order wanted; an entry of a vector column is called ``name[i]``."""
    held = set(source.names)
    home = {name: name if name in held else name.rpartition("[")[0] for name in wanted}
    missing = [name for name in wanted if home[name] not in held]
    if missing:
        raise InputError(
            f"{source.path} lacks {len(missing)} of the model's {len(wanted)} columns: {quote_names(missing)}. "
            f"It holds {quote_names(name for name in source.names if name)}."
        )
    X, names = source.matrix(dict.fromkeys(home.values()), needed=True)
    at = {name: i for i, name in enumerate(names)}
    missing = [name for name in wanted if name not in at]
    if missing:
        raise InputError(f"the vectors in {source.path} are too short for the model: no {quote_names(missing)}.")
    order = [at[name] for name in wanted]
    return LabelledRows(X if order == list(range(X.shape[1])) else X[:, order], list(wanted))


def _pass_on(source: Table | Arrays, names: Sequence[str], n_rows: int) -> dict[str, Sequence[Any] | NDArray[Any]]:
    if not isinstance(source, Arrays):
        return {name: source.values(name) for name in names}
    for name in names:
        if np.shape(source.array(name)) != (n_rows,):
            raise InputError(f"array {name!r} of {source.path} does not hold one value a row and cannot be passed on.")
    return {name: source.array(name) for name in names}


def _as_floats(X: NDArray[Any]) -> Array:
    return np.ascontiguousarray(X, dtype=single_or_double([X.dtype]))


def _check_whole(rows: LabelledRows, path: str | Path) -> None:
    whole = np.isfinite(rows.X)
    if whole.all():
        return
    row, problem = find_gap(rows.X, rows.names)
    count = int((~whole).any(axis=1).sum())
    raise InputError(
        f"{problem} ({'1 row is' if count == 1 else f'{count:,} rows are'} affected); fill or drop such rows.",
        place=f"{path}, data row {row + 1:,}",
    )


def _check_labels(rows: LabelledRows, title: str) -> None:
    _check_length(rows, title)
    y, missing = rows.y, rows.no_label
    assert y is not None and missing is not None
    if missing.all():
        raise InputError(f"{title} holds no label at all.")
    check_classes(y, missing, title)
    y = y[~missing]
    classes = np.unique(y)
    n_classes = len(classes)
    if n_classes == 1:
        raise InputError(f"{title} holds one class, {str(y[0])!r}, in all rows; at least two are needed.")
    if len(y) > 10 and 2 * n_classes > len(y):
        raise InputError(f"{title} holds {n_classes:,} different values in {len(y):,} rows; is it a class at all?")


def _check_length(rows: LabelledRows, title: str) -> None:
    if rows.y is not None and len(rows.y) != len(rows.X):
        raise InputError(f"{title} holds {len(rows.y):,} labels for {len(rows.X):,} rows.")
