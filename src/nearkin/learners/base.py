"""The shell of all learners: it validates, hands triplets to a parameter, and stores what was learned.

What is learned lives in `nearkin.parameters`, what it is learned from in `nearkin.triplets`, how in `loop`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from nearkin import progress
from nearkin.accelerator import find
from nearkin.arrays import Array, Codes, Index
from nearkin.discriminant import Discriminant
from nearkin.errors import InputError
from nearkin.kernels import one_blas_thread
from nearkin.labels import Labels, as_labels, check_labels
from nearkin.learners.loop import Given, Lesson, State, explicit_lesson, learn, with_classes
from nearkin.learners.sharing import Shelf
from nearkin.losses import Loss, as_loss
from nearkin.measures import Measure
from nearkin.memory import check_memory
from nearkin.parameters import LearningRule, Parameter
from nearkin.rows import (
    Change,
    Moments,
    MovingScale,
    Rows,
    Scaling,
    check_finite,
    check_range,
    check_rows,
    is_plain,
)
from nearkin.settings import all_or_nothing, at_one_moment, check_settings, generator
from nearkin.stored import ArrayOf, Part, stored
from nearkin.tables import encode_rows
from nearkin.triplets import Triplets, TripletSource, as_source

__all__ = ["OnlineLearner"]

#: Bytes that are there wherever anything runs.
_ALWAYS_FITS = 1 << 27

#: Triplets of a row by default.
_STEPS_OF_ROW = 6

#: Rows that a learner begins with that begins alike with any.
_FEW = 64

#: Settings that say how far a triplet moves a learner, not which triplets there are. A discriminant start weighs rows
#: by the loss, so there ``eta`` is not one of them.
_OF_STEPS = ("C", "hq", "max_hq_iter", "rescore")


@stored(
    together=("state_", "n_features_in_"), state_=Part(State, d="d"), plausibility_=ArrayOf(None, low=0.0, high=1.0)
)
class OnlineLearner(BaseEstimator):
    """Base of the learners; a learner adds its settings, its measure and `_begin`, which makes its parameter.

    Examples
    --------
    >>> from nearkin.learners import RobustODML
    >>> isinstance(RobustODML(), OnlineLearner)
    True
    """

    fitted = """
    plausibility_ : ndarray of shape (n_samples,)
        How plausible the label of each row of the last `fit` is, in (0, 1].
    classes_ : ndarray
        Classes met so far.
    scaling_ : Scaling
        What was learned about scale at the first batch, and of columns that vary only later.
    triplet_source_ : TripletSource
        With its centres or remembered rows. Witnesses of triplets of neighbours belong to the start, ``state_.start``.
    n_features_in_, n_rows_seen_, n_triplets_seen_, n_updates_ : int
        Counters.
    """

    measure: ClassVar[Measure]
    #: What ``C="auto"`` is without a discriminant start.
    C_from_identity: ClassVar[float] = 0.1
    #: Matrices of features by features that are held while learning, and what to do where memory is short.
    n_matrices: ClassVar[float] = 0.0
    remedy: ClassVar[str] = "Use a low-rank learner, such as RobustLODML, or reduce the features first."
    lesson_kind: ClassVar[type[Lesson]] = Lesson

    # Settings that every learner has, declared by its groups of settings.
    C: Any  # a number, or "auto" of those that may have a start
    loss: str | Loss
    eta: float
    max_hq_iter: int
    triplets: str | TripletSource
    n_epochs: int
    shuffle: bool
    scale: str | MovingScale | None
    rescore: bool
    random_state: Any
    device = "cpu"  # a setting of those that can learn elsewhere

    state_: State
    plausibility_: Array

    def _begin(self, rows: Rows, rng: np.random.Generator) -> Parameter:
        """Make the parameter before the first triplet from the scaled first batch."""
        raise TypeError(f"{type(self).__name__} must implement _begin().")

    def _begins_alike(self, d: int) -> bool:
        """Whether `_begin` makes the same of any rows with d features, and draws nothing."""
        return False

    def _memory_for(self, d: int, itemsize: int) -> float:
        """Bytes that learning d features takes beside the rows: what is kept, and a copy to work on."""
        return self.n_matrices * d**2 * itemsize

    def _seconds_of_step(self, d: int) -> float:
        """Seconds of one core that a step takes, where they grow with the square of the features; else 0."""
        return 3e-11 * self.n_matrices * d**2

    def _foretell(self, n_rows: int, d: int) -> None:
        """Say before a fit that takes long that this is because of the features."""
        seconds = self.n_epochs * n_rows * _STEPS_OF_ROW * self._seconds_of_step(d) if self.device == "cpu" else 0.0
        why = "A step grows with the square of the features; that of RobustLODML does not."
        progress.foretell(f"{type(self).__name__}: {n_rows:,} rows of {d:,} features", seconds, why)

    @property
    def half_life(self) -> float | None:
        """Rows of a stream after which older ones count half, if the scale follows it."""
        return self.scale.half_life if isinstance(self.scale, MovingScale) else None

    # ------------------------------------------------------------------ learning

    @all_or_nothing
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn from labelled rows, forgetting everything learned before.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Raw features; float32 stays float32.
        y : array-like of shape (n_samples,)
            Labels of any hashable kind, some of which may be wrong.

        Returns
        -------
        self
            The fitted learner, with `plausibility_` for these rows.
        """
        lesson = self.begin_lesson(X, y)
        with lesson.held, one_blas_thread():
            self._learn(lesson)
            self.end_lesson(lesson)
        return self

    @all_or_nothing
    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn from the next labelled rows of a stream, once and in the order given.

        The first call fixes what needs a batch: the scale, and centres where triplets need them. A discriminant start
        begins with it and is renewed as rows come, at row numbers that do not depend on later batches. So feeding the
        same rows in other chunks afterwards gives the same model up to rounding. Columns that are constant in the first
        batch get their scale when they vary, at the next row whose number is a multiple of 64. A batch that raises
        changes nothing; threads take turns.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Raw features.
        y : array-like of shape (n_samples,)
            Labels; a class may appear here for the first time.
        classes : array-like or None, default=None
            At the first call: all classes there will be. Labels outside are then refused. Needed only if the first
            batch holds a single class.

        Returns
        -------
        self
            `plausibility_` then holds the weights with which these rows were learned.
        """
        self._check_settings()
        first, name = not self._is_begun, type(self).__name__
        if first or self.state_.source is None:  # nothing is drawn later
            rng = generator(self.random_state)
        X = self.check_rows(X, reset=first)
        y = check_labels(y, X.shape[0], name)
        declared = None if classes is None else as_labels(classes, name).tolist()
        if first:
            labels = Labels(declared)
            state, rows = self._first_state(X, rng, labels, labels.encode(y, name))
            pieces: Iterable[tuple[slice, Rows]] = [(slice(0, len(y)), rows)]
        else:
            state = self.state_.copy()
            if declared is not None:
                state.labels.check_declared(declared, name)
            pieces = self._pieces(state, X)
        weights = []
        with one_blas_thread():
            for part, rows in pieces:
                codes = state.labels.encode(y[part], name)
                placed = rows if first else state.placed(rows)
                source = state.source or self._start_source(state, placed, codes, rng)
                lesson = self.lesson_kind(state, source, placed, codes, 1, None, self._growth)
                lesson.n_before, lesson.n_in_all = part.start, len(y)
                self._learn(lesson)
                weights.append(lesson.weight)
                if not first:
                    state.observe(rows, codes)
        self.__dict__.update(state_=state, plausibility_=np.concatenate(weights))  # at once, for threads that read it
        return self

    @all_or_nothing
    def fit_triplets(self, anchors: ArrayLike, positives: ArrayLike, negatives: ArrayLike) -> Self:
        """Learn from explicit triplets in the order given, forgetting everything learned before.

        Parameters
        ----------
        anchors, positives, negatives : array-like or CSR matrix of shape (n_triplets, n_features)
            Row t says: ``anchors[t]`` should be closer to ``positives[t]`` than to ``negatives[t]``.

        Returns
        -------
        self
            `plausibility_` holds one number per triplet.
        """
        self._forget()
        return self._learn_triplets(anchors, positives, negatives, self.n_epochs)

    @all_or_nothing
    def partial_fit_triplets(self, anchors: ArrayLike, positives: ArrayLike, negatives: ArrayLike) -> Self:
        """Learn from the next explicit triplets of a stream, once and in the order given; see `fit_triplets`."""
        return self._learn_triplets(anchors, positives, negatives, 1)

    def _learn_triplets(self, anchors: ArrayLike, positives: ArrayLike, negatives: ArrayLike, n_passes: int) -> Self:
        self._check_settings()
        members = self._check_members(anchors, positives, negatives)
        sizes = [one.shape[0] for one in members]
        if len(set(sizes)) > 1:
            raise InputError(f"anchors, positives and negatives must have equally many rows; got {sizes}.", owner=self)
        return self._learn_among(members, None, n_passes)

    def _check_members(self, *members: ArrayLike) -> list[Any]:
        """Validate the rows of explicit triplets; the first of them say how many features there are.

        Of plain arrays the numbers are looked at when they are learned, so that they come from memory once.
        """
        first = not self._is_begun
        is_own = type(self).check_rows is not OnlineLearner.check_rows  # which may take more than arrays, or less
        if not is_own and all(self._is_plain(one, members[0]) for one in members):
            if first:
                self.__dict__.pop("encoder_", None)
                self.n_features_in_ = members[0].shape[1]  # type: ignore[union-attr]
            return list(members)
        checked = [self.check_rows(one, reset=first and i == 0) for i, one in enumerate(members)]
        widest = np.result_type(*(one.dtype for one in checked))
        return [one.astype(widest, copy=False) for one in checked]

    def _is_plain(self, X: Any, like: Any) -> bool:
        """Whether rows need no check but that of their numbers, and are of the kind of other rows."""
        known = vars(self)
        if "feature_names_in_" in known or not is_plain(X, self._dtypes(False)) or not is_plain(like, X.dtype):
            return False
        return bool(X.shape[1] == (self.n_features_in_ if self._is_begun else like.shape[1]))

    def _learn_among(self, members: list[Any], roles: tuple[Index, Index, Index] | None, n_passes: int) -> Self:
        """Learn triplets given by their places in the rows of all members, the first of which hold the anchors.

        Without places, triplet t has row t of each of three members.
        """
        n, is_dense = int(members[0].shape[0]), not any(sparse.issparse(one) for one in members)
        rng = None if self._is_begun else generator(self.random_state)
        state = self.state_.copy() if rng is None else self._begin_alike(members[0], rng) if is_dense else None
        if state is not None and state.scaling.late is None and is_dense:
            source = Given(n, members, roles, partial(self._look_and_scale, state))
        else:
            for one in members:
                check_finite(one, self)
            together = _stack(*members)
            if rng is not None:
                state, rows = self._first_state(together, rng, Labels())
            else:
                assert state is not None
                rows = state.placed(self._rows_at_once(state, together))
            at = np.arange(n)
            source = Given(n, [rows], roles or (at, at + n, at + 2 * n))
        lesson = explicit_lesson(state, source, n_passes, self._growth)
        self._learn(lesson)
        self.__dict__.update(state_=state, plausibility_=lesson.weight[:n])
        return self

    def _begin_alike(self, X: Array, rng: np.random.Generator) -> State | None:
        """State before the first triplet where all rows do not say more than a few; else None."""
        if self.scale is not None or self.device != "cpu" or not self._begins_alike(X.shape[1]):
            return None
        check_finite(X[:_FEW], self)
        return self._first_state(X[:_FEW], rng, Labels())[0]  # a column that varies among these varies among all

    def _look_and_scale(self, state: State, X: Array, first: int) -> Rows:
        """Scale rows at whose numbers nobody has looked; what is not finite before stays so, and is refused."""
        try:
            return state.placed(self._scale(X, state.scaling, first))
        except InputError:
            check_finite(X, self, first=first)
            raise

    def begin_lesson(self, X: ArrayLike, y: ArrayLike | None) -> Lesson:
        """Check labelled rows and prepare to learn them from nothing, as `fit` and `fit_many` do."""
        self._check_settings()
        rng = generator(self.random_state)
        X = self.check_rows(X, reset=True)
        labels = Labels()
        codes = labels.encode(check_labels(y, X.shape[0], type(self).__name__), type(self).__name__)
        key, shelf = None, Shelf.current()
        if shelf is not None and (settings := self.settings_of_triplets) is not None:
            key = shelf.key_of((settings, tuple(labels.codes.items())), X, codes)
            if (found := shelf.find(key)) is not None:
                found.grown = self._growth
                return found
        self._foretell(*X.shape)
        state, rows = self._first_state(X, rng, labels, codes)
        source = self._start_source(state, rows, codes, rng)
        order = rng if self.shuffle else None
        lesson = self.lesson_kind(state, source, rows, codes, self.n_epochs, order, self._growth)
        return lesson if key is None or shelf is None else shelf.keep(key, lesson)

    @property
    def settings_of_triplets(self) -> Any:
        """What the triplets of a fit follow from, beside its rows; None if they are the learner's own."""
        if type(self)._learn is not OnlineLearner._learn or not isinstance(self.random_state, (int, np.integer)):
            return None
        if self.triplets != "auto" and as_source(self.triplets).heeds_answers:
            return None
        free = (*_OF_STEPS, *(() if self.has_discriminant_start else ("eta",)))
        settings = {name: one for name, one in self.get_params(deep=False).items() if name not in free}
        return type(self), as_key(settings)

    def end_lesson(self, lesson: Lesson) -> None:
        """Keep what a lesson that `begin_lesson` began has taught."""
        self.state_ = lesson.state
        self.__dict__.pop("history_", None)
        if not self.rescore:
            self.plausibility_ = lesson.plausibility
        elif (found := lesson.final_plausibility) is not None:
            self.plausibility_ = found
        else:
            self.plausibility_ = self._score_rows(lesson.state, lesson.rows, lesson.codes)

    def _learn(self, lesson: Lesson) -> None:
        """Walk a lesson with the learner's own parameter."""
        parameter, rule = lesson.state.parameter, self.rule_for(lesson.state)
        if self.device != "cpu":
            parameter.on(self._find_device())
        learn([lesson], lambda pieces: [[parameter.learn(pieces[0], rule)]])  # type: ignore[arg-type]

    def rule_for(self, state: State) -> LearningRule:
        """How far one triplet may move the parameter, by the settings."""
        C = self.C
        if isinstance(C, str):
            C = self.C_from_identity if state.start is None else 0.003 if self.measure.is_distance else 0.0002
        return LearningRule(C, as_loss(self.loss, self.eta), self.max_hq_iter)

    # ------------------------------------------------------------------ judging labels

    @at_one_moment
    def plausibility(self, X: ArrayLike, y: ArrayLike) -> Array:
        """How plausible the labels of rows are under the learned metric.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Raw features, of rows seen before or new.
        y : array-like of shape (n_samples,)
            Their labels; all must have been in training.

        Returns
        -------
        ndarray of shape (n_samples,)
            In (0, 1]. With triplets of neighbours: the weight of the votes of the row's nearest witnesses. Otherwise
            the smallest weight of the row's triplets, 1 for a row without any (it lies well inside its class). With
            ``loss="hinge"`` all are 1.
        """
        state = self._fitted
        if state.source is None:
            raise ValueError(
                f"{type(self).__name__} was fitted on explicit triplets and knows no classes; "
                "show it labelled rows with partial_fit first."
            )
        X = self.check_rows(X, reset=False)
        name = type(self).__name__
        codes = state.labels.encode(check_labels(y, X.shape[0], name), name, grow=False)
        return self._score_rows(state, state.placed(self._scale(X, state.scaling)), codes)

    def _score_rows(self, state: State, rows: Rows, codes: Codes) -> Array:
        """Plausibility of every row under the metric as it is; nothing is learned."""
        assert state.source is not None
        loss = as_loss(self.loss, self.eta)
        first = state.source.n_rows_seen_

        def judge(triplets: Triplets) -> Array:
            if state.parameter.by_class:
                triplets = with_classes(triplets, codes, first)
            return loss.plausibility(state.parameter.margins(triplets))

        with one_blas_thread():
            weight = state.source.score(rows, codes, state, judge)
        if np.isnan(weight).any():
            raise self._growth(state.dtype)
        return weight

    # ------------------------------------------------------------------ fitted attributes

    @property
    def scaling_(self) -> Scaling:
        """Scaling learned at the first batch."""
        return self._learned("scaling_").scaling

    @property
    def triplet_source_(self) -> TripletSource | None:
        """Triplet source with its state; None before labelled rows were seen."""
        return self._learned("triplet_source_").source

    @property
    def classes_(self) -> NDArray[Any]:
        """Classes met so far (or declared), sorted."""
        return self._learned("classes_").labels.classes

    @property
    def n_rows_seen_(self) -> int:
        """Labelled rows learned, repeated passes counted."""
        return self._learned("n_rows_seen_").n_rows

    @property
    def n_triplets_seen_(self) -> int:
        """Triplets learned."""
        return self._learned("n_triplets_seen_").n_triplets

    @property
    def n_updates_(self) -> int:
        """Triplets that moved the metric."""
        return self._learned("n_updates_").n_updates

    # ------------------------------------------------------------------ scikit-learn's side

    def __sklearn_tags__(self) -> Any:
        """Needs labels, takes sparse rows."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Whether anything was learned."""
        return self._is_begun

    # ------------------------------------------------------------------ rows and labels

    def check_rows(self, X: ArrayLike, *, reset: bool = False) -> Array | sparse.csr_array:
        """Validate rows: dense or CSR, finite, with the features and the type of numbers that were learned."""
        X = encode_rows(self, X, reset=reset)
        return check_rows(self, X, dtype=self._dtypes(reset), reset=reset)

    def _dtypes(self, reset: bool) -> Any:
        """Types of numbers that rows may have."""
        return [np.float64, np.float32] if reset or not self._is_begun else self.state_.dtype

    def map_blocks(self, X: ArrayLike, mapping: Callable[[Array], Array]) -> Array:
        """Apply a function to validated and scaled rows, block by block."""
        state = self._fitted
        rows = state.placed(self._scale(self.check_rows(X), state.scaling))
        return np.concatenate([mapping(block) for _, block in rows.blocks()])

    def _check_pairs(self, left: Array, right: Array) -> None:
        if len(left) != len(right):
            raise InputError(f"X1 and X2 must have equally many rows; got {len(left)} and {len(right)}.", owner=self)

    def _scale(
        self, X: Array | sparse.csr_array, scaling: Scaling | None = None, first: int = 0,
        early: sparse.csr_array | None = None,
    ) -> Rows:  # fmt: skip
        """Scale rows, by what they say themselves if nothing was learned yet; refuse those that are too large.

        ``first`` is the number of the first of them in what the caller gave.
        """
        rows = Rows(X, scaling or self._learn_scaling(X), early)
        hint = "Use scale='auto', or rescale the data." if self.scale is None else "Is that value right?"
        check_range(rows, self, hint, first)
        return rows

    # ------------------------------------------------------------------ inside

    @property
    def _is_begun(self) -> bool:
        return "state_" in vars(self)

    @property
    def _fitted(self) -> State:
        check_is_fitted(self)
        return self.state_

    def _learned(self, attribute: str) -> State:
        if not self._is_begun:
            raise AttributeError(f"{type(self).__name__} has no {attribute} before fit.")
        return self.state_

    def _forget(self) -> None:
        for name in ("state_", "history_"):
            self.__dict__.pop(name, None)

    def _check_settings(self) -> None:
        """Refuse settings that break a rule, a device that is not there, and settings that it does not know."""
        check_settings(self)
        if self.device != "cpu":
            self._check_device()

    def _check_device(self) -> None:
        """Overridden by those that have a choice."""

    def _find_device(self) -> Any:
        return find(self.device, type(self).__name__)

    def _first_state(
        self, X: Array | sparse.csr_array, rng: np.random.Generator, labels: Labels, codes: Codes | None = None
    ) -> tuple[State, Rows]:
        """State before the first triplet, and the scaled first batch."""
        needed = self._memory_for(X.shape[1], X.dtype.itemsize)
        if needed > _ALWAYS_FITS:
            check_memory(needed, f"learning {X.shape[1]:,} features", self.remedy, owner=self)
        rows, start, moments = self._scale(X), None, None
        scaling = rows.scaling
        if codes is not None and self.has_discriminant_start:
            if is_unit := scaling.unit_rows:  # the start normalises what it has mapped
                scaling = replace(scaling, unit_rows=False)
                rows = self._scale(X, scaling)
            rank = min(self.rank_for(X.shape[1]), X.shape[1])
            with one_blas_thread():
                start = Discriminant.begin(rows, codes, rank, is_unit, as_loss(self.loss, self.eta), rng)
            if self.half_life is not None and scaling.factor is not None:
                unit = 1.0 if is_unit else (2.0 * max(1, int(np.count_nonzero(scaling.factor)))) ** -0.5
                moments = Moments.begin(scaling, unit, self.half_life)
                for _, block in rows.blocks():
                    moments = moments.plus(block)
            rows = rows.placed(start.place, len(start.map))
        return State(scaling, self._begin(rows, rng), labels, X.dtype, start, moments=moments), rows

    @property
    def has_discriminant_start(self) -> bool:
        """Whether labelled rows begin with a discriminant map, by the settings."""
        init = getattr(self, "init", None)
        return isinstance(init, str) and init == "discriminant"

    def rank_for(self, d: int) -> int:
        """Rank of what is learned of rows with d features."""
        return d

    def _pieces(self, state: State, X: Array | sparse.csr_array) -> Iterator[tuple[slice, Rows]]:
        """Cut the next rows where the state changes by other means than steps, which it does after each piece.

        These places are numbers of rows along the stream, so that chunks do not matter.
        """
        n = X.shape[0]
        if state.source is None:  # the first labelled rows after explicit triplets
            yield slice(0, n), self._rows_at_once(state, X)
            return
        start = 0
        for change in state.scaling.follow(X, state.n_rows):
            first = start
            while start < change.stop:
                stop = min(change.stop, start + state.n_until_renewal)
                piece = X if start == 0 and stop == n else X[start:stop]
                early = None if change.early is None else change.early[start - first : stop - first]
                yield slice(start, stop), self._scale(piece, state.scaling, start, early)
                start = stop
            self._take_over(state, change)

    def _rows_at_once(self, state: State, X: Array | sparse.csr_array) -> Rows:
        """Scale rows that have no numbers in the stream, and change the state before any of them is learned."""
        for change in state.scaling.follow(X, None):
            self._take_over(state, change)
        return self._scale(X, state.scaling)

    def _take_over(self, state: State, change: Change) -> None:
        """Let columns wake; those that were awake at first keep the scale that they follow."""
        scaling = change.scaling
        if state.moments is not None and scaling.factor is not None and state.scaling.factor is not None:
            scaling = replace(scaling, factor=np.where(state.moments.first > 0, state.scaling.factor, scaling.factor))
        state.scaling = scaling
        if len(change.woken):
            if state.start is None:
                self._widen(state.parameter, change.woken, change.sample)
            if state.source is not None:
                state.source.rescale(state)

    def _widen(self, parameter: Parameter, columns: Index, sample: Array) -> None:
        """Let a parameter begun without some columns see them from now on; most see all from the beginning."""

    def _learn_scaling(self, X: Array | sparse.csr_array) -> Scaling:
        how = self.scale.kind if isinstance(self.scale, MovingScale) else self.scale
        if how == "auto":
            how = "pairs" if self.measure.is_distance else "unit"
        return Scaling.learn(X, how)

    def _make_source(self, state: State) -> TripletSource:
        """A fresh triplet source, by the settings."""
        triplets = self.triplets
        if isinstance(triplets, str) and triplets == "auto":
            triplets = "octg" if state.start is None else "neighbours"
        source = as_source(triplets)
        if isinstance(triplets, str) and triplets == "octg" and self.half_life is not None:
            # A weight that falls by half within that many rows adds up to this.
            source.set_params(update_centers=True, forget_after=self.half_life / np.log(2.0))
        return source

    def _start_source(self, state: State, rows: Rows, codes: Codes, rng: np.random.Generator) -> TripletSource:
        source = self._make_source(state)
        source.begin(rows, codes, state, rng)
        known = state.labels.codes if state.labels.allowed is None else state.labels.allowed
        if len(known) < source.n_classes_needed:
            raise InputError(
                f"at least two classes are needed to form triplets; all rows ({len(rows)}) are of one class, "
                f"{state.labels.classes.tolist()[0]!r}. Pass `classes=` to partial_fit if others come later.",
                owner=self,
            )
        state.source = source
        return source

    def _growth(self, dtype: np.dtype) -> InputError:
        """Error for a parameter that is not finite, or so large that the distances it gives would not be."""
        known = self.get_params(deep=False)
        lower = " or ".join(f"`{name}`" for name in ("C", "step_size", "degree", "coef0") if name in known)
        scale = "" if self.scale is not None else ", or use scale='auto'"
        return InputError(f"the steps grew beyond what {np.dtype(dtype)} can hold. Lower {lower}{scale}.", owner=self)


def _stack(*parts: Any) -> Any:
    if any(sparse.issparse(one) for one in parts):
        return sparse.vstack(parts, format="csr")
    return np.concatenate(parts)


def as_key(value: Any) -> Any:
    """What tells settings apart, by value where that is possible."""
    if isinstance(value, BaseEstimator):
        return type(value), as_key(value.get_params(deep=False))
    if isinstance(value, dict):
        return tuple((name, as_key(one)) for name, one in sorted(value.items()))
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    return (type(value).__name__, value) if isinstance(value, Hashable) else object()  # which equals nothing
