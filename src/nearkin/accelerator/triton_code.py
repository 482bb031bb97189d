"""Device code in Triton: a search in groups, vectors of triplets, and an update of a symmetric matrix."""

import triton
import triton.language as tl

__all__ = ["add_symmetric", "group_best", "multiply_rows", "scale_rows", "write_directions"]


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


@triton.jit
def write_directions(
    anchor_ptr,
    anchor_at_ptr,
    positive_ptr,
    positive_at_ptr,
    negative_ptr,
    negative_at_ptr,
    g_ptr,
    h_ptr,
    n,
    size,
    d,
    stride,
    IS_DISTANCE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """``h = p - n`` and ``g = (a - p) + (a - n)`` for a distance, ``g = a`` for a similarity; zeros after triplet n.

    A program takes ``ROWS`` triplets and ``COLUMNS`` features. Vectors of a role are rows of an array at given places;
    those of g and h lie ``stride`` numbers apart.
    """
    one = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    wide = (column < d)[None, :]
    here = (one < n)[:, None] & wide
    anchor_at = tl.load(anchor_at_ptr + one, mask=one < n, other=0)
    positive_at = tl.load(positive_at_ptr + one, mask=one < n, other=0)
    negative_at = tl.load(negative_at_ptr + one, mask=one < n, other=0)
    a = tl.load(anchor_ptr + anchor_at.to(tl.int64)[:, None] * d + column[None, :], mask=here, other=0.0)
    p = tl.load(positive_ptr + positive_at.to(tl.int64)[:, None] * d + column[None, :], mask=here, other=0.0)
    q = tl.load(negative_ptr + negative_at.to(tl.int64)[:, None] * d + column[None, :], mask=here, other=0.0)
    g = (a - p) + (a - q) if IS_DISTANCE else a
    out = one.to(tl.int64)[:, None] * stride + column[None, :]
    inside = (one < size)[:, None] & wide
    tl.store(g_ptr + out, g, mask=inside)
    tl.store(h_ptr + out, p - q, mask=inside)


@triton.jit
def scale_rows(x_ptr, factor_ptr, out_ptr, d, COLUMNS: tl.constexpr):
    """Every row times its factor; a program takes ``COLUMNS`` numbers of a row."""
    row = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    at = row.to(tl.int64) * d + column
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=column < d) * tl.load(factor_ptr + row), mask=column < d)


@triton.jit
def multiply_rows(x_ptr, y_ptr, out_ptr, d, COLUMNS: tl.constexpr):
    """Inner product of every row of x with that of y; a program takes a row."""
    row = tl.program_id(0)
    one = tl.arange(0, COLUMNS)
    first = row.to(tl.int64) * d
    total = tl.zeros((COLUMNS,), dtype=out_ptr.dtype.element_ty)
    for start in range(0, d, COLUMNS):
        column = start + one
        x = tl.load(x_ptr + first + column, mask=column < d, other=0.0)
        total += x * tl.load(y_ptr + first + column, mask=column < d, other=0.0)
    tl.store(out_ptr + row, tl.sum(total, axis=0))
