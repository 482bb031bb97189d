"""Checks that know no closed form: objectives, numerical minimisers for tiny problems, eigen facts.

The minimisers rewrite the hinge by a slack, min reg + C xi with xi >= 1 - z and xi >= 0 (Eqs. 21, 24, 31),
so the problem is smooth, and start SLSQP from several points.
"""

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from .common import Array
from .losses import rescaled_hinge


def objective_full(M: Array, M_t: Array, A: Array, C: float, eta: float = 0.0) -> float:
    """1/2 ||M - M_t||_F^2 + C l_rh(<A, M>): Eq. (11), the true robust problem; Eq. (9) when eta = 0."""
    return float(0.5 * np.sum((M - M_t) ** 2) + C * rescaled_hinge(np.sum(A * M), eta))


def objective_lowrank(L: Array, L_t: Array, A: Array, C: float, eta: float = 0.0) -> float:
    """1/2 ||L - L_t||_F^2 + C l_rh(<A, L L'>): Eq. (26) with v maximised out; the hinge when eta = 0."""
    return float(0.5 * np.sum((L - L_t) ** 2) + C * rescaled_hinge(np.sum(A * (L @ L.T)), eta))


def prox_full_numeric(
    M_t: Array, A: Array, C: float, psd: bool = False, n_starts: int = 8, seed: int = 0
) -> tuple[Array, float]:
    """Minimiser and value of 1/2 ||M - M_t||_F^2 + C hinge(<A, M>), Eq. (21); over M >= 0 (Eq. 24) if `psd`.

    The constraint M >= 0 is met by writing M = G G' with a square G. Meant for d <= 5.
    """
    d = len(M_t)

    def matrix(theta: Array) -> Array:
        G = theta.reshape(d, d)
        return G @ G.T if psd else G

    def pull_back(dM: Array, theta: Array) -> Array:
        """Gradient in theta of a function whose gradient in M is dM."""
        return ((dM + dM.T) @ theta.reshape(d, d) if psd else dM).ravel()

    rng = np.random.default_rng(seed)
    values, vectors = np.linalg.eigh(0.5 * (M_t + M_t.T))
    base = vectors * np.sqrt(np.maximum(values, 0.0)) if psd else M_t
    starts = [base + scale * rng.normal(size=(d, d)) for scale in np.linspace(0.05, 1.5, n_starts)]
    theta = _minimize_slack(matrix, pull_back, M_t, A, C, starts, in_parameter=False)
    best = matrix(theta)
    return best, objective_full(best, M_t, A, C)


def prox_lowrank_numeric(L_t: Array, A: Array, C: float, n_starts: int = 20, seed: int = 0) -> tuple[Array, float]:
    """Global minimiser (by many starts) and value of 1/2 ||L - L_t||_F^2 + C hinge(<A, L L'>), Eq. (31).

    Not convex: the smallest of the local minima is returned. Meant for d <= 5 and r <= 3.
    """
    rng = np.random.default_rng(seed)

    def matrix(theta: Array) -> Array:
        L = theta.reshape(L_t.shape)
        return L @ L.T

    def pull_back(dM: Array, theta: Array) -> Array:
        return ((dM + dM.T) @ theta.reshape(L_t.shape)).ravel()

    starts = [L_t + scale * rng.normal(size=L_t.shape) for scale in np.linspace(0.02, 3.0, n_starts)]
    theta = _minimize_slack(matrix, pull_back, L_t, A, C, starts, in_parameter=True)
    best = theta.reshape(L_t.shape)
    return best, objective_lowrank(best, L_t, A, C)


def _minimize_slack(
    matrix: Callable[[Array], Array],
    pull_back: Callable[[Array, Array], Array],
    origin: Array,
    A: Array,
    C: float,
    starts: list[Array],
    in_parameter: bool,
) -> Array:
    """Best theta of min 1/2 ||. - origin||^2 + C xi, xi >= 1 - <A, matrix(theta)>, xi >= 0, over `starts`.

    The proximity term measures theta itself if `in_parameter`, otherwise matrix(theta).
    """

    def gap(theta: Array) -> float:
        return 1.0 - float(np.sum(A * matrix(theta)))

    def distance_to_origin(theta: Array) -> Array:
        return (theta.reshape(origin.shape) if in_parameter else matrix(theta)) - origin

    def value(both: Array) -> float:
        return float(0.5 * np.sum(distance_to_origin(both[:-1]) ** 2) + C * both[-1])

    def gradient(both: Array) -> Array:
        step = distance_to_origin(both[:-1])
        return np.append(step.ravel() if in_parameter else pull_back(step, both[:-1]), C)

    constraints = [
        {
            "type": "ineq",
            "fun": lambda both: both[-1] - gap(both[:-1]),
            "jac": lambda both: np.append(pull_back(A, both[:-1]), 1.0),
        },
        {"type": "ineq", "fun": lambda both: both[-1], "jac": lambda both: np.eye(len(both))[-1]},
    ]
    best, best_value = starts[0].ravel(), np.inf
    for start in starts:
        theta = start.ravel()
        both = np.append(theta, max(0.0, gap(theta)))
        result = minimize(
            value,
            both,
            jac=gradient,
            constraints=constraints,
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 1000},
        )
        theta = result.x[:-1]
        found = float(0.5 * np.sum(distance_to_origin(theta) ** 2) + C * max(0.0, gap(theta)))
        if found < best_value:
            best, best_value = theta, found
    return best


def negative_eigenpairs(M: Array) -> tuple[Array, Array]:
    """The negative eigenvalues of a symmetric M, ascending, and their unit eigenvectors as columns."""
    values, vectors = np.linalg.eigh(M)
    negative = values < 0.0
    return values[negative], vectors[:, negative]


def psd_clip(M: Array) -> Array:
    """P_+(M) = M - sum of lambda q q' over the negative eigenpairs, sec. 2.4(5)."""
    values, vectors = negative_eigenpairs(M)
    return M - (vectors * values) @ vectors.T
