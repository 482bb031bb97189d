"""Triplets within a batch, of which nothing is remembered.

All target neighbours joined with impostors, as LMNN does (Weinberger, Saul 2009), or drawn at random by class, as OASIS
does (Chechik et al. 2010).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nearkin import progress
from nearkin.arrays import Codes
from nearkin.rows import Rows
from nearkin.settings import Integer, OneOf, Real, declare, setting
from nearkin.triplets.source import Triplets, TripletSource, View

__all__ = ["BatchTriplets", "RandomTriplets"]

#: Largest table of scores (anchors x rows) held at once, in numbers.
_TABLE = 1 << 22

#: Seconds that a pair of rows takes on one core, and each of their numbers.
_SECONDS_OF_PAIR, _SECONDS_OF_NUMBER = 1.5e-9, 2e-11


@declare
class BatchTriplets(TripletSource, name="batch"):
    """All pairs (target neighbour, impostor) of every row within its batch.

    O(n^2 d) time, which is told before it begins if it is long; nothing is remembered of earlier batches.

    Targets of a row are its `n_targets` nearest rows of its own class. Impostors of (row, target) are the rows of
    other classes with ``d2(row, impostor) <= margin + d2(row, target)``.

    Parameters
    ----------
    {settings}

    Examples
    --------
    >>> triplets = BatchTriplets(n_targets=1).build([[0.0], [0.2], [1.0], [1.4]], [0, 0, 1, 1])
    >>> sorted(zip(triplets.anchor.tolist(), triplets.positive.tolist(), triplets.negative.tolist()))
    [(0, 1, 2), (1, 0, 2), (2, 3, 0), (2, 3, 1)]
    """

    n_targets: int = setting(3, Integer(1, 1_000_000), kw_only=False, doc="Target neighbours per row.")
    margin: float = setting(
        1.0, Real(0.0, np.inf, open_high=True),
        doc="Gap in squared distances (or in similarities), on the learner's scale.",
    )  # fmt: skip
    max_impostors: int | None = setting(
        None, Integer(1, 1_000_000_000), OneOf((None,)), doc="Keep only this many nearest impostors of a pair."
    )

    def generate(self, rows: Rows, codes: Codes, view: View) -> Iterator[Triplets]:
        """Triplets of a block of anchors against the whole batch."""
        from nearkin.kernels.impostors import scan_batch

        if self.n_rows_seen_ == 0:
            seconds = float(len(rows)) ** 2 * (_SECONDS_OF_PAIR + _SECONDS_OF_NUMBER * rows.n_features)
            why = "Triplets of a batch need that, and learning them takes more; those of 'neighbours' or 'octg' do not."
            progress.foretell(f"comparing all pairs of {len(rows):,} rows", seconds, why)
        origin = self.number_rows(len(rows))
        most = len(rows) if self.max_impostors is None else self.max_impostors
        step = max(1, min(_TABLE // len(rows), rows.block_size))
        scores = np.empty((step, len(rows)), rows.dtype)
        for start in range(0, len(rows), step):
            anchors = rows.take(slice(start, start + step))
            for part, block in rows.blocks():
                scores[: len(anchors), part] = view.parameter.measure.scores(anchors, block)
            found = scan_batch(scores[: len(anchors)], start, codes, self.n_targets, self.margin, most)
            if len(found):
                anchor, positive, negative = found.T.copy()
                yield Triplets(rows, rows, anchor, positive, negative, origin, origin)


@declare
class RandomTriplets(TripletSource, name="random"):
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

    n_per_row: int = setting(1, Integer(1, 100_000), kw_only=False, doc="Triplets per row.")

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
