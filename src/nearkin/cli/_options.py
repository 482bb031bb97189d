"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

__all__ = ["DATA", "MODEL", "array_option", "drop_option", "id_option", "listed", "quiet_option"]

PATH = click.Path(path_type=Path)

DATA = click.argument("data", type=PATH, metavar="DATA")
MODEL = click.argument("model", type=PATH, metavar="MODEL")


def quiet_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--quiet``."""
    return click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")(command)


def drop_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--drop``."""
    return click.option(
        "--drop", multiple=True, metavar="COL[,COL]", help="Columns that are no features, like an id. Repeatable."
    )(command)


def id_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--id``."""
    return click.option(
        "--id", "ids", multiple=True, metavar="COL", help="Column to pass on to the output. Repeatable."
    )(command)


def array_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--array``."""
    return click.option("--array", metavar="NAME", help="npz: array with the features.  [default: X]")(command)


def listed(values: Sequence[str]) -> list[str]:
    """Names given by repeating an option, by commas, or both.

    Examples
    --------
    >>> listed(["a,b", "c"])
    ['a', 'b', 'c']
    """
    return [name.strip() for value in values for name in value.split(",") if name.strip()]
