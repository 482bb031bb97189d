"""Algorithms 3 and 4, literally: the factor L (d, r) of M = L L', one triplet at a time.

solver="exact" solves Eq. (31) by the closed form of sec. 2.6, with a dense inverse and a bisected root (A10);
solver="subgradient" takes the steps of Eqs. (32) and (33), with the indicator of a positive loss (A11).
In both the half-quadratic loop restarts from L_t (A3) and computes the weight first (A6).
"""

from collections.abc import Callable, Iterable

import numpy as np

from .common import (
    Array,
    Direction,
    Run,
    Triplet,
    bisect_decreasing,
    distance_direction,
    similarity_direction,
)
from .losses import hinge, plausibility, weight

CLIP = 1.0 - 1e-6  # share of the largest valid step up to which the curve of `prox` is used, sec. 2.6 "hard case"
HAIR = 1e-6  # share of the new part that the least used column begins with at most

Bound = Callable[[Array, Array, Array], float]


def gap_at(L: Array, A: Array) -> float:
    """1 - z = 1 - <A, L L'>, Eqs. (27)-(30); the loss before it is cut at zero."""
    return 1.0 - float(np.sum(A * (L @ L.T)))


def loss_at(L: Array, A: Array) -> float:
    """l = max(0, 1 - <A, L L'>), Eq. (8) with (29) or (30)."""
    return float(hinge(np.sum(A * (L @ L.T))))


def similarity_bound(x: Array, x_plus: Array, x_minus: Array) -> float:
    """Largest valid tau, 1 / (xi + ||x|| ||w||), sec. 2.6; infinite when the denominator vanishes."""
    w = x_plus - x_minus
    denominator = float(x @ w + np.linalg.norm(x) * np.linalg.norm(w))
    return 1.0 / denominator if denominator > 0.0 else np.inf


def distance_bound(x: Array, x_plus: Array, x_minus: Array) -> float:
    """Largest valid tau, lambda_max / 2, sec. 2.6.

    lambda_max = ((a - b) + R) / (2 g) = 2 / ((b - a) + R), R = sqrt((a - b)^2 + 4 g): the form without
    cancellation is used. With g = 0 it is infinite if a >= b, else 1 / (b - a).
    """
    u, v = x - x_plus, x - x_minus
    a, b, c = float(u @ u), float(v @ v), float(u @ v)
    g = max(0.0, a * b - c * c)
    R = np.sqrt((a - b) ** 2 + 4.0 * g)
    if b > a:
        lambda_max = 2.0 / ((b - a) + R)
    elif g > 0.0:
        lambda_max = ((a - b) + R) / (2.0 * g)
    else:
        lambda_max = np.inf
    return float(0.5 * lambda_max)


def prox(L_t: Array, A: Array, tau: float) -> Array:
    """Stationary point of 1/2 ||L - L_t||^2 + tau l(L): L = (I - tau (A + A'))^{-1} L_t, sec. 2.6.

    For the distance A is symmetric and this is (I - 2 tau A)^{-1} L_t = (I - lambda A)^{-1} L_t.
    """
    return np.asarray(np.linalg.solve(np.eye(len(L_t)) - tau * (A + A.T), L_t), dtype=np.float64)


def kink(L_t: Array, A: Array, bound: float, largest_cap: float) -> float:
    """tau_0, where the loss of `prox` becomes zero, sec. 2.6.

    Hard case: (1 - 1e-6) times the bound where the loss is still positive there. No cap exceeds C beta eta
    (`largest_cap`), so the search stops there and returns it when the loss is positive all the way.
    """
    return bisect_decreasing(lambda tau: gap_at(prox(L_t, A, tau), A), upper=min(largest_cap, CLIP * bound))


def start(L_t: Array, A: Array, g: Array) -> Array:
    """Minimiser at the largest valid step, where I - tau (A + A') is singular along a unit vector e.

    Any L with (I - tau (A + A')) L = L_t apart from e is stationary; its part along e has the length that brings the
    loss to zero. It keeps the direction it had; without one, it goes to the column with the smallest norm, the last of
    equals, so that e points towards g.
    """
    values, vectors = np.linalg.eigh(A + A.T)  # m_plus is the last value
    e, m_plus = vectors[:, -1] * np.sign(vectors[:, -1] @ g), values[-1]
    rest = vectors[:, :-1]
    L = rest @ ((rest.T @ L_t) / (1.0 - values[:-1] / m_plus)[:, None])
    length = np.sqrt(gap_at(L, A) / (0.5 * m_plus))
    norms = np.sum(L_t**2, axis=0)
    column = int(np.flatnonzero(norms == norms.min())[-1])
    along = L_t.T @ e
    lacking = max(0.0, (HAIR * length) ** 2 - along @ along)
    along[column] = np.copysign(np.sqrt(along[column] ** 2 + lacking), along[column])
    return np.asarray(L + np.outer(e, length * along / np.linalg.norm(along)), dtype=np.float64)


def exact_step(
    L_t: Array, A: Array, bound: float, g: Array, C: float, eta: float, max_hq_iter: int
) -> tuple[Array, float, float]:
    """Loop 3.3 of Alg. 3 and 4 with the exact minimiser of Eq. (31), secs. 2.3 and 2.6."""
    is_hard = np.isfinite(bound) and gap_at(prox(L_t, A, CLIP * bound), A) > 0.0  # the curve does not get there
    tau_0 = bound if is_hard else kink(L_t, A, bound, largest_cap=C * float(weight(0.0, eta)))
    L, tau, omega = L_t, 0.0, float(plausibility(loss_at(L_t, A), eta))
    for _ in range(max_hq_iter):  # Alg. 3, 3.3
        loss = loss_at(L, A)
        C_t = C * float(weight(loss, eta))  # 3.3.1, Eq. (17), and 3.3.2
        tau = min(C_t, tau_0)  # sec. 2.3; for the distance lambda = 2 tau <= 2 C_t
        L = start(L_t, A, g) if tau >= bound else prox(L_t, A, tau)  # 3.3.3, from L_t (A3)
    return L, tau, omega


def subgradient(L: Array, L_t: Array, A: Array, C_t: float) -> Array:
    """Eq. (32): (L - L_t) - C_t (A + A') L; for symmetric A this is Eq. (33): (L - L_t) - 2 C_t A L.

    The second part counts only while the loss is positive (A11).
    """
    if loss_at(L, A) > 0.0:
        return (L - L_t) - C_t * (A + A.T) @ L
    return L - L_t


def subgradient_step(
    L_t: Array, A: Array, C: float, eta: float, max_hq_iter: int, step_size: float, n_steps: int
) -> tuple[Array, float, float]:
    """Loop 3.3 of Alg. 3 and 4 as written: `n_steps` sub-gradient steps from L_t per HQ iteration (A3, A10).

    The tau reported is C_t of the last iteration.
    """
    L, C_t, omega = L_t, 0.0, float(plausibility(loss_at(L_t, A), eta))
    for _ in range(max_hq_iter):  # Alg. 3, 3.3
        C_t = C * float(weight(loss_at(L, A), eta))  # 3.3.1, at the previous iteration's L, and 3.3.2, fixed from here
        L = L_t
        for _ in range(n_steps):  # 3.3.3
            L = L - step_size * subgradient(L, L_t, A, C_t)  # Eqs. (32), (33)
    return L, C_t, omega


def losl(
    triplets: Iterable[Triplet],
    C: float,
    L0: Array,
    eta: float = 0.0,
    max_hq_iter: int = 3,
    solver: str = "exact",
    step_size: float = 1.0,
    n_steps: int = 1,
) -> Run:
    """Algorithm 3, Robust-LOSL (similarity); LOSL when eta = 0. `L0` is (d, r)."""
    return _low_rank(
        triplets, C, L0, eta, max_hq_iter, solver, step_size, n_steps, similarity_direction, similarity_bound
    )


def lodml(
    triplets: Iterable[Triplet],
    C: float,
    L0: Array,
    eta: float = 0.0,
    max_hq_iter: int = 3,
    solver: str = "exact",
    step_size: float = 1.0,
    n_steps: int = 1,
) -> Run:
    """Algorithm 4, Robust-LODML (distance); LODML when eta = 0. `L0` is (d, r)."""
    return _low_rank(triplets, C, L0, eta, max_hq_iter, solver, step_size, n_steps, distance_direction, distance_bound)


def _low_rank(
    triplets: Iterable[Triplet],
    C: float,
    L0: Array,
    eta: float,
    max_hq_iter: int,
    solver: str,
    step_size: float,
    n_steps: int,
    direction: Direction,
    bound: Bound,
) -> Run:
    """Algorithms 3 and 4: they differ only in A and in the largest valid step."""
    if solver not in ("exact", "subgradient"):
        raise ValueError(f"solver must be 'exact' or 'subgradient', got {solver!r}.")
    L = np.array(L0, dtype=np.float64)  # Alg. 3, 1 (A9)
    omegas, taus = [], []
    for x, x_plus, x_minus in triplets:  # Alg. 3, 3.1
        A = direction(x, x_plus, x_minus)  # Eqs. (32), (33)
        loss = loss_at(L, A)
        tau, omega = 0.0, float(plausibility(loss, eta))
        if loss > 0.0 and np.sum(A * A) > 0.0:  # otherwise passive (sec. 1, A2, A11)
            L_t = L
            g = x if direction is similarity_direction else (x - x_plus) + (x - x_minus)
            if solver == "exact":
                L, tau, omega = exact_step(L, A, bound(x, x_plus, x_minus), g, C, eta, max_hq_iter)
            else:
                L, tau, omega = subgradient_step(L, A, C, eta, max_hq_iter, step_size, n_steps)
            if np.array_equal(L, L_t) and not np.any((A + A.T) @ L_t):
                tau = 0.0  # what moves nothing is not an update
        omegas.append(omega)
        taus.append(tau)
    tau_array = np.array(taus, dtype=np.float64)
    return Run(L, np.array(omegas, dtype=np.float64), tau_array, int(np.sum(tau_array > 0.0)))
