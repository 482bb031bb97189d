"""The k smallest numbers of every row of a table that arrives tile by tile, gathered in reservoirs.

A reservoir takes every number not above its bound; when it is full, the k smallest stay and the k-th becomes the bound.
A number costs one comparison, where a heap would pay ``log k`` for each that it takes. The result does not depend on
the order of the tiles: equal numbers go by their index.
"""

import numpy as np

from nearkin.errors import InputError
from nearkin.kernels import check_shapes
from nearkin.kernels.machine.compile import helper, kernel

#: Numbers compared at once.
_RUN = 16


@helper
def _before(value, index, other_value, other_index):
    return value < other_value or (value == other_value and index < other_index)


@helper
def _swap(values, found, i, j):
    values[i], values[j] = values[j], values[i]
    found[i], found[j] = found[j], found[i]


@helper
def _select(values, found, k, size):
    """Move the k smallest pairs to the front, the k-th of them to its place (quickselect)."""
    low, high = 0, size - 1
    while low < high:
        # The median of three as the pivot, moved to the end.
        middle = (low + high) // 2
        if _before(values[middle], found[middle], values[low], found[low]):
            _swap(values, found, low, middle)
        if _before(values[high], found[high], values[low], found[low]):
            _swap(values, found, low, high)
        if _before(values[middle], found[middle], values[high], found[high]):
            _swap(values, found, middle, high)
        value, index = values[high], found[high]
        at = low
        for i in range(low, high):
            if _before(values[i], found[i], value, index):
                _swap(values, found, i, at)
                at += 1
        _swap(values, found, at, high)
        if at == k - 1:
            break
        if at < k - 1:
            low = at + 1
        else:
            high = at - 1


def gather(products, k, *arrays):
    """Add a tile to the reservoirs of its rows; see `_gather` for the arrays."""
    check_shapes("n m, n<s, n, n, m, m, m, s r, s r, s, s", products, *arrays, m=products.shape[1], s=len(arrays[-1]))
    _gather(products, k, *arrays)


@kernel
def _gather(
    products, k, slots, row_norms, row_numbers, column_norms, factors, column_numbers, values, found, size, bounds
):
    """Add ``(|x|^2 + |z|^2 - 2 x'z) * factor(z)`` of a tile of ``products`` to the reservoirs of its rows x.

    Row i of the tile has the reservoir ``slots[i]``, and no two rows have the same. The products are overwritten; norms
    are squared lengths, and a pair with equal numbers is left out. Each row of ``values`` and ``found``, k numbers and
    a few runs long, is a reservoir of ``size`` numbers not above its bound.
    """
    n, m = products.shape
    full = values.shape[1] - _RUN
    for i in range(n):
        slot = slots[i]
        norm, bound, held, own = row_norms[i], bounds[slot], size[slot], row_numbers[i]
        zero = norm - norm  # of the same precision: a literal would make everything double
        for j in range(m):
            products[i, j] = max(norm + column_norms[j] - (products[i, j] + products[i, j]), zero) * factors[j]
        for start in range(0, m, _RUN):
            stop = start + _RUN
            near = 0
            if stop <= m:
                # Most runs hold nothing near enough. One count of known length shows it in a few vector instructions.
                for j in range(_RUN):
                    near += products[i, start + j] <= bound
                if near == 0:
                    continue
            # All are written, and the next one overwrites those not taken: a branch would be mispredicted too often.
            for j in range(start, min(stop, m)):
                value, number = products[i, j], column_numbers[j]
                values[slot, held], found[slot, held] = value, number
                held += (value <= bound) & (number != own)
            if held > full:
                _select(values[slot], found[slot], k, held)
                bound, held = values[slot, k - 1], k
        size[slot], bounds[slot] = held, bound


@kernel
def settle(k, values, found, size):
    """Sort the k smallest of every reservoir to its front."""
    _sort_first(k, values, found, size)


@helper
def _sort_first(k, values, found, size):
    for row in range(values.shape[0]):
        _select(values[row], found[row], k, size[row])
        for i in range(1, min(k, size[row])):
            value, index = values[row, i], found[row, i]
            at = i
            while at > 0 and _before(value, index, values[row, at - 1], found[row, at - 1]):
                values[row, at], found[row, at] = values[row, at - 1], found[row, at - 1]
                at -= 1
            values[row, at], found[row, at] = value, index


def rank_candidates(candidates, queries, rows, chosen):
    """Sort the nearest of every query's candidates into ``chosen``; see `_rank_candidates`."""
    check_shapes("n c, n d, m d, n k", candidates, queries, rows, chosen)
    if candidates.size and (candidates.min() < 0 or candidates.max() >= len(rows)):
        raise InputError("a candidate is not a row. Was a file changed? Fit it again.")
    if chosen.shape[1] > candidates.shape[1]:
        raise InputError("more rows are wanted than there are candidates.")
    _rank_candidates(candidates, queries, rows, chosen)


@kernel
def _rank_candidates(candidates, queries, rows, chosen):
    """Write the candidates with the smallest ``|q - x|^2``, the nearest first; equals go by their number."""
    n, m = candidates.shape
    k, d = chosen.shape[1], queries.shape[1]
    values, found = np.empty((1, m), rows.dtype), np.empty((1, m), np.int32)
    size = np.full(1, m, np.int64)
    for i in range(n):
        for j in range(m):
            number = candidates[i, j]
            total = rows[number, 0] - rows[number, 0]
            for f in range(d):
                gap = queries[i, f] - rows[number, f]
                total += gap * gap
            values[0, j], found[0, j] = total, number
        _sort_first(k, values, found, size)
        for j in range(k):
            chosen[i, j] = found[0, j]
