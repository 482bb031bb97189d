"""SLMOML, literally (secs. 2.5, 3.6): LogDet proximity to M_t plus the hinge of a triplet.

min_M D_ld(M, M_t) + C [1 - <A, M>]_+ ,  D_ld(M, M_t) = tr(M M_t^{-1}) - log det(M M_t^{-1}) - d   (A22).

The minimiser is additive in the inverse, M^{-1} = M_t^{-1} - tau A, so this twin keeps P = M^{-1}, inverts it densely
whenever it needs M, and finds the kink by bisection. The closed forms of sec. 2.5 stand beside it, to be compared.
"""

import numpy as np

from .common import Array, Run, bisect_decreasing, distance_direction
from .half_quadratic import as_run, half_quadratic
from .losses import hinge, plausibility, weight

CLIP = 1.0 - 1e-12  # the kink lies below the largest step that keeps P positive definite


def inverse(M: Array) -> Array:
    """M^{-1}, dense."""
    return np.asarray(np.linalg.inv(M), dtype=np.float64)


def gap_at(P: Array, A: Array) -> float:
    """1 - <A, P^{-1}>."""
    return 1.0 - float(np.sum(A * inverse(P)))


def largest_step(P: Array, A: Array) -> float:
    """Supremum of the tau for which P - tau A is positive definite."""
    root = np.linalg.inv(np.linalg.cholesky(P))
    largest = float(np.linalg.eigvalsh(root @ A @ root.T)[-1])
    return 1.0 / largest if largest > 0.0 else np.inf


def kink(P: Array, A: Array, largest_cap: float) -> float:
    """tau_0, where the loss becomes zero; `largest_cap` if it is positive up to there."""
    return bisect_decreasing(lambda tau: gap_at(P - tau * A, A), min(largest_cap, CLIP * largest_step(P, A)))


def slmoml(
    anchors: Array,
    positives: Array,
    negatives: Array,
    C: float = 0.1,
    eta: float = 0.0,
    max_hq_iter: int = 3,
    M0: Array | None = None,
) -> Run:
    """SLMOML; robust when eta > 0. `M0` (positive definite) is the identity unless given. C must be finite."""
    P = np.eye(anchors.shape[1]) if M0 is None else inverse(M0)
    omegas, taus = [], []
    for x, x_plus, x_minus in zip(anchors, positives, negatives, strict=True):
        A = distance_direction(x, x_plus, x_minus)
        loss = float(hinge(1.0 - gap_at(P, A)))
        tau, omega = 0.0, float(plausibility(loss, eta))
        if loss > 0.0 and np.sum(A * A) > 0.0:
            P, tau, omega = _step(P, A, C, eta, max_hq_iter)
        omegas.append(omega)
        taus.append(tau)
    return as_run(inverse(P), omegas, taus)


def _step(P_t: Array, A: Array, C: float, eta: float, max_hq_iter: int) -> tuple[Array, float, float]:
    tau_0 = kink(P_t, A, largest_cap=C * float(weight(0.0, eta)))
    tau, omega = half_quadratic(lambda tau: max(0.0, gap_at(P_t - tau * A, A)), tau_0, C, eta, max_hq_iter)
    return P_t - tau * A, tau, omega


def closed_form_kink(M: Array, u: Array, v: Array) -> float:
    """tau_0 of sec. 2.5 for a triplet with a positive loss; infinite where the loss never reaches zero."""
    p, q, s = float(u @ M @ u), float(v @ M @ v), float(u @ M @ v)
    delta, g = p - q, max(0.0, p * q - s * s)
    if g == 0.0:
        return -(1.0 + delta) / delta if delta < 0.0 else np.inf
    R = float(np.sqrt(delta**2 + 4.0 * g * (g + 1.0)))
    if delta <= 2.0 * g:
        return 2.0 * (1.0 + delta) / (R - (delta - 2.0 * g))
    return (delta - 2.0 * g + R) / (2.0 * g)


def closed_form_matrix(M: Array, u: Array, v: Array, tau: float) -> Array:
    """M_{t+1} of sec. 2.5, a rank-two change of M."""
    u_bar, v_bar = M @ u, M @ v
    p, q, s = float(u @ u_bar), float(v @ v_bar), float(u @ v_bar)
    Delta = 1.0 + tau * (p - q) - tau**2 * (p * q - s * s)
    cross = np.outer(u_bar, v_bar) + np.outer(v_bar, u_bar)
    inner = (1.0 - tau * q) * np.outer(u_bar, u_bar) - (1.0 + tau * p) * np.outer(v_bar, v_bar) + tau * s * cross
    return np.asarray(M - tau / Delta * inner, dtype=np.float64)


def closed_form_gap(M: Array, u: Array, v: Array, tau: float) -> float:
    """l(tau) of sec. 2.5 before it is cut at zero."""
    p, q, s = float(u @ M @ u), float(v @ M @ v), float(u @ M @ v)
    delta, g = p - q, p * q - s * s
    return 1.0 + (delta - 2.0 * tau * g) / (1.0 + tau * delta - tau**2 * g)
