"""The program around the commands: errors become one line and an exit code; options that all commands share."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import click

from nearkin._version import __version__
from nearkin.cli import _show
from nearkin.cli._installation import describe_installation
from nearkin.cli._options import OutputFile, UpdatedFile
from nearkin.errors import InputError, Option, Refusal, Row
from nearkin.progress import notice_interrupts

__all__ = ["DRIFT", "PUT_ASIDE", "USER", "Program", "command", "describe", "examples", "main", "with_debug"]

#: Exit codes: a mistake of the user, a bug of ours, Ctrl-C, an alarm of drift where one is to count as a failure, and
#: files that were put aside.
USER, INTERNAL, INTERRUPTED, DRIFT, PUT_ASIDE = 2, 1, 130, 3, 4

#: Warnings of one place in the code that are shown: those about batches of rows may be many.
_ALIKE = 20

_INTERRUPTED = "nearkin: interrupted."


class Program(click.Group):
    """A click group that ends every failure with one line on stderr and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run and exit."""
        settings = extra.setdefault("obj", {"debug": False})
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # a label that the terminal cannot show
        try:
            with notice_interrupts(_INTERRUPTED, INTERRUPTED), warnings.catch_warnings():
                warnings.showwarning = _Warnings().show
                code = super().main(args, prog_name or "nearkin", complete_var, standalone_mode=False, **extra)
        except (click.Abort, KeyboardInterrupt):
            _show.echo(_INTERRUPTED, err=True)
            code = INTERRUPTED
        except Exception as error:
            code = _report(error, debug=settings["debug"])
        sys.exit(code if isinstance(code, int) else 0)


class Command(click.Command):
    """A command that begins only if all files that its options name for writing may be written."""

    def invoke(self, ctx: click.Context) -> Any:
        """Check the outputs against the inputs, then run."""
        outputs, inputs = [], []
        for one in self.params:
            value = ctx.params[one.name] if one.expose_value and isinstance(one.type, click.Path) else None
            paths = list(value) if isinstance(value, tuple) else [value] if value is not None else []
            if isinstance(one.type, OutputFile):
                outputs += [(path, one.type.kind) for path in paths]
            elif not isinstance(one.type, UpdatedFile):
                inputs += paths
        if outputs:
            from nearkin.files import claim

            claim(outputs, inputs)
        try:
            return super().invoke(ctx)
        except MemoryError as error:
            names = ", ".join(str(one) for one in inputs) or "the data"
            raise InputError(f"{names}: too large for the memory there is; use fewer rows or columns.") from error


def describe(error: BaseException) -> tuple[str, int]:
    """Return the message and exit code of an error.

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
    if isinstance(error, Refusal):
        return error.told(render), USER
    if isinstance(error, ValueError) or (isinstance(error, ImportError) and not error.name):  # an extra is missing
        return str(error), USER
    kind = type(error).__name__
    return f"internal error ({kind}: {error}). Please report it with what --debug shows.", INTERNAL


def render(option: Option) -> str:
    """Return an option of the library as the command line writes it; rows count from 1.

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


def _report(error: Exception, *, debug: bool) -> int:
    if debug:
        _show.echo("".join(traceback.format_exception(error)).rstrip(), err=True)
    message, code = describe(error)
    _show.echo(f"nearkin: {_one_line(message)}", err=True)
    return code


class _Warnings:
    """Prints warnings as one line each, without their place in the code; of one place no more than a few."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, int]] = Counter()

    def show(
        self, message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any
    ) -> None:
        """Print a warning."""
        self._counts[filename, lineno] += 1
        n = self._counts[filename, lineno]
        if n <= _ALIKE:
            more = " (more like this are not shown)" if n == _ALIKE else ""
            _show.echo(f"nearkin: warning: {_one_line(str(message))}{more}", err=True)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _set_debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.find_root().obj["debug"] = True


#: ``--debug``, which every command understands.
with_debug = click.option(
    "--debug", is_flag=True, is_eager=True, expose_value=False, callback=_set_debug, help="Show tracebacks."
)


def examples(*lines: str) -> str:
    r"""Return an epilog with example commands, kept as they are by click's ``\b``."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def command(short_help: str, *lines: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command with a line for the list of commands, and examples."""

    def decorate(function: Callable[..., Any]) -> click.Command:
        return click.command(cls=Command, short_help=short_help, epilog=examples(*lines))(function)

    return decorate


@click.group(
    cls=Program,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog=examples(
        "nearkin demo",
        "nearkin audit train.csv --label species -o report.html",
        "nearkin fit train.csv --label species -o model.nearkin",
        "nearkin predict model.nearkin new.csv > predictions.csv",
    ),
)
@click.option("-V", "--version", is_flag=True, help="Show the version and exit; with -v all that a bug report needs.")
@click.option("-v", "--verbose", is_flag=True, hidden=True)
@with_debug
@click.pass_context
def main(ctx: click.Context, version: bool, verbose: bool) -> None:
    """Find wrong labels, and learn from data that holds some.

    Data is CSV (with a header row), Excel, Parquet, npz or npy, or a folder of
    pictures. Every command has its own --help with examples.
    """
    if version or verbose:
        _show.echo(describe_installation() if verbose else f"nearkin {__version__}")
        ctx.exit()
    if ctx.invoked_subcommand is None:
        _show.echo(ctx.get_help())
