"""The log of a stream: one JSON object a line, for people, for `nearkin watch` and for other tools."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearkin._version import __version__
from nearkin.errors import InputError
from nearkin.files import naming, replacing
from nearkin.settings import Integer, OneOf, check_argument

if TYPE_CHECKING:
    from nearkin.streams.run import Report

__all__ = ["Journal", "check_log_every"]

#: Batches between two lines, or at the end of every file.
_EVERY = (Integer(1, 1_000_000_000), OneOf(("batch", "file")))


def check_log_every(value: Any) -> None:
    """Refuse what does not say when lines are written."""
    check_argument("fit_stream", "log_every", value, *_EVERY)


class Journal:
    """Lines about what was learned. They hold sums since the model began; ``new`` is what came since the line before.

    After a kill the lines that belong to lost work are removed.
    """

    def __init__(self, path: str | os.PathLike[str], every: int | str = 16):
        self.path = Path(path)
        self.every = 1 if every == "batch" else every
        self._total: dict[str, Any] = {}
        self._seconds = 0.0
        self._last: Report | None = None  # of a batch that no line tells yet
        self._before: dict[str, Any] = {}  # sums after that batch

    def begin(self, n_batches: int, total: dict[str, Any]) -> None:
        """Remove the lines at the end that tell of batches after this one, and torn ones; others are kept."""
        self._total = total
        lines = self.path.read_bytes().splitlines(keepends=True) if self.path.exists() else []
        kept: list[bytes] = []
        n_lines = len(lines)
        while lines:
            line = lines.pop()
            try:
                found = json.loads(line)
                is_learned = found.get("event", "learned") == "learned"
                if is_learned and 0 < found["batch"] <= n_batches:
                    self._total = found.get("total") or total
                    lines.append(line)
                    break
                if is_learned or not line.endswith(b"\n"):
                    continue
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
            kept.append(line)
        if not n_lines or n_lines > len(lines) + len(kept):
            with replacing(self.path, "log", durable=True) as file:
                file.writelines(lines)
                file.writelines(reversed(kept))

    def note(self, report: Report, total: dict[str, Any]) -> None:
        """Take in a batch; write a line if one is due. An alarm is written at once."""
        if self.every == "file" and self._last is not None and report.file != self._last.file:
            self._write(self._last, self._before)
        self._last, self._before = report, total
        self._seconds += report.seconds or 0.0
        if report.alarms or (isinstance(self.every, int) and report.batch % self.every == 0):
            self._write(report, total)

    def end(self) -> None:
        """Write a line about batches that none tells yet."""
        if self._last is not None:
            self._write(self._last, self._before)

    def tell(self, event: str, n_batches: int = 0, n_rows: int = 0, **facts: Any) -> None:
        """Write a line about something else: a file that was left out, a run that was refused."""
        self._append({"batch": n_batches, "rows": n_rows, "event": event, **_stamp(), **facts})

    def refuse(self, error: BaseException, n_batches: int = 0, n_rows: int = 0) -> None:
        """Tell why a run ended early, once; a log that cannot be written does not hide the reason."""
        if getattr(error, "is_logged", False):
            return
        reason = error.told() if isinstance(error, InputError) else str(error) or type(error).__name__
        with suppress(OSError, InputError):
            self.tell("refused", n_batches, n_rows, reason=" ".join(reason.split()))
            error.is_logged = True  # type: ignore[attr-defined]

    def _write(self, report: Report, total: dict[str, Any]) -> None:
        facts = asdict(report)
        facts["seconds"] = round(self._seconds, 6)
        self._append({**facts, "event": "learned", **_stamp(), "new": _difference(total, self._total), "total": total})
        self._total, self._seconds, self._last = total, 0.0, None

    def _append(self, record: dict[str, Any]) -> None:
        with naming(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def _stamp() -> dict[str, str]:
    return {"time": datetime.fromtimestamp(time.time()).astimezone().isoformat("T", "seconds"), "version": __version__}


def _difference(total: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Return rows, rates and shares of classes of what came since."""

    def since(name: str) -> Any:
        return total[name] - before.get(name, 0)

    counts = {name: n - before.get("classes", {}).get(name, 0) for name, n in total["classes"].items()}
    n_rows, n_tested = since("learned"), since("tested")
    return {
        "rows": n_rows,
        "dropped": since("dropped"),
        "accuracy": since("right") / n_tested if n_tested else None,
        "plausibility": since("plausibility") / n_rows if n_rows else None,
        "shares": {name: round(n / n_rows, 6) for name, n in counts.items()} if n_rows else {},
    }
