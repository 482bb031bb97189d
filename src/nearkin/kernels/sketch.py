"""Steps in the sketches of several modalities: LSMDML.

A row of modality k comes as ``(R_1'x, R_2'x)``, twice ``sizes[k]`` numbers side by side. With g and h of both halves
the sketch of A is ``(g_1 h_2' + h_1 g_2') / 2``, and the matrix at ``places[k]`` moves along it.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from nearkin.kernels.formulas import (
    clip_and_normalise,
    directions,
    half_quadratic,
    linear_kink,
    linear_step,
    linear_z,
    members,
    onto_simplex,
    weight,
)
from nearkin.kernels.machine.compile import Sweep, helper
from nearkin.kernels.machine.pack import view
from nearkin.kernels.modalities import mean_plausibility


class Sketches(NamedTuple):
    """Addresses and sizes of the matrices, the modalities' weights, ``C`` of a step of these, and their constraint."""

    places: np.ndarray
    sizes: np.ndarray
    theta: np.ndarray
    C: float
    is_simplex: bool


@partial(Sweep, shapes="k, k, k, *, n k, n")
def sweep(sketches, triplets, rule, taus, plausibility):
    """Steps of all modalities, recorded in ``taus``, then a passive-aggressive step of their weights (sheet 3.8)."""
    sizes, theta = sketches.sizes, sketches.theta
    K = theta.shape[0]
    number = np.empty(1)
    matrices = [view(sketches.places[k], (sizes[k], sizes[k]), number) for k in range(K)]
    wide = 0
    for k in range(K):
        wide = max(wide, sizes[k])
    g_1, h_1, g_2, h_2 = np.empty(wide), np.empty(wide), np.empty(wide), np.empty(wide)
    z, w, moved = np.empty(K), np.empty(K), np.empty(K)
    full_weight = weight(0.0, rule.params[0], rule.params[1])
    n_updates = 0
    for t in range(len(plausibility)):
        x, y, n = members(triplets, t)
        start = 0
        any_moved = False
        for k in range(K):
            m = sizes[k]
            a, b, c = start, start + m, start + 2 * m
            start = c
            gg_1, hh_1, gh_1 = directions(x[a:b], y[a:b], n[a:b], True, g_1[:m], h_1[:m])
            gg_2, hh_2, gh_2 = directions(x[b:c], y[b:c], n[b:c], True, g_2[:m], h_2[:m])
            sq_norm = 0.25 * (gg_1 * hh_2 + hh_1 * gg_2 + 2.0 * gh_1 * gh_2)
            z[k] = _margin(matrices[k], g_1[:m], h_1[:m], g_2[:m], h_2[:m])
            tau, w[k] = linear_step(z[k], sq_norm, rule.C[t], rule, weight, full_weight)
            if tau > 0.0:
                _move(matrices[k], g_1[:m], h_1[:m], g_2[:m], h_2[:m], tau)
                any_moved = True
            taus[t, k] = tau
        plausibility[t] = mean_plausibility(theta, w, full_weight)
        if any_moved:
            n_updates += 1
        together = 0.0
        square = 0.0
        for k in range(K):
            together += theta[k] * z[k]
            square += z[k] * z[k]
        if together < 1.0 and square > 0.0:
            curve = (together, square)
            tau, _ = half_quadratic(
                linear_z, curve, linear_kink(curve), sketches.C, weight, rule.params, rule.max_hq_iter
            )
            for k in range(K):
                moved[k] = theta[k] + tau * z[k]
            _set_weights(theta, moved, sketches.is_simplex)
    return n_updates


@helper
def _margin(M, g_1, h_1, g_2, h_2):
    """``<M, (g_1 h_2' + h_1 g_2') / 2>``, one pass over M."""
    total = 0.0
    for i in range(M.shape[0]):
        along_g = 0.0
        along_h = 0.0
        for k in range(M.shape[0]):
            along_g += M[i, k] * h_2[k]
            along_h += M[i, k] * g_2[k]
        total += g_1[i] * along_g + h_1[i] * along_h
    return 0.5 * total


@helper
def _move(M, g_1, h_1, g_2, h_2, tau):
    half = 0.5 * tau
    for i in range(M.shape[0]):
        along_g = half * g_1[i]
        along_h = half * h_1[i]
        for k in range(M.shape[0]):
            M[i, k] += along_g * h_2[k] + along_h * g_2[k]


@helper
def _set_weights(theta, moved, is_simplex):
    """Map the weights after a step back to their constraint; keep the old ones if none would be left."""
    if is_simplex:
        onto_simplex(moved)
    elif not clip_and_normalise(moved):
        return
    for k in range(theta.shape[0]):
        theta[k] = moved[k]
