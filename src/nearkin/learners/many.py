"""Many low-rank learners at once on a device: folds and grids side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from nearkin import progress
from nearkin.accelerator import find, is_accelerator
from nearkin.arrays import Array
from nearkin.checks import generator
from nearkin.kernels import one_blas_thread
from nearkin.labels import Labels, as_labels
from nearkin.learners._lowrank import LowRankLearner
from nearkin.learners.base import OnlineLearner
from nearkin.learners.state import State
from nearkin.losses import as_loss
from nearkin.parameters import LowRank
from nearkin.rows import Rows
from nearkin.transactions import unchanged_on_error
from nearkin.triplets import Triplets

__all__ = ["fit_many"]


def fit_many(
    learners: Sequence[OnlineLearner], X: ArrayLike, y: ArrayLike, *, rows: Sequence[ArrayLike] | None = None
) -> list[OnlineLearner]:
    """Fit many learners, each as its own `fit` would, up to rounding.

    Low-rank learners of one measure and shape with ``device="cuda"`` whose map fits the registers of a multiprocessor
    (512 x 64 in float32) learn side by side, which is where a GPU pays most: a grid of ``C`` and ``eta``, folds, seeds.
    All others are fitted one after the other.

    Parameters
    ----------
    learners : sequence of OnlineLearner
        Learners with their parameters; each is fitted in place.
    X : array-like or CSR matrix of shape (n_samples, n_features)
        Raw features.
    y : array-like of shape (n_samples,)
        Labels.
    rows : sequence of index arrays or None, default=None
        Rows that each learner sees; None for all.

    Returns
    -------
    list
        The learners, fitted. If one of those that learn side by side cannot learn, none of them changes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearkin.learners import RobustLODML
    >>> X, y = load_iris(return_X_y=True)
    >>> grid = [RobustLODML(C=C, random_state=0) for C in (0.01, 0.1, 1.0)]
    >>> [model.n_rows_seen_ for model in fit_many(grid, X, y)]
    [150, 150, 150]
    """
    learners = list(learners)
    X = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X)
    y = as_labels(y, "fit_many")
    shares = [np.arange(X.shape[0])] * len(learners) if rows is None else [np.asarray(one) for one in rows]
    if len(shares) != len(learners):
        raise ValueError(
            f"fit_many: `rows` must hold one index array for each of the {len(learners)} learners; got {len(shares)}."
        )
    together, others = _groups(learners, X)
    for group in together:
        _fit_together([learners[i] for i in group], X, y, [shares[i] for i in group])
    for i in others:
        learners[i].fit(X[shares[i]], y[shares[i]])
    return learners


def _groups(learners: list[OnlineLearner], X: Any) -> tuple[list[list[int]], list[int]]:
    """Numbers of the learners that can learn side by side, and of the others."""
    from nearkin.accelerator.device import shared_memory
    from nearkin.accelerator.factor_sweeps import held

    d = X.shape[1] if X.ndim == 2 else 0
    itemsize = 4 if X.dtype == np.float32 else 8
    found: dict[Any, list[int]] = {}
    others = []
    for i, one in enumerate(learners):
        if isinstance(one, LowRankLearner) and is_accelerator(one.device):
            r = one.n_components or (d if d <= 128 else 64)
            one._check_parameters()
            if held(d, r, itemsize).fits(shared_memory(find(one.device, one._name))):
                key = one.device, one._measure, one.n_components, one.max_hq_iter, np.shape(one.init)
                found.setdefault(key, []).append(i)
                continue
        others.append(i)
    return list(found.values()), others


@dataclass
class _Student:
    """One learner on its way through the rows."""

    learner: OnlineLearner
    state: State
    rows: Rows
    codes: NDArray[np.int64]
    rng: np.random.Generator
    weight: Array = field(default_factory=lambda: np.empty(0))
    order: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def pieces(self) -> Iterator[Triplets]:
        """Triplets of all passes, in order."""
        source: Any = self.state.source
        for _ in range(self.learner.n_epochs):
            shuffle = self.learner.shuffle
            self.order = self.rng.permutation(len(self.rows)) if shuffle else np.arange(len(self.rows))
            here = self.rows.reordered(self.order) if shuffle else self.rows
            self.weight = np.ones(len(self.rows))
            self.first = source.n_rows_seen_
            yield from source.generate(here, self.codes[self.order], self.state)
            self.state.n_rows += len(self.rows)

    def hear(self, triplets: Triplets, plausibility: Array, n_updates: int) -> None:
        """Take note of what was learned."""
        source: Any = self.state.source
        source.receive(triplets, plausibility)
        np.minimum.at(self.weight, triplets.row_origin[triplets.anchor] - self.first, plausibility)
        self.state.n_triplets += len(triplets)
        self.state.n_updates += n_updates

    def store(self) -> None:
        """Give the learner what it learned."""
        learner, state = self.learner, self.state
        learner._check_finite(state.parameter)
        learner._store(state)
        learner.n_features_in_ = self.rows.n_features
        if learner.rescore:
            learner.plausibility_ = learner._score_rows(state, self.rows, self.codes)
        else:
            learner.plausibility_ = np.empty(len(self.rows))
            learner.plausibility_[self.order] = self.weight


def _fit_together(learners: list[OnlineLearner], X: Any, y: NDArray[Any], shares: list[NDArray[Any]]) -> None:
    with ExitStack() as stack:
        for learner in learners:
            stack.enter_context(unchanged_on_error(learner))
        students = [_enrol(one, X[share], y[share]) for one, share in zip(learners, shares, strict=True)]
        _learn_together(students)
        for student in students:
            student.store()


def _learn_together(students: list[_Student]) -> None:
    from nearkin.accelerator.device import step_settings, to_device, to_host
    from nearkin.accelerator.factor_sweeps import ManyFactors

    for student in students:
        _refuse_watchers(student)
    one: Any = students[0].learner
    device = find(one.device, one._name)
    starts = [_factor(student) for student in students]
    sweep = ManyFactors(np.stack([start.L for start in starts]), one._measure.is_distance, device)
    losses = [as_loss(student.learner.loss, student.learner.eta) for student in students]
    settings = [step_settings(student.learner.C, loss.params) for student, loss in zip(students, losses, strict=True)]
    there = to_device(np.stack(settings).astype(starts[0].L.dtype), device)
    streams = [student.pieces() for student in students]
    total = sum(len(student.rows) * student.learner.n_epochs for student in students)
    done = 0
    with one_blas_thread():
        while True:
            pieces = [next(stream, None) for stream in streams]
            if all(piece is None for piece in pieces):
                break
            found = _Round(pieces)
            rows, pool = to_device(found.rows, device), to_device(found.pool, device)
            index, bounds = to_device(found.index, device), to_device(found.bounds, device)
            share, moved = map(to_host, sweep.learn(rows, pool, index, bounds, there, one.max_hq_iter))
            plausibility = np.clip(share.astype(np.float64), np.finfo(np.float64).tiny, 1.0)
            for student, piece, begin, end in zip(students, pieces, found.bounds, found.bounds[1:], strict=False):
                if piece is not None:
                    student.hear(piece, plausibility[begin:end], int(moved[begin:end].sum()))
                    done += len(piece.rows)
            progress.advance("learning", done, total)
        for start, L in zip(starts, sweep.result, strict=True):
            start.L = L


def _enrol(learner: OnlineLearner, X: Any, y: NDArray[Any]) -> _Student:
    learner._check_parameters()
    X = learner._check_rows(X, reset=True)
    labels = learner._check_labels(X, y)
    rng = generator(learner.random_state)
    state, rows = learner._first_state(X, rng, Labels())
    codes = state.labels.encode(labels, learner._name)
    learner._start_source(state, rows, codes, rng)
    return _Student(learner, state, rows, codes, rng)


def _factor(student: _Student) -> LowRank:
    assert isinstance(student.state.parameter, LowRank)
    return student.state.parameter


def _refuse_watchers(student: _Student) -> None:
    source: Any = student.state.source
    if getattr(source, "metric", None) == "learned":
        raise ValueError(
            f"fit_many: {student.learner._name} has a triplet source that looks at the learned metric "
            "(metric='learned'), which is not at hand while many learn side by side. Fit it by itself."
        )


class _Round:
    """The next piece of every learner, joined; a learner that is through has none."""

    def __init__(self, pieces: list[Triplets | None]):
        rows, pools, index = [], [], []
        self.bounds = np.zeros(len(pieces) + 1, np.int64)
        n_rows = n_pool = 0
        for i, piece in enumerate(pieces):
            self.bounds[i + 1] = self.bounds[i]
            if piece is None:
                continue
            self.bounds[i + 1] += len(piece)
            index.append(np.stack([piece.anchor + n_rows, piece.positive + n_pool, piece.negative + n_pool]))
            rows.append(np.concatenate([block for _, block in piece.rows.blocks()]))
            pools.append(np.concatenate([block for _, block in piece.pool.blocks()]))
            n_rows, n_pool = n_rows + len(piece.rows), n_pool + len(piece.pool)
        self.rows, self.pool = np.concatenate(rows), np.concatenate(pools)
        self.index = np.concatenate(index, axis=1).astype(np.int32)
