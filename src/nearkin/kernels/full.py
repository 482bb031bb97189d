"""A full matrix M without a cone, triplet by triplet: Algorithm 1, Robust-OASIS, and Robust-ODML with free steps.

Every sweep of this package takes the parameter (changed in place), the triplets and the rule of their steps
(`nearkin.kernels.arguments`). It fills ``plausibility`` and returns the number of updates. ``weight`` is the loss's
scalar function (`nearkin.kernels.machine.compile.Sweep`).
"""

import numpy as np

from nearkin.kernels.direction import directions, members
from nearkin.kernels.formulas import exponential_weight as weight
from nearkin.kernels.formulas import linear_step, plausibility_of, squared_norm
from nearkin.kernels.machine.compile import Sweep, helper

__all__ = ["bilinear", "move", "sweep"]


def _sweep(M, triplets, rule, is_distance, plausibility):
    """Passive-aggressive steps (Eqs. 22 and 25)."""
    d = M.shape[0]
    g = np.empty(d, M.dtype)
    h = np.empty(d, M.dtype)
    full_weight = weight(0.0, rule.params[0], rule.params[1])
    n_updates = 0
    for t in range(len(plausibility)):
        x, positive, negative = members(triplets, t)
        gg, hh, gh = directions(x, positive, negative, is_distance, g, h)
        z = bilinear(M, g, h)
        tau, w = linear_step(z, squared_norm(gg, hh, gh, is_distance), rule.C[t], rule, weight, full_weight)
        if tau > 0.0:
            move(M, g, h, tau, is_distance)
            n_updates += 1
        plausibility[t] = plausibility_of(w, full_weight)
    return n_updates


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


sweep = Sweep(_sweep)
