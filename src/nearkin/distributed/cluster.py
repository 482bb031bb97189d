"""Connect to a cluster, run tasks on it and get every result once, whatever happens to the workers."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import re
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from nearkin._version import __version__
from nearkin.errors import InputError

__all__ = ["Cluster", "ClusterLost", "Task", "connect"]

_LOCAL = re.compile(r"local:([1-9][0-9]*)")
_ADDRESS = re.compile(r"((tcp|tls|ws|wss|ucx)://)?[^/\s]+:[0-9]{1,5}/?|(?!tcp:|tls:)[a-z]+://.+")
#: Most processes of this machine: 16 for each of its cores, far more than help.
_MOST_PROCESSES = 16 * (os.cpu_count() or 1)

#: Seconds between two checks of the tasks.
_INTERVAL = 0.5
#: Seconds within which a scheduler must answer.
_PATIENCE = 10.0


def _require_dask() -> Any:
    """Return the module distributed, or raise an error that says how to get it."""
    try:
        import distributed
    except ImportError:
        raise ImportError("clusters need dask; install it with: pip install 'nearkin[dask]'") from None
    return distributed


@contextmanager
def connect(where: Any, *, tls: Sequence[str | os.PathLike[str]] | None = None, timeout: float = 30.0) -> Iterator[Any]:
    """Connect a Dask client for the duration of the block.

    Parameters
    ----------
    where : str or distributed.Client
        Address of a scheduler, such as ``"tcp://10.0.0.5:8786"``; ``"local:4"`` for four processes of this machine that
        listen on the loopback interface only; or a client, which stays open afterwards.
    tls : three paths or None, default=None
        Files of the certificate authority, the certificate and its key, for an encrypted connection.
    timeout : float, default=30.0
        Seconds to wait for the scheduler.

    Yields
    ------
    distributed.Client
        Connected.

    Examples
    --------
    >>> from nearkin import distributed
    >>> with distributed.connect("local:1") as client:
    ...     len(client.scheduler_info()["workers"])
    1
    """
    distributed = _require_dask()
    if isinstance(where, distributed.Client):
        yield where
        return
    if not isinstance(where, str):
        raise TypeError(f"a Dask client, an address or 'local:N' is needed; got {where!r}.")
    security = _security(distributed, tls)
    if local := _LOCAL.fullmatch(where):
        if len(local[1]) > 9 or int(local[1]) > _MOST_PROCESSES:
            problem = f"at most {_MOST_PROCESSES:,} processes of this machine can be started; got {where!r}."
            raise InputError(problem, owner="connect")
        place: Any = _processes(distributed, int(local[1]), security, timeout)
    elif where.startswith("local"):
        problem = f"processes of this machine are written 'local:N', N a number; got {where!r}."
        raise InputError(problem, owner="connect")
    elif not _ADDRESS.fullmatch(where):
        raise InputError(
            f"a scheduler is written HOST:PORT, such as 'tcp://10.0.0.5:8786'; got {where!r}.", owner="connect"
        )
    else:
        place = nullcontext(where if "://" in where else f"{'tls' if security else 'tcp'}://{where}")
    with _silence(), place as target, _client(distributed, target, where, security, timeout) as client:
        yield client


@contextmanager
def _silence() -> Iterator[None]:
    """Keep Dask from printing tracebacks of connections that are lost, which our errors tell in words."""
    handlers = [(one, one.level) for one in logging.getLogger("distributed").handlers]
    try:
        for handler, _ in handlers:
            handler.setLevel(logging.CRITICAL)
        yield
    finally:
        for handler, level in handlers:
            handler.setLevel(level)


def _security(distributed: Any, tls: Sequence[str | os.PathLike[str]] | None) -> Any:
    if tls is None:
        return None
    authority, certificate, key = (os.fspath(one) for one in tls)
    for path in (authority, certificate, key):
        Path(path).open("rb").close()  # a clear error now, not an obscure one later
    return distributed.Security(
        require_encryption=True, tls_ca_file=authority,
        **{f"tls_{who}_{what}": path for who in ("client", "scheduler", "worker")
           for what, path in (("cert", certificate), ("key", key))},
    )  # fmt: skip


@contextmanager
def _processes(distributed: Any, n: int, security: Any, timeout: float) -> Iterator[Any]:
    import dask

    # Unless switched off, the profiler samples every worker a hundred times a second.
    with dask.config.set({"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "200ms"}):
        cluster = distributed.LocalCluster(
            n_workers=n, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL, security=security,
        )  # fmt: skip
    try:
        yield cluster
    finally:
        with suppress(Exception):
            cluster.close(timeout=timeout)


@contextmanager
def _client(distributed: Any, target: Any, where: str, security: Any, timeout: float) -> Iterator[Any]:
    try:
        client = distributed.Client(target, timeout=timeout, security=security, set_as_default=False)
    except (OSError, TimeoutError, ValueError, TypeError) as error:  # TypeError: TLS without certificates
        raise ConnectionError(f"no Dask scheduler answers at {where} within {timeout:g} s ({error}).") from None
    try:
        yield client
    finally:
        # A scheduler that is gone must not delay the end.
        closing = threading.Thread(target=_close, args=[client], daemon=True)
        closing.start()
        closing.join(timeout)


def _close(client: Any) -> None:
    try:
        with suppress(Exception):
            client.close(timeout=5)
    finally:
        client.status = "closed"  # otherwise it tries once more, and complains, when deleted


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
    """A task that the cluster has, perhaps several times, and since when it has been one of the first."""

    futures: list[Any] = field(default_factory=list)
    begun_at: float | None = None
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
        self._checked: set[str] = set()

    def workers(self) -> list[str]:
        """Return the addresses of the workers that are there and do not hang."""
        return sorted(set(self._call(self.client.scheduler.identity, n_workers=-1)["workers"]) - self._hanging)

    def _call(self, question: Callable[..., Any], **arguments: Any) -> Any:
        """Call the scheduler with a timeout."""
        try:
            return self.client.sync(question, **arguments, callback_timeout=_PATIENCE)
        except (OSError, TimeoutError) as error:
            self._check_connection(0.0)
            raise ClusterLost(f"the Dask scheduler does not answer ({type(error).__name__}: {error}).") from None

    def check_versions(self) -> None:
        """Refuse workers with another nearkin, or another release of NumPy or Python; each worker answers once."""
        new = sorted(set(self.workers()) - self._checked)
        if not new:
            return
        ours = _own_versions()
        for worker, theirs in zip(new, self._call(lambda: _ask_versions(self.client, new)), strict=True):
            if theirs is None:
                continue  # it does not answer: whoever hangs or dies is found by its tasks
            if theirs != ours:
                has, here = (
                    ", ".join(f"{name} {one or 'none'}" for name, one in part.items()) for part in (theirs, ours)
                )
                raise InputError(f"the worker {worker} has {has}, this process {here}; install the same versions.")
            self._checked.add(worker)

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
        results = dict(self.each(tasks, len(tasks)))
        return [results[number] for number in range(len(tasks))]

    def each(self, tasks: Sequence[Task], ahead: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield numbers and results of tasks as they come; the cluster holds that many for each worker at a time."""
        waiting: dict[int, _Submission] = {}
        n_submitted, n_workers = 0, 1
        try:
            while waiting or n_submitted < len(tasks):
                if n_submitted < len(tasks):
                    self.check_versions()
                    n_workers = max(1, len(self.workers()))
                    most = n_submitted - len(waiting) + ahead * n_workers
                    for number in range(n_submitted, min(most, len(tasks))):
                        self._submit(tasks[number], waiting.setdefault(number, _Submission()))
                        n_submitted = number + 1
                for one in islice(waiting.values(), n_workers):  # the others may still wait for their turn
                    one.begun_at = one.begun_at or time.monotonic()
                self._wait([one for submission in waiting.values() for one in submission.futures])
                self._check_connection()
                for number in list(waiting):
                    found = self._collect(tasks[number], waiting[number])
                    if found is not None:
                        self._release(waiting.pop(number).futures)
                        yield number, found
        except _closed_client():
            self._check_connection(0.0)
            raise
        finally:
            self._release([one for submission in waiting.values() for one in submission.futures])

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
        submission.begun_at = None

    def _wait(self, futures: list[Any]) -> None:
        """Wait until one is done, but not for long."""
        distributed = _require_dask()
        with suppress(distributed.TimeoutError, TimeoutError, distributed.CancelledError), self.client.as_current():
            distributed.wait(futures, timeout=min(_INTERVAL, self.timeout / 4), return_when="FIRST_COMPLETED")

    def _collect(self, task: Task, submission: _Submission) -> dict[str, Any] | None:
        """Return the result if there is one; submit the task again if it takes too long."""
        distributed = _require_dask()
        for future in list(submission.futures):
            if future.status == "finished":
                try:
                    return future.result(timeout=min(self.timeout, _PATIENCE))
                except (TimeoutError, distributed.TimeoutError):
                    self._check_connection()  # it is on its way, or its worker hangs
                except (distributed.CancelledError, OSError):
                    submission.futures.remove(future)  # its worker went away with the result
            elif future.status == "error":
                self._handle_error(task, future, submission)
            elif future.status in ("cancelled", "lost"):
                submission.futures.remove(future)
        begun = submission.begun_at
        if submission.futures and (begun is None or time.monotonic() - begun < self.timeout):
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
        distributed = _require_dask()
        error = future.exception(timeout=min(self.timeout, _PATIENCE))
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
        held: dict[str, Any] = self._call(self.client.scheduler.processing, workers=None) or {}
        stuck = [address for address, working in held.items() if keys & set(map(str, working))]
        self._hanging.update(stuck)
        if stuck:
            with suppress(Exception):
                self._call(lambda: self.client.restart_workers(stuck, timeout=5, raise_for_error=False))

    def _check_connection(self, patience: float = _PATIENCE) -> None:
        """Raise if the scheduler is gone; a connection that was interrupted may come back."""
        end = time.monotonic() + min(self.timeout, patience)
        while self.client.status == "connecting" and time.monotonic() < end:
            time.sleep(0.1)
        if self.client.status != "running":
            raise ClusterLost("the connection to the Dask scheduler was lost.")


def _closed_client() -> type[Exception]:
    """Return what Dask raises when a client that has given up is used."""
    from distributed.client import ClosedClientError

    return ClosedClientError


async def _ask_versions(client: Any, workers: list[str]) -> list[dict[str, str] | None]:
    """Return the versions that workers have, None for those that do not answer."""

    def read_version() -> str:  # inside a function, so that it travels as code and a worker without nearkin can run it
        import importlib

        try:
            return importlib.import_module("nearkin").__version__
        except ImportError:
            return ""

    async def ask(worker: str) -> dict[str, str] | None:
        message = {"op": "versions", "packages": []}
        told = await client.scheduler.broadcast(msg=message, workers=[worker], on_error="ignore")
        found = _releases(told[worker]["packages"])
        if found["python"] == _own_versions()["python"]:  # code is for one release of Python
            found["nearkin"] = str((await client.run(read_version, workers=[worker], on_error="return"))[worker])
        return found

    waiting = [asyncio.wait_for(ask(one), _PATIENCE / 2) for one in workers]
    told = await asyncio.gather(*waiting, return_exceptions=True)
    return [None if isinstance(one, BaseException) else one for one in told]


def _own_versions() -> dict[str, str]:
    return {**_releases({"python": platform.python_version(), "numpy": np.__version__}), "nearkin": __version__}


def _releases(packages: dict[str, Any]) -> dict[str, str]:
    """Return major and minor versions."""
    return {name: ".".join(str(packages.get(name)).split(".")[:2]) for name in ("python", "numpy")}
