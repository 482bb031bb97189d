"""Algorithms 3 and 4 on few triplets, one after the other in NumPy: to compile the sweep would take far longer.

The loop is that of `nearkin.kernels.lowrank`, and the formulas are those that it compiles.
"""

from typing import NamedTuple

import numpy as np

from nearkin import steps
from nearkin.arrays import Array
from nearkin.kernels import TRIPLETS, check_shapes

_SOLVE = {"exact": steps.exact_solve, "published": steps.published_solve, "subgradient": steps.subgradient_solve}


class _Factor(NamedTuple):
    """What a step reads of L, its products with both directions, and what it writes: the step along both."""

    p: Array
    q: Array
    along_g: Array
    along_h: Array


@np.errstate(all="ignore")
def learn_factor(components, triplets, rule, measure, weight, solver, descent, plausibility):
    """Project, solve and step for every triplet; return the number of steps."""
    check_shapes(f"r d, {TRIPLETS}, n, n", components, triplets, rule.C, plausibility)
    members = (one[at] for one, at in zip(triplets[:3], triplets[3:], strict=True))
    both = np.stack(measure.directions(*members), axis=2)
    grams, solve, n_updates = _grams(both), _SOLVE[solver], 0
    full_weight = w = weight(0.0, *rule.params)
    along = np.zeros((len(components), 2))
    for t, (gg, hh, gh) in enumerate(grams):  # numbers of NumPy, which divide by zero as compiled code does
        projected = components @ both[t]
        pp, qq, pq = _grams(projected[None])[0]
        w = full_weight
        if pq < 1.0:
            if gg > 0.0 and hh > 0.0 and rule.C[t] > 0.0:
                of_gh, factor = (gg, hh, gh), _Factor(*projected.T, *along.T)
                a1, a2, b1, b2, w, tau = solve(of_gh, (pp, qq, pq), rule.C[t], rule, weight, descent, factor)
                moves = False
                if tau > 0.0:
                    moves = steps.prepare_start(factor, steps.least_used(components), of_gh, tau)
                elif steps.is_step(a1, a2, b1, b2):
                    moves = steps.prepare_step(factor, a1, a2, b1, b2)
                if moves:
                    components += along.astype(components.dtype) @ both[t].T
                    n_updates += 1
            else:
                w = weight(1.0 - pq, *rule.params)
        plausibility[t] = steps.plausibility_of(w, full_weight)
    return n_updates


def _grams(pairs):
    """``p.p, q.q, p.q`` of pairs of vectors in double precision."""
    pairs = pairs.astype(np.float64, copy=False)
    table = pairs.transpose(0, 2, 1) @ pairs
    return np.stack([table[:, 0, 0], table[:, 1, 1], table[:, 0, 1]], axis=1)
