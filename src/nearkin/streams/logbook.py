"""What a log of a stream says: rates over time and by file, alarms, files put aside, runs refused."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from nearkin.errors import InputError

__all__ = ["LogAlarm", "LogBook", "LogEntry", "read_log", "share_lines"]


@dataclass(frozen=True)
class LogAlarm:
    """An alarm, where it stands in the log."""

    at: int  # rows of the log before it
    time: str
    file: str
    signal: str
    text: str
    row: int  # of the stream


@dataclass
class LogEntry:
    """Rows that were learned together, as far as the log tells; or something that happened to a file."""

    event: str
    time: str = ""
    file: str = ""
    at: int = 0  # rows of the log up to here
    n_rows: int = 0
    n_dropped: int = 0
    accuracy: float | None = None
    plausibility: float | None = None
    seconds: float | None = None
    shares: dict[str, float] = field(default_factory=dict)
    n_waiting: int | None = None
    n_alarms: int = 0
    reason: str = ""

    def join(self, other: LogEntry) -> LogEntry:
        """Return both as one, later rows second; rates are weighed by rows."""
        n = self.n_rows + other.n_rows
        names = dict.fromkeys([*self.shares, *other.shares])

        def mean(one: float | None, two: float | None) -> float | None:
            if one is None or two is None or not n:
                return two if one is None else one
            return (one * self.n_rows + two * other.n_rows) / n

        return LogEntry(
            other.event, other.time or self.time, other.file or self.file, other.at, n,
            self.n_dropped + other.n_dropped,
            mean(self.accuracy, other.accuracy), mean(self.plausibility, other.plausibility),
            None if self.seconds is None and other.seconds is None else (self.seconds or 0.0) + (other.seconds or 0.0),
            {name: mean(self.shares.get(name, 0.0), other.shares.get(name, 0.0)) or 0.0 for name in names},
            other.n_waiting if other.n_waiting is not None else self.n_waiting, self.n_alarms + other.n_alarms,
        )  # fmt: skip


@dataclass
class LogBook:
    """A log as it was read."""

    path: str
    entries: list[LogEntry] = field(default_factory=list)
    alarms: list[LogAlarm] = field(default_factory=list)
    n_lines: int = 0
    n_damaged: int = 0  # lines that could not be read
    version: str = ""

    @property
    def learned(self) -> list[LogEntry]:
        """Entries about rows that were learned."""
        return [one for one in self.entries if one.event == "learned" and one.n_rows]

    @property
    def learned_last(self) -> LogEntry | None:
        """The latest entry about rows that were learned."""
        return next((one for one in reversed(self.entries) if one.event == "learned"), None)

    @property
    def n_rows(self) -> int:
        """Rows learned."""
        return sum(one.n_rows for one in self.learned)

    @property
    def put_aside(self) -> list[LogEntry]:
        """Files that could not be learned."""
        return [one for one in self.entries if one.event == "put aside"]

    @property
    def refused(self) -> list[LogEntry]:
        """Runs that were refused."""
        return [one for one in self.entries if one.event == "refused"]

    def by_file(self) -> list[LogEntry]:
        """Return entries of one file in a row as one, in the order of the log."""
        found: list[LogEntry] = []
        for one in self.entries:
            same = found and one.event == found[-1].event == "learned" and one.file == found[-1].file
            if same:
                found[-1] = found[-1].join(one)
            else:
                found.append(one)
        return found

    def thinned(self, most: int = 400) -> list[LogEntry]:
        """Return at most this many entries about rows learned: neighbours are joined, each about as many rows."""
        learned, total = self.learned, self.n_rows
        if len(learned) <= most:
            return learned
        found: list[LogEntry] = []
        place = -1
        for one in learned:
            now = min(most - 1, (one.at - 1) * most // max(total, 1))
            if now == place:
                found[-1] = found[-1].join(one)
            else:
                found.append(one)
                place = now
        return found


def read_log(path: str | os.PathLike[str]) -> LogBook:
    """Read the log that `fit_stream`, `fit_onto` or the command line has written.

    Parameters
    ----------
    path : path
        The log. Lines that are damaged are counted and skipped; lines of earlier versions are read.

    Returns
    -------
    LogBook
        What it says.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import nearkin
    >>> from nearkin import streams
    >>> y = np.arange(300) % 3
    >>> stream = streams.open([(np.eye(3)[y] + 0.1 * y[:, None], y)], batch_rows=100)
    >>> with tempfile.TemporaryDirectory() as here:
    ...     _ = streams.fit_stream(nearkin.RobustLODML(random_state=0), stream, log=f"{here}/log", log_every="batch")
    ...     book = streams.read_log(f"{here}/log")
    >>> book.n_rows, [one.n_rows for one in book.entries], book.alarms
    (300, [100, 100, 100], [])
    """
    book = LogBook(str(path))
    at = before = 0
    with Path(path).open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if not line.strip():
                continue
            book.n_lines += 1
            try:
                facts = json.loads(line)
                entry, alarms, rows = _read_line(facts, before)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
                book.n_damaged += 1
                continue
            at += entry.n_rows
            before, entry.at = rows, at
            if entry.event == "waiting" and book.learned_last is not None:  # the end of a run tells what still waits
                book.learned_last.n_waiting = entry.n_waiting
                continue
            book.entries.append(entry)
            book.version = str(facts.get("version", book.version))[:40]
            for signal, text, row, name in alarms:
                # An alarm comes within the rows that its line tells of.
                place = min(at, max(at - entry.n_rows, at if row is None else row))
                book.alarms.append(LogAlarm(place, entry.time, name or entry.file, signal, text, row or at))
    if not book.entries:
        damaged = f"; {book.n_damaged:,} lines are not lines of a log" if book.n_damaged else ""
        raise InputError(f"{path} holds no line of a log{damaged}. Write one with: nearkin fit ... --log FILE")
    return book


def _read_line(line: dict[str, Any], before: int) -> tuple[LogEntry, list[tuple[str, str, int | None, str]], int]:
    """Return what a line says, its alarms, and the rows of the model after it."""
    rows = _count(line["rows"])
    _count(line["batch"])
    event = str(line.get("event", "learned"))[:40]
    time, file, reason = (str(line.get(name) or "")[:4000] for name in ("time", "file", "reason"))
    if time:
        datetime.fromisoformat(time)
    alarms = [
        (
            str(one["signal"])[:40], str(one["text"])[:400], _count(one["row"]) if "row" in one else None,
            str(one.get("file") or "")[:4000],
        )
        for one in line.get("alarms", ())
    ]  # fmt: skip
    new = line.get("new")
    waiting = None if line.get("waiting") is None else _count(line["waiting"])
    if event != "learned":
        return LogEntry(event, time, file, n_waiting=waiting, reason=reason), alarms, max(before, rows)
    if new is None:  # written by an earlier version
        n_rows = rows - before if rows >= before else rows
        if line.get("drift") and not alarms:
            alarms = [("plausibility", "plausibility fell", None, "")]
        new = {"rows": n_rows, "accuracy": line.get("recent_accuracy"), "plausibility": line.get("recent_plausibility")}
    shares = {str(name)[:200]: _rate(one) or 0.0 for name, one in (new.get("shares") or {}).items()}
    entry = LogEntry(
        event, time, file, 0, _count(new["rows"]), _count(new.get("dropped", 0)), _rate(new.get("accuracy")),
        _rate(new.get("plausibility")), _seconds(line.get("seconds")), shares,
        waiting, len(alarms),
    )  # fmt: skip
    return entry, alarms, rows


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise ValueError(f"{value!r} is not a count")
    return value


def _rate(value: Any) -> float | None:
    if value is None:
        return None
    if not 0.0 <= float(value) <= 1.0:
        raise ValueError(f"{value!r} is not a share")
    return float(value)


def _seconds(value: Any) -> float | None:
    if value is None:
        return None
    if not 0.0 <= float(value) < math.inf:
        raise ValueError(f"{value!r} is not a time")
    return float(value)


def share_lines(entries: list[LogEntry], most: int) -> Iterator[tuple[str, list[float | None]]]:
    """Yield the classes with most rows, each with its share in every entry; all others as one."""
    weight: dict[str, float] = {}
    for one in entries:
        for name, share in one.shares.items():
            weight[name] = weight.get(name, 0.0) + share * one.n_rows
    chosen = sorted(weight, key=lambda name: -weight[name])
    if len(chosen) > most:
        chosen = chosen[: most - 1]
    for name in chosen:
        yield name, [one.shares.get(name, 0.0) if one.shares else None for one in entries]
    if len(weight) > len(chosen):
        rest = [max(0.0, 1.0 - sum(one.shares.get(name, 0.0) for name in chosen)) for one in entries]
        yield "all others", [share if one.shares else None for share, one in zip(rest, entries, strict=True)]
