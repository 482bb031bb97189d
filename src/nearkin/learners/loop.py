"""The learning loop: what a learner holds, passes over rows, their triplets in order, and the books that are kept.

A `Lesson` is a generator of triplets that is told how each went; `learn` walks one or many of them side by side. `fit`,
`partial_fit`, `fit_triplets` and `fit_many` are lessons, on the processor or on a device.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nearkin import progress
from nearkin.arrays import Array, Codes, Index
from nearkin.discriminant import Discriminant
from nearkin.kernels import one_blas_thread
from nearkin.labels import Labels, as_labels
from nearkin.parameters import NAMELESS, Parameter
from nearkin.rows import Moments, Rows, Scaling
from nearkin.stored import Count, Maybe, Part, Type, stored
from nearkin.triplets import NeighbourTriplets, Triplets, TripletSource

__all__ = ["Answer", "Lesson", "State", "explicit_lesson", "learn", "merge_states", "one_by_one"]

#: More rows than any stream has.
_NEVER = 2**62

#: Bytes of explicit triplets that are scaled and learned at a time, and the fewest triplets.
_CACHED, _FEWEST = 1 << 22, 64

#: Triplets that cost so much more than to hand a large matrix to compiled code that they are worth more memory, and how
#: many times as much.
_ENOUGH, _AT_MOST = 1024, 16

#: Plausibilities of triplets, and how many of them moved the parameter.
Answer = tuple[Array, int]


@stored(
    scaling=Part(Scaling, d="d", T="T"),
    start=Maybe(Part(Discriminant, d="d", m="r", T="T"), else_equal=("d", "m")),
    parameter=Part(Parameter, m="d", T="T", s=("s", "d")),
    labels=Part(Labels),
    dtype=Type("T"),
    source=Maybe(Part(TripletSource, s="d")),
    moments=Maybe(Part(Moments, d="d")),
    n_rows=Count(),
    n_triplets=Count(),
    n_updates=Count(),
)
@dataclass
class State:
    """Everything learned; replaced as a whole, so that a rejected batch leaves the old one.

    Triplet sources see it as their `View`.
    """

    scaling: Scaling
    parameter: Parameter
    labels: Labels
    dtype: np.dtype
    start: Discriminant | None = None
    source: TripletSource | None = None
    n_rows: int = 0
    n_triplets: int = 0
    n_updates: int = 0
    moments: Moments | None = None  # of a scale that follows

    def check_stored(self) -> None:
        """A start has seen no more rows and forgotten no more classes than there were; neighbours need one."""
        if self.start is None and isinstance(self.source, NeighbourTriplets):
            raise ValueError("triplets of neighbours have no start")
        if self.start is not None and self.start.n_rows > self.n_rows:
            raise ValueError(f"the start has seen {self.start.n_rows} of {self.n_rows} rows")
        if self.start is not None and self.labels.n_forgotten > len(self.start.sample.n_seen):
            raise ValueError(f"{self.labels.n_forgotten} classes are forgotten, more than were seen")

    def scaled(self, X: ArrayLike) -> Array:
        """Bring raw rows to the learner's scale."""
        rows = self.scaling.apply(np.asarray(X, dtype=self.dtype))
        return rows if self.start is None else self.start.place(rows)

    def codes_of(self, labels: ArrayLike) -> Codes:
        """Number labels."""
        return self.labels.encode(as_labels(labels, "OCTG"), "OCTG")

    def placed(self, rows: Rows) -> Rows:
        """Scaled rows as they are learned: after the start's map, if there is one."""
        return rows if self.start is None else rows.placed(self.start.place, len(self.start.map))

    @property
    def n_until_renewal(self) -> int:
        """Rows until the start is renewed."""
        return _NEVER if self.start is None else self.start.next_row - self.start.n_rows

    def observe(self, rows: Rows, codes: Codes) -> None:
        """Let the start see rows that were learned, and renew it where it is time."""
        if self.moments is not None:
            for _, block in rows.blocks():
                self.moments = self.moments.plus(block)
        if self.start is not None:
            self.start = self.start.observe(rows, codes)
            if self.n_until_renewal <= 0:
                self.renew()

    def for_shard(self, number: int) -> None:
        """Go on with a share of the rows, until all shares are merged."""
        assert self.source is not None
        self.source = self.source.for_shard(number)
        if self.start is not None:
            self.start = self.start.for_shard(number)

    def renew(self) -> None:
        """Renew the start, and turn what the source remembers to the new map; a scale that follows changes then."""
        assert self.start is not None
        before, self.start = self.start, self.start.renewed()
        if self.source is not None:
            self.source.turn(self.start.turn_from(before))
        if self.moments is not None:
            self.scaling, ratio, self.moments = self.moments.follow(self.scaling)
            self.start = self.start.rescaled(ratio)

    def copy(self) -> State:
        """Return a state that can learn while this one stays."""
        return State(
            self.scaling, self.parameter.copy(), self.labels.copy(), self.dtype, self.start,
            None if self.source is None else self.source.copy(), self.n_rows, self.n_triplets, self.n_updates,
            self.moments,
        )  # fmt: skip


@dataclass
class Lesson:
    """Passes of one learner over scaled rows and their classes, with triplets from a source that has begun.

    ``rng`` draws a new order for every pass; None keeps the order. ``grown`` makes the error for a parameter that grew
    too large. Passes before ``first_pass`` were done earlier; ``after_pass`` is called after each of the others. What
    is in ``held`` is closed when the lesson ends, however it does.

    ``followers`` learn the same triplets with parameters of their own: learners that differ only in how far a triplet
    moves them, of a source that does not look at what is learned.
    """

    state: State
    source: TripletSource
    rows: Rows
    codes: Codes
    n_passes: int
    rng: np.random.Generator | None
    grown: Callable[[np.dtype], Exception]
    first_pass: int = 0
    after_pass: Callable[[], None] | None = None
    held: ExitStack = field(default_factory=ExitStack)
    followers: list[Lesson] = field(default_factory=list)
    n_done: int = 0
    #: Rows of the call before these, and in all, where a call is learned in pieces.
    n_before: int = 0
    n_in_all: int | None = None
    order: Index = field(init=False)
    weight: Array = field(init=False)
    #: How plausible the source found the labels in the last pass, if what it says stays true after it.
    score: Array | None = field(init=False, default=None)

    @property
    def plausibility(self) -> Array:
        """Smallest weight of each row's triplets in the last pass."""
        return self._in_order(self.weight)

    @property
    def final_plausibility(self) -> Array | None:
        """Plausibility of every label after the last pass; None where rows must be scored again."""
        return None if self.score is None else self._in_order(self.score)

    def _in_order(self, values: Array) -> Array:
        found = np.empty(len(self.rows))
        found[self.order] = values
        return found

    def follow(self) -> Lesson:
        """Return a lesson that learns what this one does; it must not have begun."""
        one = replace(self, state=self.state.copy(), followers=[])
        self.followers.append(one)
        return one

    @property
    def pupils(self) -> list[Lesson]:
        """Lessons that learn together: this one and those that follow it."""
        return [self, *self.followers]

    def walk(self) -> Generator[Triplets, Sequence[Answer], None]:
        """Yield the triplets of all passes in order; expect the `Answer` of every pupil to each."""
        is_own = self.source is self.state.source
        for number in range(self.first_pass, self.n_passes):
            rows, self.order = self.rows, np.arange(len(self.rows))
            if self.rng is not None:
                self.order = self.rng.permutation(len(rows))
                rows = rows.reordered(self.order)
            yield from self.walk_pass(rows, self.codes[self.order], number * len(rows))
            for one in self.pupils:
                one.order = self.order
                one.state.n_rows += len(rows) if is_own else 0
                if (living := self.source.living) is not None:
                    one.state.labels.keep(living)  # the source has given up the other classes
                if (dtype := one.state.parameter.find_overflow()) is not None:
                    raise one.grown(dtype)
            if self.after_pass is not None:
                self.after_pass()
        for one in self.followers if is_own else ():
            one.state.source = self.source.copy()

    def walk_pass(self, rows: Rows, codes: Codes, done: int) -> Generator[Triplets, Sequence[Answer], None]:
        """Yield the triplets of one pass over ordered rows, after ``done`` rows of earlier passes."""
        state, source, first = self.state, self.source, self.source.n_rows_seen_
        for one in self.pupils:
            one.weight, one.score = np.ones(len(rows)), None
        for triplets in source.generate(rows, codes, state):
            if state.parameter.by_class:
                triplets = with_classes(triplets, codes, first)
            answers = yield triplets
            source.receive(triplets, answers[0][0])
            for one, answer in zip(self.pupils, answers, strict=True):
                one.note(triplets, answer, first)
            self.n_done = done + source.n_rows_seen_ - first

    def note(self, triplets: Triplets, answer: Answer, first: int) -> None:
        """Keep the books: triplets of a pass that began at the row of number ``first``, and how they went."""
        plausibility, n_updates = answer
        if triplets.row_weight is None:
            np.minimum.at(self.weight, triplets.row_origin[triplets.anchor] - first, plausibility)
        else:
            self.weight[triplets.row_origin - first] = triplets.row_weight
        if triplets.row_score is not None:
            self.score = np.empty(len(self.rows)) if self.score is None else self.score
            self.score[triplets.row_origin - first] = triplets.row_score
        self.state.n_triplets += len(triplets)
        self.state.n_updates += int(n_updates)


def one_by_one(work: Callable[[Any], Any], parts: Iterable[Any]) -> list[Any]:
    """Work on parts in order, as a pool of threads does at the same time."""
    return [work(part) for part in parts]


def learn(
    lessons: Sequence[Lesson],
    learn_pieces: Callable[[list[Triplets | None]], Sequence[Sequence[Answer]]],
    run: Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]] | None = None,
) -> None:
    """Walk lessons side by side.

    ``learn_pieces`` learns the next triplets of each, None where a lesson is over, and returns the answers of its
    pupils for each. ``run`` may find the next triplets of several lessons at the same time.
    """
    run = run or one_by_one
    total = sum(one.n_in_all or one.n_passes * len(one.rows) for one in lessons)
    walks = [one.walk() for one in lessons]

    def go_on(step: tuple[Generator[Triplets, Sequence[Answer], None], Any]) -> Triplets | None:
        walk, answers = step
        try:
            return walk.send(answers)
        except StopIteration:
            return None

    with one_blas_thread():
        pieces = run(go_on, [(walk, None) for walk in walks])
        while any(piece is not None for piece in pieces):
            answers = learn_pieces(pieces)
            living = [i for i, piece in enumerate(pieces) if piece is not None]
            for i, piece in zip(living, run(go_on, [(walks[i], answers[i]) for i in living]), strict=True):
                pieces[i] = piece
            done = sum(one.n_done and one.n_before + one.n_done for one in lessons)
            if done:  # explicit triplets are not counted
                progress.advance("learning", done, total)


def with_classes(triplets: Triplets, codes: Codes, first: int) -> Triplets:
    """Return the triplets with the classes of their anchors, for a parameter that learns by class."""
    return replace(triplets, classes=codes[triplets.row_origin[triplets.anchor] - first])


class Given(TripletSource):
    """Explicit triplets, the same in every pass.

    Parameters
    ----------
    size : int
        Their number.
    members : list
        Members of the triplets: scaled rows of all, or arrays of as many raw rows as there are triplets.
    roles : tuple of ndarray of int64 of shape (size,) or None
        Places of anchors, positives and negatives among all rows of all members. In every member, triplet t has row t.
        None if the members are the anchors, the positives and the negatives.
    scale : callable or None, default=None
        Makes `Rows` of raw rows, of which the first has the given number. Then triplets are scaled as they are learned,
        as many at a time as stay in the cache.
    """

    n_rows_seen_ = 0

    def __init__(self, size: int, members: list[Any], roles: tuple[Index, Index, Index] | None, scale: Any = None):
        self.size, self.members, self.roles, self.scale = size, members, roles, scale

    def generate(self, rows: Rows, codes: Codes, view: Any) -> Any:
        """Yield all of them in order."""
        if self.scale is None:
            assert self.roles is not None
            origin = np.arange(len(self.members[0]))
            origin[self.size :] = -1
            yield Triplets(self.members[0], self.members[0], *self.roles, origin, origin)
            return
        size = max(1, sum(one[:1].nbytes for one in self.members))
        step = max(_FEWEST, _CACHED // size, min(_ENOUGH, _AT_MOST * _CACHED // size))
        for start in range(0, self.size, step):
            stop = min(self.size, start + step)
            if self.roles is None:
                anchors, positives, negatives = (self.scale(one[start:stop], start) for one in self.members)
                at = np.arange(stop - start)
                nowhere = np.full(len(at), -1)
                yield Triplets(anchors, positives, at, at, at, at + start, nowhere, others=negatives)
                continue
            some = Rows(np.concatenate([self.scale(one[start:stop], start).dense for one in self.members]))
            # Row t of member k has the place k n + t, where n is the number of triplets.
            left_out = self.size - (stop - start)
            anchor, positive, negative = (
                at[start:stop] - start - at[start:stop] // self.size * left_out for at in self.roles
            )
            origin = np.full(len(some), -1)
            origin[: stop - start] = np.arange(start, stop)
            yield Triplets(some, some, anchor, positive, negative, origin, origin)


def explicit_lesson(state: State, source: Given, n_passes: int, grown: Callable[[np.dtype], Exception]) -> Lesson:
    """Lesson of explicit triplets; its weights are those of the anchors."""
    anchors = Rows(np.empty((source.size, 0)))
    return Lesson(state, source, anchors, np.full(source.size, NAMELESS), n_passes, None, grown)


def merge_states(base: State, shards: Sequence[State]) -> State:
    """Merge the states of shards of the rows, each of which began with ``base``.

    The metric is the mean of the shards' metrics, weighted by the triplets each has learned; counters add up. The order
    of the shards is part of the result: the same shards in the same order give the same bits. Nothing is changed, and
    the result shares nothing that learning would write to. Shards of equal metrics have that metric as their mean, to
    the bit. A class that several shards have met for the first time is one class, numbered by the first of them.
    """
    if len(shards) == 1:
        return shards[0].copy()
    shards = [one for one in shards if one.n_rows > base.n_rows]
    if not shards:
        return base.copy()
    labels, codes = _unite(base.labels, [one.labels for one in shards])
    scaling = base.scaling.merged([one.scaling for one in shards])
    merged = State(scaling, _merge_parameters(base, shards), labels, base.dtype)
    if base.start is not None:
        starts = [one.start for one in shards if one.start is not None]
        merged.start = base.start.merged(starts, codes, labels.n_given)
    if base.moments is not None:
        merged.moments = base.moments.merged([one.moments for one in shards if one.moments is not None])
    for counter in ("n_rows", "n_triplets", "n_updates"):
        before = getattr(base, counter)
        setattr(merged, counter, before + sum(getattr(one, counter) - before for one in shards))
    assert base.source is not None
    merged.source = base.source.merged([one.source for one in shards if one.source is not None], codes, merged)
    if (living := merged.source.living) is not None:
        labels.keep(living)
    if merged.n_until_renewal <= 0:
        merged.renew()
    return merged


def _merge_parameters(base: State, shards: Sequence[State]) -> Parameter:
    """Weighted mean; shards without a triplet have learned nothing and do not count."""
    counted = [one for one in shards if one.n_triplets > base.n_triplets]
    if not counted:
        return base.parameter.copy()
    weights = [float(one.n_triplets - base.n_triplets) for one in counted]
    return base.parameter.merge([one.parameter for one in counted], weights)


def _unite(base: Labels, shards: Sequence[Labels]) -> tuple[Labels, list[Codes]]:
    """All labels, new ones in the order of the shards; and for every shard the new number of each of its numbers."""
    labels = base.copy()
    for one in shards:
        for label in one.codes:
            labels.add(label)
    codes = []
    for one in shards:
        table = np.arange(one.n_given)  # classes that were forgotten keep their numbers
        for label, code in one.codes.items():
            table[code] = labels.codes[label]
        codes.append(table)
    return labels, codes
