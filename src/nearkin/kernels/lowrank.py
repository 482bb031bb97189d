"""A factor L, stored as components of shape (r, d): Algorithms 3 and 4, Robust-LOSL and Robust-LODML.

Both measures share one step in L, because only the symmetric part of ``g h'`` acts on ``L L'``. `exact` takes the
exact proximal step, `published` that of OPML, `subgradient` the paper's sub-gradient steps. All inner loops run on the
inner products of g and h and of ``p = L'g`` and ``q = L'h``.
"""

from nearkin.kernels.formulas import (
    exact_solve,
    gram,
    is_step,
    plausibility_of,
    published_solve,
    subgradient_solve,
    vector_directions,
    weight,
)
from nearkin.kernels.machine.compile import Sweep, body
from nearkin.kernels.machine.pack import advance, pack_factor, prefetch_row, unpack_factor


def _sweep(components, triplets, rule, is_distance, descent, plausibility):
    """Project, solve and step for every triplet; ``descent`` is the size and number of sub-gradient steps.

    A step stays pending until the next triplet is projected, so that both take one pass over L.
    """
    factor = pack_factor(components)
    old, new = 0, 2 * factor.n  # positions of g and h: of the pending step, and of the triplet
    full_weight = weight(0.0, rule.params[0], rule.params[1])
    n_updates = 0
    pending = False
    for t in range(len(plausibility)):
        gg, hh, gh = vector_directions(triplets, t, is_distance, factor.vectors, new)
        if t + 1 < len(plausibility):  # the next rows come from memory during the pass over L
            prefetch_row(triplets.anchors, triplets.anchor[t + 1])
            prefetch_row(triplets.positives, triplets.positive[t + 1])
            prefetch_row(triplets.negatives, triplets.negative[t + 1])
        advance(factor, pending, old, new)
        pending = False
        pp, qq, pq = gram(factor.p, factor.q)
        w = full_weight
        if pq < 1.0:
            if gg > 0.0 and hh > 0.0 and rule.C[t] > 0.0:
                a1, a2, b1, b2, w = solve((gg, hh, gh), (pp, qq, pq), rule.C[t], rule, weight, descent)
                if is_step(a1, a2, b1, b2):
                    prepare_step(factor, a1, a2, b1, b2)
                    old, new = new, old
                    n_updates += 1
                    pending = True
            else:
                w = weight(1.0 - pq, rule.params[0], rule.params[1])
        plausibility[t] = plausibility_of(w, full_weight)
    if pending:
        advance(factor, pending, old, new)
    unpack_factor(factor, components)
    return n_updates


@body
def prepare_step(factor, a1, a2, b1, b2):
    """Make ``g (a1 p + a2 q)' + h (b1 p + b2 q)'`` the pending step of a factor."""
    p, q, along_g, along_h = factor.p, factor.q, factor.along_g, factor.along_h
    for j in range(p.shape[0]):
        along_g[j] = a1 * p[j] + a2 * q[j]
        along_h[j] = b1 * p[j] + b2 * q[j]


solve = exact_solve
exact = Sweep(_sweep, "r d, *, n", solve=exact_solve)
published = Sweep(_sweep, "r d, *, n", solve=published_solve)
subgradient = Sweep(_sweep, "r d, *, n", solve=subgradient_solve)
