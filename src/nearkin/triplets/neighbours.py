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

    A row whose neighbours vote for its label is an anchor; one whose label they contradict rarely is: the probability is
    twice the weight of the votes, at most 1. Neighbours are found in the space of the start, which changes only at
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

    n_targets: int = setting(3, Integer(1, 15), doc="Nearest witnesses of its class that a row should stay close to.")
    n_impostors: int = setting(3, Integer(1, 15), doc="Nearest witnesses of other classes, each with every target.")

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
        step = min(_BLOCK, rows.block_size)
        for first in range(0, len(rows), step):
            block = rows.take(slice(first, first + step))
            own, other, weight = start.judge(block, codes[first : first + step])
            anchors = np.flatnonzero(self.rng_.random(len(block)) < 2.0 * weight)
            targets = _first_trusted(own[anchors], trusted, self.n_targets)
            impostors = _first_trusted(other[anchors], trusted, self.n_impostors)
            shape = len(anchors), self.n_targets, self.n_impostors
            anchor, positive, negative = (
                np.broadcast_to(one, shape).reshape(-1)
                for one in (anchors[:, None, None], targets[:, :, None], impostors[:, None, :])
            )
            there = (positive >= 0) & (negative >= 0)
            origin = self.number_rows(len(block))
            yield Triplets(
                Rows(block), pool, anchor[there], positive[there], negative[there], origin, np.full(len(pool), -1),
                row_weight=weight,
            )  # fmt: skip

    def score(self, rows: Rows, codes: Codes, view: View, judge: Callable[[Triplets], Array]) -> Array:
        """Weight of the votes of a row's neighbours in the learned space."""
        start, found = view.start, []
        for part, block in rows.blocks():
            margin = start.witnesses.judge_by(lambda some: _distances(view, some), block, codes[part])[2]
            found.append(start.loss.plausibility(margin))
        return np.concatenate(found)


def _distances(view: View, rows: Array) -> Array:
    """Squared distances of rows from all witnesses by the learned metric; of a similarity, what its scores fall short.

    A row that is a witness is at no distance from itself.
    """
    witnesses = view.start.witnesses
    scores = view.parameter.scores(rows, witnesses.placed)
    if view.parameter.measure.is_distance:
        return -scores
    largest = scores.max(axis=1, keepdims=True)
    short = 2.0 * largest - scores - scores.min(axis=1, keepdims=True)
    return np.where(witnesses.coincide(rows), scores.dtype.type(0), short)


def _first_trusted(found: Index, trusted: Mask, n: int) -> Index:
    """The first n witnesses of each row that are trusted, -1 for none."""
    usable = (found >= 0) & trusted[found]
    order = np.argsort(~usable, axis=1, kind="stable")[:, :n]
    return np.take_along_axis(np.where(usable, found, -1), order, axis=1)
