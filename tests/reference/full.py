"""Algorithms 1 and 2, literally: the full matrix M, one triplet at a time, with actual d x d matrices.

Resolutions used: the half-quadratic loop restarts every step from M_t (A3) unless it is told to add up, the weight
comes before the step (A6), the projection is done once per triplet, outside that loop (A4). The plausibility of a
triplet is its weight before the loop.
"""

from collections.abc import Iterable

import numpy as np

from .common import Array, Run, Triplet, bisect_decreasing, distance_direction, similarity_direction
from .losses import hinge, plausibility, weight


def psd_part(M: Array) -> Array:
    """P_+(M): eigendecomposition with the negative eigenvalues set to zero (text below Eq. 25).

    A matrix without a negative eigenvalue comes back as it is.
    """
    values, vectors = np.linalg.eigh(M)
    if values[0] >= 0.0:
        return M
    clipped = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return np.asarray(0.5 * (clipped + clipped.T), dtype=np.float64)


def loss_at(M: Array, A: Array) -> float:
    """l = max(0, 1 - <A, M>), Eqs. (6)-(8)."""
    return float(hinge(np.sum(A * M)))


def pa_step(
    M_t: Array, A: Array, C: float, eta: float, max_hq_iter: int, hq: str = "anchored"
) -> tuple[Array, float, float]:
    """Loop 3.3 of Alg. 1 and 2: half-quadratic iterations of the passive-aggressive step, Eqs. (21), (24).

    Returns the new matrix (not projected), tau (in all) and the plausibility at M_t.
    """
    loss_t, sq_norm = loss_at(M_t, A), float(np.sum(A * A))
    M, tau, omega = M_t, 0.0, float(plausibility(loss_t, eta))
    for _ in range(max_hq_iter):  # Alg. 1, 3.3
        loss = loss_at(M, A)
        C_t = C * float(weight(loss, eta))  # 3.3.1, Eq. (17), at the current iterate (A6), and 3.3.2
        if hq == "cumulative":
            step = min(C_t, loss / sq_norm)  # 3.3.3: the loss is the one at the current M
            M, tau = M + step * A, tau + step  # 3.3.4, from the current M
        else:
            tau = min(C_t, loss_t / sq_norm)  # 3.3.3: the loss is the one at M_t
            M = M_t + tau * A  # 3.3.4: Eqs. (22), (25), from M_t (A3)
    return M, tau, omega


def exact_psd_step(
    M_t: Array, A: Array, C: float, eta: float, max_hq_iter: int, hq: str = "anchored"
) -> tuple[Array, float, float]:
    """The true minimiser of Eq. (24) with M >= 0: M = P_+(M_t + tau A), sec. 2.4(7), inside the HQ loop.

    tau_0 is where the loss *after* projection becomes zero. No cap exceeds C beta eta, so a zero beyond
    that is never needed and the search stops there (C must be finite).
    """
    tau_0 = bisect_decreasing(
        lambda tau: 1.0 - float(np.sum(A * psd_part(M_t + tau * A))), upper=C * float(weight(0.0, eta))
    )
    M, tau, omega = M_t, 0.0, float(plausibility(loss_at(M_t, A), eta))
    for _ in range(max_hq_iter):
        loss = loss_at(M, A)  # loss of the projected iterate
        begin = tau if hq == "cumulative" else 0.0
        tau = min(begin + C * float(weight(loss, eta)), tau_0)  # sec. 2.3
        M = psd_part(M_t + tau * A)  # sec. 2.4(7)
    return M, tau, omega


def oasis(
    triplets: Iterable[Triplet],
    C: float,
    eta: float = 0.0,
    max_hq_iter: int = 3,
    M0: Array | None = None,
    hq: str = "anchored",
) -> Run:
    """Algorithm 1, Robust-OASIS; OASIS when eta = 0. `M0` is the identity unless given."""
    M = None if M0 is None else np.array(M0, dtype=np.float64)
    omegas, taus = [], []
    for x, x_plus, x_minus in triplets:  # Alg. 1, 3.1
        if M is None:
            M = np.eye(len(x))  # Alg. 1, 1
        A = similarity_direction(x, x_plus, x_minus)  # Alg. 1, 3.2
        loss = loss_at(M, A)
        tau, omega = 0.0, float(plausibility(loss, eta))
        if loss > 0.0 and np.sum(A * A) > 0.0:  # otherwise passive (sec. 1, A2)
            M, tau, omega = pa_step(M, A, C, eta, max_hq_iter, hq)  # Alg. 1, 3.3
        omegas.append(omega)
        taus.append(tau)
    return _run(M, omegas, taus)


def odml(
    triplets: Iterable[Triplet],
    C: float,
    eta: float = 0.0,
    max_hq_iter: int = 3,
    psd: str = "project",
    M0: Array | None = None,
    hq: str = "anchored",
) -> Run:
    """Algorithm 2, Robust-ODML; ODML when eta = 0. `M0` (symmetric, >= 0) is the identity unless given.

    psd : "project" step, then P_+ after each triplet that moved M (A4); "exact" the minimiser of Eq. (24),
        sec. 2.4(7) (A20); "end" P_+ once, after the last triplet; "none" never.
    """
    if psd not in ("project", "exact", "end", "none"):
        raise ValueError(f"odml: psd must be 'project', 'exact', 'end' or 'none', got {psd!r}.")
    M = None if M0 is None else np.array(M0, dtype=np.float64)
    omegas, taus = [], []
    for x, x_plus, x_minus in triplets:  # Alg. 2, 3.1
        if M is None:
            M = np.eye(len(x))  # Alg. 2, 1
        A = distance_direction(x, x_plus, x_minus)  # Alg. 2, 3.2
        loss = loss_at(M, A)
        tau, omega = 0.0, float(plausibility(loss, eta))
        if loss > 0.0 and np.sum(A * A) > 0.0:  # otherwise passive (sec. 1, A2)
            if psd == "exact":
                M, tau, omega = exact_psd_step(M, A, C, eta, max_hq_iter, hq)
            else:
                M, tau, omega = pa_step(M, A, C, eta, max_hq_iter, hq)  # Alg. 2, 3.3
            if psd == "project":
                M = psd_part(M)  # Alg. 2, 4, once per triplet (A4)
        omegas.append(omega)
        taus.append(tau)
    if psd == "end" and M is not None:
        M = psd_part(M)  # Alg. 2, 4, read as "after the loop"
    return _run(M, omegas, taus)


def _run(M: Array | None, omegas: list[float], taus: list[float]) -> Run:
    if M is None:
        raise ValueError("no triplet and no M0: the dimension is unknown.")
    tau = np.array(taus, dtype=np.float64)
    return Run(M, np.array(omegas, dtype=np.float64), tau, int(np.sum(tau > 0.0)))
