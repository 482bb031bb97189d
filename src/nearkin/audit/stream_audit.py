"""An audit of a stream: batches come, and anybody may ask at any time."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from nearkin.audit._interval import rate_interval
from nearkin.audit._names import speaking_as
from nearkin.audit._suggest import suggest
from nearkin.audit._votes import truths, votes_on
from nearkin.audit.label_audit import ASKED, LabelAudit
from nearkin.audit.reservoir import Reservoir
from nearkin.checks import Integer, Rule, check_parameters, generator
from nearkin.labels import Labels, as_labels
from nearkin.learners import OnlineLearner, RobustLODML
from nearkin.neighbors import RobustKNeighborsClassifier
from nearkin.noise import Flips
from nearkin.noise.rate import certain_rate
from nearkin.transactions import all_or_nothing

__all__ = ["StreamAudit"]

Array = NDArray[np.floating]

#: Rows of the stream that the estimate of the rate looks back on, and how many it needs.
_WINDOW = 5000
_ENOUGH = 400

#: Share of the held rows that may change before neighbours are looked up anew.
_STALE = 0.2


class StreamAudit(BaseEstimator):
    """Audit of labelled rows that come in batches, in bounded memory.

    A learner learns from every batch. Of every class a uniform sample of rows is held, and the plausible ones of them
    vote on the labels of each new batch before anything is learned from it. So no label has a say about itself.

    Parameters
    ----------
    learner : OnlineLearner or None, default=None
        Learner of a distance with one map, for `partial_fit`; None is `RobustLODML`.
    n_per_class : int, default=200
        Rows held of each class.
    max_rows : int, default=10000
        Rows held in all; with many classes each holds fewer.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the sample, and of a learner that has none of its own.

    Attributes
    ----------
    plausibility_, score_, is_suspect_, suggested_label_, confidence_ : ndarray of shape (n_batch,)
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

    _rules: ClassVar[dict[str, tuple[Rule, ...]]] = {"n_per_class": (Integer(2),), "max_rows": (Integer(10),)}

    plausibility_: Array
    score_: Array
    is_suspect_: NDArray[np.bool_]
    suggested_label_: NDArray[Any]
    confidence_: Array
    noise_rate_: float
    noise_interval_: tuple[float, float]
    held_: Reservoir
    learner_: OnlineLearner

    _numbering: Labels
    _panel: RobustKNeighborsClassifier
    _n_changes: int
    #: One line for each row looked back on; see `_looked_at`.
    _window: Array

    def __init__(
        self,
        learner: OnlineLearner | None = None,
        *,
        n_per_class: int = 200,
        max_rows: int = 10000,
        random_state: Any = None,
    ):
        self.learner = learner
        self.n_per_class = n_per_class
        self.max_rows = max_rows
        self.random_state = random_state

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
        check_parameters(self, self._rules)
        owner = type(self).__name__
        with speaking_as(owner):
            labels = as_labels(y, owner)
        first = not self.__sklearn_is_fitted__()
        # What is judged is judged by what was there before, so all that learns is a copy.
        learner = self._begin() if first else copy.deepcopy(self.learner_)
        inner = [type(learner).__name__] if self.learner is None else []
        with speaking_as(owner, *inner):
            learner.partial_fit(X, labels, classes=classes)
        rows = np.asarray(learner._check_rows(X, reset=False))
        if first:
            held = Reservoir(self.n_per_class, self.max_rows, generator(copy.deepcopy(self.random_state)))
            numbering, window = Labels(), cast("Array", np.empty((0, 3)))
        else:
            held, numbering, window = copy.deepcopy(self.held_), self._numbering.copy(), self._window
            verdict = _judged(self._panel, rows, labels, self.noise_rate_)
            window = np.concatenate([window, _looked_at(verdict)])[-_WINDOW:]
        held.add(rows, numbering.encode(labels, owner))
        self.learner_, self.held_, self._numbering, self._window = learner, held, numbering, window
        if first or self._is_stale():
            self._panel, self._n_changes = self._summoned(), held.n_changes
        if first:
            verdict = _judged(self._panel, rows, labels, self._panel.noise_rate_, held.numbers)
        self.noise_rate_, self.noise_interval_ = self._estimate()
        self.plausibility_, self.score_ = verdict.plausibility, verdict.score
        self.is_suspect_ = self._suspects()
        best, self.confidence_ = suggest(
            lambda which: truths(verdict.flips, verdict.shares[which], verdict.codes[which]),
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
        check_is_fitted(self)
        return LabelAudit(self._summoned(), self.held_.rows, self._held_labels)

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

    def _begin(self) -> OnlineLearner:
        learner = RobustLODML() if self.learner is None else self.learner
        if not isinstance(learner, OnlineLearner):
            raise ValueError(f"StreamAudit: parameter `learner` must be None or a learner of nearkin; got {learner!r}.")
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

    def _summoned(self) -> RobustKNeighborsClassifier:
        """A classifier on the rows held, under the measure as it is now."""
        model = RobustKNeighborsClassifier(copy.deepcopy(self.learner_), n_neighbors="auto", random_state=0)
        return model.fit(self.held_.rows, self._held_labels)

    def _is_stale(self) -> bool:
        changed = self.held_.n_changes - self._n_changes
        return changed > _STALE * len(self.held_) or len(self._numbering.codes) > len(self._panel.classes_)

    def _estimate(self) -> tuple[float, tuple[float, float]]:
        """Rate and interval, from the rows looked back on or, while they are few, from the rows held."""
        if len(self._window) < _ENOUGH:
            rate, n = self._panel.noise_rate_, len(self.held_)
        else:
            certain, agrees, n = self._window[:, 0], self._window[:, 1] > 0, len(self._window)
            rate = certain_rate(~agrees, certain, max(2, len(self._numbering.codes)))
        return rate, rate_interval(rate, max(1, round(ASKED * n)))

    def _suspects(self) -> NDArray[np.bool_]:
        """Rows whose score is among the lowest ``noise_rate_`` of the rows looked back on."""
        seen = self._window[:, 2] if len(self._window) >= _ENOUGH else self.score_
        n = int(np.floor(self.noise_rate_ * len(seen) + 1e-9))
        if n == 0:
            return np.zeros(len(self.score_), dtype=bool)
        return (self.score_ <= np.partition(seen, n - 1)[n - 1]) & (self.score_ < 1.0)


@dataclass
class _Verdict:
    """What a panel says about labels of rows."""

    classes: NDArray[Any]
    codes: NDArray[np.int64]
    is_known: NDArray[np.bool_]
    shares: Array
    flips: Flips
    plausibility: Array
    score: Array


def _judged(
    panel: RobustKNeighborsClassifier,
    rows: Array,
    labels: NDArray[Any],
    rate: float,
    members: NDArray[np.int64] | None = None,
) -> _Verdict:
    """Verdict on rows; ``members`` are those of the panel itself, which are left out when they are judged."""
    place = {one: at for at, one in enumerate(panel.classes_.tolist())}
    codes = np.array([place.get(one, -1) for one in labels.tolist()], dtype=np.int64)
    is_known, codes = codes >= 0, np.maximum(codes, 0)
    shares = panel.predict_proba(rows)
    if members is not None:
        shares[members] = votes_on(panel)(np.arange(len(members)))
    # Where mistakes depend on the class the panel knows how; how many there are, the stream knows better.
    flips = panel._flips if panel._flips.matrix is not None else Flips(rate, shares.shape[1])
    right = np.maximum(flips.right(flips.settled(shares), codes), np.finfo(float).tiny)
    plausibility = np.where(is_known, right if rate > 0 else 1.0, 1.0)
    likely, at = flips.likely(shares, codes).copy(), np.arange(len(codes))
    own = likely[at, codes]
    likely[at, codes] = 0.0
    both = own + likely.max(axis=1)
    score = np.divide(own, both, out=np.full(len(codes), 0.5), where=both > 0)
    return _Verdict(panel.classes_, codes, is_known, shares, flips, plausibility, np.where(is_known, score, 1.0))


def _looked_at(verdict: _Verdict) -> Array:
    """For the window: how certain the panel is, whether it agrees with the label, and the score."""
    agrees = verdict.shares.argmax(axis=1) == verdict.codes
    return np.column_stack([verdict.shares.max(axis=1), agrees, verdict.score])[verdict.is_known]
