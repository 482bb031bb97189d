"""Sequential sweeps over triplets for a positive definite ``M = L L'`` with LogDet proximity (SLMOML, ITML).

A step changes M within the span of two products with it. It is taken by its square root, ``L + L p a' + L q b'`` with
``p = L'x``, ``q = L'y`` for two vectors x and y of the triplet: M itself would lose its small eigenvalues to rounding.
Methods differ in the two vectors and in how the Gram matrix of p and q gives a and b, which lie in their span.
"""

import math

import numpy as np

from nearkin.kernels.machine.compile import body, exact_helper, helper, kernel
from nearkin.kernels.machine.pack import advance, aligned, padded
from nearkin.kernels.machine.simd import lanes, load, total, zeros
from nearkin.kernels.scalar import (
    exponential_weight,
    half_quadratic,
    half_quadratic_by,
    logdet_curve,
    logdet_kink,
    logdet_update,
    logdet_z,
    pair_roots,
    pair_step,
    pair_z,
)

__all__ = ["pairs_solve", "sweep", "sweep_pairs", "sweep_with", "triplet_solve"]

_SMALLEST = float(np.finfo(np.float64).tiny)


@helper
def _pack(components, n):
    """Slabs as in `machine.pack`, of ``n`` features: whole vectors of components, but no more features."""
    d = components.shape[0]
    wide = lanes(components)
    L = aligned(padded(d, components) * n, components)
    for j in range(d):
        for i in range(d):
            L[(j // wide * n + i) * wide + j % wide] = components[j, i]
    return L


@helper
def _unpack(L, n, components):
    """The reverse of `_pack`."""
    wide = lanes(components)
    for j in range(components.shape[0]):
        for i in range(components.shape[0]):
            components[j, i] = L[(j // wide * n + i) * wide + j % wide]


@exact_helper
def _differences(anchor, positive, negative, as_pairs, vectors, x, y):
    """Write u and v, or g = u + v and h = v - u; differences first, as in `nearkin.kernels.direction`."""
    for k in range(anchor.shape[0]):
        u, v = anchor[k] - positive[k], anchor[k] - negative[k]
        vectors[x + k] = u if as_pairs else u + v
        vectors[y + k] = v if as_pairs else positive[k] - negative[k]


@helper
def _gram(p, q):
    """``p.p, q.q, p.q`` and the squared length of what q has beside p, in double precision."""
    pp = qq = pq = rest = 0.0
    for k in range(p.shape[0]):
        pp += p[k] * p[k]
        qq += q[k] * q[k]
        pq += p[k] * q[k]
    share = p.dtype.type(pq / pp) if pp > 0.0 else p.dtype.type(0.0)
    for k in range(p.shape[0]):
        beside = q[k] - share * p[k]
        rest += beside * beside
    return pp, qq, pq, rest


@helper
def _forward(L, n, p, q, products):
    """``L p`` and, n numbers later, ``L q``, four features at a time."""
    wide = lanes(L)
    for i in range(0, n, 4):
        p_0 = p_1 = p_2 = p_3 = q_0 = q_1 = q_2 = q_3 = zeros(L)
        at = i * wide
        for k in range(0, p.shape[0], wide):
            a, b = load(p, k), load(q, k)
            x_0, x_1, x_2, x_3 = load(L, at), load(L, at + wide), load(L, at + 2 * wide), load(L, at + 3 * wide)
            p_0 += a * x_0
            p_1 += a * x_1
            p_2 += a * x_2
            p_3 += a * x_3
            q_0 += b * x_0
            q_1 += b * x_1
            q_2 += b * x_2
            q_3 += b * x_3
            at += n * wide
        products[i], products[i + 1], products[i + 2], products[i + 3] = total(p_0), total(p_1), total(p_2), total(p_3)
        products[n + i], products[n + i + 1] = total(q_0), total(q_1)
        products[n + i + 2], products[n + i + 3] = total(q_2), total(q_3)


@body
def triplet_solve(pp, qq, pq, rest, C, weight, params, max_hq_iter, bounds):
    """Minimiser of the LogDet problem of a triplet (SLMOML)."""
    a = b = c = 0.0
    w = weight(max(0.0, 1.0 - pq), params[0], params[1])
    if pq < 1.0 and pp > 0.0 and qq > 0.0 and C > 0.0:
        curve = logdet_curve(pp, qq, pq, rest)
        tau, w = half_quadratic(logdet_z, curve, logdet_kink(curve), C, weight, params, max_hq_iter)
        a, b, c = logdet_update(tau, curve, pp, qq)
    return a, b, b, c, w


@body
def pairs_solve(pp, qq, pq, rest, C, weight, params, max_hq_iter, bounds):
    """The similar pair first, then the dissimilar one on the M that it leaves (ITML).

    Equal vectors are no pair. The weight is the smaller one.
    """
    low, high, capped = bounds
    w = weight(0.0, params[0], params[1])
    near = root = other = 0.0
    left = qq
    if pp > low:
        curve = (1.0, pp, low, capped)
        w = weight(pp - low, params[0], params[1])
        if C > 0.0:
            tau, w = half_quadratic_by(pair_step, pair_z, curve, C, weight, params, max_hq_iter)
            near, root = pair_roots(tau, curve)
            left = rest + pq * pq / (pp * (1.0 + tau * pp))
    if qq > 0.0 and left < high:
        v = weight(high - left, params[0], params[1])
        if C > 0.0 and left > 0.0:
            curve = (-1.0, left, high, capped)
            tau, v = half_quadratic_by(pair_step, pair_z, curve, C, weight, params, max_hq_iter)
            _, other = pair_roots(tau, curve)
        w = min(w, v)
    # L - root Mu p', less other times its products with the second pair: Mv - near pq Mu and q - root pq p.
    turn = other * pq
    return -root - turn * near * root * pq, turn * near, turn * root, -other, w


@body
def sweep_with(
    components, anchors, positives, negatives, ia, ip, ineg, as_pairs, C, params, max_hq_iter, bounds, plausibility,
    weight, solve,
):  # fmt: skip
    """Loop shared by all steps; a step waits until the next triplet is projected, so that both take one pass over L."""
    d = components.shape[0]
    n = (d + 3) // 4 * 4
    L = _pack(components, n)
    vectors = aligned(4 * n, L)  # the products of the step that waits, then the two vectors of the triplet
    wide = padded(d, L)
    p, q, along_p, along_q = aligned(wide, L), aligned(wide, L), aligned(wide, L), aligned(wide, L)
    full_weight = weight(0.0, params[0], params[1])
    n_updates = 0
    move = False
    for t in range(ia.shape[0]):
        _differences(anchors[ia[t]], positives[ip[t]], negatives[ineg[t]], as_pairs, vectors, 2 * n, 3 * n)
        advance(L, True, d, n, move, vectors, 0, 2 * n, along_p, along_q, p, q)
        pp, qq, pq, rest = _gram(p, q)
        a1, a2, b1, b2, w = solve(pp, qq, pq, rest, C[t], weight, params, max_hq_iter, bounds)
        move = math.isfinite(a1 + a2 + b1 + b2) and (a1 != 0.0 or a2 != 0.0 or b1 != 0.0 or b2 != 0.0)
        if move:
            _forward(L, n, p, q, vectors)
            for k in range(wide):
                along_p[k] = a1 * p[k] + a2 * q[k]
                along_q[k] = b1 * p[k] + b2 * q[k]
            n_updates += 1
        plausibility[t] = min(1.0, max(w / full_weight, _SMALLEST))
    if move:
        advance(L, True, d, n, move, vectors, 0, 2 * n, along_p, along_q, p, q)
    _unpack(L, n, components)
    return n_updates


@kernel
def sweep(
    components, anchors, positives, negatives, ia, ip, ineg, as_pairs, C, params, max_hq_iter, bounds, plausibility
):
    """Rescaled-hinge sweep with the LogDet step of a triplet: (Robust-)SLMOML."""
    return sweep_with(
        components, anchors, positives, negatives, ia, ip, ineg, as_pairs, C, params, max_hq_iter, bounds, plausibility,
        exponential_weight, triplet_solve,
    )  # fmt: skip


@kernel
def sweep_pairs(
    components, anchors, positives, negatives, ia, ip, ineg, as_pairs, C, params, max_hq_iter, bounds, plausibility
):
    """Rescaled-hinge sweep over the two pairs of every triplet: (Robust-)ITML."""
    return sweep_with(
        components, anchors, positives, negatives, ia, ip, ineg, as_pairs, C, params, max_hq_iter, bounds, plausibility,
        exponential_weight, pairs_solve,
    )  # fmt: skip
