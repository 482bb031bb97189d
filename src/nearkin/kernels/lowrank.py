"""A factor L, stored as components of shape (r, d): Algorithms 3 and 4, Robust-LOSL and Robust-LODML.

Both measures share one step in L, because only the symmetric part of ``g h'`` acts on ``L L'``. `exact` takes the
exact proximal step, `published` that of OPML, `subgradient` the paper's sub-gradient steps. All inner loops run on the
inner products of g and h and of ``p = L'g`` and ``q = L'h``.
"""

import math

from nearkin.kernels.formulas import (
    factored_bound,
    factored_curve,
    factored_kink,
    factored_near,
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
from nearkin.kernels.machine.compile import Sweep, body, helper
from nearkin.kernels.machine.pack import advance, pack_factor, prefetch_row, unpack_factor

#: A margin of which the first direction has a smaller share needs digits that `factored_curve` does not have.
_FEW = 1e-5

#: Share of the other eigenvalue below which the first one, ``m_plus``, may be rounding alone.
_NO_DIRECTION = 1e-12


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


@body
def prepare_step(factor, a1, a2, b1, b2):
    """Make ``g (a1 p + a2 q)' + h (b1 p + b2 q)'`` the pending step of a factor; returns whether it is one."""
    p, q, along_g, along_h = factor.p, factor.q, factor.along_g, factor.along_h
    size = 0.0
    for j in range(p.shape[0]):
        along_g[j] = a1 * p[j] + a2 * q[j]
        along_h[j] = b1 * p[j] + b2 * q[j]
        size += abs(along_g[j]) + abs(along_h[j])
    return size > 0.0


@helper
def least_used(components):
    """Component with the smallest norm, the last of equals."""
    best = 0
    least = math.inf
    for j in range(components.shape[0]):
        square = 0.0
        for k in range(components.shape[1]):
            square += components[j, k] * components[j, k]
        if square <= least:
            best, least = j, square
    return best


@helper
def squares_along(p, q, of_gh):
    """Squared lengths of L along the unit vectors ``(g / |g| +- h / |h|) / scale`` of both directions."""
    of_g, of_h = math.sqrt(of_gh[0]), math.sqrt(of_gh[1])
    plus = 0.0
    minus = 0.0
    for j in range(p.shape[0]):
        plus += (p[j] / of_g + q[j] / of_h) ** 2
        minus += (p[j] / of_g - q[j] / of_h) ** 2
    cosine = of_gh[2] / (of_g * of_h)
    return plus / (2.0 + 2.0 * cosine), minus / (2.0 - 2.0 * cosine) if cosine < 1.0 else 0.0


@helper
def prepare_start(factor, component, of_gh, tau):
    """Make the pending step one next to the bound, and return whether it is one.

    There L may have to begin a part along the first direction. If it has less of one than `factored_near` assumes,
    ``component`` takes the rest before the step. Written along both directions, the step keeps its digits however much
    the first part grows.
    """
    of_g, of_h = math.sqrt(of_gh[0]), math.sqrt(of_gh[1])
    p, q, along_g, along_h = factor.p, factor.q, factor.along_g, factor.along_h
    m_plus, m_minus = of_g * of_h + of_gh[2], of_g * of_h - of_gh[2]
    square, other = squares_along(p, q, of_gh)
    a_plus, a_minus, _, _ = factored_near(square, other, m_plus, m_minus)
    plus_scale = 2.0 * m_plus / (of_g * of_h)
    minus_scale = 2.0 * m_minus / (of_g * of_h)
    keep = 1.0 / (1.0 + tau * m_minus)
    shrink = tau * m_minus * keep
    grow = 1.0 / (1.0 - tau * m_plus)
    to_kink = math.sqrt((1.0 + a_minus * keep * keep) / a_plus)
    hair = 0.0
    if grow > (1.0 - 1e-8) * to_kink:  # the kink; the difference in grow has lost digits
        grow = to_kink
        own = p[component] / of_g + q[component] / of_h
        lacking = max(0.0, 2.0 * a_plus / m_plus - square) * plus_scale
        hair = math.copysign(math.sqrt(own * own + lacking), own) - own
    size = 0.0
    for j in range(p.shape[0]):
        part = p[j] / of_g + q[j] / of_h
        plus = (grow * (part + (hair if j == component else 0.0)) - part) / plus_scale
        minus = shrink * (p[j] / of_g - q[j] / of_h) / minus_scale if m_minus > 0.0 else 0.0
        along_g[j] = (plus - minus) / of_g
        along_h[j] = (plus + minus) / of_h
        size += abs(along_g[j]) + abs(along_h[j])
    return size > 0.0


@body
def exact_solve(of_gh, of_pq, C, rule, weight, descent, factor):
    """Global minimiser of the proximal problem (26) with the half-quadratic weight.

    Four coefficients and the weight, and the size of a step next to the bound, which `prepare_start` takes; else 0.
    """
    gg, hh, gh = of_gh
    pp, qq, pq = of_pq
    curve = factored_curve(gg, hh, gh, pp, qq, pq)
    # No weight exceeds that of a hinge of zero, and the margin rises with the step up to the bound: where the longest
    # step falls short of both, the kink is not needed, and finding it takes longer than all the rest.
    longest = C * weight(0.0, rule.params[0], rule.params[1])
    short = longest * curve[2] < 0.5 and factored_z(longest, curve) < 1.0
    is_near = not short and curve[0] < _FEW * (1.0 + curve[1]) and curve[2] > _NO_DIRECTION * curve[3]
    if is_near:
        square, other = squares_along(factor.p, factor.q, of_gh)
        curve = factored_near(square, other, curve[2], curve[3])
    kink = longest if short else factored_kink(curve)
    tau, w = half_quadratic(factored_z, curve, kink, C, weight, rule.params, rule.max_hq_iter)
    a1, a2, b1, b2 = factored_update(tau, curve, gg, hh, gh)
    return a1, a2, b1, b2, w, tau if is_near and tau * curve[2] > 0.5 else 0.0


@body
def published_solve(of_gh, of_pq, C, rule, weight, descent, factor):
    """The step of OPML as printed, which does not stop where the loss is removed, only below the bound."""
    gg, hh, gh = of_gh
    pp, qq, pq = of_pq
    curve = factored_curve(gg, hh, gh, pp, qq, pq)
    tau, w = half_quadratic(factored_z, curve, factored_bound(curve), C, weight, rule.params, rule.max_hq_iter)
    a1, a2, b1, b2 = factored_update(tau, curve, gg, hh, gh)
    return a1, a2, b1, b2, w, 0.0


@body
def subgradient_solve(of_gh, of_pq, C, rule, weight, descent, factor):
    """Sub-gradient steps (32), (33); each half-quadratic iteration starts again at L_t, so ``eta = 0`` is the hinge."""
    gg, hh, gh = of_gh
    pp, qq, pq = of_pq
    step_size, n_steps = descent
    a1 = a2 = b1 = b2 = 0.0
    z = pq
    first = weight(1.0 - pq, rule.params[0], rule.params[1])
    for _ in range(rule.max_hq_iter):
        w = weight(max(0.0, 1.0 - z), rule.params[0], rule.params[1])
        a1, a2, b1, b2, z = subgradient_update(C * w, step_size, n_steps, gg, hh, gh, pp, qq, pq)
    return a1, a2, b1, b2, first, 0.0


solve = exact_solve
exact = Sweep(_sweep, "r d, *, n", solve=exact_solve)
published = Sweep(_sweep, "r d, *, n", solve=published_solve)
subgradient = Sweep(_sweep, "r d, *, n", solve=subgradient_solve)
