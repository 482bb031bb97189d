"""Our models where rows are dicts and come one by one: classifiers and transformers of river (extra ``river``).

What river calls a feature is a column here. Rows need not have the same keys: a key that is not there counts as 0, text
under a key counts as a key of its own, ``"colour=red"``, with value 1. When more keys have come than there are columns,
the columns double and the model begins anew from a bounded sample of the rows so far.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from sklearn.base import clone

from nearkin.arrays import Array
from nearkin.errors import InputError
from nearkin.labels import Labels, as_labels
from nearkin.learners import OnlineLearner as _OnlineLearner
from nearkin.learners import RobustLODML as _RobustLODML
from nearkin.neighbors import RobustKNeighborsClassifier as _RobustKNeighborsClassifier
from nearkin.reservoir import Reservoir

try:
    from river import base
except ImportError:
    raise ImportError("nearkin.river needs river, which is not installed: pip install 'nearkin[river]'") from None

__all__ = ["Classifier", "Transformer"]

#: Rows held to begin anew from.
_HELD = 10_000

#: Rows that the first call of a learner gets: it fixes the scale.
_FIRST = 50

Row = Mapping[Any, Any]


class _Columns:
    """Columns of keys: where each stands, in rows that may lack it."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}
        self.width = 1  # so that rows without any key can come first

    def has_room(self, row: dict[str, float]) -> bool:
        """Whether there are columns for all keys of a row."""
        return len(self.places.keys() | row.keys()) <= self.width

    def take_up(self, row: dict[str, float]) -> None:
        """Give the new keys of a row a column each."""
        for key in sorted(row.keys() - self.places.keys()):
            self.places[key] = len(self.places)
        if len(self.places) > self.width:
            self.width = max(len(self.places), 2 * self.width)

    def place(self, rows: list[dict[str, float]]) -> Array:
        """Return the rows as numbers; keys without a column are left out."""
        found = np.zeros((len(rows), self.width))
        for i, row in enumerate(rows):
            for key, value in row.items():
                if key in self.places:
                    found[i, self.places[key]] = value
        return found


def _as_numbers(x: Row) -> dict[str, float]:
    """Return a row with numbers alone: text becomes part of the key, gaps are left out."""
    if not hasattr(x, "items"):
        raise InputError(f"a row must be a dict from features to values; got {type(x).__name__}.")
    row: dict[str, float] = {}
    for key, value in x.items():
        if isinstance(value, str):
            row[f"{key}={value}"] = 1.0
        elif value is not None:
            try:
                number = float(value)
            except (TypeError, ValueError):
                raise InputError(f"feature {key!r} must be a number, a text or None; got {value!r}.") from None
            except OverflowError:  # a whole number beyond floats
                number = math.inf
            if math.isinf(number):
                raise InputError(f"feature {key!r} is infinite.")
            if not math.isnan(number):
                row[str(key)] = number
    return row


class _Lessons:
    """A model that learns dicts, and begins anew from the rows held when it needs more columns."""

    def __init__(self, model: Any, n_first: int, seed: int | None):
        self.prototype, self.model, self.n_first = model, clone(model), n_first
        self.columns, self.numbering = _Columns(), Labels()
        self.held = Reservoir(_HELD, _HELD, np.random.default_rng(seed))
        self.is_begun = False

    def learn(self, rows: Iterable[Row], y: Iterable[Any]) -> None:
        """Learn rows; how many come at once changes nothing."""
        part: list[dict[str, float]] = []
        labels: list[Any] = []
        found = [_as_numbers(row) for row in rows]  # all, before anything is learned
        for row, label in zip(found, y, strict=True):
            if not self.columns.has_room(row):
                self._learn(part, labels)
                part, labels = [], []
                self.columns.take_up(row)
                self._begin_anew()
            self.columns.take_up(row)
            part.append(row)
            labels.append(label)
            if not self.is_begun:
                self._learn(part, labels)
                part, labels = [], []
        self._learn(part, labels)

    def _learn(self, rows: list[dict[str, float]], y: list[Any]) -> None:
        if not rows:
            return
        X, labels = self.columns.place(rows), as_labels(y, "learn_one")
        if self.is_begun:
            self.model.partial_fit(X, labels)
        self.held.add(X, self.numbering.encode(labels, "learn_one"))
        self._begin()

    def _begin(self) -> None:
        """Learn the first rows together, once they are enough and, if they must be several, of two classes."""
        if self.is_begun or len(self.held) < self.n_first or (self.n_first > 1 and len(self.numbering.codes) < 2):
            return
        order, names = np.argsort(self.held.numbers), list(self.numbering.codes)
        labels = as_labels([names[code] for code in self.held.codes[order].tolist()], "learn_one")
        self.model.partial_fit(self.held.rows[order], labels)
        self.is_begun = True

    def _begin_anew(self) -> None:
        """Give the rows held the new columns, in which they are 0, and learn them again."""
        if len(self.held):
            more = np.zeros((len(self.held), self.columns.width - self.held.rows.shape[1]))
            self.held.rows = np.hstack([self.held.rows, more])
            self.model, self.is_begun = clone(self.prototype), False
            self._begin()


class Classifier(base.MiniBatchClassifier):  # type: ignore[misc, unused-ignore]
    """`nearkin.RobustKNeighborsClassifier` on a stream of dicts.

    Parameters
    ----------
    model : RobustKNeighborsClassifier or None, default=None
        A classifier, which is cloned; None for the default one. Its `partial_fit` says how often it decides anew, and
        from how many rows.
    seed : int or None, default=None
        Seed of the default model and of the sample of rows.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from nearkin import RobustKNeighborsClassifier
    >>> from nearkin.river import Classifier
    >>> model = Classifier(RobustKNeighborsClassifier(n_neighbors=3), seed=0)
    >>> found = evaluate.progressive_val_score(datasets.Phishing().take(300), model, metrics.Accuracy())
    >>> found.get() > 0.8
    True
    """

    def __init__(self, model: _RobustKNeighborsClassifier | None = None, seed: int | None = None):
        self.model = model
        self.seed = seed
        self._lessons = _Lessons(_RobustKNeighborsClassifier(random_state=seed) if model is None else model, 1, seed)

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: Row, y: Any) -> None:
        """Learn a row and its label."""
        self._lessons.learn([x], [y])

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn the rows of a frame and their labels, as one after another."""
        if len(X) != len(y):
            raise InputError(f"learn_many: X has {len(X)} rows and y has {len(y)} labels; give one label for each row.")
        self._lessons.learn(X.to_dict("records"), y.tolist())

    def predict_proba_one(self, x: Row, **_: Any) -> dict[Any, float]:
        """Return the share of every class met so far; nothing before the first row."""
        if not self._lessons.is_begun:
            return {}
        found = self._lessons.model.predict_proba(self._lessons.columns.place([_as_numbers(x)]))[0]
        return dict(zip(self._lessons.model.classes_.tolist(), found.tolist(), strict=True))

    def predict_proba_many(self, X: Any) -> Any:
        """Return the shares of every class met so far, a column each."""
        import pandas as pd

        if not self._lessons.is_begun or not len(X):
            return pd.DataFrame(index=X.index)
        rows = self._lessons.columns.place([_as_numbers(one) for one in X.to_dict("records")])
        model = self._lessons.model
        return pd.DataFrame(model.predict_proba(rows), index=X.index, columns=model.classes_.tolist())


class Transformer(base.Transformer, base.SupervisedTransformer):  # type: ignore[misc, unused-ignore]
    """Map dicts into a learned space, for methods of river that compare rows.

    The first 50 rows are learned together; before that, and before two classes were met, rows stay as they
    are.

    Parameters
    ----------
    learner : OnlineLearner or None, default=None
        A learner with ``transform``, which is cloned; None for `nearkin.RobustLODML`.
    seed : int or None, default=None
        Seed of the default learner and of the sample of rows.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, neighbors
    >>> from nearkin.river import Transformer
    >>> model = Transformer(seed=0) | neighbors.KNNClassifier()
    >>> found = evaluate.progressive_val_score(datasets.Phishing().take(300), model, metrics.Accuracy())
    >>> found.get() > 0.8
    True
    """

    def __init__(self, learner: _OnlineLearner | None = None, seed: int | None = None):
        self.learner = learner
        self.seed = seed
        self._lessons = _Lessons(_RobustLODML(random_state=seed) if learner is None else learner, _FIRST, seed)

    @property
    def _supervised(self) -> bool:
        return True  # river's pipelines map rows by a `base.Transformer` only, and give it labels if it says this

    def learn_one(self, x: Row, y: Any) -> None:  # type: ignore[override, unused-ignore]
        """Learn a row and its label."""
        self._lessons.learn([x], [y])

    def transform_one(self, x: Row) -> dict[Any, Any]:
        """Return the coordinates of a row in the learned space, numbered from 0."""
        if not self._lessons.is_begun:
            return dict(_as_numbers(x))
        mapped = self._lessons.model.transform(self._lessons.columns.place([_as_numbers(x)]))[0]
        return dict(enumerate(np.asarray(mapped).tolist()))


def __dir__() -> list[str]:
    return sorted(__all__)
