"""What learns from a stream: a learner, or a classifier whose voters are renewed as rows come."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from nearkin.arrays import Array
from nearkin.errors import InputError
from nearkin.labels import Labels, as_labels
from nearkin.learners import Euclidean, OnlineLearner
from nearkin.neighbors import RobustKNeighborsClassifier
from nearkin.reservoir import Reservoir
from nearkin.settings import Integer, check_argument, generator
from nearkin.streams.batch import Batch
from nearkin.streams.columns import without_names
from nearkin.streams.history import History
from nearkin.streams.watch import Seen, find_codes, learn_batch, sum_rows

__all__ = ["VOTERS", "Model", "Pupil", "held_rows", "hold_rows", "n_passes"]

#: Rows that vote in a classifier, unless told otherwise.
VOTERS = 10_000

Model = OnlineLearner | RobustKNeighborsClassifier


class Pupil:
    """A model and what it learns with: the learner, if any, and the rows held to vote.

    A classifier learns with the learner that it was given (a copy of it), with the one that it has fitted, or, if it
    has a jury of its own or a frozen learner, only by holding other rows.
    """

    def __init__(self, model: Model, n_voters: int | None = None):
        if n_voters is not None:
            check_argument("fit_stream", "n_voters", n_voters, Integer(2, 100_000_000))
        self.model = model
        self.history: History = getattr(model, "history_", None) or History()
        self.learner = _find_learner(model)
        if isinstance(model, OnlineLearner):
            return
        held = self.history.held
        if held is None:
            if model.__sklearn_is_fitted__():
                raise InputError(
                    "the rows that vote are not known any more, so they cannot be renewed. Tell them with "
                    "nearkin.streams.hold_rows(model, X, y) after the fit, as the command line does.",
                    owner=model,
                )
            self.history.held, self.history.labels = _empty(model, n_voters or VOTERS), Labels()
        elif n_voters is not None:
            held.n_per_class = held.max_rows = int(n_voters)

    @property
    def n_rows_seen(self) -> int:
        """Rows learned, in all passes."""
        if self.learner is not None:
            return self.learner.n_rows_seen_ if self.learner.__sklearn_is_fitted__() else 0
        assert self.history.held is not None
        return self.history.held.n_rows_seen

    @property
    def class_names(self) -> list[Any]:
        """Classes known, in the order of their numbers."""
        if self.learner is None:
            return [] if self.history.labels is None else list(self.history.labels.codes)
        return list(self.learner.state_.labels.codes) if self.learner.__sklearn_is_fitted__() else []

    def learn(self, batch: Batch, classes: ArrayLike | None, *, test: bool, is_first_pass: bool) -> Seen:
        """Test, then learn; rows are offered to vote in the first pass only."""
        if self.learner is not None:
            seen = learn_batch(self.learner, batch, classes, test=test)
        else:
            is_right, plausibility = _judge_batch(self.model, batch, test=test)
        if self.history.held is not None and self.history.labels is not None and is_first_pass and len(batch.X):
            self.history.held.add(batch.X, self.history.labels.encode(batch.y, type(self.model).__name__))
        if self.learner is None:
            seen = self._sum_rows(batch, is_right, plausibility)
        if self.learner is not None and self.learner is not self.model:
            self.model.learner = self.learner
        self.model.history_ = self.history
        return seen

    def _sum_rows(self, batch: Batch, is_right: NDArray[np.bool_] | None, plausibility: Array) -> Seen:
        if not len(batch.X):
            return Seen(n_dropped=batch.n_dropped)
        assert self.history.labels is not None
        return sum_rows(batch, find_codes(batch.y, self.history.labels), is_right, plausibility)

    def decide(self) -> None:
        """Make what decides anew from the rows held, if others have come since it was made; no draw is kept."""
        model, history = self.model, self.history
        if isinstance(model, OnlineLearner) or history.held is None or history.n_decided == history.held.n_rows_seen:
            return
        rows, labels = held_rows(history)
        if self.learner is not None:  # it may have forgotten classes
            codes = self.learner.state_.labels.codes
            known = np.array([one in codes for one in labels.tolist()], dtype=bool)
            rows, labels = rows[known], labels[known]
        with without_names(model):
            model.fit(rows, labels)
        history.n_decided = history.held.n_rows_seen
        model.history_ = history


def n_passes(model: Any) -> int:
    """Return the passes over the data that a model asks for."""
    if not isinstance(model, Model):
        raise TypeError(
            "a learner of nearkin is needed, such as RobustLODML(), or a RobustKNeighborsClassifier; got "
            f"{type(model).__name__}."
        )
    return getattr(_find_learner(model), "n_epochs", 1)


def hold_rows(
    model: RobustKNeighborsClassifier, X: ArrayLike, y: ArrayLike, n_voters: int = VOTERS, *, n_rows: int | None = None
) -> None:
    """Let a fitted classifier keep the rows that vote, so that `fit_stream` can renew them.

    Parameters
    ----------
    model : RobustKNeighborsClassifier
        Fitted on these rows.
    X, y : array-like
        Rows and labels.
    n_voters : int, default=10_000
        Most rows to keep, equally many of each class if there are more.
    n_rows : int or None, default=None
        Rows that these were drawn from; None if they are all.

    Examples
    --------
    >>> import nearkin
    >>> from nearkin import streams
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(200) % 2
    >>> X = rng.normal(size=(200, 3)) + 2.0 * y[:, None]
    >>> model = nearkin.RobustKNeighborsClassifier(random_state=0).fit(X[:100], y[:100])
    >>> streams.hold_rows(model, X[:100], y[:100])
    >>> model = streams.fit_stream(model, streams.open([(X[100:], y[100:])]))
    >>> len(model.plausibility_)
    200
    """
    check_argument("hold_rows", "n_voters", n_voters, Integer(2, 100_000_000))
    rows, labels = np.asarray(X), as_labels(y, "hold_rows")
    held, numbers = _empty(model, n_voters), Labels()
    held.add(rows, numbers.encode(labels, "hold_rows"))
    if n_rows is not None and n_rows > len(rows):
        held.seen = held.seen * int(n_rows) // len(rows)
        held.n_rows_seen = int(n_rows)
    history: History = getattr(model, "history_", None) or History()
    history.held, history.labels, history.n_decided = held, numbers, held.n_rows_seen
    model.history_ = history


def _empty(model: RobustKNeighborsClassifier, n_voters: int) -> Reservoir:
    half_life = getattr(_find_learner(model), "half_life", None)
    return Reservoir(int(n_voters), int(n_voters), generator(copy.deepcopy(model.random_state)), half_life)


def _find_learner(model: Model) -> OnlineLearner | None:
    """Return what learns; nothing does in a classifier with a jury of its own or a frozen learner."""
    if isinstance(model, OnlineLearner):
        return model
    given = model.learner
    if isinstance(given, FrozenEstimator):
        return None
    if isinstance(given, OnlineLearner) and given.__sklearn_is_fitted__():
        return copy.copy(given)
    if model.__sklearn_is_fitted__():
        found = getattr(model, "learner_", None)
        return copy.copy(found) if isinstance(found, OnlineLearner) else None
    if isinstance(given, OnlineLearner):
        fresh = clone(given)
        if fresh.random_state is None:
            fresh.set_params(random_state=model.random_state)
        return fresh
    return Euclidean(random_state=model.random_state) if given is None else model.default_learner(model.random_state)


def held_rows(history: History) -> tuple[Array, NDArray[Any]]:
    """Return the rows that a model holds, and their labels."""
    assert history.held is not None
    assert history.labels is not None
    names = list(history.labels.codes)
    return history.held.rows, as_labels([names[code] for code in history.held.codes], "fit_stream")


def _judge_batch(model: Any, batch: Batch, *, test: bool) -> tuple[NDArray[np.bool_] | None, Array]:
    """Let a classifier that holds rows only say which labels it expects, and how plausible those are that are given."""
    if not len(batch.X):
        return None, np.ones(0)
    with batch.placed():
        if batch.X.shape[1] != model.n_features_in_:
            raise InputError(f"X has {batch.X.shape[1]} features, the model {model.n_features_in_}.", owner=model)
        if not test:
            return None, np.ones(len(batch.X))
        shares = model.predict_proba(batch.X)
    place = {one: at for at, one in enumerate(model.classes_.tolist())}
    codes = np.array([place.get(one, -1) for one in batch.y.tolist()], dtype=np.int64)
    given = np.where(codes < 0, 1.0, shares[np.arange(len(codes)), np.maximum(codes, 0)])
    return shares.argmax(axis=1) == codes, given
