"""Errors become one line on stderr and an exit code; --debug shows the traceback."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any

import click

from nearkin.errors import InputError, Option, Row

__all__ = ["INTERNAL", "INTERRUPTED", "USER", "Settings", "describe", "report", "show_warning"]

#: Exit codes: a mistake of the user, a bug of ours, Ctrl-C.
USER, INTERNAL, INTERRUPTED = 2, 1, 130


@dataclass
class Settings:
    """What holds for a whole run of the program."""

    debug: bool = False


def describe(error: BaseException) -> tuple[str, int]:
    """Return the message and exit code of an error.

    Examples
    --------
    >>> describe(InputError("label rows with {label}.", label=Option("label")))
    ('label rows with --label.', 2)
    >>> describe(FileNotFoundError(2, "No such file or directory", "wine.csv"))
    ('wine.csv: No such file or directory', 2)
    """
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{error.format_message()} See '{error.ctx.command_path} --help'.", USER
    if isinstance(error, click.ClickException):
        return error.format_message(), USER
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}", USER
    if isinstance(error, MemoryError):
        return "the data does not fit into memory; use fewer rows or columns.", USER
    if isinstance(error, InputError):
        return error.told(render), USER
    if isinstance(error, ValueError) or (isinstance(error, ImportError) and not error.name):  # an extra is missing
        return str(error), USER
    kind = type(error).__name__
    return f"internal error ({kind}: {error}). Please report it with what --debug shows.", INTERNAL


def render(option: Option) -> str:
    """Return an option of the library as the command line writes it; rows count from 1.

    Examples
    --------
    >>> render(Option("drop", ["a b", "c"])), render(Option("text_labels", True)), render(Row(2))
    ('--drop "a b,c"', '--text-labels', 'data row 3')
    """
    if isinstance(option, Row):
        return f"data row {option.value + 1:,}"
    flag = "--" + option.name.replace("_", "-")
    if option.value is None or option.value is True:
        return flag
    value = ",".join(option.value) if isinstance(option.value, list) else str(option.value)
    return f'{flag} "{value}"' if " " in value else f"{flag} {value}"


def report(error: BaseException, settings: Settings) -> int:
    """Print an error as one line, after its traceback if --debug is set, and return the exit code."""
    if settings.debug:
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    message, code = describe(error)
    click.echo(f"nearkin: {one_line(message)}", err=True)
    return code


def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as one line, without its place in the code."""
    click.echo(f"nearkin: warning: {one_line(str(message))}", err=True)


def one_line(text: str) -> str:
    """Return text with every run of white space made one space."""
    return " ".join(text.split())
