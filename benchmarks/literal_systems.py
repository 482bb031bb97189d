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
