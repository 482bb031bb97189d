"""The nearest witnesses of every row, of its own class and of others, and what they say about its label.

Distances are sums of squared differences in single precision, feature by feature, so that each depends on its two
vectors alone: neither chunks nor threads change a bit of it. A few rows at a time are compared with all witnesses, and
their distances stay in the cache until the nearest are chosen.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearkin.errors import InputError
from nearkin.kernels import check_shapes
from nearkin.kernels.machine.compile import body, helper, kernel
from nearkin.kernels.machine.simd import (
    LANES,
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

#: Squared distance below which a witness is taken for the row itself, as a share of its mean over all witnesses.
_ZERO = 1e-12

#: Rows of a tile, and rows whose distances are held at a time.
_TILE, _HELD = 4, 16

#: Groups of witnesses whose nearest ones bound the k-th nearest of all, and the most that are ordered by counting.
_GROUPS = 2 * LANES

#: Largest coordinate of a witness when scaled: squares, and those of 1e-25 and 1e12 of it, fit single precision.
_FARTHEST = 2.0**20

_LOWEST, _BELOW_ALL = np.finfo(np.float32).min, np.float32(-np.inf)


class Neighbours(NamedTuple):
    """Nearest witnesses of rows, nearest first, with their squared distances; -1 where there is no witness.

    Row i of ``margins`` holds the margins by the i-th number of voters.
    """

    own: NDArray[np.int64]
    other: NDArray[np.int64]
    near: NDArray[np.float32]
    far: NDArray[np.float32]
    margins: NDArray[np.float64]


class Panels(NamedTuple):
    """Witnesses in the order in which rows are compared with them; see `pack`."""

    panels: NDArray[np.float32]
    codes: NDArray[np.int64]
    weight: NDArray[np.float64]
    #: First witness of every class and of none; the share of every class in all weight.
    first: NDArray[np.int64]
    share: NDArray[np.float64]
    centre: NDArray[np.float64]
    scale: float
    #: Mean squared distance from the centre, scaled.
    spread: float


def pack(placed, codes, weight):
    """Witnesses as vectors of single precision, centred and scaled, neighbouring ones side by side.

    The centre has few digits, so that differences of whole numbers stay exact.
    """
    m, r = placed.shape
    check_shapes("m r, m, m", placed, codes, weight)
    if codes.min() < 0 or (np.diff(codes) < 0).any():
        raise InputError("witnesses must be ordered by class. Was a file changed? Fit it again.")
    placed = placed.astype(np.float64, copy=False)
    centre = placed.mean(axis=0)
    size = np.abs(placed - centre).max() or np.abs(placed).max() or 1.0
    exponent = np.frexp(max(size, 1e-250))[1]
    centre = np.ldexp(np.rint(np.ldexp(centre, 8 - exponent)), exponent - 8)
    scale = float(np.ldexp(_FARTHEST, -exponent))
    centred = (placed - centre) * scale
    panels = np.zeros((-(-m // _GROUPS) * _GROUPS, r), np.float32)
    panels[:m] = centred
    panels = np.ascontiguousarray(panels.reshape(-1, LANES, r).transpose(0, 2, 1))
    n_classes = int(codes[-1]) + 1
    share = np.bincount(codes, weight, n_classes)
    share /= max(share.sum(), np.finfo(np.float64).tiny)
    first = np.searchsorted(codes, np.arange(n_classes + 1))
    return Panels(panels, codes, weight, first, share, centre, scale, float(np.einsum("ij,ij->", centred, centred)) / m)


def judge(rows, row_class, witnesses, k, voters):
    """The k nearest witnesses of each row's own class and of all others, and margins by several numbers of voters.

    Of equal distances those go first that belong to the row's own class, then those of lower numbers. One witness of
    its class at no distance (`_ZERO`) is taken for the row itself, and left out. The nearest of all vote with their
    weights. A class has as many votes as witnesses, so the share of a class with fewer witnesses than voters is counted
    against what it could have. With the share q of the own class in the votes for it and for the best other, the margin
    is ``4 q - 1.5``: 1 where five of eight are for the label, negative where five of eight are against it. A class
    without any witness has all votes.
    """
    n, r = rows.shape
    check_shapes("n r, n", rows, row_class, r=witnesses.panels.shape[1])
    if row_class.min(initial=0) < 0:
        raise InputError("classes of rows must not be negative. Was a file changed? Fit it again.")
    moved = rows - witnesses.centre
    moved *= witnesses.scale
    centred = np.empty((-(-n // _TILE) * _TILE, r), np.float32)
    with np.errstate(over="ignore"):  # infinitely far is a distance, too
        centred[:n] = moved
    centred[n:] = 0.0
    found = Neighbours(
        np.full((n, k), -1, np.int64), np.full((n, k), -1, np.int64), np.empty((n, k), np.float32),
        np.empty((n, k), np.float32), np.empty((len(voters), n)),
    )  # fmt: skip
    held = np.empty(_HELD * LANES * len(witnesses.panels) + _GROUPS, np.float32)
    counts = np.zeros(len(witnesses.share)), np.empty(_GROUPS + 1, np.int64)
    scales = 1.0 / witnesses.scale, witnesses.spread
    _judge(centred, row_class, witnesses[:5], scales, np.array(voters), max(k, *voters), held, counts, found)
    return found


def sum_pairs(rows, row_weight, witnesses, weight, lists):
    """Sums over the pairs of each row x with its witnesses z, whose numbers are in one of the lists (-1 for none).

    Every pair weighs ``c``, the product of both weights. Returns ``sum c (x / 2 - z)`` of every row, of shape
    (n, lists, d), and the sum of c of every witness, of shape (lists, m).
    """
    which = np.stack(lists)
    check_shapes(
        "n d, n, m d, m, l n k",
        rows,
        row_weight,
        witnesses,
        weight,
        which,
        l=len(lists),
        k=which.shape[2],
    )
    if which.max(initial=-1) >= len(witnesses):
        raise InputError("neighbours must be witnesses.")
    pulls, shares = (
        np.empty((len(rows), len(which), rows.shape[1])),
        np.zeros((len(which), len(witnesses))),
    )
    _sum_pairs(rows, row_weight, witnesses, weight, which, pulls, shares)
    return pulls, shares


@kernel
def _sum_pairs(rows, row_weight, witnesses, weight, which, pulls, shares):
    d = rows.shape[1]
    for i in range(rows.shape[0]):
        for side in range(which.shape[0]):
            whole = 0.0
            for a in range(which.shape[2]):
                if which[side, i, a] >= 0:
                    whole += row_weight[i] * weight[which[side, i, a]]
            for f in range(d):
                pulls[i, side, f] = 0.5 * whole * rows[i, f]
            for a in range(which.shape[2]):
                j = which[side, i, a]
                if j >= 0:
                    pair = row_weight[i] * weight[j]
                    shares[side, j] += pair
                    for f in range(d):
                        pulls[i, side, f] -= pair * witnesses[j, f]


def sum_by_class(rows, codes, weight, totals):
    """Add every row, times its weight, to the total of its class."""
    check_shapes("n d, n<c, n, c d", rows, codes, weight, totals, c=len(totals))
    _sum_by_class(rows, codes, weight, totals)


@kernel
def _sum_by_class(rows, codes, weight, totals):
    for i in range(rows.shape[0]):
        for f in range(rows.shape[1]):
            totals[codes[i], f] += weight[i] * rows[i, f]


def combine(found, is_anchor, is_trusted, n_targets, n_impostors, margin):
    """Triplets of anchors with their nearest trusted witnesses, every target with every impostor.

    Only those with an impostor that is farther than the target by less than ``margin``. Returns the numbers of anchors,
    positives and negatives.
    """
    check_shapes("n k, n k, n k, n k, n", *found[:4], is_anchor, n=len(is_anchor))
    if max(found.own.max(initial=-1), found.other.max(initial=-1)) >= len(is_trusted):
        raise InputError("neighbours must be witnesses.")
    most = int(np.count_nonzero(is_anchor)) * min(n_targets, found.own.shape[1]) * min(n_impostors, found.own.shape[1])
    triplets = np.empty((3, most), np.int64)
    n = _combine(found[:4], is_anchor, is_trusted, n_targets, n_impostors, np.float32(margin), triplets)
    return tuple(np.ascontiguousarray(triplets[:, :n]))


@kernel
def _combine(found, is_anchor, is_trusted, n_targets, n_impostors, margin, triplets):
    own, other, near, far = found
    k, n = own.shape[1], 0
    for i in range(own.shape[0]):
        if not is_anchor[i]:
            continue
        n_left = n_targets
        for a in range(k):
            if n_left == 0 or own[i, a] < 0:
                break
            if not is_trusted[own[i, a]]:
                continue
            n_left -= 1
            n_more = n_impostors
            for b in range(k):
                if n_more == 0 or other[i, b] < 0:
                    break
                if not is_trusted[other[i, b]]:
                    continue
                n_more -= 1
                if far[i, b] - near[i, a] < margin:
                    triplets[0, n], triplets[1, n], triplets[2, n] = i, own[i, a], other[i, b]
                    n += 1
    return n


@kernel
def _judge(rows, row_class, witnesses, scales, voters, most, table, counts, found):
    panels, codes, weight, first, share = witnesses
    own, other, near, far, margins = found
    m, wide, k = codes.shape[0], panels.shape[0] * LANES, own.shape[1]
    against, taken = counts
    unit, mean_of_all = scales
    tops, values, places = np.empty(_GROUPS, np.float32), np.empty(wide + _GROUPS, np.float32), np.empty(wide, np.int64)
    own_values, own_places = np.empty(most, np.float32), np.empty(most, np.int64)
    other_values, other_places = np.empty(most, np.float32), np.empty(most, np.int64)
    for start in range(0, row_class.shape[0], _HELD):
        stop = min(start + _HELD, row_class.shape[0])
        for p in range(panels.shape[0]):
            for i in range(start, stop, _TILE):
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
                if -table[j] <= _ZERO * mean:
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
                    at_other = 0
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
    k, one, zero = chosen.shape[0], lanes(tops), np.int64(0)
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
