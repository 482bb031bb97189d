"""A matrix that takes the symmetric part of another, in one pass over both."""

import triton
import triton.language as tl

__all__ = ["add_symmetric"]


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
