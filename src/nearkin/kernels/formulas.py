"""The formulas of `nearkin.losses`, `nearkin.steps` and `nearkin.measures`, compiled, and the direction of a step."""

from types import FunctionType
from typing import NamedTuple

import numpy as np

from nearkin import losses, steps
from nearkin.kernels.machine.compile import body, exact_helper, helper, step
from nearkin.kernels.machine.pack import padded
from nearkin.kernels.machine.simd import lanes, load, load_few, store, total, zeros

# Sweeps call the loss's weight by this name, which `Sweep` replaces for other losses.
weight = step(losses.exponential_weight)
plausibility_of = step(steps.plausibility_of)
squared_norm = step(steps.squared_norm)
half_quadratic = step(steps.half_quadratic)
half_quadratic_by = step(steps.half_quadratic_by)
linear_z = step(steps.linear_z)
linear_kink = step(steps.linear_kink)
factored_bound = step(steps.factored_bound)
factored_curve = step(steps.factored_curve)
factored_z = step(steps.factored_z)
factored_kink = step(steps.factored_kink)
factored_near = step(steps.factored_near)
factored_update = step(steps.factored_update)
subgradient_update = step(steps.subgradient_update)
logdet_curve = step(steps.logdet_curve)
logdet_z = step(steps.logdet_z)
logdet_kink = step(steps.logdet_kink)
logdet_update = step(steps.logdet_update)
pair_z = step(steps.pair_z)
pair_step = step(steps.pair_step)
pair_roots = step(steps.pair_roots)
is_step = step(steps.is_step)
hedge = step(steps.hedge)
clip_and_normalise = step(steps.clip_and_normalise)
onto_simplex = step(steps.onto_simplex)


def _with_compiled(function, how=body):
    """The formula with the compiled forms of all formulas that it calls."""
    called = {name: globals()[name] for name in function.__code__.co_names if name in globals() and name in vars(steps)}
    return how(FunctionType(function.__code__, {**vars(steps), **called}, function.__name__))


squares_along = helper(steps.squares_along)
least_used = helper(steps.least_used)
prepare_step = body(steps.prepare_step)
prepare_start = _with_compiled(steps.prepare_start, helper)
exact_solve = _with_compiled(steps.exact_solve)
published_solve = _with_compiled(steps.published_solve)
subgradient_solve = _with_compiled(steps.subgradient_solve)


@body
def linear_step(z, sq_norm, C, rule, weight, full_weight):
    """Passive-aggressive step size (Eqs. 22 and 25) and weight of a triplet; no step where it has no loss."""
    if not z < 1.0:
        return 0.0, full_weight
    if not sq_norm > 0.0:
        return 0.0, weight(1.0 - z, rule.params[0], rule.params[1])
    curve = (z, sq_norm)
    return half_quadratic(linear_z, curve, linear_kink(curve), C, weight, rule.params, rule.max_hq_iter, rule.carried)


# ---------------------------------------------------------------- the direction A of a step


class Direction(NamedTuple):
    """Vectors of ``A = (g h' + h g') / 2``, their inner products, and ``||A||_F^2``."""

    g: np.ndarray
    h: np.ndarray
    gg: float
    hh: float
    gh: float
    sq_norm: float


@step
def direction_of(anchor, positive, negative, is_distance):
    """``g`` and ``h`` of numbers or vectors; differences first, so that a common offset of the rows costs no digits."""
    return (anchor - positive) + (anchor - negative) if is_distance else anchor, positive - negative


@step
def members(triplets, t):
    """Anchor, positive and negative of triplet t."""
    return (
        triplets.anchors[triplets.anchor[t]],
        triplets.positives[triplets.positive[t]],
        triplets.negatives[triplets.negative[t]],
    )


@exact_helper
def _differences(anchor, positive, negative, is_distance, g, h):
    for k in range(anchor.shape[0]):
        g[k], h[k] = direction_of(anchor[k], positive[k], negative[k], is_distance)


@helper
def directions(anchor, positive, negative, is_distance, g, h):
    """Write ``g`` and ``h`` and return ``g.g, h.h, g.h`` in double precision."""
    _differences(anchor, positive, negative, is_distance, g, h)
    return gram(g, h)


@helper
def gram(p, q):
    """``p.p, q.q, p.q`` in double precision."""
    pp = 0.0
    qq = 0.0
    pq = 0.0
    for j in range(p.shape[0]):
        pp += p[j] * p[j]
        qq += q[j] * q[j]
        pq += p[j] * q[j]
    return pp, qq, pq


@body
def direction_at(triplets, t, g, h):
    """Direction of triplet t for a distance; ``g`` and ``h`` are written."""
    x, positive, negative = members(triplets, t)
    gg, hh, gh = directions(x, positive, negative, True, g, h)
    return Direction(g, h, gg, hh, gh, squared_norm(gg, hh, gh, True))


@exact_helper
def vector_directions(triplets, t, is_distance, gh, at):
    """`directions` of triplet t by vectors: ``g`` from position ``at`` of an array of padded vectors on, ``h`` next."""
    a, b, c = triplets.anchors, triplets.positives, triplets.negatives
    x, y, z = triplets.anchor[t], triplets.positive[t], triplets.negative[t]
    wide = lanes(gh)
    d = a.shape[1]
    n = padded(d, gh)
    rest = d - d % wide
    for i in range(rest, d):
        gh[at + i], gh[at + n + i] = direction_of(a[x, i], b[y, i], c[z, i], is_distance)
    g_g = h_h = g_h = zeros(gh)
    for i in range(0, n, wide):
        if i < rest:
            g, h = direction_of(load(a, x * d + i), load(b, y * d + i), load(c, z * d + i), is_distance)
            store(gh, at + i, g)
            store(gh, at + n + i, h)
        else:
            g, h = load(gh, at + i), load(gh, at + n + i)
        g_g += g * g
        h_h += h * h
        g_h += g * h
    return float(total(g_g)), float(total(h_h)), float(total(g_h))


@exact_helper
def block_directions(triplets, start, m, is_distance, vectors, first, size):
    """Vectors of ``m`` triplets: g in the rows of ``vectors`` from ``first`` on, h ``size`` rows later."""
    a, b, c = triplets.anchors, triplets.positives, triplets.negatives
    d = a.shape[1]
    whole = d - d % lanes(vectors)
    for t in range(m):
        x, y, z = triplets.anchor[start + t] * d, triplets.positive[start + t] * d, triplets.negative[start + t] * d
        at = (first + t) * vectors.shape[1]
        other = at + size * vectors.shape[1]
        for k in range(0, whole, lanes(vectors)):
            g, h = direction_of(load(a, x + k), load(b, y + k), load(c, z + k), is_distance)
            store(vectors, at + k, g)
            store(vectors, other + k, h)
        for k in range(whole, d):
            e, f = direction_of(load_few(a, x + k, 1), load_few(b, y + k, 1), load_few(c, z + k, 1), is_distance)
            store(vectors, at + k, e)
            store(vectors, other + k, f)


@helper
def shift(M, A, tau):
    """``M += tau A``, the part on and below the diagonal."""
    g, h = A.g, A.h
    half = 0.5 * tau
    for i in range(M.shape[0]):
        along_h = half * g[i]
        along_g = half * h[i]
        for k in range(i + 1):
            M[i, k] += along_h * h[k] + along_g * g[k]
