"""Learning from a stream in one process, and the memory it needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from numpy.typing import ArrayLike

from nearkin import progress
from nearkin.discriminant import Discriminant
from nearkin.learners import LPAODML, OnlineLearner
from nearkin.neighbors import RobustKNeighborsClassifier
from nearkin.streams.batch import Stream
from nearkin.streams.columns import keep_encoder
from nearkin.streams.file_stream import FileStream
from nearkin.streams.pupil import Model, Pupil
from nearkin.streams.run import Options, Report, Run
from nearkin.streams.watch import Seen

__all__ = ["Memory", "fit_stream", "learn_stream", "memory_estimate"]

#: Python and its libraries before any data, measured.
_LIBRARIES = 300_000_000

Learned = TypeVar("Learned", OnlineLearner, RobustKNeighborsClassifier)


def fit_stream(
    model: Learned, source: Stream, *, epochs: int | None = None, classes: ArrayLike | None = None,
    checkpoint: str | os.PathLike[str] | None = None, checkpoint_every: float = 30.0, resume: bool = False,
    log: str | os.PathLike[str] | None = None, log_every: int | str = 16,
    on_report: Callable[[Report], None] | None = None, prequential: bool = True, n_voters: int | None = None,
    false_alarms: float | None = None,
) -> Learned:  # fmt: skip
    """Learn from a stream that need not fit into memory; a killed run can go on where it was.

    Parameters
    ----------
    model : learner of this package, or RobustKNeighborsClassifier
        A learner learns batch by batch with `partial_fit`; one that is fitted goes on. A classifier does the same with
        the learner inside it and holds a sample of the rows, from which its decision is made anew at the end; one with
        a jury of its own holds rows only. One that was fitted elsewhere needs `hold_rows` first.
    source : stream
        From `nearkin.streams.open`.
    epochs : int or None, default=None
        Passes over the data; None for the learner's ``n_epochs``.
    classes : array-like or None, default=None
        All classes there will be, if known; needed if the first batch holds a single class.
    checkpoint : path or None, default=None
        File to go on from after a kill. The one before it stays beside it, in case the newest is damaged; a lock beside
        it keeps other processes away.
    checkpoint_every : float, default=30.0
        Seconds between two checkpoints; 0 writes one after every batch.
    resume : bool, default=False
        Go on from the checkpoint, if there is one. The result is the same to the bit as without the break. Other data
        (known by content), another learner or other options are refused; `fit_onto` learns files that come later.
    log : path or None, default=None
        Log file: one JSON object a line, with the fields of `Report`, the time, what came since the line before, and
        alarms. A model that goes on appends to it, and a run that is refused says why.
    log_every : int, "batch" or "file", default=16
        Batches between two lines, or a line for every batch or file. Alarms are written at once.
    on_report : callable or None, default=None
        Called with a `Report` after every batch.
    prequential : bool, default=True
        Whether to predict every label before it is learned, which gives the accuracy in the reports and costs about as
        much as finding the triplets.
    n_voters : int or None, default=None
        Classifiers: rows held to vote, equally many of each class if there are more; None for as many as before, at
        first 10,000.
    false_alarms : float or None, default=None
        Bound on the false alarms of the drift monitor per million rows; 0 for no alarms, None for what the model has,
        at first 1.

    Returns
    -------
    model
        The model that was given, fitted. The `plausibility_` of a learner is that of the last batch; `score_stream`
        scores all rows with the final one. ``history_`` holds what the model knows about its stream.

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
    options = Options(epochs, checkpoint, checkpoint_every, resume, log, log_every, on_report, n_voters, false_alarms)
    learn_stream(model, source, options, classes, prequential=prequential).decide()
    keep_encoder(model)
    return model


def learn_stream(
    model: Model, source: Stream, options: Options, classes: ArrayLike | None = None, *, prequential: bool = True,
) -> Pupil:  # fmt: skip
    """Learn from a stream; what decides in a classifier stays as it is until the pupil is told to `decide`."""
    with Run(model, source, options, {}) as run:

        def learn_pass() -> Iterator[list[Seen]]:
            for batch in run.batches():
                with progress.part_of(run.n_rows, run.total_rows or 0):
                    is_first = run.at.epoch == 0
                    seen = run.pupil.learn(batch, classes, test=prequential and is_first, is_first_pass=is_first)
                yield [seen]

        run.learn(learn_pass)
    return run.pupil


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
    r"""Estimate the memory of a fit over a stream; beyond one batch it does not depend on the number of rows.

    Parameters
    ----------
    learner : learner of this package
        Fitted or not.
    stream : FileStream
        From `nearkin.streams.open`.
    n_classes : int, default=100
        Classes to expect, at most.

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
    n_rows = min(stream.batch_rows, stream.n_rows)
    n_classes = min(n_classes, stream.n_rows)
    rows = n_rows * d * size
    scores = n_rows * n_classes * size
    components = min(learner.rank_for(d), d)
    per_class = n_classes if isinstance(learner, LPAODML) else 1
    parameter = components * d * 8 * per_class * (2 if getattr(learner, "psd", None) == "project" else 1)
    centers = n_classes * d * size
    if learner.has_discriminant_start:
        start = Discriminant.n_bytes(d, components, n_classes, size)
        # The start looks at the rows in double precision.
        rows += n_rows * min(d, max(512, components)) * 8 // 2
    else:
        start = 0
    batch, model = 6 * rows + 4 * scores, 4 * (parameter + centers) + 3 * start
    return Memory(_LIBRARIES, stream.reader.n_bytes, batch, model)
