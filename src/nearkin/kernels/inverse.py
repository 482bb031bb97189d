"""The cone at a cost of d^2 per step: a tracked inverse tells exits, and finds the eigenpair that one leaves behind.

Kept is ``W = (M + Z'Z)^-1`` where the few rows of Z cover the directions in which M is singular or nearly so; whatever
Z is, ``M = (M + Z'Z) - Z'Z`` holds, and with a good Z both W and its inverse stay moderate. M after a step is
``M + Z'Z`` with ``F'DF`` added for a handful of rows F: ``tau (g h' + h g') / 2`` comes in, Z'Z goes out. Then

* ``(W^-1 + F'DF)^-1 = W - R' diag(1/beta) R`` with ``D^-1 + F W F' = Y diag(beta) Y'`` and ``R = Y' F W``;
* the new matrix has as many negative eigenvalues as there are more positive ones among beta than in D (Sylvester's
  law of inertia), so a small eigenproblem tells whether the step leaves the cone;
* a row of R is close to an eigenvector of the new matrix with eigenvalue about ``beta / |row|^2`` when that is small,
  which is how Z is chosen;
* if the step leaves the cone, Lanczos' method on the inverse finds the one negative eigenpair in a few products.

W itself moves by the few rows that change: the step, the eigenpair that was clipped and is covered from then on, and
rows of Z that are no longer needed.

Every eigenpair is checked against M itself; W is computed anew from time to time, and whenever a check fails.
"""

import math

import numpy as np
from numba.extending import register_jitable

from nearkin.kernels.machine.blas import add, dot, multiply_symmetric, vector_workspace
from nearkin.kernels.machine.compile import helper
from nearkin.kernels.machine.lapack import invert_positive_definite
from nearkin.kernels.machine.symmetric import add_outer_products, eigen_small, smallest_of_tridiagonal

__all__ = ["AGE", "BOUND", "NEAR", "N_NULLS", "OLD", "rebuild", "tracked_step", "tracking_workspace", "untracked"]

#: Longest Krylov basis.
_BASIS = 128

#: Places of what is kept beside W and Z: a lower bound of M's smallest eigenvalue, the number of rows of Z, steps since
#: W was computed from M, and M's mean eigenvalue and norm at that time.
BOUND, N_NULLS, AGE, MEAN, NORM = range(5)

#: Age at which there is no W.
OLD = 1e9


def untracked(bound=1.0):
    """Numbers kept beside W and Z before there is a W, with a lower bound of M's smallest eigenvalue."""
    numbers = np.ones(5)
    numbers[BOUND], numbers[N_NULLS], numbers[AGE] = bound, 0.0, OLD
    return numbers


#: Share of the mean eigenvalue below which one counts as zero, and below which Z covers its direction.
_ZERO = 1e-13
NEAR = 1e-3

#: Times the level of cover that an eigenvalue must have reached before its cover is taken away, and most rows of Z that
#: go in one step.
_IDLE = 4.0
_GOING = 4

#: Largest residual of an eigenpair, as a share of the norm of M.
_RESIDUAL = 1e-12

#: Residual at which Lanczos' method stops, as a share of the eigenvalue of the inverse.
_CONVERGED = 1e-13


@register_jitable
def tracking_workspace(cone):
    """Memory of the tracked inverse around what is kept: W; long rows; short rows; the numbers; arguments for BLAS.

    Long rows are F, its products with W, the rotated R, the Krylov basis, an eigenvector and a product. Short rows are
    the small eigenproblem and its vectors, beta, the inverse of D, a tridiagonal matrix with its eigenvector (three
    rows), and which rows of Z stay. Few arrays in all: each that is passed on is code to compile.
    """
    numbers, nulls, W = cone
    _, room, d = nulls.shape
    most = 3 + 2 * room
    basis = min(d, _BASIS) + 1
    return (
        W, np.empty((3 * most + basis + 2, d)), np.empty((2 * most + 6, max(most, basis))), numbers,
        vector_workspace(d),
    )  # fmt: skip


@helper
def _most(short):
    """Most rows that F can have."""
    return (short.shape[0] - 6) // 2


@helper
def _put(y, a, x):
    for k in range(x.shape[0]):
        y[k] = a * x[k]


@helper
def rebuild(M, nulls, n_nulls, work):
    """``W = (M + Z'Z)^-1`` from scratch.

    Returns a lower bound of the smallest eigenvalue of ``M + Z'Z``, zero if that matrix is too badly conditioned.
    """
    W, _, short, numbers, blas = work
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
    for j in range(n_nulls):
        short[0, j] = 1.0
    add_outer_products(W, nulls[0], short[0], n_nulls)
    if not invert_positive_definite(W):
        return 0.0
    square = 0.0
    for i in range(M.shape[0]):
        for k in range(i):
            square += 2.0 * W[i, k] * W[i, k]
        square += W[i, i] * W[i, i]
    for j in range(n_nulls):
        multiply_symmetric(W, nulls[0, j], nulls[1, j], blas)
    bound = 1.0 / math.sqrt(square)
    return bound if bound > 1e-3 * NEAR * numbers[MEAN] else 0.0


@helper
def _decompose(n, work):
    """Eigenvalues beta and rotated rows R of the first n rows of F, whose products with W are there."""
    _, rows, short, _, blas = work
    most = _most(short)
    for i in range(n):
        for j in range(i + 1):
            short[i, j] = short[j, i] = dot(rows[i], rows[most + j], blas)
        short[i, i] += short[2 * most + 1, i]
    short[0, 1] += 1.0
    short[1, 0] += 1.0
    eigen_small(short, n, short[most:])
    for j in range(n):
        short[2 * most, j] = short[j, j]
        R = rows[2 * most + j]
        _put(R, short[most, j], rows[most])
        for i in range(1, n):
            add(R, short[most + i, j], rows[most + i], blas)


@helper
def _append(row, factor, n, work):
    """One more row of F, ``factor`` times a row, to be added."""
    W, rows, short, _, blas = work
    _put(rows[n], factor, row)
    multiply_symmetric(W, rows[n], rows[_most(short) + n], blas)
    short[2 * _most(short) + 1, n] = 1.0


@helper
def _append_null(j, nulls, n, work):
    """One more row of F: row j of Z, to be taken away."""
    _, rows, short, _, _ = work
    _put(rows[n], 1.0, nulls[0, j])
    _put(rows[_most(short) + n], 1.0, nulls[1, j])
    short[2 * _most(short) + 1, n] = -1.0


@helper
def _cover(n, level, most, work):
    """Add to F every direction whose eigenvalue is below ``level``; the new number of rows, -1 for more than most."""
    _, rows, short, numbers, blas = work
    found = 0
    for j in range(n):
        R = rows[2 * _most(short) + j]
        length = dot(R, R, blas)
        if level * length > abs(short[2 * _most(short), j]):
            if found == most:
                return -1
            _append(R, math.sqrt(numbers[MEAN] / length), n + found, work)
            found += 1
    return n + found


@helper
def _apply_inverse(x, y, n, work):
    """``y = (W - R' diag(1/beta) R) x``."""
    W, rows, short, _, blas = work
    multiply_symmetric(W, x, y, blas)
    for j in range(n):
        R = rows[2 * _most(short) + j]
        add(y, -dot(R, x, blas) / short[2 * _most(short), j], R, blas)


@helper
def _lanczos(n, q, work):
    """Unit vector q of the one negative eigenvalue of the new inverse, by Lanczos' method, orthogonalised in full."""
    _, rows, short, _, blas = work
    most = _most(short)
    V = rows[3 * most : rows.shape[0] - 2]
    diagonal, off, s = short[2 * most + 2], short[2 * most + 3], short[2 * most + 4]
    _put(q, 1.0, rows[0])
    add(q, -1.0, rows[1], blas)  # the direction that A takes away
    _apply_inverse(q, V[0], n, work)
    _put(V[0], 1.0 / math.sqrt(dot(V[0], V[0], blas)), V[0])
    value = 0.0
    total = 1.0
    m = 0
    while m < V.shape[0] - 1:
        w = V[m + 1]
        _apply_inverse(V[m], w, n, work)
        diagonal[m] = dot(V[m], w, blas)
        for j in range(m, -1, -1):
            add(w, -dot(V[j], w, blas), V[j], blas)
        off[m] = math.sqrt(dot(w, w, blas))
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
        _put(w, 1.0 / off[m - 1], w)
    _put(q, s[0], V[0])
    for j in range(1, m):
        add(q, s[j], V[j], blas)
    _put(q, 1.0 / math.sqrt(dot(q, q, blas)), q)


@helper
def _rayleigh(M, g, h, tau, q, y, work):
    """Rayleigh quotient of ``M + tau A`` at the unit vector q, and the residual's norm."""
    blas = work[4]
    multiply_symmetric(M, q, y, blas)
    along_g, along_h = 0.5 * tau * dot(h, q, blas), 0.5 * tau * dot(g, q, blas)
    add(y, along_g, g, blas)
    add(y, along_h, h, blas)
    value = dot(q, y, blas)
    add(y, -value, q, blas)
    return value, math.sqrt(dot(y, y, blas))


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
    W, rows, short, numbers, blas = work
    most, mean = _most(short), numbers[MEAN]
    beta, inverse_D, order = short[2 * most], short[2 * most + 1], short[2 * most + 5]
    q, y = rows[rows.shape[0] - 1], rows[rows.shape[0] - 2]
    room = nulls.shape[1]
    balance = math.sqrt(math.sqrt(hh) / math.sqrt(gg))
    length = math.sqrt(0.5 * tau)
    _put(rows[0], length * balance, g)
    _put(rows[1], length / balance, h)
    _put(q, 0.0, g)
    inverse_D[0] = inverse_D[1] = 0.0
    multiply_symmetric(W, rows[0], rows[most], blas)
    multiply_symmetric(W, rows[1], rows[most + 1], blas)
    for j in range(n_nulls):
        _append_null(j, nulls, 2 + j, work)
    n = 2 + n_nulls
    _decompose(n, work)
    n = _cover(n, _ZERO * mean, room, work)
    if n < 0:
        return -1
    if n > 2 + n_nulls:
        _decompose(n, work)
    surplus = 1 + n_nulls - n
    for j in range(n):
        if beta[j] > 0.0:
            surplus += 1
    value = 0.0
    if surplus == 1:
        _lanczos(n, q, work)
        value, residual = _rayleigh(M, g, h, tau, q, y, work)
        if residual > _RESIDUAL * numbers[NORM] or value >= 0.0:
            return -1
    elif surplus != 0:
        return -1

    # What W moves by: the step, rows of Z that have become idle, the direction that was clipped, others to be covered.
    n = 2
    kept = 0
    for j in range(n_nulls):
        left = 1.0 - dot(nulls[0, j], nulls[1, j], blas)
        if n < 2 + _GOING and left > _IDLE * NEAR * mean * dot(nulls[1, j], nulls[1, j], blas):
            _append_null(j, nulls, n, work)
            n += 1
        else:
            order[kept] = j
            kept += 1
    first = n
    if surplus == 1:
        if kept == room:
            return -1
        _append(q, math.sqrt(mean - value), n, work)
        n += 1
    _decompose(n, work)
    covered = _cover(n, NEAR * mean, room - kept - (n - first), work)
    if covered < 0:
        return -1
    if covered > n:
        n = covered
        _decompose(n, work)

    _move(M, g, h, tau, value, q)
    for j in range(n):
        beta[j] = -1.0 / beta[j]
    add_outer_products(W, rows[2 * most :], beta, n)
    for j in range(kept + n - first):
        z, Wz = nulls[0, j], nulls[1, j]
        if j < kept:
            _put(z, 1.0, nulls[0, int(order[j])])
            _put(Wz, 1.0, nulls[1, int(order[j])])
        else:
            row = first + j - kept
            share = math.sqrt(mean / (mean - value)) if surplus == 1 and row == first else 1.0
            _put(z, share, rows[row])
            _put(Wz, share, rows[most + row])
        for i in range(n):
            R = rows[2 * most + i]
            add(Wz, beta[i] * dot(R, z, blas), R, blas)
    return kept + n - first
