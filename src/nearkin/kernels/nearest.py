"""The k smallest numbers of every row of a table that arrives tile by tile, gathered in reservoirs.

A reservoir takes every number not above its bound; when it is full, the k smallest stay and the k-th becomes the bound.
A number costs one comparison, where a heap would pay ``log k`` for each that it takes. The result does not depend on
the order of the tiles: equal numbers go by their index.
"""

import numpy as np

from nearkin.errors import InputError
from nearkin.kernels import check_shapes
from nearkin.kernels.machine import LANES
from nearkin.kernels.machine.compile import helper, kernel
from nearkin.kernels.machine.simd import above, count_bits, equal, load_few, low_bits, lowest_bit


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
    low, high = size - size, size - 1  # with a literal, `_swap` would be compiled for it as well
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
    if arrays[-3].shape[1] < k + LANES:
        raise InputError("reservoirs are too small for the numbers that are compared at once.")
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
    full = values.shape[1] - LANES
    for i in range(n):
        slot = slots[i]
        norm, bound, held, own = row_norms[i], bounds[slot], size[slot], row_numbers[i]
        zero = norm - norm  # of the same precision: a literal would make everything double
        for j in range(m):
            products[i, j] = max(norm + column_norms[j] - (products[i, j] + products[i, j]), zero) * factors[j]
        for start in range(0, m, LANES):
            if start + LANES <= m:
                # Most numbers are not near enough: the bits of those that are come in a few vector instructions.
                near = ~above(load_few(products, i * m + start, LANES), bound) & low_bits(LANES)
                while near:
                    j = start + lowest_bit(near)
                    near &= near - np.uint64(1)
                    values[slot, held], found[slot, held] = products[i, j], column_numbers[j]
                    held += column_numbers[j] != own
            else:
                for j in range(start, m):
                    values[slot, held], found[slot, held] = products[i, j], column_numbers[j]
                    held += (products[i, j] <= bound) & (column_numbers[j] != own)
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
    width = values.shape[1]
    in_order, numbers = np.empty(k, values.dtype), np.empty(k, found.dtype)
    for row in range(values.shape[0]):
        _select(values[row], found[row], k, size[row])
        n, is_ordered = min(k, size[row]), True
        for i in range(n):
            # The place of a number is how many are before it, counted by comparing with many at once.
            value, number = values[row, i], found[row, i]
            place, same = 0, 0
            for at in range(0, n, LANES):
                if at + LANES <= width:
                    some, inside = load_few(values, row * width + at, LANES), low_bits(n - at)
                    equals = equal(some, value) & inside
                    same += count_bits(equals)
                    place += count_bits(~(above(some, value) | equals) & inside)
                else:
                    for j in range(at, n):
                        same += values[row, j] == value
                        place += values[row, j] < value
            if same > 1:
                for j in range(n):
                    place += values[row, j] == value and found[row, j] < number
            if place < n:
                in_order[place], numbers[place] = value, number
            else:  # it is not a number and has no place
                is_ordered = False
        if is_ordered:
            for i in range(n):
                values[row, i], found[row, i] = in_order[i], numbers[i]


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
