// The low-rank step of nearkin.steps for a device; tests compare both.
//
// `cap` is the longest step, C beta eta; `rate` is eta in powers of two: a plausibility is 2^(-rate hinge). The device
// waits for the chain of steps, hence as few dependent operations as the formulas allow. A plausibility is the one before
// the step. Where L is orthogonal to the first direction a step ends a hair below the bound: only the processor begins a
// part there.
//
// Real and N_HQ are defined by the compiler call.

constexpr int LANES = 32;
constexpr unsigned EVERY = 0xffffffffu;

struct alignas(16) Products { Real gg, gh, hg, hh; };  // (g, h) of one triplet with (g, h) of another
struct alignas(16) Triplet {
    Real ratio, inverse, m_plus, m_minus;  // see nearkin.steps
    Real gg, hh, gh;
    Real reach, shrink, grow;  // at the longest step: (shrink grow)^2, shrink^2, grow^2
    int can_move, can_stay_near;
};
struct Square { Real pp, qq, pq; };
struct Cross { Real pp, qp, pq, qq; };
struct Step { Real a1, a2, b2, share; };

__device__ __forceinline__ Triplet described(Products own, Real cap) {
    Triplet t;
    Real root_g = sqrt(own.gg), root_h = sqrt(own.hh);
    t.ratio = (Real)0.25 * root_h / root_g;
    t.inverse = (Real)0.25 * root_g / root_h;
    t.m_plus = most(root_g * root_h + own.gh, 0);
    t.m_minus = most(root_g * root_h - own.gh, 0);
    t.gg = own.gg, t.hh = own.hh, t.gh = own.gh;
    Real shrink = 1 - cap * t.m_plus, grow = 1 + cap * t.m_minus;
    t.shrink = shrink * shrink, t.grow = grow * grow, t.reach = t.shrink * t.grow;
    t.can_move = own.gg > 0 && own.hh > 0 && cap > 0;
    t.can_stay_near = shrink > (Real)0.5;
    return t;
}

// Where the margin reaches 1, by Newton's method inside a bracket, as v = tau / (1 - tau m_plus). In v, which has no
// upper bound, a step next to the bound 1 / m_plus keeps its digits in any precision:
// z = (1 + v m_plus)^2 (a_plus - a_minus / (1 + v (m_plus + m_minus))^2). A step stays a millionth below the bound.
__device__ Real kink_of(const Triplet& t, Real a_plus, Real a_minus) {
    const Real close = sizeof(Real) == 8 ? (Real)4e-16 : (Real)2e-7;
    Real span = t.m_plus + t.m_minus, end = infinite(), low, high;
    if (a_plus > 1 && t.m_minus > 0) {
        Real tau = (sqrt(a_minus / (a_plus - 1)) - 1) / t.m_minus;
        if (tau * t.m_plus < 1) end = tau / (1 - tau * t.m_plus);
    }
    if (!(t.m_plus > 0)) return end;
    low = most((1 / sqrt(a_plus) - 1) / t.m_plus, 0);
    high = least((sqrt((1 + a_minus) / a_plus) - 1) / t.m_plus, (Real)(1e6 - 1.0) / t.m_plus);
    high = least(high, end);
    Real v = least(low, high);
    for (int i = 0; low < high && i < 200; i++) {
        Real wide = 1 + v * t.m_plus, other = 1 / (1 + v * span);
        Real rest = a_plus - a_minus * (other * other), gap = wide * wide * rest - 1;
        if (gap < 0) low = v; else high = v;
        Real next = v - (Real)0.5 * gap / (wide * (t.m_plus * rest + wide * (a_minus * span * (other * other * other))));
        bool there = fabs(next - v) <= close * v || fabs(gap) <= close * (1 + wide * wide * a_plus);
        v = there || (next > low && next < high && i < 60) ? next : (Real)0.5 * (low + high);
        if (there) break;
    }
    return v;
}

// The half-quadratic loop for any step; a step that is not finite is not taken.
__device__ __noinline__ Step far_step(Triplet t, Real pq, Real a_plus, Real a_minus, Real cap, Real rate) {
    Real span = t.m_plus + t.m_minus, kink = kink_of(t, a_plus, a_minus), v = kink, other;
    Step s;
    Real share = s.share = fast_exp2(least((pq - 1) * rate, 0));
#pragma unroll
    for (int i = 0; i < N_HQ; i++) {
        if (i > 0) {
            Real wide = 1 + v * t.m_plus;
            other = 1 / (1 + v * span);
            share = fast_exp2(least((wide * wide * (a_plus - a_minus * (other * other)) - 1) * rate, 0));
        }
        Real tau = cap * share, left = 1 - tau * t.m_plus;
        v = cap < infinite() && left > 0 ? least(tau / left, kink) : kink;
    }
    other = v / (1 + v * span);
    Real square = v * other;
    s.a1 = t.hh * square, s.a2 = (1 + v * t.m_plus) * other - t.gh * square, s.b2 = t.gg * square;
    Real total = s.a1 + s.a2 + s.b2;
    if (total - total != 0) s.a1 = s.a2 = s.b2 = 0;
    return s;
}

// (a1, a2, b2, plausibility) of the exact step L + g (a1 p + a2 q)' + h (a2 p + b2 q)'. No weight exceeds that of a
// hinge of zero: where the longest step falls short of the kink and of the bound, neither is needed. This short way is
// always computed, also where it will not do.
__device__ __forceinline__ Step step_of(const Triplet& t, Square own, Real cap, Real rate) {
    Real a_plus = most(t.ratio * own.pp + (t.inverse * own.qq + (Real)0.5 * own.pq), 0);
    Real a_minus = most(a_plus - own.pq, 0);
    Real plus = rate * a_plus, minus = rate * a_minus;
    Real first = fast_exp2(least(own.pq * rate - rate, 0)), share = first, tau = cap * first, scale;
#pragma unroll
    for (int i = 0; i < N_HQ; i++) {
        Real shrink = 1 - tau * t.m_plus, grow = 1 + tau * t.m_minus;
        scale = fast_inverse(shrink * grow);
        if (i == N_HQ - 1) break;
        Real z = plus * (grow * grow) - minus * (shrink * shrink);
        share = fast_exp2(least(z * (scale * scale) - rate, 0));
        tau = cap * share;
    }
    scale *= tau;
    Step s = {(tau * t.hh) * scale, (1 - tau * t.gh) * scale, (tau * t.gg) * scale, first};
    bool moves = t.can_move && own.pq < 1 && own.pp + own.qq > 0;
    bool is_near = t.can_stay_near && a_plus * t.grow - a_minus * t.shrink < t.reach;
    // The same in all lanes; the vote tells the compiler.
    if (__any_sync(EVERY, moves && !is_near)) return far_step(t, own.pq, a_plus, a_minus, cap, rate);
    if (!moves) s = {0, 0, 0, first};
    return s;
}

// (p, q) of the next triplet after a step, from what both were before it.
__device__ __forceinline__ Square after(Step s, const Products& x, Square own, Square next, Cross c) {
    Real al = s.a1 * x.gg + s.a2 * x.hg, be = s.a2 * x.gg + s.b2 * x.hg;
    Real ga = s.a1 * x.gh + s.a2 * x.hh, de = s.a2 * x.gh + s.b2 * x.hh;
    Real e1 = al * own.pp + be * own.pq, e2 = al * own.pq + be * own.qq;
    Real f1 = ga * own.pp + de * own.pq, f2 = ga * own.pq + de * own.qq;
    next.pp += al * (2 * c.pp + e1) + be * (2 * c.qp + e2);
    next.qq += ga * (2 * c.pq + f1) + de * (2 * c.qq + f2);
    next.pq += (ga * c.pp + de * c.qp) + (al * (c.pq + f1) + be * (c.qq + f2));
    return next;
}
