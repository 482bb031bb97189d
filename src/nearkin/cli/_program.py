"""The program around the commands: errors, warnings, interrupts and the options that all share."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import click

from nearkin._version import __version__
from nearkin.cli._errors import INTERRUPTED, Settings, report, show_warning
from nearkin.progress import notice_interrupts

__all__ = ["Program", "command", "examples", "main", "with_debug"]

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
        settings = Settings()
        extra.setdefault("obj", settings)
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # a label that the terminal cannot show
        try:
            with notice_interrupts(_INTERRUPTED, INTERRUPTED), warnings.catch_warnings():
                warnings.showwarning = show_warning
                code = super().main(args, prog_name or "nearkin", complete_var, standalone_mode=False, **extra)
        except (click.Abort, KeyboardInterrupt):
            click.echo(_INTERRUPTED, err=True)
            code = INTERRUPTED
        except Exception as error:
            code = report(error, settings)
        sys.exit(code if isinstance(code, int) else 0)


def _set_debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.find_root().obj.debug = True


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
        return click.command(short_help=short_help, epilog=examples(*lines))(function)

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
@click.version_option(__version__, "-V", "--version", prog_name="nearkin", message="%(prog)s %(version)s")
@with_debug
@click.pass_context
def main(ctx: click.Context) -> None:
    """Find wrong labels, and learn from data that holds some.

    Data is CSV (with a header row), Parquet, npz or npy. Every command has its
    own --help with examples.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
