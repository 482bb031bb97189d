"""The contract of a triplet source: labelled rows in, triplets out."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_X_y

from nearkin.arrays import Array, Codes, Index
from nearkin.errors import InputError
from nearkin.kernels import TripletRows
from nearkin.kernels.neighbours import FEW
from nearkin.measures import DISTANCE, SIMILARITY, Measure
from nearkin.rows import Rows, check_finite
from nearkin.settings import check_settings, generator
from nearkin.stored import Count, Draws, stored

__all__ = ["Metric", "NoisyRoles", "PlainView", "TripletSource", "Triplets", "View", "as_source"]

#: Triplets whose vectors are gathered at once, and most numbers that their anchors may take.
_GATHER = 4096
_GATHER_NUMBERS = 1 << 20


class NoisyRoles(NamedTuple):
    """Which triplets have a wrongly labelled anchor, positive or negative (Figure 7 of the paper).

    Parameters
    ----------
    anchor, positive, negative : ndarray of bool of shape (n_triplets,)
        Whether the row in this role is wrongly labelled.

    Examples
    --------
    >>> roles = NoisyRoles(np.array([True, False]), np.array([False, False]), np.array([False, False]))
    >>> roles.any.tolist()
    [True, False]
    """

    anchor: NDArray[np.bool_]
    positive: NDArray[np.bool_]
    negative: NDArray[np.bool_]

    @property
    def any(self) -> NDArray[np.bool_]:
        """Noisy in some role."""
        return self.anchor | self.positive | self.negative


@dataclass(frozen=True)
class Triplets:
    """Triplets ``(rows[anchor], pool[positive], pool[negative])``.

    Parameters
    ----------
    rows : Rows
        The batch whose rows are anchors.
    pool : Rows
        Where positives and negatives come from: the batch itself, remembered rows, or centres.
    anchor, positive, negative : ndarray of shape (n_triplets,)
        Indices into ``rows``, ``pool`` and ``pool``.
    row_origin, pool_origin : ndarray of int64
        Number of the stream's row behind every member; -1 for a centre.
    classes : ndarray of int64 of shape (n_triplets,) or None, default=None
        Class of every anchor as the learner numbers it, for parameters that learn by class.
    row_weight : ndarray of shape (n_rows,) or None, default=None
        How plausible the source found the label of each row, where it looks at that.
    row_score : ndarray of shape (n_rows,) or None, default=None
        The same as `TripletSource.score` would find it, where learning does not change that.
    others : Rows or None, default=None
        Where negatives come from, if not from ``pool``.

    Examples
    --------
    >>> from nearkin.triplets import OCTG
    >>> triplets = OCTG().build([[0.0], [0.2], [1.0], [1.2]], ["a", "a", "b", "b"])
    >>> len(triplets), triplets.noisy_roles([False, True, False, False]).anchor.tolist()
    (2, [True, False])
    """

    rows: Rows
    pool: Rows
    anchor: Index
    positive: Index
    negative: Index
    row_origin: Index
    pool_origin: Index
    classes: Index | None = None
    row_weight: Array | None = None
    row_score: Array | None = None
    others: Rows | None = None

    def __len__(self) -> int:
        return len(self.anchor)

    @property
    def are_few(self) -> bool:
        """Whether so few witnesses are in them that learning takes less time than compiling a loop for it.

        A stream soon has more, whatever its batches; and of a source without witnesses, more may come at any time.
        """
        return self.row_weight is not None and len(self.pool) <= FEW

    @property
    def negatives(self) -> Rows:
        """Where negatives come from."""
        return self.pool if self.others is None else self.others

    def vectors(self) -> Iterator[tuple[slice, TripletRows]]:
        """Pieces of the triplets with their dense vectors; a single piece without copies when all is dense."""
        if self.rows.is_dense and self.pool.is_dense and self.negatives.is_dense:
            members = self.rows.dense, self.pool.dense, self.negatives.dense
            rows = TripletRows(*members, self.anchor, self.positive, self.negative)
            yield slice(0, len(self)), rows
            return
        step = self._step
        for start in range(0, len(self), step):
            part = slice(start, min(len(self), start + step))
            here = np.arange(part.stop - part.start)
            members = (
                self.rows.take(self.anchor[part]),
                self.pool.take(self.positive[part]),
                self.negatives.take(self.negative[part]),
            )
            yield part, TripletRows(*members, here, here, here)

    @property
    def _step(self) -> int:
        return max(1, min(_GATHER, _GATHER_NUMBERS // max(1, self.rows.n_features)))

    def of(self, rows: Array, pool: Array, others: Array | None = None) -> Triplets:
        """The same triplets of other vectors, given for every row and every member of the pool, and of others."""
        return replace(self, rows=Rows(rows), pool=Rows(pool), others=None if others is None else Rows(others))

    def directions(self, measure: Measure) -> Iterator[tuple[slice, Array, Array]]:
        """Pieces of the triplets with the vectors ``g`` and ``h`` of `nearkin.measures`."""
        for part, v in self.vectors():
            for start in range(0, part.stop - part.start, self._step):
                inner = slice(start, min(part.stop - part.start, start + self._step))
                members = v.anchors[v.anchor[inner]], v.positives[v.positive[inner]], v.negatives[v.negative[inner]]
                yield slice(part.start + inner.start, part.start + inner.stop), *measure.directions(*members)

    def margins(self, measure: Measure = DISTANCE) -> Array:
        """``z`` of every triplet under the measure before learning (M the identity)."""
        z = np.empty(len(self))
        for part, g, h in self.directions(measure):
            z[part] = (g * h).sum(axis=1)
        return z

    def noisy_roles(self, is_noisy: ArrayLike) -> NoisyRoles:
        """Which roles are played by wrongly labelled rows.

        Parameters
        ----------
        is_noisy : array-like of bool of shape (n_rows_of_the_stream,)
            Whether the label of each row is wrong.
        """
        noisy = np.append(np.asarray(is_noisy, dtype=bool), False)  # the last entry answers for centres (-1)
        pool = noisy[self.pool_origin]
        return NoisyRoles(noisy[self.row_origin[self.anchor]], pool[self.positive], pool[self.negative])

    @classmethod
    def join(cls, parts: Sequence[Triplets]) -> Triplets:
        """One set from several; vectors are gathered, so this is for looking at triplets, not for learning."""
        rows = [np.concatenate([block for _, block in part.rows.blocks()]) for part in parts]
        pool = [np.concatenate([block for _, block in part.pool.blocks()]) for part in parts]
        row_start = np.cumsum([0, *map(len, rows)])[:-1]
        pool_start = np.cumsum([0, *map(len, pool)])[:-1]
        return cls(
            Rows(np.concatenate(rows)),
            Rows(np.concatenate(pool)),
            np.concatenate([t.anchor + s for t, s in zip(parts, row_start, strict=True)]),
            np.concatenate([t.positive + s for t, s in zip(parts, pool_start, strict=True)]),
            np.concatenate([t.negative + s for t, s in zip(parts, pool_start, strict=True)]),
            np.concatenate([t.row_origin for t in parts]),
            np.concatenate([t.pool_origin for t in parts]),
        )


class Metric(Protocol):
    """The metric of a learner as a source sees it; all rows are scaled."""

    measure: Measure

    def scores(self, left: Array, right: Array) -> Array:
        """Score all pairs; larger is closer."""

    def anchor_scores(self, anchors: Array, codes: Codes, others: Array) -> Array:
        """Score all pairs of anchors of known classes with other rows."""

    def copy(self) -> Metric:
        """Return the metric as it is now, which later learning does not change."""


class View(Protocol):
    """What a source sees of the learner it feeds.

    Examples
    --------
    >>> view = PlainView(DISTANCE)  # of no learner at all
    >>> scores = view.parameter.scores(np.array([[0.0]]), np.array([[2.0]]))
    >>> view.codes_of(["b", "a", "b"]).tolist(), scores.tolist()
    ([0, 1, 0], [[-4.0]])
    """

    @property
    def parameter(self) -> Metric:
        """The metric learned so far."""

    def scaled(self, X: ArrayLike) -> Array:
        """Bring raw rows to the learner's scale."""

    @property
    def start(self) -> Any:
        """The discriminant start (`nearkin.discriminant`), if the learner has one."""

    def codes_of(self, labels: ArrayLike) -> Codes:
        """Number labels; new ones get new numbers."""


class PlainView:
    """A view without a learner, and its own metric: no scaling, nothing learned."""

    start = None

    def __init__(self, measure: Measure):
        self.measure, self.scores = measure, measure.scores
        self.classes: dict[Any, int] = {}

    @property
    def parameter(self) -> Metric:
        """The identity."""
        return self

    def anchor_scores(self, anchors: Array, codes: Codes, others: Array) -> Array:
        """Score under the identity; classes do not matter."""
        return self.scores(anchors, others)

    def copy(self) -> Metric:
        """Return itself: nothing is learned here."""
        return self

    def scaled(self, X: ArrayLike) -> Array:
        """Return the rows as they are."""
        return np.asarray(X)

    def codes_of(self, labels: ArrayLike) -> Codes:
        """Number labels by first appearance."""
        one = [self.classes.setdefault(label, len(self.classes)) for label in np.asarray(labels).tolist()]
        return np.asarray(one, dtype=np.int64)


#: Sources by the names that settings use.
_BY_NAME: dict[str, type[TripletSource]] = {}


def as_source(triplets: str | TripletSource) -> TripletSource:
    """Fresh source from what the learners take as their ``triplets``: a name, or an instance, which is not touched.

    Examples
    --------
    >>> as_source("octg")
    OCTG()
    """
    if isinstance(triplets, TripletSource):
        return clone(triplets)
    if isinstance(triplets, str) and triplets in _BY_NAME:
        return _BY_NAME[triplets]()
    raise InputError(
        f"parameter `triplets` must be {', '.join(map(repr, _BY_NAME))} or a TripletSource; got {triplets!r}."
    )


@stored(n_rows_seen_=Count(), rng_=Draws())
class TripletSource(BaseEstimator):
    """Base of all sources: settings in the constructor, state in attributes that end in an underscore.

    A learner calls `begin` with its first batch, then for every batch iterates over `generate` and tells the source
    with `receive` how plausible each triplet was before it asks for the next piece. Labels arrive as whole numbers
    in order of first appearance, so nothing can depend on their names.

    To write your own: derive, implement `generate` (number the rows of every piece with `number_rows`), and `start` and
    `receive` if there is something to remember.

    Examples
    --------
    A source that pairs every row with the row before it, when the two have the same label, against the last row of
    another label:

    >>> class Runs(TripletSource):
    ...     def generate(self, rows, codes, view):
    ...         found = [
    ...             (i, i - 1, max(np.flatnonzero(codes[:i] != codes[i])))
    ...             for i in range(1, len(rows))
    ...             if codes[i] == codes[i - 1] and (codes[:i] != codes[i]).any()
    ...         ]
    ...         anchor, positive, negative = np.array(found, dtype=np.int64).reshape(-1, 3).T.copy()
    ...         origin = self.number_rows(len(rows))
    ...         yield Triplets(rows, rows, anchor, positive, negative, origin, origin)
    >>> triplets = Runs().build([[0.0], [1.0], [1.1], [0.1], [0.2]], ["a", "b", "b", "a", "a"])
    >>> list(zip(triplets.anchor.tolist(), triplets.positive.tolist(), triplets.negative.tolist()))
    [(2, 1, 0), (4, 3, 2)]
    """

    n_rows_seen_: int

    #: Classes that must be known before anything can be learned.
    n_classes_needed: int = 2

    #: Whether triplets depend on the metric learned so far.
    watches_metric: bool = False

    @property
    def heeds_answers(self) -> bool:
        """Whether triplets depend on what is learned in any way; then learners cannot share them."""
        return self.watches_metric or type(self).receive is not TripletSource.receive

    def __init_subclass__(cls, name: str = "", **more: Any):
        """Let settings call the class by a name."""
        super().__init_subclass__(**more)
        if name:
            _BY_NAME[name] = cls

    def begin(self, rows: Rows, codes: Codes, view: View, rng: np.random.Generator) -> None:
        """Begin a stream with its first batch."""
        check_settings(self)
        self.n_rows_seen_, self.rng_ = 0, rng
        self.start(rows, codes, view, rng)

    def start(self, rows: Rows, codes: Codes, view: View, rng: np.random.Generator) -> None:
        """Prepare what the source remembers, from the first batch."""

    def rescale(self, view: View) -> None:
        """Hear that columns vary from now on that were constant; rows remembered are right, raw ones scale anew."""

    def turn(self, matrix: Array) -> None:
        """Hear that the map to the learner's features has changed: those of rows remembered become ``matrix @ x``."""

    def generate(self, rows: Rows, codes: Codes, view: View) -> Iterator[Triplets]:
        """Pieces of the triplets of a batch, in the order in which they are to be learned."""
        raise TypeError(f"{type(self).__name__} must implement generate().")

    def receive(self, triplets: Triplets, plausibility: Array) -> None:
        """Hear how plausible the triplets just yielded were; most sources do not care."""

    def probe(self, rows: Rows, codes: Codes, view: View) -> Iterator[Triplets]:
        """Triplets that ask how plausible labelled rows are; the source stays as it is."""
        return self.copy().generate(rows, codes, view)

    def score(self, rows: Rows, codes: Codes, view: View, judge: Callable[[Triplets], Array]) -> Array:
        """Plausibility of labelled rows: the smallest of their triplets', as ``judge`` finds them."""
        weight, first = np.ones(len(rows)), self.n_rows_seen_
        for triplets in self.probe(rows, codes, view):
            np.minimum.at(weight, triplets.row_origin[triplets.anchor] - first, judge(triplets))
        return weight

    def copy(self) -> TripletSource:
        """A source that can go on while this one stays as it is."""
        return copy.deepcopy(self)

    @property
    def living(self) -> Codes | None:
        """Classes that are remembered, if others are not; None if none is ever forgotten."""
        return None

    def for_shard(self, number: int) -> TripletSource:
        """A copy that goes on with a share of the rows; its draws are its own, those of share 0 are this source's."""
        one = self.copy()
        one.rng_ = copy.deepcopy(self.rng_)
        if number:
            one.rng_ = np.random.default_rng([*copy.deepcopy(self.rng_).integers(2**63, size=2).tolist(), number])
        return one

    def merged(self, shards: Sequence[TripletSource], codes: Sequence[Codes], view: View) -> TripletSource:
        """A source that has seen the rows of all shares, each of which began as a copy of this one.

        ``codes`` holds for every share the number of each of its classes from now on; ``view`` is the merged learner's.
        """
        one = shards[0].copy()
        one.n_rows_seen_ = self.n_rows_seen_ + sum(other.n_rows_seen_ - self.n_rows_seen_ for other in shards)
        return one

    def build(
        self, X: ArrayLike, y: ArrayLike, *, measure: str = "distance", random_state: int | None = None
    ) -> Triplets:
        """All triplets of labelled rows, for looking at them (Table 1 of the paper); learners do not need this.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows on the scale on which the margin is meant.
        y : array-like of shape (n_samples,)
            Labels.
        measure : {"distance", "similarity"}, default="distance"
            What nearness means.
        random_state : int or None
            Seed.

        Returns
        -------
        Triplets
            With `margins` and `noisy_roles` to count and weigh them.
        """
        names = getattr(X, "columns", None)
        X, y = check_X_y(X, y, dtype=[np.float64, np.float32], ensure_all_finite=False)
        check_finite(X, self, names)
        view = PlainView(DISTANCE if measure == "distance" else SIMILARITY)
        rows, codes = Rows(X), view.codes_of(y)
        self.begin(rows, codes, view, generator(random_state))
        parts = []
        for part in self.generate(rows, codes, view):
            self.receive(part, np.ones(len(part)))
            parts.append(part)
        if not parts:
            none = np.empty(0, dtype=np.int64)
            return Triplets(rows, rows, none, none, none, np.arange(len(rows)), np.arange(len(rows)))
        return Triplets.join(parts)

    def number_rows(self, n: int) -> Codes:
        """Count the next n rows as seen and return their numbers in the stream.

        `generate` calls this for the rows behind every piece before it yields it.
        """
        first = self.n_rows_seen_
        self.n_rows_seen_ += n
        return np.arange(first, first + n)
