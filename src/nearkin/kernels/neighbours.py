"""The nearest witnesses of every row, of its own class and of others, and what they say about its label."""

import numpy as np

from nearkin.errors import InputError
from nearkin.kernels import check_shapes
from nearkin.kernels.machine.compile import body, kernel

#: Distances of up to so many roundings of the largest are none.
_ROUNDING = 64.0


def judge(distances, row_class, witness_class, weight, k):
    """The k nearest witnesses of the row's own class and of all others, nearest first, and the margin of their votes.

    ``distances[i, j]`` is the squared distance of row i from witness j. One witness of its class at no distance is
    taken for the row itself, and left out. The k nearest of all vote with their weights. A class has as many votes as
    witnesses, so the share of a class of fewer than k is counted against what it could have. With the share q of the
    own class in the votes for it and for the best other, the margin is ``4 q - 1.5``: 1 where five of eight are for
    the label, negative where five of eight are against it. A class without any witness has all votes. Places without
    a witness are -1.
    """
    n, m = distances.shape
    check_shapes("n m, n, m, m", distances, row_class, witness_class, weight, m=m)
    if min(row_class.min(initial=0), witness_class.min(initial=0)) < 0:
        raise InputError("a class has a negative number. Was a file changed? Fit it again.")
    n_classes = 1 + max(row_class.max(initial=0), witness_class.max(initial=0))
    size = np.bincount(witness_class, minlength=n_classes)
    share = np.bincount(witness_class, weight, n_classes)
    share /= max(share.sum(), np.finfo(np.float64).tiny)
    own, other = np.full((n, k), -1, np.int64), np.full((n, k), -1, np.int64)
    margin, values = np.empty(n), np.empty((2, k))
    nothing = float(np.finfo(distances.dtype).eps) * _ROUNDING
    _judge(distances, row_class, witness_class, weight, size, share, nothing, own, other, margin, values)
    return own, other, margin


@kernel
def _judge(distances, row_class, witness_class, weight, size, share, nothing, own, other, margin, values):
    k, m = own.shape[1], distances.shape[1]
    for i in range(distances.shape[0]):
        code, n_own, n_other, left_out = row_class[i], 0, 0, 0
        largest = 0.0
        for j in range(m):
            largest = max(largest, distances[i, j])
        for j in range(m):
            distance = distances[i, j]
            if witness_class[j] != code:
                n_other = _insert(other, i, values, 1, n_other, j, distance)
            elif left_out == 0 and distance <= nothing * largest:
                left_out = 1
            else:
                n_own = _insert(own, i, values, 0, n_own, j, distance)
        if n_own == 0:
            margin[i] = 2.5
            continue
        at_own, at_other, votes = 0, 0, share[code]
        while at_own + at_other < k and (at_own < n_own or at_other < n_other):
            if at_other == n_other or (at_own < n_own and values[0, at_own] <= values[1, at_other]):
                votes += weight[own[i, at_own]]
                at_own += 1
            else:
                at_other += 1
        votes *= max(1.0, k / (size[code] - left_out))
        best = 0.0
        for a in range(at_other):
            rival = witness_class[other[i, a]]
            against = share[rival]
            for b in range(at_other):
                against += weight[other[i, b]] if witness_class[other[i, b]] == rival else 0.0
            best = max(best, against * max(1.0, k / size[rival]))
        margin[i] = 4.0 * votes / max(votes + best, 1e-300) - 1.5


@body
def _insert(found, i, values, side, n, j, value):
    """Put witness j into a sorted list of at most k; returns how many there are."""
    k = found.shape[1]
    if n == k and value >= values[side, k - 1]:
        return n
    at = n if n < k else k - 1
    while at > 0 and values[side, at - 1] > value:
        values[side, at] = values[side, at - 1]
        found[i, at] = found[i, at - 1]
        at -= 1
    values[side, at] = value
    found[i, at] = j
    return n + 1 if n < k else n
