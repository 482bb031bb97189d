"""An audit of a stream: batches are judged as they come, in bounded memory."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_array, check_is_fitted

from nearkin.arrays import SMALLEST, Array, Codes, Index
from nearkin.audit.auditor import check_labelled_rows
from nearkin.audit.label_audit import LabelAudit
from nearkin.errors import InputError, owned_by
from nearkin.jury import JuryDecision
from nearkin.jury.decision import COUNTED, call_wrong
from nearkin.labels import Labels, as_labels
from nearkin.learners import OnlineLearner, RobustLODML
from nearkin.neighbors import RobustKNeighborsClassifier
from nearkin.noise import NoiseModel, rate_interval, score_labels, suggest_labels
from nearkin.noise.estimate import certain_rate
from nearkin.noise.model import agree_with_tiers
from nearkin.reservoir import Reservoir
from nearkin.rows import check_finite
from nearkin.settings import SEED, Integer, all_or_nothing, check_settings, declare, exclusive, generator, setting
from nearkin.stored import ArrayOf, Count, Items, Number, Part, stored

__all__ = ["StreamAudit"]

#: Rows of the stream from which the rate is estimated, and how many that needs.
_WINDOW = 5000
_ENOUGH = 400

#: Share of the held rows that may change before a new jury is made.
_STALE = 0.2


@stored(
    together=(
        "learner_", "held_", "_numbering", "_window", "_model", "_n_changes", "noise_interval_", "noise_rate_",
        "plausibility_", "score_", "is_suspect_", "is_wrong_", "confidence_", "suggested_label_",
    ),
    learner_=Part(OnlineLearner, d="d"),
    held_=Part(Reservoir, d="d", c="c"),
    _numbering=Part(Labels),
    _window=ArrayOf(None, 3),
    _model=Part(RobustKNeighborsClassifier, d="d"),
    _n_changes=Count(),
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

    Parameters
    ----------
    {settings}

    Attributes
    ----------
    plausibility_, score_, is_suspect_, is_wrong_, suggested_label_, confidence_ : ndarray of shape (n_batch,)
        Of the last batch; see `LabelAudit`. A class that was never met before cannot be judged: its first rows have
        plausibility 1.
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
        X : array-like of shape (n_batch, n_features)
            Raw features.
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
        rows, labels = self._check_batch(X, y)
        first = not self.__sklearn_is_fitted__()
        learner = self._begin() if first else copy.deepcopy(self.learner_)  # a batch that raises changes nothing
        with owned_by(self, instead_of=RobustLODML if self.learner is None else self):
            learner.partial_fit(X, labels, classes=classes)
        if first:
            held = Reservoir(self.n_per_class, self.max_rows, generator(copy.deepcopy(self.random_state)))
            numbering, window = Labels(), cast("Array", np.empty((0, 3)))
        else:
            held, numbering, window = copy.deepcopy(self.held_), self._numbering.copy(), self._window
            verdict = _judge(self._model, rows, labels, self.noise_rate_)
            window = np.concatenate([window, verdict.for_window()])[-_WINDOW:]
        held.add(rows, numbering.encode(labels, type(self).__name__))
        self.learner_: OnlineLearner = learner
        self.held_: Reservoir = held
        self._numbering: Labels = numbering
        self._window: Array = window
        if first or self._is_stale():
            self._model: RobustKNeighborsClassifier = self._fit_model()
            self._n_changes = held.n_changes
        if first:
            verdict = _judge(self._model, rows, labels, self._model.noise_rate_, held.numbers)
        rate, self.noise_interval_ = self._estimate_rate()
        self.noise_rate_: float = rate
        self.plausibility_, self.score_ = verdict.plausibility, verdict.score
        self.is_suspect_ = self._find_suspects()
        self.plausibility_ = agree_with_tiers(self.plausibility_, self.is_suspect_)
        self.is_wrong_ = call_wrong(self.is_suspect_, self.plausibility_)
        best, self.confidence_ = suggest_labels(
            lambda which: verdict.noise.joint(verdict.shares[which], verdict.codes[which]),
            verdict.codes, self.plausibility_, self.is_suspect_, verdict.shares.shape[1],
        )  # fmt: skip
        self.suggested_label_ = np.where(self.is_suspect_, verdict.classes[best], labels)
        return self

    def audit(self) -> LabelAudit:
        """Audit of the rows held: a sample of the stream with equally many rows of each class.

        Returns
        -------
        LabelAudit
            Row i of it is row ``held_.numbers[i]`` of the stream. Its noise rate is that of the sample.
        """
        with exclusive(self):  # a batch that another thread is learning is waited for
            check_is_fitted(self)
            return LabelAudit(self._fit_model(), self.held_.rows, self._held_labels)

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

    @property
    def _held_labels(self) -> NDArray[Any]:
        names = list(self._numbering.codes)
        return as_labels([names[code] for code in self.held_.codes], type(self).__name__)

    def _fit_model(self) -> RobustKNeighborsClassifier:
        """A classifier of the rows held, under the measure as it is now."""
        model = RobustKNeighborsClassifier(copy.deepcopy(self.learner_), random_state=0)
        return model.fit(self.held_.rows, self._held_labels)

    def _is_stale(self) -> bool:
        changed = self.held_.n_changes - self._n_changes
        return changed > _STALE * len(self.held_) or len(self._numbering.codes) > len(self._model.classes_)

    def _estimate_rate(self) -> tuple[float, tuple[float, float]]:
        """Rate and interval, from the last rows of the stream or, while they are few, from the rows held."""
        if len(self._window) < _ENOUGH:
            rate, n = self._model.noise_rate_, len(self.held_)
        else:
            certainty, agrees, n = self._window[:, 0], self._window[:, 1] > 0, len(self._window)
            rate = certain_rate(~agrees, certainty, max(2, len(self._numbering.codes)))
        return rate, rate_interval(rate, max(1, round(COUNTED * n)))

    def _find_suspects(self) -> NDArray[np.bool_]:
        """Rows whose score is among the lowest ``noise_rate_`` of the last rows of the stream."""
        seen = self._window[:, 2] if len(self._window) >= _ENOUGH else self.score_
        n = int(np.floor(self.noise_rate_ * len(seen) + 1e-9))
        if n == 0:
            return np.zeros(len(self.score_), dtype=bool)
        return (self.score_ <= np.partition(seen, n - 1)[n - 1]) & (self.score_ < 1.0) & (self.plausibility_ < 1.0)


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


def _judge(
    model: RobustKNeighborsClassifier, rows: Array, labels: NDArray[Any], rate: float, members: Index | None = None
) -> _Verdict:
    """Judge labels of rows; ``members`` are rows of the model itself, which must not vote on themselves."""
    position = {one: at for at, one in enumerate(model.classes_.tolist())}
    codes = np.array([position.get(one, -1) for one in labels.tolist()], dtype=np.int64)
    is_known, codes = codes >= 0, np.maximum(codes, 0)
    decision, shares = model.decision_, model.predict_proba(rows)
    assert isinstance(decision, JuryDecision)
    if members is not None:
        shares[members] = decision.left_out_shares(np.arange(len(members)))
    # The model knows whether mistakes depend on the class; the stream knows better how many there are.
    noise = decision.noise if decision.noise.matrix is not None else NoiseModel(rate, shares.shape[1])
    right = np.maximum(noise.probability_right(noise.lift_zeros(shares), codes), SMALLEST)
    plausibility = np.where(is_known, right if rate > 0 else 1.0, 1.0)
    score = np.where(is_known, score_labels(noise.relative_likelihood(shares, codes), codes), 1.0)
    return _Verdict(model.classes_, codes, is_known, shares, noise, plausibility, score)
