"""Sequential sweeps over triplets that keep a full matrix M positive semi-definite (Algorithm 2).

`sweep_project` moves as `nearkin.kernels.full` does and clips the one negative eigenvalue that a step can leave,
`sweep_exact` solves the step on the cone itself.
"""

import math

import numpy as np

from nearkin.kernels._compile import body, copy_matrix, helper, kernel
from nearkin.kernels.direction import directions
from nearkin.kernels.full import bilinear, move
from nearkin.kernels.lapack import exceeds, smallest_eigenpair, workspace
from nearkin.kernels.scalar import exponential_weight, half_quadratic, linear_kink, linear_z

__all__ = ["exact_step", "project_step", "sweep_exact", "sweep_project", "sweep_with"]

_SMALLEST = float(np.finfo(np.float64).tiny)

#: Steps for which a bound found by a Cholesky decomposition should last.
_AHEAD = 8.0

#: Most passive-aggressive steps that an exact step may be long: on the cone a margin can stay out of reach.
_LONGEST = 1e6


@helper
def _clip_one_negative(M, work):
    """Replace M, which has at most one negative eigenvalue, by its positive semi-definite part.

    Returns the smallest eigenvalue of the result.
    """
    value, found = smallest_eigenpair(M, work)
    if not found:
        return _clip_negative(M)
    if value >= 0.0:
        return value
    q = work[1]
    for i in range(M.shape[0]):
        factor = value * q[i]
        for k in range(M.shape[0]):
            M[i, k] -= factor * q[k]
    return 0.0


@helper
def _clip_negative(M):
    """Replace M by its positive semi-definite part; returns the smallest eigenvalue of the result."""
    values, vectors = np.linalg.eigh(M)
    d = M.shape[0]
    for j in range(d):
        if values[j] >= 0.0:
            return values[j] if j == 0 else 0.0
        for i in range(d):
            factor = values[j] * vectors[i, j]
            for k in range(d):
                M[i, k] -= factor * vectors[k, j]
    return 0.0


@helper
def _back_to_the_cone(M, floor, level, work):
    """Find a new bound below M's smallest eigenvalue, and clip M if that is negative.

    Cholesky decompositions first, of M less a level that lasts for some steps and of M itself; they cost a fraction of
    an eigenpair. Where the last look found M outside, it likely is again: then the eigenpair at once.
    """
    if floor[1] == 0.0:
        if exceeds(M, level, work):
            floor[0] = level
            return
        if exceeds(M, 0.0, work):
            floor[0] = 0.0
            return
    floor[0] = _clip_one_negative(M, work)
    floor[1] = 1.0 if floor[0] == 0.0 else 0.0


@body
def project_step(M, g, h, gg, hh, gh, curve, is_distance, C, weight, params, max_hq_iter, floor, work):
    """The same, then the positive semi-definite part (Algorithm 2, step 4).

    ``floor[0]`` is a lower bound of M's smallest eigenvalue. A step lowers it by at most ``tau * m_minus / 2``, the
    negative eigenvalue of ``tau A``, so M is looked at only when the bound falls below zero.
    """
    tau, w = half_quadratic(linear_z, curve, linear_kink(curve), C, weight, params, max_hq_iter)
    if tau > 0.0:
        move(M, g, h, tau, is_distance)
        drop = 0.5 * tau * (math.sqrt(gg) * math.sqrt(hh) - gh)
        floor[0] -= drop
        if floor[0] < 0.0:
            _back_to_the_cone(M, floor, _AHEAD * drop, work)
    return tau, w


@helper
def _projected(M, g, h, tau):
    """Positive semi-definite part of ``M + tau A`` as a new matrix."""
    N = np.empty_like(M)
    copy_matrix(M, N)
    move(N, g, h, tau, True)
    _clip_negative(N)
    return N


@helper
def _exact_kink(M, g, h, cap, pa_kink):
    """Smallest step whose margin *after projection* is 1, or ``cap`` if that lies beyond it.

    The projected margin rises with the step and is never above the one without projection, so the search starts at
    the passive-aggressive step.
    """
    if cap <= pa_kink:
        return cap
    cap = min(cap, _LONGEST * pa_kink)
    low = pa_kink
    if bilinear(_projected(M, g, h, low), g, h) >= 1.0:
        return low
    high = min(2.0 * low, cap)
    while bilinear(_projected(M, g, h, high), g, h) < 1.0:
        if high == cap:
            return cap
        low = high
        high = min(2.0 * high, cap)
    for _ in range(200):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        if bilinear(_projected(M, g, h, middle), g, h) < 1.0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


@body
def exact_step(M, g, h, gg, hh, gh, curve, is_distance, C, weight, params, max_hq_iter, floor, work):
    """Minimiser of the step's problem on the cone (Eq. 24), by bisection on the projected margin."""
    kink = _exact_kink(M, g, h, C * weight(0.0, params[0], params[1]), linear_kink(curve))
    tau = 0.0
    w = 1.0
    z = curve[0]
    for _ in range(max_hq_iter):
        w = weight(max(0.0, 1.0 - z), params[0], params[1])
        tau = kink if math.inf == C else min(C * w, kink)
        z = bilinear(_projected(M, g, h, tau), g, h)
    if tau > 0.0:
        copy_matrix(_projected(M, g, h, tau), M)
    return tau, w


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
    floor,
    plausibility,
    weight,
    take,
):
    """Loop shared by all sweeps; ``weight`` is the loss's scalar function, ``take`` the step."""
    d = M.shape[0]
    g = np.empty(d, M.dtype)
    h = np.empty(d, M.dtype)
    work = workspace(d)
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
                tau, w = take(
                    M, g, h, gg, hh, gh, (z, sq_norm), is_distance, C[t], weight, params, max_hq_iter, floor, work
                )
                if tau > 0.0:
                    n_updates += 1
        plausibility[t] = min(1.0, max(w / full_weight, _SMALLEST))
    return n_updates


@kernel
def sweep_project(
    M, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, floor, plausibility
):
    """Rescaled-hinge sweep that projects after each triplet: (Robust-)ODML as printed."""
    return sweep_with(
        M, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, floor, plausibility,
        exponential_weight, project_step,
    )  # fmt: skip


@kernel
def sweep_exact(
    M, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, floor, plausibility
):
    """Rescaled-hinge sweep with the exact step on the cone (``psd="exact"``)."""
    return sweep_with(
        M, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, floor, plausibility,
        exponential_weight, exact_step,
    )  # fmt: skip
