"""Many learners at once: grids share scaling, start and triplets, and on a device all learn side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from nearkin.accelerator import find
from nearkin.arrays import SMALLEST
from nearkin.errors import InputError
from nearkin.kernels import check_shapes, one_blas_thread, worker_pool
from nearkin.labels import as_labels
from nearkin.learners.base import OnlineLearner
from nearkin.learners.loop import Answer, Lesson, learn, one_by_one
from nearkin.learners.lowrank import LowRankMixin
from nearkin.settings import unchanged_on_error
from nearkin.triplets import Triplets

__all__ = ["fit_many"]


def fit_many(
    learners: Sequence[OnlineLearner], X: ArrayLike, y: ArrayLike, *, rows: Sequence[ArrayLike] | None = None
) -> list[OnlineLearner]:
    """Fit many learners, each as its own `fit` would: to the bit on the processor, up to rounding on a device.

    Learners of one kind that see the same rows and differ in ``C`` alone (without a discriminant start also in ``eta``)
    share scaling, start and triplets; ``random_state`` must be a number for that.

    Low-rank learners of one measure and shape with ``device="cuda"`` whose map fits the registers of a multiprocessor
    (512 x 64 in float32) learn side by side, which is where a GPU pays most: a grid of ``C`` and ``eta``, folds, seeds.

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
        The learners, fitted. If one of those that learn side by side or share triplets cannot learn, none of them
        changes.

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
    groups = [
        _Group([learners[i] for i in numbers], shares[numbers[0]])
        for numbers in _gather(range(len(learners)), lambda i: _triplet_key(learners[i], shares[i]) or i)
    ]
    together = _gather(groups, lambda group: _device_key(group.learners[0], X))
    for some in together:
        if _device_key(some[0].learners[0], X) is not None:
            _fit_together(some, X, y)
            continue
        for group in some:
            group.fit(X, y)
    return learners


def _gather(things: Iterable[Any], key_of: Callable[[Any], Any]) -> list[list[Any]]:
    """Lists of things with the same key, in the order in which they came."""
    found: dict[Any, list[Any]] = {}
    for one in things:
        found.setdefault(key_of(one), []).append(one)
    return list(found.values())


def _triplet_key(learner: OnlineLearner, share: NDArray[Any]) -> Any:
    """What the triplets of a learner follow from; None if they are its own."""
    key = learner.settings_of_triplets
    return None if key is None else (key, share.dtype.str, share.tobytes())


def _device_key(learner: OnlineLearner, X: Any) -> Any:
    """Device and shape of a learner that can learn side by side with its like; None for others."""
    if not isinstance(learner, LowRankMixin) or learner.device == "cpu":
        return None
    from nearkin.accelerator.device import shared_memory
    from nearkin.accelerator.factor_sweeps import held

    d = X.shape[1] if X.ndim == 2 else 0
    itemsize = 4 if X.dtype == np.float32 else 8
    learner._check_settings()
    if not held(d, learner.rank_for(d), itemsize).fits(shared_memory(find(learner.device, type(learner).__name__))):
        return None
    return learner.device, learner.measure, learner.n_components, learner.max_hq_iter, np.shape(learner.init)


@dataclass
class _Group:
    """Learners that learn the same triplets; ``lesson`` is that of the first, which the others follow."""

    learners: list[OnlineLearner]
    share: NDArray[Any]
    lesson: Any = None

    @property
    def pupils(self) -> list[tuple[OnlineLearner, Lesson]]:
        """Learners with their lessons."""
        return list(zip(self.learners, self.lesson.pupils, strict=True))

    def begin(self, X: Any, y: NDArray[Any]) -> None:
        """Prepare the lesson of the first learner and let the others follow it."""
        first, *others = self.learners
        self.lesson = first.begin_lesson(X[self.share], y[self.share])
        for one in others:
            one._check_settings()
            self.lesson.follow()
            for name in ("n_features_in_", "feature_names_in_"):
                one.__dict__.pop(name, None)
                if hasattr(first, name):
                    setattr(one, name, getattr(first, name))

    def fit(self, X: Any, y: NDArray[Any]) -> None:
        """Learn, each with its own parameter."""
        if len(self.learners) == 1:
            self.learners[0].fit(X[self.share], y[self.share])
            return
        with ExitStack() as stack:
            _hold(stack, self.learners)
            self.begin(X, y)
            stack.enter_context(one_blas_thread())
            steps = [(lesson.state.parameter, one.rule_for(lesson.state)) for one, lesson in self.pupils]
            for one, (parameter, _) in zip(self.learners, steps, strict=True):
                if one.device != "cpu":
                    parameter.on(find(one.device, type(one).__name__))

            def learn_pieces(pieces: list[Triplets | None]) -> list[list[Answer]]:
                assert pieces[0] is not None
                return [[one.learn(pieces[0], rule) for one, rule in steps]]

            learn([self.lesson], learn_pieces)
            for one, lesson in self.pupils:
                one.end_lesson(lesson)


def _hold(stack: ExitStack, learners: list[OnlineLearner]) -> None:
    """Leave learners as they were if the stack ends with an error."""
    for learner in sorted(learners, key=id):  # in one order, so that two threads do not wait for each other
        stack.enter_context(unchanged_on_error(learner))


def _fit_together(groups: list[_Group], X: Any, y: NDArray[Any]) -> None:
    """Fit groups side by side on a device."""
    with ExitStack() as stack:
        _hold(stack, [one for group in groups for one in group.learners])
        run = stack.enter_context(worker_pool())
        if not all(isinstance(group.learners[0].random_state, (int, np.integer)) for group in groups):
            run = one_by_one  # what one draws may depend on those before
        run(lambda group: group.begin(X, y), groups)
        for group in groups:
            _refuse_watchers(group)
        sweep, learn_pieces = _side_by_side(groups)
        learn([group.lesson for group in groups], learn_pieces, run)
        pupils = [pupil for group in groups for pupil in group.pupils]
        for (learner, lesson), L in zip(pupils, sweep.result, strict=True):
            parameter: Any = lesson.state.parameter
            parameter.L = L
            if (dtype := parameter.find_overflow()) is not None:
                raise lesson.grown(dtype)
            learner.end_lesson(lesson)


def _refuse_watchers(group: _Group) -> None:
    if group.lesson.source.watches_metric:
        raise InputError(
            f"{type(group.learners[0]).__name__} has a triplet source that looks at the learned metric "
            "(metric='learned'), which is not at hand while many learn side by side. Fit it by itself.",
            owner="fit_many",
        )


def _side_by_side(
    groups: list[_Group],
) -> tuple[Any, Callable[[list[Triplets | None]], list[list[Answer]]]]:
    """The sweep that holds the factors of all, and what learns their next triplets with it."""
    import torch

    from nearkin.accelerator.device import step_settings, to_device, to_host
    from nearkin.accelerator.factor_sweeps import ManyFactors

    one = groups[0].learners[0]
    device = find(one.device, type(one).__name__)
    pupils = [pupil for group in groups for pupil in group.pupils]
    counts = [len(group.learners) for group in groups]
    factors: list[Any] = [lesson.state.parameter for _, lesson in pupils]
    start = np.stack([factor.L for factor in factors])
    sweep = ManyFactors(start, one.measure.is_distance, device)
    rules = [learner.rule_for(lesson.state) for learner, lesson in pupils]
    settings = np.stack([step_settings(rule.C, rule.loss.params) for rule in rules])
    there = to_device(settings.astype(start.dtype), device)

    def learn_pieces(pieces: list[Triplets | None]) -> list[list[Answer]]:
        found = _Round(pieces)
        rows, pool, index = (to_device(part, device) for part in (found.rows, found.pool, found.index))
        # Every group's triplets are sent once, and repeated there for each of its learners.
        parts = zip(torch.split(index, found.lengths, dim=1), counts, strict=True)
        index = torch.cat([part.repeat(1, count) for part, count in parts], dim=1)
        ends = np.concatenate([[0], np.cumsum(np.repeat(found.lengths, counts))])
        moved: Any
        share, moved = map(to_host, sweep.learn(rows, pool, index, to_device(ends, device), there, one.max_hq_iter))
        plausibility = np.clip(share.astype(np.float64), SMALLEST, 1.0)
        answers = iter([(plausibility[a:b], int(moved[a:b].sum())) for a, b in pairwise(ends)])
        return [[next(answers) for _ in range(count)] for count in counts]

    return sweep, learn_pieces


class _Round:
    """The next triplets of every lesson, joined; a lesson that is over has none."""

    def __init__(self, pieces: list[Triplets | None]):
        rows, pools, index = [], [], []
        self.lengths = [0 if piece is None else len(piece) for piece in pieces]
        n_rows = n_pool = 0
        for piece in pieces:
            if piece is None:
                continue
            members, sizes = (
                (piece.anchor, piece.positive, piece.negative),
                {"a": len(piece.rows), "p": len(piece.pool)},
            )
            check_shapes("n<a, n<p, n<p", members, **sizes)
            index.append(np.stack([piece.anchor + n_rows, piece.positive + n_pool, piece.negative + n_pool]))
            rows.append(np.concatenate([block for _, block in piece.rows.blocks()]))
            pools.append(np.concatenate([block for _, block in piece.pool.blocks()]))
            n_rows, n_pool = n_rows + len(piece.rows), n_pool + len(piece.pool)
        if max(n_rows, n_pool) >= 1 << 31:
            raise InputError("these learners have 2^31 rows or more together. Fit fewer at once.", owner="fit_many")
        self.rows, self.pool = np.concatenate(rows), np.concatenate(pools)
        self.index = np.concatenate(index, axis=1).astype(np.int32)
