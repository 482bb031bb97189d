"""The k smallest numbers of a table that is seen tile by tile, row by row in a heap."""

from nearkin.kernels._compile import helper, kernel

__all__ = ["offer", "settle"]

#: Items that are compared at once.
_RUN = 64


@helper
def _worse(value, index, other_value, other_index):
    """Whether the first pair comes after the second: larger, or equal with a larger index."""
    return value > other_value or (value == other_value and index > other_index)


@helper
def _sink(values, found, row, k):
    """Let the top of a heap of k pairs sink to its place; the worst is on top."""
    value, index = values[row, 0], found[row, 0]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= k:
            break
        right = child + 1
        if right < k and _worse(values[row, right], found[row, right], values[row, child], found[row, child]):
            child = right
        if not _worse(values[row, child], found[row, child], value, index):
            break
        values[row, at], found[row, at] = values[row, child], found[row, child]
        at = child
    values[row, at], found[row, at] = value, index


@kernel
def offer(products, query_norms, item_norms, factors, first_item, own, values, found):
    """Offer ``(|q|^2 + |z|^2 - 2 q'z) * factor`` of a tile to the heaps of its rows.

    Parameters
    ----------
    products : ndarray of shape (n_queries, n_items)
        Inner products of queries and items; overwritten by the values that are offered.
    query_norms, item_norms : ndarray
        Squared lengths.
    factors : ndarray of shape (n_items,)
        What an item's squared distances are multiplied with.
    first_item : int
        Number of the tile's first item.
    own : ndarray of int64 of shape (n_queries,)
        Item that is not offered to each query, -1 for none.
    values, found : ndarray of shape (n_queries, k)
        Heaps, begun with infinity and a number beyond all items.
    """
    n, m = products.shape
    k = values.shape[1]
    for i in range(n):
        worst = values[i, 0]
        norm = query_norms[i]
        zero = norm - norm  # of the same precision: a literal would make everything double
        for start in range(0, m, _RUN):
            stop = min(start + _RUN, m)
            # Most runs hold nothing near enough, which one vectorised count tells.
            near = 0
            for j in range(start, stop):
                value = norm + item_norms[j] - (products[i, j] + products[i, j])
                value = max(value, zero) * factors[j]
                products[i, j] = value
                near += value <= worst
            if near == 0:
                continue
            for j in range(start, stop):
                value = products[i, j]
                if value <= worst:
                    index = first_item + j
                    if index != own[i] and _worse(worst, found[i, 0], value, index):
                        values[i, 0], found[i, 0] = value, index
                        _sink(values, found, i, k)
                        worst = values[i, 0]


@kernel
def settle(values, found):
    """Sort every heap, the smallest first."""
    for i in range(values.shape[0]):
        for k in range(values.shape[1] - 1, 0, -1):
            value, index = values[i, 0], found[i, 0]
            values[i, 0], found[i, 0] = values[i, k], found[i, k]
            _sink(values, found, i, k)
            values[i, k], found[i, k] = value, index
