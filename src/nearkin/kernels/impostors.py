"""Search of OCTG: from rows and centres to triplets (section 3.4 of the paper).

Scores are made for as many rows at a time as stay in the cache, and compared many at once. They are taken up to a term
of the row, which cancels in every comparison. Centres are put in order of their class, so that those of the row's own
class lie side by side; equal scores go by the number a centre had before.

Memory is made outside the compiled loops, which then compile in a fraction of the time.
"""

import numpy as np

from nearkin.kernels.machine.blas import products, workspace
from nearkin.kernels.machine.compile import body, helper, kernel
from nearkin.kernels.machine.lanes import FEW, LANES, above, highest, how_many, lowest, not_below
from nearkin.measures import LinearScores

__all__ = ["scan", "scan_batch", "search"]

#: Bytes of a table of scores, and of the rows behind it, that stay in the cache; and most rows at once.
_CACHED = 1 << 20
_MOST_ROWS = 1024

#: Groups of `LANES` centres whose state fits into the bits of one word.
_GROUPS = 64


def search(rows, form, gap, row_class, centre_class, max_impostors):
    """Triplets of every row: its best centre of its own class and each impostor, the nearest first.

    A centre of another class is an impostor unless the best of its own class, less ``gap``, scores higher.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        Anchors.
    form : LinearScores
        Of the centres; its unit is not used.
    gap : float
        Margin in that unit.
    row_class, centre_class : ndarray of int64
        Classes from 0 on.
    max_impostors : int
        Most triplets of a row.

    Returns
    -------
    triplets : ndarray of shape (3, n_triplets)
        Anchors, positives and negatives.
    own : ndarray of shape (n_done,)
        Best centre of each row. Both end before the first row whose class has no centre.
    """
    order, start = _by_class(centre_class)
    form = LinearScores(form.origin, form.directions[order], form.offsets[order], form.unit)
    return _all(rows, False, form, gap, row_class, order, start, max_impostors)


def scan(table, gap, row_class, centre_class, max_impostors):
    """The same as `search` for scores that are known: ``table[i, j]`` is larger when row i is closer to centre j."""
    order, start = _by_class(centre_class)
    form = LinearScores(table[0], table[:0], np.zeros(len(order), table.dtype), 1.0)
    return _all(table, True, form, gap, row_class, order, start, max_impostors)


def _by_class(centre_class):
    """Centres in order of class, and where each class begins (one more than there are classes)."""
    start = np.zeros(centre_class.max() + 2, np.int64)
    np.cumsum(np.bincount(centre_class), out=start[1:])
    return np.argsort(centre_class, kind="stable"), start


def _all(rows, known, form, gap, row_class, order, start, most):
    """Triplets of all rows, or of all rows of a table of scores that is known."""
    n, m, d, dtype = _rows_with_a_centre(row_class, start), len(order), rows.shape[1], rows.dtype
    step = max(1, min(n, _MOST_ROWS, max(64, _CACHED // (dtype.itemsize * max(m, d)))))
    # As wide as the lanes read; what lies beyond the m scores of a row is never used, whatever it is.
    wide = -(-m // LANES) * LANES + LANES
    scores, moved = np.empty((step, wide + 16), dtype), np.empty((step, d), dtype)
    shift = np.concatenate([form.offsets, np.zeros(wide - m, dtype)])
    found, values, words = np.empty(m, np.int64), np.empty(m + FEW, dtype), np.empty(_GROUPS, np.uint64)
    own, top = np.empty(n, np.int64), np.empty(step, dtype)
    out, done, count = np.empty((3, 8 * n + m), np.int64), 0, 0
    while done < n:
        done, count = _triplets(
            rows, known, form.origin, form.directions, shift, gap, row_class, order, start, most,
            moved, scores, top, found, values, words, workspace(rows), own, out, done, count,
        )  # fmt: skip
        if done < n:
            out = np.concatenate([out, np.empty((3, max(m, out.shape[1])), np.int64)], axis=1)
    return out[:, :count], own


def _rows_with_a_centre(row_class, start):
    """How many rows come before the first whose class has no centre."""
    size = np.append(np.diff(start), 0)
    alone = size[np.minimum(row_class, len(size) - 1)] == 0
    return int(alone.argmax()) if alone.any() else len(row_class)


@kernel
def _triplets(
    rows, known, origin, directions, shift, gap, row_class, order, start, most,
    moved, scores, top, found, values, words, work, own, out, done, count,
):  # fmt: skip
    """Append the triplets of rows from ``done`` on while there is room; returns the next row and their number."""
    m = len(order)
    while done < len(own):
        n = len(own) - done
        n = n if n < len(top) else len(top)
        if known:
            for i in range(n):
                for at in range(m):
                    scores[i, at] = rows[done + i, order[at]]
        else:
            for i in range(n):
                for k in range(len(origin)):
                    moved[i, k] = rows[done + i, k] - origin[k]
            products(moved[:n], directions, scores[:n, :m], work)
        for i in range(n):
            code = row_class[done + i]
            own[done + i], top[i] = _best(scores, i, shift, start[code], start[code + 1])
        for i in range(n):
            if count + m > out.shape[1]:
                return done, count
            code, n_found = row_class[done], 0
            for base in range(0, m, _GROUPS * LANES):
                n_found = _impostors(
                    scores, i, shift, top[i] - gap, base, m, start[code], start[code + 1],
                    order, words, found, values, n_found,
                )  # fmt: skip
            best = order[own[done]]
            own[done] = best
            count = _put(out, count, done, best, found, values, n_found, most)
            done += 1
    return done, count


@body
def _low_bits(n):
    """Word with its lowest n bits set, of `LANES` at most."""
    return (np.uint64(1) << np.uint64(n if n < LANES else LANES)) - np.uint64(1)


@body
def _best(scores, i, shift, begin, end):
    """Place and score of the best centre of ``begin:end``, the first of equal ones."""
    top = highest(scores, i, shift, begin, end - begin)
    for at in range(begin + LANES, end, LANES):
        other = highest(scores, i, shift, at, end - at)
        top = other if other > top else top
    for at in range(begin, end, LANES):
        equal = not_below(scores, i, shift, at, top) & _low_bits(end - at)
        if equal:
            return at + lowest(equal), top
    return begin, top


@body
def _impostors(scores, i, shift, bound, base, m, begin, end, order, words, found, values, n):
    """Append the centres from ``base`` on that are not below the bound and not in ``begin:end``; returns how many."""
    one = np.uint64(1)
    n_words = (m - base + LANES - 1) // LANES
    n_words = n_words if n_words < _GROUPS else _GROUPS
    for g in range(n_words):
        words[g] = not_below(scores, i, shift, base + g * LANES, bound)
    words[n_words - 1] &= _low_bits(m - base - (n_words - 1) * LANES)
    first, last = (begin - base) // LANES, (end - 1 - base) // LANES
    for g in range(first if first > 0 else 0, last + 1 if last < n_words else n_words):
        at = base + g * LANES
        words[g] &= ~(_low_bits(end - at) & ~_low_bits(begin - at if begin > at else 0))
    live, total = np.uint64(0), n
    for g in range(n_words):
        total += how_many(words[g])
        live |= np.uint64(words[g] != 0) << np.uint64(g)
    # One loop over all that was found, without a branch that could be guessed wrongly.
    for a in range(n, total):
        g = lowest(live)
        word = words[g]
        at = base + g * LANES + lowest(word)
        word &= word - one
        words[g] = word
        live &= ~(np.uint64(word == 0) << np.uint64(g))
        found[a] = order[at]
        values[a] = scores[i, at] - shift[at]
    return total


@body
def _put(out, count, row, own, found, values, n, most):
    """Write the triplets of one row, the nearest impostor first; returns the new count."""
    sort = n > FEW or n > most
    if not sort:
        inside = _low_bits(n)
        for a in range(n):  # each knows its place from how many are above it, unless some are equal
            higher, equal = above(values, values[a])
            sort |= how_many(equal & inside) != 1
            out[0, count + a] = row
            out[1, count + a] = own
            out[2, count + how_many(higher & inside)] = found[a]
    if sort:
        _nearest_first(found, values, n)
        n = n if n < most else most
        for a in range(n):
            out[0, count + a] = row
            out[1, count + a] = own
            out[2, count + a] = found[a]
    return count + n


@helper
def _nearest_first(found, values, n):
    """Sort the first n indices by falling value, equal ones by index (Shell's method: quick to compile)."""
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for start in range(gap, n):
            j, value = found[start], values[start]
            at = start
            while at >= gap:
                k = found[at - gap]
                if values[at - gap] > value or (values[at - gap] == value and k < j):
                    break
                found[at], values[at] = k, values[at - gap]
                at -= gap
            found[at], values[at] = j, value
        gap //= 3


@kernel
def scan_batch(scores, first, codes, n_targets, margin, max_impostors):
    """Triplets of anchors ``first, first + 1, ...`` against all rows: targets in order of nearness, each with its
    impostors in order of nearness.
    """
    n_anchors, n = scores.shape
    out = np.empty((1024, 3), np.int64)
    count = 0
    for i in range(n_anchors):
        row = first + i
        order = np.argsort(-scores[i], kind="mergesort")
        n_found = 0
        for at in range(n):
            j = order[at]
            if n_found == n_targets:
                break
            if j == row or codes[j] != codes[row]:
                continue
            n_found += 1
            used = 0
            for other in range(n):
                k = order[other]
                if used == max_impostors or scores[i, j] - margin > scores[i, k]:
                    break
                if codes[k] == codes[row]:
                    continue
                if count == out.shape[0]:
                    grown = np.empty((2 * count, 3), np.int64)
                    grown[:count] = out
                    out = grown
                out[count, 0] = row
                out[count, 1] = j
                out[count, 2] = k
                count += 1
                used += 1
    return out[:count].copy()
