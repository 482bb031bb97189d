"""Work that is done a little at a time, so that no call of a stream waits for all of it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from nearkin import progress

__all__ = ["Gradual", "finish", "in_steps"]

Result = TypeVar("Result")

#: What work that costs more than expected costs at least, as a multiple of what was spent.
_MORE = 1.1


def finish(steps: Generator[Any, None, Result]) -> Result:
    """Do all steps, and return what they return."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


class _Dropped(BaseException):
    """Nobody wants the rest of the work."""


def in_steps(work: Callable[[], Result]) -> Generator[float, None, Result]:
    """Do work that reports its progress as steps, one from each report or pause to the next.

    The work runs in a thread of its own, which waits whenever the caller goes on: no two things happen at the same
    time. It ends with the generator. Every step yields the processor seconds that it took.

    Examples
    --------
    >>> def work():
    ...     for i in range(3):
    ...         progress.advance("working", i, 3)
    ...     return "done"
    >>> steps = in_steps(work)
    >>> next(steps) < 1.0
    True
    >>> finish(steps)
    'done'
    """
    may_go, has_stopped = threading.Semaphore(0), threading.Semaphore(0)
    is_dropped, found, errors = threading.Event(), [], []
    begun, took = 0.0, 0.0

    def wait() -> None:
        nonlocal begun, took
        took = time.thread_time() - begun
        has_stopped.release()
        may_go.acquire()
        begun = time.thread_time()
        if is_dropped.is_set():
            raise _Dropped

    def run() -> None:
        may_go.acquire()
        try:
            with progress.pausing(wait):
                found.append(work())
        except BaseException as error:
            errors.append(error)
        has_stopped.release()

    threading.Thread(target=run, name="nearkin-steps", daemon=True).start()
    try:
        while True:
            may_go.release()
            has_stopped.acquire()
            if errors:
                raise errors[0]
            if found:
                return found[0]
            yield took
    finally:
        is_dropped.set()
        may_go.release()


class Gradual(Generic[Result]):
    """A result in the making.

    How far it has come never changes what comes out, so it may be dropped at any time and begun anew. Threads take
    turns. What raises is begun anew as well.

    Parameters
    ----------
    make : callable
        Returns a generator that yields the cost of each step, None for 1, and returns the result.
    cost : float
        About what all steps cost together.

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
    >>> sums.spent, sums.finish()
    (5.0, 45)
    """

    def __init__(self, make: Callable[[], Generator[float | None, None, Result]], cost: float):
        self._make, self._cost, self._lock = make, cost, threading.Lock()
        self._allowed = 0.0
        self._result: list[Result] = []
        self._begin()

    def _begin(self) -> None:
        self._steps, self._process, self.spent = self._make(), os.getpid(), 0.0

    @property
    def is_done(self) -> bool:
        """Whether the result is there."""
        return bool(self._result)

    def advance(self, share: float) -> None:
        """Do a share of what is left."""
        with self._lock:
            self._cost = max(self._cost, _MORE * self.spent)
            self._allowed += share * max(0.0, self._cost - self._allowed)
            while not self._result and self.spent + 1e-9 < self._allowed:
                self._step()

    def finish(self) -> Result:
        """Do the rest, and return the result."""
        with self._lock:
            while not self._result:
                self._step()
            return self._result[0]

    def _step(self) -> None:
        if self._process != os.getpid():  # threads do not survive a fork
            self._begin()
        try:
            cost = next(self._steps)
        except StopIteration as end:
            self._result.append(end.value)
        except BaseException:
            self._begin()
            raise
        else:
            self.spent += 1.0 if cost is None else cost
