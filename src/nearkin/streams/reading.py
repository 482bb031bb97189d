"""Which files and columns a model takes, how it reads them, and whether that is as before."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nearkin.errors import InputError, Option, quote_names
from nearkin.streams.columns import Columns
from nearkin.streams.opening import SCORES, find_files
from nearkin.tables import column_names

__all__ = ["READING", "choose_columns", "compare_reading", "compare_wishes", "list_files", "list_others"]

#: How files are read unless told otherwise; a model keeps it.
READING: dict[str, Any] = {
    "label": None, "on": None, "features": None, "drop": [], "batch_rows": 4096, "missing": "error",
    "text_labels": False, "text": [],
}  # fmt: skip


def list_files(paths: list[Any], label: Any) -> tuple[list[str], dict[str, str]]:
    """Return the files, and for npy files those of their labels; an empty folder holds nothing new."""
    files = find_files(paths)
    if not any(Path(one).suffix.lower() == ".npy" for one in files):
        return files, {}
    if label is None:
        raise InputError("npy files need {label}, the npy file (or files) of their labels.", label=Option("label"))
    labels = [os.fspath(one) for one in ([label] if isinstance(label, (str, os.PathLike)) else label)]
    files = [one for one in files if one not in labels]
    if len(labels) != len(files):
        raise InputError(f"{len(files)} npy files of features need as many of labels; got {len(labels)}.")
    return files, dict(zip(files, labels, strict=True))


def list_others(paths: list[Any], known: Sequence[Any]) -> list[str]:
    """Return what lies in folders and is not read; hidden files, scores and locks are nobody's data."""
    names = {Path(one).name for one in known if one is not None}
    found = [one for path in paths if Path(path).is_dir() for one in sorted(Path(path).iterdir())]
    return [
        f"{one.name}/" if one.is_dir() else one.name
        for one in found
        if one.name not in names and not one.name.startswith(".") and not one.name.endswith((SCORES, ".lock"))
    ]


def choose_columns(path: str, reading: Mapping[str, Any], known: Columns, new_columns: str) -> tuple[list[str], str]:
    """Return the columns of a file that a model takes, and what is to be said about others."""
    held = column_names(Path(path)) or []
    others = {*known.widths, reading["label"], reading["on"], *reading["drop"], ""}
    if known.encoder is not None:
        others |= {one.name for one in known.encoder.columns_}
    new = [] if reading["features"] else [name for name in held if name not in others]
    if new and new_columns == "error":
        raise InputError(
            f"{path} has columns that the model has not learned: {quote_names(new)}. Leave them out or take them up "
            "with {fix}.",
            fix=Option("new_columns"),
        )
    takes = new_columns == "learn"
    if new and takes and known.encoder is not None:
        raise InputError(
            f"{path} has new columns ({quote_names(new)}), and a model whose table is encoded takes none up; fit a new "
            "one, or leave them out with {fix}.",
            fix=Option("new_columns", "leave"),
        )
    if gone := [name for name in known.widths if name not in held]:
        more = f" (also {quote_names(gone[1:])})" if len(gone) > 1 else ""
        raise InputError(
            f"{path} has no column {gone[0]!r}{more}, which the model needs; it holds {quote_names(held)}."
        )
    text = f"new columns are {'taken up' if takes else 'left out'}: {quote_names(new)}" if new else ""
    return [*known.widths, *(new if takes else ())], text


def compare_reading(kept: dict[str, Any], given: dict[str, Any], known: Columns | None) -> list[str]:
    """Return in words what would be read otherwise than before; more columns may be left out if none was learned."""
    out = []
    for name, value in given.items():
        before = kept.get(name, value)
        value = list(value) if isinstance(value, (list, tuple)) else value
        if before is None or before == value or (name, before, value) == ("missing", "error", "drop"):
            continue
        if name == "drop" and known is not None and set(before) <= set(value) and not known.widths.keys() & set(value):
            continue
        out.append(f"{name} was {before!r} and is {value!r}")
    return out


def compare_wishes(model: Any, wishes: Mapping[str, Any]) -> list[str]:
    """Return in words which settings of a model are not as wished; its learner is known by the name of its class."""
    inside = getattr(model, "learner", model)
    held = model.history_.held if getattr(model, "history_", None) is not None else None
    known = {
        **(inside.get_params(deep=False) if hasattr(inside, "get_params") else {}),
        **model.get_params(deep=False),
        "learner": type(inside).__name__ if hasattr(inside, "get_params") else "a jury of its own",
        "n_voters": None if held is None else held.max_rows,
    }
    differ = [(name, known.get(name), value) for name, value in wishes.items() if repr(known.get(name)) != repr(value)]
    return [f"{name} was {before} and is {value}" for name, before, value in differ]
