"""Sequential sweeps over triplets for a full matrix M at the speed of matrix multiplication.

One triplet at a time, M streams through memory twice for every triplet. Within a block of triplets
``M = M0 + sum_s tau_s A_s``, so the margins of the whole block against M0 are one matrix product, the effect of
earlier steps on later ones goes through the small table ``<A_s, A_t>``, and all steps are applied by one matrix
product at the end. Nothing is approximated: only the order of the sums differs from `nearkin.kernels.full`.
"""

import numpy as np

from nearkin.kernels.direction import block_directions
from nearkin.kernels.machine.compile import body, helper, kernel
from nearkin.kernels.machine.panels import add_margins, add_panel, aligned_zeros, pack, row_length, step_table, unpack
from nearkin.kernels.machine.tiles import PAIR_ROWS, VECTOR_BYTES, add_row, scale_row
from nearkin.kernels.scalar import exponential_weight, half_quadratic, linear_kink, linear_z

__all__ = ["block_size", "sweep", "sweep_with"]

_SMALLEST = float(np.finfo(np.float64).tiny)


@body
def sweep_with(
    M,
    anchors,
    positives,
    negatives,
    ia,
    ip,
    ineg,
    is_distance,
    C,
    params,
    max_hq_iter,
    cone,
    plausibility,
    weight,
):
    """Block-delayed sweep with the arguments of `nearkin.kernels.full`; ``weight`` is the loss's scalar function."""
    d = M.shape[0]
    n = ia.shape[0]
    size = block_size(d)
    panels = pack(M, is_distance)
    # G and H of the block whose steps are taken, then those of the block that comes next, and in turn.
    vectors = aligned_zeros(4 * size, row_length(d, M.itemsize), M)
    table = np.empty((size, size))
    parts = aligned_zeros(size, VECTOR_BYTES // M.itemsize, M)
    z = np.empty(size)
    steps = np.empty(size)
    full_weight = weight(0.0, params[0], params[1])
    n_updates = 0
    for start in range(-size, n, size):  # before the first block one without triplets
        now = (start // size) % 2 * (2 * size)
        m = min(size, n - start) if start >= 0 else 0
        step_table(vectors, now, size, m, is_distance, table)
        for t in range(m):
            w = full_weight
            tau = 0.0
            if z[t] < 1.0:
                if table[t, t] > 0.0:
                    curve = (z[t], table[t, t])
                    tau, w = half_quadratic(
                        linear_z, curve, linear_kink(curve), C[start + t], weight, params, max_hq_iter
                    )
                else:
                    w = weight(1.0 - z[t], params[0], params[1])
                if tau > 0.0:
                    later = t // PAIR_ROWS * PAIR_ROWS
                    add_row(z, later, table, t * size + later, tau, (m - later + PAIR_ROWS - 1) // PAIR_ROWS)
            steps[t] = tau
            plausibility[start + t] = min(1.0, max(w / full_weight, _SMALLEST))
        n_moved = _keep_moving(vectors, now, size, m, steps, is_distance)
        n_updates += n_moved
        after = 2 * size - now
        m = max(0, min(size, n - start - size))
        block_directions(
            anchors, positives, negatives, ia, ip, ineg, start + size, m, is_distance, vectors, after, size
        )
        _advance(panels, vectors, size, now, n_moved, after, m, is_distance, parts, z)
    unpack(panels, M, is_distance)
    return n_updates


@helper
def _keep_moving(vectors, first, size, m, steps, is_distance):
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


# Inlined: as a function of its own it was found up to a third slower in the process that compiles it.
@body
def _advance(panels, vectors, size, now, n_moved, after, m, is_distance, parts, z):
    """Take the steps of one block and find the margins of the next, each panel of M while it is at hand."""
    width = panels.shape[2]
    for p in range(panels.shape[0]):
        first = p * width if is_distance else 0
        for turn in range(2 if is_distance and n_moved > 0 else min(1, n_moved)):
            # Below its square on the diagonal, a panel of a symmetric matrix also takes the steps with g and h swapped.
            other = turn * size
            add_panel(vectors, now + other, now + size - other, n_moved, panels, p, first + turn * width)
        for turn in range(2 if is_distance else 1):
            other = turn * size
            add_margins(vectors, after + other, after + size - other, m, panels, p, first, parts)
    for t in range(m):
        total = parts.dtype.type(0.0)
        for k in range(VECTOR_BYTES // parts.itemsize):
            total += parts[t, k]
            parts[t, k] = 0.0
        z[t] = total


@helper
def block_size(d):
    """Triplets in a block: the table of a long block costs arithmetic, the products of a short one are slow."""
    if d < 200:
        return 12
    return 24 if d < 800 else 48


@kernel
def sweep(M, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, cone, plausibility):
    """Rescaled-hinge sweep in blocks, without a cone."""
    return sweep_with(
        M, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, cone, plausibility,
        exponential_weight,
    )  # fmt: skip
