"""One fit over a stream: where it is, how it goes, and how it goes on after a kill."""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sklearn.base import clone

from nearkin.errors import InputError, Option
from nearkin.files import naming, replacing
from nearkin.learners import OnlineLearner
from nearkin.saving import write_tree
from nearkin.settings import Integer, Real, check_argument
from nearkin.streams.checkpoint import Checkpoint
from nearkin.streams.file_stream import Stream
from nearkin.streams.watch import Seen, Watch

__all__ = ["Options", "Report", "Run"]


@dataclass(frozen=True)
class Report:
    """How learning from a stream goes.

    Parameters
    ----------
    batch, rows : int
        Batches and rows done, counting dropped rows and every pass.
    total_rows : int or None
        Rows of all passes together, if known.
    epoch : int
        Passes finished.
    rows_per_second, seconds_left : float or None
        Of this process.
    accuracy, recent_accuracy : float or None
        Share of labels that the nearest class centre predicted *before* the row was learned: over all rows, and over
        about the last 20 batches. None for triplet sources without centres.
    plausibility, recent_plausibility : float or None
        Mean weight with which rows were learned.
    dropped : int
        Rows dropped because something was missing.
    classes : int
        Classes known.
    drift : bool
        Whether plausibility has just fallen.

    Examples
    --------
    >>> import numpy as np
    >>> import nearkin
    >>> from nearkin import streams
    >>> reports, y = [], np.arange(300) % 3
    >>> stream = streams.open([(np.eye(3)[y] + 0.1 * y[:, None], y)], batch_rows=100)
    >>> _ = streams.fit_stream(nearkin.RobustLODML(random_state=0), stream, on_report=reports.append)
    >>> reports[-1].rows, reports[-1].accuracy
    (300, 1.0)
    >>> str(Report(1, 50_000, 200_000, 0, 312_000.0, 0.5, 0.9, 0.912, 0.8, 0.83, 0, 5, False))
    '50,000 of 200,000 rows, 312k/s, 0:00 left, accuracy 91.2 %, plausible 0.83'
    """

    batch: int
    rows: int
    total_rows: int | None
    epoch: int
    rows_per_second: float | None
    seconds_left: float | None
    accuracy: float | None
    recent_accuracy: float | None
    plausibility: float | None
    recent_plausibility: float | None
    dropped: int
    classes: int
    drift: bool

    def __str__(self) -> str:
        total = "" if self.total_rows is None else f" of {self.total_rows:,}"
        parts = [f"{self.rows:,}{total} rows"]
        if self.rows_per_second is not None:
            rate = self.rows_per_second
            parts.append(f"{rate / 1000:.0f}k/s" if rate >= 10_000 else f"{rate:,.0f}/s")
        if self.seconds_left is not None:
            minutes, seconds = divmod(int(self.seconds_left), 60)
            parts.append(f"{minutes}:{seconds:02d} left")
        if self.recent_accuracy is not None:
            parts.append(f"accuracy {100 * self.recent_accuracy:.1f} %")
        if self.recent_plausibility is not None:
            parts.append(f"plausible {self.recent_plausibility:.2f}")
        return ", ".join(parts)


@dataclass
class Options:
    """Passes, files and listeners; see `nearkin.streams.fit_stream`."""

    epochs: int | None = None
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_every: float = 30.0
    resume: bool = False
    log: str | os.PathLike[str] | None = None
    log_every: int = 16
    on_report: Callable[[Report], None] | None = None


class Run:
    """Keeps the place in a stream, watches it, and writes checkpoints and the log."""

    def __init__(self, learner: OnlineLearner, stream: Stream, options: Options, plan: dict[str, Any]):
        if not isinstance(learner, OnlineLearner):
            raise TypeError(f"a learner of nearkin is needed, such as RobustLODML(); got {type(learner).__name__}.")
        epochs = getattr(learner, "n_epochs", 1) if options.epochs is None else options.epochs
        check_argument("fit_stream", "epochs", epochs, Integer(1))
        check_argument("fit_stream", "checkpoint_every", options.checkpoint_every, Real(0.0))
        check_argument("fit_stream", "log_every", options.log_every, Integer(1))
        self.learner, self.stream, self.options, self.epochs = learner, stream, options, int(epochs)
        self.epoch = self.batch = 0
        self.is_done = False
        self.watch = Watch()
        self._plan = {"epochs": self.epochs, "learner": _digest(learner), **stream.identity(), **plan}
        self._checkpoint = None if options.checkpoint is None else Checkpoint(options.checkpoint)
        self._journal = None if options.log is None else Journal(options.log)
        self._begin()
        self._begun = self._saved_at = time.monotonic()
        self._rows_before = self.n_rows

    @property
    def n_rows(self) -> int:
        """Rows done, dropped ones included."""
        return self.watch.total.n_rows + self.watch.total.n_dropped

    @property
    def total_rows(self) -> int | None:
        """Rows of all passes."""
        return None if self.stream.n_rows is None else self.stream.n_rows * self.epochs

    def _begin(self) -> None:
        checkpoint = self._checkpoint
        if checkpoint is not None and checkpoint.exists():
            if not self.options.resume:
                raise InputError(
                    f"{checkpoint.path} exists already: resume from it with {{resume}}, or remove it (and "
                    f"{checkpoint.previous.name}) to start again.",
                    resume=Option("resume", True),
                )
            self._restore(checkpoint.read())
        elif self.options.resume and checkpoint is None:
            raise InputError(
                "to resume, the checkpoint must be named with {checkpoint}.", checkpoint=Option("checkpoint")
            )
        if self._journal is not None:
            self._journal.begin(self.watch.n_batches)

    def _restore(self, kept: dict[str, Any]) -> None:
        differs = [name for name, value in self._plan.items() if kept["plan"].get(name) != value]
        if differs:
            raise InputError(
                f"{self.options.checkpoint} belongs to another run: {', '.join(differs)} "
                f"differ{'s' if len(differs) == 1 else ''}. Give the same data, learner and options, or start "
                "again with another checkpoint."
            )
        self.learner.__dict__.clear()
        self.learner.__dict__.update(kept["learner"].__dict__)
        self.epoch, self.batch, self.is_done = kept["epoch"], kept["batch"], kept["done"]
        self.watch = Watch.from_dict(kept["watch"])

    def count(self, seen: Seen) -> None:
        """Count a batch that was learned, and report it."""
        self.batch += 1
        drift = self.watch.see(seen)
        if not (self._journal or self.options.on_report):
            return
        report = self._report(drift=drift)
        if self._journal is not None and (drift or self.watch.n_batches % self.options.log_every == 0):
            self._journal.append(asdict(report))
        if self.options.on_report is not None:
            self.options.on_report(report)

    def end_epoch(self) -> None:
        """Go on to the next pass."""
        self.epoch, self.batch = self.epoch + 1, 0

    def save_if_due(self) -> None:
        """Write a checkpoint if the last one is old enough."""
        if self._checkpoint is not None and time.monotonic() - self._saved_at >= self.options.checkpoint_every:
            self.save()

    def save(self) -> None:
        """Write a checkpoint, if one is wanted."""
        if self._checkpoint is None or not self.learner.__sklearn_is_fitted__():
            return
        self._checkpoint.write(
            {
                "plan": self._plan,
                "learner": self.learner,
                "epoch": self.epoch,
                "batch": self.batch,
                "done": self.is_done,
                "watch": self.watch.as_dict(),
            }
        )
        self._saved_at = time.monotonic()

    def save_quietly(self) -> None:
        """Write a checkpoint on the way out of an error, and do not hide that error by another one."""
        with suppress(OSError):
            self.save()

    def finish(self) -> None:
        """Write the last report and checkpoint."""
        if not self.watch.total.n_rows:
            raise InputError(
                f"no row of the stream could be learned ({self.watch.total.n_dropped:,} were dropped); is it empty?"
            )
        self.is_done = True
        if self._journal is not None and self.watch.n_batches % self.options.log_every:
            self._journal.append(asdict(self._report(drift=False)))
        self.save()

    def _report(self, *, drift: bool) -> Report:
        watch, done, total = self.watch, self.n_rows, self.total_rows
        seconds = time.monotonic() - self._begun
        rate = (done - self._rows_before) / seconds if seconds > 0 and done > self._rows_before else None
        left = None if rate is None or total is None else max(0.0, (total - done) / rate)
        return Report(
            watch.n_batches, done, total, self.epoch, rate, left, watch.accuracy, watch.recent_accuracy,
            watch.plausibility, watch.recent_plausibility, watch.total.n_dropped, len(self.learner.state_.labels.codes),
            drift,
        )  # fmt: skip


class Journal:
    """A log of JSON lines; after a kill, those that belong to lost work are removed."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)

    def begin(self, n_batches: int) -> None:
        """Keep the lines up to this batch of an earlier run; 0 for none. A torn line is removed."""
        kept = []
        if n_batches and self.path.exists():
            for line in self.path.read_bytes().splitlines():
                try:
                    if json.loads(line)["batch"] <= n_batches:
                        kept.append(line + b"\n")
                except (ValueError, KeyError, TypeError):
                    continue
        with replacing(self.path, "log", durable=True) as file:
            file.writelines(kept)

    def append(self, record: dict[str, Any]) -> None:
        """Add a line."""
        with naming(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def _digest(learner: OnlineLearner) -> str:
    """Return a fingerprint of a learner's class and parameters."""
    file = io.BytesIO()
    write_tree(clone(learner), file)
    return hashlib.sha256(file.getvalue()).hexdigest()
