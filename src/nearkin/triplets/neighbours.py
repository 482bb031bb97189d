"""Triplets of neighbours, for a learner with a discriminant start."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from nearkin.arrays import Array, Codes, Index, Mask
from nearkin.errors import InputError
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

    def generate(self, rows: Rows, codes: Codes, view: View) -> Iterator[Triplets]:
        """Judge rows by their neighbours; draw which are anchors."""
        start = view.start
        pool, trusted = Rows(start.witnesses.placed), start.witnesses.weight >= _TRUSTED
        margin = 1.0 if view.parameter.measure.is_distance else 2.0  # inner products differ by half as much
        step = min(_BLOCK, rows.block_size)
        for first in range(0, len(rows), step):
            block = rows.take(slice(first, first + step))
            found, weight = start.judge(block, codes[first : first + step])
            anchors = np.flatnonzero(self.rng_.random(len(block)) < 2.0 * weight)
            targets, near = _first_trusted(found.own[anchors], found.near[anchors], trusted, self.n_targets)
            impostors, far = _first_trusted(found.other[anchors], found.far[anchors], trusted, self.n_impostors)
            # As with OCTG, only triplets that have a loss before anything is learned.
            there = (targets >= 0)[:, :, None] & (impostors >= 0)[:, None, :]
            there &= far[:, None, :] - near[:, :, None] < margin
            row, i, j = np.nonzero(there)
            anchor, positive, negative = anchors[row], targets[row, i], impostors[row, j]
            origin = self.number_rows(len(block))
            yield Triplets(
                Rows(block), pool, anchor, positive, negative, origin, np.full(len(pool), -1),
                row_weight=weight,
            )  # fmt: skip

    def score(self, rows: Rows, codes: Codes, view: View, judge: Callable[[Triplets], Array]) -> Array:
        """Plausibility by the votes of a row's neighbours; more of them vote than in `generate`."""
        return np.concatenate([view.start.score_labels(block, codes[part]) for part, block in rows.blocks()])


def _first_trusted(found: Index, distances: Array, trusted: Mask, n: int) -> tuple[Index, Array]:
    """The first n witnesses of each row that are trusted, -1 for none, and their distances."""
    usable = (found >= 0) & trusted[found]
    order = np.argsort(~usable, axis=1, kind="stable")[:, :n]
    first = np.take_along_axis(np.where(usable, found, -1), order, axis=1)
    return first, np.take_along_axis(distances, order, axis=1)
