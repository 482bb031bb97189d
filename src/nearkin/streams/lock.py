"""A lock that names the process that holds it, and that the next process takes over if that one is gone.

The lock is a small file beside what it guards. It says which process of which machine holds it and since when, so a
second process can say so at once. On the same machine a holder is gone if the machine was started anew, or if no
process with its number and start time runs. Of another machine (or container) that cannot be known, so a holder shows
every few seconds that it lives, and its lock expires when it does not.

`flock` guards only the moment in which a lock is read and written. Held for a whole run it would outlive a kill in
every forked child, and it names nobody.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from nearkin import progress
from nearkin.errors import InputError

try:
    import fcntl
except ImportError:  # some platforms have none, and nothing guards that moment there
    fcntl = None  # type: ignore[assignment]

__all__ = ["Lock"]

#: Seconds between two signs of life, and after which a lock of another machine expires without one.
_SIGN, _EXPIRY = 20.0, 120.0
#: Seconds to wait for a process that reads or writes the lock.
_PATIENCE = 2.0
_FIELDS = {"pid": int, "host": str, "boot": str, "started": str, "since": str}

#: Locks that this process holds; a forked child inherits the list, but not the locks.
_held: dict[Path, Lock] = {}
_guard = threading.Lock()


class Lock:
    """Held inside a ``with`` block; entering raises an `InputError` at once if another process, or this one, has it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Lock(Path(folder) / "ck.lock", "ck"):
    ...     with Lock(Path(folder) / "ck.lock", "ck"):
    ...         pass
    Traceback (most recent call last):
    nearkin.errors.InputError: ck is in use by this very process; wait until it has finished, or choose another file.
    """

    def __init__(self, path: Path, guarded: str):
        self.path = path.parent.resolve() / path.name
        self.guarded = guarded
        self.process = 0
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        own = _held.get(self.path)
        if own is not None and own.process == os.getpid():
            problem = "is in use by this very process; wait until it has finished, or choose another file."
            raise InputError(f"{self.guarded} {problem}")
        try:
            self.take()
        except OSError as error:
            problem = f"the checkpoint cannot be written: {error.strerror}"
            raise type(error)(error.errno, problem, self.guarded) from None
        threading.Thread(target=self._show_life, daemon=True).start()
        return self

    def take(self) -> None:
        """Take the lock if nobody has it, or keep it: it may have been removed, or taken over after a standstill."""
        process = _this_process()
        with suppress(OSError, ValueError):
            if self.process and json.loads(self.path.read_bytes())["pid"] == self.process:
                return
        with _guard, _opened(self.path) as (file, is_guarded):
            owner = self._read(file)
            left = _seconds_left(owner, file) if owner is not None else 0.0
            if owner is not None and (left > 0 or not is_guarded):
                raise InputError(self._name(owner, left or float("inf")))
            if not is_guarded:
                raise InputError(f"{self.guarded} is being taken by another process; try again.")
            self.process, _held[self.path] = os.getpid(), self
            os.ftruncate(file, 0)
            os.pwrite(file, json.dumps(process).encode(), 0)

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self.process == os.getpid() and _held.pop(self.path, None) is self:
            with suppress(OSError, InputError), _guard, _opened(self.path) as (file, _is_guarded):
                if (owner := self._read(file)) is None or owner["pid"] == self.process:
                    self.path.unlink(missing_ok=True)

    def _read(self, file: int) -> dict[str, Any] | None:
        """Return who holds the lock, if anybody does; an empty file is that of a process killed while it wrote it."""
        text = os.pread(file, 4096, 0)
        if not text:
            return None
        with suppress(ValueError, RecursionError):
            owner = json.loads(text)
            if isinstance(owner, dict) and all(isinstance(owner.get(name), kind) for name, kind in _FIELDS.items()):
                return owner
        raise InputError(f"{self.path} is not a lock of nearkin; remove it, or choose another checkpoint.")

    def _name(self, owner: dict[str, Any], left: float) -> str:
        who = f"{self.guarded} is in use by process {owner['pid']} on {owner['host'].split()[0]} since {owner['since']}"
        if left < float("inf"):
            return f"{who}. If that process is gone, the lock expires in {left:.0f} s; or remove {self.path}."
        return f"{who}; wait until it has finished, or choose another file."

    def _show_life(self) -> None:
        while not self._ended.wait(_SIGN):
            with suppress(OSError):
                os.utime(self.path)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[int, bool]]:
    """Open the file of a lock; yield it, and whether no other process reads or writes it meanwhile."""
    file, is_guarded = _open(path)
    while not _is_at(path, file):  # its holder has just removed it
        os.close(file)
        file, is_guarded = _open(path)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise InputError(f"{path} is not a lock of nearkin but a device or a pipe; choose another checkpoint.")
        yield file, is_guarded
    finally:
        os.close(file)


def _open(path: Path) -> tuple[int, bool]:
    file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o666)
    end = time.monotonic() + _PATIENCE
    while fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                return file, False  # whoever has it stands still
            time.sleep(0.01)
        except OSError:  # a file system without it
            break
        else:
            break
    return file, True


def _is_at(path: Path, file: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(file))
    return False


def _this_process() -> dict[str, Any]:
    since = datetime.now().astimezone().isoformat(" ", "seconds")
    return {"pid": os.getpid(), **_machine(), "started": _started(os.getpid()), "since": since}


def _machine() -> dict[str, str]:
    """Return what tells this machine, with its space of process numbers, and its last start from others."""
    host, boot = socket.gethostname() or "localhost", ""
    with suppress(OSError):
        host += f" {Path('/proc/self/ns/pid').readlink()}"
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return {"host": host, "boot": boot}


def _started(process: int) -> str:
    """Return when a process started, as its machine counts; empty if it has ended, or if that is unknown."""
    with suppress(OSError, IndexError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]  # a zombie has ended
    return ""


def _seconds_left(owner: dict[str, Any], file: int) -> float:
    """Return how long a lock still counts: for ever while its process runs, 0 if that is gone."""
    here = _machine()
    if owner["host"] != here["host"]:
        return max(0.0, os.fstat(file).st_mtime + _EXPIRY - time.time())
    if owner["boot"] != here["boot"] or not _is_running(owner["pid"]):
        return 0.0
    return float("inf") if owner["started"] == _started(owner["pid"]) else 0.0


def _is_running(process: int) -> bool:
    if os.name != "posix":
        return True  # asking would end it
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it belongs to someone else
        return True
    return True


def _release_all() -> None:
    """Remove the locks of a process that ends without leaving its blocks."""
    for path, lock in tuple(_held.items()):
        if lock.process == os.getpid():
            path.unlink(missing_ok=True)


progress.at_exit.append(_release_all)
