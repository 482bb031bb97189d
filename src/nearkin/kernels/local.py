"""Sequential sweep over triplets for a global matrix M and a local part L_c per class (LPA-ODML).

Both M and ``M + L_c`` are kept on the cone. M moves as in `nearkin.kernels.cone`. The steps of other classes can push
``M + L_c`` out of it in several directions, so a class is looked at when it is used, before and after its step, and
only then. What is kept per class is a lower bound of the smallest eigenvalue of ``M + L_c``: M falls by at most the
drop of each step, whatever the class, so the sum of all drops (the clock) says how much of a bound is left. Where
nothing is left, a Cholesky decomposition tells whether anything is negative, and LAPACK finds those eigenpairs alone.
"""

import numpy as np

from nearkin.kernels.cone import move_in_cone, shift
from nearkin.kernels.direction import directions
from nearkin.kernels.inverse import tracking_workspace
from nearkin.kernels.machine.compile import body, helper, kernel
from nearkin.kernels.machine.lapack import is_positive_definite, negative_eigenpairs
from nearkin.kernels.machine.symmetric import mirror, multiply
from nearkin.kernels.scalar import exponential_weight, half_quadratic, linear_kink, linear_z

__all__ = ["BOUND", "CLOCK", "WAIT", "settle", "sweep", "sweep_with"]

#: Places of what is kept per class: a lower bound of the smallest eigenvalue of ``M + L_c``, the clock at that time,
#: and how many looks are to pass before a bound is sought again.
BOUND, CLOCK, WAIT = range(3)

#: Share of the mean eigenvalue up to which a negative one counts as rounding.
_ROUNDING = 1e-14

#: Drops for which a bound should last to be worth a decomposition of its own, and looks to wait after a vain one.
_AHEAD = 32.0
_PATIENCE = 8.0

_SMALLEST = float(np.finfo(np.float64).tiny)


@helper
def _together(M, L, N, add):
    """``N = M + L + add I``, the part on and below the diagonal; the mean of the diagonal of M + L."""
    trace = 0.0
    for i in range(M.shape[0]):
        for k in range(i + 1):
            N[i, k] = M[i, k] + L[i, k]
        trace += N[i, i]
        N[i, i] += add
    return trace / M.shape[0]


@helper
def settle(M, L, mark, clock, drop, work):
    """Move L so that ``M + L`` is its own positive semi-definite part."""
    if mark[BOUND] - (clock - mark[CLOCK]) >= 0.0:
        return
    N, values, vectors = work
    d = M.shape[0]
    bound = 0.0
    ahead = _AHEAD * drop
    mark[WAIT] -= 1.0
    if mark[WAIT] < 0.0 and ahead > 0.0:
        _together(M, L, N, -ahead)
        if is_positive_definite(N):
            bound = ahead
        else:
            mark[WAIT] = _PATIENCE
    if bound == 0.0:
        mean = _together(M, L, N, 0.0)
        for i in range(d):
            N[i, i] += _ROUNDING * mean
        if not is_positive_definite(N):
            _together(M, L, N, 0.0)
            n = negative_eigenpairs(N, values, vectors)
            for j in range(n):
                for i in range(d):
                    factor = values[j] * vectors[j, i]
                    for k in range(i + 1):
                        L[i, k] -= factor * vectors[j, k]
    mark[BOUND] = bound
    mark[CLOCK] = clock


@body
def sweep_with(
    M,
    local,
    marks,
    clock,
    share,
    classes,
    anchors,
    positives,
    negatives,
    ia,
    ip,
    ineg,
    C,
    params,
    max_hq_iter,
    cone,
    plausibility,
    weight,
):
    """Both parts move along A, the local one by ``share = 1 / mu`` of the global one's step; ``classes`` choose it."""
    d = M.shape[0]
    g = np.empty(d)
    h = np.empty(d)
    Mh = np.empty(d)
    Lh = np.empty(d)
    tracking = tracking_workspace(cone)
    work = (np.empty((d, d)), np.empty(d), np.empty((d, d)))
    full_weight = weight(0.0, params[0], params[1])
    n_updates = 0
    drop = 0.0
    for t in range(ia.shape[0]):
        gg, hh, gh = directions(anchors[ia[t]], positives[ip[t]], negatives[ineg[t]], True, g, h)
        L, mark = local[classes[t]], marks[classes[t]]
        if share > 0.0:
            settle(M, L, mark, clock[0], drop, work)
        multiply(M, h, Mh)
        multiply(L, h, Lh)
        z = 0.0
        for k in range(d):
            z += g[k] * (Mh[k] + Lh[k])
        w = full_weight
        if z < 1.0:
            w = weight(1.0 - z, params[0], params[1])
            curve = (z, (1.0 + share) * 0.5 * (gg * hh + gh * gh))
            if curve[1] > 0.0:
                tau, w = half_quadratic(linear_z, curve, linear_kink(curve), C[t], weight, params, max_hq_iter)
                if tau > 0.0:
                    drop = move_in_cone(M, g, h, gg, hh, gh, tau, cone, tracking)
                    clock[0] += drop
                    if share > 0.0:
                        shift(L, g, h, share * tau)
                        mark[BOUND] -= share * drop
                        settle(M, L, mark, clock[0], drop, work)
                    n_updates += 1
        plausibility[t] = min(1.0, max(w / full_weight, _SMALLEST))
    mirror(M)
    for c in range(local.shape[0]):
        mirror(local[c])
    return n_updates


@kernel
def sweep(
    M, local, marks, clock, share, classes, anchors, positives, negatives, ia, ip, ineg, C, params, max_hq_iter, cone,
    plausibility,
):  # fmt: skip
    """Rescaled-hinge sweep: (Robust-)LPA-ODML."""
    return sweep_with(
        M, local, marks, clock, share, classes, anchors, positives, negatives, ia, ip, ineg, C, params, max_hq_iter,
        cone, plausibility, exponential_weight,
    )  # fmt: skip
