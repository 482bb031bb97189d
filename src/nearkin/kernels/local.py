"""A global matrix M and a local part L_c per class: LPA-ODML.

Both M and ``M + L_c`` stay on the cone. M moves as in `nearkin.kernels.cone`. Steps of other classes can push
``M + L_c`` out of the cone in several directions, so a class is checked only when it is used, before and after its
step. Each class keeps a lower bound of the smallest eigenvalue of ``M + L_c``: M falls by at most the drop of each
step, whatever the class, so the sum of all drops (the clock) tells how much of a bound is left. When none is left, a
Cholesky decomposition tells whether an eigenvalue is negative, and LAPACK finds those eigenpairs alone.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from nearkin.kernels.cone import move_in_cone
from nearkin.kernels.formulas import direction_at, linear_step, plausibility_of, shift, weight
from nearkin.kernels.inverse import bound_of, tracking_workspace
from nearkin.kernels.machine.compile import Sweep, helper
from nearkin.kernels.machine.linalg import is_positive_definite, mirror, multiply, negative_eigenpairs

#: Positions in a row of ``LocalParts.marks``: a lower bound of the smallest eigenvalue of ``M + L_c``, the clock at
#: that time, and the number of checks before a bound is sought again.
_BOUND, _CLOCK, _WAIT = range(3)

#: Share of the mean eigenvalue up to which a negative one counts as rounding.
_ROUNDING = 1e-14

#: Drops for which a bound should last to be worth a decomposition of its own, and checks to wait after a failed one.
_AHEAD = 32.0
_PATIENCE = 8.0


class LocalParts(NamedTuple):
    """The local matrices L_c with their marks, the clock, and ``share = 1 / mu``, their part of a step."""

    L: np.ndarray
    marks: np.ndarray
    clock: np.ndarray
    share: float


def new_marks(n, tracked, clock):
    """Marks of n new classes: until a local part moves, M's bound is its bound."""
    return np.tile([bound_of(tracked), clock[0], 0.0], (n, 1))


def restart_clock(local):
    """Set the clock to zero; only differences matter, and small ones keep their digits."""
    local.marks[:, _CLOCK] -= local.clock
    local.clock[:] = 0.0


@partial(Sweep, shapes="d d, c d d, c 3, 1, n<c, *, 5, 2 z d, d d, n")
def sweep(M, local, classes, triplets, rule, tracked, plausibility):
    """Both parts move along A, the local one by ``share`` of the global one's step; ``classes`` chooses it."""
    d = M.shape[0]
    g, h, Mh, Lh = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    tracking = tracking_workspace(tracked)
    work = (np.empty((d, d)), np.empty(d), np.empty((d, d)))
    clock, share = local.clock, local.share
    full_weight = weight(0.0, rule.params[0], rule.params[1])
    n_updates = 0
    drop = 0.0
    for t in range(len(plausibility)):
        A = direction_at(triplets, t, g, h)
        L, mark = local.L[classes[t]], local.marks[classes[t]]
        if share > 0.0:
            settle(M, L, mark, clock[0], drop, work)
        multiply(M, h, Mh)
        multiply(L, h, Lh)
        z = 0.0
        for k in range(d):
            z += g[k] * (Mh[k] + Lh[k])
        tau, w = linear_step(z, (1.0 + share) * A.sq_norm, rule.C[t], rule, weight, full_weight)
        if tau > 0.0:
            drop = move_in_cone(M, A, tau, tracked, tracking)
            clock[0] += drop
            if share > 0.0:
                shift(L, A, share * tau)
                mark[_BOUND] -= share * drop
                settle(M, L, mark, clock[0], drop, work)
            n_updates += 1
        plausibility[t] = plausibility_of(w, full_weight)
    mirror(M)
    for c in range(local.L.shape[0]):
        mirror(local.L[c])
    return n_updates


@helper
def settle(M, L, mark, clock, drop, work):
    """Move L so that ``M + L`` is its own positive semi-definite part."""
    if mark[_BOUND] - (clock - mark[_CLOCK]) >= 0.0:
        return
    N, values, vectors = work
    d = M.shape[0]
    bound = 0.0
    ahead = _AHEAD * drop
    mark[_WAIT] -= 1.0
    if mark[_WAIT] < 0.0 and ahead > 0.0:
        _add(M, L, N, -ahead)
        if is_positive_definite(N):
            bound = ahead
        else:
            mark[_WAIT] = _PATIENCE
    if bound == 0.0:
        mean = _add(M, L, N, 0.0)
        for i in range(d):
            N[i, i] += _ROUNDING * mean
        if not is_positive_definite(N):
            _add(M, L, N, 0.0)
            n = negative_eigenpairs(N, values, vectors)
            for j in range(n):
                for i in range(d):
                    factor = values[j] * vectors[j, i]
                    for k in range(i + 1):
                        L[i, k] -= factor * vectors[j, k]
    mark[_BOUND] = bound
    mark[_CLOCK] = clock


@helper
def _add(M, L, N, ridge):
    """``N = M + L + ridge I`` on and below the diagonal; returns the mean of the diagonal of M + L."""
    trace = 0.0
    for i in range(M.shape[0]):
        for k in range(i + 1):
            N[i, k] = M[i, k] + L[i, k]
        trace += N[i, i]
        N[i, i] += ridge
    return trace / M.shape[0]
