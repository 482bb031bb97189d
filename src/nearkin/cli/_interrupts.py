"""Ctrl-C ends a command soon, whatever it is doing, and exactly once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from nearkin.cli._errors import INTERRUPTED
from nearkin.progress import listening

__all__ = ["MESSAGE", "not_now", "noticing_interrupts"]

#: What is said about it.
MESSAGE = "nearkin: interrupted."

#: Packages that turn loops into machine code.
_COMPILERS = ("numba", "llvmlite")

_asked, _waiting = False, False


@contextmanager
def noticing_interrupts() -> Iterator[None]:
    """Make sure that Ctrl-C ends the block, also when it comes at a moment in which its exception would be lost.

    An exception that is raised inside a callback of a compiled library, or while an object is thrown away, is lost or
    comes out as another one. The signal is remembered, so that the next report of progress, or the end of the block,
    raises it again. While loops are compiled there is no report for many seconds, and an exception may leave the
    compiler in a state in which it crashes. So the process ends at once then, less the files that are half written.
    """
    global _asked

    def remember(_: int, frame: FrameType | None) -> None:
        global _asked
        _asked = True
        if _compiles(frame):
            from nearkin.files import discard_parts  # not at the top: it loads numpy

            discard_parts()
            os.write(2, f"\n{MESSAGE}\n".encode())
            os._exit(INTERRUPTED)
        if not _waiting:
            raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGINT, remember)
    except ValueError:  # not in the main thread: signals are somebody else's
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
        _asked = False


@contextmanager
def not_now() -> Iterator[None]:
    """Let Ctrl-C wait until the block has ended, for what complains when it is cut short."""
    global _waiting
    _waiting = True
    try:
        yield
    finally:
        _waiting = False
    _check()


def _check(*_: Any) -> None:
    if _asked:
        raise KeyboardInterrupt


def _compiles(frame: FrameType | None) -> bool:
    """Whether the compiler is at work in a frame or in one that waits for it."""
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
