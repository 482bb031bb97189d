"""The algorithms as the paper prints them, in NumPy, one triplet at a time, to compare the kernels with.

Kept as fast as a literal reading allows, so that no ratio is flattered: the dtype is the data's, ``||A||^2`` comes from
the vectors, and with one half-quadratic iteration M moves in place. A low-rank step never forms a d x d matrix. The
tests hold the same algorithms in double precision to be read beside the paper (`tests/reference`).
"""

from __future__ import annotations

import numpy as np


def weight_factor(eta: float) -> float:
    """``beta eta``, so that the weight is this times ``exp(-eta l)``; 1 for the plain hinge."""
    return 1.0 if eta == 0.0 else float(-eta / np.expm1(-eta))


def full_matrix(M, anchors, positives, negatives, *, is_distance, C, eta, max_hq_iter):
    """Algorithms 1 and 2 without a projection; returns M."""
    factor = weight_factor(eta)
    for x, x_plus, x_minus in zip(anchors, positives, negatives, strict=True):
        if is_distance:
            u, v = x - x_plus, x - x_minus
            A = np.outer(v, v) - np.outer(u, u)
            sq_norm = (v @ v) ** 2 + (u @ u) ** 2 - 2.0 * (u @ v) ** 2
        else:
            w = x_plus - x_minus
            A = np.outer(x, w)
            sq_norm = (x @ x) * (w @ w)
        loss_t = 1.0 - np.sum(A * M)
        if loss_t > 0.0 and sq_norm > 0.0:
            loss = loss_t
            for iteration in range(max_hq_iter):
                tau = min(C * factor * np.exp(-eta * loss), loss_t / sq_norm)
                if iteration == max_hq_iter - 1:
                    M += tau * A
                else:
                    loss = max(0.0, 1.0 - np.sum(A * (M + tau * A)))
    return M


def low_rank(L, anchors, positives, negatives, *, C, eta, max_hq_iter, step_size=1.0):
    """Algorithm 4 with one sub-gradient step (33) per half-quadratic iteration; L is (d, r), returned."""
    factor = weight_factor(eta)
    for x, x_plus, x_minus in zip(anchors, positives, negatives, strict=True):
        u, v = x - x_plus, x - x_minus
        p, q = u @ L, v @ L
        loss_t = 1.0 - (q @ q - p @ p)
        if loss_t > 0.0:
            step, loss = None, loss_t
            for iteration in range(max_hq_iter):
                step = 2.0 * step_size * C * factor * np.exp(-eta * loss) * (np.outer(v, q) - np.outer(u, p))
                if iteration < max_hq_iter - 1:
                    p_new, q_new = u @ (L + step), v @ (L + step)
                    loss = max(0.0, 1.0 - (q_new @ q_new - p_new @ p_new))
            L = L + step
    return L


class Projected:
    """Algorithm 2 with an eigendecomposition after each step. It counts the steps that leave the cone."""

    def __init__(self, M, *, C):
        self.M = np.array(M, dtype=np.float64)
        self.C = C
        self.n_steps = self.n_moved = self.n_left = 0

    def learn(self, anchors, positives, negatives) -> None:
        for x, x_plus, x_minus in zip(anchors, positives, negatives, strict=True):
            u, v = x - x_plus, x - x_minus
            A = np.outer(v, v) - np.outer(u, u)
            loss = 1.0 - np.sum(A * self.M)
            self.n_steps += 1
            if loss > 0.0:
                sq_norm = (v @ v) ** 2 + (u @ u) ** 2 - 2.0 * (u @ v) ** 2
                self.M += min(self.C, loss / sq_norm) * A
                values, vectors = np.linalg.eigh(self.M)
                self.n_moved += 1
                if values[0] < 0.0:
                    self.n_left += 1
                    self.M = (vectors * np.maximum(values, 0.0)) @ vectors.T
