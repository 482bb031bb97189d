r"""One triplet, one step: the scalar mathematics that every learner shares.

Functions here take and return plain numbers, so they read like the formulas and compile as they stand
(`nearkin.kernels` does that). Notation: ``z(tau)`` is the margin after a step of size ``tau``; the *kink* is the
step at which it reaches 1.

Half-quadratic loop, all families (Eqs. 16-19 anchored at the parameters before the triplet)::

    tau <- min(C * weight(hinge at tau), kink),   starting at tau = 0

Its first weight, that before the step, says how plausible the triplet is: a long step pleases any triplet.

Frobenius proximity in M (Eqs. 22 and 25): ``z(tau) = z + tau * ||A||^2``.

Frobenius proximity in L (Eqs. 26-33, solved exactly): ``L(tau) = (I - 2 tau sym(g h'))^-1 L``. With
``p = L'g``, ``q = L'h``, ``k^2 = |h|^2 / |g|^2`` the two eigenvalues of ``2 sym(g h')`` are ``m_plus`` and
``-m_minus`` and

    ``z(tau) = a_plus / (1 - tau m_plus)^2 - a_minus / (1 + tau m_minus)^2``,
    ``m_plus = |g||h| + g.h``, ``m_minus = |g||h| - g.h``, ``a_plus, a_minus = (k p.p + q.q / k +- 2 p.q) / 4``,

which rises with ``tau`` up to the bound ``1 / m_plus``. It may stay below 1 there, if L is orthogonal to the first
direction (``a_plus = 0``): the minimiser at the bound then begins a part of L along it (`factored_near`).

LogDet proximity in M (SLMOML): ``M(tau)^-1 = M^-1 - tau sym(g h')``. With ``M = L L'`` and ``p``, ``q`` as above, the
two eigenvalues of ``sym(p q')`` are ``plus`` and ``-minus`` and

    ``z(tau) = plus / (1 - tau plus) - minus / (1 + tau minus)``,   ``plus, minus = (|p||q| +- p.q) / 2``,

which rises to infinity before ``1 / plus``, so M stays positive definite for any ``C``.

LogDet proximity of a pair (ITML): ``M(tau)^-1 = M^-1 + sigma tau e e'``, so the squared distance ``p = e'Me`` becomes
``1 / (1 / p + sigma tau)``; ``sigma`` is 1 for a similar pair and -1 for a dissimilar one, ``bound`` what it must keep,
and its hinge ``max(0, sigma (p - bound))``.
"""

import math
import sys

__all__ = [
    "clip_and_normalise", "exact_solve", "factored_bound", "factored_curve", "factored_kink", "factored_near",
    "factored_update", "factored_z", "half_quadratic", "half_quadratic_by", "hedge", "is_step", "least_used",
    "linear_kink", "linear_z", "logdet_curve", "logdet_kink", "logdet_update", "logdet_z", "onto_simplex", "pa", "pa1",
    "pa2", "pair_roots", "pair_step", "pair_z", "plausibility_of", "prepare_start", "prepare_step", "published_solve",
    "squared_norm", "squares_along", "subgradient_solve", "subgradient_update",
]  # fmt: skip

#: A margin of which the first direction has a smaller share needs digits that `factored_curve` does not have.
_FEW = 1e-5

#: Share of the other eigenvalue below which the first one, ``m_plus``, may be rounding alone.
_NO_DIRECTION = 1e-12

#: Coefficients of a step beyond the range of numbers: L overflows.
_EXPLODED = 1e300

#: Smallest normal number.
_SMALLEST = sys.float_info.min

#: A step stays this share below the bound where ``L`` would become infinite (the hard case of a quadratic
#: constraint).
_BELOW_BOUND = 1.0 - 1e-6


def squared_norm(gg, hh, gh, is_distance):
    """``||A||_F^2`` from the inner products of g and h: of ``(g h' + h g') / 2`` for distances, else of ``g h'``."""
    return 0.5 * (gg * hh + gh * gh) if is_distance else gg * hh


def plausibility_of(weight, full_weight):
    """Weight as a share of the weight of a triplet without loss, in (0, 1]."""
    return min(1.0, max(weight / full_weight, _SMALLEST))


def is_step(a1, a2, b1, b2):
    """Whether four coefficients of a step in L are finite and move it."""
    return math.isfinite(a1 + a2 + b1 + b2) and (a1 != 0.0 or a2 != 0.0 or b1 != 0.0 or b2 != 0.0)


def half_quadratic(z_after, curve, kink, C, weight, params, max_hq_iter, carried=0.0):
    """Step size of one active triplet and its weight before the step (Eqs. 17-19, Algorithm 1 step 3.3).

    ``z_after(tau, curve)`` is the margin after the step, ``weight(hinge, *params)`` the loss's half-quadratic weight.
    Each iteration begins at a share ``carried`` of the step so far: 0 anchors it at the parameters before the triplet,
    1 adds up the steps of all iterations.
    """
    tau = 0.0
    first = 1.0
    for i in range(max_hq_iter):
        w = weight(max(0.0, 1.0 - z_after(tau, curve)), params[0], params[1])
        tau = kink if math.inf == C else min(carried * tau + C * w, kink)  # zero times infinity is not a number
        if i == 0:
            first = w
    return tau, first


def half_quadratic_by(step, z_after, curve, C, weight, params, max_hq_iter):
    """`half_quadratic` with any rule for the step, ``step(C * weight, curve)``, where a cap is not all there is."""
    tau = 0.0
    first = 1.0
    for i in range(max_hq_iter):
        w = weight(max(0.0, 1.0 - z_after(tau, curve)), params[0], params[1])
        tau = step(C if math.inf == C else C * w, curve)
        if i == 0:
            first = w
    return tau, first


def linear_z(tau, curve):
    """Margin after ``M + tau A``: ``curve = (z, ||A||_F^2)``."""
    return curve[0] + tau * curve[1]


def linear_kink(curve):
    """Passive-aggressive step that just removes the loss, ``hinge / ||A||_F^2`` (Eqs. 22 and 25)."""
    return (1.0 - curve[0]) / curve[1]


def pa(C, curve):
    """Passive-aggressive step PA, which always removes the loss; ``C`` plays no part."""
    return (1.0 - curve[0]) / curve[1]


def pa1(C, curve):
    """PA-I, the step of every learner here: a loss of weight ``C`` caps the step."""
    return min(C, (1.0 - curve[0]) / curve[1])


def pa2(C, curve):
    """PA-II: a squared loss of weight ``C`` shortens every step, ``hinge / (||A||_F^2 + 1 / (2 C))``."""
    return (1.0 - curve[0]) / (curve[1] + 0.5 / C) if C > 0.0 else 0.0


def factored_curve(gg, hh, gh, pp, qq, pq):
    """``(a_plus, a_minus, m_plus, m_minus)`` from the two Gram matrices of ``(g, h)`` and ``(p, q)``."""
    norms = math.sqrt(gg) * math.sqrt(hh)
    ratio = math.sqrt(hh) / math.sqrt(gg)
    a = 0.25 * (ratio * pp + qq / ratio)
    a_plus = max(0.0, a + 0.5 * pq)
    # The difference is p.q by construction; keep that so that z(0) has no rounding of its own.
    return a_plus, a_plus - pq, max(0.0, norms + gh), max(0.0, norms - gh)


def factored_z(tau, curve):
    """Margin after the exact low-rank step of size ``tau``."""
    a_plus, a_minus, m_plus, m_minus = curve
    shrink = 1.0 - tau * m_plus
    grow = 1.0 + tau * m_minus
    return a_plus / (shrink * shrink) - a_minus / (grow * grow)


def factored_bound(curve):
    """Largest low-rank step, a hair below the one where ``L`` would become infinite."""
    return _BELOW_BOUND / curve[2] if curve[2] > 0.0 else math.inf


def factored_near(square, other, m_plus, m_minus):
    """Curve from the squared lengths of L along both directions, without the cancellation of `factored_curve`.

    Where the first is so short that the margin stays below 1 up to the bound, the curve is that of an L with a hair
    more of it: the hard case of a quadratic constraint, whose minimiser is the limit.
    """
    a_plus = 0.5 * m_plus * square
    a_minus = 0.5 * m_minus * other
    wide = 1.0 + _BELOW_BOUND * m_minus / m_plus
    least = (1.0 - _BELOW_BOUND) ** 2 * (1.0 + a_minus / (wide * wide))
    return max(a_plus, least), a_minus, m_plus, m_minus


def factored_kink(curve):
    """Step at which the low-rank margin reaches 1, by Newton's method inside a bracket.

    At the root ``plus = 1 + minus`` with ``0 <= minus <= a_minus`` and ``plus >= a_plus``, which gives both ends
    in closed form. Where the margin stays below 1, the bound, a hair below; see `factored_near`.
    """
    a_plus, a_minus, m_plus, m_minus = curve
    beyond = (math.sqrt(a_minus / (a_plus - 1.0)) - 1.0) / m_minus if a_plus > 1.0 and m_minus > 0.0 else math.inf
    if m_plus == 0.0:
        return beyond  # there is no bound and plus stays a_plus
    bound = _BELOW_BOUND / m_plus
    low = max(0.0, (1.0 - math.sqrt(a_plus)) / m_plus)
    high = min(beyond, (1.0 - math.sqrt(a_plus / (1.0 + a_minus))) / m_plus, bound)
    if low >= high:
        return high
    tau = low
    for i in range(200):
        shrink = 1.0 - tau * m_plus
        grow = 1.0 + tau * m_minus
        plus = a_plus / (shrink * shrink)
        minus = a_minus / (grow * grow)
        gap = plus - minus - 1.0
        if gap < 0.0:
            low = tau
        else:
            high = tau
        new = tau - 0.5 * gap / (plus * m_plus / shrink + minus * m_minus / grow)
        if abs(new - tau) <= 4e-16 * tau:
            return new
        if not low < new < high or i >= 60:
            new = 0.5 * (low + high)
        tau = new
    return tau


def factored_update(tau, curve, gg, hh, gh):
    """Four coefficients of the exact step: ``L + g (a1 p + a2 q)' + h (b1 p + b2 q)'``."""
    _, _, m_plus, m_minus = curve
    scale = tau / ((1.0 - tau * m_plus) * (1.0 + tau * m_minus))
    straight = (1.0 - tau * gh) * scale
    return tau * hh * scale, straight, straight, tau * gg * scale


def subgradient_update(C_t, step_size, n_steps, gg, hh, gh, pp, qq, pq):
    """The same four coefficients after ``n_steps`` sub-gradient steps of Eqs. (32) and (33), and the margin reached.

    Every iterate stays in ``L + span(g, h) span(p, q)'``, so the loop needs no vector. It starts at ``L`` and
    moves by ``-step_size * [(L - L_t) - 2 C_t sym(g h') L]``, the second part only while the loss is positive.
    """
    a1 = a2 = b1 = b2 = 0.0
    # Rows of the iterate in the basis (p, q): g'L = (gp, gq), h'L = (hp, hq).
    gp, gq, hp, hq = 1.0, 0.0, 0.0, 1.0
    z = pq
    for _ in range(n_steps):
        pull = step_size * C_t if z < 1.0 else 0.0
        keep = 1.0 - step_size
        a1, a2, b1, b2 = keep * a1 + pull * hp, keep * a2 + pull * hq, keep * b1 + pull * gp, keep * b2 + pull * gq
        gp, gq = 1.0 + gg * a1 + gh * b1, gg * a2 + gh * b2
        hp, hq = gh * a1 + hh * b1, 1.0 + gh * a2 + hh * b2
        z = gp * hp * pp + gq * hq * qq + (gp * hq + gq * hp) * pq
    return a1, a2, b1, b2, z


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


def published_solve(of_gh, of_pq, C, rule, weight, descent, factor):
    """The step of OPML as printed, which does not stop where the loss is removed, only below the bound."""
    gg, hh, gh = of_gh
    pp, qq, pq = of_pq
    curve = factored_curve(gg, hh, gh, pp, qq, pq)
    tau, w = half_quadratic(factored_z, curve, factored_bound(curve), C, weight, rule.params, rule.max_hq_iter)
    a1, a2, b1, b2 = factored_update(tau, curve, gg, hh, gh)
    return a1, a2, b1, b2, w, 0.0


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
    if not math.isfinite(a1 + a2 + b1 + b2):  # what explodes must be seen in L, not pass for a triplet without a step
        a1 = a2 = b1 = b2 = _EXPLODED
    return a1, a2, b1, b2, first, 0.0


def prepare_step(factor, a1, a2, b1, b2):
    """Make ``g (a1 p + a2 q)' + h (b1 p + b2 q)'`` the pending step of a factor; returns whether it is one."""
    p, q, along_g, along_h = factor.p, factor.q, factor.along_g, factor.along_h
    size = 0.0
    for j in range(p.shape[0]):
        along_g[j] = a1 * p[j] + a2 * q[j]
        along_h[j] = b1 * p[j] + b2 * q[j]
        size += abs(along_g[j]) + abs(along_h[j])
    return size != 0.0  # also what is not a number, so that L shows it


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
    return size != 0.0  # also what is not a number, so that L shows it


def logdet_curve(pp, qq, pq, rest):
    """``(plus, minus)`` from ``p.p``, ``q.q``, ``p.q`` and ``rest``, the squared length of what q has beside p.

    Their product is ``pp rest / 4``, which gives the smaller one without cancellation.
    """
    large = 0.5 * (math.sqrt(pp) * math.sqrt(qq) + abs(pq))
    small = 0.25 * pp * rest / large
    return (large, small) if pq >= 0.0 else (small, large)


def logdet_z(tau, curve):
    """Margin after the LogDet step of size ``tau``."""
    plus, minus = curve
    return plus / (1.0 - tau * plus) - minus / (1.0 + tau * minus)


def logdet_kink(curve):
    """Step at which the LogDet margin reaches 1, in the form that does not cancel; infinite where it never does."""
    plus, minus = curve
    z = plus - minus
    if plus == 0.0:
        return math.inf
    if minus == 0.0:
        return (1.0 - z) / z
    lead = z + 2.0 * plus * minus
    root = math.hypot(z, 2.0 * math.sqrt(plus * minus) * math.sqrt(plus * minus + 1.0))
    return 2.0 * (1.0 - z) / (root + lead) if lead >= 0.0 else (root - lead) / (2.0 * plus * minus)


def logdet_update(tau, curve, pp, qq):
    """``(a, b, c)`` of the LogDet step ``L + L p (a p + b q)' + L q (b p + c q)'``: a square root of its change of M.

    The root leaves ``L L'`` positive definite however the numbers are rounded.
    """
    plus, minus = curve
    grow = math.sqrt(max(0.0, 1.0 - tau * plus))
    shrink = math.sqrt(1.0 + tau * minus)
    along = 0.25 * tau / (grow * (1.0 + grow)) if grow > 0.0 else math.inf
    across = 0.25 * tau / (shrink * (1.0 + shrink))
    ratio = math.sqrt(qq) / math.sqrt(pp)
    return (along - across) * ratio, along + across, (along - across) / ratio


def pair_z(tau, curve):
    """1 less the signed excess of a pair after a step: ``curve = (sigma, p, bound, capped)``."""
    sigma, p, bound, _ = curve
    return 1.0 - sigma * (p / (1.0 + sigma * tau * p) - bound)


def pair_step(C, curve):
    """Step of a pair beyond its bound: capped by ``C``, or the share ``C / (C + 1)`` of the way (ITML's slack)."""
    sigma, p, bound, capped = curve
    kink = sigma * (1.0 / bound - 1.0 / p)
    if capped:
        return min(C, kink)
    return kink if math.inf == C else C / (C + 1.0) * kink


def pair_roots(tau, curve):
    """``(f, c)`` of a pair's step ``M - f Me (Me)'``, taken by its square root ``L - c Me (L'e)'``."""
    sigma, p, _, _ = curve
    root = math.sqrt(1.0 + sigma * tau * p)
    return sigma * tau / (root * root), sigma * tau / (root * (1.0 + root))


def hedge(theta, losses, beta):
    """``theta_k <- theta_k beta^loss_k``, normalised (Freund and Schapire 1997)."""
    total = 0.0
    for k in range(len(theta)):
        theta[k] *= beta ** losses[k]
        total += theta[k]
    for k in range(len(theta)):
        theta[k] /= total


def clip_and_normalise(theta):
    """Cut at zero, sum 1; whether anything was left to do so."""
    total = 0.0
    for k in range(len(theta)):
        total += max(0.0, theta[k])
    if not total > 0.0:
        return False
    for k in range(len(theta)):
        theta[k] = max(0.0, theta[k]) / total
    return True


def onto_simplex(theta):
    """Nearest point with entries >= 0 and sum 1, ``max(0, theta - shift)``.

    Entries below the shift that the others ask for leave, until none does; none ever comes back (Michelot 1986).
    """
    shift = -math.inf
    n_before = 0
    while True:
        total = 0.0
        n_now = 0
        for k in range(len(theta)):
            if theta[k] > shift:
                total += theta[k]
                n_now += 1
        if n_now == n_before:
            break
        shift = (total - 1.0) / n_now
        n_before = n_now
    for k in range(len(theta)):
        theta[k] = max(0.0, theta[k] - shift)
