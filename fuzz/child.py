"""A call in a forked process, with limits on time and memory: whatever it does, the parent lives and knows."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

#: Default limits of one call: processor seconds and bytes.
SECONDS, MEMORY = 20.0, 1 << 30
#: On a busy machine the clock may run ahead by this factor; but a child that does nothing for so many seconds hangs.
BUSY, IDLE = 4.0, 10.0


@dataclass
class Outcome:
    """How a child ended."""

    code: int | None
    signal: int | None
    timed_out: bool
    out: str
    err: str
    seconds: float
    cpu: float
    peak: int

    @property
    def crash(self) -> str | None:
        """What no input may cause, in one line; None if it did not happen."""
        last = " ".join(self.err.strip().splitlines()[-1:])[:300]
        if self.timed_out:
            return f"hangs: still running after {self.seconds:.0f} s, {self.cpu:.0f} s of them at work"
        if self.signal is not None:
            return f"killed by {signal.Signals(self.signal).name}: {last}"
        if "Traceback (most recent call last)" in self.err:
            return f"traceback: {last}"
        return None


def call(function: Callable[..., Any], *args: Any, seconds: float = SECONDS, memory: int = MEMORY) -> Outcome:
    """Run ``function(*args)`` in a forked child; what it returns, if a whole number, is the exit code."""
    with TemporaryFile() as out, TemporaryFile() as err:
        begun = time.monotonic()
        child = os.fork()
        if not child:
            _work(function, args, out.fileno(), err.fileno(), seconds, memory)
        status, usage, timed_out = _wait(child, begun + BUSY * seconds)
        texts = [_text(file) for file in (out, err)]
    killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    code = None if killed is not None else os.WEXITSTATUS(status)
    timed_out |= killed == signal.SIGXCPU
    took, cpu = time.monotonic() - begun, usage.ru_utime + usage.ru_stime
    return Outcome(code, killed, timed_out, *texts, took, cpu, usage.ru_maxrss * 1024)


def command(*args: object, folder: Path | None = None, seconds: float = SECONDS, memory: int = MEMORY) -> Outcome:
    """Run a command of nearkin in a forked child, in a folder."""
    return call(_run_command, [str(one) for one in args], folder, seconds=seconds, memory=memory)


def command_problem(found: Outcome, *names: object) -> str | None:
    """Return what is wrong with how a command ended; right is 0, or 2 with one line that names one of ``names``."""
    if found.crash or found.code == 0:
        return found.crash
    lines = [one for one in found.err.splitlines() if one.strip() and not one.startswith("nearkin: warning:")]
    said = lines[-1][:300] if lines else ""
    if found.code != 2:
        return f"exit code {found.code}: {said}"
    if sum(one.startswith("nearkin: ") for one in lines) != 1:
        return f"exit code 2 with {len(lines)} lines: {said}"
    if names and not any(str(one) in said for one in names):
        return f"the message names no file: {said}"
    return None


def _run_command(args: list[str], folder: Path | None) -> None:
    from nearkin.cli import main

    if folder is not None:
        os.chdir(folder)
    main.main(args, prog_name="nearkin")


def _work(function: Callable[..., Any], args: tuple[Any, ...], out: int, err: int, seconds: float, memory: int) -> None:
    """Run in the child and leave it."""
    code = 70
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.setsid()  # a hang is killed with its own children
        sys.stdout, sys.stderr = (os.fdopen(os.dup(n), "w", errors="replace") for n in (1, 2))
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + memory, mapped + memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
        code = 0
        answer = function(*args)
        code = answer if isinstance(answer, int) else 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        code = 70
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:  # the disk is full, or the text is odd: the code still tells
                code = code or 70
        os._exit(code)


def _wait(child: int, end: float) -> tuple[int, Any, bool]:
    """Wait until the child ends, its time is over, or it has long done nothing."""
    pause, worked, since = 0.0005, -1, time.monotonic()
    while True:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            return status, usage, False
        now = time.monotonic()
        if (ticks := _ticks(child)) != worked:
            worked, since = ticks, now
        if now > end or now > since + IDLE:
            try:
                os.killpg(child, signal.SIGKILL)
            except ProcessLookupError:
                os.kill(child, signal.SIGKILL)
            _, status, usage = os.wait4(child, 0)
            return status, usage, True
        time.sleep(pause)
        pause = min(0.02, pause * 1.3)


def _ticks(child: int) -> int:
    """Return the processor time of a child, in the units of the system."""
    fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _text(file: Any) -> str:
    file.seek(0)
    return file.read(1 << 20).decode(errors="replace")
