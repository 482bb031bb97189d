"""A progress bar on stderr, for those who look."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nearkin.progress import listening

__all__ = ["noticing_interrupts", "progress_bar"]

_drawing = False


@contextmanager
def noticing_interrupts() -> Iterator[None]:
    """Make sure that Ctrl-C ends the block, also when it comes at a moment in which compiled code drops it.

    An exception raised inside a callback of a compiled library may be lost or come out as another one. The signal is
    remembered, so that the next report of progress, or the end of the block, raises it again.
    """
    seen = False

    def remember(number: int, frame: Any) -> None:
        nonlocal seen
        seen = True
        if not _drawing:  # a bar that is interrupted while it is drawn complains later
            raise KeyboardInterrupt

    def check(*_: Any) -> None:
        if seen:
            raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGINT, remember)
    except ValueError:  # not in the main thread: signals are somebody else's
        yield
        return
    try:
        with listening(check):
            yield
    except BaseException:
        check()
        raise
    finally:
        signal.signal(signal.SIGINT, before)
    check()


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[None]:
    """Draw what the library reports inside the block, if stderr is a terminal."""
    with noticing_interrupts():
        if quiet or not sys.stderr.isatty():
            yield
            return
        with _bars():
            yield


@contextmanager
def _bars() -> Iterator[None]:
    from tqdm import tqdm

    bars: dict[str, Any] = {}

    def draw(task: str, done: int, total: int) -> None:
        global _drawing
        _drawing = True
        try:
            if task not in bars:
                # A size of our own: a terminal that says it has no rows would hide the bar.
                shape = {"ncols": 78, "nrows": 20}
                bars[task] = tqdm(total=total, desc=task, unit_scale=True, leave=False, file=sys.stderr, **shape)
            bars[task].update(done - bars[task].n)
        finally:
            _drawing = False

    try:
        with listening(draw):
            yield
    finally:
        for one in bars.values():
            one.close()
