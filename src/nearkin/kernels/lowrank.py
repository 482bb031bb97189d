"""A factor L, stored as components of shape (r, d): Algorithms 3 and 4, Robust-LOSL and Robust-LODML.

Both measures share one step in L, because only the symmetric part of ``g h'`` acts on ``L L'``. `exact` takes the
exact proximal step, `published` that of OPML, `subgradient` the paper's sub-gradient steps. All inner loops run on the
inner products of g and h and of ``p = L'g`` and ``q = L'h``.
"""

from nearkin.kernels.formulas import (
    exact_solve,
    gram,
    is_step,
    least_used,
    plausibility_of,
    prepare_start,
    prepare_step,
    published_solve,
    subgradient_solve,
    vector_directions,
    weight,
)
from nearkin.kernels.machine.compile import Sweep
from nearkin.kernels.machine.pack import advance, pack_factor, prefetch_row, unpack_factor


def _sweep(components, triplets, rule, is_distance, descent, plausibility):
    """Project, solve and step for every triplet; ``descent`` is the size and number of sub-gradient steps.

    A step stays pending until the next triplet is projected, so that both take one pass over L.
    """
    factor = pack_factor(components)
    # Positions of g and h: of the pending step, and of the triplet. With a literal, `advance` would be compiled twice.
    old, new = factor.n - factor.n, 2 * factor.n
    full_weight = weight(0.0, rule.params[0], rule.params[1])
    n_updates = 0
    pending = old > 0
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
                of_gh = gg, hh, gh
                a1, a2, b1, b2, w, tau = solve(of_gh, (pp, qq, pq), rule.C[t], rule, weight, descent, factor)
                if tau > 0.0:
                    unpack_factor(factor, components)
                    pending = prepare_start(factor, least_used(components), of_gh, tau)
                elif is_step(a1, a2, b1, b2):
                    pending = prepare_step(factor, a1, a2, b1, b2)
                if pending:
                    old, new = new, old
                    n_updates += 1
            else:
                w = weight(1.0 - pq, rule.params[0], rule.params[1])
        plausibility[t] = plausibility_of(w, full_weight)
    if pending:
        advance(factor, pending, old, new)
    unpack_factor(factor, components)
    return n_updates


solve = exact_solve
exact = Sweep(_sweep, "r d, *, n", solve=exact_solve)
published = Sweep(_sweep, "r d, *, n", solve=published_solve)
subgradient = Sweep(_sweep, "r d, *, n", solve=subgradient_solve)
