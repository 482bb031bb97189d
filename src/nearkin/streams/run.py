"""One fit over a stream from begin to end: where it is, how it goes, and how it goes on after a kill."""

from __future__ import annotations

import hashlib
import io
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from sklearn.base import clone

from nearkin.checks import Integer, Real
from nearkin.learners import OnlineLearner
from nearkin.saving import write_tree
from nearkin.streams.checkpoint import Checkpoint
from nearkin.streams.file_stream import Stream
from nearkin.streams.journal import Journal
from nearkin.streams.watch import Seen, Watch

__all__ = ["Report", "Run"]


@dataclass(frozen=True)
class Report:
    """How a stream goes.

    Parameters
    ----------
    batch, rows : int
        Batches and rows done, those left out and repeated passes counted.
    total_rows : int or None
        Rows there are, all passes together; None where nobody knows.
    epoch : int
        Passes finished.
    rows_per_second, seconds_left : float or None
        Of this process.
    accuracy, recent_accuracy : float or None
        Share of labels that the nearest class centre told rightly *before* the row was learned: over all rows, and
        over about the last 20 batches. None for triplet sources without centres.
    plausibility, recent_plausibility : float or None
        Mean weight with which rows were learned.
    dropped : int
        Rows left out because something was missing.
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


@dataclass
class Options:
    """What the user wants besides the model; see `nearkin.streams.fit_stream`."""

    epochs: int | None = None
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_every: float = 30.0
    resume: bool = False
    log: str | os.PathLike[str] | None = None
    log_every: int = 16
    on_report: Callable[[Report], None] | None = None


class Run:
    """Keeps the place in a stream, watches, and writes checkpoints and the log.

    Parameters
    ----------
    learner : OnlineLearner
        Learns; after `__init__` it is where the checkpoint left it.
    stream : Stream
        Rows.
    options : Options
        Passes, files and listeners.
    plan : dict
        What else must be the same for a checkpoint to go on.
    """

    def __init__(self, learner: OnlineLearner, stream: Stream, options: Options, plan: dict[str, Any]):
        if not isinstance(learner, OnlineLearner):
            raise TypeError(f"a learner of nearkin is needed, such as RobustLODML(); got {type(learner).__name__}.")
        epochs = getattr(learner, "n_epochs", 1) if options.epochs is None else options.epochs
        for name, value, rule in (
            ("epochs", epochs, Integer(1)),
            ("checkpoint_every", options.checkpoint_every, Real(0.0)),
            ("log_every", options.log_every, Integer(1)),
        ):
            if not rule.allows(value):
                raise ValueError(f"`{name}` must be {rule}; got {value!r}.")
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
        """Rows of the stream behind us."""
        return self.watch.total.n_rows + self.watch.total.n_dropped

    @property
    def total_rows(self) -> int | None:
        """Rows of all passes."""
        return None if self.stream.n_rows is None else self.stream.n_rows * self.epochs

    def _begin(self) -> None:
        checkpoint = self._checkpoint
        if checkpoint is not None and checkpoint.exists():
            if not self.options.resume:
                raise ValueError(
                    f"{checkpoint.path} exists already: resume from it, or remove it (and {checkpoint.previous.name}) "
                    "to begin anew."
                )
            self._restore(checkpoint.read())
        elif self.options.resume and checkpoint is None:
            raise ValueError("to resume, the checkpoint to go on from must be named.")
        if self._journal is not None:
            self._journal.begin(self.watch.n_batches)

    def _restore(self, kept: dict[str, Any]) -> None:
        differs = [name for name, value in self._plan.items() if kept["plan"].get(name) != value]
        if differs:
            raise ValueError(
                f"{self.options.checkpoint} belongs to another run: {', '.join(differs)} "
                f"differ{'s' if len(differs) == 1 else ''}. Give the same data, learner and options, or begin "
                "anew with another checkpoint."
            )
        self.learner.__dict__.clear()
        self.learner.__dict__.update(kept["learner"].__dict__)
        self.epoch, self.batch, self.is_done = kept["epoch"], kept["batch"], kept["done"]
        self.watch = Watch.from_dict(kept["watch"])

    def saw(self, seen: Seen) -> None:
        """The next batch was learned."""
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
        """A pass is finished."""
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
        """Write a checkpoint on the way out of an error, which must not be hidden by another one."""
        with suppress(OSError):
            self.save()

    def finish(self) -> None:
        """All passes are done."""
        if not self.watch.total.n_rows:
            raise ValueError(
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
            watch.plausibility, watch.recent_plausibility, watch.total.n_dropped, len(self.learner._state.labels.codes),
            drift,
        )  # fmt: skip


def _digest(learner: OnlineLearner) -> str:
    """Fingerprint of a learner's class and parameters."""
    file = io.BytesIO()
    write_tree(clone(learner), file)
    return hashlib.sha256(file.getvalue()).hexdigest()
