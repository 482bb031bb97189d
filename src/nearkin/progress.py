"""Progress of long work: loops call `advance`, and a listener shows it; Ctrl-C is noticed there at the latest."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any

__all__ = [
    "advance",
    "at_exit",
    "begin",
    "current_step",
    "foretell",
    "hold_interrupts",
    "listening",
    "notice_interrupts",
    "part_of",
    "pause",
    "pauses",
    "pausing",
    "planned",
    "say_seconds",
]  # fmt: skip

Listener = Callable[[str, int, int], None]

_listener: ContextVar[Listener | None] = ContextVar("nearkin_progress", default=None)
_plan: ContextVar[_Plan | None] = ContextVar("nearkin_progress_plan", default=None)
_pause: ContextVar[Callable[[], None] | None] = ContextVar("nearkin_progress_pause", default=None)
_whole: ContextVar[tuple[int, int] | None] = ContextVar("nearkin_progress_whole", default=None)

#: Parts of a planned task that are counted.
_WHOLE = 1000

#: Least seconds that are worth an announcement.
_LONG = 10.0

#: Packages that turn loops into machine code.
_COMPILERS = ("numba", "llvmlite")

#: What a process does last that ends without leaving its blocks, such as removing half-written files.
at_exit: list[Callable[[], None]] = []

_pressed, _waiting = False, False


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call ``listener(task, done, total)`` for every advance inside the block, after those of enclosing blocks.

    Parameters
    ----------
    listener : callable
        Hears the name of the task, and how much of it is done out of how much.

    Examples
    --------
    >>> seen = []
    >>> with listening(lambda task, done, total: seen.append((task, done, total))):
    ...     advance("learning", 10, 20)
    >>> seen
    [('learning', 10, 20)]
    """
    outer = _listener.get()

    def both(task: str, done: int, total: int) -> None:
        if outer is not None:
            outer(task, done, total)
        listener(task, done, total)

    token = _listener.set(both)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def part_of(done: int, total: int) -> Iterator[None]:
    """Count what advances inside the block as part of something larger, ``done`` of which is complete.

    Examples
    --------
    >>> with listening(lambda *one: print(*one)), part_of(100, 200):
    ...     advance("learning", 10, 20)
    learning 110 200
    """
    token = _whole.set((done, total))
    try:
        yield
    finally:
        _whole.reset(token)


class _Plan:
    """Steps of one task, with the part of the whole that each takes."""

    def __init__(self, task: str, costs: Mapping[str, float], listener: Listener):
        total = sum(costs.values()) or 1.0
        self.task, self.listener, self.furthest = task, listener, 0
        self.starts, done = {}, 0.0
        for name, cost in costs.items():
            self.starts[name] = (done / total, cost / total)
            done += cost
        self.start, self.share, self.step = 0.0, 0.0, ""

    def begin(self, step: str) -> None:
        """Say that a step begins, and so that those before it are over."""
        self.step = step
        self.start, self.share = self.starts.get(step, (self.start + self.share, 0.0))
        self.hear("", 0, 1)

    def hear(self, _: str, done: int, total: int) -> None:
        """Report the whole; it never goes back, though parts of a step count from zero again."""
        here = self.start + self.share * min(1.0, done / max(1, total))
        self.furthest = max(self.furthest, min(_WHOLE, int(_WHOLE * here)))
        self.listener(self.task, self.furthest, _WHOLE)


@contextmanager
def planned(task: str, costs: Mapping[str, float]) -> Iterator[None]:
    """Report all that advances inside the block as one task, which only goes forward.

    ``costs`` has the steps of the task in their order, each with about the time it takes; `begin` says which one comes.
    A plan inside another one is ignored.

    Examples
    --------
    >>> with listening(lambda *one: print(*one)), planned("auditing", {"search": 3.0, "vote": 1.0}):
    ...     begin("search")
    ...     advance("comparing rows", 1, 2)
    ...     begin("vote")
    auditing 0 1000
    auditing 375 1000
    auditing 750 1000
    auditing 1000 1000
    """
    listener = _listener.get()
    if listener is None or _plan.get() is not None:
        yield
        return
    plan = _Plan(task, costs, listener)
    tokens = _plan.set(plan), _listener.set(plan.hear)
    try:
        yield
        plan.start, plan.share, plan.step = 1.0, 0.0, ""
        plan.hear("", 1, 1)
    finally:
        _plan.reset(tokens[0])
        _listener.reset(tokens[1])


@contextmanager
def pausing(pause: Callable[[], None]) -> Iterator[None]:
    """Call ``pause()`` wherever work inside the block could be interrupted for a while."""
    token = _pause.set(pause)
    try:
        yield
    finally:
        _pause.reset(token)


def pauses() -> bool:
    """Whether this work should pause."""
    return _pause.get() is not None


def pause() -> None:
    """Pause if told to: some milliseconds of work have been done."""
    wait = _pause.get()
    if wait is not None:
        wait()


def begin(step: str) -> None:
    """Begin a step of the plan, if there is one."""
    pause()
    plan = _plan.get()
    if plan is not None:
        plan.begin(step)


def current_step() -> str:
    """Return the name of the step of the plan that is under way; "" without a plan."""
    plan = _plan.get()
    return "" if plan is None else plan.step


def advance(task: str, done: int, total: int) -> None:
    """Tell the listener, if there is one."""
    pause()
    listener = _listener.get()
    if listener is not None:
        before, whole = _whole.get() or (0, total)
        listener(task, before + done, whole)


@contextmanager
def notice_interrupts(message: str, code: int) -> Iterator[None]:
    """Make sure that Ctrl-C ends the block, soon and exactly once, whatever the block is doing.

    An exception raised inside a callback of a compiled library, or while an object is deleted, is lost or comes out as
    another one. So the signal is remembered, and the next report of progress, or the end of the block, raises it again;
    Python does not print the one that was lost.
    While loops are compiled there is no report for many seconds, and an exception may leave the compiler in a state in
    which it crashes; then the process calls `at_exit` and ends at once, with ``message`` and ``code``.
    """
    global _pressed

    def remember(_: int, frame: FrameType | None) -> None:
        global _pressed
        _pressed = True
        if _compiles(frame):
            for last in at_exit:
                last()
            os.write(2, f"\n{message}\n".encode())
            os._exit(code)
        if not _waiting:
            raise KeyboardInterrupt

    def tell_others(lost: Any) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            tell(lost)

    try:
        before = signal.signal(signal.SIGINT, remember)
    except ValueError:  # not in the main thread, which owns the signals
        yield
        return
    tell, sys.unraisablehook = sys.unraisablehook, tell_others
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
        sys.unraisablehook = tell
        _pressed = False


@contextmanager
def hold_interrupts() -> Iterator[None]:
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


def say_seconds(seconds: float) -> str:
    """How long something takes, if that is long.

    Examples
    --------
    >>> say_seconds(3.0), say_seconds(21.0), say_seconds(200.0), say_seconds(9000.0)
    ('', ', about 20 s', ', about 3 min', ', about 2.5 h')
    """
    if seconds < _LONG:
        return ""
    if seconds < 90.0:
        return f", about {round(seconds, -1):.0f} s"
    return f", about {seconds / 60.0:.0f} min" if seconds < 5400.0 else f", about {seconds / 3600.0:.1f} h"


def foretell(job: str, seconds: float, why: str) -> None:
    """Log one line before work that takes long, and why it does; nothing before other work.

    Examples
    --------
    >>> foretell("comparing 100 rows", 0.1, "All pairs are compared.")
    """
    if said := say_seconds(seconds):
        logging.getLogger("nearkin").warning("%s%s. %s", job, said, why)
