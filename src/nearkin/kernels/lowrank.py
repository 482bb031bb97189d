"""Sequential sweeps over triplets for a factor L, stored as components of shape (r, d) (Algorithms 3 and 4).

Both measures share one step in L, because only the symmetric part of ``g h'`` acts on ``L L'``. `sweep` takes the exact
proximal step, `sweep_subgradient` the paper's sub-gradient steps; all inner loops run on two 2 x 2 Gram matrices.
"""

import math

import numpy as np

from nearkin.kernels._compile import body, helper, kernel
from nearkin.kernels.direction import directions
from nearkin.kernels.scalar import (
    exponential_weight,
    factored_curve,
    factored_kink,
    factored_update,
    factored_z,
    half_quadratic,
    subgradient_update,
)

__all__ = ["sweep", "sweep_subgradient"]

_SMALLEST = float(np.finfo(np.float64).tiny)


@helper
def _project(components, g, h, p, q):
    """``p = L'g`` and ``q = L'h``; returns their Gram matrix ``p.p, q.q, p.q`` in double precision."""
    pp = 0.0
    qq = 0.0
    pq = 0.0
    for j in range(components.shape[0]):
        row = components[j]
        sum_g = components.dtype.type(0.0)
        sum_h = components.dtype.type(0.0)
        for k in range(row.shape[0]):
            sum_g += row[k] * g[k]
            sum_h += row[k] * h[k]
        p[j] = sum_g
        q[j] = sum_h
        pp += sum_g * sum_g
        qq += sum_h * sum_h
        pq += sum_g * sum_h
    return pp, qq, pq


@helper
def _move(components, g, h, p, q, a1, a2, b1, b2):
    """``L += g (a1 p + a2 q)' + h (b1 p + b2 q)'``."""
    number = components.dtype.type
    for j in range(components.shape[0]):
        row = components[j]
        along_g = number(a1 * p[j] + a2 * q[j])
        along_h = number(b1 * p[j] + b2 * q[j])
        for k in range(row.shape[0]):
            row[k] += along_g * g[k] + along_h * h[k]


@body
def exact_solve(gg, hh, gh, pp, qq, pq, C, weight, params, max_hq_iter, step_size, n_steps):
    """Global minimiser of the proximal problem (26) with the half-quadratic weight."""
    curve = factored_curve(gg, hh, gh, pp, qq, pq)
    tau, w = half_quadratic(factored_z, curve, factored_kink(curve), C, weight, params, max_hq_iter)
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
    """Loop shared by both solvers; ``weight`` is the loss's scalar function, ``solve`` finds the four coefficients."""
    r, d = components.shape
    g = np.empty(d, components.dtype)
    h = np.empty(d, components.dtype)
    p = np.empty(r, components.dtype)
    q = np.empty(r, components.dtype)
    full_weight = weight(0.0, params[0], params[1])
    n_updates = 0
    for t in range(ia.shape[0]):
        gg, hh, gh = directions(anchors[ia[t]], positives[ip[t]], negatives[ineg[t]], is_distance, g, h)
        pp, qq, pq = _project(components, g, h, p, q)
        w = full_weight
        if pq < 1.0:
            w = weight(1.0 - pq, params[0], params[1])
            if gg > 0.0 and hh > 0.0 and C[t] > 0.0:
                a1, a2, b1, b2, w = solve(gg, hh, gh, pp, qq, pq, C[t], weight, params, max_hq_iter, step_size, n_steps)
                if math.isfinite(a1 + a2 + b1 + b2) and (a1 != 0.0 or a2 != 0.0 or b1 != 0.0 or b2 != 0.0):
                    _move(components, g, h, p, q, a1, a2, b1, b2)
                    n_updates += 1
        plausibility[t] = min(1.0, max(w / full_weight, _SMALLEST))
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
def sweep_subgradient(
    components, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, step_size, n_steps,
    plausibility,
):  # fmt: skip
    """Rescaled-hinge sweep with the sub-gradient steps of Eqs. (32) and (33)."""
    return sweep_with(
        components, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, step_size,
        n_steps, plausibility, exponential_weight, subgradient_solve,
    )  # fmt: skip
