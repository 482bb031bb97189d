"""LSMDML with dual random projection, literally (sec. 3.8): learn in a sketch, rebuild in the original space.

A_hat = R_1' A R_2 with two independent (d, m) matrices of entries N(0, 1/m) keeps inner products on average; one shared
matrix would not. The steps tau_t found in the sketch belong to the original A_t: M = P_+(I + sum_t tau_t A_t).
"""

from collections.abc import Sequence

import numpy as np

from .common import Array
from .full import psd_part
from .half_quadratic import half_quadratic
from .losses import hinge, plausibility
from .multimodal import MultiRun, as_multi_run, directions


def random_projections(d: int, m: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """R_1 and R_2, (d, m) each, entries N(0, 1/m)."""
    return rng.normal(scale=m**-0.5, size=(d, m)), rng.normal(scale=m**-0.5, size=(d, m))


def sketch(A: Array, R_1: Array, R_2: Array) -> Array:
    """A_hat = R_1' A R_2, (m, m); not symmetric."""
    return np.asarray(R_1.T @ A @ R_2, dtype=np.float64)


def low_rank_part(M: Array, r: int) -> Array:
    """The r largest eigenpairs of a positive semi-definite M, as L (d, r) with L L' nearest to M."""
    values, vectors = np.linalg.eigh(M)
    return np.asarray(vectors[:, ::-1][:, :r] * np.sqrt(np.maximum(values[::-1][:r], 0.0)), dtype=np.float64)


def clip_and_normalise(theta: Array) -> Array | None:
    """Weights cut at zero, with sum 1; None where nothing is left."""
    positive = np.maximum(theta, 0.0)
    total = float(np.sum(positive))
    return np.asarray(positive / total, dtype=np.float64) if total > 0.0 else None


def onto_simplex(theta: Array) -> Array:
    """Nearest point with entries >= 0 and sum 1: max(0, theta - shift), the shift found by trying every support."""
    descending = np.sort(theta)[::-1]
    for size in range(len(theta), 0, -1):
        shift = (float(np.sum(descending[:size])) - 1.0) / size
        if descending[size - 1] - shift > 0.0:
            return np.asarray(np.maximum(0.0, theta - shift), dtype=np.float64)
    raise AssertionError("one entry always suffices")


def weights_step(theta: Array, f: Array, C: float, eta: float, max_hq_iter: int, simplex: bool) -> Array:
    """min 1/2 ||theta - theta_t||^2 + C [1 + <theta, f>]_+, then back to weights; as before if none would be left."""
    loss_t, sq_norm = max(0.0, 1.0 + float(theta @ f)), float(f @ f)
    if not (loss_t > 0.0 and sq_norm > 0.0):
        return theta
    tau, _ = half_quadratic(
        lambda tau: max(0.0, 1.0 + float((theta - tau * f) @ f)), loss_t / sq_norm, C, eta, max_hq_iter
    )
    new = onto_simplex(theta - tau * f) if simplex else clip_and_normalise(theta - tau * f)
    return theta if new is None else new


def lsmdml(
    anchors: Sequence[Array],
    positives: Sequence[Array],
    negatives: Sequence[Array],
    projections: Sequence[tuple[Array, Array]],
    C: float = 0.1,
    C_weights: float = 0.1,
    eta: float = 0.0,
    max_hq_iter: int = 3,
    simplex: bool = False,
) -> MultiRun:
    """LSMDML: `projections[k]` is (R_1, R_2) of modality k. `parameters` are the recovered M_k; robust when eta > 0.

    Metrics move in their sketches, M_hat = R_1' R_2 at first; the weights move by PA on f_k = -<A_hat_k, M_hat_k>, all
    taken before the triplet. Projection to the cone happens once, at recovery.
    """
    K = len(anchors)
    M_hat = [sketch(np.eye(len(R_1)), R_1, R_2) for R_1, R_2 in projections]
    recovered = [np.eye(rows.shape[1]) for rows in anchors]
    history = [np.full(K, 1.0 / K)]
    omegas, taus = [], []
    for A in directions(anchors, positives, negatives):
        A_hat = [sketch(A[k], *projections[k]) for k in range(K)]
        f = np.array([-float(np.sum(A_hat[k] * M_hat[k])) for k in range(K)])
        tau, omega = [0.0] * K, [1.0] * K
        for k in range(K):
            M_hat[k], tau[k], omega[k] = _sketched_step(M_hat[k], A_hat[k], C, eta, max_hq_iter)
            recovered[k] = recovered[k] + tau[k] * A[k]
        history.append(weights_step(history[-1], f, C_weights, eta, max_hq_iter, simplex))
        omegas.append(omega)
        taus.append(tau)
    return as_multi_run([psd_part(M) for M in recovered], history, omegas, taus)


def _sketched_step(M_hat: Array, A_hat: Array, C: float, eta: float, max_hq_iter: int) -> tuple[Array, float, float]:
    loss_t, sq_norm = float(hinge(np.sum(A_hat * M_hat))), float(np.sum(A_hat * A_hat))
    if not (loss_t > 0.0 and sq_norm > 0.0):
        return M_hat, 0.0, float(plausibility(loss_t, eta))
    tau, omega = half_quadratic(
        lambda tau: float(hinge(np.sum(A_hat * (M_hat + tau * A_hat)))), loss_t / sq_norm, C, eta, max_hq_iter
    )
    return M_hat + tau * A_hat, tau, omega
