"""Device code in Triton: a search in groups, and an update of a symmetric matrix."""

import triton
import triton.language as tl

__all__ = ["add_symmetric", "group_best"]


@triton.jit
def group_best(
    query_ptr,
    item_ptr,
    half_ptr,
    best_ptr,
    n_queries,
    n_groups,
    r,
    QUERIES: tl.constexpr,
    GROUP: tl.constexpr,
    DEEP: tl.constexpr,
    SPAN: tl.constexpr,
):
    """``min over the group of half - query.item``, smaller is closer; best has shape (n_groups, n_queries).

    A program takes ``QUERIES`` queries and ``SPAN`` groups. The scores of single items never reach memory. Products are
    sums of three in tf32: float32 but for the last bit or two.
    """
    query = tl.program_id(1).to(tl.int64) * QUERIES + tl.arange(0, QUERIES)
    here = query < n_queries
    deep = tl.arange(0, DEEP)
    one = tl.arange(0, GROUP)
    rows = query_ptr + query[:, None] * r
    first = tl.program_id(0) * SPAN
    for group in range(first, tl.minimum(first + SPAN, n_groups)):
        item = group * GROUP + one
        columns = item_ptr + item.to(tl.int64)[None, :] * r
        total = tl.zeros((QUERIES, GROUP), dtype=tl.float32)
        for start in range(0, r, DEEP):
            at = start + deep
            x = tl.load(rows + at[None, :], mask=here[:, None] & (at < r)[None, :], other=0.0)
            y = tl.load(columns + at[:, None], mask=(at < r)[:, None], other=0.0)
            total = tl.dot(x, y, total, input_precision="tf32x3")
        score = tl.load(half_ptr + item)[None, :] - total
        tl.store(best_ptr + (query * 0 + group) * n_queries + query, tl.min(score, axis=1), mask=here)


@triton.jit
def add_symmetric(M_ptr, moved_ptr, d, SIZE: tl.constexpr):
    """``M + (moved + moved') / 2`` for a symmetric M; a program takes a tile and its mirror image."""
    low = tl.program_id(0)
    high = tl.program_id(1)
    if low <= high:
        row = low * SIZE + tl.arange(0, SIZE)
        column = high * SIZE + tl.arange(0, SIZE)
        here = row.to(tl.int64)[:, None] * d + column[None, :]
        there = column.to(tl.int64)[:, None] * d + row[None, :]
        inside = (row < d)[:, None] & (column < d)[None, :]
        mirrored = (column < d)[:, None] & (row < d)[None, :]
        other = tl.load(moved_ptr + there, mask=mirrored, other=0.0)
        part = tl.load(moved_ptr + here, mask=inside, other=0.0) + tl.trans(other)
        new = tl.load(M_ptr + here, mask=inside, other=0.0) + 0.5 * part
        tl.store(M_ptr + here, new, mask=inside)
        if low < high:
            tl.store(M_ptr + there, tl.trans(new), mask=mirrored)
