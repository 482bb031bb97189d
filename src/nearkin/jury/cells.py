"""Many rows in cells around centres, so that a search looks into a few cells instead of at all rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse

from nearkin.arrays import Array, Index
from nearkin.stored import ArrayOf, stored

__all__ = ["Cells", "group_rows"]

#: Rows of a usual cell, and of the largest.
_SIZE = 256
_LARGEST = 2 * _SIZE

#: Rows for each centre from which the centres are learned, and how often they move.
_SAMPLE = 64
_MOVES = 5

#: Rows whose cell is found at the same time.
_AT_ONCE = 1 << 13


@stored(centres=ArrayOf("p", "d", dtype="T"), sizes=ArrayOf("p", of="codes", low=1))
class Cells:
    """Cells of rows that are stored cell by cell.

    Parameters
    ----------
    centres : ndarray of shape (n_cells, n_features)
        Mean of the rows of each cell.
    sizes : ndarray of int64 of shape (n_cells,)
        Rows of each cell.

    Examples
    --------
    >>> cells = Cells(np.array([[0.0], [5.0]]), np.array([3, 2]))
    >>> cells.parts
    [slice(0, 3, None), slice(3, 5, None)]
    >>> [(cell, rows.tolist()) for cell, rows in cells.visits(np.array([[1.0], [4.0], [0.5]]), 1)]
    [(0, [0, 2]), (1, [1])]
    """

    def __init__(self, centres: Array, sizes: Index):
        self.centres, self.sizes = centres, sizes

    def check_stored(self) -> dict[str, int]:
        """Return the number of rows in all cells."""
        return {"n": int(self.sizes.sum())}

    @property
    def parts(self) -> list[slice]:
        """Where the rows of each cell are."""
        ends = np.cumsum(self.sizes).tolist()
        return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]

    def visits(self, rows: Array, n_probes: int) -> Iterator[tuple[int, Index]]:
        """Yield cells, each with the rows for which it is among the nearest: first where it is the very nearest."""
        wanted = min(n_probes, len(self.centres))
        far = _distances(rows, self.centres)
        first = far.argmin(axis=1)
        yield from _by_cell(first, np.arange(len(rows)))
        near = np.argpartition(far, wanted - 1, axis=1)[:, :wanted]
        at, _ = np.nonzero(near != first[:, None])
        yield from _by_cell(near[near != first[:, None]], at)


def _by_cell(cells: Index, rows: Index) -> Iterator[tuple[int, Index]]:
    """Yield each cell with its rows, from pairs of both."""
    order = np.argsort(cells, kind="stable")
    ends = np.cumsum(np.bincount(cells)).tolist()
    for cell, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        if start < end:
            yield cell, rows[order[start:end]]


def group_rows(rows: Array) -> tuple[Cells, Index]:
    """Group rows into cells of about 256, and return these with the order of the rows in which cells are stored.

    The centres are learned from a sample by k-means. A crowded cell, such as one of equal rows, is cut into several, so
    that no search has to look at many rows.
    """
    n = len(rows)
    rng = np.random.default_rng([n, 256])
    n_cells = max(1, n // _SIZE)
    some = rows[np.sort(rng.permutation(n)[: _SAMPLE * n_cells])]
    centres = some[np.sort(rng.permutation(len(some))[:n_cells])]
    for _ in range(_MOVES):
        centres = _means(some, _nearest(some, centres), centres)
    cell = _nearest(rows, centres)
    order = np.argsort(cell, kind="stable")
    sizes = []
    for size in np.bincount(cell, minlength=n_cells).tolist():
        n_parts = -(-size // _LARGEST)
        sizes += [size // n_parts + (i < size % n_parts) for i in range(n_parts)]
    own = np.empty(n, np.int64)
    own[order] = np.repeat(np.arange(len(sizes)), sizes)
    return Cells(_means(rows, own, np.zeros((len(sizes), rows.shape[1]), rows.dtype)), np.array(sizes)), order


def _distances(rows: Array, centres: Array) -> Array:
    """Squared distances to centres, less what is the same for all centres."""
    products = rows @ centres.T
    products *= -2.0
    products += (centres * centres).sum(axis=1)
    return products


def _nearest(rows: Array, centres: Array) -> Index:
    starts = range(0, len(rows), _AT_ONCE)
    return np.concatenate([_distances(rows[start : start + _AT_ONCE], centres).argmin(axis=1) for start in starts])


def _means(rows: Array, cell: Index, before: Array) -> Array:
    """Mean of the rows of each cell; an empty one keeps its centre."""
    n = len(rows)
    member = sparse.csr_array((np.ones(n, rows.dtype), (cell, np.arange(n))), shape=(len(before), n))
    size = np.bincount(cell, minlength=len(before))[:, None]
    means: Array = np.where(size > 0, (member @ rows) / np.maximum(size, 1), before).astype(rows.dtype)
    return means
