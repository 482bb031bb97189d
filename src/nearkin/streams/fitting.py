"""Learning from a stream: one fit, where it is, how it goes, how it goes on after a kill, and the memory it needs."""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import ArrayLike
from sklearn.base import clone

from nearkin import progress
from nearkin.errors import InputError, Option
from nearkin.files import replacing
from nearkin.learners import LPAODML, OnlineLearner
from nearkin.saving import write_tree
from nearkin.settings import Integer, Real, check_argument
from nearkin.streams.batch import Stream
from nearkin.streams.checkpoint import Checkpoint
from nearkin.streams.file_stream import FileStream
from nearkin.streams.watch import Seen, Watch, learn_batch

__all__ = ["Memory", "Options", "Report", "Run", "fit_stream", "memory_estimate"]

#: Python and its libraries before any data, measured.
_LIBRARIES = 300_000_000

Learner = TypeVar("Learner", bound=OnlineLearner)


def fit_stream(
    learner: Learner, source: Stream, *, epochs: int | None = None, classes: ArrayLike | None = None,
    checkpoint: str | os.PathLike[str] | None = None, checkpoint_every: float = 30.0, resume: bool = False,
    log: str | os.PathLike[str] | None = None, log_every: int = 16,
    on_report: Callable[[Report], None] | None = None, prequential: bool = True,
) -> Learner:  # fmt: skip
    """Learn from a stream that need not fit into memory; a killed run can go on where it was.

    Parameters
    ----------
    learner : learner of this package
        Learns batch by batch with `partial_fit`; one that is fitted goes on.
    source : stream
        From `nearkin.streams.open`.
    epochs : int or None, default=None
        Passes over the data; None for the learner's ``n_epochs``.
    classes : array-like or None, default=None
        All classes there will be, if known; needed if the first batch holds a single class.
    checkpoint : path or None, default=None
        File to go on from after a kill. The one before it stays beside it, in case the newest is damaged.
    checkpoint_every : float, default=30.0
        Seconds between two checkpoints; 0 writes one after every batch.
    resume : bool, default=False
        Go on from the checkpoint, if there is one. The result is the same to the bit as without the break.
    log : path or None, default=None
        Log file: one JSON object a line, with the fields of `Report`.
    log_every : int, default=16
        Batches between two lines.
    on_report : callable or None, default=None
        Called with a `Report` after every batch.
    prequential : bool, default=True
        Whether to predict every label before it is learned, which gives the accuracy in the reports and costs about as
        much as finding the triplets.

    Returns
    -------
    learner
        The learner that was given, fitted. Its `plausibility_` is that of the last batch; `score_stream` scores all
        rows with the final model.

    Notes
    -----
    Checkpoints do not change what is learned. If something fails, or at an interrupt from the keyboard, the learner
    keeps what it has learned from the batches before, and a last checkpoint is written.

    Examples
    --------
    >>> import numpy as np
    >>> import nearkin
    >>> from nearkin import streams
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 1000)
    >>> chunks = [(y[:, None] + rng.normal(size=(1000, 4)), y)]
    >>> learner = nearkin.RobustLODML(random_state=0)
    >>> learner = streams.fit_stream(learner, streams.open(chunks, batch_rows=200))
    >>> learner.n_rows_seen_
    1000
    """
    options = Options(epochs, checkpoint, checkpoint_every, resume, log, log_every, on_report)
    run = Run(learner, source, options, {})

    def learn_pass(epoch: int, first: int) -> Iterator[list[Seen]]:
        for batch in source.batches(epoch, first):
            with progress.part_of(run.n_rows, run.total_rows or 0):
                seen = learn_batch(learner, batch, classes, test=prequential)
            yield [seen]

    run.learn(learn_pass)
    return learner


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
            problem = "to resume, the checkpoint must be named with {checkpoint}."
            raise InputError(problem, checkpoint=Option("checkpoint"))
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

    def learn(self, learn_pass: Callable[[int, int], Iterable[list[Seen]]]) -> None:
        """Learn what is left of all passes; ``learn_pass(epoch, first)`` learns one, and yields the batches as seen.

        After an error or an interrupt a last checkpoint holds what was learned before.
        """
        try:
            while self.epoch < self.epochs:
                for seen in learn_pass(self.epoch, self.batch):
                    for one in seen:
                        self._count(one)
                    if time.monotonic() - self._saved_at >= self.options.checkpoint_every:
                        self._save()
                self.epoch, self.batch = self.epoch + 1, 0
        except BaseException:
            with suppress(OSError):  # which would hide the error
                self._save()
            raise
        if not self.is_done:
            self._finish()

    def _count(self, seen: Seen) -> None:
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

    def _save(self) -> None:
        """Write a checkpoint, if one is wanted."""
        if self._checkpoint is None or not self.learner.__sklearn_is_fitted__():
            return
        self._checkpoint.write({
            "plan": self._plan, "learner": self.learner, "epoch": self.epoch, "batch": self.batch,
            "done": self.is_done, "watch": asdict(self.watch),
        })  # fmt: skip
        self._saved_at = time.monotonic()

    def _finish(self) -> None:
        """Write the last report and checkpoint."""
        total = self.watch.total
        if not total.n_rows:
            raise InputError(f"no row of the stream could be learned ({total.n_dropped:,} were dropped); is it empty?")
        self.is_done = True
        if self._journal is not None and self.watch.n_batches % self.options.log_every:
            self._journal.append(asdict(self._report(drift=False)))
        self._save()

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
        with replacing(self.path, durable=True) as file:
            file.writelines(kept)

    def append(self, record: dict[str, Any]) -> None:
        """Add a line."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def _digest(learner: OnlineLearner) -> str:
    """Return a fingerprint of a learner's class and parameters."""
    file = io.BytesIO()
    write_tree(clone(learner), file)
    return hashlib.sha256(file.getvalue()).hexdigest()


@dataclass(frozen=True)
class Memory:
    """Most bytes that a fit needs, by purpose."""

    libraries: int  # and Python itself
    reader: int  # what it holds of a file
    batch: int  # scaled, with its scores
    model: int  # also the copy that survives an error, and a checkpoint

    @property
    def total(self) -> int:
        """All together."""
        return self.libraries + self.reader + self.batch + self.model


def memory_estimate(learner: OnlineLearner, stream: FileStream, n_classes: int = 100) -> Memory:
    r"""Estimate the memory of a fit over a stream; it does not depend on the number of rows.

    Parameters
    ----------
    learner : learner of this package
        Fitted or not.
    stream : FileStream
        From `nearkin.streams.open`.
    n_classes : int, default=100
        Classes to expect.

    Returns
    -------
    Memory
        In bytes.

    Examples
    --------
    >>> import tempfile
    >>> import nearkin
    >>> from nearkin import streams
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     print("x,y", *(f"{i},{i % 2}" for i in range(100)), sep="\n", file=file, flush=True)
    ...     streams.memory_estimate(nearkin.RobustLODML(), streams.open(file.name, label="y")).batch < 1e8
    True
    """
    first = stream.batch(stream.pieces(0, 0)[:1])
    d, size = first.X.shape[1], first.X.itemsize
    rows = stream.batch_rows * d * size
    scores = stream.batch_rows * n_classes * size
    components = getattr(learner, "n_components", None)
    if components is None:
        components = d if d <= 128 or not hasattr(learner, "n_components") else 64
    per_class = n_classes if isinstance(learner, LPAODML) else 1
    parameter = int(components) * d * 8 * per_class * (2 if getattr(learner, "psd", None) == "project" else 1)
    centers = n_classes * d * size
    return Memory(_LIBRARIES, stream.reader.n_bytes, 6 * rows + 4 * scores, 4 * (parameter + centers))
