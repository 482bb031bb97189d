"""Sequential sweeps over triplets for a factor L, stored as components of shape (r, d) (Algorithms 3 and 4).

Both measures share one step in L, because only the symmetric part of ``g h'`` acts on ``L L'``. `sweep` takes the
exact proximal step, `sweep_subgradient` the paper's sub-gradient steps; all inner loops run on two 2 x 2 Gram
matrices.
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

__all__ = ["slab_width", "sweep", "sweep_subgradient"]

_SMALLEST = float(np.finfo(np.float64).tiny)


def slab_width(r):
    """Tuple as long as the slabs of r components are wide; empty for few components, which plain loops serve better.

    The compiler knows the length of a tuple, which no number would tell it.
    """
    if r < 16:
        return ()
    return (0,) * (16 if r == 16 else 32 if r <= 32 else 64)


@helper
def _project_components(L, g, h, p, q):
    """``p = L'g`` and ``q = L'h`` for components of shape (r, d)."""
    for j in range(L.shape[0]):
        sum_g = L.dtype.type(0.0)
        sum_h = L.dtype.type(0.0)
        for i in range(L.shape[1]):
            sum_g += L[j, i] * g[i]
            sum_h += L[j, i] * h[i]
        p[j] = sum_g
        q[j] = sum_h


@helper
def _move_components(L, g, h, along_g, along_h):
    """``L[j] += along_g[j] g + along_h[j] h`` for components of shape (r, d)."""
    for j in range(L.shape[0]):
        a = along_g[j]
        b = along_h[j]
        for i in range(L.shape[1]):
            L[j, i] += a * g[i] + b * h[i]


@helper
def _project_features(L, g, h, p, q, width):
    """`_project_components` for a slab of shape (d, len(width))."""
    for n in range(len(width)):
        p[n] = 0
        q[n] = 0
    d = L.shape[0]
    for i in range(0, d - 3, 4):
        g_0, g_1, g_2, g_3 = g[i], g[i + 1], g[i + 2], g[i + 3]
        h_0, h_1, h_2, h_3 = h[i], h[i + 1], h[i + 2], h[i + 3]
        for n in range(len(width)):
            x_0, x_1, x_2, x_3 = L[i, n], L[i + 1, n], L[i + 2, n], L[i + 3, n]
            p[n] += g_0 * x_0 + g_1 * x_1 + g_2 * x_2 + g_3 * x_3
            q[n] += h_0 * x_0 + h_1 * x_1 + h_2 * x_2 + h_3 * x_3
    for i in range(d - d % 4, d):
        g_0, h_0 = g[i], h[i]
        for n in range(len(width)):
            p[n] += g_0 * L[i, n]
            q[n] += h_0 * L[i, n]


@helper
def _move_features(L, g0, h0, along_g, along_h, g, h, p, q, width):
    """Apply a step and project the next triplet in one sweep over a slab of shape (d, len(width)).

    The length of the tuple ``width`` is known when this is compiled, so that the inner loop becomes a few vector
    instructions; four features at a time share what is read of p and q.
    """
    d = L.shape[0]
    for n in range(len(width)):
        p[n] = 0
        q[n] = 0
    for i in range(0, d - 3, 4):
        g_0, g_1, g_2, g_3 = g[i], g[i + 1], g[i + 2], g[i + 3]
        h_0, h_1, h_2, h_3 = h[i], h[i + 1], h[i + 2], h[i + 3]
        a_0, a_1, a_2, a_3 = g0[i], g0[i + 1], g0[i + 2], g0[i + 3]
        b_0, b_1, b_2, b_3 = h0[i], h0[i + 1], h0[i + 2], h0[i + 3]
        for n in range(len(width)):
            a = along_g[n]
            b = along_h[n]
            x_0 = L[i, n] + a_0 * a + b_0 * b
            x_1 = L[i + 1, n] + a_1 * a + b_1 * b
            x_2 = L[i + 2, n] + a_2 * a + b_2 * b
            x_3 = L[i + 3, n] + a_3 * a + b_3 * b
            L[i, n] = x_0
            L[i + 1, n] = x_1
            L[i + 2, n] = x_2
            L[i + 3, n] = x_3
            p[n] += g_0 * x_0 + g_1 * x_1 + g_2 * x_2 + g_3 * x_3
            q[n] += h_0 * x_0 + h_1 * x_1 + h_2 * x_2 + h_3 * x_3
    for i in range(d - d % 4, d):
        g_0, h_0, a_0, b_0 = g[i], h[i], g0[i], h0[i]
        for n in range(len(width)):
            x_0 = L[i, n] + a_0 * along_g[n] + b_0 * along_h[n]
            L[i, n] = x_0
            p[n] += g_0 * x_0
            q[n] += h_0 * x_0


@helper
def _sweep_slabs(slabs, move, g0, h0, along_g, along_h, g, h, p, q, width):
    """All slabs: apply the step that waits, if there is one, and project."""
    for s in range(slabs.shape[0]):
        if move:
            _move_features(slabs[s], g0, h0, along_g[s], along_h[s], g, h, p[s], q[s], width)
        else:
            _project_features(slabs[s], g, h, p[s], q[s], width)


@helper
def _gram(p, q):
    """``p.p, q.q, p.q`` in double precision."""
    pp = 0.0
    qq = 0.0
    pq = 0.0
    for s in range(p.shape[0]):
        for j in range(p.shape[1]):
            pp += p[s, j] * p[s, j]
            qq += q[s, j] * q[s, j]
            pq += p[s, j] * q[s, j]
    return pp, qq, pq


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
    width, plausibility, weight, solve,
):  # fmt: skip
    """Loop shared by both solvers; ``weight`` is the loss's scalar function, ``solve`` finds the four coefficients.

    With a ``width`` (see `slab_width`) L is laid into slabs in which the components of one feature lie side by
    side, and a step is applied in the sweep that projects the next triplet, so that L passes through the processor
    once.
    """
    r, d = components.shape
    in_slabs = len(width) > 0
    wide = len(width) if in_slabs else r
    n_slabs = (r + wide - 1) // wide
    slabs = np.zeros((n_slabs if in_slabs else 0, d, wide), components.dtype)
    if in_slabs:
        for j in range(r):
            for i in range(d):
                slabs[j // wide, i, j % wide] = components[j, i]
    vectors = np.zeros((4, d), components.dtype)
    g, h, g0, h0 = vectors[0], vectors[1], vectors[2], vectors[3]
    small = np.zeros((4, n_slabs, wide), components.dtype)
    p, q, along_g, along_h = small[0], small[1], small[2], small[3]
    full_weight = weight(0.0, params[0], params[1])
    n_updates = 0
    move = False  # whether a step waits to be applied
    for t in range(ia.shape[0]):
        gg, hh, gh = directions(anchors[ia[t]], positives[ip[t]], negatives[ineg[t]], is_distance, g, h)
        if in_slabs:
            _sweep_slabs(slabs, move, g0, h0, along_g, along_h, g, h, p, q, width)
        else:
            _project_components(components, g, h, p[0], q[0])
        move = False
        pp, qq, pq = _gram(p, q)
        w = full_weight
        if pq < 1.0:
            if gg > 0.0 and hh > 0.0 and C[t] > 0.0:
                a1, a2, b1, b2, w = solve(gg, hh, gh, pp, qq, pq, C[t], weight, params, max_hq_iter, step_size, n_steps)
                if math.isfinite(a1 + a2 + b1 + b2) and (a1 != 0.0 or a2 != 0.0 or b1 != 0.0 or b2 != 0.0):
                    for s in range(n_slabs):
                        for j in range(wide):
                            along_g[s, j] = a1 * p[s, j] + a2 * q[s, j]
                            along_h[s, j] = b1 * p[s, j] + b2 * q[s, j]
                    n_updates += 1
                    if in_slabs:
                        g, h, g0, h0 = g0, h0, g, h
                        move = True
                    else:
                        _move_components(components, g, h, along_g[0], along_h[0])
            else:
                w = weight(1.0 - pq, params[0], params[1])
        plausibility[t] = min(1.0, max(w / full_weight, _SMALLEST))
    if in_slabs:
        if move:
            _sweep_slabs(slabs, move, g0, h0, along_g, along_h, g, h, p, q, width)
        for j in range(r):
            for i in range(d):
                components[j, i] = slabs[j // wide, i, j % wide]
    return n_updates


@kernel
def sweep(
    components, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, step_size, n_steps,
    width, plausibility,
):  # fmt: skip
    """Rescaled-hinge sweep with the exact proximal step: (Robust-)LOSL and (Robust-)LODML."""
    return sweep_with(
        components, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, step_size,
        n_steps, width, plausibility, exponential_weight, exact_solve,
    )  # fmt: skip


@kernel
def sweep_subgradient(
    components, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, step_size, n_steps,
    width, plausibility,
):  # fmt: skip
    """Rescaled-hinge sweep with the sub-gradient steps of Eqs. (32) and (33)."""
    return sweep_with(
        components, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, step_size,
        n_steps, width, plausibility, exponential_weight, subgradient_solve,
    )  # fmt: skip
