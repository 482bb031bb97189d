"""OMDML and LOMDML, literally (sec. 3.3): one metric per modality, weighted by Hedge.

Triplets come as one list of three row arrays per modality: anchors[k], positives[k], negatives[k] are (n, d_k).
Per triplet, with f_k = d_k^2(x, x_plus) - d_k^2(x, x_minus) = -z_k and f = sum_k theta_k f_k: nothing happens unless
f + margin > 0; then theta_k <- theta_k beta^[f_k > 0], every modality takes its own step, theta is normalised.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from .common import Array, distance_direction
from .full import pa_step, psd_part
from .half_quadratic import half_quadratic
from .hedge import hedge_step
from .losses import hinge, plausibility

Step = Callable[[Array, Array], tuple[Array, float, float]]  # (parameter, A) -> parameter, tau, plausibility
Margin = Callable[[Array, Array], float]  # (parameter, A) -> z


class MultiRun(NamedTuple):
    """What one pass leaves behind.

    parameters : the final M_k or L_k, one per modality. theta : (K,) the final weights; theta_history (n + 1, K).
    plausibility : (n,) of each triplet: mean of omega by the weights before the triplet.
    omega, tau : (n, K) of each triplet in each modality. n_updates : triplets that moved some modality.
    """

    parameters: list[Array]
    theta: Array
    theta_history: Array
    plausibility: Array
    omega: Array
    tau: Array
    n_updates: int


def directions(anchors: Sequence[Array], positives: Sequence[Array], negatives: Sequence[Array]) -> list[list[Array]]:
    """A of every triplet (outer list) in every modality (inner list)."""
    per_modality = [
        [distance_direction(*triplet) for triplet in zip(*rows, strict=True)]
        for rows in zip(anchors, positives, negatives, strict=True)
    ]
    return [list(of_triplet) for of_triplet in zip(*per_modality, strict=True)]


def as_multi_run(
    parameters: list[Array], history: list[Array], omegas: list[list[float]], taus: list[list[float]]
) -> MultiRun:
    """The result of a run from what was noted for each triplet."""
    theta, omega, tau = np.array(history), np.array(omegas), np.array(taus)
    mean = np.sum(theta[:-1] * omega, axis=1)
    return MultiRun(parameters, theta[-1], theta, mean, omega, tau, int(np.sum(np.any(tau > 0.0, axis=1))))


def omdml(
    anchors: Sequence[Array],
    positives: Sequence[Array],
    negatives: Sequence[Array],
    C: float = 0.1,
    beta: float = 0.9,
    margin: float = 1.0,
    eta: float = 0.0,
    max_hq_iter: int = 3,
) -> MultiRun:
    """OMDML: full M_k, identity at first, passive-aggressive step and projection; robust when eta > 0."""

    def step(M: Array, A: Array) -> tuple[Array, float, float]:
        new, tau, omega = pa_step(M, A, C, eta, max_hq_iter)
        return psd_part(new), tau, omega

    start = [np.eye(rows.shape[1]) for rows in anchors]
    return _hedged(start, anchors, positives, negatives, beta, margin, eta, step, lambda M, A: float(np.sum(A * M)))


def lomdml(
    anchors: Sequence[Array],
    positives: Sequence[Array],
    negatives: Sequence[Array],
    n_components: int,
    C: float = 0.001,
    beta: float = 0.9,
    margin: float = 1.0,
    eta: float = 0.0,
    max_hq_iter: int = 3,
) -> MultiRun:
    """LOMDML: L_k (d_k, r), first r columns of the identity, gradient step L + 2 C A L; robust when eta > 0.

    C is the article's learning rate. A modality without a loss of its own does not move (A11).
    """

    def z(L: Array, A: Array) -> float:
        return float(np.sum(A * (L @ L.T)))

    def step(L: Array, A: Array) -> tuple[Array, float, float]:
        tau, omega = half_quadratic(lambda tau: float(hinge(z(L + 2.0 * tau * A @ L, A))), np.inf, C, eta, max_hq_iter)
        return L + 2.0 * tau * A @ L, tau, omega

    start = [np.eye(rows.shape[1], n_components) for rows in anchors]
    return _hedged(start, anchors, positives, negatives, beta, margin, eta, step, z)


def _hedged(
    parameters: list[Array],
    anchors: Sequence[Array],
    positives: Sequence[Array],
    negatives: Sequence[Array],
    beta: float,
    margin: float,
    eta: float,
    step: Step,
    z: Margin,
) -> MultiRun:
    """What OMDML and LOMDML share: they differ in the parameter and its step."""
    K = len(anchors)
    history = [np.full(K, 1.0 / K)]
    omegas, taus = [], []
    for A in directions(anchors, positives, negatives):
        f = np.array([-z(parameters[k], A[k]) for k in range(K)])
        tau = [0.0] * K
        omega = [float(plausibility(hinge(-f[k]), eta)) for k in range(K)]
        theta = history[-1]
        if float(theta @ f) + margin > 0.0:
            for k in range(K):
                if 1.0 + f[k] > 0.0 and np.sum(A[k] * A[k]) > 0.0:
                    parameters[k], tau[k], omega[k] = step(parameters[k], A[k])
            theta = hedge_step(theta, (f > 0.0).astype(np.float64), beta)
        history.append(theta)
        omegas.append(omega)
        taus.append(tau)
    return as_multi_run(parameters, history, omegas, taus)
