"""What a learner holds, and how the states of shards become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from nearkin.arrays import Array, Codes
from nearkin.labels import Labels, as_labels
from nearkin.measures import Measure
from nearkin.parameters import Parameter
from nearkin.rows import Scaling
from nearkin.stored import stored
from nearkin.triplets import TripletSource

__all__ = ["State", "merge_states"]


@stored()
@dataclass
class State:
    """Everything learned; replaced as a whole, so that a rejected batch leaves the old one.

    Triplet sources see it as their `View`.
    """

    scaling: Scaling
    parameter: Parameter
    labels: Labels
    dtype: np.dtype
    source: TripletSource | None = None
    n_rows: int = 0
    n_triplets: int = 0
    n_updates: int = 0

    @property
    def measure(self) -> Measure:
        """Distance or similarity."""
        return self.parameter.measure

    def scores(self, left: Array, right: Array) -> Array:
        """Score pairs under the metric learned so far."""
        return self.parameter.scores(left, right)

    def frozen(self) -> Parameter:
        """Return the metric as it is now."""
        return self.parameter.copy()

    def scaled(self, X: ArrayLike) -> Array:
        """Bring raw rows to the learner's scale."""
        return self.scaling.apply(np.asarray(X, dtype=self.dtype))

    def codes_of(self, labels: ArrayLike) -> Codes:
        """Number labels."""
        return self.labels.encode(as_labels(labels, "OCTG"), "OCTG")

    def forget(self) -> None:
        """Forget the labels of classes that the triplet source has given up."""
        living = None if self.source is None else self.source.living
        if living is not None and len(living) < len(self.labels.codes):
            self.labels.keep(living.tolist())

    def copy(self) -> State:
        """Return a state that can learn while this one stays."""
        return State(
            self.scaling, self.parameter.copy(), self.labels.copy(), self.dtype,
            None if self.source is None else self.source.copy(), self.n_rows, self.n_triplets, self.n_updates,
        )  # fmt: skip


def merge_states(base: State, shards: Sequence[State]) -> State:
    """Merge the states of shards of the rows, each of which began with ``base``.

    The metric is the mean of the shards' metrics, weighted by the triplets each has learned; counters add up. The order
    of the shards is part of the result: the same shards in the same order give the same bits. Nothing is changed, and
    the result shares nothing that learning would write to.

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
    Shards of equal metrics have that metric as their mean, to the bit. A class that several shards have met for the
    first time is one class, numbered by the first of them.
    """
    if len(shards) == 1:
        return shards[0].copy()
    shards = [one for one in shards if one.n_rows > base.n_rows]
    if not shards:
        return base.copy()
    labels, codes = _unite(base.labels, [one.labels for one in shards])
    merged = State(base.scaling, _merge_parameters(base, shards), labels, base.dtype)
    for counter in ("n_rows", "n_triplets", "n_updates"):
        before = getattr(base, counter)
        setattr(merged, counter, before + sum(getattr(one, counter) - before for one in shards))
    assert base.source is not None
    merged.source = base.source.merged([one.source for one in shards if one.source is not None], codes, merged)
    merged.forget()
    return merged


def _merge_parameters(base: State, shards: Sequence[State]) -> Parameter:
    """Weighted mean; shards without a triplet have learned nothing and do not count."""
    counted = [one for one in shards if one.n_triplets > base.n_triplets]
    if not counted:
        return base.parameter.copy()
    weights = [float(one.n_triplets - base.n_triplets) for one in counted]
    return base.parameter.merge([one.parameter for one in counted], weights)


def _unite(base: Labels, shards: Sequence[Labels]) -> tuple[Labels, list[Codes]]:
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
