"""The systems that the paper compares with, in NumPy, one triplet at a time and one half-quadratic iteration.

The closed forms as they are printed, like `literal`: products with M are shared, and nothing costs more than O(d^2).
"""

from __future__ import annotations

import numpy as np

from .literal import weight_factor


def opml(L, anchors, positives, negatives, *, C, eta):
    """The published step in closed form, O(d^2); returns M."""
    factor = weight_factor(eta)
    for x, x_plus, x_minus in zip(anchors, positives, negatives, strict=True):
        u, v = x - x_plus, x - x_minus
        p, q = u @ L, v @ L
        loss = 1.0 + p @ p - q @ q
        if loss > 0.0:
            step = 2.0 * C * factor * np.exp(-eta * loss)
            a, b, c = u @ u, v @ v, u @ v
            size = step / (1.0 + step * (a - b) - step**2 * (a * b - c * c))
            p, q = (1.0 - step * b) * p + step * c * q, (1.0 + step * a) * q - step * c * p
            L -= size * (np.outer(u, p) - np.outer(v, q))
    return L @ L.T


def slmoml(M, anchors, positives, negatives, *, C, eta):
    """The LogDet step of a triplet in closed form; returns M."""
    factor = weight_factor(eta)
    for x, x_plus, x_minus in zip(anchors, positives, negatives, strict=True):
        u, v = x - x_plus, x - x_minus
        Mu, Mv = M @ u, M @ v
        p, q, s = u @ Mu, v @ Mv, u @ Mv
        delta, g = p - q, p * q - s * s
        if 1.0 + delta > 0.0:
            root = np.sqrt(delta**2 + 4.0 * g * (g + 1.0))
            gap = delta - 2.0 * g
            kink = 2.0 * (1.0 + delta) / (root - gap) if gap <= 0.0 else (gap + root) / (2.0 * g)
            tau = min(C * factor * np.exp(-eta * (1.0 + delta)), kink)
            size = tau / (1.0 + tau * delta - tau**2 * g)
            cross = np.outer(Mu, Mv)
            M -= size * (
                (1.0 - tau * q) * np.outer(Mu, Mu) - (1.0 + tau * p) * np.outer(Mv, Mv) + tau * s * (cross + cross.T)
            )
    return M


def itml(M, anchors, positives, negatives, *, C, eta, bounds):
    """The similar pair of a triplet, then the dissimilar one; returns M."""
    factor = weight_factor(eta)
    for x, x_plus, x_minus in zip(anchors, positives, negatives, strict=True):
        for other, sign, bound in ((x_plus, 1.0, bounds[0]), (x_minus, -1.0, bounds[1])):
            e = x - other
            Me = M @ e
            p = e @ Me
            excess = sign * (p - bound)
            if excess > 0.0:
                share = C * factor * np.exp(-eta * excess)
                tau = share / (share + 1.0) * sign * (1.0 / bound - 1.0 / p)
                M -= sign * tau / (1.0 + sign * tau * p) * np.outer(Me, Me)
    return M


def lpa(M, anchors, positives, negatives, *, C, eta, n_classes, mu=1.0):
    """A global matrix and a local part per class, classes in turn, projected when used; returns the global matrix."""
    factor = weight_factor(eta)
    local = [np.zeros_like(M) for _ in range(n_classes)]
    for t, (x, x_plus, x_minus) in enumerate(zip(anchors, positives, negatives, strict=True)):
        u, v = x - x_plus, x - x_minus
        A = np.outer(v, v) - np.outer(u, u)
        sq_norm = (v @ v) ** 2 + (u @ u) ** 2 - 2.0 * (u @ v) ** 2
        own = _clipped(M + local[t % n_classes])
        loss = 1.0 - np.sum(A * own)
        if loss > 0.0 and sq_norm > 0.0:
            tau = min(C * factor * np.exp(-eta * loss), loss / ((1.0 + 1.0 / mu) * sq_norm))
            moved = own - M + tau / mu * A
            M = _clipped(M + tau * A)
            own = _clipped(M + moved)
        local[t % n_classes] = own - M
    return M


def omdml(M, anchors, positives, negatives, *, C, eta, beta=0.9, margin=1.0):
    """Two modalities, the halves of the features; returns the weighted matrices as one."""
    factor = weight_factor(eta)
    half = len(M) // 2
    parts = slice(0, half), slice(half, len(M))
    matrices = [np.eye(len(M[part])) for part in parts]
    theta = np.full(2, 0.5)
    for triplet in zip(anchors, positives, negatives, strict=True):
        steps, z = [], np.empty(2)
        for k, part in enumerate(parts):
            x, x_plus, x_minus = (row[part].astype(np.float64) for row in triplet)
            u, v = x - x_plus, x - x_minus
            A = np.outer(v, v) - np.outer(u, u)
            z[k] = np.sum(A * matrices[k])
            steps.append((A, (v @ v) ** 2 + (u @ u) ** 2 - 2.0 * (u @ v) ** 2))
        if theta @ z < margin:
            for k, (A, sq_norm) in enumerate(steps):
                if z[k] < 1.0 and sq_norm > 0.0:
                    tau = min(C * factor * np.exp(-eta * (1.0 - z[k])), (1.0 - z[k]) / sq_norm)
                    matrices[k] = _clipped(matrices[k] + tau * A)
            theta *= beta ** (z < 0.0)
            theta /= theta.sum()
    M = np.zeros((len(M), len(M)))
    for part, weight, matrix in zip(parts, theta, matrices, strict=True):
        M[part, part] = weight * matrix
    return M


def lsmdml(start, anchors, positives, negatives, *, C, eta):
    """One modality: steps in the sketch, taken in both spaces, projected at the end; returns M."""
    factor = weight_factor(eta)
    M, R_1, R_2 = start
    M_hat = R_1.T @ R_2
    for x, x_plus, x_minus in zip(anchors, positives, negatives, strict=True):
        u, v = x - x_plus, x - x_minus
        A = np.outer(v, v) - np.outer(u, u)
        A_hat = R_1.T @ A @ R_2
        z = np.sum(A_hat * M_hat)
        if z < 1.0:
            tau = min(C * factor * np.exp(-eta * (1.0 - z)), (1.0 - z) / np.sum(A_hat * A_hat))
            M_hat = M_hat + tau * A_hat
            M += tau * A
    return _clipped(M)


def _clipped(M):
    """Positive semi-definite part."""
    values, vectors = np.linalg.eigh(M)
    return M if values[0] >= 0.0 else (vectors * np.maximum(values, 0.0)) @ vectors.T


def oks(terms, anchors, positives, negatives, *, C, eta, gamma):
    """Gaussian kernel, all terms of the sum at once; a new term replaces the oldest. Returns the step sizes."""
    factor = weight_factor(eta)
    tau, (xs, pluses, minuses) = terms
    oldest = 0

    def k(rows, y):
        return np.exp(-gamma * np.sum((rows - y) ** 2, axis=-1))

    for x, x_plus, x_minus in zip(anchors, positives, negatives, strict=True):
        terms_of = (k(pluses, x_plus) - k(minuses, x_plus)) - (k(pluses, x_minus) - k(minuses, x_minus))
        z = k(x, x_plus) - k(x, x_minus) + np.sum(tau * k(xs, x) * terms_of)
        sq_norm = k(x, x) * (k(x_plus, x_plus) - 2.0 * k(x_plus, x_minus) + k(x_minus, x_minus))
        if z < 1.0 and sq_norm > 0.0:
            tau[oldest] = min(C * factor * np.exp(-eta * (1.0 - z)), (1.0 - z) / sq_norm)
            xs[oldest], pluses[oldest], minuses[oldest] = x, x_plus, x_minus
            oldest = (oldest + 1) % len(tau)
    return np.roll(tau, -oldest)
