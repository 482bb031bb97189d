"""Memory layouts in which sweeps run at the speed of the arithmetic, padded with zeros so that no loop has a remainder.

All are *panels*: neighbouring columns of a matrix lie side by side, row after row, one group of columns after another.
They differ in the width of a panel.

* A full matrix M is cut into panels two registers wide (`pack_matrix`). A symmetric one is kept as a lower triangle T
  of panels with ``M = T + T'``: rows above a panel's square on the diagonal are not used.
* A factor L has panels one vector wide, called *slabs*. Nothing is left to add up at the end of a row, so this serves
  many components and few features alike.
* Or the transpose of L is one panel, whose rows are called *strips*, one per component. No lane is empty, whatever the
  number of components, but every sum ends in a vector whose lanes must be added.

Arrays of different sizes go to a compiled loop by address (`addresses`, `view`): a tuple of arrays would be compiled
anew for every length. The caller keeps the arrays alive and C-ordered.

`advance` applies the step of the last active triplet to a factor and projects the next triplet in one pass over L, so
that each of its numbers is loaded and stored once for four multiplications.
"""

from typing import NamedTuple

import numpy as np
from numba import carray, types
from numba.extending import intrinsic, register_jitable

from nearkin.errors import InputError
from nearkin.kernels import check_shapes
from nearkin.kernels.machine.compile import body, helper
from nearkin.kernels.machine.simd import (
    BYTES,
    REGISTER_BYTES,
    fill,
    lanes,
    load,
    load_few,
    prefetch,
    spread,
    store,
    total,
    zeros,
)
from nearkin.kernels.machine.tiles import PIECE

#: Vectors of each of g and h that strips work on at a time, so that they stay in the nearest cache.
_BLOCK = 64

#: Cost of adding up the lanes of a pair of strips, in loops over one vector of features.
_END_OF_PAIR = 5


@helper
def padded(n, like):
    """``n``, rounded up to whole vectors of numbers like those of ``like``."""
    return (n + lanes(like) - 1) // lanes(like) * lanes(like)


@helper
def aligned(n, like):
    """``n`` zeros of the type of ``like``, from a multiple of `BYTES` on."""
    memory = np.zeros(n + lanes(like), like.dtype)
    start = -memory.ctypes.data % BYTES // memory.itemsize
    return memory[start : start + n]


def addresses(dtype, shapes, *arrays, **sizes):
    """Addresses of arrays of one type, whose shapes are checked: compiled code sees addresses alone."""
    check_shapes(shapes, arrays, **sizes)
    if any(array.dtype != dtype for array in arrays):
        raise InputError(f"what was learned holds {arrays[0].dtype} where {np.dtype(dtype)} is needed. Fit it again.")
    return [array.ctypes.data for array in arrays]


@intrinsic
def _pointer(typing_context, address):
    def generate(context, builder, sig, args):
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.intp), generate


@register_jitable
def view(address, shape, like):
    """Array of this shape, and of the type of ``like``, at an address."""
    return carray(_pointer(address), shape, like.dtype)


@helper
def prefetch_row(rows, k):
    """Prefetch row ``k``."""
    d = rows.shape[1]
    for i in range(k * d, (k + 1) * d, lanes(rows)):
        prefetch(rows, i)


@helper
def row_length(d, like):
    """Elements from row to row of vectors: whole lines of the cache, and not a multiple of a large power of two."""
    row = padded(d, like)
    return row + lanes(like) if row * like.itemsize % 512 == 0 else row


@helper
def scale_row(source, s_at, target, t_at, factor, n):
    """``target = factor * source`` for ``n`` elements in a row; both may be the same, but not overlap otherwise."""
    whole = n - n % lanes(target)
    for k in range(0, whole, lanes(target)):
        x = load(source, s_at + k)
        store(target, t_at + k, fill(x, factor) * x)
    for k in range(whole, n):
        y = load_few(source, s_at + k, 1)
        store(target, t_at + k, fill(y, factor) * y)


# ---------------------------------------------------------------- full matrices


@helper
def pack_matrix(M, symmetric):
    """Panels of M; square by square, here and below, since walks with long strides are slow."""
    d = M.shape[0]
    width = 2 * REGISTER_BYTES // M.itemsize
    rows = (d + PIECE - 1) // PIECE * PIECE
    n = (d + width - 1) // width
    panels = aligned(n * rows * width, M).reshape((n, rows, width))
    for q in range(n):
        for p in range(q + 1 if symmetric else n):
            factor = M.dtype.type(0.5 if symmetric and p == q else 1.0)
            column = p * width
            for i in range(q * width, min(d, (q + 1) * width)):
                scale_row(M, i * d + column, panels, (p * rows + i) * width, factor, min(width, d - column))
    return panels


@helper
def unpack_matrix(panels, M, symmetric):
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


# ---------------------------------------------------------------- factors


class Factor(NamedTuple):
    """A factor L, a pair of vectors g and h to project and another whose step is pending."""

    L: np.ndarray
    #: Whether L lies in slabs, else in strips.
    slabs: bool
    #: Components, and elements of each of the four vectors.
    rank: int
    n: int
    #: g and h of two triplets, four vectors.
    vectors: np.ndarray
    #: ``L'g`` and ``L'h``.
    p: np.ndarray
    q: np.ndarray
    #: The pending step ``g along_g' + h along_h'``.
    along_g: np.ndarray
    along_h: np.ndarray


@helper
def choose_slabs(components):
    """Whether slabs are the faster layout for components of this shape."""
    wide = lanes(components)
    n = padded(components.shape[1], components) // wide
    slabs = padded(components.shape[0], components) // 2 * n
    strips = (components.shape[0] + 1) // 2 * (n + _END_OF_PAIR * ((n + _BLOCK - 1) // _BLOCK))
    return slabs <= strips


@helper
def _stride(n, wide):
    """Elements from one strip to the next.

    Strips whose addresses agree in their lowest 12 bits, or nearly so, make the processor wait for unrelated stores;
    about half of 4096 bytes apart is safest, and an odd number of vectors uses the whole cache.
    """
    vectors = n // wide
    return (vectors + (27 - vectors) % 64) * wide


@helper
def _place(j, i, n, slabs, wide):
    """Position of component j of feature i."""
    return (j // wide * n + i) * wide + j % wide if slabs else j * _stride(n, wide) + i


@helper
def make_factor(components, slabs, n):
    """The components, of shape (r, d), in the chosen layout with ``n`` features and zeros for all vectors."""
    r, d = components.shape
    wide = lanes(components)
    rank = padded(r, components)
    L = aligned(rank * (n if slabs else _stride(n, wide)), components)
    for j in range(r):
        for i in range(d):
            L[_place(j, i, n, slabs, wide)] = components[j, i]
    p, q = aligned(rank, L), aligned(rank, L)
    return Factor(L, slabs, r, n, aligned(4 * n, L), p, q, aligned(rank, L), aligned(rank, L))


@helper
def pack_factor(components):
    """The components in the layout that suits their shape."""
    return make_factor(components, choose_slabs(components), padded(components.shape[1], components))


@helper
def unpack_factor(factor, components):
    """Write a factor back into components of shape (r, d)."""
    for j in range(components.shape[0]):
        for i in range(components.shape[1]):
            components[j, i] = factor.L[_place(j, i, factor.n, factor.slabs, lanes(components))]


@body
def _slab(f, at, k, move, old, new):
    """One slab from ``at`` on, the components from ``k`` on; ``move`` is a constant.

    Two features at a time, because one sum would wait for itself.
    """
    L, n, gh = f.L, f.n, f.vectors
    wide = lanes(L)
    a, b = load(f.along_g, k), load(f.along_h, k)
    p_0 = p_1 = q_0 = q_1 = zeros(L)
    for i in range(0, n, 2):
        x_0 = load(L, at)
        x_1 = load(L, at + wide)
        if move:
            x_0 = x_0 + a * spread(gh, old + i) + b * spread(gh, old + n + i)
            x_1 = x_1 + a * spread(gh, old + i + 1) + b * spread(gh, old + n + i + 1)
            store(L, at, x_0)
            store(L, at + wide, x_1)
        p_0 += x_0 * spread(gh, new + i)
        q_0 += x_0 * spread(gh, new + n + i)
        p_1 += x_1 * spread(gh, new + i + 1)
        q_1 += x_1 * spread(gh, new + n + i + 1)
        at += 2 * wide
    store(f.p, k, p_0 + p_1)
    store(f.q, k, q_0 + q_1)


@body
def _pair(f, start, stop, k, move, old, new):
    """Two strips, the components ``k`` and ``k + 1``, and some features; ``move`` is a constant."""
    L, n, gh, p, q = f.L, f.n, f.vectors, f.p, f.q
    wide = lanes(L)
    at = k * _stride(n, wide)
    below = at + _stride(n, wide)
    a_0, a_1 = spread(f.along_g, k), spread(f.along_g, k + 1)
    b_0, b_1 = spread(f.along_h, k), spread(f.along_h, k + 1)
    p_0 = p_1 = q_0 = q_1 = zeros(L)
    for i in range(start, stop, wide):
        x_0 = load(L, at + i)
        x_1 = load(L, below + i)
        if move:
            g, h = load(gh, old + i), load(gh, old + n + i)
            x_0 = x_0 + g * a_0 + h * b_0
            x_1 = x_1 + g * a_1 + h * b_1
            store(L, at + i, x_0)
            store(L, below + i, x_1)
        g, h = load(gh, new + i), load(gh, new + n + i)
        p_0 += x_0 * g
        q_0 += x_0 * h
        p_1 += x_1 * g
        q_1 += x_1 * h
    p[k] += total(p_0)
    p[k + 1] += total(p_1)
    q[k] += total(q_0)
    q[k + 1] += total(q_1)


@helper
def _advance_slabs(f, move, old, new):
    for k in range(0, f.p.shape[0], lanes(f.L)):
        if move:
            _slab(f, k * f.n, k, True, old, new)
        else:
            _slab(f, k * f.n, k, False, old, new)


@helper
def _advance_strips(f, move, old, new):
    for k in range(f.p.shape[0]):
        f.p[k] = f.q[k] = 0
    for start in range(0, f.n, _BLOCK * lanes(f.L)):
        stop = min(f.n, start + _BLOCK * lanes(f.L))
        for k in range(0, f.rank, 2):
            if move:
                _pair(f, start, stop, k, True, old, new)
            else:
                _pair(f, start, stop, k, False, old, new)


@helper
def advance(factor, move, old, new):
    """If ``move``, add the pending step to L; then ``p = L'g`` and ``q = L'h``.

    Positions in ``factor.vectors``: g and h of the step begin at ``old``, those to project at ``new``.
    """
    if factor.slabs:
        _advance_slabs(factor, move, old, new)
    else:
        _advance_strips(factor, move, old, new)
