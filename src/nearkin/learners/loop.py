"""The learning loop: passes over rows, their triplets in order, and the books that are kept.

A `Lesson` is a generator of triplets that is told how each went; `learn` walks one or many of them side by side. `fit`,
`partial_fit`, `fit_triplets` and `fit_many` are lessons, on the processor or on a device.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nearkin import progress
from nearkin.arrays import Array, Codes, Index
from nearkin.kernels import one_blas_thread
from nearkin.learners.state import State
from nearkin.parameters import NAMELESS
from nearkin.rows import Rows
from nearkin.triplets import Triplets, TripletSource

__all__ = ["Answer", "Lesson", "explicit_lesson", "learn"]

#: Plausibilities of triplets, and how many of them moved the parameter.
Answer = tuple[Array, int]


@dataclass
class Lesson:
    """Passes of one learner over rows.

    Parameters
    ----------
    state : State
        What learns.
    source : TripletSource
        Where triplets come from, started already.
    rows : Rows
        Scaled rows.
    codes : ndarray of int64
        Their classes.
    n_passes : int
        How often to walk through the rows.
    rng : Generator or None
        Draws a new order for every pass; None keeps the order.
    check : callable
        Called after every pass with the parameter, to refuse what grew too large.
    first_pass : int, default=0
        Passes that were done earlier and are not repeated.
    """

    state: State
    source: TripletSource
    rows: Rows
    codes: Codes
    n_passes: int
    rng: np.random.Generator | None
    check: Callable[[Any], None]
    first_pass: int = 0
    n_done: int = 0
    order: Index = field(init=False)
    weight: Array = field(init=False)

    @property
    def n_rows(self) -> int:
        """Rows of all passes."""
        return self.n_passes * len(self.rows)

    @property
    def plausibility(self) -> Array:
        """Smallest weight of each row's triplets in the last pass."""
        found = np.empty(len(self.rows))
        found[self.order] = self.weight
        return found

    def walk(self) -> Generator[Triplets, Answer, None]:
        """Yield the triplets of all passes in order; expect an `Answer` to each."""
        for number in range(self.first_pass, self.n_passes):
            is_shuffled = self.rng is not None
            self.order = self.rng.permutation(len(self.rows)) if self.rng is not None else np.arange(len(self.rows))
            rows = self.rows.reordered(self.order) if is_shuffled else self.rows
            yield from self.walk_pass(rows, self.codes[self.order], number * len(rows))
            if self.source is self.state.source:
                self.state.n_rows += len(rows)
            self.state.forget()
            self.check(self.state.parameter)

    def walk_pass(self, rows: Rows, codes: Codes, done: int) -> Generator[Triplets, Answer, None]:
        """Yield the triplets of one pass over ordered rows, after ``done`` rows of earlier passes."""
        state, source, first = self.state, self.source, self.source.n_rows_seen_
        self.weight = np.ones(len(rows))
        for triplets in source.generate(rows, codes, state):
            triplets = with_classes(triplets, state, codes, first)
            plausibility, n_updates = yield triplets
            source.receive(triplets, plausibility)
            np.minimum.at(self.weight, triplets.row_origin[triplets.anchor] - first, plausibility)
            state.n_triplets += len(triplets)
            state.n_updates += int(n_updates)
            self.n_done = done + source.n_rows_seen_ - first


def learn(lessons: Sequence[Lesson], learn_pieces: Callable[[list[Triplets | None]], Sequence[Answer]]) -> None:
    """Walk lessons side by side.

    Parameters
    ----------
    lessons : sequence of Lesson
        One, or several that learn at the same time.
    learn_pieces : callable
        Learns the next triplets of each lesson, None where a lesson is over, and returns an answer for each.
    """
    total = sum(one.n_rows for one in lessons)
    walks = [one.walk() for one in lessons]
    with one_blas_thread():
        pieces = [next(walk, None) for walk in walks]
        while any(piece is not None for piece in pieces):
            answers = learn_pieces(pieces)
            for i, piece in enumerate(pieces):
                if piece is not None:
                    pieces[i] = _continue(walks[i], answers[i])
            done = sum(one.n_done for one in lessons)
            if done:  # explicit triplets are not counted
                progress.advance("learning", done, total)


def _continue(walk: Generator[Triplets, Answer, None], answer: Answer) -> Triplets | None:
    try:
        return walk.send(answer)
    except StopIteration:
        return None


def with_classes(triplets: Triplets, state: State, codes: Codes, first: int) -> Triplets:
    """Return the triplets with the classes of their anchors, if the parameter learns by class."""
    if not state.parameter.by_class:
        return triplets
    return replace(triplets, classes=codes[triplets.row_origin[triplets.anchor] - first])


class Given(TripletSource):
    """Explicit triplets, the same in every pass."""

    n_rows_seen_ = 0

    def __init__(self, triplets: Triplets):
        self.triplets = triplets

    def generate(self, rows: Rows, codes: Codes, view: Any) -> Any:
        """Yield all of them."""
        yield self.triplets


def explicit_lesson(
    state: State, rows: Rows, roles: tuple[Index, Index, Index], n_passes: int, check: Callable[[Any], None]
) -> Lesson:
    """Lesson of triplets given by their places in rows, the first of which are the anchors in order."""
    at = np.arange(len(rows))
    origin = np.where(at < len(roles[0]), at, -1)
    source = Given(Triplets(rows, rows, *roles, origin, origin))
    return Lesson(state, source, rows, np.full(len(rows), NAMELESS), n_passes, None, check)
