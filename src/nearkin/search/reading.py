"""Vectors with their ids, and feedback about them, from files."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike, NDArray

from nearkin.arrays import Array
from nearkin.errors import InputError, Option, Row, placed_at, quote_names
from nearkin.search.feedback import Feedback
from nearkin.tables import open_table, read_labels, read_matrix

__all__ = ["FORMS", "read_feedback", "read_vectors"]

#: Columns of each form of feedback; ``rank`` may be missing.
FORMS = {
    "triplets": ("query", "clicked", "skipped"),
    "impressions": ("impression", "query", "item", "clicked", "rank"),
    "judgements": ("query", "item", "relevant"),
}
_OPTIONAL = {"rank"}
#: Columns that are taken for ids.
_IDS = ("id", "ids")


def read_vectors(
    path: str | os.PathLike[str], ids: str | os.PathLike[str] | None = None, id_column: str | None = None
) -> tuple[Array, NDArray[Any] | int]:
    r"""Read vectors and the ids of their rows.

    Parameters
    ----------
    path : path-like
        npy, npz, CSV or Parquet file; all columns but the ids are the vectors.
    ids : path-like or None, default=None
        File of ids: npy, or text with one id a line.
    id_column : str or None, default=None
        Column (or array of an npz file) of ids; None finds one called id or ids.

    Returns
    -------
    vectors : ndarray of shape (n, n_features)
        One vector per row.
    ids : ndarray of shape (n,) or int
        Their ids; the number of rows if there are none.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "items.csv"
    ...     _ = path.write_text("id,x,y\na,0,1\nb,2,3\n")
    ...     read_vectors(path)
    (array([[0., 1.],
           [2., 3.]]), array(['a', 'b'], dtype='<U1'))
    """
    if ids is not None and id_column is not None:
        raise InputError(f"ids of {path} are given as a column and as a file; give one of them.")
    table = open_table(Path(path))
    if id_column is None and ids is None:
        id_column = next((name for name in _IDS if name in table.names), None)
    X = read_matrix(table, drop=[] if id_column is None else [id_column])
    if ids is None and id_column is None:
        return X, len(X)
    found, missing = read_labels(Path(ids)) if ids is not None else table.labels(str(id_column))
    title = str(ids) if ids is not None else f"column {id_column!r} of {path}"
    if len(found) != len(X):
        raise InputError(f"{title} holds {len(found):,} ids for {len(X):,} vectors.")
    if missing.any():
        raise InputError(f"{title} holds no id in {{row}}; every vector needs one.", row=Row(missing.argmax()))
    return X, found


def read_feedback(
    path: str | os.PathLike[str],
    *,
    query_ids: ArrayLike | int,
    item_ids: ArrayLike | int,
    form: str = "auto",
    column: Mapping[str, str] | None = None,
    bad: str = "raise",
    duplicates: str | None = None,
) -> Feedback:
    r"""Read a log of feedback.

    Parameters
    ----------
    path : path-like
        CSV, Parquet or npz file.
    query_ids, item_ids : array-like or int
        Ids of all queries and items in the order of their vectors; a number stands for 0, 1, 2, ...
    form : {"auto", "triplets", "judgements", "impressions"}, default="auto"
        What a row says; "auto" tells by the columns. They are named after the arguments of `Feedback.from_triplets`,
        `Feedback.from_judgements` and `Feedback.from_impressions`.
    column : mapping of str to str or None, default=None
        Names of columns in the file, where they are called otherwise there.
    bad, duplicates : str
        As in those functions; None for ``duplicates`` takes the default of the form.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "clicks.csv"
    ...     _ = path.write_text("who,clicked,skipped\n0,2,1\n1,0,2\n")
    ...     read_feedback(path, query_ids=2, item_ids=3, column={"query": "who"}).form
    'triplets'
    """
    names = dict(column or {})
    roles = {role for columns in FORMS.values() for role in columns}
    for role in names:
        if role not in roles:
            raise InputError(f"{role!r} is not a column of feedback; the columns are {quote_names(sorted(roles))}.")
    options: dict[str, Any] = {} if duplicates is None else {"duplicates": duplicates}
    table = open_table(Path(path))
    with placed_at(path):
        held = {role: names.get(role, role) for role in roles if names.get(role, role) in table.names}
        form = _recognise_form(form, held, table.names)
        for role in FORMS[form]:
            if role in held:
                options[role], missing = table.labels(held[role])
                if missing.any():
                    raise InputError(f"column {held[role]!r} holds nothing in {{row}}.", row=Row(missing.argmax()))
        make = getattr(Feedback, f"from_{form}")
        return make(**options, query_ids=query_ids, item_ids=item_ids, bad=bad)


def _recognise_form(form: str, held: Collection[str], names: Collection[str]) -> str:
    for one in FORMS if form == "auto" else (form,):
        if not {*FORMS[one]} - {*held} - _OPTIONAL:
            return one
    if not names:
        raise InputError("the array has no name; feedback needs named columns: CSV, Parquet or npz.")
    if form == "auto":
        forms = "; ".join(f"{one}: {', '.join(columns)}" for one, columns in FORMS.items())
        needed = f"fit no form of feedback. The forms are {forms}"
    else:
        needed = f"do not fit {form}, which need {', '.join(FORMS[form])}"
    problem = f"the columns {quote_names(names)} {needed}. Rename columns, or say which is which with {{column}}."
    raise InputError(problem, column=Option("column"))
