"""A factor L laid out for sweeps that run at the speed of the arithmetic.

``L`` of shape (r, d) is copied into one of two flat layouts, padded with zeros so that no loop has a remainder:

* *slabs*: as many components as fill a vector lie side by side, feature after feature. Nothing is left to add up at
  the end, so this serves many components and few features alike.
* *strips*: the features of one component lie side by side. No lane is empty, whatever the number of components, but
  every sum ends in a vector whose lanes must be added.

`advance` applies the step of the last active triplet and projects the next one in one pass over L, so that each of
its numbers is loaded and stored once for four multiplications.
"""

import numpy as np

from nearkin.kernels.machine.compile import body, exact_helper, helper
from nearkin.kernels.machine.simd import BYTES, lanes, load, prefetch, spread, store, total, zeros

__all__ = ["advance", "aligned", "bring", "directions", "in_slabs", "pack", "padded", "unpack"]

#: Vectors of each of g and h that strips work on at a time, so that they stay in the nearest cache.
_BLOCK = 64

#: What adding up the lanes of a pair of strips costs, in loops over one vector of features.
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


@helper
def in_slabs(components):
    """Whether slabs are the faster layout for components of this shape."""
    wide = lanes(components)
    n = padded(components.shape[1], components) // wide
    slabs = padded(components.shape[0], components) // 2 * n
    strips = (components.shape[0] + 1) // 2 * (n + _END_OF_PAIR * ((n + _BLOCK - 1) // _BLOCK))
    return slabs <= strips


@helper
def _stride(n, wide):
    """Numbers from one strip to the next.

    Strips whose places agree in their lowest 12 bits, or nearly so, make the processor wait for stores that do not
    concern it; about half of 4096 bytes apart is safest, and an odd number of vectors uses the whole cache.
    """
    vectors = n // wide
    return (vectors + (27 - vectors) % 64) * wide


@helper
def _place(j, i, n, slabs, wide):
    """Where component j of feature i lies."""
    return (j // wide * n + i) * wide + j % wide if slabs else j * _stride(n, wide) + i


@helper
def pack(components, slabs):
    """A copy of the components in the chosen layout."""
    r, d = components.shape
    wide = lanes(components)
    n = padded(d, components)
    L = aligned(padded(r, components) * (n if slabs else _stride(n, wide)), components)
    for j in range(r):
        for i in range(d):
            L[_place(j, i, n, slabs, wide)] = components[j, i]
    return L


@helper
def unpack(L, components, slabs):
    """The reverse of `pack`."""
    r, d = components.shape
    wide = lanes(components)
    n = padded(d, components)
    for j in range(r):
        for i in range(d):
            components[j, i] = L[_place(j, i, n, slabs, wide)]


@exact_helper
def directions(anchors, positives, negatives, x, y, z, is_distance, gh, at):
    """Write ``g`` of the rows x, y and z from ``at`` on, ``h`` behind it, and return ``g.g, h.h, g.h``.

    As `nearkin.kernels.direction.directions`, by vectors.
    """
    wide = lanes(gh)
    d = anchors.shape[1]
    n = padded(d, gh)
    rest = d - d % wide
    for i in range(rest, d):
        a, b, c = anchors[x, i], positives[y, i], negatives[z, i]
        gh[at + i] = (a - b) + (a - c) if is_distance else a
        gh[at + n + i] = b - c
    g_g = h_h = g_h = zeros(gh)
    for i in range(0, n, wide):
        if i < rest:
            a, b, c = load(anchors, x * d + i), load(positives, y * d + i), load(negatives, z * d + i)
            g = (a - b) + (a - c) if is_distance else a
            h = b - c
            store(gh, at + i, g)
            store(gh, at + n + i, h)
        else:
            g, h = load(gh, at + i), load(gh, at + n + i)
        g_g += g * g
        h_h += h * h
        g_h += g * h
    return float(total(g_g)), float(total(h_h)), float(total(g_h))


@helper
def bring(rows, k):
    """Have row ``k`` brought near while other work goes on."""
    d = rows.shape[1]
    for i in range(k * d, (k + 1) * d, lanes(rows)):
        prefetch(rows, i)


@body
def _slab(L, at, n, k, move, gh, old, new, along_g, along_h, p, q):
    """One slab from ``at`` on, the components from ``k`` on; ``move`` is a constant.

    Two features at a time, because one sum would wait for itself.
    """
    wide = lanes(L)
    a, b = load(along_g, k), load(along_h, k)
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
    store(p, k, p_0 + p_1)
    store(q, k, q_0 + q_1)


@body
def _pair(L, at, n, start, stop, k, move, gh, old, new, along_g, along_h, p, q):
    """Two strips from ``at`` on, the components ``k`` and ``k + 1``, some features; ``move`` is a constant."""
    wide = lanes(L)
    below = at + _stride(n, wide)
    a_0, a_1 = spread(along_g, k), spread(along_g, k + 1)
    b_0, b_1 = spread(along_h, k), spread(along_h, k + 1)
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
def _advance_slabs(L, n, move, gh, old, new, along_g, along_h, p, q):
    for k in range(0, p.shape[0], lanes(L)):
        if move:
            _slab(L, k * n, n, k, True, gh, old, new, along_g, along_h, p, q)
        else:
            _slab(L, k * n, n, k, False, gh, old, new, along_g, along_h, p, q)


@helper
def _advance_strips(L, r, n, move, gh, old, new, along_g, along_h, p, q):
    for k in range(p.shape[0]):
        p[k] = q[k] = 0
    for start in range(0, n, _BLOCK * lanes(L)):
        stop = min(n, start + _BLOCK * lanes(L))
        for k in range(0, r, 2):
            at = k * _stride(n, lanes(L))
            if move:
                _pair(L, at, n, start, stop, k, True, gh, old, new, along_g, along_h, p, q)
            else:
                _pair(L, at, n, start, stop, k, False, gh, old, new, along_g, along_h, p, q)


@helper
def advance(L, slabs, r, n, move, gh, old, new, along_g, along_h, p, q):
    """If ``move``, add the step that waits, ``g along_g' + h along_h'``, to L; then ``p = L'g`` and ``q = L'h``.

    The vectors g and h of the step lie in ``gh`` from ``old`` on, those to project from ``new`` on, n numbers each.
    """
    if slabs:
        _advance_slabs(L, n, move, gh, old, new, along_g, along_h, p, q)
    else:
        _advance_strips(L, r, n, move, gh, old, new, along_g, along_h, p, q)
