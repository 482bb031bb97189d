"""A full matrix M that stays positive semi-definite: Algorithm 2, Robust-ODML.

`project` clips the negative eigenvalue that a step can leave, as printed; `exact` solves the step on the cone itself.
"""

import math

import numpy as np

from nearkin.kernels.formulas import direction_at, linear_kink, linear_step, plausibility_of, shift, weight
from nearkin.kernels.full import bilinear, move
from nearkin.kernels.inverse import cover_null_space, spend_bound, track, tracking_workspace
from nearkin.kernels.machine.compile import Sweep, body, helper
from nearkin.kernels.machine.linalg import mirror, multiply_between

#: Most passive-aggressive steps that an exact step without a cap is long: on the cone a margin can stay out of reach.
_LONGEST = 1e6


def _sweep(M, triplets, rule, tracked, plausibility):
    """Margin, half-quadratic step and projection of every triplet; `take_step` does the last two.

    M is in double precision whatever the rows are: an eigenvalue next to zero needs the digits.
    """
    d = M.shape[0]
    g, h, Mh = np.empty(d), np.empty(d), np.empty(d)
    work = tracking_workspace(tracked)
    full_weight = weight(0.0, rule.params[0], rule.params[1])
    n_updates = 0
    for t in range(len(plausibility)):
        A = direction_at(triplets, t, g, h)
        z = multiply_between(M, g, h, Mh)
        tau, w = take_step(M, A, z, rule.C[t], rule, weight, full_weight, tracked, work)
        if tau > 0.0:
            n_updates += 1
        plausibility[t] = plausibility_of(w, full_weight)
    mirror(M)
    return n_updates


@body
def take_step(M, A, z, C, rule, weight, full_weight, tracked, work):
    """The passive-aggressive step (Algorithm 2, step 3), then the positive semi-definite part (step 4)."""
    tau, w = linear_step(z, A.sq_norm, C, rule, weight, full_weight)
    if tau > 0.0:
        move_in_cone(M, A, tau, tracked, work)
    return tau, w


@helper
def move_in_cone(M, A, tau, tracked, work):
    """Positive semi-definite part of ``M + tau A``, on and below the diagonal; returns the drop of its eigenvalues.

    A step lowers the smallest eigenvalue by at most ``tau * m_minus / 2``, the negative eigenvalue of ``tau A``. While
    a lower bound of it stays above zero, nothing else is done. Then the inverse of M is tracked. Where that fails, an
    eigen-decomposition projects.
    """
    drop = 0.5 * tau * (math.sqrt(A.gg) * math.sqrt(A.hh) - A.gh)
    if spend_bound(tracked, drop):
        shift(M, A, tau)
    elif M.shape[0] == 1 or not track(M, A, tau, drop, tracked, work):  # one number needs no inverse
        shift(M, A, tau)
        mirror(M)
        values, vectors = _clip_negative(M)
        cover_null_space(tracked, values, vectors)
    return drop


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


project = Sweep(_sweep, "d d, *, 5, 2 z d, d d, n")


# ---------------------------------------------------------------- the step's problem on the cone


@body
def exact_step(M, A, z, C, rule, weight, full_weight, tracked, work):
    """Minimiser of the step's problem on the cone (Eq. 24), by bisection on the projected margin."""
    if not z < 1.0:
        return 0.0, full_weight
    if not A.sq_norm > 0.0:
        return 0.0, weight(1.0 - z, rule.params[0], rule.params[1])
    kink = _exact_kink(M, A.g, A.h, C * weight(0.0, rule.params[0], rule.params[1]), linear_kink((z, A.sq_norm)))
    first = weight(1.0 - z, rule.params[0], rule.params[1])
    tau = 0.0
    for _ in range(rule.max_hq_iter):
        w = weight(max(0.0, 1.0 - z), rule.params[0], rule.params[1])
        tau = kink if math.inf == C else min(rule.carried * tau + C * w, kink)
        z = bilinear(_project(M, A.g, A.h, tau), A.g, A.h)
    if tau > 0.0:
        _copy(_project(M, A.g, A.h, tau), M)
    return tau, first


@helper
def _exact_kink(M, g, h, cap, pa_kink):
    """Smallest step whose margin *after projection* is 1, or ``cap`` if that lies beyond it.

    The projected margin rises with the step and is never above the one without projection, so the search starts at
    the passive-aggressive step.
    """
    if cap <= pa_kink:
        return cap
    if math.inf == cap:
        cap = _LONGEST * pa_kink
    low = pa_kink
    if bilinear(_project(M, g, h, low), g, h) >= 1.0:
        return low
    high = min(2.0 * low, cap)
    while bilinear(_project(M, g, h, high), g, h) < 1.0:
        if high == cap:
            return cap
        low = high
        high = min(2.0 * high, cap)
    for _ in range(200):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        if bilinear(_project(M, g, h, middle), g, h) < 1.0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


@helper
def _project(M, g, h, tau):
    """Positive semi-definite part of ``M + tau A`` as a new matrix."""
    N = np.empty_like(M)
    _copy(M, N)
    move(N, g, h, tau, True)
    _clip_negative(N)
    return N


@helper
def _copy(source, target):
    """``target[:] = source`` by loops, which compile in a fraction of the time."""
    for i in range(source.shape[0]):
        for k in range(source.shape[1]):
            target[i, k] = source[i, k]


exact = Sweep(_sweep, "d d, *, 5, 2 z d, y y, n", take_step=exact_step)
