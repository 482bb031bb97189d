"""Today's files onto yesterday's model: which are new, each learned once and as a whole, and the model saved."""

from __future__ import annotations

import copy
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nearkin.errors import InputError, Option, quote_names
from nearkin.files import claim
from nearkin.learners import RobustLODML
from nearkin.model_files import move_to, remember_names
from nearkin.neighbors import RobustKNeighborsClassifier
from nearkin.saving import load, save
from nearkin.settings import OneOf, check_argument
from nearkin.streams.batch import Stream
from nearkin.streams.columns import arrange, known_columns
from nearkin.streams.file_stream import FileStream
from nearkin.streams.fitting import learn_stream
from nearkin.streams.history import History, Ledger, LedgerEntry, date_of, seconds_now
from nearkin.streams.identity import digest_content
from nearkin.streams.journal import Journal
from nearkin.streams.late import LabelJoin, LabelTable, LateLabels, Waiting
from nearkin.streams.lock import Lock
from nearkin.streams.opening import open_stream
from nearkin.streams.outcome import FileNote, Outcome, Wait
from nearkin.streams.pupil import Model, Pupil, n_passes
from nearkin.streams.reading import READING, choose_columns, compare_reading, compare_wishes, list_files, list_others
from nearkin.streams.run import Options, Report
from nearkin.streams.watch import SingleClass
from nearkin.streams.widening import take_up
from nearkin.tables import column_names

__all__ = ["fit_onto", "note_files"]

#: Seconds between two saves while files are learned.
_BETWEEN_SAVES = 10.0

#: Labelled rows that each of two classes needs for a model to begin with late labels.
_TO_BEGIN = 10

_OWNER = "fit_onto"


def fit_onto(
    path: str | os.PathLike[str], source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *,
    model: Model | None = None, wishes: Mapping[str, Any] | None = None, classes: ArrayLike | None = None,
    n_voters: int | None = None, on_bad_file: str = "stop", log: str | os.PathLike[str] | None = None,
    log_every: int | str = 16, on_report: Callable[[Report], None] | None = None,
    on_file: Callable[[FileNote], None] | None = None, false_alarms: float | None = None,
    output: str | os.PathLike[str] | None = None, dry_run: bool = False, late: LateLabels | None = None,
    new_columns: str = "leave", **reading: Any,
) -> Outcome:  # fmt: skip
    r"""Learn the files that a saved model has not learned yet, and save it.

    Parameters
    ----------
    path : path
        The model. It is begun if it is not there.
    source : path or list of paths
        Files, folders and patterns, as in `nearkin.streams.open`.
    model : learner or RobustKNeighborsClassifier, or None, default=None
        Model to begin with, if there is none in `path`; None is that of the command line, a classifier around
        ``RobustLODML(n_epochs=3, random_state=0)``.
    wishes : dict or None, default=None
        Settings that a model in `path` must have, such as ``{"n_epochs": 3}``; others are refused by name. A
        ``"device"`` is where it computes from now on.
    classes, n_voters, log, log_every, on_report, false_alarms
        As in `nearkin.streams.fit_stream`.
    on_bad_file : {"stop", "skip"}, default="stop"
        A file that cannot be read, lacks a column or holds something odd stops the run, or is put aside: nothing of it
        is learned, and the model notes why. It is tried again when its content changes.
    on_file : callable or None, default=None
        Called with a `FileNote` for every file.
    output : path or None, default=None
        Where to save; None for `path`.
    dry_run : bool, default=False
        Say what would happen, and change nothing: files are learned, but nothing is kept.
    late : LateLabels or None, default=None
        Tables in which the labels are found by the id of a row, today or later. Rows without a label wait for it; a
        model begins once two classes have ten rows each.
    new_columns : {"leave", "learn", "error"}, default="leave"
        Columns that the model has not learned are left out and reported, or taken up, or the file is bad. Only a
        classifier can take them up: its learner begins anew from the rows held, which get the median of the first new
        rows there.
    **reading
        Any of `label`, `features`, `drop`, `text`, `batch_rows`, `missing` and `text_labels` of `nearkin.streams.open`.
        The model keeps them: later calls need not give them, and something else is refused by name.

    Returns
    -------
    Outcome
        The model and what became of every file.

    Notes
    -----
    Files are known by their content: one that was learned is skipped under any name, and one whose content has
    changed is refused. Every file is learned in as many passes as the learner says, as a whole or not at all, and
    batches never cross files. The model is saved after files, at least at the end, so it is its own checkpoint: killed
    at any moment, the same call goes on and ends with the same bits. A lock keeps a second process away.

    Examples
    --------
    >>> import tempfile
    >>> import nearkin
    >>> from nearkin import streams
    >>> with tempfile.TemporaryDirectory() as here:
    ...     for day in ("monday", "tuesday"):
    ...         rows = (f"{i % 7 + 3 * (i % 2)},{'no yes'.split()[i % 2]}" for i in range(100 + len(day)))
    ...         _ = Path(f"{here}/{day}.csv").write_text("\n".join(["x,y", *rows]))
    ...         done = streams.fit_onto(f"{here}/m.nearkin", f"{here}/*.csv", label="y", model=nearkin.RobustLODML())
    ...         print([one.status for one in done.notes], done.model.n_rows_seen_)
    ['learned'] 106
    ['seen', 'learned'] 213
    """
    check_argument(_OWNER, "on_bad_file", on_bad_file, OneOf(("stop", "skip")))
    check_argument(_OWNER, "new_columns", new_columns, OneOf(("leave", "learn", "error")))
    paths = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    if unknown := reading.keys() - READING.keys() | (reading.keys() & {"on"}):
        raise TypeError(f"{_OWNER} does not know {quote_names(sorted(unknown))}.")
    if late is not None:
        reading["on"] = late.on
    files, labels = list_files(paths, reading.get("label"))
    outputs: list[tuple[Any, str]] = [(path if output is None else output, "model")]
    claim(outputs + ([(log, "log")] if log is not None else []), [*files, *labels.values()])
    how = {"log": None if dry_run else log, "log_every": log_every, "on_report": on_report, "n_voters": n_voters,
           "false_alarms": false_alarms}  # fmt: skip
    target = Path(path if output is None else output)
    skips, tell = on_bad_file == "skip", on_file or (lambda note: None)
    run = _Onto(Path(path), files, labels, target, skips, dry_run, tell, how, classes, late, new_columns)
    run.outcome.ignored = list_others(paths, [*files, *labels.values(), path, log])
    try:
        with _locked(Path(path), dry_run):
            run.begin(model, wishes or {}, {name: value for name, value in reading.items() if value is not None})
            return run.learn()
    except Exception as error:
        if log is not None and not dry_run:
            Journal(log).refuse(error)
        raise


def note_files(
    model: Any, files: Sequence[Sequence[str | os.PathLike[str]]], n_rows: Sequence[int], **settings: Any
) -> None:
    """Enter files that a model was fitted on into its ledger, each with the file of its labels if that is another.

    `fit_onto` then knows them. ``settings`` say how they were read.
    """
    history: History = getattr(model, "history_", None) or History()
    for paths, n in zip(files, n_rows, strict=True):
        history.ledger.add(LedgerEntry(str(Path(paths[0]).resolve()), digest_content(paths), n, time=date_of(*paths)))
    history.settings = {**history.settings, **settings}
    model.history_ = history


@dataclass
class _Onto:
    """One call of `fit_onto`."""

    path: Path
    files: list[str]
    labels: dict[str, str]  # npy files of labels by those of rows
    output: Path
    skips: bool
    is_dry: bool
    tell: Callable[[FileNote], None]
    how: dict[str, Any]
    classes: ArrayLike | None
    late: LateLabels | None
    new_columns: str
    postponed: list[tuple[str, str]] = field(default_factory=list)  # files of one class, before the model has begun
    retries: bool = False  # files that were put aside, since they are read otherwise now
    table: LabelTable = field(default_factory=lambda: LabelTable({}))  # late labels that are known now
    now: float = field(default_factory=seconds_now)
    model: Any = None
    reading: dict[str, Any] = field(default_factory=dict)
    outcome: Outcome = field(default_factory=lambda: Outcome(None))

    @property
    def history(self) -> History:
        """History of the model as it is now."""
        found: History = self.model.history_
        return found

    # ------------------------------------------------------------------ which model, how to read, which files

    def begin(self, model: Model | None, wishes: Mapping[str, Any], given: dict[str, Any]) -> None:
        """Load the model or begin it, and refuse settings that contradict it."""
        if self.path.exists():
            self.model = load(self.path)
            if not isinstance(self.model, Model):
                raise InputError(f"{self.path} holds a {type(self.model).__name__}, which does not learn from files.")
            old = getattr(self.model, "history_", None) or History()
            kept = {"label": getattr(self.model, "label_name_", None), **old.settings}
            others = {name: value for name, value in wishes.items() if name != "device"}
            if len(others) < len(wishes):  # a place may change
                move_to(self.model, wishes["device"])
            wrong = [*compare_wishes(self.model, others), *compare_reading(kept, given, known_columns(self.model))]
            if wrong:
                raise InputError(f"{self.path} was begun with other settings: {'; '.join(wrong)}.")
            self.reading = {**READING, **kept, **given}
            if not old.ledger.learned and old.waiting is None and self.model.__sklearn_is_fitted__():
                problem = f"{self.path} does not know the files that it was fitted on; every file counts as new."
                warnings.warn(problem, stacklevel=3)
        else:
            self.model, old, self.reading = copy.copy(model or _default_model()), History(), {**READING, **given}
        self.reading["drop"] = list(self.reading["drop"])
        settings = {name: value for name, value in self.reading.items() if name != "label" or not self.labels}
        settings["new_columns"] = self.new_columns
        self.retries = bool(old.settings) and old.settings != settings
        self.model.history_ = replace(old, settings=settings)
        self.outcome.model = self.model
        self._begin_waiting()

    def _begin_waiting(self) -> None:
        """Read late labels, and give up rows that have waited too long for theirs."""
        on, label = self.reading["on"], self.reading["label"]
        if self.late is None:
            if on is not None:
                problem = f"{self.path} finds its labels by {on!r}; name the tables that hold them with {{labels}}."
                raise InputError(problem, labels=Option("labels"))
            return
        if label is None or self.labels:
            raise InputError("late labels need named columns, and {label}, that of the labels.", label=Option("label"))
        self.table = self.late.read(label)
        before = 0 if self.history.waiting is None else self.history.waiting.n_expired
        self.history.waiting = self.late.store(self.history.waiting, self.now)
        self.outcome.waiting = Wait(n_expired=self.history.waiting.n_expired - before)

    def learn(self) -> Outcome:
        """Learn the new files, decide, and save."""
        found = self._judge_files()
        saved_at, is_new = time.monotonic(), False
        try:
            is_new |= self._join_waiting()
            for path, digest, status in found:
                if status == "new":
                    is_new |= self._try_file(path, digest)
                    if self.postponed and _has_begun(self.model):
                        again, self.postponed = self.postponed, []
                        for one in again:
                            is_new |= self._try_file(*one)
                elif status == "changed":
                    is_new |= self._put_aside(path, digest, f"{path}: {_CHANGED}")
                if is_new and self.output == self.path and time.monotonic() - saved_at >= _BETWEEN_SAVES:
                    self._save()
                    saved_at = time.monotonic()
            for path, digest in self.postponed:
                is_new |= self._refuse(path, digest, InputError(_ONE_CLASS, place=path, classes=Option("classes")))
        except Exception:  # what was learned before stays
            self._finish(is_new)
            raise
        except BaseException:  # an interrupt does not wait for the decision, which the next run makes
            if is_new and self.output == self.path:
                self._save()
            raise
        self._finish(is_new)
        return self.outcome

    def _judge_files(self) -> list[tuple[str, str, str]]:
        """Return path, digest and status of every file, and tell of those that are not new."""
        ledger, found, here = self.history.ledger, [], dict[str, str]()
        for path in self.files:
            try:
                digest = digest_content([path, *([self.labels[path]] if path in self.labels else [])])
            except OSError as error:
                if not self.skips and not self.is_dry:
                    raise
                self._note(FileNote(path, "bad", 0, _explain(error, path), error))
                continue
            status = "seen" if digest in here else ledger.judge(str(Path(path).resolve()), digest)
            if status == "seen":
                before = here.get(digest) or ledger.entries[digest].path
                name = "" if before == str(Path(path).resolve()) else f" as {before}"
                self._note(FileNote(path, "seen", 0, f"learned before{name}"))
            elif status == "bad" and (self.retries or not self.skips):
                status = "new"  # to learn it now, or to stop there
            elif status == "bad":
                self._note(FileNote(path, "aside", 0, f"put aside before: {ledger.entries[digest].problem}"))
            if status == "new":
                here[digest] = path
            found.append((path, digest, status))
        changed = [path for path, _, status in found if status == "changed"]
        if changed and not self.skips and not self.is_dry:
            raise InputError(
                f"{quote_names(changed)}: {_CHANGED}. Nothing was learned. Give changed files a new name to learn them "
                "in addition, or put them aside with {skip}.",
                skip=Option("on_bad_file", "skip"),
            )
        return found

    # ------------------------------------------------------------------ one file

    def _try_file(self, path: str, digest: str) -> bool:
        """Learn a file or put it aside; return whether the model changed."""
        try:
            mark = _mark(path)
            trial = _copied(self.model)
            stream, text = self._open(path, trial)
            with _one_warning(text):
                take_up(trial, stream)
                if self.late is None or _has_begun(trial):
                    self._learn_stream(trial, stream)
                else:
                    self._let_wait(trial, stream)
            if _mark(path) != mark:
                raise InputError(f"{path} changed while it was read; move files there when they are whole.")
        except SingleClass:  # perhaps the next files begin the model
            self.postponed.append((path, digest))
            return False
        except (ValueError, OSError) as error:
            return self._refuse(path, digest, error)
        self.outcome.n_alarms += trial.history_.watch.monitor.n_alarms - self.history.watch.monitor.n_alarms
        n_dropped = (trial.history_.watch.total.n_dropped - self.history.watch.total.n_dropped) // n_passes(trial)
        entry = LedgerEntry(str(Path(path).resolve()), digest, stream.n_rows, n_dropped, date_of(path))
        trial.history_.ledger.add(entry)
        if n_waiting := self._count_waiting(trial):
            text = "; ".join([*([text] if text else []), f"{n_waiting:,} rows wait for their label"])
        self.model.__dict__ = trial.__dict__
        self._note(FileNote(path, "new" if self.is_dry else "learned", stream.n_rows - n_waiting, text))
        return True

    def _learn_stream(self, model: Any, stream: Stream) -> None:
        learn_stream(model, stream, Options(**self.how, tells_refusal=False), self.classes)

    def _open(self, path: str, model: Any) -> tuple[FileStream, str]:
        """Open a file with the columns that the model knows; return also what is to be said about others."""
        reading, known = self.reading, known_columns(model)
        label = self.labels.get(path, reading["label"])
        features, drop, text = reading["features"], reading["drop"], ""
        if known is not None and path not in self.labels:
            features, text = choose_columns(path, reading, known, self.new_columns)
            drop = ()
        late = self.late is not None
        if late and label in (column_names(Path(path)) or ()):
            raise InputError(
                f"{path} holds the label column {label!r} itself, and labels are to come from tables; leave these or "
                "the column out."
            )
        stream = open_stream(
            path, label=reading["on"] if late else label, features=features, drop=drop, missing=reading["missing"],
            batch_rows=reading["batch_rows"], text_labels=late or reading["text_labels"],
            text=reading["text"] if known is None else (),
        )  # fmt: skip
        assert isinstance(stream, FileStream)
        if late:
            stream = replace(stream, join=LabelJoin(self.table, model.history_.waiting, self.now))
        return stream, text

    # ------------------------------------------------------------------ rows that wait for their label

    def _join_waiting(self) -> bool:
        """Learn the rows whose label has come; return whether there are any."""
        if self.late is None or self.history.waiting is None:
            return False
        if self.is_dry:
            self.outcome.waiting.n_joined = int(self.table.find(self.history.waiting.ids.tolist())[1].sum())
            return False
        trial = _copied(self.model)
        n_joined = self._learn_waiting(trial)
        self.model.__dict__ = trial.__dict__
        return n_joined > 0

    def _learn_waiting(self, trial: Any, n_new: int = 0) -> int:
        """Learn rows that have their label now, once there is enough to begin with; return their number."""
        waiting: Waiting = trial.history_.waiting
        y, found = self.table.find(waiting.ids.tolist())
        counts = np.unique(y, return_counts=True)[1]
        if not found.any() or not (_has_begun(trial) or (counts >= _TO_BEGIN).sum() >= 2):
            return 0
        n_before, waited = waiting.n_joined, waiting.waited
        rows = waiting.take(self.table, self.now, n_new)
        self._learn_stream(trial, open_stream([rows], batch_rows=self.reading["batch_rows"]))
        self.outcome.waiting.n_joined += waiting.n_joined - n_before
        self.outcome.waiting.seconds += waiting.waited - waited
        return len(y)

    def _let_wait(self, trial: Any, stream: FileStream) -> None:
        """Before the model has begun all rows of a file wait; those that have labels may begin it."""
        stream, n_new = replace(arrange(stream, trial), join=None), 0
        for batch in stream.batches(0):
            LabelJoin(LabelTable({}), trial.history_.waiting, self.now)(batch)
            n_new += len(batch.X)
        if trial.history_.columns is None and stream.columns is not None:
            trial.history_.columns = replace(stream.columns, labels=self.table.kind)
        self._learn_waiting(trial, n_new)

    def _count_waiting(self, trial: Any) -> int:
        """Return how many rows of a file have begun to wait."""
        old, new = self.history.waiting, trial.history_.waiting
        return 0 if new is None or old is None else new.n_entered - old.n_entered

    def _refuse(self, path: str, digest: str, error: Exception) -> bool:
        """Stop at a bad file or put it aside; return whether the model changed."""
        if not self.skips and not self.is_dry:
            raise error
        return self._put_aside(path, digest, _explain(error, path), error)

    def _put_aside(self, path: str, digest: str, problem: str, error: Exception | None = None) -> bool:
        """Note why a file is not learned; return whether the model changed."""
        self._note(FileNote(path, "changed" if error is None else "bad", 0, problem, error))
        if self.is_dry:
            return False
        self.history.ledger.add(LedgerEntry(str(Path(path).resolve()), digest, time=date_of(path), problem=problem))
        if self.how["log"] is not None:
            watch = self.history.watch
            Journal(self.how["log"]).tell("put aside", watch.n_batches, watch.n_rows, file=path, reason=problem)
        return True

    def _note(self, note: FileNote) -> None:
        self.outcome.notes.append(note)
        self.tell(note)

    # ------------------------------------------------------------------ the end

    def _is_stale(self) -> bool:
        held = self.history.held
        return held is not None and self.history.n_decided != held.n_rows_seen

    def _finish(self, is_new: bool) -> None:
        """Make what decides from the rows held, remember names, and save, if anything is new."""
        if self.is_dry or not (is_new or self._is_stale()):
            return
        if not self.history.ledger.learned and not self.path.exists():
            return  # nothing could be learned; perhaps the settings are wrong, and a model would keep them
        if self._is_stale():
            Pupil(self.model).decide()
        known = known_columns(self.model)
        if known is not None and self.model.__sklearn_is_fitted__():
            remember_names(self.model, known.names, self.reading["label"], known.encoder)
        if self.history.waiting is not None and self.how["log"] is not None:
            watch = self.history.watch
            Journal(self.how["log"]).tell("waiting", watch.n_batches, watch.n_rows, **self.history.waiting.facts())
        self._save()

    def _save(self) -> None:
        if self.is_dry:
            return
        try:
            save(self.model, self.output)
        except OSError as error:
            problem = f"{error.strerror or error}; the model there is as it was, and the next run learns again"
            raise type(error)(error.errno, problem, str(self.output)) from error
        self.outcome.is_saved = True


_ONE_CLASS = (
    "all its rows are of one class, and a model begins with two. It is learned as soon as a file with two classes is "
    "there; or declare {classes}."
)
_CHANGED = "the content has changed since it was learned"


def _default_model() -> Model:
    return RobustKNeighborsClassifier(RobustLODML(n_epochs=3, random_state=0), random_state=0)


@contextmanager
def _locked(path: Path, is_dry: bool) -> Iterator[None]:
    """Keep other processes from a model; who only looks need not wait."""
    if is_dry:
        yield
        return
    with Lock(path.with_name(path.name + ".lock"), str(path)):
        yield


def _copied(model: Any) -> Any:
    """Return a model that can learn while the first stays as it is; learners replace their state as a whole."""
    other, history = copy.copy(model), model.history_
    other.history_ = replace(
        history, ledger=Ledger(dict(history.ledger.entries)), watch=copy.deepcopy(history.watch),
        held=copy.deepcopy(history.held), labels=copy.deepcopy(history.labels), waiting=copy.deepcopy(history.waiting),
    )  # fmt: skip
    return other


def _has_begun(model: Any) -> bool:
    held = model.history_.held
    return bool(model.__sklearn_is_fitted__() or (held is not None and held.n_rows_seen))


def _mark(path: str) -> tuple[int, int]:
    found = Path(path).stat()
    return found.st_size, found.st_mtime_ns


@contextmanager
def _one_warning(text: str) -> Iterator[None]:
    """Silence the warning of new columns where a note says it."""
    with warnings.catch_warnings():
        if text:
            warnings.filterwarnings("ignore", "has columns that the model has not learned")
        yield


def _explain(error: Exception, path: str) -> str:
    """Return what is wrong with a file, with its name."""
    text = " ".join((error.told() if isinstance(error, InputError) else str(error)).split())
    return text if path in text else f"{path}: {text}"
