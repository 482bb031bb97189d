"""What the terminal shows: aligned text at most 80 wide, and progress on stderr if that is a terminal."""

from __future__ import annotations

import os
import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from nearkin.bars import drawing_bars
from nearkin.errors import printable

__all__ = [
    "bold", "columns", "count", "echo", "live_line", "note_unnamed", "pairs", "percent", "progress_bar", "size",
    "sum_up", "tell_columns",
]  # fmt: skip

WIDTH = 80
#: Columns of which the same is told that share a line, and lines about columns at most.
_ALIKE, _TOLD = 6, 40
#: What may differ in lines that tell the same.
_FIGURES = re.compile(r"-?\d[\d,.e+-]*|'[^']*'|(?<=category, ).*? or [^;]*")
#: A space at which no line is broken; shown as a plain one.
_GLUE = "\N{NO-BREAK SPACE}"
#: Seconds between two drawings of the live line.
_EVERY = 0.2
#: Alarms of one run that are told.
_ALARMS = 10
_CLEAR = "\r\x1b[2K"
#: Characters of no script that stand for the beginning and the end of bold text.
_BOLD = ("\ue000", "\ue001")


def echo(text: str, *, err: bool = False) -> None:
    """Print text that may hold names of the user's; their control characters are written out."""
    shown = "\n".join(printable(line) for line in text.split("\n"))
    for mark, code in zip(_BOLD, ("\x1b[1m", "\x1b[0m"), strict=True):
        shown = shown.replace(mark, code)
    click.echo(shown, err=err)


def bold(text: str) -> str:
    """Return text that `echo` shows bold where the terminal can (``NO_COLOR`` is respected)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain else text.join(_BOLD)


def count(number: int, noun: str = "", plural: str = "") -> str:
    """Return a number with thousands separators and its noun: 20,000 rows, 1 row, 2 classes."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}" if noun else f"{number:,}"


def percent(share: float) -> str:
    """Return a share as a percentage: 0.2247 is 22.5 %."""
    return f"{100 * share:.1f} %"


def size(n_bytes: int) -> str:
    """Return the size of a file: 512 bytes, 43.2 kB, 7.0 MB."""
    if n_bytes < 1000:
        return f"{n_bytes} bytes"
    power = min(3, (len(str(n_bytes)) - 1) // 3)
    return f"{n_bytes / 1000**power:.1f} {('kB', 'MB', 'GB')[power - 1]}"


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Return names and values, aligned and wrapped; no-break spaces keep words together.

    >>> pairs([("rows", "178"), ("features", "13")]).splitlines()
    ['  rows      178', '  features  13']
    """
    rows = list(rows)
    width = max(len(name) for name, _ in rows)
    lines = []
    for name, value in rows:
        first = f"  {name:<{width}}  "
        wrapped = textwrap.wrap(value, WIDTH - len(first), break_on_hyphens=False) or [""]
        kept = [line.replace(_GLUE, " ") for line in wrapped]
        lines.append(first + kept[0])
        lines.extend(" " * len(first) + more for more in kept[1:])
    return "\n".join(lines)


def columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table: the first column to the left, the others to the right.

    >>> columns(["method", "accuracy"], [["3-NN", "86.5"]])
    ['  method  accuracy', '  3-NN        86.5']
    """
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = [f"{row[0]:<{widths[0]}}", *(f"{cell:>{w}}" for cell, w in zip(row[1:], widths[1:], strict=True))]
        return ("  " + "  ".join(cells)).rstrip()

    return [line(row) for row in (header, *rows)]


def sum_up(some: Sequence[Any], most: int = 10) -> str:
    """Return the first of some things, and how many more there are."""
    rest = len(some) - most
    return ", ".join(str(one) for one in some[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def tell_columns(uses: Sequence[Any]) -> list[tuple[str, str]]:
    """Return one line for each column, those left out first; columns of which the same is told share a line."""
    alike: dict[tuple[bool, str], list[Any]] = {}
    for one in sorted(uses, key=lambda one: not one.is_left_out):
        alike.setdefault((one.is_left_out, _FIGURES.sub("#", one.told)), []).append(one)
    lines, plain = [], []
    for some in alike.values():
        if len(some) < _ALIKE:
            lines += [("column", str(one)) for one in some]
        elif some[0].told == "number":
            plain = [("columns", f"{len(some):,} of numbers, as they are")]
        else:
            names = sum_up([printable(one.name, 40) for one in some], 3)
            same = len({one.told for one in some}) == 1
            lines.append(("columns", f"{names}: {'' if same else 'such as '}{some[0].told}"))
    more = len(lines) - _TOLD
    return lines[:_TOLD] + plain + ([("columns", f"and {more:,} more; the page has them all")] if more > 0 else [])


def note_unnamed(n_columns: int) -> None:
    """Say on stderr that columns without a name were left out."""
    if n_columns:
        echo("nearkin: note: a column without a name was taken for a row index and left out.", err=True)


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[None]:
    """Draw what the library reports inside the block, if stderr is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    with drawing_bars(sys.stderr):
        yield


@contextmanager
def live_line(*, quiet: bool) -> Iterator[Callable[[Any], None]]:
    """Yield a function that draws reports of a stream as one line on stderr, and tells alarms, also if ``quiet``."""
    drawn, n_told = 0.0, 0
    shows = not quiet and sys.stderr.isatty()

    def draw(report: Any) -> None:
        nonlocal drawn, n_told
        for alarm in report.alarms:
            n_told += 1
            if n_told <= _ALARMS:
                if shows:
                    click.echo(_CLEAR, err=True, nl=False)
                more = "; more alarms are in the log and in nearkin info" if n_told == _ALARMS else ""
                echo(f"nearkin: drift: {alarm}{more}.", err=True)
        if shows and time.monotonic() - drawn > _EVERY:
            drawn = time.monotonic()
            click.echo(f"{_CLEAR}{report}", err=True, nl=False)

    try:
        yield draw
    finally:
        if drawn:
            click.echo(_CLEAR, err=True, nl=False)
