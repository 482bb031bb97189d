"""A factor L, stored as components of shape (r, d): Algorithms 3 and 4, Robust-LOSL and Robust-LODML.

Both measures share one step in L, because only the symmetric part of ``g h'`` acts on ``L L'``. `exact` takes the
exact proximal step, `published` that of OPML, `subgradient` the paper's sub-gradient steps. All inner loops run on the
inner products of g and h and of ``p = L'g`` and ``q = L'h``.
"""

from nearkin.kernels.formulas import (
    factored_bound,
    factored_curve,
    factored_kink,
    factored_update,
    factored_z,
    gram,
    half_quadratic,
    is_step,
    plausibility_of,
    subgradient_update,
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


@body
def exact_solve(of_gh, of_pq, C, rule, weight, descent):
    """Global minimiser of the proximal problem (26) with the half-quadratic weight: four coefficients and a weight."""
    gg, hh, gh = of_gh
    pp, qq, pq = of_pq
    curve = factored_curve(gg, hh, gh, pp, qq, pq)
    # No weight exceeds that of a hinge of zero, and the margin rises with the step up to the bound: where the longest
    # step falls short of both, the kink is not needed, and finding it takes longer than all the rest.
    longest = C * weight(0.0, rule.params[0], rule.params[1])
    short = longest * curve[2] < 0.5 and factored_z(longest, curve) < 1.0
    kink = longest if short else factored_kink(curve)
    tau, w = half_quadratic(factored_z, curve, kink, C, weight, rule.params, rule.max_hq_iter)
    a1, a2, b1, b2 = factored_update(tau, curve, gg, hh, gh)
    return a1, a2, b1, b2, w


@body
def published_solve(of_gh, of_pq, C, rule, weight, descent):
    """The step of OPML as printed, which does not stop where the loss is removed, only below the bound."""
    gg, hh, gh = of_gh
    pp, qq, pq = of_pq
    curve = factored_curve(gg, hh, gh, pp, qq, pq)
    tau, w = half_quadratic(factored_z, curve, factored_bound(curve), C, weight, rule.params, rule.max_hq_iter)
    a1, a2, b1, b2 = factored_update(tau, curve, gg, hh, gh)
    return a1, a2, b1, b2, w


@body
def subgradient_solve(of_gh, of_pq, C, rule, weight, descent):
    """Sub-gradient steps (32), (33); each half-quadratic iteration starts again at L_t, so ``eta = 0`` is the hinge."""
    gg, hh, gh = of_gh
    pp, qq, pq = of_pq
    step_size, n_steps = descent
    a1 = a2 = b1 = b2 = 0.0
    z = pq
    w = 1.0
    for _ in range(rule.max_hq_iter):
        w = weight(max(0.0, 1.0 - z), rule.params[0], rule.params[1])
        a1, a2, b1, b2, z = subgradient_update(C * w, step_size, n_steps, gg, hh, gh, pp, qq, pq)
    return a1, a2, b1, b2, w


solve = exact_solve
exact = Sweep(_sweep, "r d, *, n", solve=exact_solve)
published = Sweep(_sweep, "r d, *, n", solve=published_solve)
subgradient = Sweep(_sweep, "r d, *, n", solve=subgradient_solve)
