"""Progress on stderr, if it is a terminal, and Ctrl-C, which is noticed at the latest when progress is reported."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click

from nearkin.cli._errors import INTERRUPTED
from nearkin.progress import listening

__all__ = ["MESSAGE", "live_line", "not_now", "noticing_interrupts", "progress_bar"]

#: Printed after Ctrl-C.
MESSAGE = "nearkin: interrupted."

#: Seconds between two drawings of the live line.
_EVERY = 0.2
_CLEAR = "\r\x1b[2K"

#: Packages that turn loops into machine code.
_COMPILERS = ("numba", "llvmlite")

_pressed, _waiting = False, False


@contextmanager
def noticing_interrupts() -> Iterator[None]:
    """Make sure that Ctrl-C ends the block, soon and exactly once, whatever the block is doing.

    An exception raised inside a callback of a compiled library, or while an object is deleted, is lost or comes out as
    another one. So the signal is remembered, and the next report of progress, or the end of the block, raises it again.
    While loops are compiled there is no report for many seconds, and an exception may leave the compiler in a state in
    which it crashes; then the process removes half-written files and ends at once.
    """
    global _pressed

    def remember(_: int, frame: FrameType | None) -> None:
        global _pressed
        _pressed = True
        if _compiles(frame):
            from nearkin.files import discard_parts  # not at the top: it loads numpy

            discard_parts()
            os.write(2, f"\n{MESSAGE}\n".encode())
            os._exit(INTERRUPTED)
        if not _waiting:
            raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGINT, remember)
    except ValueError:  # not in the main thread, which owns the signals
        yield
        return
    try:
        try:
            with listening(_check):
                yield
        except BaseException:
            _check()
            raise
        _check()
    finally:
        signal.signal(signal.SIGINT, before)
        _pressed = False


@contextmanager
def not_now() -> Iterator[None]:
    """Make Ctrl-C wait until the block has ended, for code that must not be cut short."""
    global _waiting
    _waiting = True
    try:
        yield
    finally:
        _waiting = False
    _check()


def _check(*_: Any) -> None:
    if _pressed:
        raise KeyboardInterrupt


def _compiles(frame: FrameType | None) -> bool:
    """Return whether the compiler is at work in a frame, or in one that waits for it."""
    folders = tuple(
        f"{Path(module.__file__).parent}{os.sep}"
        for name in _COMPILERS
        if (module := sys.modules.get(name)) is not None and module.__file__
    )
    while frame is not None:
        if frame.f_code.co_filename.startswith(folders):
            return True
        frame = frame.f_back
    return False


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[None]:
    """Draw what the library reports inside the block, if stderr is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from tqdm import tqdm

    bars: dict[str, Any] = {}

    def draw(task: str, done: int, total: int) -> None:
        with not_now():  # a bar that is interrupted while it is drawn complains later
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
