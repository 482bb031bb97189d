"""Sequential sweeps over triplets that keep a full matrix M positive semi-definite (Algorithm 2).

`sweep_project` moves as `nearkin.kernels.full` does and clips the one negative eigenvalue that a step can leave,
`sweep_exact` solves the step on the cone itself.
"""

import math

import numpy as np

from nearkin.kernels.direction import directions
from nearkin.kernels.full import bilinear, move
from nearkin.kernels.inverse import AGE, BOUND, N_NULLS, NEAR, OLD, rebuild, tracked_step, tracking_workspace
from nearkin.kernels.machine.compile import body, copy_matrix, helper, kernel
from nearkin.kernels.machine.symmetric import mirror, multiply
from nearkin.kernels.scalar import exponential_weight, half_quadratic, linear_kink, linear_z

__all__ = ["exact_step", "move_in_cone", "project_step", "shift", "sweep_exact", "sweep_project", "sweep_with"]

_SMALLEST = float(np.finfo(np.float64).tiny)

#: Steps for which a bound of the smallest eigenvalue should last to be worth more than the tracked inverse.
_AHEAD = 8.0

#: Steps after which the tracked inverse is computed anew; later for many features, as that costs their cube.
_REFRESH = 64

#: Most passive-aggressive steps that an exact step may be long: on the cone a margin can stay out of reach.
_LONGEST = 1e6


@helper
def _clip_negative(M):
    """Replace M by its positive semi-definite part; returns its eigenvalues and vectors from before."""
    values, vectors = np.linalg.eigh(M)
    d = M.shape[0]
    for j in range(d):
        if values[j] >= 0.0:
            break
        for i in range(d):
            factor = values[j] * vectors[i, j]
            for k in range(d):
                M[i, k] -= factor * vectors[k, j]
    return values, vectors


@body
def _start_again(M, cone):
    """Clip M with all its eigenpairs and let Z cover the directions of the small ones."""
    numbers, nulls, _ = cone
    mirror(M)
    values, vectors = _clip_negative(M)
    mean = 0.0
    for j in range(M.shape[0]):
        mean += max(values[j], 0.0) / M.shape[0]
    n_nulls = 0
    while n_nulls < nulls.shape[1] and values[n_nulls] < NEAR * mean:
        for k in range(M.shape[0]):
            nulls[0, n_nulls, k] = math.sqrt(mean) * vectors[k, n_nulls]
        n_nulls += 1
    numbers[BOUND] = max(0.0, values[0])
    numbers[N_NULLS] = n_nulls


@body
def _track(M, g, h, gg, hh, tau, drop, cone, work):
    """Step with the tracked inverse, which is computed anew when it is old or could not tell; whether that worked."""
    numbers, nulls, _ = cone
    for _ in range(2):
        if numbers[AGE] >= max(_REFRESH, M.shape[0] // 2):
            bound = rebuild(M, nulls, int(numbers[N_NULLS]), work)
            if bound == 0.0:
                numbers[AGE] = OLD
                return False
            numbers[AGE] = 0.0
            if numbers[N_NULLS] == 0.0 and bound > _AHEAD * drop:
                # Far from the boundary again: the bound alone will do for some steps.
                numbers[AGE] = OLD
                numbers[BOUND] = bound - drop
                shift(M, g, h, tau)
                return True
        n_nulls = tracked_step(M, g, h, gg, hh, tau, nulls, int(numbers[N_NULLS]), work)
        if n_nulls >= 0:
            numbers[AGE] += 1.0
            numbers[BOUND] = 0.0
            numbers[N_NULLS] = n_nulls
            return True
        numbers[AGE] = OLD
    return False


@helper
def shift(M, g, h, tau):
    """``M += tau A``, the part on and below the diagonal."""
    half = 0.5 * tau
    for i in range(M.shape[0]):
        along_h = half * g[i]
        along_g = half * h[i]
        for k in range(i + 1):
            M[i, k] += along_h * h[k] + along_g * g[k]


@helper
def move_in_cone(M, g, h, gg, hh, gh, tau, cone, work):
    """Positive semi-definite part of ``M + tau A``, the part on and below the diagonal; returns the drop of its bound.

    ``cone`` begins with a lower bound of M's smallest eigenvalue. A step lowers it by at most ``tau * m_minus / 2``,
    the negative eigenvalue of ``tau A``, so M is looked at only when the bound falls below zero.
    """
    numbers = cone[0]
    drop = 0.5 * tau * (math.sqrt(gg) * math.sqrt(hh) - gh)
    if numbers[AGE] == OLD and numbers[BOUND] >= drop:
        numbers[BOUND] -= drop
        shift(M, g, h, tau)
    elif not _track(M, g, h, gg, hh, tau, drop, cone, work):
        shift(M, g, h, tau)
        _start_again(M, cone)
    return drop


@body
def project_step(M, g, h, gg, hh, gh, curve, C, weight, params, max_hq_iter, cone, work):
    """The passive-aggressive step, then the positive semi-definite part (Algorithm 2, step 4)."""
    tau, w = half_quadratic(linear_z, curve, linear_kink(curve), C, weight, params, max_hq_iter)
    if tau > 0.0:
        move_in_cone(M, g, h, gg, hh, gh, tau, cone, work)
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
def exact_step(M, g, h, gg, hh, gh, curve, C, weight, params, max_hq_iter, cone, work):
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
    cone,
    plausibility,
    weight,
    take,
):
    """Loop shared by both sweeps; ``weight`` is the loss's scalar function, ``take`` the step.

    M is in double precision whatever the rows are: an eigenvalue next to zero needs the digits.
    """
    d = M.shape[0]
    g = np.empty(d)
    h = np.empty(d)
    Mh = np.empty(d)
    work = tracking_workspace(cone)
    full_weight = weight(0.0, params[0], params[1])
    n_updates = 0
    for t in range(ia.shape[0]):
        gg, hh, gh = directions(anchors[ia[t]], positives[ip[t]], negatives[ineg[t]], is_distance, g, h)
        sq_norm = 0.5 * (gg * hh + gh * gh)
        multiply(M, h, Mh)
        z = 0.0
        for k in range(d):
            z += g[k] * Mh[k]
        w = full_weight
        if z < 1.0:
            w = weight(1.0 - z, params[0], params[1])
            if sq_norm > 0.0:
                tau, w = take(M, g, h, gg, hh, gh, (z, sq_norm), C[t], weight, params, max_hq_iter, cone, work)
                if tau > 0.0:
                    n_updates += 1
        plausibility[t] = min(1.0, max(w / full_weight, _SMALLEST))
    mirror(M)
    return n_updates


@kernel
def sweep_project(
    M, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, cone, plausibility
):
    """Rescaled-hinge sweep that projects after each triplet: (Robust-)ODML as printed."""
    return sweep_with(
        M, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, cone, plausibility,
        exponential_weight, project_step,
    )  # fmt: skip


@kernel
def sweep_exact(
    M, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, cone, plausibility
):
    """Rescaled-hinge sweep with the exact step on the cone (``psd="exact"``)."""
    return sweep_with(
        M, anchors, positives, negatives, ia, ip, ineg, is_distance, C, params, max_hq_iter, cone, plausibility,
        exponential_weight, exact_step,
    )  # fmt: skip
