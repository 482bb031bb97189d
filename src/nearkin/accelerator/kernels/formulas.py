"""The formulas of `nearkin.steps` in Triton, which cannot compile those as they stand; tests hold both together.

``cap`` is the longest step, ``C beta eta``; ``rate`` is eta in powers of two: a plausibility is ``2^(-rate hinge)``.
The scalar chain is what a device waits for, hence as few dependent operations as the formulas allow.
"""

import triton
import triton.language as tl

__all__ = ["factored_kink", "factored_step"]

_INFINITY = tl.constexpr(float("inf"))

#: As in `nearkin.steps`, a step stays a millionth below the bound where L would become infinite: v m_plus there.
_FARTHEST = tl.constexpr(1e6 - 1.0)


@triton.jit
def factored_kink(a_plus, a_minus, m_plus, m_minus, NEAR: tl.constexpr):
    """Where the low-rank margin reaches 1, by Newton's method inside a bracket, as ``v = tau / (1 - tau m_plus)``.

    In v, which has no upper bound, a step next to the bound ``1 / m_plus`` keeps its digits in any precision:
    ``z = (1 + v m_plus)^2 (a_plus - a_minus / (1 + v (m_plus + m_minus))^2)``. ``NEAR`` is the relative
    error at which to stop, of v or of the margin, whose own rounding may be all that is left.
    """
    span = m_plus + m_minus
    has_end = (a_plus > 1.0) & (m_minus > 0.0)
    end = (tl.sqrt(a_minus / tl.where(has_end, a_plus - 1.0, 1.0)) - 1.0) / tl.where(has_end, m_minus, 1.0)
    end = tl.where(has_end & (end * m_plus < 1.0), end / (1.0 - end * m_plus), _INFINITY)
    curved = m_plus > 0.0
    some = tl.where(curved, m_plus, 1.0)
    low = tl.where(curved, tl.maximum((1.0 / tl.sqrt(a_plus) - 1.0) / some, 0.0), end)
    high = tl.minimum((tl.sqrt((1.0 + a_minus) / a_plus) - 1.0) / some, _FARTHEST / some)
    high = tl.where(curved, tl.minimum(high, end), end)
    v = tl.minimum(low, high)
    i = 0
    while (low < high) & (i < 200):
        wide = 1.0 + v * m_plus
        other = 1.0 / (1.0 + v * span)
        rest = a_plus - a_minus * (other * other)
        gap = wide * wide * rest - 1.0
        low = tl.where(gap < 0.0, v, low)
        high = tl.where(gap < 0.0, high, v)
        new = v - 0.5 * gap / (wide * (m_plus * rest + wide * (a_minus * span * (other * other * other))))
        there = (tl.abs(new - v) <= NEAR * v) | (tl.abs(gap) <= NEAR * (1.0 + wide * wide * a_plus))
        inside = (new > low) & (new < high) & (i < 60)
        v = tl.where(inside | there, new, 0.5 * (low + high))
        i = tl.where(there, 200, i + 1)
    return v


@triton.jit
def _near(pq, a_plus, a_minus, m_plus, m_minus, cap, rate, N_HQ: tl.constexpr, gg, hh, gh):
    """Half-quadratic loop where no step comes near the bound or the kink, then the step's coefficients."""
    share = tl.exp2(tl.minimum((pq - 1.0) * rate, 0.0))
    tau = cap * share
    for _ in tl.static_range(N_HQ - 1):
        shrink = 1.0 - tau * m_plus
        grow = 1.0 + tau * m_minus
        both = shrink * grow
        z = (a_plus * (grow * grow) - a_minus * (shrink * shrink)) / (both * both)
        share = tl.exp2(tl.minimum((z - 1.0) * rate, 0.0))
        tau = cap * share
    scale = tau / ((1.0 - tau * m_plus) * (1.0 + tau * m_minus))
    return (tau * hh) * scale, (1.0 - tau * gh) * scale, (tau * gg) * scale, share


@triton.jit
def _far(pq, a_plus, a_minus, m_plus, m_minus, cap, rate, N_HQ: tl.constexpr, gg, hh, gh, NEAR: tl.constexpr):
    """The same for any step; see `factored_kink` for v."""
    span = m_plus + m_minus
    kink = factored_kink(a_plus, a_minus, m_plus, m_minus, NEAR)
    share = tl.exp2(tl.minimum((pq - 1.0) * rate, 0.0))
    v = kink
    for number in tl.static_range(N_HQ):
        if number > 0:
            other = 1.0 / (1.0 + v * span)
            wide = 1.0 + v * m_plus
            z = wide * wide * (a_plus - a_minus * (other * other))
            share = tl.exp2(tl.minimum((z - 1.0) * rate, 0.0))
        tau = cap * share
        left = 1.0 - tau * m_plus
        v = tl.where((cap < _INFINITY) & (left > 0.0), tl.minimum(tau / tl.where(left > 0.0, left, 1.0), kink), kink)
    other = v / (1.0 + v * span)
    square = v * other
    return hh * square, (1.0 + v * m_plus) * other - gh * square, gg * square, share


@triton.jit
def factored_step(gg, hh, gh, pp, qq, pq, cap, rate, N_HQ: tl.constexpr):
    """``(a1, a2, b2, plausibility)`` of the exact low-rank step ``L + g (a1 p + a2 q)' + h (a2 p + b2 q)'``."""
    share = tl.exp2(tl.minimum((pq - 1.0) * rate, 0.0))
    a1 = pq * 0.0
    a2 = a1
    b2 = a1
    root_g = tl.sqrt(gg)
    root_h = tl.sqrt(hh)
    ratio = 0.25 * root_h / root_g
    inverse = 0.25 * root_g / root_h
    m_plus = tl.maximum(root_g * root_h + gh, 0.0)
    m_minus = tl.maximum(root_g * root_h - gh, 0.0)
    shrink = 1.0 - cap * m_plus
    grow = 1.0 + cap * m_minus
    if (pq < 1.0) & (gg > 0.0) & (hh > 0.0) & (cap > 0.0):
        a_plus = tl.maximum(ratio * pp + inverse * qq + 0.5 * pq, 0.0)
        a_minus = tl.maximum(a_plus - pq, 0.0)
        reached = a_plus * (grow * grow) - a_minus * (shrink * shrink)
        # No weight exceeds that of a hinge of zero: where the longest step falls short of the kink, that is not needed.
        if (shrink > 0.5) & (reached < (shrink * grow) * (shrink * grow)):
            a1, a2, b2, share = _near(pq, a_plus, a_minus, m_plus, m_minus, cap, rate, N_HQ, gg, hh, gh)
        elif pq.dtype == tl.float64:
            a1, a2, b2, share = _far(pq, a_plus, a_minus, m_plus, m_minus, cap, rate, N_HQ, gg, hh, gh, 4e-16)
        else:
            a1, a2, b2, share = _far(pq, a_plus, a_minus, m_plus, m_minus, cap, rate, N_HQ, gg, hh, gh, 2e-7)
        total = a1 + a2 + b2
        if total - total != 0.0:  # not finite: no step
            a1 = pq * 0.0
            a2 = a1
            b2 = a1
    return a1, a2, b2, share
