"""Formatting for people: aligned columns, at most 80 wide, readable without colour."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import click

__all__ = ["bold", "columns", "count", "names", "pairs", "percent", "size"]

WIDTH = 80
#: A space at which no line is broken; shown as a plain one.
_GLUE = "\N{NO-BREAK SPACE}"


def bold(text: str) -> str:
    """Bold where the terminal can and the user wants it (``NO_COLOR`` is respected)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return click.style(text, bold=True)


def count(number: int, noun: str = "", plural: str = "") -> str:
    """Number with thousands separators, and its noun.

    Examples
    --------
    >>> count(20000), count(1, "row"), count(2, "class", "classes")
    ('20,000', '1 row', '2 classes')
    """
    if not noun:
        return f"{number:,}"
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def percent(share: float) -> str:
    """Share as a percentage.

    Examples
    --------
    >>> percent(0.2247)
    '22.5 %'
    """
    return f"{100 * share:.1f} %"


def size(n_bytes: int) -> str:
    """File size.

    Examples
    --------
    >>> size(512), size(43_210), size(7_000_000)
    ('512 bytes', '43.2 kB', '7.0 MB')
    """
    if n_bytes < 1000:
        return f"{n_bytes} bytes"
    for unit in ("kB", "MB"):
        n_bytes_in_unit = n_bytes / 1000 if unit == "kB" else n_bytes / 1e6
        if n_bytes_in_unit < 1000:
            return f"{n_bytes_in_unit:.1f} {unit}"
    return f"{n_bytes / 1e9:.1f} GB"


def names(some: Iterable[Any], most: int = 8) -> str:
    """Quoted names, cut when they are many.

    Examples
    --------
    >>> names(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    listed = [repr(str(one)) for one in some]
    rest = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {rest} more" if rest > 0 else "")


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Names and values, aligned and wrapped; no-break spaces keep words together.

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
    """Lines of a table: the first column to the left, the others to the right.

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
