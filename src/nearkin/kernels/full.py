"""A full matrix M without a cone: Algorithm 1, Robust-OASIS, and Robust-ODML with free steps.

Every sweep of this package takes the parameter (changed in place), the triplets and the rule of their steps. It fills
``plausibility`` and returns the number of updates. ``weight`` is the loss's scalar function
(`nearkin.kernels.machine.compile.Sweep`).
"""

from functools import partial

import numpy as np

from nearkin.kernels.formulas import (
    block_directions,
    directions,
    linear_step,
    members,
    plausibility_of,
    squared_norm,
    weight,
)
from nearkin.kernels.machine.compile import Sweep, body, helper
from nearkin.kernels.machine.pack import aligned, pack_matrix, row_length, scale_row, unpack_matrix
from nearkin.kernels.machine.simd import REGISTER_BYTES, fill, load_few, store
from nearkin.kernels.machine.tiles import PAIR_ROWS, add_margins, add_products, step_table


@partial(Sweep, shapes="d d, *, n")
def one_by_one(M, triplets, rule, is_distance, plausibility):
    """Passive-aggressive steps (Eqs. 22 and 25)."""
    d = M.shape[0]
    g = np.empty(d, M.dtype)
    h = np.empty(d, M.dtype)
    full_weight = weight(0.0, rule.params[0], rule.params[1])
    n_updates = 0
    for t in range(len(plausibility)):
        x, positive, negative = members(triplets, t)
        gg, hh, gh = directions(x, positive, negative, is_distance, g, h)
        z = bilinear(M, g, h)
        tau, w = linear_step(z, squared_norm(gg, hh, gh, is_distance), rule.C[t], rule, weight, full_weight)
        if tau > 0.0:
            move(M, g, h, tau, is_distance)
            n_updates += 1
        plausibility[t] = plausibility_of(w, full_weight)
    return n_updates


@helper
def bilinear(M, g, h):
    """``g' M h``, one pass over M."""
    d = M.shape[0]
    total = 0.0
    for i in range(d):
        row = M[i]
        dot = M.dtype.type(0.0)
        for k in range(d):
            dot += row[k] * h[k]
        total += g[i] * dot
    return total


@helper
def move(M, g, h, tau, is_distance):
    """``M += tau A`` (Eqs. 22 and 25)."""
    d = M.shape[0]
    if is_distance:
        half = M.dtype.type(0.5 * tau)
        for i in range(d):
            row = M[i]
            gi = half * g[i]
            hi = half * h[i]
            for k in range(d):
                row[k] += gi * h[k] + hi * g[k]
    else:
        step = M.dtype.type(tau)
        for i in range(d):
            row = M[i]
            gi = step * g[i]
            for k in range(d):
                row[k] += gi * h[k]


@partial(Sweep, shapes="d d, *, n")
def in_blocks(M, triplets, rule, is_distance, plausibility):
    """The same steps at matrix-product speed.

    One triplet at a time, M streams through memory twice for every triplet. Within a block of triplets
    ``M = M0 + sum_s tau_s A_s``, so one matrix product gives the margins of the whole block against M0, the small table
    ``<A_s, A_t>`` carries the effect of earlier steps on later ones, and one matrix product at the end applies all
    steps. Nothing is approximated: only the order of the sums differs.
    """
    d = M.shape[0]
    n = len(plausibility)
    size = block_size(d)
    panels = pack_matrix(M, is_distance)
    # G and H of the block whose steps are taken, then those of the block that comes next, and in turn.
    row = row_length(d, M)
    vectors = aligned(4 * size * row, M).reshape((4 * size, row))
    table = np.empty((size, size))
    lanes = REGISTER_BYTES // M.itemsize
    parts = aligned(size * lanes, M).reshape((size, lanes))
    z = np.empty(size)
    steps = np.empty(size)
    full_weight = weight(0.0, rule.params[0], rule.params[1])
    n_updates = 0
    for start in range(-size, n, size):  # before the first block one without triplets
        now = (start // size) % 2 * (2 * size)
        m = min(size, n - start) if start >= 0 else 0
        step_table(vectors, now, size, m, is_distance, table)
        for t in range(m):
            tau, w = linear_step(z[t], table[t, t], rule.C[start + t], rule, weight, full_weight)
            if tau > 0.0:
                _add_to_margins(z, table, t, m, tau)
            steps[t] = tau
            plausibility[start + t] = plausibility_of(w, full_weight)
        n_moved = _gather_moving(vectors, now, size, m, steps, is_distance)
        n_updates += n_moved
        after = 2 * size - now
        m = max(0, min(size, n - start - size))
        block_directions(triplets, start + size, m, is_distance, vectors, after, size)
        _advance(panels, vectors, size, now, n_moved, after, m, is_distance, parts, z)
    unpack_matrix(panels, M, is_distance)
    return n_updates


@body
def _add_to_margins(z, table, t, m, tau):
    """``z += tau <A_t, A_s>`` for the triplets s from t on."""
    for s in range(t // PAIR_ROWS * PAIR_ROWS, m, PAIR_ROWS):
        row = load_few(table, t * table.shape[1] + s, PAIR_ROWS)
        store(z, s, load_few(z, s, PAIR_ROWS) + fill(row, tau) * row)


@helper
def _gather_moving(vectors, first, size, m, steps, is_distance):
    """Gather ``tau g`` and h of the triplets that move M in the first rows of their block; returns their number."""
    row = vectors.shape[1]
    n_moved = 0
    for t in range(m):
        if steps[t] > 0.0:
            source, target = (first + t) * row, (first + n_moved) * row
            factor = 0.5 * steps[t] if is_distance else steps[t]
            scale_row(vectors, source, vectors, target, vectors.dtype.type(factor), row)
            if n_moved < t:
                scale_row(vectors, source + size * row, vectors, target + size * row, vectors.dtype.type(1.0), row)
            n_moved += 1
    return n_moved


# Inlined: as a function of its own it was up to a third slower in the process that compiles it.
@body
def _advance(panels, vectors, size, now, n_moved, after, m, is_distance, parts, z):
    """Take the steps of one block and compute the margins of the next, one panel of M at a time."""
    width = panels.shape[2]
    for p in range(panels.shape[0]):
        first = p * width if is_distance else 0
        for turn in range(2 if is_distance and n_moved > 0 else min(1, n_moved)):
            # Below its square on the diagonal, a panel of a symmetric matrix also takes the steps with g and h swapped.
            other = turn * size
            add_products(vectors, now + other, now + size - other, n_moved, panels, p, first + turn * width)
        for turn in range(2 if is_distance else 1):
            other = turn * size
            add_margins(vectors, after + other, after + size - other, m, panels, p, first, parts)
    for t in range(m):
        total = parts.dtype.type(0.0)
        for k in range(REGISTER_BYTES // parts.itemsize):
            total += parts[t, k]
            parts[t, k] = 0.0
        z[t] = total


@helper
def block_size(d):
    """Triplets in a block: the table of a long block costs arithmetic, the products of a short one are slow."""
    if d < 200:
        return 12
    return 24 if d < 800 else 48
