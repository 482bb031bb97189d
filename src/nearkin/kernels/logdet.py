"""A positive definite ``M = L L'`` with LogDet proximity: SLMOML and ITML.

A step changes M within the span of two products with it. Its square root ``L + L p a' + L q b'`` is applied to L, with
``p = L'x``, ``q = L'y`` for two vectors x and y of the triplet: M itself would lose its small eigenvalues to rounding.
Methods differ in the two vectors and in how the inner products of p and q give a and b, which lie in their span.
"""

from nearkin.kernels.formulas import (
    direction_of,
    gram,
    half_quadratic,
    half_quadratic_by,
    is_step,
    logdet_curve,
    logdet_kink,
    logdet_update,
    logdet_z,
    pair_roots,
    pair_step,
    pair_z,
    plausibility_of,
    weight,
)
from nearkin.kernels.lowrank import prepare_step
from nearkin.kernels.machine.compile import Sweep, body, exact_helper, helper
from nearkin.kernels.machine.pack import advance, make_factor, unpack_factor
from nearkin.kernels.machine.simd import lanes, load, total, zeros


def _sweep(components, triplets, rule, as_pairs, bounds, plausibility):
    """Project, solve and step for every triplet; ``bounds`` are those of ITML's pairs.

    A step stays pending until the next triplet is projected, so that both take one pass over L.
    """
    d = components.shape[0]
    n = (d + 3) // 4 * 4
    factor = make_factor(components, True, n)  # its vectors: the products of the pending step, then the triplet's own
    full_weight = weight(0.0, rule.params[0], rule.params[1])
    n_updates = 0
    pending = False
    for t in range(len(plausibility)):
        _differences(triplets, t, as_pairs, factor.vectors, 2 * n, 3 * n)
        advance(factor, pending, 0, 2 * n)
        pp, qq, pq = gram(factor.p, factor.q)
        rest = _beside(factor.p, factor.q, pp, pq)
        a1, a2, b1, b2, w = solve(pp, qq, pq, rest, rule.C[t], rule, weight, bounds)
        pending = is_step(a1, a2, b1, b2)
        if pending:
            _forward(factor)
            prepare_step(factor, a1, a2, b1, b2)
            n_updates += 1
        plausibility[t] = plausibility_of(w, full_weight)
    if pending:
        advance(factor, pending, 0, 2 * n)
    unpack_factor(factor, components)
    return n_updates


@exact_helper
def _differences(triplets, t, as_pairs, vectors, x, y):
    """Write the two vectors of a triplet: ``u = anchor - positive`` and ``v = anchor - negative``, or g and h."""
    anchors, positives, negatives = triplets.anchors, triplets.positives, triplets.negatives
    i, j, m = triplets.anchor[t], triplets.positive[t], triplets.negative[t]
    for k in range(anchors.shape[1]):
        a, b, c = anchors[i, k], positives[j, k], negatives[m, k]
        g, h = direction_of(a, b, c, True)
        vectors[x + k] = a - b if as_pairs else g
        vectors[y + k] = a - c if as_pairs else h


@helper
def _beside(p, q, pp, pq):
    """Squared length of the part of q beside p, in double precision."""
    rest = 0.0
    share = p.dtype.type(pq / pp) if pp > 0.0 else p.dtype.type(0.0)
    for k in range(p.shape[0]):
        beside = q[k] - share * p[k]
        rest += beside * beside
    return rest


@helper
def _forward(factor):
    """Write ``L p`` and ``L q`` to the vectors of the pending step, four features at a time."""
    L, n, p, q, products = factor.L, factor.n, factor.p, factor.q, factor.vectors
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
def triplet_solve(pp, qq, pq, rest, C, rule, weight, bounds):
    """Minimiser of the LogDet problem of a triplet (SLMOML)."""
    a = b = c = 0.0
    w = weight(max(0.0, 1.0 - pq), rule.params[0], rule.params[1])
    if pq < 1.0 and pp > 0.0 and qq > 0.0 and C > 0.0:
        curve = logdet_curve(pp, qq, pq, rest)
        tau, w = half_quadratic(logdet_z, curve, logdet_kink(curve), C, weight, rule.params, rule.max_hq_iter)
        a, b, c = logdet_update(tau, curve, pp, qq)
    return a, b, b, c, w


@body
def pairs_solve(pp, qq, pq, rest, C, rule, weight, bounds):
    """The similar pair first, then the dissimilar one on the M that it leaves (ITML).

    Equal vectors are not a pair. The weight is the smaller one.
    """
    low, high, capped = bounds
    w = weight(0.0, rule.params[0], rule.params[1])
    near = root = other = 0.0
    left = qq
    if pp > low:
        curve = (1.0, pp, low, capped)
        w = weight(pp - low, rule.params[0], rule.params[1])
        if C > 0.0:
            tau, w = half_quadratic_by(pair_step, pair_z, curve, C, weight, rule.params, rule.max_hq_iter)
            near, root = pair_roots(tau, curve)
            left = rest + pq * pq / (pp * (1.0 + tau * pp))
    if qq > 0.0 and left < high:
        v = weight(high - left, rule.params[0], rule.params[1])
        if C > 0.0 and left > 0.0:
            curve = (-1.0, left, high, capped)
            tau, v = half_quadratic_by(pair_step, pair_z, curve, C, weight, rule.params, rule.max_hq_iter)
            _, other = pair_roots(tau, curve)
        w = min(w, v)
    # L - root Mu p', less other times its products with the second pair: Mv - near pq Mu and q - root pq p.
    turn = other * pq
    return -root - turn * near * root * pq, turn * near, turn * root, -other, w


solve = triplet_solve
by_triplet = Sweep(_sweep, "d d, *, n", solve=triplet_solve)
by_pair = Sweep(_sweep, "d d, *, n", solve=pairs_solve)
