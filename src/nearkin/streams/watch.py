"""What rows show before and while they are learned: sums for reports, and rows one by one for the monitor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array
from nearkin.errors import InputError, Option
from nearkin.kernels import one_blas_thread
from nearkin.labels import Labels, first_appearance
from nearkin.learners import OnlineLearner, State
from nearkin.stored import ArrayOf, Count, Maybe, Number, Part, stored
from nearkin.streams.batch import Batch
from nearkin.streams.monitor import N_CLASSES, Alarm, Monitor, SeenRows

__all__ = ["Seen", "SingleClass", "Watch", "find_codes", "learn_batch", "sum_rows"]

#: Batches over which "recent" numbers are averaged.
_RECENT = 20

#: Numbers in a table of scores at a time.
_TABLE = 1 << 20

Guess = Callable[[NDArray[Any]], NDArray[Any]]


@stored(
    n_rows=Count(), n_dropped=Count(), n_tested=Count(), n_right=Count(), plausibility=Number(0.0),
    class_counts=ArrayOf(None, of="codes", low=0),
)  # fmt: skip
@dataclass(eq=False)
class Seen:
    """What one batch showed before and while it was learned; sums, so that batches add up."""

    n_rows: int = 0  # learned
    n_dropped: int = 0  # because something was missing
    n_tested: int = 0  # predicted before they were learned
    n_right: int = 0
    plausibility: float = 0.0  # sum over the rows learned
    class_counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    rows: SeenRows | None = None  # one by one, for the monitor

    def add(self, other: Seen) -> None:
        """Add the sums of other rows."""
        for name in ("n_rows", "n_dropped", "n_tested", "n_right", "plausibility"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        counts = np.zeros(max(len(self.class_counts), len(other.class_counts)), np.int64)
        for one in (self, other):
            counts[: len(one.class_counts)] += one.class_counts
        self.class_counts = counts

    def as_facts(self, class_names: Sequence[Any]) -> dict[str, Any]:
        """Return the sums as plain values; of very many classes, the last stands for all others."""
        names = [str(one) for one in class_names[: len(self.class_counts)]]
        if len(class_names) > N_CLASSES:
            names[-1] = "(others)"
        return {
            "learned": self.n_rows, "dropped": self.n_dropped, "tested": self.n_tested, "right": self.n_right,
            "plausibility": self.plausibility, "classes": dict(zip(names, self.class_counts.tolist(), strict=False)),
        }  # fmt: skip


class SingleClass(InputError):
    """The first batch of a model holds one class."""


def learn_batch(learner: OnlineLearner, batch: Batch, classes: Any, *, test: bool) -> Seen:
    """Test, then learn: both see the batch for the first time."""
    if not len(batch.X):
        return Seen(n_dropped=batch.n_dropped)
    begun = learner.__sklearn_is_fitted__()
    with batch.placed():
        if not begun and classes is None and len(first_appearance(batch.y)[0]) == 1:
            raise SingleClass(
                f"the first batch holds a single class, {str(batch.y[0])!r}. Make batches larger with {{rows}}; if the "
                "files are sorted by class, {shuffle} may help.",
                rows=Option("batch_rows"),
                shuffle=Option("shuffle", True),
            )
        guessed = _guess(learner, batch) if test and begun else None
        learner.partial_fit(batch.X, batch.y, classes=None if begun else classes)
    codes = find_codes(batch.y, learner.state_.labels)
    return sum_rows(batch, codes, None if guessed is None else guessed == codes, learner.plausibility_)


def find_codes(y: NDArray[Any], labels: Labels) -> NDArray[np.int64]:
    """Return the numbers of labels; that of the first class stands for one that was forgotten already."""
    distinct, inverse = first_appearance(y)
    return np.array([labels.codes.get(one, 0) for one in distinct], dtype=np.int64)[inverse]


def sum_rows(batch: Batch, codes: NDArray[np.int64], is_right: NDArray[np.bool_] | None, plausibility: Array) -> Seen:
    """Return what the rows of a batch showed."""
    tested, right = (0, 0) if is_right is None else (len(codes), int(is_right.sum()))
    counts = np.bincount(np.minimum(codes, N_CLASSES - 1))
    rows = SeenRows(is_right, plausibility, codes, batch.X)
    return Seen(len(codes), batch.n_dropped, tested, right, float(plausibility.sum()), counts, rows)


def _guess(learner: OnlineLearner, batch: Batch) -> NDArray[Any] | None:
    """Return the codes of the labels that the nearest class centre or the votes of the nearest witnesses predict."""
    state = learner.state_
    guess = _by_centers(state) or _by_witnesses(state)
    if guess is None or batch.X.shape[1] != learner.n_features_in_:
        return None
    with one_blas_thread():
        return learner.map_blocks(batch.X, guess)


def _by_centers(state: State) -> Guess | None:
    centers = getattr(state.source, "centers_", None)
    if centers is None:
        return None
    owners = state.source.center_codes_  # type: ignore[union-attr]
    return lambda block: owners[state.parameter.item_scores(block, centers, owners).argmax(axis=1)]


def _by_witnesses(state: State) -> Guess | None:
    if state.start is None:
        return None
    witnesses = state.start.witnesses
    step = max(1, _TABLE // len(witnesses.codes))

    def guess(block: NDArray[Any]) -> NDArray[Any]:
        parts = [block[first : first + step] for first in range(0, len(block), step)]
        scores = (state.parameter.item_scores(part, witnesses.placed, witnesses.codes) for part in parts)
        return np.concatenate([witnesses.vote(one) for one in scores])

    return guess


@stored(
    total=Part(Seen), monitor=Part(Monitor), n_batches=Count(),
    recent_accuracy=Maybe(Number(0.0, 1.0)), recent_plausibility=Maybe(Number(0.0, 1.0)),
)  # fmt: skip
@dataclass
class Watch:
    """Sums over a whole stream, averages over the last batches, and the monitor."""

    total: Seen = field(default_factory=Seen)
    monitor: Monitor = field(default_factory=Monitor)
    n_batches: int = 0
    recent_accuracy: float | None = None
    recent_plausibility: float | None = None

    def see(
        self, seen: Seen, class_names: Sequence[Any] = (), feature_names: Sequence[str] | None = None
    ) -> tuple[Alarm, ...]:
        """Add a batch; return the alarms that it completes."""
        self.n_batches += 1
        self.total.add(seen)
        if seen.n_tested:
            self.recent_accuracy = _follow(self.recent_accuracy, seen.n_right / seen.n_tested)
        if seen.n_rows:
            self.recent_plausibility = _follow(self.recent_plausibility, seen.plausibility / seen.n_rows)
        return () if seen.rows is None else self.monitor.see(seen.rows, class_names, feature_names)

    @property
    def n_rows(self) -> int:
        """Rows of the stream that are done, dropped ones included."""
        return self.total.n_rows + self.total.n_dropped

    @property
    def accuracy(self) -> float | None:
        """Share of labels predicted correctly before they were learned."""
        return self.total.n_right / self.total.n_tested if self.total.n_tested else None

    @property
    def plausibility(self) -> float | None:
        """Mean over all rows learned."""
        return self.total.plausibility / self.total.n_rows if self.total.n_rows else None


def _follow(before: float | None, value: float) -> float:
    return value if before is None else before + (value - before) / _RECENT
