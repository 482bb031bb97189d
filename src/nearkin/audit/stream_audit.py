"""An audit of a stream: batches are judged as they come, in bounded memory."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_array, check_is_fitted

from nearkin.arrays import SMALLEST, Array, Codes, Index
from nearkin.audit.auditor import check_labelled_rows
from nearkin.audit.label_audit import LabelAudit
from nearkin.errors import InputError, owned_by
from nearkin.gradual import Gradual, in_steps
from nearkin.jury import JuryDecision
from nearkin.jury.cost import estimate_seconds
from nearkin.jury.decision import COUNTED
from nearkin.jury.suspects import call_wrong
from nearkin.jury.voters import N_VOTING, rank_votes
from nearkin.kernels import one_blas_thread
from nearkin.labels import Labels, as_labels
from nearkin.learners import OnlineLearner, RobustLODML
from nearkin.neighbors import RobustKNeighborsClassifier
from nearkin.noise import NoiseModel, rate_interval, score_labels, suggest_labels
from nearkin.noise.estimate import certain_rate
from nearkin.noise.model import agree_with_tiers
from nearkin.reservoir import Reservoir
from nearkin.rows import check_finite
from nearkin.settings import SEED, Integer, all_or_nothing, at_one_moment, check_settings, declare, generator, setting
from nearkin.stored import ArrayOf, Count, Items, Number, Part, stored
from nearkin.tables import encode_rows

__all__ = ["NextJury", "StreamAudit"]

#: Rows of the stream from which the rate is estimated, and how many that needs.
_WINDOW = 5000
_ENOUGH = 200

#: A new jury judges after that many rows of the stream: a share of the rows held, of all rows seen, and at least. A new
#: class waits for less: a share of the rows held.
_OF_HELD, _OF_SEEN, _FEWEST, _FOR_CLASS = 0.25, 0.2, 16, 0.125

#: How much more time than expected is planned for it, so that it is ready before it is needed.
_SPARE = 1.2


@stored(
    together=(
        "learner_", "held_", "_numbering", "_window", "_model", "_next", "_since", "noise_interval_", "noise_rate_",
        "plausibility_", "score_", "is_suspect_", "is_wrong_", "confidence_", "suggested_label_",
    ),
    learner_=Part(OnlineLearner, d="d"),
    held_=Part(Reservoir, d="d", c="c"),
    _numbering=Part(Labels),
    _window=ArrayOf(None, 3),
    _model=Part(RobustKNeighborsClassifier, d="d"),
    _next=Part("NextJury", d="d"),
    _since=Count(),
    noise_interval_=Items(Number(0.0, 1.0), least=2),
    noise_rate_=Number(0.0, 1.0),
    plausibility_=ArrayOf("b", low=0.0, high=1.0),
    score_=ArrayOf("b", low=0.0, high=1.0),
    is_suspect_=ArrayOf("b", of="flags"),
    is_wrong_=ArrayOf("b", of="flags"),
    confidence_=ArrayOf("b", low=0.0, high=1.0),
    suggested_label_=ArrayOf("b", of="labels"),
)  # fmt: skip
@declare
class StreamAudit(BaseEstimator):
    """Audit of labelled rows that come in batches, in bounded memory.

    A learner learns from every batch. The audit holds a uniform sample of rows of every class. A jury of these rows
    votes on the labels of each new batch before anything is learned from it, so no label has a say about itself.

    The next jury is made a little with every batch, so that no call waits for all of it, and takes over at a row of the
    stream that does not depend on how fast that went. Until then rows that came after the jury vote as its neighbours.

    Parameters
    ----------
    {settings}

    Attributes
    ----------
    plausibility_, score_, is_suspect_, is_wrong_, suggested_label_, confidence_ : ndarray of shape (n_batch,)
        Of the last batch; see `LabelAudit`. A class that the jury has not met cannot be judged: its rows have
        plausibility 1 until a jury knows it, an eighth as many rows later as are held.
    noise_rate_ : float
        Estimated share of wrong labels among the last 5,000 rows; while those are few, among the rows held.
    noise_interval_ : tuple of float
        Interval of the rate.
    n_rows_seen_ : int
        Rows of the stream so far.
    held_ : Reservoir
        Rows held, with their numbers in the stream in ``held_.numbers``.
    learner_ : OnlineLearner
        Fitted learner.
    classes_ : ndarray
        Classes met so far.

    See Also
    --------
    audit_labels : The same for rows that are all there; it finds somewhat more.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> import nearkin
    >>> X, y = load_digits(n_class=4, return_X_y=True)
    >>> noisy, is_wrong = nearkin.flip_labels(y, 0.2, random_state=0)
    >>> stream = nearkin.StreamAudit(n_per_class=50, random_state=0)
    >>> for start in range(0, len(y), 180):
    ...     _ = stream.partial_fit(X[start : start + 180], noisy[start : start + 180])
    >>> round(stream.noise_rate_, 1), len(stream.held_) <= 200
    (0.2, True)
    >>> found = stream.audit()  # of the rows held
    """

    learner: OnlineLearner | None = setting(
        None, kind="OnlineLearner or None", kw_only=False,
        doc="Learner of a distance with one map, for `partial_fit`; None is `RobustLODML`.",
    )  # fmt: skip
    n_per_class: int = setting(200, Integer(2, 1_000_000), kind="int", doc="Rows held of each class.")
    max_rows: int = setting(
        10000, Integer(10, 100_000_000), kind="int", doc="Rows held in all; with many classes each holds fewer."
    )
    random_state: Any = setting(None, SEED, doc="Seed of the sample, and of a learner that has none of its own.")

    @all_or_nothing
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Forget everything and begin with this batch; see `partial_fit`."""
        if hasattr(self, "learner_"):
            del self.learner_
        return self.partial_fit(X, y)

    @all_or_nothing
    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Judge the labels of the next rows, then learn from them.

        Parameters
        ----------
        X : array-like or frame of shape (n_batch, n_features)
            Raw features. A first batch with categories, dates, texts or gaps says how all frames are encoded.
        y : array-like of shape (n_batch,)
            Labels; a class may appear here for the first time.
        classes : array-like or None, default=None
            At the first call: all classes there will be; needed only if the first batch holds one class.

        Returns
        -------
        self
            With the verdict on these rows in `plausibility_` and the others. A batch that raises changes nothing.
        """
        check_settings(self)
        X = encode_rows(self, X, reset=not self.__sklearn_is_fitted__())
        rows, labels = self._check_batch(X, y)
        if not self.__sklearn_is_fitted__():
            made = self._learn_first(X, rows, labels, classes)
        else:
            made = self._learn_next(X, rows, labels, classes)
        self.__dict__.update(made)  # at once, for threads that read it
        return self

    def _learn_first(
        self, X: ArrayLike, rows: Array, labels: NDArray[Any], classes: ArrayLike | None
    ) -> dict[str, Any]:
        """Everything after the first batch."""
        learner = self._begin()
        with owned_by(self, instead_of=RobustLODML if self.learner is None else self):
            learner.partial_fit(X, labels, classes=classes)
        held = Reservoir(self.n_per_class, self.max_rows, generator(copy.deepcopy(self.random_state)))
        numbering = Labels()
        held.add(rows, numbering.encode(labels, type(self).__name__))
        coming = NextJury.begin(learner, held, numbering)
        model = coming.finish()
        verdict = _judge(model, rows, labels, model.noise_rate_, held.numbers)
        window, coming = cast("Array", np.empty((0, 3))), NextJury.begin(learner, held, numbering, coming)
        return self._conclude(verdict, labels, learner, held, numbering, window, model, coming, held.n_rows_seen)

    def _learn_next(self, X: ArrayLike, rows: Array, labels: NDArray[Any], classes: ArrayLike | None) -> dict[str, Any]:
        """Everything after another batch."""
        model, coming, since = self._model, self._next, self._since
        learner = copy.copy(self.learner_)  # learning replaces what it holds, so this one stays as it is
        with owned_by(self, instead_of=RobustLODML if self.learner is None else self):
            learner.partial_fit(X, labels, classes=classes)
        verdict = self._ask(rows, labels)
        window = np.concatenate([self._window, verdict.for_window()])[-_WINDOW:]
        held, numbering = self.held_.copy(), self._numbering.copy()
        held.add(rows, numbering.encode(labels, type(self).__name__))
        if held.n_rows_seen >= coming.next_row:
            model = coming.finish()
            since = coming.first_row
            coming = NextJury.begin(learner, held, numbering, coming)
        elif len(numbering.codes) > len(coming.classes) and len(coming.classes) == len(model.classes_):
            coming = NextJury.begin(learner, held, numbering, coming, is_urgent=True)
        else:
            coming.advance(len(rows), held.n_rows_seen)
        return self._conclude(verdict, labels, learner, held, numbering, window, model, coming, since)

    def _conclude(
        self, verdict: _Verdict, labels: NDArray[Any], learner: OnlineLearner, held: Reservoir, numbering: Labels,
        window: Array, model: RobustKNeighborsClassifier, coming: NextJury, since: int,
    ) -> dict[str, Any]:  # fmt: skip
        """All that is learned and found, from a verdict."""
        rate, n, seen = model.noise_rate_, len(held), verdict.score
        if len(window) >= _ENOUGH:
            rate = certain_rate(window[:, 1] == 0, window[:, 0], max(2, len(numbering.codes)))
            n, seen = len(window), window[:, 2]
        is_suspect = _find_suspects(verdict, seen, rate)
        plausibility = agree_with_tiers(verdict.plausibility, is_suspect)
        best, confidence = suggest_labels(
            lambda which: verdict.noise.joint(verdict.shares[which], verdict.codes[which]),
            verdict.codes, plausibility, is_suspect, verdict.shares.shape[1],
        )  # fmt: skip
        return {
            "learner_": learner, "held_": held, "_numbering": numbering, "_window": window, "_model": model,
            "_next": coming, "_since": since,
            "noise_rate_": rate, "noise_interval_": rate_interval(rate, max(1, round(COUNTED * n))),
            "plausibility_": plausibility, "score_": verdict.score, "is_suspect_": is_suspect,
            "is_wrong_": call_wrong(is_suspect, plausibility), "confidence_": confidence,
            "suggested_label_": np.where(is_suspect, verdict.classes[best], labels),
        }  # fmt: skip

    @at_one_moment
    def audit(self) -> LabelAudit:
        """Audit of the rows held: a sample of the stream with equally many rows of each class.

        Returns
        -------
        LabelAudit
            Row i of it is row ``held_.numbers[i]`` of the stream. Its noise rate is that of the sample.
        """
        check_is_fitted(self)
        now = NextJury.begin(self.learner_, self.held_, self._numbering)
        return LabelAudit(now.fit(), now.rows, now.labels)

    @at_one_moment
    def plausibility(self, X: ArrayLike, y: ArrayLike) -> Array:
        """How plausible labels of rows are by the jury as it is now; nothing is learned.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Raw features.
        y : array-like of shape (n_samples,)
            Labels; those of classes that the jury does not know have plausibility 1.

        Returns
        -------
        ndarray of shape (n_samples,)
            Probability that each label is right, in (0, 1]. Rows that the audit has learned before vote for themselves.
        """
        check_is_fitted(self)
        return self._ask(*self._check_batch(encode_rows(self, X, reset=False), y)).plausibility

    @at_one_moment
    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Class of each row by the jury as it is now."""
        check_is_fitted(self)
        X = encode_rows(self, X, reset=False)
        n_rows = np.shape(X)[0] if np.ndim(X) else 0
        verdict = self._ask(*self._check_batch(X, np.full(n_rows, self._model.classes_[0])))
        return verdict.classes[verdict.shares.argmax(axis=1)]

    def _ask(self, rows: Array, labels: NDArray[Any]) -> _Verdict:
        """The verdict of the jury and of newer rows on labels."""
        newer = _NewerRows.find(self.held_, self._numbering, self.learner_, self._since)
        return _judge(self._model, rows, labels, self.noise_rate_, newer=newer)

    @property
    def n_rows_seen_(self) -> int:
        """Rows of the stream so far."""
        return self.held_.n_rows_seen

    @property
    def classes_(self) -> NDArray[Any]:
        """Classes met so far, sorted."""
        return self._numbering.classes

    def __sklearn_is_fitted__(self) -> bool:
        """Whether a batch was seen."""
        return hasattr(self, "learner_")

    # ------------------------------------------------------------------ inside

    def _check_batch(self, X: ArrayLike, y: ArrayLike) -> tuple[Array, NDArray[Any]]:
        is_first = not self.__sklearn_is_fitted__()
        found, labels = check_labelled_rows(X, y, type(self).__name__)
        dtype = [np.float64, np.float32] if is_first else self.held_.rows.dtype
        rows = check_array(found, dtype=dtype, ensure_all_finite=False)
        check_finite(rows, self, getattr(found, "columns", None))  # again, in the type of earlier batches
        if not is_first and rows.shape[1] != self.held_.rows.shape[1]:
            raise InputError(
                f"X has {rows.shape[1]} features; earlier batches had {self.held_.rows.shape[1]}.", owner=self
            )
        return rows, labels

    def _begin(self) -> OnlineLearner:
        learner = RobustLODML() if self.learner is None else self.learner
        if not isinstance(learner, OnlineLearner):
            raise InputError(f"parameter `learner` must be None or a learner of nearkin; got {learner!r}.", owner=self)
        if learner.__sklearn_is_fitted__():
            return copy.deepcopy(learner)
        fresh = clone(learner)
        if fresh.random_state is None:
            fresh.set_params(random_state=copy.deepcopy(self.random_state))
        return fresh


@stored(
    learner=Part(OnlineLearner, d="d"),
    rows=ArrayOf("n", "d"),
    codes=ArrayOf("n", of="codes", low=0, below="c"),
    classes=ArrayOf("c", of="labels"),
    first_row=Count(),
    next_row=Count(),
)
@dataclass(frozen=True)
class NextJury:
    """The jury that takes over at a certain row of the stream, made a little with every batch until then.

    It is made from the rows that were held, under the measure as it was, when it was begun. How far it has come does
    not matter, and is not saved.
    """

    learner: OnlineLearner
    rows: Array
    codes: Codes
    classes: NDArray[Any]
    first_row: int
    next_row: int
    #: Seconds that it takes; not stored, since they change nothing.
    seconds: float | None = None

    @classmethod
    def begin(
        cls, learner: OnlineLearner, held: Reservoir, numbering: Labels, before: NextJury | None = None, *,
        is_urgent: bool = False,
    ) -> NextJury:  # fmt: skip
        """A jury of the rows that are held now, which takes as long for each row as the one before."""
        n = max(_FEWEST, int(_OF_HELD * len(held)), int(_OF_SEEN * held.n_rows_seen))
        if is_urgent:
            n = max(_FEWEST, int(_FOR_CLASS * len(held)))
        names = as_labels(list(numbering.codes), "StreamAudit")
        seconds = None if before is None else before.expect() * len(held) / len(before.rows)
        return cls(learner, held.rows, held.codes, names, held.n_rows_seen, held.n_rows_seen + n, seconds)

    @property
    def labels(self) -> NDArray[Any]:
        """Labels of the rows."""
        return self.classes[self.codes]

    def expect(self) -> float:
        """Seconds that it takes, as far as is known."""
        spent = self._making.spent if self._making.is_done else self.seconds
        return spent or self._estimate()

    def _estimate(self) -> float:
        n_rows, n_features = self.rows.shape
        return sum(estimate_seconds(n_rows, n_features, len(self.classes)).values())

    def fit(self) -> RobustKNeighborsClassifier:
        """Make the jury at once."""
        return RobustKNeighborsClassifier(copy.copy(self.learner), random_state=0).fit(self.rows, self.labels)

    @cached_property
    def _making(self) -> Gradual[RobustKNeighborsClassifier]:
        return Gradual(lambda: in_steps(self.fit), _SPARE * (self.seconds or self._estimate()))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_making"}

    def advance(self, n_rows: int, n_rows_seen: int) -> None:
        """Do the share of the work that falls to that many rows, the last ones seen."""
        with one_blas_thread():
            self._making.advance(n_rows / (self.next_row - n_rows_seen + n_rows))

    def finish(self) -> RobustKNeighborsClassifier:
        """Do the rest."""
        with one_blas_thread():
            return self._making.finish()


def _find_suspects(verdict: _Verdict, seen: Array, rate: float) -> NDArray[np.bool_]:
    """Rows whose score is among the lowest of those seen, as many as the rate says."""
    n, score = int(np.floor(rate * len(seen) + 1e-9)), verdict.score
    if n == 0:
        return np.zeros(len(score), dtype=bool)
    return (score <= np.partition(seen, n - 1)[n - 1]) & (score < 1.0) & (verdict.plausibility < 1.0)


@dataclass
class _Verdict:
    """What a model says about the labels of rows."""

    classes: NDArray[Any]
    codes: Codes
    is_known: NDArray[np.bool_]
    shares: Array
    noise: NoiseModel
    plausibility: Array
    score: Array

    def for_window(self) -> Array:
        """Certainty of the votes, whether they agree with the label, and the score, of rows of known classes."""
        agrees = self.shares.argmax(axis=1) == self.codes
        return np.column_stack([self.shares.max(axis=1), agrees, self.score])[self.is_known]


@dataclass(frozen=True)
class _NewerRows:
    """Rows held that came after those of the jury: they vote by themselves until a jury knows them."""

    rows: Array
    labels: list[Any]
    learner: OnlineLearner

    @classmethod
    def find(cls, held: Reservoir, numbering: Labels, learner: OnlineLearner, since: int) -> _NewerRows:
        """Rows held from a row of the stream on."""
        which, names = np.flatnonzero(held.numbers >= since), list(numbering.codes)
        return cls(held.rows[which], [names[code] for code in held.codes[which]], learner)

    def mix_votes(self, queries: Array, position: dict[Any, int], bandwidth: float, votes: Array, n_rows: int) -> Array:
        """Votes of a jury of that many rows and of these, each row counting alike; classes have the given positions."""
        codes = np.array([position.get(one, -1) for one in self.labels], dtype=np.int64)
        which = np.flatnonzero(codes >= 0)
        if not len(which):
            return votes
        placed, asked = self.learner.transform(self.rows[which]), self.learner.transform(queries)
        distances = (placed * placed).sum(axis=1) - 2.0 * asked @ placed.T
        nearest = np.argsort(distances, axis=1, kind="stable")[:, :N_VOTING]
        own = rank_votes(nearest, codes[which], np.ones(len(which)), votes.shape[1], bandwidth)
        share = len(which) / (len(which) + n_rows)
        return (1.0 - share) * votes + share * own


def _judge(
    model: RobustKNeighborsClassifier,
    rows: Array,
    labels: NDArray[Any],
    rate: float,
    members: Index | None = None,
    newer: _NewerRows | None = None,
) -> _Verdict:
    """Judge labels of rows; ``members`` are rows of the model itself, which must not vote on themselves."""
    position = {one: at for at, one in enumerate(model.classes_.tolist())}
    codes = np.array([position.get(one, -1) for one in labels.tolist()], dtype=np.int64)
    is_known, codes = codes >= 0, np.maximum(codes, 0)
    decision = model.decision_
    assert isinstance(decision, JuryDecision)
    votes = model.votes(rows).total
    if newer is not None:
        votes = newer.mix_votes(rows, position, decision.n_neighbors, votes, len(decision.plausibility))
    shares = decision.noise.true_shares(votes)
    if members is not None:
        shares[members] = decision.left_out_shares(np.arange(len(members)))
    # The model knows whether mistakes depend on the class; the stream knows better how many there are.
    noise = decision.noise if decision.noise.matrix is not None else NoiseModel(rate, shares.shape[1])
    right = np.maximum(noise.probability_right(noise.lift_zeros(shares), codes), SMALLEST)
    plausibility = np.where(is_known, right if rate > 0 else 1.0, 1.0)
    score = np.where(is_known, score_labels(noise.relative_likelihood(shares, codes), codes), 1.0)
    return _Verdict(model.classes_, codes, is_known, shares, noise, plausibility, score)
