"""Triplets drawn at random by class, as OASIS does (Chechik et al. 2010)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nearkin.arrays import Codes
from nearkin.rows import Rows
from nearkin.settings import Integer, declare, setting
from nearkin.triplets.source import Triplets, TripletSource, View

__all__ = ["RandomTriplets"]


@declare
class RandomTriplets(TripletSource):
    """For every row: another row of its class and a row of another class, uniformly from the batch.

    Parameters
    ----------
    {settings}

    Notes
    -----
    A row that is alone in its class within the batch, or a batch of one class, gives no triplet. OASIS's published
    ports may draw the anchor itself as positive; such a triplet says nothing about nearness and is left out here.

    Examples
    --------
    >>> triplets = RandomTriplets().build([[0.0], [0.2], [1.0], [1.4]], [0, 0, 1, 1], random_state=0)
    >>> triplets.positive.tolist()
    [1, 0, 3, 2]
    """

    n_per_row: int = setting(1, Integer(1), kind="int", doc="Triplets per row.", kw_only=False)

    def generate(self, rows: Rows, codes: Codes, view: View) -> Iterator[Triplets]:
        """One piece for the whole batch."""
        n, origin = len(rows), self.number_rows(len(rows))
        by_class = np.argsort(codes, kind="stable")
        size = np.bincount(codes)
        first = np.cumsum(size) - size
        place = np.empty(n, np.int64)  # position of each row in the order by class
        place[by_class] = np.arange(n)
        anchor = np.repeat(np.flatnonzero((size[codes] > 1) & (size[codes] < n)), self.n_per_row)
        if not len(anchor):
            return
        own, begin, at = size[codes[anchor]], first[codes[anchor]], place[anchor]
        # A uniform draw among the others: skip the anchor (its class) by shifting what lies beyond it.
        positive = begin + self.rng_.integers(0, own - 1)
        positive += positive >= at
        negative = self.rng_.integers(0, n - own)
        negative += np.where(negative >= begin, own, 0)
        yield Triplets(rows, rows, anchor, by_class[positive], by_class[negative], origin, origin)
