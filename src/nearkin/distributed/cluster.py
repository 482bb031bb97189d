"""Give tasks to a cluster and get every result once, whatever happens to the workers."""

from __future__ import annotations

import time
import uuid
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from nearkin.distributed.connection import require_dask

__all__ = ["Cluster", "ClusterLost", "Task"]

#: Seconds between two looks at what has become of the tasks.
_LOOK = 0.5

#: Seconds within which a scheduler answers.
_PATIENCE = 10.0


class ClusterLost(ConnectionError):
    """The cluster cannot go on; what was learned so far is safe."""


@dataclass
class Task:
    """One call on a worker.

    Parameters
    ----------
    function : callable
        Pure, of this package.
    arguments : tuple
        Bytes and plain values.
    name : str
        For messages: what it works on.
    """

    function: Callable[..., dict[str, Any]]
    arguments: tuple[Any, ...]
    name: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class _Given:
    """A task that was given to the cluster."""

    futures: list[Any] = field(default_factory=list)
    given_at: float = 0.0
    n_deaths: int = 0
    n_buried: int = 0


class Cluster:
    """Runs tasks; a worker that dies is replaced by another one, one that hangs is not asked again.

    Tasks are pure, so that one may be given twice: whichever result comes first is *the* result.

    Parameters
    ----------
    client : distributed.Client
        Connected.
    timeout : float
        Seconds after which a task is given to another worker too.
    attempts : int
        How often a task is given before it is an error.
    """

    def __init__(self, client: Any, timeout: float, attempts: int = 3):
        self.client = client
        self.timeout = timeout
        self.attempts = attempts
        self.n_again = 0
        self._hanging: set[str] = set()

    def workers(self) -> list[str]:
        """Addresses of the workers that are there and do not hang."""
        return sorted(set(self._ask(self.client.scheduler.identity, n_workers=-1)["workers"]) - self._hanging)

    def _ask(self, question: Callable[..., Any], **arguments: Any) -> Any:
        """An answer of the scheduler, for which nobody waits forever."""
        try:
            return self.client.sync(question, **arguments, callback_timeout=_PATIENCE)
        except (OSError, TimeoutError) as error:
            self._check_connection()
            raise ClusterLost(f"the Dask scheduler does not answer ({type(error).__name__}: {error}).") from None

    def wait_for_workers(self) -> list[str]:
        """The workers, as soon as there is one."""
        end = time.monotonic() + self.timeout
        while not (found := self.workers()):
            self._check_connection()
            if time.monotonic() > end:
                raise ClusterLost(f"the cluster has no worker, and none has come within {self.timeout:g} s.")
            time.sleep(min(_LOOK, self.timeout / 10))
        return found

    def run(self, tasks: Sequence[Task]) -> list[dict[str, Any]]:
        """Results of tasks, in their order."""
        results: dict[int, dict[str, Any]] = {}
        given = {i: _Given() for i in range(len(tasks))}
        try:
            for i, task in enumerate(tasks):
                self._give(task, given[i])
            while len(results) < len(tasks):
                self._look([one for i, state in given.items() if i not in results for one in state.futures])
                self._check_connection()
                for i, task in enumerate(tasks):
                    if i not in results:
                        found = self._outcome(task, given[i])
                        if found is not None:
                            results[i] = found
        finally:
            futures = [one for state in given.values() for one in state.futures]
            unfinished = [one for one in futures if not one.done()]
            if unfinished and self.client.status == "running":
                with suppress(Exception):
                    self._ask(self.client._cancel, futures=unfinished, force=True)
            for one in futures:
                with suppress(Exception):
                    one.release()
        return [results[i] for i in range(len(tasks))]

    def _give(self, task: Task, state: _Given) -> None:
        where = {"workers": self.workers() or None, "allow_other_workers": False} if self._hanging else {}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")  # a model goes inline, on purpose
            state.futures.append(
                self.client.submit(
                    task.function, *task.arguments, **task.options, **where, pure=False, retries=0,
                    key=f"{task.function.__name__}-{uuid.uuid4().hex}",
                )
            )  # fmt: skip
        state.given_at = time.monotonic()

    def _look(self, futures: list[Any]) -> None:
        """Wait a little, or until one is done."""
        distributed = require_dask()
        with suppress(distributed.TimeoutError, TimeoutError, distributed.CancelledError), self.client.as_current():
            distributed.wait(futures, timeout=min(_LOOK, self.timeout / 4), return_when="FIRST_COMPLETED")

    def _outcome(self, task: Task, state: _Given) -> dict[str, Any] | None:
        """The result if there is one; a task that takes too long is given again."""
        distributed = require_dask()
        for future in list(state.futures):
            if future.status == "finished":
                try:
                    return future.result(timeout=self.timeout)
                except (TimeoutError, distributed.TimeoutError, distributed.CancelledError, OSError):
                    state.futures.remove(future)  # its worker went away with the result
            elif future.status == "error":
                self._complain(task, future, state)
            elif future.status in ("cancelled", "lost"):
                state.futures.remove(future)
        if state.futures and time.monotonic() - state.given_at < self.timeout:
            return None
        self._note_hanging(state.futures)
        if len(state.futures) >= self.attempts or (state.futures and not self.workers()):
            raise ClusterLost(
                f"{task.name}: no worker has finished this within {self.timeout:g} s, and no other one is left to ask. "
                "Are they stuck? Raise the timeout if the work takes longer."
            )
        self.n_again += 1
        self._give(task, state)
        return None

    def _complain(self, task: Task, future: Any, state: _Given) -> None:
        """An error of a worker; one that the scheduler gave up because workers died is given once more.

        When a host is lost, its workers are missed one after the other, and a task may have been given to several.
        """
        distributed = require_dask()
        error = future.exception(timeout=self.timeout)
        if isinstance(error, distributed.scheduler.KilledWorker):
            state.futures.remove(future)
            state.n_deaths += error.allowed_failures + 1
            state.n_buried += 1
            if state.n_buried < self.attempts:
                time.sleep(_LOOK)
                return
            raise ClusterLost(
                f"{task.name}: every worker that began this has died ({state.n_deaths} of them). Is there something in "
                "these rows that kills a process, or too little memory?"
            )
        raise RuntimeError(f"{task.name}: the worker failed with {type(error).__name__}: {error}") from error

    def _note_hanging(self, futures: list[Any]) -> None:
        """Ask those who still work on futures no more, and have them restarted where somebody can."""
        keys = {one.key for one in futures}
        held: dict[str, Any] = {}
        with suppress(Exception):
            held = self._ask(self.client.scheduler.processing, workers=None) or {}
        stuck = [address for address, working in held.items() if keys & set(map(str, working))]
        self._hanging.update(stuck)
        if stuck:
            with suppress(Exception):
                self._ask(self.client._restart_workers, workers=stuck, timeout=5, raise_for_error=False)

    def _check_connection(self) -> None:
        if self.client.status == "running":
            return
        end = time.monotonic() + min(self.timeout, _PATIENCE)
        while self.client.status == "connecting" and time.monotonic() < end:
            time.sleep(0.1)
        if self.client.status != "running":
            raise ClusterLost("the connection to the Dask scheduler was lost.")
