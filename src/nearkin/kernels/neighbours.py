"""The nearest witnesses of every row, of its own class and of others, and what they say about its label."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearkin.errors import InputError
from nearkin.kernels import check_shapes
from nearkin.kernels.machine.compile import body, kernel
from nearkin.kernels.machine.simd import LANES, above, load_few, low_bits, lowest_bit

#: Multiple of the rounding of the largest distance below which a distance counts as zero.
_ROUNDING = 64.0


class Neighbours(NamedTuple):
    """Nearest witnesses of rows, nearest first, with their squared distances; -1 where there is no witness."""

    own: NDArray[np.int64]
    other: NDArray[np.int64]
    near: NDArray[np.float32]
    far: NDArray[np.float32]
    margin: NDArray[np.float64]


def judge(distances, row_class, witness_class, weight, k):
    """The k nearest witnesses of the row's own class and of all others, and the margin of their votes.

    ``distances[i, j]`` is the squared distance of row i from witness j; witnesses are ordered by class. Distances are
    compared in single precision, so that those equal up to rounding go by the number of the witness. One witness of
    its class at no distance is taken for the row itself, and left out. The k nearest of all vote with their weights. A
    class has as many votes as witnesses, so the share of a class of fewer than k is counted against what it could
    have. With the share q of the own class in the votes for it and for the best other, the margin is ``4 q - 1.5``: 1
    where five of eight are for the label, negative where five of eight are against it. A class without any witness has
    all votes.
    """
    n, m = distances.shape
    check_shapes("n m, n, m, m", distances, row_class, witness_class, weight, m=m)
    if row_class.min(initial=0) < 0 or witness_class.min(initial=0) < 0 or (np.diff(witness_class) < 0).any():
        raise InputError("witnesses must be ordered by class. Was a file changed? Fit it again.")
    n_classes = 1 + max(row_class.max(initial=0), witness_class.max(initial=0))
    first = np.searchsorted(witness_class, np.arange(n_classes + 1))
    share = np.bincount(witness_class, weight, n_classes)
    share /= max(share.sum(), np.finfo(np.float64).tiny)
    # Negative, so that nearer is larger, and wide enough for vectors that are read past the last witness.
    table = np.empty((n, -(-m // LANES) * LANES + LANES), np.float32)
    np.negative(distances, out=table[:, :m], casting="same_kind")
    found = Neighbours(
        np.full((n, k), -1, np.int64), np.full((n, k), -1, np.int64), np.empty((n, k), np.float32),
        np.empty((n, k), np.float32), np.empty(n),
    )  # fmt: skip
    nothing = np.float32(np.finfo(distances.dtype).eps * _ROUNDING)
    _judge(table, m, row_class, witness_class, weight, first, share, nothing, found)
    return found


@kernel
def _judge(table, m, row_class, witness_class, weight, first, share, nothing, found):
    own, other, near, far, margin = found
    k = own.shape[1]
    for i in range(table.shape[0]):
        code = row_class[i]
        begin, end = first[code], first[code + 1]
        n_other = _collect(table, i, 0, begin, other, far, 0)
        n_other = _collect(table, i, end, m, other, far, n_other)
        # The longest of a few distances sets what counts as zero.
        longest = np.float32(0.0)
        for j in range(0, m, min(16, max(1, m // 64))):
            longest = min(longest, table[i, j])
        itself = end
        for j in range(begin, end):
            if table[i, j] >= nothing * longest:
                itself = j
                break
        n_own = _collect(table, i, begin, itself, own, near, 0)
        n_own = _collect(table, i, itself + 1, end, own, near, n_own)
        if n_own == 0:
            margin[i] = 2.5
            continue
        at_own, at_other, votes = 0, 0, share[code]
        while at_own + at_other < k and (at_own < n_own or at_other < n_other):
            if at_other == n_other or (at_own < n_own and near[i, at_own] <= far[i, at_other]):
                votes += weight[own[i, at_own]]
                at_own += 1
            else:
                at_other += 1
        votes *= max(1.0, k / (end - begin - (1 if itself < end else 0)))
        best = 0.0
        for a in range(at_other):
            rival = witness_class[other[i, a]]
            against = share[rival]
            for b in range(at_other):
                against += weight[other[i, b]] if witness_class[other[i, b]] == rival else 0.0
            best = max(best, against * max(1.0, k / (first[rival + 1] - first[rival])))
        margin[i] = 4.0 * votes / max(votes + best, 1e-300) - 1.5


@body
def _collect(table, i, begin, end, found, values, n):
    """Put the nearest of ``begin:end`` into the sorted list of row i; returns how many there are."""
    k, start = found.shape[1], i * table.shape[1]
    bound = -values[i, k - 1] if n == k else np.float32(-np.inf)
    for at in range(begin, end, LANES):
        nearer = above(load_few(table, start + at, LANES), bound) & low_bits(end - at)
        while nearer:
            j = at + lowest_bit(nearer)
            nearer &= nearer - np.uint64(1)
            value = -table[i, j]
            if -value > bound:  # it may have risen since
                place = n if n < k else k - 1
                while place > 0 and values[i, place - 1] > value:
                    values[i, place] = values[i, place - 1]
                    found[i, place] = found[i, place - 1]
                    place -= 1
                values[i, place] = value
                found[i, place] = j
                n = n + 1 if n < k else n
                bound = -values[i, k - 1] if n == k else bound
    return n
