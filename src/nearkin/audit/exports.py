"""What an audit found as columns, CSV and JSON; `nearkin.audit.page` makes the page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nearkin._version import __version__
from nearkin.errors import InputError
from nearkin.files import write_csv
from nearkin.noise.estimate import LEVEL

if TYPE_CHECKING:
    from nearkin.audit.cleaning import Cleaning
    from nearkin.audit.label_audit import LabelAudit

__all__ = ["CLEANED", "COLUMNS", "Columns", "check_ids", "list_cleaned", "list_rows", "write_json", "write_table"]

Columns = Mapping[str, Sequence[Any] | NDArray[Any]]

#: Columns of the tables; the last two are in tables of suspects only.
COLUMNS = (
    "row", "given_label", "suggested_label", "is_suspect", "plausibility", "confidence", "score",
    "near_rows", "near_labels",
)  # fmt: skip

#: Columns of cleaned labels.
CLEANED = ("row", "label", "given_label", "confidence")

#: Neighbours listed in a table of suspects.
_NEAR = 5


def list_rows(audit: LabelAudit, ids: Columns | None, first_row: int) -> dict[str, Any]:
    """All rows as named columns, in their order."""
    values = (
        np.arange(first_row, first_row + audit.n_rows), audit.given_label, audit.suggested_label, audit.is_suspect,
        audit.plausibility, audit.confidence, audit.score,
    )  # fmt: skip
    return {**check_ids(ids, audit.n_rows, COLUMNS), **dict(zip(COLUMNS, values, strict=False))}


def list_cleaned(audit: LabelAudit, cleaning: Cleaning, ids: Columns | None, first_row: int) -> dict[str, Any]:
    """Labels that are left, with the given ones and their confidence."""
    kept = np.flatnonzero(cleaning.apply(audit.is_suspect, audit.confidence)[0])
    # A suspect that stays has taken its suggested label; that of other rows is the given one.
    values = (
        np.arange(first_row, first_row + audit.n_rows),
        audit.suggested_label,
        audit.given_label,
        audit.confidence,
    )
    found = {**check_ids(ids, audit.n_rows, CLEANED), **dict(zip(CLEANED, values, strict=True))}
    return {name: _take(one, kept) for name, one in found.items()}


def write_table(audit: LabelAudit, file: BinaryIO, *, ids: Columns | None, suspects_only: bool, first_row: int) -> None:
    """Rows as CSV, the most doubtful first."""
    order = audit.order[: audit.n_suspects] if suspects_only else audit.order
    columns = {name: _take(values, order) for name, values in list_rows(audit, ids, first_row).items()}
    if suspects_only:
        near = audit.decision.cast_left_out(order, _NEAR).rows
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
            for name, values in list_rows(audit, ids, 0).items()
        },
    }
    file.write(json.dumps(held, ensure_ascii=False, allow_nan=False).encode())


def check_ids(ids: Columns | None, n: int, taken: Sequence[str] = ()) -> dict[str, Any]:
    """Columns of the user, one value a row, under names that are free."""
    for name, values in (ids or {}).items():
        if name in taken:
            raise InputError(f"a column {name!r} is there already; rename yours.", owner="LabelAudit")
        if len(values) != n:
            raise InputError(f"{name!r} has {len(values)} values for {n} rows.", owner="LabelAudit")
    return dict(ids or {})


def _take(values: Sequence[Any] | NDArray[Any], rows: NDArray[np.int64]) -> Sequence[Any] | NDArray[Any]:
    return values[rows] if isinstance(values, np.ndarray) else [values[i] for i in rows]


def _jsonable(value: Any) -> Any:
    """Finite numbers, text and truth values as they are, other numbers as null, anything else as text."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
