"""Passive-aggressive learning of a vector, sec. 2.1: PA, PA-I and PA-II.

min_w 1/2 ||w - w_t||^2 + (nothing but l = 0 | C l | C l^2),  l = max(0, 1 - y <w, x>)

With rows vec(A), y = 1 and w_1 = vec(I) PA-I is OASIS; with the other two variants it states what they mean for a
matrix.
"""

import numpy as np

from .common import Array, Run
from .half_quadratic import as_run
from .losses import hinge, plausibility, weight

VARIANTS = ("PA", "PA-I", "PA-II")


def pa_tau(loss: float, sq_norm: float, C_t: float, variant: str) -> float:
    """Size of the step, sec. 2.1, for the loss at w_t."""
    if variant == "PA":
        return loss / sq_norm
    if variant == "PA-I":
        return min(C_t, loss / sq_norm)
    return loss / (sq_norm + 1.0 / (2.0 * C_t))


def passive_aggressive(
    X: Array,
    y: Array,
    C: float = 1.0,
    variant: str = "PA-I",
    eta: float = 0.0,
    max_hq_iter: int = 3,
    w0: Array | None = None,
) -> Run:
    """One pass over rows X with signs y in {-1, 1}; `w0` is zero unless given. `parameter` is w, tau counts in y x.

    Robust when eta > 0: C is replaced by C_t = C weight(l). PA has no C, so its step stays as it is. For PA-II that is
    the half-quadratic form of the bounded loss (2 beta / eta) [1 - (1 + eta l) exp(-eta l)], which tends to l^2.
    """
    if variant not in VARIANTS:
        raise ValueError(f"passive_aggressive: variant must be one of {VARIANTS}, got {variant!r}.")
    w = np.zeros(X.shape[1]) if w0 is None else np.array(w0, dtype=np.float64)
    omegas, taus = [], []
    for x, sign in zip(X, y, strict=True):
        direction = sign * x
        sq_norm = float(direction @ direction)
        loss_t = float(hinge(direction @ w))
        tau, omega = 0.0, float(plausibility(loss_t, eta))
        if loss_t > 0.0 and sq_norm > 0.0:  # otherwise passive
            for _ in range(max_hq_iter):
                loss = float(hinge(direction @ (w + tau * direction)))  # at the iterate (A6), rebuilt from w_t (A3)
                tau = pa_tau(loss_t, sq_norm, C * float(weight(loss, eta)), variant)
            w = w + tau * direction
        omegas.append(omega)
        taus.append(tau)
    return as_run(w, omegas, taus)
