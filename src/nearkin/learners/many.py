"""Many low-rank learners at once on a device: folds and grids side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from nearkin.accelerator import find
from nearkin.arrays import SMALLEST
from nearkin.errors import InputError
from nearkin.kernels import check_shapes, one_blas_thread
from nearkin.labels import as_labels
from nearkin.learners.base import OnlineLearner
from nearkin.learners.loop import Answer, Lesson, learn
from nearkin.learners.lowrank import LowRankMixin
from nearkin.settings import unchanged_on_error
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
        Learners with their settings; each is fitted in place.
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
        raise InputError(
            f"`rows` must hold one index array for each of the {len(learners)} learners; got {len(shares)}.",
            owner="fit_many",
        )
    together, others = _group(learners, X)
    for group in together:
        _fit_together([learners[i] for i in group], X, y, [shares[i] for i in group])
    for i in others:
        learners[i].fit(X[shares[i]], y[shares[i]])
    return learners


def _group(learners: list[OnlineLearner], X: Any) -> tuple[list[list[int]], list[int]]:
    """Numbers of the learners that can learn side by side, and of the others."""
    from nearkin.accelerator.device import shared_memory
    from nearkin.accelerator.factor_sweeps import held

    d = X.shape[1] if X.ndim == 2 else 0
    itemsize = 4 if X.dtype == np.float32 else 8
    found: dict[Any, list[int]] = {}
    others = []
    for i, one in enumerate(learners):
        if isinstance(one, LowRankMixin) and one.device != "cpu":
            one._check_settings()
            if held(d, one.rank_for(d), itemsize).fits(shared_memory(find(one.device, type(one).__name__))):
                key = one.device, one.measure, one.n_components, one.max_hq_iter, np.shape(one.init)
                found.setdefault(key, []).append(i)
                continue
        others.append(i)
    return list(found.values()), others


def _fit_together(learners: list[OnlineLearner], X: Any, y: NDArray[Any], shares: list[NDArray[Any]]) -> None:
    with ExitStack() as stack:
        for learner in sorted(learners, key=id):  # in one order, so that two threads do not wait for each other
            stack.enter_context(unchanged_on_error(learner))
        lessons = [one.begin_lesson(X[share], y[share]) for one, share in zip(learners, shares, strict=True)]
        for learner, lesson in zip(learners, lessons, strict=True):
            _refuse_watchers(learner, lesson)
        stack.enter_context(one_blas_thread())
        sweep, learn_pieces = _side_by_side(learners, lessons)
        learn(lessons, learn_pieces)
        for learner, lesson, L in zip(learners, lessons, sweep.result, strict=True):
            parameter: Any = lesson.state.parameter
            parameter.L = L
            if (dtype := parameter.find_overflow()) is not None:
                raise lesson.grown(dtype)
            learner.end_lesson(lesson)


def _refuse_watchers(learner: OnlineLearner, lesson: Lesson) -> None:
    if lesson.source.watches_metric:
        raise InputError(
            f"{type(learner).__name__} has a triplet source that looks at the learned metric (metric='learned'), which "
            "is not at hand while many learn side by side. Fit it by itself.",
            owner="fit_many",
        )


def _side_by_side(
    learners: list[OnlineLearner], lessons: list[Lesson]
) -> tuple[Any, Callable[[list[Triplets | None]], list[Answer]]]:
    """The sweep that holds the factors of all, and what learns their next triplets with it."""
    from nearkin.accelerator.device import step_settings, to_device, to_host
    from nearkin.accelerator.factor_sweeps import ManyFactors

    one = learners[0]
    device = find(one.device, type(one).__name__)
    factors: list[Any] = [lesson.state.parameter for lesson in lessons]
    start = np.stack([factor.L for factor in factors])
    sweep = ManyFactors(start, one.measure.is_distance, device)
    rules = [one.rule_for(lesson.state) for one, lesson in zip(learners, lessons, strict=True)]
    settings = np.stack([step_settings(rule.C, rule.loss.params) for rule in rules])
    there = to_device(settings.astype(start.dtype), device)

    def learn_pieces(pieces: list[Triplets | None]) -> list[Answer]:
        found = _Round(pieces)
        rows, pool, index, bounds = (
            to_device(part, device) for part in (found.rows, found.pool, found.index, found.bounds)
        )
        share, moved = map(to_host, sweep.learn(rows, pool, index, bounds, there, one.max_hq_iter))
        plausibility = np.clip(share.astype(np.float64), SMALLEST, 1.0)
        parts = [slice(*ends) for ends in zip(found.bounds, found.bounds[1:], strict=False)]
        return [(plausibility[part], int(moved[part].sum())) for part in parts]

    return sweep, learn_pieces


class _Round:
    """The next triplets of every lesson, joined; a lesson that is over has none."""

    def __init__(self, pieces: list[Triplets | None]):
        rows, pools, index = [], [], []
        self.bounds = np.zeros(len(pieces) + 1, np.int64)
        n_rows = n_pool = 0
        for i, piece in enumerate(pieces):
            self.bounds[i + 1] = self.bounds[i]
            if piece is None:
                continue
            members, sizes = (
                (piece.anchor, piece.positive, piece.negative),
                {"a": len(piece.rows), "p": len(piece.pool)},
            )
            check_shapes("n<a, n<p, n<p", members, **sizes)
            self.bounds[i + 1] += len(piece)
            index.append(np.stack([piece.anchor + n_rows, piece.positive + n_pool, piece.negative + n_pool]))
            rows.append(np.concatenate([block for _, block in piece.rows.blocks()]))
            pools.append(np.concatenate([block for _, block in piece.pool.blocks()]))
            n_rows, n_pool = n_rows + len(piece.rows), n_pool + len(piece.pool)
        if max(n_rows, n_pool) >= 1 << 31:
            raise InputError("these learners have 2^31 rows or more together. Fit fewer at once.", owner="fit_many")
        self.rows, self.pool = np.concatenate(rows), np.concatenate(pools)
        self.index = np.concatenate(index, axis=1).astype(np.int32)
