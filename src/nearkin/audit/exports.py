"""What an audit found as columns, tables and input of other tools; `nearkin.audit.page` makes the page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nearkin._version import __version__
from nearkin.audit._interval import LEVEL
from nearkin.files import write_csv

if TYPE_CHECKING:
    from nearkin.audit.cleaning import Cleaning
    from nearkin.audit.label_audit import LabelAudit

__all__ = [
    "CLEANED", "COLUMNS", "Columns", "checked_ids", "cleaned_columns", "columns_of", "knn_graph", "plain", "write_json",
    "write_table",
]  # fmt: skip

Columns = Mapping[str, Sequence[Any] | NDArray[Any]]

#: Columns of the tables; the last two are in tables of suspects only.
COLUMNS = (
    "row", "given_label", "suggested_label", "is_suspect", "plausibility", "confidence", "score",
    "near_rows", "near_labels",
)  # fmt: skip

#: Columns of cleaned labels.
CLEANED = ("row", "label", "given_label", "confidence")

#: Neighbours that stand in a table of suspects.
_NEAR = 5


def columns_of(audit: LabelAudit, ids: Columns | None, first_row: int) -> dict[str, Any]:
    """All rows as named columns, in their order."""
    values = (
        np.arange(first_row, first_row + audit.n_rows), audit.given_label, audit.suggested_label, audit.is_suspect,
        audit.plausibility, audit.confidence, audit.score,
    )  # fmt: skip
    return {**checked_ids(ids, audit.n_rows, COLUMNS), **dict(zip(COLUMNS, values, strict=False))}


def cleaned_columns(audit: LabelAudit, cleaning: Cleaning, ids: Columns | None, first_row: int) -> dict[str, Any]:
    """Labels that are left, with what they were and how sure they are."""
    kept = np.flatnonzero(cleaning.of(audit.is_suspect, audit.confidence)[0])
    # A suspect that stays has taken the suggested label, and the suggested label of other rows is their own.
    values = (
        np.arange(first_row, first_row + audit.n_rows),
        audit.suggested_label,
        audit.given_label,
        audit.confidence,
    )
    found = {**checked_ids(ids, audit.n_rows, CLEANED), **dict(zip(CLEANED, values, strict=True))}
    return {name: _take(one, kept) for name, one in found.items()}


def write_table(audit: LabelAudit, file: BinaryIO, *, ids: Columns | None, suspects_only: bool, first_row: int) -> None:
    """Rows as CSV, the most doubtful first."""
    order = audit.order[: audit.n_suspects] if suspects_only else audit.order
    columns = {name: _take(values, order) for name, values in columns_of(audit, ids, first_row).items()}
    if suspects_only:
        near = audit._space.neighbours(order, _NEAR)[0] if len(order) else np.empty((0, _NEAR), dtype=np.int64)
        labels = audit.given_label[near]
        columns[COLUMNS[-2]] = [" ".join(map(str, one)) for one in (near + first_row).tolist()]
        columns[COLUMNS[-1]] = [" | ".join(map(str, one)) for one in labels.tolist()]
    write_csv(file, columns)


def write_json(audit: LabelAudit, file: BinaryIO, ids: Columns | None) -> None:
    """Everything as JSON."""
    held = {
        "nearkin": __version__,
        "n_rows": audit.n_rows,
        "n_suspects": audit.n_suspects,
        "noise_rate": audit.noise_rate,
        "noise_interval": list(audit.noise_interval),
        "interval_level": LEVEL,
        "noise_rates": audit.noise_rates.tolist(),
        "rate_is_estimated": audit.rate_is_estimated,
        "notes": list(audit.notes),
        "classes": [_jsonable(one) for one in audit.classes.tolist()],
        "noise_pairs": [
            {"given": _jsonable(given), "suggested": _jsonable(other), "rows": n}
            for given, other, n in audit.noise_pairs()
        ],
        "rows": {
            name: [_jsonable(one) for one in (values.tolist() if isinstance(values, np.ndarray) else values)]
            for name, values in columns_of(audit, ids, 0).items()
        },
    }
    file.write(json.dumps(held, ensure_ascii=False, allow_nan=False).encode())


def knn_graph(audit: LabelAudit, n_neighbors: int) -> sparse.csr_matrix:
    """Distances to the nearest other rows in the learned space."""
    from sklearn.neighbors import NearestNeighbors

    n = audit.n_rows
    distances, index = NearestNeighbors(n_neighbors=n_neighbors).fit(audit._space.rows).kneighbors()
    ends = np.arange(0, n * n_neighbors + 1, n_neighbors)
    return sparse.csr_matrix((distances.ravel(), index.ravel(), ends), shape=(n, n))


def checked_ids(ids: Columns | None, n: int, taken: Sequence[str] = ()) -> dict[str, Any]:
    """Columns of the user, one value a row, under names that are free."""
    for name, values in (ids or {}).items():
        if name in taken:
            raise ValueError(f"LabelAudit: a column {name!r} is there already; rename yours.")
        if len(values) != n:
            raise ValueError(f"LabelAudit: {name!r} has {len(values)} values for {n} rows.")
    return dict(ids or {})


def plain(label: Any) -> Any:
    """A label of an array as plain Python."""
    return label.item() if isinstance(label, np.generic) else label


def _take(values: Sequence[Any] | NDArray[Any], rows: NDArray[np.int64]) -> Sequence[Any] | NDArray[Any]:
    return values[rows] if isinstance(values, np.ndarray) else [values[i] for i in rows]


def _jsonable(value: Any) -> Any:
    """Numbers, text and truth values as they are, a number that is none as null, anything else as text."""
    value = plain(value)
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
