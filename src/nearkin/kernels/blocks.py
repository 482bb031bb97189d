"""Sequential sweeps over triplets for a full matrix M at the speed of matrix multiplication.

One triplet at a time, M streams through memory twice for every triplet. Within a block of triplets
``M = M0 + sum_s tau_s A_s``, so the margins of the whole block against M0 are one matrix product, the effect of
earlier steps on later ones goes through the small table ``<A_s, A_t>``, and all steps are applied by one matrix
product at the end. Nothing is approximated: only the order of the sums differs from `nearkin.kernels.full`.
"""

import numpy as np

from nearkin.kernels._compile import body, copy_matrix, helper, kernel
from nearkin.kernels.blas import (
    add_outer,
    add_symmetric_outer,
    gram,
    multiply,
    multiply_symmetric,
    products,
    workspace,
)
from nearkin.kernels.direction import block_directions
from nearkin.kernels.scalar import exponential_weight, half_quadratic, linear_kink, linear_z

__all__ = ["block_size", "sweep", "sweep_with"]

_SMALLEST = float(np.finfo(np.float64).tiny)

#: From this many features on, symmetric products with one triangle of M beat general ones with all of it.
_ONE_TRIANGLE = 256

#: From this many triplets on, half a table of inner products is cheaper than a whole one.
_GRAM_BY_HALF = 64


@body
def sweep_with(
    learned,
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
    floor,
    plausibility,
    weight,
):
    """Block-delayed sweep with the arguments of `nearkin.kernels.full`; ``weight`` is the loss's scalar function."""
    d = learned.shape[0]
    size = block_size(d)
    # Rows whose distance is a multiple of a large power of two fight for the same places of the cache.
    row = d + 16 if (d * learned.itemsize) % 512 == 0 else d
    M = learned
    if row != d:
        M = np.empty((d, row), learned.dtype)[:, :d]
        copy_matrix(learned, M)
    vectors = np.empty((3, size, row), M.dtype)
    tables = np.empty((3, size, size), M.dtype)
    z = np.empty(size)
    work = workspace(M)
    one_triangle = is_distance and d >= _ONE_TRIANGLE
    full_weight = weight(0.0, params[0], params[1])
    n_updates = 0
    for start in range(0, ia.shape[0], size):
        m = min(size, ia.shape[0] - start)
        G = vectors[0, :m, :d]
        H = vectors[1, :m, :d]
        GM = vectors[2, :m, :d]
        GG = tables[0, :m, :m]
        HH = tables[1, :m, :m]
        GH = tables[2, :m, :m]
        block_directions(anchors, positives, negatives, ia, ip, ineg, start, is_distance, G, H)
        if one_triangle:
            multiply_symmetric(G, M, GM, work)
        else:
            multiply(G, M, GM, work)
        if m < _GRAM_BY_HALF:
            products(G, G, GG, work)
            products(H, H, HH, work)
        else:
            gram(G, GG, work)
            gram(H, HH, work)
        if is_distance:
            products(G, H, GH, work)
        _row_products(GM, H, z)
        n_moved = 0
        for t in range(m):
            w = full_weight
            if z[t] < 1.0:
                tau = 0.0
                gg, hh, gh = float(GG[t, t]), float(HH[t, t]), float(GH[t, t])
                sq_norm = 0.5 * (gg * hh + gh * gh) if is_distance else gg * hh
                if sq_norm > 0.0:
                    curve = (z[t], sq_norm)
                    tau, w = half_quadratic(
                        linear_z, curve, linear_kink(curve), C[start + t], weight, params, max_hq_iter
                    )
                else:
                    w = weight(1.0 - z[t], params[0], params[1])
                if tau > 0.0:
                    _carry(t, m, tau, is_distance, GG, HH, GH, z)
                    _scale_into(n_moved, t, 0.5 * tau if is_distance else tau, G, H)
                    n_moved += 1
            plausibility[start + t] = min(1.0, max(w / full_weight, _SMALLEST))
        n_updates += n_moved
        if n_moved > 0:
            if one_triangle:
                add_symmetric_outer(G[:n_moved], H[:n_moved], M, work)
            else:
                add_outer(G[:n_moved], H[:n_moved], M, work)
                if is_distance:
                    add_outer(H[:n_moved], G[:n_moved], M, work)
    if is_distance:
        for i in range(d):
            for k in range(i):
                M[k, i] = M[i, k]
    if row != d:
        copy_matrix(M, learned)
    return n_updates


@helper
def block_size(d):
    """Triplets in a block: the table of a long block costs arithmetic, the products of a short one are slow."""
    if d < 200:
        return 12
    if d < 400:
        return 32
    if d < 800:
        return 64
    return 128 if d < 1600 else 256


@helper
def _row_products(A, B, out):
    """Inner product of each row of A with the same row of B."""
    for t in range(A.shape[0]):
        dot = A.dtype.type(0.0)
        for k in range(A.shape[1]):
            dot += A[t, k] * B[t, k]
        out[t] = dot


@helper
def _carry(t, m, tau, is_distance, GG, HH, GH, z):
    """Add ``tau <A_t, A_s>`` to the margins of the later triplets of the block."""
    if is_distance:
        half = 0.5 * tau
        for s in range(t + 1, m):
            z[s] += half * (GG[t, s] * HH[t, s] + GH[t, s] * GH[s, t])
    else:
        for s in range(t + 1, m):
            z[s] += tau * (GG[t, s] * HH[t, s])


@helper
def _scale_into(place, t, factor, G, H):
    """Triplet t moves M: its ``factor * g`` and its h become row ``place``, close to those that moved it before."""
    number = G.dtype.type(factor)
    for k in range(G.shape[1]):
        G[place, k] = number * G[t, k]
    if place < t:
        for k in range(H.shape[1]):
            H[place, k] = H[t, k]


@kernel
def sweep(M, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, floor, plausibility):
    """Rescaled-hinge sweep in blocks, without a cone."""
    return sweep_with(
        M, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, floor, plausibility,
        exponential_weight,
    )  # fmt: skip
