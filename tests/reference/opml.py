"""OPML and COPML, literally (sec. 3.5): a square L with M = L L', one dense inverse per step.

min_L 1/2 ||L - L_t||_F^2 + (lambda / 2) [1 + ||L'u||^2 - ||L'v||^2]_+   with   lambda = 2 C,

so C means what it means everywhere and a step of size tau is lambda = 2 tau (sec. 2.6).
"""

from collections.abc import Hashable, Sequence

import numpy as np

from .common import Array, Run, bisect_decreasing
from .half_quadratic import as_run, half_quadratic
from .losses import hinge, plausibility
from .lowrank import exact_step
from .triplets import one_pass

CLIP = 1.0 - 1e-6  # share of the largest valid step that exact=True may use, sec. 2.6 "hard case"
C_RELEASED = 5e-4  # lambda = 1e-3


def difference_matrix(x: Array, x_plus: Array, x_minus: Array) -> Array:
    """The article's u u' - v v' (which is -A)."""
    u, v = x - x_plus, x - x_minus
    return np.outer(u, u) - np.outer(v, v)


def gap_at(L: Array, U: Array) -> float:
    """1 + ||L'u||^2 - ||L'v||^2, the loss before it is cut at zero."""
    return 1.0 + float(np.sum(U * (L @ L.T)))


def published_step(L_t: Array, U: Array, lambda_: float) -> Array:
    """L = (I + lambda (u u' - v v'))^{-1} L_t, by a dense inverse."""
    return np.asarray(np.linalg.inv(np.eye(len(L_t)) + lambda_ * U) @ L_t, dtype=np.float64)


def expanded_inverse(B: Array) -> Array:
    """The authors' (I + B)^{-1} for B of rank two: I - (eta' B - B^2) / (eta' + beta')."""
    trace, trace_of_square = float(np.trace(B)), float(np.trace(B @ B))
    eta_, beta_ = 1.0 + trace, 0.5 * (trace**2 - trace_of_square)
    return np.asarray(np.eye(len(B)) - (eta_ * B - B @ B) / (eta_ + beta_), dtype=np.float64)


def lambda_max(U: Array) -> float:
    """Largest lambda for which I + lambda (u u' - v v') is positive definite, from its eigenvalues."""
    smallest = float(np.linalg.eigvalsh(U)[0])
    return 1.0 / -smallest if smallest < 0.0 else np.inf


def kink(L_t: Array, U: Array, largest_cap: float) -> float:
    """tau_0 = lambda_0 / 2, where the loss becomes zero; clipped below lambda_max / 2, and at `largest_cap`."""
    upper = min(largest_cap, CLIP * 0.5 * lambda_max(U))
    return bisect_decreasing(lambda tau: gap_at(published_step(L_t, U, 2.0 * tau), U), upper)


def triplet_step(
    L_t: Array, U: Array, C: float, eta: float, max_hq_iter: int, exact: bool, g: Array
) -> tuple[Array, float, float]:
    """The new L, tau and the plausibility before it, for a triplet with a positive loss.

    exact=False takes lambda as given, as published, also where that overshoots the hinge; exact=True is the global
    minimiser, that of Alg. 4 with A = -U.
    """
    if exact:
        return exact_step(L_t, -U, 0.5 * lambda_max(U), g, C, eta, max_hq_iter)
    tau_0 = np.inf
    tau, omega = half_quadratic(
        lambda tau: max(0.0, gap_at(published_step(L_t, U, 2.0 * tau), U)), tau_0, C, eta, max_hq_iter
    )
    return published_step(L_t, U, 2.0 * tau), tau, omega


def opml(
    anchors: Array,
    positives: Array,
    negatives: Array,
    C: float = C_RELEASED,
    eta: float = 0.0,
    max_hq_iter: int = 3,
    exact: bool = False,
    L0: Array | None = None,
) -> Run:
    """OPML on given triplets; robust when eta > 0. `L0` is the identity unless given. C must be finite."""
    L = np.eye(anchors.shape[1]) if L0 is None else np.array(L0, dtype=np.float64)
    omegas, taus = [], []
    for x, x_plus, x_minus in zip(anchors, positives, negatives, strict=True):
        L, tau, omega = _learn(L, x, x_plus, x_minus, C, eta, max_hq_iter, exact)
        omegas.append(omega)
        taus.append(tau)
    return as_run(L, omegas, taus)


def pair_step(L_t: Array, e: Array, lambda_: float) -> Array:
    """L = L_t - lambda / (1 + lambda ||e||^2) e (L_t' e)': minimiser of 1/2 ||L - L_t||^2 + lambda/2 ||L'e||^2."""
    return L_t - lambda_ / (1.0 + lambda_ * float(e @ e)) * np.outer(e, L_t.T @ e)


def copml(
    X: Array,
    y: Sequence[Hashable],
    C: float = C_RELEASED,
    C_pair: float = C_RELEASED,
    eta: float = 0.0,
    max_hq_iter: int = 3,
    exact: bool = False,
    L0: Array | None = None,
) -> Run:
    """OPML with a cold start, on a stream of labelled rows; plausibility and tau are per row.

    While only one class has been seen, each row and the one before it make a similar pair with loss ||L'e||^2, which
    has no margin and no kink. The pair is the triplet (x, x_prev, x), so the robust form weighs it by the hinge of that
    triplet, 1 + ||L'e||^2. From the second class on, `one_pass` triplets. A row with neither has plausibility 1 and
    tau 0.
    """
    L = np.eye(X.shape[1]) if L0 is None else np.array(L0, dtype=np.float64)
    triplet_of_row = {row: (positive, negative) for row, positive, negative in one_pass(X, y)}
    omegas, taus = [1.0] * len(X), [0.0] * len(X)
    for row in range(1, len(X)):
        if len(set(y[: row + 1])) == 1:  # cold start
            e = X[row] - X[row - 1]
            L, taus[row], omegas[row] = _learn_pair(L, e, C_pair, eta, max_hq_iter)
        elif row in triplet_of_row:
            positive, negative = triplet_of_row[row]
            L, taus[row], omegas[row] = _learn(L, X[row], X[positive], X[negative], C, eta, max_hq_iter, exact)
    return as_run(L, omegas, taus)


def _learn(
    L: Array, x: Array, x_plus: Array, x_minus: Array, C: float, eta: float, max_hq_iter: int, exact: bool
) -> tuple[Array, float, float]:
    U = difference_matrix(x, x_plus, x_minus)
    loss = float(hinge(1.0 - gap_at(L, U)))
    if loss > 0.0 and np.sum(U * U) > 0.0:
        return triplet_step(L, U, C, eta, max_hq_iter, exact, (x - x_plus) + (x - x_minus))
    return L, 0.0, float(plausibility(loss, eta))


def _learn_pair(L_t: Array, e: Array, C: float, eta: float, max_hq_iter: int) -> tuple[Array, float, float]:
    if not np.any(e):
        return L_t, 0.0, float(plausibility(1.0, eta))

    def loss_after(tau: float) -> float:
        return 1.0 + float(np.sum((pair_step(L_t, e, 2.0 * tau).T @ e) ** 2))

    tau, omega = half_quadratic(loss_after, np.inf, C, eta, max_hq_iter)
    return pair_step(L_t, e, 2.0 * tau), tau, omega
