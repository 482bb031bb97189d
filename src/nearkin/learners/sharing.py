"""Triplets that were made once and are learned again: grids of settings over the same folds."""

from __future__ import annotations

import copy
import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from nearkin.learners.loop import Lesson
from nearkin.settings import Integer, check_argument
from nearkin.triplets import Triplets, TripletSource

__all__ = ["Shelf", "share_triplets"]

_shelf: ContextVar[Shelf | None] = ContextVar("nearkin_shared_triplets", default=None)


@contextmanager
def share_triplets(n_folds: int = 10) -> Iterator[None]:
    """Let fits inside the block share what they have in common: scaling, start and triplets.

    A search that people know, such as scikit-learn's `GridSearchCV`, fits the same rows once for every setting. Inside
    this block a learner whose settings differ from those of an earlier one in ``C``, ``max_hq_iter`` or ``rescore``
    alone (without a discriminant start also in ``eta``) takes over its triplets, with the same bits as without. Its
    ``random_state`` must be a number, its triplets must not depend on what is learned, and the search must run in this
    process and thread (``n_jobs=None``). `fit_many` shares without this block.

    Parameters
    ----------
    n_folds : int, default=10
        Sets of rows and settings that are remembered, the last used ones; each takes about the memory of its rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> from nearkin import RobustKNeighborsClassifier, RobustLODML
    >>> model = RobustKNeighborsClassifier(RobustLODML(random_state=0), n_neighbors=3)
    >>> search = GridSearchCV(model, {"learner__C": [0.001, 0.003, 0.01]}, cv=3)
    >>> with share_triplets():
    ...     found = search.fit(*load_iris(return_X_y=True))
    >>> bool(found.best_score_ > 0.9)
    True
    """
    check_argument("share_triplets", "n_folds", n_folds, Integer(1, 1_000_000))
    token = _shelf.set(Shelf(n_folds))
    try:
        yield
    finally:
        _shelf.reset(token)


class Shelf:
    """Lessons that were learned, the last used ones."""

    def __init__(self, most: int):
        self.most, self.held = most, OrderedDict[Any, _Record]()

    @staticmethod
    def current() -> Shelf | None:
        """Return the shelf of the block around the call, if there is one."""
        return _shelf.get()

    def key_of(self, settings: Any, X: Any, codes: Any) -> Any:
        """Return what tells lessons apart: settings and all numbers of the rows."""
        parts = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)
        digest = hashlib.blake2b()
        for one in (*parts, codes):
            digest.update(np.ascontiguousarray(one).data)
        return settings, X.shape, X.dtype.str, digest.digest()

    def find(self, key: Any) -> Lesson | None:
        """Return a lesson that repeats the one of this key; None if it is not here."""
        if (record := self.held.get(key)) is None or not record.passes:
            return None
        self.held.move_to_end(key)
        return record.again()

    def keep(self, key: Any, lesson: Lesson) -> Lesson:
        """Return the lesson, and remember it when it has been learned."""
        state, source, passes = lesson.state.copy(), lesson.source, list[Any]()
        assert state.source is not None
        record = _Record(replace(lesson, state=state, source=state.source, rng=copy.deepcopy(lesson.rng)))
        while len(self.held) >= self.most:
            self.held.popitem(last=False)

        def generate(rows: Any, codes: Any, view: Any) -> Iterator[Triplets]:
            pieces = []
            for one in type(source).generate(source, rows, codes, view):
                pieces.append(one)
                yield one
            kept = source.copy()
            kept.__dict__.pop("generate", None)
            passes.append((pieces, kept, copy.deepcopy(lesson.rng)))
            if len(passes) == lesson.n_passes:
                source.__dict__.pop("generate", None)
                record.passes, self.held[key] = passes, record

        source.__dict__["generate"] = generate
        return lesson


@dataclass
class _Record:
    """A lesson before it began, and for every pass its triplets, and source and generator after them."""

    lesson: Lesson
    passes: list[tuple[list[Triplets], TripletSource, Any]] = field(default_factory=list)

    def again(self) -> Lesson:
        """Return the lesson with a source that gives the same triplets again."""
        state, left = self.lesson.state.copy(), iter(self.passes)
        source: Any = state.source
        lesson = replace(self.lesson, state=state, source=source, rng=copy.deepcopy(self.lesson.rng))

        def generate(rows: Any, codes: Any, view: Any) -> Iterator[Triplets]:
            pieces, after, rng = next(left)
            yield from pieces
            source.__dict__.update(after.copy().__dict__)
            lesson.rng = copy.deepcopy(rng)  # the source may have drawn from it
            if after is self.passes[-1][1]:
                source.__dict__.pop("generate", None)

        source.__dict__["generate"] = generate
        return lesson
