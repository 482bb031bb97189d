"""From files to vectors with ids, and to feedback about them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearkin.cli._errors import UserError
from nearkin.errors import InputError
from nearkin.errors import quote_names as names
from nearkin.tables import Arrays, Table, open_table, read_labels, read_matrix

if TYPE_CHECKING:
    from nearkin.search import Feedback

__all__ = ["FORMS", "read_feedback", "read_vectors", "rows_from_one"]

Array = NDArray[np.floating]

#: Columns of the forms of feedback; a form is recognised by them, and ``rank`` may be missing.
FORMS = {
    "triplets": ("query", "clicked", "skipped"),
    "impressions": ("impression", "query", "item", "clicked", "rank"),
    "judgements": ("query", "item", "relevant"),
}
_OPTIONAL = "rank"
#: Columns and arrays that hold ids, if nothing else is said.
_IDS = ("id", "ids")


def read_vectors(path: Path, ids: Path | None, id_column: str | None) -> tuple[Array, NDArray[Any] | None]:
    """Vectors and their ids; None where rows are only numbered.

    Parameters
    ----------
    path : Path
        npy or npz, or a table whose other columns are the vectors.
    ids : Path or None
        File of ids: npy, or text with one a line.
    id_column : str or None
        Column (or array of an npz) of ids; one called id or ids is found without.
    """
    if ids is not None and id_column is not None:
        raise UserError(f"ids of {path} are given as a column and as a file; give one of them.")
    source = open_table(path)
    column = id_column
    if column is None and ids is None:
        column = next((name for name in _IDS if name in source.names), None)
    X = read_matrix(source, drop=[] if column is None else [column])
    if ids is not None:
        found, missing = read_labels(ids)
    elif column is not None:
        found, missing = source.labels(column)
    else:
        return X, None
    title = str(ids) if ids is not None else f"column {column!r} of {path}"
    if len(found) != len(X):
        raise UserError(f"{title} holds {len(found):,} ids for {len(X):,} vectors.")
    if missing.any():
        raise UserError(f"{title} holds no id in data row {int(missing.argmax()) + 1}; every vector needs one.")
    return X, found


def read_feedback(
    path: Path,
    form: str,
    renamed: Mapping[str, str],
    *,
    query_ids: NDArray[Any] | int,
    item_ids: NDArray[Any] | int,
    bad: str,
    duplicates: str | None,
) -> tuple[str, Feedback]:
    """The form of a table of feedback, and what it says.

    Parameters
    ----------
    path : Path
        CSV, Parquet or npz.
    form : str
        A key of `FORMS`, or auto.
    renamed : mapping of str to str
        Names that columns have in the file, by the names that they have here.
    query_ids, item_ids : ndarray or int
        Ids in the order of the vectors.
    bad : str
        "raise" or "skip".
    duplicates : str or None
        "raise", "skip" or "keep"; None for what suits the form.
    """
    from nearkin.search import Feedback

    source = open_table(path)
    known = {name for columns in FORMS.values() for name in columns}
    for name in renamed:
        if name not in known:
            raise UserError(f"--column {name}=...: there is no such role; there are {names(sorted(known))}.")
    form = _form(source, path, form, renamed)
    columns = {
        name: _column(source, path, renamed.get(name, name))
        for name in FORMS[form]
        if name != _OPTIONAL or renamed.get(name, name) in source.names
    }
    options: dict[str, Any] = {"query_ids": query_ids, "item_ids": item_ids, "bad": bad}
    if duplicates is not None:
        options["duplicates"] = duplicates
    make: Any = {
        "triplets": Feedback.from_triplets,
        "impressions": Feedback.from_impressions,
        "judgements": Feedback.from_judgements,
    }[form]
    with rows_from_one():
        return form, make(**columns, **options)


def _form(source: Table | Arrays, path: Path, form: str, renamed: Mapping[str, str]) -> str:
    held = set(source.names)

    def missing(columns: Sequence[str]) -> list[str]:
        named = [renamed.get(one, one) for one in columns if one != _OPTIONAL]
        return [one for one in named if one not in held]

    if form == "auto":
        fitting = [one for one, columns in FORMS.items() if not missing(columns)]
        if fitting:
            return fitting[0]
        if not source.names:
            raise UserError(f"{path} holds an array without names; feedback needs named columns: CSV, Parquet or npz.")
        forms = "; ".join(f"{one} {', '.join(columns)}" for one, columns in FORMS.items())
        raise UserError(
            f"{path} holds the columns {names(source.names)}, which fit no form of feedback. The forms are: {forms}. "
            "Rename columns, or say which is which, as in --column query=user_query."
        )
    absent = missing(FORMS[form])
    if absent:
        raise UserError(
            f"{path} has no column {names(absent)} for feedback as {form}; it holds {names(source.names)}. "
            "Say which is which, as in --column query=user_query."
        )
    return form


def _column(source: Table | Arrays, path: Path, name: str) -> NDArray[Any]:
    values, missing = source.labels(name)
    if missing.any():
        raise UserError(f"column {name!r} of {path} holds nothing in data row {int(missing.argmax()) + 1}.")
    return values


@contextmanager
def rows_from_one() -> Iterator[None]:
    """Let messages of the library, which counts rows from 0, count them from 1 as those of the command line do."""
    try:
        yield
    except InputError:
        raise
    except ValueError as error:
        text = re.sub(r"\brow (\d+)", lambda found: f"data row {int(found[1]) + 1}", str(error))
        text = text.replace("bad='skip'", "--skip-bad")
        text = re.sub(r"duplicates='(\w+)'", r"--duplicates \1", text)
        raise UserError(text) from error
