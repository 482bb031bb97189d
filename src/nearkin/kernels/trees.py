"""Trees of a forest: cuts tried and rows parted, rows followed to their leaves, and votes of leaves added up.

Callers check what they pass: nodes, features and rows are numbers within the arrays.
"""

import numpy as np

from nearkin.kernels import check_shapes
from nearkin.kernels.machine.compile import kernel

#: Rows that follow one tree before the next: a tree then stays in the cache, and so do they.
_TOGETHER = 128


def split_nodes(columns, codes, features, draws, fewest, items, start, *results):
    """Try cuts of nodes and part their rows; see `_split_nodes` for the arrays."""
    shapes = "d n, n<c, t k, t k, m<n, k, k, k c, k, k, k, k, k c"
    sizes = {"c": results[1].shape[1]}
    check_shapes(shapes, columns, codes, features, draws, items, start, *results, **sizes)
    _split_nodes(columns, codes, features, draws, fewest, items, start, *results)


@kernel
def _split_nodes(
    columns, codes, features, draws, fewest, items, start, size, counts, purity, feature, cut, n_left, left_counts
):
    """Give every node the best of its cuts, and move the rows on the first side of it to the front.

    Node k has the rows ``items[start[k] : start[k] + size[k]]``, and ``counts[k]`` of each class. Its t-th cut is of
    ``features[t, k]``, ``draws[t, k]`` of the way from the smallest to the largest value. The best is the purest by
    Gini's index of those with at least ``fewest`` rows on both sides; ``purity`` stays where it was if there is none.
    """
    n_tried, n_nodes = features.shape
    n_classes = counts.shape[1]
    longest = 0
    for k in range(n_nodes):
        longest = max(longest, size[k])
    values, own = np.empty(longest, columns.dtype), np.empty(longest, np.int64)
    found, moved = np.empty(n_classes, np.int64), np.empty(longest, items.dtype)
    for k in range(n_nodes):
        first, n = start[k], size[k]
        for i in range(n):
            own[i] = codes[items[first + i]]
        for t in range(n_tried):
            column = columns[features[t, k]]
            low = high = column[items[first]]
            for i in range(n):
                value = column[items[first + i]]
                values[i] = value
                low, high = min(low, value), max(high, value)
            # Halves, so that the largest numbers do not overflow.
            at = np.float32(low + 2.0 * draws[t, k] * (0.5 * high - 0.5 * low))
            at = max(at, low) if at < high else low
            for c in range(n_classes):
                found[c] = 0
            for i in range(n):
                found[own[i]] += values[i] <= at
            here, square, other = 0, 0, 0
            for c in range(n_classes):
                here += found[c]
                square += found[c] * found[c]
                other += (counts[k, c] - found[c]) * (counts[k, c] - found[c])
            if here < fewest or n - here < fewest:
                continue
            pure = square / here + other / (n - here)
            if pure > purity[k]:
                purity[k], feature[k], cut[k], n_left[k] = pure, features[t, k], at, here
                for c in range(n_classes):  # assigned as a whole, it would compile for seconds
                    left_counts[k, c] = found[c]
        if purity[k] < 0.0:
            continue
        column, at = columns[feature[k]], cut[k]
        left, right = first, 0
        for i in range(first, first + n):
            one = items[i]
            if column[one] <= at:
                items[left] = one
                left += 1
            else:
                moved[right] = one
                right += 1
        for i in range(right):
            items[left + i] = moved[i]


def follow(rows, feature, threshold, child, leaves):
    """Write the node in which each row ends in each tree into ``leaves``, of shape (n_rows, n_trees)."""
    check_shapes("n d, k<d, k, k<k, n t", rows, feature, threshold, child, leaves)
    _follow(rows, feature, threshold, child, leaves)


@kernel
def _follow(rows, feature, threshold, child, leaves):
    n, n_trees = leaves.shape
    # Rows on their way go down one level at a time: steps of different rows do not wait for each other.
    open_, nodes = np.empty(_TOGETHER, np.int64), np.empty(_TOGETHER, np.int64)
    for begin in range(0, n, _TOGETHER):
        for t in range(n_trees):
            size = min(n - begin, _TOGETHER)
            for i in range(size):
                leaves[begin + i, t] = t
                open_[i], nodes[i] = begin + i, t
            if child[t] == 0:
                continue
            while size > 0:
                left = 0
                for j in range(size):
                    i, node = open_[j], nodes[j]
                    # What is not a number goes on to the second child.
                    node = child[node] + (not rows[i, feature[node]] <= threshold[node])
                    leaves[i, t] = node
                    open_[left], nodes[left] = i, node
                    left += child[node] > 0
                size = left


def add_votes(leaves, seen, first, classes, values, votes):
    """Add up votes of leaves; see `_add_votes` for the arrays."""
    check_shapes("n t, n, k, m<c, m, n c", leaves, seen, first, classes, values, votes, c=votes.shape[1])
    _add_votes(leaves, seen, first, classes, values, votes)


@kernel
def _add_votes(leaves, seen, first, classes, values, votes):
    """Add votes of the leaves of a row in the trees that have not seen it, a bit of ``seen`` each, to its ``votes``.

    Node k votes with ``values[first[k] : first[k + 1]]`` for the classes at the same places.
    """
    n, n_trees = leaves.shape
    for i in range(n):
        word = seen[i]
        for t in range(n_trees):
            if (word >> np.uint64(t)) & np.uint64(1):
                continue
            node = leaves[i, t]
            for at in range(first[node], first[node + 1]):
                votes[i, classes[at]] += values[at]
