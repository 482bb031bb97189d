"""One-pass triplets of OPML (Li et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Codes
from nearkin.rows import Rows
from nearkin.settings import BOOLEAN, declare, setting
from nearkin.stored import ArrayOf, Count, stored
from nearkin.triplets.source import Triplets, TripletSource, View

__all__ = ["OnePassTriplets"]


_BLOCK = 4096


@stored(
    together=("newest_", "newest_origin_", "registered_", "previous_", "n_rows_seen_", "rng_"),
    newest_=ArrayOf("k", "d", dtype="T"),
    newest_origin_=ArrayOf("k", of="codes", low=0),
    registered_=ArrayOf("k", of="codes", low=0),
    previous_=Count(-1),
)
@declare
class OnePassTriplets(TripletSource, name="one_pass"):
    """Triplets from the newest row of each class; at most one per row, memory O(n_classes * d).

    Once two classes exist and y has been seen: if the previous row has label y it is the positive, and the
    negative is the newest row of the class registered last (of the one before it, if that class is y); otherwise
    the previous row is the negative and the positive is the newest row of class y.

    Parameters
    ----------
    {settings}

    Attributes
    ----------
    newest_ : ndarray of shape (n_classes, n_features)
        Newest row of each class in order of registration, on the learner's scale.

    Notes
    -----
    Rule as in the authors' released code, which goes by order of registration, not by recency; the two differ for
    more than two classes. A wrong label spoils the row's own triplet and every triplet that uses it as positive or
    negative.

    In a triplet ``(x, previous, x)`` only the pair acts: ``A = -u u'`` with ``u = x - previous``, and the step of
    `OPML` is the authors' pair step with the same ``lambda``. Its hinge, ``1 + d2(x, previous)``, is never below 1, so
    a robust learner finds such rows at most ``exp(-eta)`` plausible.

    Examples
    --------
    >>> triplets = OnePassTriplets().build([[0.0], [1.0], [0.2], [0.1]], ["a", "b", "a", "a"])
    >>> list(zip(triplets.row_origin[triplets.anchor], triplets.pool_origin[triplets.positive],
    ...          triplets.pool_origin[triplets.negative]))[0]
    (np.int64(2), np.int64(0), np.int64(1))
    """

    cold_start: bool = setting(
        False, BOOLEAN,
        doc="""Whether to learn while only one class has been seen (COPML): each row and the one before it are then a
        similar pair, given as the triplet ``(x, previous, x)`` whose negative is the anchor itself.""",
    )  # fmt: skip

    @property
    def n_classes_needed(self) -> int:  # type: ignore[override]
        """One, if pairs may begin."""
        return 1 if self.cold_start else 2

    def start(self, rows: Rows, codes: Codes, view: View, rng: np.random.Generator) -> None:
        """Forget every class."""
        self.newest_ = np.empty((0, rows.n_features), rows.dtype)
        self.newest_origin_ = np.empty(0, np.int64)
        self.registered_ = np.empty(0, np.int64)
        self.previous_ = -1

    def turn(self, matrix: NDArray[np.floating]) -> None:
        """Bring the newest rows to the new map."""
        self.newest_ = (self.newest_ @ matrix.T).astype(self.newest_.dtype)

    def generate(self, rows: Rows, codes: Codes, view: View) -> Iterator[Triplets]:
        """Apply the rule row by row; positions below the number of classes are remembered rows."""
        for start in range(0, len(rows), min(_BLOCK, rows.block_size)):
            block = rows.take(slice(start, start + min(_BLOCK, rows.block_size)))
            yield self._block(block, codes[start : start + len(block)].tolist())

    def merged(self, shards: Sequence[TripletSource], codes: Sequence[Codes], view: View) -> TripletSource:
        """The newest row of a class is that of the last share that has met it; rows are numbered share by share."""
        one = super().merged(shards, codes, view)
        assert isinstance(one, OnePassTriplets)
        newest = {int(code): i for i, code in enumerate(self.registered_)}
        rows, origins = list(self.newest_), self.newest_origin_.tolist()
        before = self.n_rows_seen_
        for share, table in zip(shards, codes, strict=True):
            assert isinstance(share, OnePassTriplets)
            moved = before - self.n_rows_seen_
            for code, row, origin in zip(share.registered_, share.newest_, share.newest_origin_, strict=True):
                if origin < self.n_rows_seen_ and int(table[code]) in newest:
                    continue  # met before the shares began
                newest[int(table[code])] = len(rows)
                rows.append(row)
                origins.append(int(origin) + moved)
            before += share.n_rows_seen_ - self.n_rows_seen_
            if share.n_rows_seen_ > self.n_rows_seen_:
                one.previous_ = int(table[share.previous_])
        at = list(newest.values())
        one.registered_ = np.array(list(newest), dtype=np.int64)
        one.newest_ = np.array([rows[i] for i in at], dtype=self.newest_.dtype).reshape(len(at), -1)
        one.newest_origin_ = np.array([origins[i] for i in at], dtype=np.int64)
        return one

    def _block(self, block: NDArray[np.floating], codes: list[int]) -> Triplets:
        n_known = len(self.registered_)
        where = {int(code): i for i, code in enumerate(self.registered_)}  # newest row of each class in the pool
        order = self.registered_.tolist()
        previous = self.previous_
        out: list[tuple[int, int, int]] = []
        for i, code in enumerate(codes):
            if code in where and len(order) >= 2:
                if previous == code:
                    other = order[-1] if order[-1] != code else order[-2]
                    out.append((i, where[code], where[other]))
                else:
                    out.append((i, where[code], where[previous]))
            elif code in where and self.cold_start:  # the only class so far
                out.append((i, where[code], n_known + i))
            if code not in where:
                order.append(code)
            where[code] = n_known + i
            previous = code
        origin = self.number_rows(len(block))
        pool = np.concatenate([self.newest_, block])
        pool_origin = np.concatenate([self.newest_origin_, origin])
        kept = np.array([where[code] for code in order], dtype=np.int64)
        self.newest_, self.newest_origin_ = pool[kept], pool_origin[kept]
        self.registered_, self.previous_ = np.array(order, dtype=np.int64), previous
        anchor, positive, negative = np.array(out, dtype=np.int64).reshape(-1, 3).T.copy()
        return Triplets(Rows(block), Rows(pool), anchor, positive, negative, origin, pool_origin)
