"""Compiled scan of OCTG: from a table of scores to triplets (section 3.4 of the paper)."""

import numpy as np

from nearkin.kernels._compile import helper, kernel

__all__ = ["scan", "scan_batch"]


@helper
def _nearest_first(found, n, scores, row):
    """Sort the first n indices by falling score of the row, equal ones by index (Shell's method: quick to compile)."""
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for start in range(gap, n):
            j = found[start]
            at = start
            while at >= gap:
                k = found[at - gap]
                if scores[row, k] > scores[row, j] or (scores[row, k] == scores[row, j] and k < j):
                    break
                found[at] = k
                at -= gap
            found[at] = j
        gap //= 3


@kernel
def scan(scores, row_class, centre_class, margin, max_impostors):
    """Triplets of every row: its best centre of its own class and each impostor, the nearest first.

    ``scores[i, j]`` is larger when row i is closer to centre j. Centre j of another class is an impostor unless
    ``scores[i, own] - margin > scores[i, j]``.
    """
    n, m = scores.shape
    anchor = np.empty(n * m, np.int64)
    positive = np.empty(n * m, np.int64)
    negative = np.empty(n * m, np.int64)
    found = np.empty(m, np.int64)
    count = 0
    for i in range(n):
        own = -1
        for j in range(m):
            if centre_class[j] == row_class[i] and (own < 0 or scores[i, j] > scores[i, own]):
                own = j
        if own < 0:
            continue
        n_found = 0
        for j in range(m):
            if centre_class[j] != row_class[i] and not scores[i, own] - margin > scores[i, j]:
                found[n_found] = j
                n_found += 1
        _nearest_first(found, n_found, scores, i)
        for s in range(min(n_found, max_impostors)):
            anchor[count] = i
            positive[count] = own
            negative[count] = found[s]
            count += 1
    return anchor[:count].copy(), positive[:count].copy(), negative[:count].copy()


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
