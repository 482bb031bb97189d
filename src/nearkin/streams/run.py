"""One fit over a stream: where it is, how it goes, and how it goes on after a kill."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Self

from nearkin.errors import InputError, Option
from nearkin.files import claim
from nearkin.settings import Integer, Real, check_argument
from nearkin.stored import Anything, Count, Flag, Table, Text, check_fields
from nearkin.streams.batch import Batch, Stream
from nearkin.streams.checkpoint import Checkpoint
from nearkin.streams.columns import arrange, without_names
from nearkin.streams.file_stream import FileStream
from nearkin.streams.history import History
from nearkin.streams.identity import describe_learner, differences, digest_rows
from nearkin.streams.journal import Journal, check_log_every
from nearkin.streams.monitor import Alarm
from nearkin.streams.pupil import Model, Pupil, n_passes
from nearkin.streams.watch import Seen, Watch

__all__ = ["Options", "Report", "Run"]


@dataclass(frozen=True)
class Report:
    """How learning from a stream goes.

    Parameters
    ----------
    batch, rows : int
        Batches and rows done since the model began, counting dropped rows and every pass; calls of `fit_stream` add up.
    total_rows : int or None
        Rows there will be at the end of this call, if known.
    epoch : int
        Passes finished.
    rows_per_second, seconds_left : float or None
        Of this process.
    accuracy, recent_accuracy : float or None
        Share of labels that the nearest class centre predicted *before* the row was learned: over all rows, and over
        about the last 2,000 rows. None for triplet sources without centres.
    plausibility, recent_plausibility : float or None
        Mean weight with which rows were learned.
    dropped : int
        Rows dropped because something was missing.
    classes : int
        Classes known.
    drift : bool
        Whether this batch has completed an alarm.
    alarms : tuple of Alarm
        Changes of the stream that this batch has completed.
    file : str or None
        Where the batch begins.
    seconds : float or None
        Time that the batch took.

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
    alarms: tuple[Alarm, ...] = ()
    file: str | None = None
    seconds: float | None = None

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
    log_every: int | str = 16
    on_report: Callable[[Report], None] | None = None
    n_voters: int | None = None
    false_alarms: float | None = None
    tells_refusal: bool = True  # in the log


@dataclass(frozen=True)
class Position:
    """How far a run is; replaced as a whole, so that an interrupt at any moment leaves numbers that belong together."""

    epoch: int = 0
    batch: int = 0
    is_done: bool = False
    n_rows: int = 0  # of this run, dropped ones included
    watch: Watch = field(default_factory=Watch)
    last: Batch | str = ""  # batch, or its digest


class Run:
    """Keeps the position in a stream, and writes checkpoints and the log; its block holds the checkpoint's lock."""

    def __init__(self, model: Model, stream: Stream, options: Options, plan: dict[str, Any]):
        asked = n_passes(model)
        epochs = asked if options.epochs is None else options.epochs
        check_argument("fit_stream", "epochs", epochs, Integer(1, 1_000_000))
        check_argument("fit_stream", "checkpoint_every", options.checkpoint_every, Real(0.0))
        check_log_every(options.log_every)
        if options.false_alarms is not None:
            check_argument("fit_stream", "false_alarms", options.false_alarms, Real(0.0, 1e6))
        if options.resume and options.checkpoint is None:
            problem = "to resume, the checkpoint must be named with {checkpoint}."
            raise InputError(problem, checkpoint=Option("checkpoint"))
        outputs = ((options.checkpoint, "checkpoint"), (options.log, "log"))
        claim(
            [(path, kind) for path, kind in outputs if path is not None],
            stream.files if isinstance(stream, FileStream) else (),
        )
        self.model, self.stream, self.options, self.epochs = model, stream, options, int(epochs)
        self.at = Position()
        self._plan = plan
        self._checkpoint = None if options.checkpoint is None else Checkpoint(options.checkpoint)
        self._journal = None if options.log is None else Journal(options.log, options.log_every)
        self._locked = ExitStack()
        self._rows_of_others = 0  # that the learner has seen in other runs
        self._batch: Batch | str = ""  # that was read last

    def __enter__(self) -> Self:
        try:
            return self._enter()
        except Exception as error:
            self._tell_refusal(error)
            raise

    def _tell_refusal(self, error: Exception) -> None:
        if self._journal is not None and self.options.tells_refusal:
            self._journal.refuse(error, self.at.watch.n_batches, self.at.watch.n_rows)

    def _enter(self) -> Self:
        with self._locked:
            if self._checkpoint is not None:
                self._locked.enter_context(self._checkpoint.lock)
                own = {"epochs": self.epochs, "learner": describe_learner(self.model)}
                self._plan = {**own, **self.stream.identity(), **self._plan}
                if self._checkpoint.exists():
                    self._resume(self._checkpoint)
            self.stream = arrange(self.stream, self.model)
            self._locked.enter_context(without_names(self.model))
            self.pupil = Pupil(self.model, self.options.n_voters)
            self.at = replace(self.at, watch=self.pupil.history.watch)
            if self.options.false_alarms is not None:
                watch = copy.deepcopy(self.at.watch)
                watch.monitor.false_alarms = float(self.options.false_alarms)
                self.at = replace(self.at, watch=watch)
            if self._journal is not None:
                watch = self.at.watch
                is_all = self.at.n_rows == watch.n_rows  # this run, begun perhaps before a kill, is all there is
                self._journal.begin(watch.n_batches, {} if is_all else watch.total.as_facts(self.pupil.class_names))
            self._locked = self._locked.pop_all()
        self._rows_of_others = self.pupil.n_rows_seen - self.at.watch.total.n_learned
        self._saved, self._saved_at = self.at, time.monotonic()
        self._begun = self._counted_at = self._saved_at
        self._rows_before = self.at.watch.n_rows
        self._rows_of_earlier_runs = self._rows_before - self.n_rows
        return self

    def __exit__(self, *_: object) -> None:
        self._locked.close()

    @property
    def n_rows(self) -> int:
        """Rows of this run that are done, dropped ones included."""
        return self.at.n_rows

    @property
    def total_rows(self) -> int | None:
        """Rows of all passes."""
        return None if self.stream.n_rows is None else self.stream.n_rows * self.epochs

    # ------------------------------------------------------------------ going on from a checkpoint

    def _resume(self, checkpoint: Checkpoint) -> None:
        if not self.options.resume:
            raise InputError(
                f"{checkpoint.path} exists already: resume from it with {{resume}}, or remove it (and "
                f"{checkpoint.previous.name}) to start again.",
                resume=Option("resume", True),
            )
        kept = checkpoint.read()
        try:
            self._restore(kept)
        except InputError:
            raise
        except Exception as error:  # a whole file, but not one that a run has written
            reason = f"{type(error).__name__}: {error}"
            raise InputError(f"{checkpoint.path} does not hold what a checkpoint holds ({reason}).") from None

    def _restore(self, kept: dict[str, Any]) -> None:
        check_fields(
            kept, "checkpoint", plan=Table(Text(), Anything()), learner=Anything(), epoch=Count(), batch=Count(),
            done=Flag(), rows=Count(), last=Text(),
        )  # fmt: skip
        plan, model = kept["plan"], kept["learner"]
        if differs := differences(plan, self._plan):
            raise InputError(
                f"{self.options.checkpoint} belongs to another run: {'; '.join(differs)}. Give the same data, learner "
                "and options, or start again with another checkpoint."
            )
        if type(model) is not type(self.model):
            raise TypeError(f"its learner is {type(model).__name__}")
        if not isinstance(getattr(model, "history_", None), History):
            raise TypeError("its learner has no history")
        watch = model.history_.watch
        at = Position(kept["epoch"], kept["batch"], kept["done"], kept["rows"], watch, kept["last"])
        self._go_to(at, plan.get("rows"))
        if (n_seen := Pupil(model).n_rows_seen) < at.watch.total.n_learned:
            raise ValueError(f"its learner has seen {n_seen} rows")
        self.model.__dict__.clear()
        self.model.__dict__.update(model.__dict__)

    def _go_to(self, at: Position, n_rows: int | None) -> None:
        """Take a position of a stream of ``n_rows`` rows, if it is one."""
        if at.epoch > self.epochs or (at.is_done and at.epoch < self.epochs):
            raise ValueError(f"epoch is {at.epoch}, done is {at.is_done}")
        size, done = self.stream.batch_rows, at.batch * self.stream.batch_rows
        if n_rows is None:
            is_possible = at.batch == -(-at.n_rows // size) if not at.epoch else at.batch <= at.watch.n_batches
        else:
            is_possible = at.n_rows == at.epoch * n_rows + (min(done, n_rows) if at.epoch < self.epochs else 0)
            is_possible &= at.batch == 0 or done - size < n_rows
        if not is_possible:
            raise ValueError(f"batch is {at.batch} of pass {at.epoch} after {at.n_rows} rows")
        if at.n_rows > at.watch.n_rows:
            raise ValueError(f"the run has {at.n_rows} rows, its watch {at.watch.n_rows}")
        self.at = at

    def batches(self) -> Iterator[Batch]:
        """Yield the batches that are left of the pass; the one before must be the one that was learned last."""
        first, known = self.at.batch, self.at.last if self.at.batch else ""
        found = self.stream.batches(self.at.epoch, first - bool(known))
        if known and [_digest(one) for one in islice(found, 1)] != [known]:
            raise InputError(
                f"{self.options.checkpoint} belongs to another run: batch {first} of the stream holds other rows than "
                "those that were learned. Give the same data, or start again with another checkpoint."
            )
        for batch in found:
            self._batch = batch
            yield batch

    # ------------------------------------------------------------------ learning

    def learn(self, learn_pass: Callable[[], Iterable[list[Seen]]]) -> None:
        """Learn what is left of all passes; ``learn_pass`` learns the rest of one, and yields the batches as seen.

        After an error or an interrupt a last checkpoint holds what was learned before.
        """
        try:
            while self.at.epoch < self.epochs:
                for seen in learn_pass():
                    self._count(seen)
                    if time.monotonic() - self._saved_at >= self.options.checkpoint_every:
                        self._save()
                self.at = replace(self.at, epoch=self.at.epoch + 1, batch=0)
        except BaseException as error:
            # An interrupt may come after the learner has learned a batch and before it is counted.
            is_counted = self.pupil.n_rows_seen == self._rows_of_others + self.at.watch.total.n_learned
            if is_counted and self.at is not self._saved:
                with suppress(OSError, InputError):  # which would hide the error
                    self._save()
            if isinstance(error, Exception):
                self._tell_refusal(error)
            raise
        finally:
            self._keep_watch()
        if not self.at.is_done:
            self._finish()

    def _count(self, seen: list[Seen]) -> None:
        """Count batches that were learned, and report them."""
        watch, reports = copy.deepcopy(self.at.watch), []
        names, features = self.pupil.class_names, self.stream.names
        seconds, self._counted_at = (time.monotonic() - self._counted_at) / len(seen), time.monotonic()
        file = self._batch.first.source if isinstance(self._batch, Batch) else ""
        for one in seen:
            alarms = watch.see(one.repeated() if self.at.epoch else one, names, features, file)
            if self._journal is not None or self.options.on_report is not None:
                reports.append((self._report(watch, alarms, file or None, seconds), watch.total.as_facts(names)))
        done = self.at.n_rows + watch.n_rows - self.at.watch.n_rows
        self.at = replace(self.at, batch=self.at.batch + len(seen), n_rows=done, watch=watch, last=self._batch)
        for report, total in reports:
            if self._journal is not None:
                self._journal.note(report, total)
            if self.options.on_report is not None:
                self.options.on_report(report)

    def _keep_watch(self) -> None:
        """Give the model the sums; it keeps them with its history once anything was learned."""
        self.pupil.history.watch = self.at.watch
        self.pupil.history.columns = self.pupil.history.columns or self.stream.columns
        if self.pupil.n_rows_seen:
            self.model.history_ = self.pupil.history

    def _save(self) -> None:
        """Write a checkpoint, if one is wanted."""
        if self._checkpoint is None or not self.pupil.n_rows_seen:
            return
        self._checkpoint.lock.take()
        at, last = self.at, self.at.last
        self._keep_watch()
        self._checkpoint.write({
            "plan": self._plan, "learner": self.model, "epoch": at.epoch, "batch": at.batch,
            "done": at.is_done, "rows": at.n_rows,
            "last": last if isinstance(last, str) else _digest(last),
        })  # fmt: skip
        self._saved, self._saved_at = at, time.monotonic()

    def _finish(self) -> None:
        """Write the last report and checkpoint."""
        watch = self.at.watch
        if not watch.total.n_rows:
            dropped = watch.total.n_dropped
            raise InputError(f"no row of the stream could be learned ({dropped:,} were dropped); is it empty?")
        self.at = replace(self.at, is_done=True)
        if self._journal is not None:
            self._journal.end()
        self._save()

    def _report(self, watch: Watch, alarms: tuple[Alarm, ...], file: str | None, seconds: float) -> Report:
        done, total = watch.n_rows, self.total_rows
        if total is not None:
            total += self._rows_of_earlier_runs
        since = time.monotonic() - self._begun
        rate = (done - self._rows_before) / since if since > 0 and done > self._rows_before else None
        left = None if rate is None or total is None else max(0.0, (total - done) / rate)
        return Report(
            watch.n_batches, done, total, self.at.epoch, rate, left, watch.accuracy, watch.recent_accuracy,
            watch.plausibility, watch.recent_plausibility, watch.total.n_dropped, len(self.pupil.class_names),
            bool(alarms), alarms, file, seconds,
        )  # fmt: skip


def _digest(batch: Batch) -> str:
    return digest_rows(batch.X, batch.y)
