"""A matrix cut into panels, as wide as two vectors of the processor: products with it need no copies.

Panel p holds the columns from ``p * width`` on, row after row, filled up with zeros. A symmetric matrix is kept as a
lower triangle T of panels with ``M = T + T'``: rows above a panel's square on the diagonal are not used.
"""

import numpy as np

from nearkin.kernels.machine.compile import body, helper
from nearkin.kernels.machine.tiles import (
    PAIR_ROWS,
    PIECE,
    TILE_ROWS,
    VECTOR_BYTES,
    add_tile,
    fetch,
    margin_tile,
    scale_row,
    step_tile,
)

__all__ = ["add_margins", "add_panel", "aligned_zeros", "pack", "row_length", "step_table", "unpack"]

#: Bytes of a line of the cache.
_LINE = 64

#: Bytes of a matrix that stays in a core's own caches; parts of a larger one are asked for before they are needed.
_NEAR = 1 << 18


@helper
def aligned_zeros(n, width, like):
    """Zeros of shape (n, width) that begin where a line of the cache does."""
    flat = np.zeros(n * width + _LINE // like.itemsize, like.dtype)
    first = (-flat.ctypes.data % _LINE) // like.itemsize
    return flat[first : first + n * width].reshape((n, width))


@helper
def row_length(d, size):
    """Numbers from row to row of the vectors: whole lines, and no multiple of a large power of two."""
    line = _LINE // size
    row = (d + line - 1) // line * line
    return row + line if row * size % 512 == 0 else row


@helper
def pack(M, symmetric):
    """Panels of M; square by square, here and below, since walks with long strides are slow."""
    d = M.shape[0]
    width = 2 * VECTOR_BYTES // M.itemsize
    rows = (d + PIECE - 1) // PIECE * PIECE
    n = (d + width - 1) // width
    panels = aligned_zeros(n, rows * width, M).reshape((n, rows, width))
    for q in range(n):
        for p in range(q + 1 if symmetric else n):
            factor = M.dtype.type(0.5 if symmetric and p == q else 1.0)
            column = p * width
            for i in range(q * width, min(d, (q + 1) * width)):
                scale_row(M, i * d + column, panels, (p * rows + i) * width, factor, min(width, d - column))
    return panels


@helper
def unpack(panels, M, symmetric):
    """Write panels back into M."""
    d = M.shape[0]
    n, rows, width = panels.shape
    one = M.dtype.type(1.0)
    for q in range(n):
        for p in range(q + 1 if symmetric else n):
            column = p * width
            for i in range(q * width, min(d, (q + 1) * width)):
                if symmetric and p == q:
                    for k in range(column, i + 1):
                        M[i, k] = panels[p, i, k - column] + panels[p, k, i - column]
                else:
                    scale_row(panels, (p * rows + i) * width, M, i * d + column, one, min(width, d - column))
            if symmetric:
                for k in range(column, min(d, column + width)):
                    for i in range(max(k, q * width), min(d, (q + 1) * width)):
                        M[k, i] = M[i, k]


@body
def _columns(panels, p):
    """Columns in use of a panel, in fours."""
    width = panels.shape[2]
    return min(width, panels.shape[1] - p * width)


@body
def add_panel(vectors, left, right, n, panels, p, first):
    """Rows from ``first`` on: ``panel += A' B`` for the ``n`` vectors A from ``left`` and B from ``right`` on."""
    width = panels.shape[2]
    columns = _columns(panels, p)
    done = 0
    if columns == width:
        _add_columns(vectors, left, right, n, panels, p, first, done, 2)
        done = width
    elif columns >= width >> 1:
        _add_columns(vectors, left, right, n, panels, p, first, done, 1)
        done = width >> 1
    for column in range(done, columns, PIECE):
        _add_columns(vectors, left, right, n, panels, p, first, column, 0)


@body
def _add_columns(vectors, left, right, n, panels, p, first, column, n_vectors):
    """The same for some columns."""
    rows = panels.shape[1]
    width = panels.shape[2]
    row = vectors.shape[1]
    a = left * row
    b = right * row + p * width + column
    c = p * rows * width + column
    whole = first + max(0, rows - first) // TILE_ROWS * TILE_ROWS
    far = n_vectors == 2 and panels.size * panels.itemsize > _NEAR
    for i in range(first, whole, TILE_ROWS):
        if far:
            for k in range(2 * TILE_ROWS):
                fetch(panels, c + (i + 2 * TILE_ROWS) * width + k * (width >> 1))
        add_tile(vectors, a + i, row, vectors, b, row, panels, c + i * width, width, n, TILE_ROWS, n_vectors)
    for i in range(whole, rows, PIECE):
        add_tile(vectors, a + i, row, vectors, b, row, panels, c + i * width, width, n, PIECE, n_vectors)


@body
def add_margins(vectors, g, h, m, panels, p, first, parts):
    """Parts of ``g' T h`` for the ``m`` vectors from ``g`` and from ``h`` on: panel T from row ``first`` on."""
    rows = panels.shape[1]
    width = panels.shape[2]
    row = vectors.shape[1]
    columns = _columns(panels, p)
    b = (p * rows + first) * width
    n = rows - first
    for t in range(0, m, TILE_ROWS):
        a = (g + t) * row + first
        c = (h + t) * row + p * width
        at = t * parts.shape[1]
        done = 0
        if columns == width:
            margin_tile(vectors, a, c, row, panels, b, width, parts, at, n, 2)
            done = width
        elif columns >= width >> 1:
            margin_tile(vectors, a, c, row, panels, b, width, parts, at, n, 1)
            done = width >> 1
        for column in range(done, columns, PIECE):
            margin_tile(vectors, a, c + column, row, panels, b + column, width, parts, at, n, 0)


@helper
def step_table(vectors, first, size, m, is_distance, table):
    """``<A_s, A_t>``, s up to t, of ``m`` triplets whose g begin at row ``first`` and whose h ``size`` rows later."""
    row = vectors.shape[1]
    n = row // (VECTOR_BYTES // vectors.itemsize)
    for s in range(0, m, PAIR_ROWS):
        g = (first + s) * row
        h = g + size * row
        for t in range(s, m, PAIR_ROWS):
            if is_distance:
                step_tile(vectors, g, h, (t - s) * row, row, n, table, s * size + t, True)
            else:
                step_tile(vectors, g, h, (t - s) * row, row, n, table, s * size + t, False)
