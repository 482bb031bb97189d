"""Accuracy and plausibility of rows as they are learned, and whether they fall."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.errors import InputError, Option, placed_at
from nearkin.kernels import one_blas_thread
from nearkin.labels import first_appearance
from nearkin.learners import OnlineLearner, State
from nearkin.stored import Count, Maybe, Number, Part, stored
from nearkin.streams.batch import Batch

__all__ = ["Drift", "Seen", "Watch", "learn_batch"]

#: Batches over which "recent" numbers are averaged.
_RECENT = 20

#: Numbers in a table of scores at a time.
_TABLE = 1 << 20

Guess = Callable[[NDArray[Any]], NDArray[Any]]


@stored(n_rows=Count(), n_dropped=Count(), n_tested=Count(), n_right=Count(), plausibility=Number(0.0))
@dataclass
class Seen:
    """What one batch showed before and while it was learned; sums, so that batches add up."""

    n_rows: int = 0  # learned
    n_dropped: int = 0  # because something was missing
    n_tested: int = 0  # predicted before they were learned
    n_right: int = 0
    plausibility: float = 0.0  # sum over the rows learned


def learn_batch(learner: OnlineLearner, batch: Batch, classes: Any, *, test: bool) -> Seen:
    """Test, then learn: both see the batch for the first time."""
    if not len(batch.X):
        return Seen(n_dropped=batch.n_dropped)
    begun = learner.__sklearn_is_fitted__()
    with placed_at(f"{batch.first} and the {batch.n_rows - 1:,} rows after it"):
        if not begun and classes is None and len(first_appearance(batch.y)[0]) == 1:
            raise InputError(
                f"the first batch holds a single class, {str(batch.y[0])!r}. Make batches larger with {{rows}}; if the "
                "files are sorted by class, {shuffle} may help.",
                rows=Option("batch_rows"),
                shuffle=Option("shuffle", True),
            )
        tested, right = _tested(learner, batch) if test and begun else (0, 0)
        learner.partial_fit(batch.X, batch.y, classes=None if begun else classes)
    return Seen(len(batch.X), batch.n_dropped, tested, right, float(learner.plausibility_.sum()))


def _tested(learner: OnlineLearner, batch: Batch) -> tuple[int, int]:
    """Return how many labels were predicted, and how many are those of the nearest class centre, or of the votes of
    the nearest witnesses.
    """
    state = learner.state_
    guess = _by_centers(state) or _by_witnesses(state)
    if guess is None or batch.X.shape[1] != learner.n_features_in_:
        return 0, 0
    with one_blas_thread():
        guessed = learner.map_blocks(batch.X, guess)
    distinct, inverse = first_appearance(batch.y)
    codes = np.array([state.labels.codes.get(one, -1) for one in distinct], dtype=np.int64)[inverse]
    return len(codes), int((guessed == codes).sum())


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
    slack=Number(0.0), limit=Number(0.0), warm_up=Count(), n=Count(), mean=Number(0.0), variance=Number(0.0),
    fallen=Number(0.0),
)  # fmt: skip
@dataclass
class Drift:
    """A one-sided CUSUM test that signals when the mean plausibility of batches falls.

    It compares with a running mean and spread, so it follows slow changes and only a faster fall counts. Without a
    change, a false signal comes about once in twenty thousand batches.
    """

    slack: float = 0.5  # standard deviations that a batch may lie below the mean
    limit: float = 8.0  # sum of larger deviations at which it signals
    warm_up: int = 20  # batches before it compares, while the learner improves
    n: int = 0
    mean: float = 0.0
    variance: float = 0.0
    fallen: float = 0.0

    def see(self, value: float) -> bool:
        """Add the mean of a batch; return True if it completes a fall, and start with a fresh mean."""
        if self.n >= self.warm_up:
            spread = max(math.sqrt(self.variance), 1e-3)
            self.fallen = max(0.0, self.fallen + (self.mean - value) / spread - self.slack)
            if self.fallen > self.limit:
                self.n, self.mean, self.variance, self.fallen = 0, 0.0, 0.0, 0.0
                return True
        self.n += 1
        rate = max(1.0 / self.n, 0.01)
        before = self.mean
        self.mean += rate * (value - before)
        self.variance += rate * ((value - before) * (value - self.mean) - self.variance)
        return False


@stored(
    total=Part(Seen), drift=Part(Drift), n_batches=Count(), n_signals=Count(),
    recent_accuracy=Maybe(Number(0.0, 1.0)), recent_plausibility=Maybe(Number(0.0, 1.0)),
)  # fmt: skip
@dataclass
class Watch:
    """Sums over a whole stream, and averages over the last batches."""

    total: Seen = field(default_factory=Seen)
    drift: Drift = field(default_factory=Drift)
    n_batches: int = 0
    n_signals: int = 0
    recent_accuracy: float | None = None
    recent_plausibility: float | None = None

    def see(self, seen: Seen) -> bool:
        """Add a batch; return True if plausibility has fallen."""
        self.n_batches += 1
        for name, value in asdict(seen).items():
            setattr(self.total, name, getattr(self.total, name) + value)
        if seen.n_tested:
            self.recent_accuracy = _follow(self.recent_accuracy, seen.n_right / seen.n_tested)
        if not seen.n_rows:
            return False
        mean = seen.plausibility / seen.n_rows
        self.recent_plausibility = _follow(self.recent_plausibility, mean)
        signal = self.drift.see(mean)
        self.n_signals += signal
        return signal

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
