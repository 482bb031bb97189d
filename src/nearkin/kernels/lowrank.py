"""Sequential sweeps over triplets for a factor L, stored as components of shape (r, d) (Algorithms 3 and 4).

Both measures share one step in L, because only the symmetric part of ``g h'`` acts on ``L L'``. `sweep` takes the
exact proximal step, `sweep_published` that of OPML, `sweep_subgradient` the paper's sub-gradient steps; all inner loops
run on two 2 x 2 Gram matrices.
"""

import math

import numpy as np

from nearkin.kernels.machine.compile import body, helper, kernel
from nearkin.kernels.machine.pack import advance, aligned, bring, directions, in_slabs, pack, padded, unpack
from nearkin.kernels.scalar import (
    exponential_weight,
    factored_bound,
    factored_curve,
    factored_kink,
    factored_update,
    factored_z,
    half_quadratic,
    subgradient_update,
)

__all__ = ["sweep", "sweep_published", "sweep_subgradient"]

_SMALLEST = float(np.finfo(np.float64).tiny)


@helper
def gram(p, q):
    """``p.p, q.q, p.q`` in double precision."""
    pp = 0.0
    qq = 0.0
    pq = 0.0
    for j in range(p.shape[0]):
        pp += p[j] * p[j]
        qq += q[j] * q[j]
        pq += p[j] * q[j]
    return pp, qq, pq


@body
def exact_solve(gg, hh, gh, pp, qq, pq, C, weight, params, max_hq_iter, step_size, n_steps):
    """Global minimiser of the proximal problem (26) with the half-quadratic weight."""
    curve = factored_curve(gg, hh, gh, pp, qq, pq)
    # No weight exceeds that of a hinge of zero, and the margin rises with the step up to the bound: where the longest
    # step falls short of both, the kink is not needed, and finding it takes longer than all the rest.
    longest = C * weight(0.0, params[0], params[1])
    short = longest * curve[2] < 0.5 and factored_z(longest, curve) < 1.0
    kink = longest if short else factored_kink(curve)
    tau, w = half_quadratic(factored_z, curve, kink, C, weight, params, max_hq_iter)
    a1, a2, b1, b2 = factored_update(tau, curve, gg, hh, gh)
    return a1, a2, b1, b2, w


@body
def published_solve(gg, hh, gh, pp, qq, pq, C, weight, params, max_hq_iter, step_size, n_steps):
    """The step of OPML as printed, which does not stop where the loss is removed, only below the bound."""
    curve = factored_curve(gg, hh, gh, pp, qq, pq)
    tau, w = half_quadratic(factored_z, curve, factored_bound(curve), C, weight, params, max_hq_iter)
    a1, a2, b1, b2 = factored_update(tau, curve, gg, hh, gh)
    return a1, a2, b1, b2, w


@body
def subgradient_solve(gg, hh, gh, pp, qq, pq, C, weight, params, max_hq_iter, step_size, n_steps):
    """Sub-gradient steps (32), (33); each half-quadratic iteration starts again at L_t, so ``eta = 0`` is the hinge."""
    a1 = a2 = b1 = b2 = 0.0
    z = pq
    w = 1.0
    for _ in range(max_hq_iter):
        w = weight(max(0.0, 1.0 - z), params[0], params[1])
        a1, a2, b1, b2, z = subgradient_update(C * w, step_size, n_steps, gg, hh, gh, pp, qq, pq)
    return a1, a2, b1, b2, w


@body
def sweep_with(
    components, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, step_size, n_steps,
    plausibility, weight, solve,
):  # fmt: skip
    """Loop shared by both solvers; ``weight`` is the loss's scalar function, ``solve`` finds the four coefficients.

    A step waits until the next triplet is projected, so that both take one pass over L.
    """
    slabs = in_slabs(components)
    L = pack(components, slabs)
    r = components.shape[0]
    n = padded(components.shape[1], L)
    gh = aligned(4 * n, L)
    old, new = 0, 2 * n  # where g and h lie in it, those of the step that waits and those of the triplet
    wide = padded(r, L)
    p, q, along_g, along_h = aligned(wide, L), aligned(wide, L), aligned(wide, L), aligned(wide, L)
    full_weight = weight(0.0, params[0], params[1])
    n_updates = 0
    move = False  # whether a step waits to be applied
    for t in range(ia.shape[0]):
        g_g, h_h, g_h = directions(anchors, positives, negatives, ia[t], ip[t], ineg[t], is_distance, gh, new)
        if t + 1 < ia.shape[0]:  # the rows of the next triplet come from memory during the pass over L
            bring(anchors, ia[t + 1])
            bring(positives, ip[t + 1])
            bring(negatives, ineg[t + 1])
        advance(L, slabs, r, n, move, gh, old, new, along_g, along_h, p, q)
        move = False
        pp, qq, pq = gram(p, q)
        w = full_weight
        if pq < 1.0:
            if g_g > 0.0 and h_h > 0.0 and C[t] > 0.0:
                a1, a2, b1, b2, w = solve(
                    g_g, h_h, g_h, pp, qq, pq, C[t], weight, params, max_hq_iter, step_size, n_steps
                )
                if math.isfinite(a1 + a2 + b1 + b2) and (a1 != 0.0 or a2 != 0.0 or b1 != 0.0 or b2 != 0.0):
                    for j in range(wide):
                        along_g[j] = a1 * p[j] + a2 * q[j]
                        along_h[j] = b1 * p[j] + b2 * q[j]
                    old, new = new, old
                    n_updates += 1
                    move = True
            else:
                w = weight(1.0 - pq, params[0], params[1])
        plausibility[t] = min(1.0, max(w / full_weight, _SMALLEST))
    if move:
        advance(L, slabs, r, n, move, gh, old, new, along_g, along_h, p, q)
    unpack(L, components, slabs)
    return n_updates


@kernel
def sweep(
    components, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, step_size, n_steps,
    plausibility,
):  # fmt: skip
    """Rescaled-hinge sweep with the exact proximal step: (Robust-)LOSL and (Robust-)LODML."""
    return sweep_with(
        components, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, step_size,
        n_steps, plausibility, exponential_weight, exact_solve,
    )  # fmt: skip


@kernel
def sweep_published(
    components, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, step_size, n_steps,
    plausibility,
):  # fmt: skip
    """Rescaled-hinge sweep with the step of OPML as printed."""
    return sweep_with(
        components, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, step_size,
        n_steps, plausibility, exponential_weight, published_solve,
    )  # fmt: skip


@kernel
def sweep_subgradient(
    components, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, step_size, n_steps,
    plausibility,
):  # fmt: skip
    """Rescaled-hinge sweep with the sub-gradient steps of Eqs. (32) and (33)."""
    return sweep_with(
        components, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, step_size,
        n_steps, plausibility, exponential_weight, subgradient_solve,
    )  # fmt: skip
