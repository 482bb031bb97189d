"""Hedge, literally (sec. 3.10): weights of experts that fall with their losses."""

from typing import NamedTuple

import numpy as np

from .common import Array


class HedgeRun(NamedTuple):
    """weights : (n + 1, K), before each round and after the last. losses : (n,) suffered, <theta_t, loss_t>."""

    weights: Array
    losses: Array


def hedge_step(theta: Array, losses: Array, beta: float) -> Array:
    """theta_k <- theta_k beta^{l_k}, then normalised."""
    new = theta * beta ** np.asarray(losses, dtype=np.float64)
    return np.asarray(new / np.sum(new), dtype=np.float64)


def hedge(losses: Array, beta: float) -> HedgeRun:
    """Run over (n, K) losses in [0, 1], from equal weights."""
    n, K = losses.shape
    weights = np.empty((n + 1, K))
    weights[0] = 1.0 / K
    for t in range(n):
        weights[t + 1] = hedge_step(weights[t], losses[t], beta)
    return HedgeRun(weights, np.sum(weights[:-1] * losses, axis=1))


def hedge_bound(losses: Array, beta: float) -> float:
    """(ln K + L_best ln(1 / beta)) / (1 - beta), which the total loss never exceeds."""
    best = float(np.min(np.sum(losses, axis=0)))
    return float((np.log(losses.shape[1]) + best * np.log(1.0 / beta)) / (1.0 - beta))
