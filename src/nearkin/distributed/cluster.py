"""Run tasks on a cluster and get every result once, whatever happens to the workers."""

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

#: Seconds between two checks of the tasks.
_INTERVAL = 0.5

#: Seconds within which a scheduler must answer.
_PATIENCE = 10.0


class ClusterLost(ConnectionError):
    """The cluster cannot go on; what was learned so far is safe."""


@dataclass
class Task:
    """One call on a worker: a pure function of this package, its arguments, and what it works on, for messages."""

    function: Callable[..., dict[str, Any]]
    arguments: tuple[Any, ...]
    name: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class _Submission:
    """A task that the cluster has, perhaps several times."""

    futures: list[Any] = field(default_factory=list)
    submitted_at: float = 0.0
    n_deaths: int = 0
    n_given_up: int = 0


class Cluster:
    """Runs tasks; another worker takes over from one that dies or hangs, and a hanging one gets no more tasks.

    Tasks are pure, so the cluster may run one twice: whichever result comes first is *the* result. After ``timeout``
    seconds another worker gets the task too; after ``attempts`` of them it is an error.
    """

    def __init__(self, client: Any, timeout: float, attempts: int = 3):
        self.client = client
        self.timeout = timeout
        self.attempts = attempts
        self._hanging: set[str] = set()

    def workers(self) -> list[str]:
        """Return the addresses of the workers that are there and do not hang."""
        return sorted(set(self._call(self.client.scheduler.identity, n_workers=-1)["workers"]) - self._hanging)

    def _call(self, question: Callable[..., Any], **arguments: Any) -> Any:
        """Call the scheduler with a timeout."""
        try:
            return self.client.sync(question, **arguments, callback_timeout=_PATIENCE)
        except (OSError, TimeoutError) as error:
            self._check_connection()
            raise ClusterLost(f"the Dask scheduler does not answer ({type(error).__name__}: {error}).") from None

    def wait_for_workers(self) -> list[str]:
        """Return the workers, as soon as there is one."""
        end = time.monotonic() + self.timeout
        while not (found := self.workers()):
            self._check_connection()
            if time.monotonic() > end:
                raise ClusterLost(f"the cluster has no worker, and none has come within {self.timeout:g} s.")
            time.sleep(min(_INTERVAL, self.timeout / 10))
        return found

    def run(self, tasks: Sequence[Task]) -> list[dict[str, Any]]:
        """Return the results of tasks, in their order."""
        results: dict[int, dict[str, Any]] = {}
        submissions = [_Submission() for _ in tasks]
        try:
            for task, submission in zip(tasks, submissions, strict=True):
                self._submit(task, submission)
            while len(results) < len(tasks):
                missing = [number for number in range(len(tasks)) if number not in results]
                self._wait([one for number in missing for one in submissions[number].futures])
                self._check_connection()
                for number in missing:
                    found = self._collect(tasks[number], submissions[number])
                    if found is not None:
                        results[number] = found
        finally:
            self._release([one for submission in submissions for one in submission.futures])
        return [results[number] for number in range(len(tasks))]

    def _release(self, futures: list[Any]) -> None:
        unfinished = [one for one in futures if not one.done()]
        if unfinished and self.client.status == "running":
            with suppress(Exception):
                self._call(lambda: self.client.cancel(unfinished, asynchronous=True, force=True))
        for one in futures:
            with suppress(Exception):
                one.release()

    def _submit(self, task: Task, submission: _Submission) -> None:
        where = {"workers": self.workers() or None, "allow_other_workers": False} if self._hanging else {}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")  # a model goes inline, on purpose
            submission.futures.append(
                self.client.submit(
                    task.function, *task.arguments, **task.options, **where, pure=False, retries=0,
                    key=f"{task.function.__name__}-{uuid.uuid4().hex}",
                )
            )  # fmt: skip
        submission.submitted_at = time.monotonic()

    def _wait(self, futures: list[Any]) -> None:
        """Wait until one is done, but not for long."""
        distributed = require_dask()
        with suppress(distributed.TimeoutError, TimeoutError, distributed.CancelledError), self.client.as_current():
            distributed.wait(futures, timeout=min(_INTERVAL, self.timeout / 4), return_when="FIRST_COMPLETED")

    def _collect(self, task: Task, submission: _Submission) -> dict[str, Any] | None:
        """Return the result if there is one; submit the task again if it takes too long."""
        distributed = require_dask()
        for future in list(submission.futures):
            if future.status == "finished":
                try:
                    return future.result(timeout=self.timeout)
                except (TimeoutError, distributed.TimeoutError, distributed.CancelledError, OSError):
                    submission.futures.remove(future)  # its worker went away with the result
            elif future.status == "error":
                self._handle_error(task, future, submission)
            elif future.status in ("cancelled", "lost"):
                submission.futures.remove(future)
        if submission.futures and time.monotonic() - submission.submitted_at < self.timeout:
            return None
        self._avoid_hanging(submission.futures)
        if len(submission.futures) >= self.attempts or (submission.futures and not self.workers()):
            raise ClusterLost(
                f"{task.name}: no worker has finished this within {self.timeout:g} s, and no other worker is left. Are "
                "they stuck? Raise the timeout if the work takes longer."
            )
        self._submit(task, submission)
        return None

    def _handle_error(self, task: Task, future: Any, submission: _Submission) -> None:
        """Raise a worker's error; if the scheduler gave up because workers died, let the task be submitted once more.

        When a host is lost, the scheduler misses its workers one after the other, and may have given several of them
        the task.
        """
        distributed = require_dask()
        error = future.exception(timeout=self.timeout)
        if not isinstance(error, distributed.scheduler.KilledWorker):
            raise RuntimeError(f"{task.name}: the worker failed with {type(error).__name__}: {error}") from error
        submission.futures.remove(future)
        submission.n_deaths += error.allowed_failures + 1
        submission.n_given_up += 1
        if submission.n_given_up >= self.attempts:
            raise ClusterLost(
                f"{task.name}: every worker that began this has died ({submission.n_deaths} of them). Do these rows "
                "kill a process, or is there too little memory?"
            )
        time.sleep(_INTERVAL)

    def _avoid_hanging(self, futures: list[Any]) -> None:
        """Give no more tasks to the workers that still run these futures, and restart them where a nanny can."""
        keys = {one.key for one in futures}
        held: dict[str, Any] = {}
        with suppress(Exception):
            held = self._call(self.client.scheduler.processing, workers=None) or {}
        stuck = [address for address, working in held.items() if keys & set(map(str, working))]
        self._hanging.update(stuck)
        if stuck:
            with suppress(Exception):
                self._call(lambda: self.client.restart_workers(stuck, timeout=5, raise_for_error=False))

    def _check_connection(self) -> None:
        if self.client.status == "running":
            return
        end = time.monotonic() + min(self.timeout, _PATIENCE)
        while self.client.status == "connecting" and time.monotonic() < end:
            time.sleep(0.1)
        if self.client.status != "running":
            raise ClusterLost("the connection to the Dask scheduler was lost.")
