"""Work that is done a little at a time, so that no call of a stream waits for all of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

__all__ = ["Gradual", "finish"]

Result = TypeVar("Result")


def finish(steps: Generator[Any, None, Result]) -> Result:
    """Do all steps, and return what they return."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


class Gradual(Generic[Result]):
    """A result in the making.

    How far it has come never changes what comes out, so it may be dropped at any time and begun anew. Threads take
    turns.

    Parameters
    ----------
    make : callable
        Returns a generator that pauses after each step, and returns the result.
    n_steps : int
        About how often it pauses.

    Examples
    --------
    >>> def add(numbers):
    ...     total = 0
    ...     for one in numbers:
    ...         total += one
    ...         yield
    ...     return total
    >>> sums = Gradual(lambda: add(range(10)), 10)
    >>> sums.advance(0.5)  # of what is left
    >>> sums.n_done, sums.finish()
    (5, 45)
    """

    def __init__(self, make: Callable[[], Generator[Any, None, Result]], n_steps: int):
        self._steps, self._n_steps, self._lock = make(), n_steps, threading.Lock()
        self._wanted = 0.0
        self.n_done = 0
        self._result: list[Result] = []

    def advance(self, share: float) -> None:
        """Do a share of what is left."""
        with self._lock:
            self._wanted += share * max(0.0, self._n_steps - self._wanted)
            while not self._result and self.n_done + 1e-9 < self._wanted:
                self._step()

    def finish(self) -> Result:
        """Do the rest, and return the result."""
        with self._lock:
            while not self._result:
                self._step()
            return self._result[0]

    def _step(self) -> None:
        try:
            next(self._steps)
        except StopIteration as end:
            self._result.append(end.value)
        self.n_done += 1
