"""Checks of rows, as they come and after scaling; every message names its owner, the row and the column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from nearkin.arrays import Array
from nearkin.errors import InputError, Row

if TYPE_CHECKING:
    from nearkin.rows.scaled import Rows

__all__ = ["LARGEST", "check_finite", "check_range", "check_rows", "explain_rows", "is_plain"]

#: Largest scaled feature for which every product of a step stays finite.
LARGEST = {np.dtype(np.float32): 1e9, np.dtype(np.float64): 1e50}


def check_rows(estimator: Any, X: Any, *, dtype: Any, reset: bool) -> Any:
    """Finite numbers as a dense array or CSR matrix, by scikit-learn's rules; every message names the estimator."""
    is_ready = is_plain(X, dtype) and (_are_below(X, np.inf) or bool(np.isfinite(X).all()))
    if is_ready and not hasattr(estimator, "feature_names_in_"):
        if reset:
            estimator.n_features_in_ = X.shape[1]
        if estimator.n_features_in_ == X.shape[1]:
            return X
    kinds = [] if hasattr(X, "iloc") else [str(one) for one in getattr(X, "dtypes", ())]
    if kinds and set(kinds) == {"Float32"} and isinstance(dtype, list):
        dtype = np.float32  # a polars frame, which would be widened
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            checked = validate_data(
                estimator, X, accept_sparse="csr", dtype=dtype, reset=reset, ensure_all_finite=False
            )  # fmt: skip
    except (ValueError, np.exceptions.DTypePromotionError) as error:
        problem = explain_rows(X, error)
        is_named = type(estimator).__name__ in problem
        raise InputError(problem, owner=None if is_named else estimator) from error
    check_finite(checked, estimator, getattr(X, "columns", None))
    return checked


def explain_rows(X: Any, error: Exception) -> str:
    """Say why X is not a table of numbers; in scikit-learn's words where they are clear."""
    if found := _name_other_column(X):
        return found
    shape = np.shape(X) if hasattr(X, "__array__") else ()
    if len(shape) > 2:
        return f"X has shape {shape}; one row per example and one column per feature are needed: X.reshape(len(X), -1)."
    lines = str(error).splitlines() or [type(error).__name__]
    if lines[0].startswith("The feature names should match"):
        return str(error)  # and the names
    first, last = lines[0].removesuffix(" instead:"), lines[-1] if lines[-1].startswith("Reshape") else ""
    return f"{first}. {last}".strip() if len(lines) > 1 else first  # without the array itself


def _name_other_column(X: Any) -> str:
    """Say which column of a frame holds something else than numbers; nothing if there is none."""
    for name in getattr(X, "columns", ()):
        kind = str(getattr(X[name], "dtype", "")).lower()
        try:
            np.asarray(X[name], dtype=float)
            is_other = kind.startswith(("date", "time", "duration"))  # which numpy would read as numbers
        except (TypeError, ValueError):
            is_other = True
        if is_other:
            return f"column {str(name)!r} ({kind}) holds something else than numbers; encode it as numbers, or drop it."
    return ""


def check_finite(X: Any, owner: object | None = None, names: Sequence[Any] | None = None, first: int = 0) -> None:
    """Refuse rows, dense or CSR, that lack a number, and name the first place.

    ``names`` are those of the columns, and ``first`` is the number of the first row.

    >>> check_finite(np.array([[0.0, 1.0], [2.0, np.nan]]), "RobustODML")
    Traceback (most recent call last):
    nearkin.errors.InputError: RobustODML: row 1 holds NaN in column 1; fill the gaps, or drop such rows or columns.
    """
    if not sparse.issparse(X) and _are_below(X, np.inf):
        return
    bad = ~np.isfinite(X.data if sparse.issparse(X) else X)
    if not bad.any():
        return
    at = int(bad.argmax())
    if sparse.issparse(X):
        row, column, value = int(np.searchsorted(X.indptr, at, side="right")) - 1, int(X.indices[at]), X.data[at]
    else:
        row, column = divmod(at, X.shape[1])
        value = X[row, column]
    what = "NaN" if np.isnan(value) else f"infinity, or a number too large for {X.dtype},"
    name = column if names is None else repr(str(names[column]))
    raise InputError(
        f"{{row}} holds {what} in column {name}; fill the gaps, or drop such rows or columns.",
        owner=owner,
        row=Row(first + row),
    )


def is_plain(X: Any, dtype: Any) -> bool:
    """Whether scikit-learn would find nothing to do; asking it costs more than a small batch.

    At the numbers nobody has looked then: they may lack one.
    """
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.size > 0
        and X.dtype in (dtype if isinstance(dtype, list) else (dtype,))
    )


def _are_below(X: Array, limit: float) -> bool:
    """Whether all numbers are surely finite and below a limit, by the sum of their squares: a single pass."""
    if not X.flags.c_contiguous or X.dtype.kind != "f":
        return False
    flat = X.reshape(-1)
    return float(np.vdot(flat, flat)) < min(0.25 * limit**2, np.inf)


def check_range(rows: Rows, owner: object, hint: str, first: int = 0) -> None:
    """Refuse scaled rows that are too large to compute with; ``first`` is the number of the first of them."""
    limit = LARGEST[np.dtype(rows.dtype)]
    for part, block in rows.blocks():
        if _are_below(block, limit):
            continue
        if -limit <= block.min(initial=0.0) and block.max(initial=0.0) <= limit:
            continue
        largest = np.abs(block).max(axis=1, initial=0.0)
        bad = np.flatnonzero(~(largest <= limit))
        if len(bad):
            value = f"{largest[bad[0]]:.3g}" if np.isfinite(largest[bad[0]]) else "more than can be represented"
            raise InputError(
                f"{{row}} holds a value of {value} after scaling; the largest that {np.dtype(rows.dtype).name} "
                f"arithmetic allows is {limit:g}. {hint}",
                owner=owner, row=Row(first + part.start + bad[0]),
            )  # fmt: skip
