"""Progress of long work: loops call `advance`, and a listener, such as that of the command line, shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["advance", "listening", "part_of"]

Listener = Callable[[str, int, int], None]

_listener: ContextVar[Listener | None] = ContextVar("nearkin_progress", default=None)
_whole: ContextVar[tuple[int, int] | None] = ContextVar("nearkin_progress_whole", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call ``listener(task, done, total)`` for every advance inside the block, after those of enclosing blocks.

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


def advance(task: str, done: int, total: int) -> None:
    """Tell the listener, if there is one."""
    listener = _listener.get()
    if listener is not None:
        before, whole = _whole.get() or (0, total)
        listener(task, before + done, whole)
