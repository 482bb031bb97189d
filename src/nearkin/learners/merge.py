"""One state from several that went on from the same one with different rows: data-parallel learning.

The metric is the mean of the shards' metrics, weighted by the triplets each has learned; what is counted is added up,
each row once. The order of the shards is part of the result: the same shards in the same order give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array
from nearkin.labels import Labels
from nearkin.learners.state import State
from nearkin.parameters import FullMatrix, Hedged, Identity, LowRank, Parameter

__all__ = ["check_mergeable", "merge_states"]


def merge_states(base: State, shards: Sequence[State]) -> State:
    """State after rows that were learned in shards, each of which began with ``base``.

    Nothing is changed; the result shares nothing that learning would write to.

    Parameters
    ----------
    base : State
        With which every shard began.
    shards : sequence of State
        What they have become, in a fixed order.

    Returns
    -------
    State
        One shard is returned as it is. Shards that have learned nothing leave ``base``.

    Notes
    -----
    Shards of equal metrics have that metric as their mean, to the bit: the mean is taken step by step,
    ``m <- m + (w / W) (x - m)`` with W the weights so far. A class that several shards have met for the first time is
    one class, numbered by the first of them.
    """
    if len(shards) == 1:
        return shards[0].copy()
    shards = [one for one in shards if one.n_rows > base.n_rows]
    if not shards:
        return base.copy()
    labels, codes = _united(base.labels, [one.labels for one in shards])
    weights = [float(one.n_triplets - base.n_triplets) for one in shards]
    parameter = merge_parameters(base.parameter, [one.parameter for one in shards], weights)
    merged = State(base.scaling, parameter, labels, base.dtype)
    for counter in ("n_rows", "n_triplets", "n_updates"):
        before = getattr(base, counter)
        setattr(merged, counter, before + sum(getattr(one, counter) - before for one in shards))
    assert base.source is not None
    merged.source = base.source.merged([one.source for one in shards if one.source is not None], codes, merged)
    merged.forget()
    return merged


def check_mergeable(parameter: Parameter, owner: str) -> None:
    """Refuse a parameter that has no mean."""
    _rule(parameter, owner)


def merge_parameters(base: Parameter, shards: Sequence[Parameter], weights: Sequence[float]) -> Parameter:
    """Weighted mean of parameters; those of weight zero have learned nothing and do not count."""
    counted = [(one, w) for one, w in zip(shards, weights, strict=True) if w > 0]
    if not counted:
        return base.copy()
    return _rule(base, type(base).__name__)([one for one, _ in counted], [w for _, w in counted])


def _rule(parameter: Parameter, owner: str) -> Callable[[Any, Any], Any]:
    for kind, rule in _RULES.items():
        if isinstance(parameter, kind):
            return rule
    raise ValueError(
        f"{owner} cannot be learned in shards: what it learns ({type(parameter).__name__}) has no mean. Learn it "
        "in one process, or use a learner of one matrix or map, such as RobustLODML."
    )


def mean_of(arrays: Sequence[Array], weights: Sequence[float]) -> Array:
    """Weighted mean in double precision, one after the other.

    Examples
    --------
    >>> mean_of([np.array([1.0]), np.array([4.0])], [2.0, 1.0])
    array([2.])
    """
    mean = np.array(arrays[0], dtype=np.float64)
    total = weights[0]
    for array, weight in zip(arrays[1:], weights[1:], strict=True):
        total += weight
        mean += (weight / total) * (array - mean)
    return mean.astype(arrays[0].dtype)


def _low_rank(shards: Sequence[LowRank], weights: Sequence[float]) -> LowRank:
    merged = shards[0].copy()
    merged.L = mean_of([one.L for one in shards], weights)
    return merged


def _full(shards: Sequence[FullMatrix], weights: Sequence[float]) -> FullMatrix:
    merged = shards[0].copy()
    if all(np.array_equal(one.M, merged.M) for one in shards[1:]):
        return merged
    merged.M = mean_of([one.M for one in shards], weights)
    merged._root = None
    from nearkin.kernels.inverse import track_mean

    merged.numbers, merged.nulls, merged.inverse = track_mean([one.tracked for one in shards])
    return merged


def _hedged(shards: Sequence[Hedged], weights: Sequence[float]) -> Hedged:
    merged = shards[0].copy()
    merged.theta = mean_of([one.theta for one in shards], weights)
    merged.blocks = [
        _rule(block, type(merged).__name__)([one.blocks[i] for one in shards], weights)
        for i, block in enumerate(merged.blocks)
    ]
    return merged


def _identity(shards: Sequence[Identity], weights: Sequence[float]) -> Identity:
    return shards[0]


_RULES: dict[type, Callable[[Any, Any], Any]] = {
    LowRank: _low_rank, FullMatrix: _full, Hedged: _hedged, Identity: _identity,
}  # fmt: skip


def _united(base: Labels, shards: Sequence[Labels]) -> tuple[Labels, list[NDArray[np.int64]]]:
    """All labels, new ones in the order of the shards; and for every shard the new number of each of its numbers."""
    labels = base.copy()
    for one in shards:
        for label in one.codes:
            labels.add(label)
    codes = []
    for one in shards:
        table = np.full(1 + max(one.codes.values(), default=-1), -1, dtype=np.int64)
        for label, code in one.codes.items():
            table[code] = labels.codes[label]
        codes.append(table)
    return labels, codes
