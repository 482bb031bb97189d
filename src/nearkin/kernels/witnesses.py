"""The nearest witnesses of rows and the margins of their votes, compiled; `nearkin.kernels.neighbours` defines them.

A few rows at a time are compared with all witnesses; their distances stay in the cache until the nearest are chosen.
"""

import numpy as np

from nearkin.kernels.machine import LANES
from nearkin.kernels.machine.compile import body, helper, kernel
from nearkin.kernels.machine.simd import (
    above,
    count_bits,
    equal,
    lanes,
    larger,
    load,
    load_few,
    low_bits,
    lowest_bit,
    spread,
    store,
    zeros,
)

#: Rows of a tile, and rows whose distances are held at a time.
TILE, HELD = 4, 16

#: Groups of witnesses whose nearest ones bound the k-th nearest of all, and the most that are ordered by counting.
_GROUPS = 2 * LANES

_LOWEST, _BELOW_ALL = np.finfo(np.float32).min, np.float32(-np.inf)


@kernel
def judge(rows, row_class, witnesses, scales, zero, voters, most, table, counts, found):
    panels, codes, weight, first, share = witnesses
    own, other, near, far, margins = found
    m, wide, k = codes.shape[0], panels.shape[0] * LANES, own.shape[1]
    against, taken = counts
    unit, mean_of_all = scales
    tops, values, places = np.empty(_GROUPS, np.float32), np.empty(wide + _GROUPS, np.float32), np.empty(wide, np.int64)
    own_values, own_places = np.empty(most, np.float32), np.empty(most, np.int64)
    other_values, other_places = np.empty(most, np.float32), np.empty(most, np.int64)
    for start in range(0, row_class.shape[0], HELD):
        stop = min(start + HELD, row_class.shape[0])
        for p in range(panels.shape[0]):
            for i in range(start, stop, TILE):
                _compare(rows, i, panels, p, table, (i - start) * wide + p * LANES, wide)
        for i in range(start, stop):
            here = (i - start) * wide
            code = row_class[i]
            begin, end = (first[code], first[code + 1]) if code + 1 < first.shape[0] else (m, m)
            mean = mean_of_all
            for f in range(rows.shape[1]):
                mean += np.float64(rows[i, f]) ** 2
            n_witnesses = end - begin
            for j in range(here + begin, here + end):
                if -table[j] <= zero * mean:
                    table[j] = -np.inf
                    n_witnesses -= 1
                    break
            n_own = _choose(table, here, here + begin, end - begin, tops, values, places, taken, own_values, own_places)
            for j in range(here + begin, here + end):
                table[j] = -np.inf
            for j in range(here + m, here + wide):
                table[j] = -np.inf
            n_other = _choose(table, here, here, wide, tops, values, places, taken, other_values, other_places)
            for a in range(min(k, n_own)):
                own[i, a], near[i, a] = own_places[a], -own_values[a] * unit * unit
            for a in range(min(k, n_other)):
                other[i, a], far[i, a] = other_places[a], -other_values[a] * unit * unit
            for v in range(len(voters)):
                for_it, at_other = share[code] if n_own else 1.0, 0
                for a in range(min(voters[v], n_own + n_other)):
                    at_own = a - at_other
                    if at_own == n_own or (at_other < n_other and own_values[at_own] < other_values[at_other]):
                        at_other += 1
                    else:
                        for_it += weight[own_places[at_own]]
                if n_own == 0:
                    at_other -= at_other  # zero, not as a literal
                best = _count_rivals(voters[v], other_places, at_other, codes, weight, first, share, against)
                for_it *= max(1.0, voters[v] / max(1, n_witnesses))
                margins[v, i] = 4.0 * for_it / max(for_it + best, 1e-300) - 1.5


@helper
def _count_rivals(size, places, n, codes, weight, first, share, against):
    """Votes of n witnesses for the best class; ``against`` is zero before and after."""
    for a in range(n):
        against[codes[places[a]]] += weight[places[a]]
    best = 0.0
    for a in range(n):
        rival = codes[places[a]]
        votes, n_rivals = share[rival] + against[rival], first[rival + 1] - first[rival]
        best = max(best, votes if n_rivals >= size else votes * size / n_rivals)
    for a in range(n):
        against[codes[places[a]]] = 0.0
    return best


@body
def _compare(rows, i, panels, p, table, at, wide):
    """Write minus the squared distances of a tile of rows from the witnesses of a panel, each at ``at`` and further."""
    r, one = rows.shape[1], lanes(panels)
    a = b = c = d = e = f = g = h = zeros(panels)
    x = i * r
    for w in range(p * r * LANES, (p + 1) * r * LANES, LANES):
        left, right = load(panels, w), load(panels, w + one)
        value = spread(rows, x)
        s, t = left - value, right - value
        a, b = a - s * s, b - t * t
        value = spread(rows, x + r)
        s, t = left - value, right - value
        c, d = c - s * s, d - t * t
        value = spread(rows, x + 2 * r)
        s, t = left - value, right - value
        e, f = e - s * s, f - t * t
        value = spread(rows, x + 3 * r)
        s, t = left - value, right - value
        g, h = g - s * s, h - t * t
        x += 1
    store(table, at, a)
    store(table, at + one, b)
    store(table, at + wide, c)
    store(table, at + wide + one, d)
    store(table, at + 2 * wide, e)
    store(table, at + 2 * wide + one, f)
    store(table, at + 3 * wide, g)
    store(table, at + 3 * wide + one, h)


@helper
def _choose(table, here, start, n, tops, values, places, taken, chosen, found):
    """Write the largest numbers of ``start : start + n``, largest first, and their places from ``here`` on.

    Returns how many there are; minus infinity is none. Equal ones stay in their order.
    """
    k, one, zero = chosen.shape[0], lanes(tops), n - n  # a literal would compile `_sort` twice
    if n <= _GROUPS:
        for t in range(n):
            places[t] = start - here + t
        return _sort(table, start, n, places, taken, chosen, found)
    bound = _LOWEST
    if k <= _GROUPS:
        a, b = load(table, start), load(table, start + one)
        c, d = load(table, start + 2 * one), load(table, start + 3 * one)
        for at in range(start + _GROUPS, start + n - _GROUPS + 1, _GROUPS):
            a, b = larger(a, load(table, at)), larger(b, load(table, at + one))
            c, d = larger(c, load(table, at + 2 * one)), larger(d, load(table, at + 3 * one))
        store(tops, 0, a)
        store(tops, one, b)
        store(tops, 2 * one, c)
        store(tops, 3 * one, d)
        bound = _bound(tops, zero, _word(_GROUPS), k)
    size = 0
    for at in range(0, n, LANES):
        some = load_few(table, start + at, LANES)
        near = (above(some, bound) | equal(some, bound)) & low_bits(n - at)
        while near:
            j = at + lowest_bit(near)
            near &= near - np.uint64(1)
            values[size], places[size] = table[start + j], start - here + j
            size += 1
    if size <= _GROUPS:
        return _sort(values, zero, size, places, taken, chosen, found)
    held = 0
    for t in range(size):
        value = values[t]
        if held < k or value > chosen[k - 1]:
            place = held if held < k else k - 1
            while place > 0 and chosen[place - 1] < value:
                chosen[place], found[place] = chosen[place - 1], found[place - 1]
                place -= 1
            chosen[place], found[place] = value, places[t]
            held = min(held + 1, k)
    return held


@helper
def _sort(values, start, n, places, taken, chosen, found):
    """`_choose` from at most `_GROUPS` numbers; the rank of each is the number of larger ones."""
    k = chosen.shape[0]
    whole = _word(n)
    left = _above(values, start, _BELOW_ALL) & whole
    held = count_bits(left)
    if held > k:
        low = _bound(values, start, left, k)
        left &= _above(values, start, low) | _equal(values, start, low)
    for rank in range(_GROUPS):
        taken[rank] = 0
    while left:
        t = lowest_bit(left)
        left &= left - np.uint64(1)
        value = values[start + t]
        rank = count_bits(_above(values, start, value) & whole)
        taken[rank] += 1
        rank += taken[rank] - 1
        if rank < k:
            chosen[rank] = value
            found[rank] = places[t]
    return min(held, k)


@helper
def _bound(values, start, among, k):
    """A number that k of some are not below, and few more than k."""
    left, bound = among, _LOWEST
    while left:
        t = lowest_bit(left)
        value = values[start + t]
        higher = _above(values, start, value) & among
        rank = count_bits(higher)
        if rank >= k - 1:
            bound = max(bound, value)
            left &= higher
            if rank <= k + 3:
                break
        else:
            left &= ~higher
            left &= left - np.uint64(1)
    return bound


@body
def _word(n):
    """Word with its lowest n bits set."""
    return low_bits(n) | (low_bits(max(0, n - LANES)) << np.uint64(LANES))


@helper
def _above(values, start, value):
    """Which of `_GROUPS` numbers are larger, one bit for each."""
    low, high = load_few(values, start, LANES), load_few(values, start + LANES, LANES)
    return above(low, value) | (above(high, value) << np.uint64(LANES))


@helper
def _equal(values, start, value):
    low, high = load_few(values, start, LANES), load_few(values, start + LANES, LANES)
    return equal(low, value) | (equal(high, value) << np.uint64(LANES))
