"""Sequential sweeps over triplets for several modalities at once, weighted by Hedge (OMDML and LOMDML).

Modality k has the columns ``starts[k]`` to ``starts[k + 1]`` of the rows and a parameter of its own, which lies at
``places[k]``. Per triplet: the margins of all; nothing moves unless their weighted sum is below ``margin``; then every
modality takes its own step, and those that order the triplet wrongly lose weight.
"""

import math

import numpy as np

from nearkin.kernels.cone import project_step
from nearkin.kernels.direction import directions
from nearkin.kernels.inverse import tracking_workspace
from nearkin.kernels.lowrank import gram, subgradient_solve
from nearkin.kernels.machine.compile import body, helper, kernel
from nearkin.kernels.machine.pack import advance, aligned, in_slabs, pack, padded, unpack
from nearkin.kernels.machine.pointers import at
from nearkin.kernels.machine.symmetric import mirror, multiply
from nearkin.kernels.scalar import exponential_weight, hedge

__all__ = ["full_with", "low_rank_with", "mean_plausibility", "sweep_full", "sweep_low_rank"]

_SMALLEST = float(np.finfo(np.float64).tiny)


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
    return min(1.0, max(mean / total, _SMALLEST))


@helper
def _quarters(mapped):
    """p, q and what waits to be added along g and h."""
    n = mapped.shape[0] // 4
    return mapped[:n], mapped[n : 2 * n], mapped[2 * n : 3 * n], mapped[3 * n :]


@helper
def _cone(places, d, number):
    """Numbers, nulls and inverse that track one matrix."""
    numbers = at(places[1], (places[4],), number)
    nulls = at(places[2], (places[5], places[6], places[7]), number)
    return numbers, nulls, at(places[3], (d, d), number)


@body
def full_with(
    places, starts, theta, beta, margin, anchors, positives, negatives, ia, ip, ineg, C, params, max_hq_iter,
    plausibility, weight,
):  # fmt: skip
    """Full matrices on the cone.

    Row k of ``places`` says where M lies, and the numbers, nulls and inverse that track it (`nearkin.kernels.cone`);
    then how many numbers there are, and the shape of the nulls.
    """
    K = theta.shape[0]
    number = np.empty(1)
    size = starts[K]
    g = np.empty(size)
    h = np.empty(size)
    Mh = np.empty(size)
    z, w, mistakes, sq_norm = np.empty(K), np.empty(K), np.empty(K), np.empty(K)
    grams = np.empty((K, 3))
    matrices = [at(places[k, 0], (starts[k + 1] - starts[k], starts[k + 1] - starts[k]), number) for k in range(K)]
    cones = [_cone(places[k], starts[k + 1] - starts[k], number) for k in range(K)]
    works = [tracking_workspace(cones[k]) for k in range(K)]
    full_weight = weight(0.0, params[0], params[1])
    n_updates = 0
    for t in range(ia.shape[0]):
        x, y, n = anchors[ia[t]], positives[ip[t]], negatives[ineg[t]]
        for k in range(K):
            a, b = starts[k], starts[k + 1]
            gg, hh, gh = directions(x[a:b], y[a:b], n[a:b], True, g[a:b], h[a:b])
            grams[k, 0], grams[k, 1], grams[k, 2] = gg, hh, gh
            sq_norm[k] = 0.5 * (gg * hh + gh * gh)
            multiply(matrices[k], h[a:b], Mh[a:b])
            total = 0.0
            for i in range(a, b):
                total += g[i] * Mh[i]
            z[k] = total
        learn = _sum(theta, z) < margin
        moved = False
        for k in range(K):
            w[k] = full_weight
            if z[k] < 1.0:
                w[k] = weight(1.0 - z[k], params[0], params[1])
                if learn and sq_norm[k] > 0.0:
                    a, b = starts[k], starts[k + 1]
                    tau, w[k] = project_step(
                        matrices[k], g[a:b], h[a:b], grams[k, 0], grams[k, 1], grams[k, 2], (z[k], sq_norm[k]), C[t],
                        weight, params, max_hq_iter, cones[k], works[k],
                    )  # fmt: skip
                    moved = moved or tau > 0.0
        plausibility[t] = mean_plausibility(theta, w, full_weight)
        if learn:
            _weigh(theta, z, beta, mistakes)
        if moved:
            n_updates += 1
    for k in range(K):
        mirror(matrices[k])
    return n_updates


@body
def low_rank_with(
    places, starts, theta, beta, margin, anchors, positives, negatives, ia, ip, ineg, C, params, max_hq_iter,
    plausibility, weight,
):  # fmt: skip
    """Factors by the gradient step; row k of ``places`` has the components and how many they are.

    A step waits until the next triplet is projected, as in `nearkin.kernels.lowrank`.
    """
    K = theta.shape[0]
    number = np.empty(1, anchors.dtype)
    z, w, mistakes = np.empty(K), np.empty(K), np.empty(K)
    grams = np.empty((K, 5))
    move = np.zeros(K, np.bool_)
    old, new = np.zeros(K, np.intp), np.zeros(K, np.intp)
    components = [at(places[k, 0], (places[k, 1], starts[k + 1] - starts[k]), number) for k in range(K)]
    factors = [pack(components[k], in_slabs(components[k])) for k in range(K)]
    vectors = [aligned(4 * padded(starts[k + 1] - starts[k], number), number) for k in range(K)]
    mapped = [aligned(4 * padded(places[k, 1], number), number) for k in range(K)]
    for k in range(K):
        new[k] = vectors[k].shape[0] // 2
    full_weight = weight(0.0, params[0], params[1])
    n_updates = 0
    for t in range(ia.shape[0]):
        x, y, m = anchors[ia[t]], positives[ip[t]], negatives[ineg[t]]
        for k in range(K):
            a, b = starts[k], starts[k + 1]
            n = padded(b - a, number)
            gh = vectors[k]
            p, q, along_g, along_h = _quarters(mapped[k])
            grams[k, 0], grams[k, 1], grams[k, 2] = directions(
                x[a:b], y[a:b], m[a:b], True, gh[new[k] : new[k] + b - a], gh[new[k] + n : new[k] + n + b - a]
            )
            advance(
                factors[k], in_slabs(components[k]), components[k].shape[0], n, move[k], gh, old[k], new[k], along_g,
                along_h, p, q,
            )  # fmt: skip
            move[k] = False
            grams[k, 3], grams[k, 4], z[k] = gram(p, q)
        learn = _sum(theta, z) < margin
        moved = False
        for k in range(K):
            w[k] = full_weight
            if z[k] < 1.0:
                w[k] = weight(1.0 - z[k], params[0], params[1])
                if learn and grams[k, 0] > 0.0 and grams[k, 1] > 0.0 and C[t] > 0.0:
                    a1, a2, b1, b2, w[k] = subgradient_solve(
                        grams[k, 0], grams[k, 1], grams[k, 2], grams[k, 3], grams[k, 4], z[k], C[t], weight, params,
                        max_hq_iter, 1.0, 1,
                    )  # fmt: skip
                    if math.isfinite(a1 + a2 + b1 + b2) and (a1 != 0.0 or a2 != 0.0 or b1 != 0.0 or b2 != 0.0):
                        p, q, along_g, along_h = _quarters(mapped[k])
                        for j in range(p.shape[0]):
                            along_g[j] = a1 * p[j] + a2 * q[j]
                            along_h[j] = b1 * p[j] + b2 * q[j]
                        old[k], new[k] = new[k], old[k]
                        move[k] = moved = True
        plausibility[t] = mean_plausibility(theta, w, full_weight)
        if learn:
            _weigh(theta, z, beta, mistakes)
        if moved:
            n_updates += 1
    for k in range(K):
        slabs = in_slabs(components[k])
        if move[k]:
            n = padded(starts[k + 1] - starts[k], number)
            p, q, along_g, along_h = _quarters(mapped[k])
            advance(
                factors[k], slabs, components[k].shape[0], n, True, vectors[k], old[k], new[k], along_g, along_h, p, q
            )
        unpack(factors[k], components[k], slabs)
    return n_updates


@kernel
def sweep_full(
    places, starts, theta, beta, margin, anchors, positives, negatives, ia, ip, ineg, C, params, max_hq_iter,
    plausibility,
):  # fmt: skip
    """Rescaled-hinge sweep over full matrices: (Robust-)OMDML."""
    return full_with(
        places, starts, theta, beta, margin, anchors, positives, negatives, ia, ip, ineg, C, params, max_hq_iter,
        plausibility, exponential_weight,
    )  # fmt: skip


@kernel
def sweep_low_rank(
    places, starts, theta, beta, margin, anchors, positives, negatives, ia, ip, ineg, C, params, max_hq_iter,
    plausibility,
):  # fmt: skip
    """Rescaled-hinge sweep over factors: (Robust-)LOMDML."""
    return low_rank_with(
        places, starts, theta, beta, margin, anchors, positives, negatives, ia, ip, ineg, C, params, max_hq_iter,
        plausibility, exponential_weight,
    )  # fmt: skip
