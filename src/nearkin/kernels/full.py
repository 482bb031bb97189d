"""Sequential sweeps over triplets for a full matrix M (Algorithms 1 and 2).

Every sweep takes the parameter (changed in place), the vectors with the three index arrays into them, the measure,
``C``, the loss's numbers and the number of half-quadratic iterations; it fills ``plausibility`` and returns the
number of updates.
"""

import numpy as np

from nearkin.kernels.direction import directions
from nearkin.kernels.machine.compile import body, helper, kernel
from nearkin.kernels.scalar import exponential_weight, half_quadratic, linear_kink, linear_z

__all__ = ["bilinear", "move", "sweep", "sweep_with"]

_SMALLEST = float(np.finfo(np.float64).tiny)


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
    """Loop with the passive-aggressive step (Eqs. 22 and 25); ``weight`` is the loss's scalar function."""
    d = M.shape[0]
    g = np.empty(d, M.dtype)
    h = np.empty(d, M.dtype)
    full_weight = weight(0.0, params[0], params[1])
    n_updates = 0
    for t in range(ia.shape[0]):
        gg, hh, gh = directions(anchors[ia[t]], positives[ip[t]], negatives[ineg[t]], is_distance, g, h)
        sq_norm = 0.5 * (gg * hh + gh * gh) if is_distance else gg * hh
        z = bilinear(M, g, h)
        w = full_weight
        if z < 1.0:
            w = weight(1.0 - z, params[0], params[1])
            if sq_norm > 0.0:
                curve = (z, sq_norm)
                tau, w = half_quadratic(linear_z, curve, linear_kink(curve), C[t], weight, params, max_hq_iter)
                if tau > 0.0:
                    move(M, g, h, tau, is_distance)
                    n_updates += 1
        plausibility[t] = min(1.0, max(w / full_weight, _SMALLEST))
    return n_updates


@kernel
def sweep(M, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, cone, plausibility):
    """Rescaled-hinge sweep without a cone: (Robust-)OASIS, and (Robust-)ODML with ``psd="none"`` or ``"end"``."""
    return sweep_with(
        M, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, cone, plausibility,
        exponential_weight,
    )  # fmt: skip
