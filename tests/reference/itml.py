"""ITML in pair form, literally (secs. 3.6, 3.7): LogDet proximity and bounds on squared distances of pairs.

A pair has the difference e, the squared distance p = e'Me, a sign sigma (1 similar, -1 dissimilar) and a bound b:
p <= b for similar, p >= b for dissimilar pairs. Its hinge is [sigma (p - b)]_+. All steps are additive in the inverse,
P = M^{-1} <- P + sigma tau e e', so that 1/p' = 1/p + sigma tau, and the kink p' = b is tau_0 = sigma (1/b - 1/p).

slack="itml" : min D_ld(M, M_t) + C D_ld(xi, b), p <= xi or p >= xi: the article's projection, with its gamma as C.
slack="hinge" : min D_ld(M, M_t) + C [sigma (p - b)]_+, the pair cousin of SLMOML.
"""

import numpy as np

from .common import Array, Run
from .half_quadratic import as_run
from .losses import plausibility, weight


def pair_bounds(X: Array, low: float = 5.0, high: float = 95.0) -> tuple[float, float]:
    """Bounds for similar and dissimilar pairs: percentiles of the *squared* distances of all pairs of rows."""
    n = len(X)
    d2 = [float(np.sum((X[i] - X[j]) ** 2)) for i in range(n) for j in range(i + 1, n)]
    return float(np.percentile(d2, low)), float(np.percentile(d2, high))


def pair_tau(p: float, sigma: float, bound: float, C_t: float, slack: str) -> float:
    """Size of the step of a violated pair: kappa tau_0 with kappa = C / (C + 1), or min(C, tau_0)."""
    tau_0 = sigma * (1.0 / bound - 1.0 / p)
    if slack == "hinge":
        return min(C_t, tau_0)
    return tau_0 if np.inf == C_t else C_t / (C_t + 1.0) * tau_0


def online_itml(
    left: Array,
    right: Array,
    similar: Array,
    bounds: tuple[float, float],
    C: float = 1.0,
    eta: float = 0.0,
    max_hq_iter: int = 3,
    slack: str = "itml",
    M0: Array | None = None,
) -> Run:
    """Every pair once, in order; robust when eta > 0. `similar` holds True or False; tau counts in P = M^{-1}."""
    if slack not in ("itml", "hinge"):
        raise ValueError(f"online_itml: slack must be 'itml' or 'hinge', got {slack!r}.")
    P = np.eye(left.shape[1]) if M0 is None else np.linalg.inv(M0)
    omegas, taus = [], []
    for x, y, is_similar in zip(left, right, similar, strict=True):
        e = x - y
        sigma, bound = (1.0, bounds[0]) if is_similar else (-1.0, bounds[1])
        p_t = float(e @ np.linalg.inv(P) @ e)
        loss = max(0.0, sigma * (p_t - bound))
        tau, omega = 0.0, float(plausibility(loss, eta))
        if loss > 0.0 and np.any(e):
            for _ in range(max_hq_iter):
                p = float(e @ np.linalg.inv(P + sigma * tau * np.outer(e, e)) @ e)  # at the iterate, from M_t (A3, A6)
                loss = max(0.0, sigma * (p - bound))
                tau = pair_tau(p_t, sigma, bound, np.inf if np.inf == C else C * float(weight(loss, eta)), slack)
            P = P + sigma * tau * np.outer(e, e)
        omegas.append(omega)
        taus.append(tau)
    return as_run(np.linalg.inv(P), omegas, taus)


def itml(
    left: Array,
    right: Array,
    similar: Array,
    bounds: tuple[float, float],
    gamma: float = 1.0,
    n_sweeps: int = 1,
    M0: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Batch ITML, sec. 3.7: cyclic projections with the dual of each pair; returns M, the duals and the bounds reached.

    One sweep is `online_itml` with C = gamma and the plain hinge.
    """
    M = np.eye(left.shape[1]) if M0 is None else np.array(M0, dtype=np.float64)
    duals = np.zeros(len(left))
    limits = np.where(similar, bounds[0], bounds[1]).astype(np.float64)
    for _ in range(n_sweeps):
        for i, (x, y) in enumerate(zip(left, right, strict=True)):
            e = x - y
            if not np.any(e):
                continue
            sigma = 1.0 if similar[i] else -1.0
            p = float(e @ M @ e)
            alpha = min(duals[i], gamma / (gamma + 1.0) * sigma * (1.0 / p - 1.0 / limits[i]))
            duals[i] -= alpha
            M = M + sigma * alpha / (1.0 - sigma * alpha * p) * (M @ np.outer(e, e) @ M)
            limits[i] = 1.0 / (1.0 / limits[i] + sigma * alpha / gamma)
    return M, duals, limits


def lego_target(p: float, target: float, rho: float) -> float:
    """y_bar of sec. 3.6: the squared distance after the step, for min D_ld(M, M_t) + rho/2 (e'Me - target)^2."""
    b = rho * target * p - 1.0
    return float((b + np.sqrt(b * b + 4.0 * rho * p * p)) / (2.0 * rho * p))


def lego(left: Array, right: Array, targets: Array, rho: float = 1.0, M0: Array | None = None) -> Array:
    """LEGO, the squared-loss cousin: every pair with a target squared distance; returns M."""
    M = np.eye(left.shape[1]) if M0 is None else np.array(M0, dtype=np.float64)
    for x, y, target in zip(left, right, targets, strict=True):
        e = x - y
        p = float(e @ M @ e)
        if p == 0.0:
            continue
        slope = rho * (lego_target(p, float(target), rho) - float(target))
        M = M - slope / (1.0 + slope * p) * (M @ np.outer(e, e) @ M)
    return M
