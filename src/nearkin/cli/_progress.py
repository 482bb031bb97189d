"""Progress on stderr, if it is a terminal: bars, and one line for streams that is drawn again and again."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from nearkin.progress import hold_interrupts, listening

__all__ = ["live_line", "progress_bar"]

#: Seconds between two drawings of the live line.
_EVERY = 0.2
_CLEAR = "\r\x1b[2K"


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[None]:
    """Draw what the library reports inside the block, if stderr is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from tqdm import tqdm

    bars: dict[str, Any] = {}

    def draw(task: str, done: int, total: int) -> None:
        with hold_interrupts():  # a bar that is interrupted while it is drawn complains later
            if task not in bars:
                # A size of our own: a terminal that says it has no rows would hide the bar.
                shape = {"ncols": 78, "nrows": 20}
                bars[task] = tqdm(total=total, desc=task, unit_scale=True, leave=False, file=sys.stderr, **shape)
            bars[task].update(done - bars[task].n)

    try:
        with listening(draw):
            yield
    finally:
        for one in bars.values():
            one.close()


@contextmanager
def live_line(*, quiet: bool) -> Iterator[Callable[[Any], None]]:
    """Yield a function that draws reports of a stream as one line on stderr, and notes when plausibility falls."""
    drawn = 0.0
    shows = not quiet and sys.stderr.isatty()

    def draw(report: Any) -> None:
        nonlocal drawn
        if report.drift and not quiet:
            note = f"nearkin: note: plausibility fell after {report.rows:,} rows; the data may have changed."
            click.echo(f"{_CLEAR if shows else ''}{note}", err=True)
        if shows and time.monotonic() - drawn > _EVERY:
            drawn = time.monotonic()
            click.echo(f"{_CLEAR}{report}", err=True, nl=False)

    try:
        yield draw
    finally:
        if drawn:
            click.echo(_CLEAR, err=True, nl=False)
