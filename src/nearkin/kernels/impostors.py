"""Search of OCTG: from rows and centres to triplets (section 3.4 of the paper).

Scores are computed for as many rows at a time as stay in the cache, and compared many at once. They leave out a term
of the row that cancels in every comparison. Centres are ordered by class, so that those of the row's own class lie
side by side; equal scores go by the number a centre had before.

Memory is allocated outside the compiled loops, which then compile in a fraction of the time.
"""

from typing import NamedTuple

import numpy as np

from nearkin.errors import InputError
from nearkin.kernels import check_shapes
from nearkin.kernels.machine import LANES
from nearkin.kernels.machine.compile import body, helper, kernel
from nearkin.kernels.machine.linalg import products, workspace
from nearkin.kernels.machine.simd import (
    above,
    count_bits,
    equal,
    largest,
    load_few,
    low_bits,
    lowest_bit,
    not_below,
)  # fmt: skip
from nearkin.measures import LinearScores

#: More classes than there can be: a code is checked for its sign alone.
_MANY = np.iinfo(np.int64).max

#: Bytes of a table of scores, and of the rows behind it, that stay in the cache; and most rows at once.
_CACHED = 1 << 20
_MOST_ROWS = 1024

#: Scores compared at once in `_put`, and groups of `LANES` whose state fits into the bits of one word. Vectors are read
#: past the end of a row, so arrays have that much room behind them.
_FEW = 16
_GROUPS = 64


class _Search(NamedTuple):
    """Rows, or a table of known scores, and centres in order of class."""

    rows: np.ndarray
    is_known: bool
    #: Of the centres (see `LinearScores`): origin, directions and offsets, the last padded.
    origin: np.ndarray
    directions: np.ndarray
    shift: np.ndarray
    gap: float
    row_class: np.ndarray
    #: Number of every centre before it was ordered, and where each class begins.
    order: np.ndarray
    start: np.ndarray
    most: int


class _Work(NamedTuple):
    """Memory of the search."""

    #: Of as many rows as are scored at a time: moved to the origin, their scores, the best of their own class.
    moved: np.ndarray
    scores: np.ndarray
    top: np.ndarray
    #: Impostors of one row and their scores; bits of the centres that are impostors.
    found: np.ndarray
    values: np.ndarray
    words: np.ndarray


def search(rows, form, gap, row_class, centre_class, max_impostors):
    """Triplets (3, n) of every row, its best centre of its own class with each impostor, the nearest first; and the
    best centre of each row. Both end before the first row whose class has no centre.

    A centre of another class is an impostor unless the best of the row's own class, less ``gap``, scores higher.
    ``form`` holds the scores of the centres (`LinearScores`), and ``gap`` is in its unit.
    """
    check_shapes("n d, n<c, d, m d, m, m<c", rows, row_class, *form[:3], centre_class, c=_MANY)
    if not rows.dtype == form.origin.dtype == form.directions.dtype:
        raise InputError(f"centres of {form.directions.dtype} cannot be compared with rows of {rows.dtype}.")
    order, start = _by_class(centre_class)
    form = form._replace(directions=form.directions[order], offsets=form.offsets[order])
    return _find_all(rows, False, form, gap, row_class, order, start, max_impostors)


def scan(table, gap, row_class, centre_class, max_impostors):
    """`search` with known scores: ``table[i, j]`` is larger when row i is closer to centre j."""
    check_shapes("n m, n<c, m<c", table, row_class, centre_class, c=_MANY)
    order, start = _by_class(centre_class)
    form = LinearScores(table[0], table[:0], np.zeros(len(order), table.dtype), 1.0)
    return _find_all(table, True, form, gap, row_class, order, start, max_impostors)


def _by_class(centre_class):
    """Centres in order of class, and where each class begins (one more than there are classes)."""
    start = np.zeros(centre_class.max() + 2, np.int64)
    np.cumsum(np.bincount(centre_class), out=start[1:])
    return np.argsort(centre_class, kind="stable"), start


def _find_all(rows, is_known, form, gap, row_class, order, start, most):
    """Triplets of all rows, or of all rows of a table of known scores."""
    n, m, d, dtype = _rows_with_a_centre(row_class, start), len(order), rows.shape[1], rows.dtype
    step = max(1, min(n, _MOST_ROWS, max(64, _CACHED // (dtype.itemsize * max(m, d)))))
    # As wide as the vectors read; elements beyond the m scores of a row are never used.
    wide = -(-m // LANES) * LANES + LANES
    shift = np.concatenate([form.offsets, np.zeros(wide - m, dtype)])
    task = _Search(rows, is_known, form.origin, form.directions, shift, gap, row_class, order, start, most)
    work = _Work(
        np.empty((step, d), dtype), np.empty((step, wide + 16), dtype), np.empty(step, dtype),
        np.empty(m, np.int64), np.empty(m + _FEW, dtype), np.empty(_GROUPS, np.uint64),
    )  # fmt: skip
    own, out, done, count = np.empty(n, np.int64), np.empty((3, 8 * n + m), np.int64), 0, 0
    while done < n:
        done, count = _triplets(task, work, own, out, done, count)
        if done < n:
            out = np.concatenate([out, np.empty((3, max(m, out.shape[1])), np.int64)], axis=1)
    return out[:, :count], own


def _rows_with_a_centre(row_class, start):
    """Number of rows before the first whose class has no centre."""
    size = np.append(np.diff(start), 0)
    alone = size[np.minimum(row_class, len(size) - 1)] == 0
    return int(alone.argmax()) if alone.any() else len(row_class)


@kernel
def _triplets(task, work, own, out, done, count):
    """Append the triplets of rows from ``done`` on while there is room; returns the next row and their number."""
    scores, top, blas = work.scores, work.top, workspace(work.scores)
    m = len(task.order)
    while done < len(own):
        n = len(own) - done
        n = n if n < len(top) else len(top)
        if task.is_known:
            for i in range(n):
                for at in range(m):
                    scores[i, at] = task.rows[done + i, task.order[at]]
        else:
            for i in range(n):
                for k in range(len(task.origin)):
                    work.moved[i, k] = task.rows[done + i, k] - task.origin[k]
            products(work.moved[:n], task.directions, scores[:n, :m], blas)
        for i in range(n):
            code = task.row_class[done + i]
            own[done + i], top[i] = _best(scores, i, task.shift, task.start[code], task.start[code + 1])
        for i in range(n):
            if count + m > out.shape[1]:
                return done, count
            n_found = 0
            for base in range(0, m, _GROUPS * LANES):
                n_found = _impostors(task, work, i, task.row_class[done], base, n_found)
            best = task.order[own[done]]
            own[done] = best
            count = _put(out, count, done, best, work, n_found, task.most)
            done += 1
    return done, count


@body
def _shifted(scores, i, shift, at):
    """Scores of row i from centre ``at`` on."""
    return load_few(scores, i * scores.shape[1] + at, LANES) - load_few(shift, at, LANES)


@body
def _best(scores, i, shift, begin, end):
    """Position and score of the best centre of ``begin:end``, the first of equal ones."""
    top = largest(_shifted(scores, i, shift, begin), end - begin)
    for at in range(begin + LANES, end, LANES):
        other = largest(_shifted(scores, i, shift, at), end - at)
        top = other if other > top else top
    for at in range(begin, end, LANES):
        ties = not_below(_shifted(scores, i, shift, at), top) & low_bits(end - at)
        if ties:
            return at + lowest_bit(ties), top
    return begin, top


@body
def _impostors(task, work, i, code, base, n):
    """Append the centres from ``base`` on that are impostors of row i of class ``code``; returns how many there are."""
    words, m = work.words, len(task.order)
    bound = work.top[i] - task.gap
    begin, end = task.start[code], task.start[code + 1]
    one = np.uint64(1)
    n_words = (m - base + LANES - 1) // LANES
    n_words = n_words if n_words < _GROUPS else _GROUPS
    for g in range(n_words):
        words[g] = not_below(_shifted(work.scores, i, task.shift, base + g * LANES), bound)
    words[n_words - 1] &= low_bits(m - base - (n_words - 1) * LANES)
    first, last = (begin - base) // LANES, (end - 1 - base) // LANES
    for g in range(first if first > 0 else 0, last + 1 if last < n_words else n_words):
        at = base + g * LANES
        words[g] &= ~(low_bits(end - at) & ~low_bits(begin - at if begin > at else 0))
    live, total = np.uint64(0), n
    for g in range(n_words):
        total += count_bits(words[g])
        live |= np.uint64(words[g] != 0) << np.uint64(g)
    # One loop over all impostors, without a branch that could be mispredicted.
    for a in range(n, total):
        g = lowest_bit(live)
        word = words[g]
        at = base + g * LANES + lowest_bit(word)
        word &= word - one
        words[g] = word
        live &= ~(np.uint64(word == 0) << np.uint64(g))
        work.found[a] = task.order[at]
        work.values[a] = work.scores[i, at] - task.shift[at]
    return total


@body
def _put(out, count, row, own, work, n, most):
    """Write the triplets of one row, the nearest impostor first; returns the new count."""
    found, values = work.found, work.values
    sort = n > _FEW or n > most
    if not sort:
        inside = low_bits(n)
        few = load_few(values, 0, _FEW)
        for a in range(n):  # each knows its place from the number above it, unless some are equal
            sort |= count_bits(equal(few, values[a]) & inside) != 1
            out[0, count + a] = row
            out[1, count + a] = own
            out[2, count + count_bits(above(few, values[a]) & inside)] = found[a]
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


def scan_batch(scores, first, codes, n_targets, margin, max_impostors):
    """Triplets of anchors ``first, first + 1, ...`` against all rows: the nearest targets, each with its impostors."""
    check_shapes("a n, n", scores, codes)
    if not 0 <= first <= len(codes) - len(scores):
        raise InputError(f"anchors {first} to {first + len(scores)} are not among {len(codes)} rows.")
    return _scan_batch(scores, first, codes, n_targets, margin, max_impostors)


@kernel
def _scan_batch(scores, first, codes, n_targets, margin, max_impostors):
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
