"""Several modalities at once, weighted by Hedge: OMDML and LOMDML.

Modality k has the columns ``starts[k]`` to ``starts[k + 1]`` of the rows and its own parameter, at an address. A
triplet moves nothing unless the weighted sum of its margins is below ``margin``; then every modality takes its own
step, and those that order the triplet wrongly lose weight.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from nearkin.kernels.cone import move_in_cone
from nearkin.kernels.formulas import (
    Direction,
    directions,
    gram,
    hedge,
    is_step,
    linear_step,
    members,
    plausibility_of,
    prepare_step,
    squared_norm,
    subgradient_solve,
    weight,
)
from nearkin.kernels.inverse import Tracked, tracking_workspace
from nearkin.kernels.machine.compile import Sweep, helper
from nearkin.kernels.machine.linalg import mirror, multiply
from nearkin.kernels.machine.pack import addresses, advance, pack_factor, unpack_factor, view


class Hedging(NamedTuple):
    """Where modalities begin, their weights, the discount of a wrong one, and the margin below which they learn."""

    starts: np.ndarray
    theta: np.ndarray
    beta: float
    margin: float


def matrix_addresses(starts, matrices, states):
    """Rows of addresses for `full`: M and the arrays of its `Tracked` state, then the shapes of the first two."""
    blocks = zip(np.diff(starts), matrices, states, strict=True)
    rows = [
        [*addresses(np.float64, "d d, 5, 2 z d, d d", M, *one, d=d), len(one.numbers), *one.nulls.shape]
        for d, M, one in blocks
    ]
    return np.array(rows, dtype=np.intp)


def factor_addresses(starts, components, dtype):
    """Rows of addresses for `low_rank`: components and their number."""
    blocks = zip(np.diff(starts), components, strict=True)
    return np.array([[*addresses(dtype, "r d", one, d=d), len(one)] for d, one in blocks], dtype=np.intp)


@partial(Sweep, shapes="k 8, s, k, *, n")
def full(places, hedging, triplets, rule, plausibility):
    """Full matrices on the cone."""
    starts, theta = hedging.starts, hedging.theta
    K = theta.shape[0]
    number = np.empty(1)
    size = starts[K]
    g, h, Mh = np.empty(size), np.empty(size), np.empty(size)
    z, w, mistakes = np.empty(K), np.empty(K), np.empty(K)
    grams = np.empty((K, 4))
    matrices = [view(places[k, 0], (starts[k + 1] - starts[k], starts[k + 1] - starts[k]), number) for k in range(K)]
    tracked = [_tracked_at(places[k], starts[k + 1] - starts[k], number) for k in range(K)]
    works = [tracking_workspace(tracked[k]) for k in range(K)]
    full_weight = weight(0.0, rule.params[0], rule.params[1])
    n_updates = 0
    for t in range(len(plausibility)):
        x, y, n = members(triplets, t)
        for k in range(K):
            a, b = starts[k], starts[k + 1]
            gg, hh, gh = directions(x[a:b], y[a:b], n[a:b], True, g[a:b], h[a:b])
            grams[k, 0], grams[k, 1], grams[k, 2], grams[k, 3] = gg, hh, gh, squared_norm(gg, hh, gh, True)
            multiply(matrices[k], h[a:b], Mh[a:b])
            total = 0.0
            for i in range(a, b):
                total += g[i] * Mh[i]
            z[k] = total
        learn = _sum(theta, z) < hedging.margin
        moved = False
        for k in range(K):
            a, b = starts[k], starts[k + 1]
            A = Direction(g[a:b], h[a:b], grams[k, 0], grams[k, 1], grams[k, 2], grams[k, 3])
            tau, w[k] = linear_step(z[k], A.sq_norm if learn else 0.0, rule.C[t], rule, weight, full_weight)
            if tau > 0.0:
                move_in_cone(matrices[k], A, tau, tracked[k], works[k])
                moved = True
        plausibility[t] = mean_plausibility(theta, w, full_weight)
        if learn:
            _weigh(theta, z, hedging.beta, mistakes)
        if moved:
            n_updates += 1
    for k in range(K):
        mirror(matrices[k])
    return n_updates


@partial(Sweep, shapes="k 2, s, k, *, n")
def low_rank(places, hedging, triplets, rule, plausibility):
    """Factors by the gradient step; a step stays pending until the next triplet, as in `nearkin.kernels.lowrank`."""
    starts, theta = hedging.starts, hedging.theta
    K = theta.shape[0]
    number = np.empty(1, triplets.anchors.dtype)
    z, w, mistakes = np.empty(K), np.empty(K), np.empty(K)
    grams = np.empty((K, 5))
    pending = np.zeros(K, np.bool_)
    old, new = np.zeros(K, np.intp), np.zeros(K, np.intp)
    components = [view(places[k, 0], (places[k, 1], starts[k + 1] - starts[k]), number) for k in range(K)]
    factors = [pack_factor(components[k]) for k in range(K)]
    for k in range(K):
        new[k] = 2 * factors[k].n
    full_weight = weight(0.0, rule.params[0], rule.params[1])
    n_updates = 0
    for t in range(len(plausibility)):
        x, y, m = members(triplets, t)
        for k in range(K):
            a, b = starts[k], starts[k + 1]
            factor = factors[k]
            g = factor.vectors[new[k] : new[k] + b - a]
            h = factor.vectors[new[k] + factor.n : new[k] + factor.n + b - a]
            grams[k, 0], grams[k, 1], grams[k, 2] = directions(x[a:b], y[a:b], m[a:b], True, g, h)
            advance(factor, pending[k], old[k], new[k])
            pending[k] = False
            grams[k, 3], grams[k, 4], z[k] = gram(factor.p, factor.q)
        learn = _sum(theta, z) < hedging.margin
        moved = False
        for k in range(K):
            w[k] = full_weight
            if z[k] < 1.0:
                w[k] = weight(1.0 - z[k], rule.params[0], rule.params[1])
                if learn and grams[k, 0] > 0.0 and grams[k, 1] > 0.0 and rule.C[t] > 0.0:
                    of_gh, of_pq = (grams[k, 0], grams[k, 1], grams[k, 2]), (grams[k, 3], grams[k, 4], z[k])
                    a1, a2, b1, b2, w[k], _ = subgradient_solve(
                        of_gh, of_pq, rule.C[t], rule, weight, (1.0, 1), factors[k]
                    )
                    if is_step(a1, a2, b1, b2) and prepare_step(factors[k], a1, a2, b1, b2):
                        old[k], new[k] = new[k], old[k]
                        pending[k] = moved = True
        plausibility[t] = mean_plausibility(theta, w, full_weight)
        if learn:
            _weigh(theta, z, hedging.beta, mistakes)
        if moved:
            n_updates += 1
    for k in range(K):
        if pending[k]:
            advance(factors[k], pending[k], old[k], new[k])
        unpack_factor(factors[k], components[k])
    return n_updates


@helper
def _tracked_at(places, d, number):
    """State that tracks one matrix."""
    numbers = view(places[1], (places[4],), number)
    nulls = view(places[2], (places[5], places[6], places[7]), number)
    return Tracked(numbers, nulls, view(places[3], (d, d), number))


@helper
def _weigh(theta, z, beta, mistakes):
    """Hedge on wrong orders, a margin below zero."""
    for k in range(z.shape[0]):
        mistakes[k] = 1.0 if z[k] < 0.0 else 0.0
    hedge(theta, mistakes, beta)


@helper
def _sum(theta, z):
    total = 0.0
    for k in range(z.shape[0]):
        total += theta[k] * z[k]
    return total


@helper
def mean_plausibility(theta, w, full_weight):
    """Plausibility of a triplet: the mean over its modalities, 1 to the bit where all are."""
    total = 0.0
    mean = 0.0
    for k in range(w.shape[0]):
        total += theta[k]
        mean += theta[k] * min(1.0, w[k] / full_weight)
    return plausibility_of(mean, total)
