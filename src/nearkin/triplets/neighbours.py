"""Triplets of neighbours, for a learner with a discriminant start."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import numpy as np

from nearkin.arrays import Array, Codes
from nearkin.errors import InputError
from nearkin.kernels.neighbours import combine
from nearkin.rows import Rows
from nearkin.settings import Integer, declare, setting
from nearkin.stored import stored
from nearkin.triplets.source import Triplets, TripletSource, View

__all__ = ["NeighbourTriplets"]

#: Witnesses below this weight are in no triplet.
_TRUSTED = 0.5

#: Rows that are judged at once.
_BLOCK = 4096


@stored(together=("n_rows_seen_", "rng_"))
@declare
class NeighbourTriplets(TripletSource, name="neighbours"):
    """Anchors are rows, positives and negatives the nearest witnesses of a discriminant start.

    A row whose neighbours vote for its label is an anchor, one whose label they contradict rarely is: the probability
    is twice the weight of the votes, at most 1. Neighbours are found in the space of the start, which changes only at
    certain rows of the stream, so chunks do not matter. Needs ``init="discriminant"``.

    Parameters
    ----------
    {settings}

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearkin import RobustLODML
    >>> source = NeighbourTriplets(n_targets=1, n_impostors=1)
    >>> model = RobustLODML(triplets=source, random_state=0).fit(*load_iris(return_X_y=True))
    >>> model.n_triplets_seen_ <= 150
    True
    """

    n_targets: int = setting(3, Integer(1, 10), doc="Nearest witnesses of its class that a row should stay close to.")
    n_impostors: int = setting(3, Integer(1, 10), doc="Nearest witnesses of other classes, each with every target.")

    def start(self, rows: Rows, codes: Codes, view: View, rng: np.random.Generator) -> None:
        """Refuse a learner without witnesses."""
        if view.start is None:
            raise InputError(
                "triplets of neighbours need labelled rows from the beginning and init='discriminant'. Use "
                "triplets='octg' with another start.",
                owner=self,
            )

    def copy(self) -> NeighbourTriplets:
        """A source that can go on while this one stays as it is; every row of a stream may need one."""
        bits = self.rng_.bit_generator
        other = type(bits)(0)  # a deep copy takes five times as long
        other.state = bits.state
        one = copy.copy(self)
        one.rng_ = np.random.Generator(other)
        return one

    def generate(self, rows: Rows, codes: Codes, view: View) -> Iterator[Triplets]:
        """Judge rows by their neighbours; draw which are anchors."""
        start = view.start
        pool, trusted = Rows(start.witnesses.placed), start.witnesses.weight >= _TRUSTED
        margin = 1.0 if view.parameter.measure.is_distance else 2.0  # inner products differ by half as much
        step = min(_BLOCK, rows.block_size)
        for first in range(0, len(rows), step):
            block = rows.take(slice(first, first + step))
            found, weight, score = start.judge(block, codes[first : first + step])
            is_anchor = self.rng_.random(len(block)) < 2.0 * weight
            # As with OCTG, only triplets that have a loss before anything is learned.
            anchor, positive, negative = combine(found, is_anchor, trusted, self.n_targets, self.n_impostors, margin)
            origin = self.number_rows(len(block))
            yield Triplets(
                Rows(block), pool, anchor, positive, negative, origin, np.full(len(pool), -1),
                row_weight=weight, row_score=score,
            )  # fmt: skip

    def score(self, rows: Rows, codes: Codes, view: View, judge: Callable[[Triplets], Array]) -> Array:
        """Plausibility by the votes of a row's neighbours; more of them vote than in `generate`."""
        return np.concatenate([view.start.score_labels(block, codes[part]) for part, block in rows.blocks()])
