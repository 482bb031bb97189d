"""Formatting for a terminal: aligned columns, at most 80 wide, readable without colour."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import click

__all__ = ["bold", "columns", "count", "note_unnamed", "pairs", "percent", "size", "sum_up"]

WIDTH = 80
#: A space at which no line is broken; shown as a plain one.
_GLUE = "\N{NO-BREAK SPACE}"


def bold(text: str) -> str:
    """Return bold text where the terminal can show it (``NO_COLOR`` is respected)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return click.style(text, bold=True)


def count(number: int, noun: str = "", plural: str = "") -> str:
    """Return a number with thousands separators, and its noun.

    Examples
    --------
    >>> count(20000), count(1, "row"), count(2, "class", "classes")
    ('20,000', '1 row', '2 classes')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}" if noun else f"{number:,}"


def percent(share: float) -> str:
    """Return a share as a percentage.

    Examples
    --------
    >>> percent(0.2247)
    '22.5 %'
    """
    return f"{100 * share:.1f} %"


def size(n_bytes: int) -> str:
    """Return the size of a file in words.

    Examples
    --------
    >>> size(512), size(43_210), size(7_000_000)
    ('512 bytes', '43.2 kB', '7.0 MB')
    """
    if n_bytes < 1000:
        return f"{n_bytes} bytes"
    power = min(3, (len(str(n_bytes)) - 1) // 3)
    return f"{n_bytes / 1000**power:.1f} {('kB', 'MB', 'GB')[power - 1]}"


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Return names and values, aligned and wrapped; no-break spaces keep words together.

    Examples
    --------
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

    Examples
    --------
    >>> columns(["method", "accuracy"], [["3-NN", "86.5"]])
    ['  method  accuracy', '  3-NN        86.5']
    """
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = [f"{row[0]:<{widths[0]}}", *(f"{cell:>{w}}" for cell, w in zip(row[1:], widths[1:], strict=True))]
        return ("  " + "  ".join(cells)).rstrip()

    return [line(row) for row in (header, *rows)]


def sum_up(some: Sequence[Any], most: int = 10) -> str:
    """Return the first of some things, and how many more there are.

    Examples
    --------
    >>> sum_up(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    rest = len(some) - most
    return ", ".join(str(one) for one in some[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def note_unnamed(n_columns: int) -> None:
    """Say on stderr that columns without a name were left out."""
    if n_columns:
        click.echo("nearkin: note: a column without a name was taken for a row index and left out.", err=True)
