"""The cone at a cost of d^2 per step: a tracked inverse tells exits, and finds the eigenpair that one leaves behind.

Kept is ``W = (M + Z'Z)^-1`` where the few rows of Z cover the directions in which M is singular or nearly so; whatever
Z is, ``M = (M + Z'Z) - Z'Z`` holds, and with a good Z both W and its inverse stay moderate. A step adds
``tau (g h' + h g') / 2``, takes the old Z'Z away and puts a new one in: ``F' D F`` with a handful of rows F. Then

* ``(W^-1 + F'DF)^-1 = W - R' diag(1/beta) R`` with ``D^-1 + F W F' = Y diag(beta) Y'`` and ``R = Y' F W``;
* the new matrix has as many negative eigenvalues as there are more positive ones among beta than in D (Sylvester's
  law of inertia), so a small eigenproblem tells whether the step leaves the cone;
* a row of R is close to an eigenvector of the new matrix with eigenvalue about ``beta / |row|^2`` when that is small,
  which is how Z is chosen;
* if the step leaves the cone, Lanczos' method on the inverse finds the one negative eigenpair in a few products.

Every eigenpair is checked against M itself; W is computed anew from time to time, and whenever a check fails.
"""

import math

import numpy as np
from numba.extending import register_jitable

from nearkin.kernels._compile import helper
from nearkin.kernels.lapack import invert_positive_definite
from nearkin.kernels.symmetric import add_outer_products, eigen_small, multiply, smallest_of_tridiagonal

__all__ = ["AGE", "BOUND", "NEAR", "N_NULLS", "OLD", "rebuild", "tracked_step", "tracking_workspace"]

#: Longest Krylov basis.
_BASIS = 128

#: Places of what is kept beside W and Z: a lower bound of M's smallest eigenvalue, the number of rows of Z, steps since
#: W was computed from M, and M's mean eigenvalue and norm at that time.
BOUND, N_NULLS, AGE, MEAN, NORM = range(5)

#: Age at which there is no W.
OLD = 1e9

#: Share of the mean eigenvalue below which one counts as zero, and below which Z covers its direction.
_ZERO = 1e-13
NEAR = 1e-3

#: Largest residual of an eigenpair, as a share of the norm of M.
_RESIDUAL = 1e-12

#: Residual at which Lanczos' method stops, as a share of the eigenvalue of the inverse.
_CONVERGED = 1e-13


@register_jitable
def tracking_workspace(cone):
    """Memory of the tracked inverse around what is kept: numbers, rows that may become Z, and W.

    W; rows F, their products with W, rotated rows R; the small eigenproblem and its vectors; D; Krylov basis,
    tridiagonal matrix and eigenvector; two vectors; new rows of Z; the numbers.
    """
    numbers, nulls, W = cone
    n_nulls, d = nulls.shape
    columns = 2 + 3 * n_nulls
    n = min(d, _BASIS)
    return (
        W,
        np.empty((3, columns, d)),
        np.empty((2, columns, columns)),
        np.empty((2, columns)),
        np.empty((n + 1, d)),
        np.empty((3, n + 1)),
        np.empty((2, d)),
        np.empty((n_nulls, d)),
        numbers,
    )


@helper
def _dot(x, y):
    total = 0.0
    for k in range(x.shape[0]):
        total += x[k] * y[k]
    return total


@helper
def rebuild(M, nulls, n_nulls, work):
    """``W = (M + Z'Z)^-1`` from scratch.

    Returns a lower bound of the smallest eigenvalue of ``M + Z'Z``, zero if that matrix is too badly conditioned.
    """
    W, numbers = work[0], work[8]
    trace = 0.0
    square = 0.0
    for i in range(M.shape[0]):
        for k in range(i):
            W[i, k] = M[i, k]
            square += 2.0 * M[i, k] * M[i, k]
        W[i, i] = M[i, i]
        square += M[i, i] * M[i, i]
        trace += M[i, i]
    numbers[MEAN] = trace / M.shape[0]
    numbers[NORM] = math.sqrt(square)
    factors = work[3][0]
    for j in range(n_nulls):
        factors[j] = 1.0
    add_outer_products(W, nulls, factors, n_nulls)
    if not invert_positive_definite(W):
        return 0.0
    square = 0.0
    for i in range(M.shape[0]):
        for k in range(i):
            square += 2.0 * W[i, k] * W[i, k]
        square += W[i, i] * W[i, i]
    bound = 1.0 / math.sqrt(square)
    return bound if bound > 1e-3 * NEAR * numbers[MEAN] else 0.0


@helper
def _decompose(n, work):
    """Eigenvalues beta and rotated rows R of the first n rows of F, whose products with W are there."""
    F, WF, R = work[1][0], work[1][1], work[1][2]
    B, Y = work[2][0], work[2][1]
    beta, inverse_D = work[3][0], work[3][1]
    for i in range(n):
        for j in range(i + 1):
            B[i, j] = B[j, i] = _dot(F[i], WF[j])
        B[i, i] += inverse_D[i]
    B[0, 1] += 1.0
    B[1, 0] += 1.0
    eigen_small(B, n, Y)
    for j in range(n):
        beta[j] = B[j, j]
        for k in range(F.shape[1]):
            R[j, k] = 0.0
        for i in range(n):
            y = Y[i, j]
            for k in range(F.shape[1]):
                R[j, k] += y * WF[i, k]


@helper
def _append(row, factor, n, work):
    """One more row of F, ``factor`` times a row, to be added."""
    F, WF = work[1][0], work[1][1]
    for k in range(F.shape[1]):
        F[n, k] = factor * row[k]
    work[3][1][n] = 1.0
    multiply(work[0], F[n], WF[n])


@helper
def _cover(n, n_fresh, level, work):
    """Let Z cover the directions whose eigenvalues are below ``level``; its new number of rows, or -1 if too many."""
    R, beta, fresh = work[1][2], work[3][0], work[7]
    before = n_fresh
    for j in range(n):
        length = _dot(R[j], R[j])
        if level * length > abs(beta[j]):
            if n_fresh == fresh.shape[0]:
                return -1
            factor = math.sqrt(work[8][MEAN] / length)
            for k in range(R.shape[1]):
                fresh[n_fresh, k] = factor * R[j, k]
            n_fresh += 1
    for j in range(before, n_fresh):
        _append(fresh[j], 1.0, n + j - before, work)
    return n_fresh


@helper
def _apply_inverse(x, y, n, work):
    """``y = (W - R' diag(1/beta) R) x``."""
    R, beta = work[1][2], work[3][0]
    multiply(work[0], x, y)
    for j in range(n):
        factor = _dot(R[j], x) / beta[j]
        for k in range(y.shape[0]):
            y[k] -= factor * R[j, k]


@helper
def _lanczos(n, q, work):
    """Vector q of the one negative eigenvalue of the new inverse, by Lanczos' method with full orthogonalisation."""
    F, V = work[1][0], work[4]
    diagonal, off, s = work[5][0], work[5][1], work[5][2]
    d = F.shape[1]
    for k in range(d):
        q[k] = F[0, k] - F[1, k]  # the direction that A takes away
    _apply_inverse(q, V[0], n, work)
    length = math.sqrt(_dot(V[0], V[0]))
    for k in range(d):
        V[0, k] /= length
    value = 0.0
    total = 1.0
    m = 0
    while m < V.shape[0] - 1:
        w = V[m + 1]
        _apply_inverse(V[m], w, n, work)
        diagonal[m] = _dot(V[m], w)
        for j in range(m + 1):
            factor = _dot(V[j], w)
            for k in range(d):
                w[k] -= factor * V[j, k]
        off[m] = math.sqrt(_dot(w, w))
        m += 1
        value = smallest_of_tridiagonal(diagonal, off, m, value, total)
        # Components fall towards the end, so the recurrence is stable from there.
        s[m - 1] = 1.0
        total = 1.0
        for i in range(m - 1, 0, -1):
            s[i - 1] = (value - diagonal[i]) * s[i]
            if i < m - 1:
                s[i - 1] -= off[i] * s[i + 1]
            s[i - 1] /= off[i - 1]
            total += s[i - 1] * s[i - 1]
        if off[m - 1] <= _CONVERGED * abs(value) * math.sqrt(total):
            break
        for k in range(d):
            w[k] /= off[m - 1]
    for k in range(d):
        q[k] = 0.0
    for j in range(m):
        for k in range(d):
            q[k] += s[j] * V[j, k]
    length = math.sqrt(_dot(q, q))
    for k in range(d):
        q[k] /= length
    return m


@helper
def _rayleigh(M, g, h, tau, q, y):
    """Rayleigh quotient of ``M + tau A`` at the unit vector q, and the residual's norm."""
    multiply(M, q, y)
    along_g = 0.5 * tau * _dot(h, q)
    along_h = 0.5 * tau * _dot(g, q)
    value = 0.0
    for k in range(q.shape[0]):
        y[k] += along_g * g[k] + along_h * h[k]
        value += q[k] * y[k]
    square = 0.0
    for k in range(q.shape[0]):
        square += (y[k] - value * q[k]) ** 2
    return value, math.sqrt(square)


@helper
def _move(M, g, h, tau, value, q):
    """``M += tau A - value q q'``, one pass over one triangle."""
    half = 0.5 * tau
    for i in range(M.shape[0]):
        along_h = half * g[i]
        along_g = half * h[i]
        along_q = value * q[i]
        for k in range(i + 1):
            M[i, k] += along_h * h[k] + along_g * g[k] - along_q * q[k]


@helper
def tracked_step(M, g, h, gg, hh, tau, nulls, n_nulls, work):
    """Move M by ``tau A`` and back to the cone, W and Z with it; returns the new number of rows of Z.

    A negative answer says that the tracked inverse could not tell, and that nothing has changed.
    """
    W, F, WF, R = work[0], work[1][0], work[1][1], work[1][2]
    beta, inverse_D = work[3][0], work[3][1]
    q, y = work[6][0], work[6][1]
    fresh, mean = work[7], work[8][MEAN]
    d = M.shape[0]
    balance = math.sqrt(math.sqrt(hh) / math.sqrt(gg))
    length = math.sqrt(0.5 * tau)
    for k in range(d):
        F[0, k] = length * balance * g[k]
        F[1, k] = length / balance * h[k]
        q[k] = 0.0
    inverse_D[0] = inverse_D[1] = 0.0
    n = 2 + n_nulls
    for j in range(n_nulls):
        inverse_D[2 + j] = -1.0
        for k in range(d):
            F[2 + j, k] = nulls[j, k]
    for j in range(n):
        multiply(W, F[j], WF[j])
    _decompose(n, work)
    n_fresh = _cover(n, 0, _ZERO * mean, work)
    if n_fresh < 0:
        return -1
    if n_fresh > 0:
        n += n_fresh
        _decompose(n, work)
    surplus = -1 - n_fresh
    for j in range(n):
        if beta[j] > 0.0:
            surplus += 1
    value = 0.0
    if surplus == 1:
        if n_fresh == fresh.shape[0]:
            return -1
        _lanczos(n, q, work)
        value, residual = _rayleigh(M, g, h, tau, q, y)
        if residual > _RESIDUAL * work[8][NORM] or value >= 0.0:
            return -1
        for k in range(d):
            fresh[n_fresh, k] = math.sqrt(mean) * q[k]
        _append(q, math.sqrt(mean - value), n, work)
        n_fresh += 1
        n += 1
        _decompose(n, work)
    elif surplus != 0:
        return -2
    before = n_fresh
    n_fresh = _cover(n, n_fresh, NEAR * mean, work)
    if n_fresh < 0:
        return -1
    if n_fresh > before:
        n += n_fresh - before
        _decompose(n, work)
    _move(M, g, h, tau, value, q)
    for j in range(n):
        beta[j] = -1.0 / beta[j]
    add_outer_products(W, R, beta, n)
    for j in range(n_fresh):
        for k in range(d):
            nulls[j, k] = fresh[j, k]
    return n_fresh
