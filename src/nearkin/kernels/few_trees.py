"""The loops of `nearkin.kernels.trees` in NumPy, for few rows: to compile them would take a hundred times as long."""

import numpy as np
from scipy import sparse


def split_nodes(
    columns, codes, features, draws, fewest, items, start, size, counts, purity, feature, cut, n_left, left_counts
):
    """Give every node the best of its cuts, and move the rows on the first side of it to the front.

    The rows of nodes follow each other in ``items``.
    """
    n_nodes, n_classes = counts.shape
    node, own = np.repeat(np.arange(n_nodes), size), codes[items]
    is_left = np.zeros(len(items), bool)
    for tried, draw in zip(features, draws, strict=True):
        values = columns[tried[node], items]
        low, high = (one.reduceat(values, start).astype(np.float64) for one in (np.minimum, np.maximum))
        at = (low + 2.0 * draw * (0.5 * high - 0.5 * low)).astype(np.float32)
        at = np.where(at < high, np.maximum(at, low), low).astype(np.float32)
        below = values <= at[node]
        found = np.bincount((node * n_classes + own)[below], minlength=counts.size).reshape(counts.shape)
        here = found.sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            pure = (found**2).sum(axis=1) / here + ((counts - found) ** 2).sum(axis=1) / (size - here)
        better = (here >= fewest) & (size - here >= fewest)
        better[better] = pure[better] > purity[better]
        purity[better], feature[better], cut[better] = pure[better], tried[better], at[better]
        n_left[better], left_counts[better] = here[better], found[better]
        is_left = np.where(better[node], below, is_left)
    # Nodes without a cut have no row on the first side, so their rows stay.
    items[:] = items[np.lexsort((~is_left, node))]


def follow(rows, feature, threshold, child, leaves):
    """Write the node in which each row ends in each tree into ``leaves``, of shape (n_rows, n_trees)."""
    n_trees = leaves.shape[1]
    node = np.tile(np.arange(n_trees), len(rows))
    going = np.flatnonzero(child[node])
    while len(going):
        at = node[going]
        # What is not a number goes on to the second child.
        node[going] = child[at] + ~(rows[going // n_trees, feature[at]] <= threshold[at])
        going = going[child[node[going]] > 0]
    leaves[:] = node.reshape(leaves.shape)


def add_votes(leaves, seen, first, classes, values, votes):
    """Add votes of the leaves of a row in the trees that have not seen it, a bit of ``seen`` each, to its ``votes``."""
    asked = (seen[:, None] >> np.arange(leaves.shape[1], dtype=np.uint64)) & np.uint64(1) == 0
    ends = np.concatenate([[0], np.cumsum(asked.sum(axis=1))])
    rows = sparse.csr_array((np.ones(ends[-1]), leaves[asked], ends), shape=(len(leaves), len(first) - 1))
    votes += (rows @ sparse.csr_array((values, classes, first), shape=(len(first) - 1, votes.shape[1]))).toarray()
