"""The cone at a cost of d^2 per step: a tracked inverse tells when a step leaves it, and finds the eigenpair to clip.

It keeps ``W = (M + Z'Z)^-1`` where the few rows of Z cover the directions in which M is singular or nearly so.
``M = (M + Z'Z) - Z'Z`` holds for any Z, and with a good Z both W and its inverse stay moderate. M after a step is
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
from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from nearkin.errors import InputError
from nearkin.kernels.formulas import shift
from nearkin.kernels.machine.compile import body, helper
from nearkin.kernels.machine.linalg import (
    add,
    add_outer_products,
    dot,
    eigen_small,
    invert_positive_definite,
    multiply_symmetric,
    smallest_of_tridiagonal,
    vector_workspace,
)

#: Longest Krylov basis.
_BASIS = 128

#: Most rows of Z: directions in which M is expected to be singular at a time.
_NULLS = 32

#: Positions in ``Tracked.numbers``: a lower bound of M's smallest eigenvalue, the number of rows of Z, steps since W
#: was computed from M, and M's mean eigenvalue and norm at that time.
_BOUND, _N_NULLS, _AGE, _MEAN, _NORM = range(5)

#: Age when there is no W.
_OLD = 1e9

#: Steps for which a bound of the smallest eigenvalue should last to be worth more than the tracked inverse.
_AHEAD = 8.0

#: Steps after which the tracked inverse is computed anew; later for many features, as that costs their cube.
_REFRESH = 64

#: Share of the mean eigenvalue below which one counts as zero, and below which Z covers its direction.
_ZERO = 1e-13
_NEAR = 1e-3

#: Multiple of the level of cover that an eigenvalue must reach before its cover is removed, and most rows of Z removed
#: in one step.
_IDLE = 4.0
_GOING = 4

#: Largest residual of an eigenpair, as a share of the norm of M.
_RESIDUAL = 1e-12

#: Residual at which Lanczos' method stops, as a share of the eigenvalue of the inverse.
_CONVERGED = 1e-13


class Tracked(NamedTuple):
    """State that stays with M between sweeps."""

    #: See the positions above.
    numbers: np.ndarray
    #: Z and ``Z W``, of shape (2, most rows, d).
    nulls: np.ndarray
    #: W, of shape (d, d).
    inverse: np.ndarray


class _Workspace(NamedTuple):
    """Memory of a sweep. Few arrays in all: each that is passed on is code to compile."""

    W: np.ndarray
    #: F, its products with W, the rotated R, the Krylov basis, a product and an eigenvector.
    rows: np.ndarray
    #: The small eigenproblem and its vectors, beta, the inverse of D, a tridiagonal matrix with its eigenvector (three
    #: rows), and which rows of Z stay.
    short: np.ndarray
    numbers: np.ndarray
    blas: tuple


def start_tracking(n_features, is_tracked=True):
    """State of the identity matrix; without memory for an inverse if no step will be projected."""
    d = n_features if is_tracked else 0
    return Tracked(_untracked(1.0), np.zeros((2, min(d, _NULLS), n_features)), np.zeros((d, d)))


def track_mean(states):
    """State of a mean of matrices: its smallest eigenvalue is not below the smallest of all, its inverse is unknown."""
    bound = min(map(bound_of, states))
    return Tracked(_untracked(bound), np.zeros_like(states[0].nulls), np.zeros_like(states[0].inverse))


def resume_tracking(numbers, nulls, inverse):
    """State from its arrays; a file may hold any numbers, and compiled code trusts the number of rows of Z."""
    if numbers.shape != (5,) or not 0.0 <= numbers[_N_NULLS] <= nulls.shape[1]:
        raise InputError("what was learned is damaged: the state of its projection is not one. Fit it again.")
    return Tracked(numbers, nulls, inverse)


def bound_of(tracked):
    """Lower bound of the smallest eigenvalue."""
    return float(tracked.numbers[_BOUND])


def _untracked(bound):
    numbers = np.ones(5)
    numbers[_BOUND], numbers[_N_NULLS], numbers[_AGE] = bound, 0.0, _OLD
    return numbers


@register_jitable
def tracking_workspace(tracked):
    """Memory for the steps of a sweep."""
    _, room, d = tracked.nulls.shape
    most = 3 + 2 * room
    basis = min(d, _BASIS) + 1
    rows, short = np.empty((3 * most + basis + 2, d)), np.empty((2 * most + 6, max(most, basis)))
    return _Workspace(tracked.inverse, rows, short, tracked.numbers, vector_workspace(d))


@body
def spend_bound(tracked, drop):
    """Whether the bound of the smallest eigenvalue shows that a step stays in the cone; if so, lower the bound."""
    numbers = tracked.numbers
    if numbers[_AGE] == _OLD and numbers[_BOUND] >= drop:
        numbers[_BOUND] -= drop
        return True
    return False


@body
def cover_null_space(tracked, values, vectors):
    """Let Z cover the directions of the small eigenvalues of a matrix that was clipped; all its old ones are given."""
    numbers, nulls = tracked.numbers, tracked.nulls
    d = values.shape[0]
    mean = 0.0
    for j in range(d):
        mean += max(values[j], 0.0) / d
    n_nulls = 0
    while n_nulls < nulls.shape[1] and values[n_nulls] < _NEAR * mean:
        for k in range(d):
            nulls[0, n_nulls, k] = math.sqrt(mean) * vectors[k, n_nulls]
        n_nulls += 1
    numbers[_BOUND] = max(0.0, values[0])
    numbers[_N_NULLS] = n_nulls


@body
def track(M, A, tau, drop, tracked, work):
    """Move M by ``tau A`` and back to the cone with the tracked inverse; returns whether that was possible.

    If the inverse is old or inaccurate, it is computed anew first.
    """
    numbers, nulls = tracked.numbers, tracked.nulls
    for _ in range(2):
        if numbers[_AGE] >= max(_REFRESH, M.shape[0] // 2):
            bound = _rebuild(M, nulls, int(numbers[_N_NULLS]), work)
            if bound == 0.0:
                numbers[_AGE] = _OLD
                return False
            numbers[_AGE] = 0.0
            if numbers[_N_NULLS] == 0.0 and bound > _AHEAD * drop:
                # Far from the boundary again: the bound alone will do for some steps.
                numbers[_AGE] = _OLD
                numbers[_BOUND] = bound - drop
                shift(M, A, tau)
                return True
        n_nulls = _tracked_step(M, A, tau, nulls, int(numbers[_N_NULLS]), work)
        if n_nulls >= 0:
            numbers[_AGE] += 1.0
            numbers[_BOUND] = 0.0
            numbers[_N_NULLS] = n_nulls
            return True
        numbers[_AGE] = _OLD
    return False


@helper
def _most(short):
    """Most rows that F can have."""
    return (short.shape[0] - 6) // 2


@helper
def _put(y, a, x):
    for k in range(x.shape[0]):
        y[k] = a * x[k]


@helper
def _rebuild(M, nulls, n_nulls, work):
    """Compute ``W = (M + Z'Z)^-1`` from scratch.

    Returns a lower bound of the smallest eigenvalue of ``M + Z'Z``, zero if that matrix is too badly conditioned.
    """
    W, short, numbers, blas = work.W, work.short, work.numbers, work.blas
    trace = 0.0
    square = 0.0
    for i in range(M.shape[0]):
        for k in range(i):
            W[i, k] = M[i, k]
            square += 2.0 * M[i, k] * M[i, k]
        W[i, i] = M[i, i]
        square += M[i, i] * M[i, i]
        trace += M[i, i]
    numbers[_MEAN] = trace / M.shape[0]
    numbers[_NORM] = math.sqrt(square)
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
    return bound if bound > 1e-3 * _NEAR * numbers[_MEAN] else 0.0


@helper
def _decompose(n, work):
    """Eigenvalues beta and rotated rows R of the first n rows of F, whose products with W are known."""
    rows, short, blas = work.rows, work.short, work.blas
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
    """Append a row to F, ``factor`` times ``row``, to be added."""
    W, rows, short, blas = work.W, work.rows, work.short, work.blas
    _put(rows[n], factor, row)
    multiply_symmetric(W, rows[n], rows[_most(short) + n], blas)
    short[2 * _most(short) + 1, n] = 1.0


@helper
def _append_null(j, nulls, n, work):
    """Append row j of Z to F, to be subtracted."""
    rows, short = work.rows, work.short
    _put(rows[n], 1.0, nulls[0, j])
    _put(rows[_most(short) + n], 1.0, nulls[1, j])
    short[2 * _most(short) + 1, n] = -1.0


@helper
def _cover(n, level, most, work):
    """Append to F every direction with an eigenvalue below ``level``; the new number of rows, -1 for more than most."""
    rows, short, numbers, blas = work.rows, work.short, work.numbers, work.blas
    found = 0
    for j in range(n):
        R = rows[2 * _most(short) + j]
        length = dot(R, R, blas)
        if level * length > abs(short[2 * _most(short), j]):
            if found == most:
                return -1
            _append(R, math.sqrt(numbers[_MEAN] / length), n + found, work)
            found += 1
    return n + found


@helper
def _apply_inverse(x, y, n, work):
    """``y = (W - R' diag(1/beta) R) x``."""
    rows, short, blas = work.rows, work.short, work.blas
    multiply_symmetric(work.W, x, y, blas)
    for j in range(n):
        R = rows[2 * _most(short) + j]
        add(y, -dot(R, x, blas) / short[2 * _most(short), j], R, blas)


@helper
def _lanczos(n, q, work):
    """Unit vector q of the one negative eigenvalue of the new inverse, by Lanczos' method, orthogonalised in full."""
    rows, short, blas = work.rows, work.short, work.blas
    most = _most(short)
    V = rows[3 * most : rows.shape[0] - 2]
    diagonal, off, s = short[2 * most + 2], short[2 * most + 3], short[2 * most + 4]
    _put(q, 1.0, rows[0])
    add(q, -1.0, rows[1], blas)  # the direction that A shrinks
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
def _rayleigh(M, A, tau, q, y, blas):
    """Rayleigh quotient of ``M + tau A`` at the unit vector q, and the residual's norm."""
    multiply_symmetric(M, q, y, blas)
    along_g, along_h = 0.5 * tau * dot(A.h, q, blas), 0.5 * tau * dot(A.g, q, blas)
    add(y, along_g, A.g, blas)
    add(y, along_h, A.h, blas)
    value = dot(q, y, blas)
    add(y, -value, q, blas)
    return value, math.sqrt(dot(y, y, blas))


@helper
def _move(M, A, tau, value, q):
    """``M += tau A - value q q'``, one pass over one triangle."""
    g, h = A.g, A.h
    half = 0.5 * tau
    for i in range(M.shape[0]):
        along_h = half * g[i]
        along_g = half * h[i]
        along_q = value * q[i]
        for k in range(i + 1):
            M[i, k] += along_h * h[k] + along_g * g[k] - along_q * q[k]


@helper
def _tracked_step(M, A, tau, nulls, n_nulls, work):
    """Move M by ``tau A`` and back to the cone, W and Z with it; returns the new number of rows of Z.

    A negative result means that the tracked inverse is too inaccurate, and that nothing has changed.
    """
    value = _negative_eigenvalue(M, A, tau, nulls, n_nulls, work)
    if value > 0.0:
        return -1
    kept, first, n = _changing_rows(nulls, n_nulls, value, work)
    if n < 0:
        return -1
    _move(M, A, tau, value, work.rows[work.rows.shape[0] - 1])
    _move_inverse(nulls, kept, first, n, value, work)
    return kept + n - first


@helper
def _negative_eigenvalue(M, A, tau, nulls, n_nulls, work):
    """The negative eigenvalue of ``M + tau A``, its vector in the last row of ``work.rows``; zero if there is none.

    A positive result means that the tracked inverse is too inaccurate to tell.
    """
    W, rows, short, numbers, blas = work.W, work.rows, work.short, work.numbers, work.blas
    most = _most(short)
    beta, inverse_D = short[2 * most], short[2 * most + 1]
    q, y = rows[rows.shape[0] - 1], rows[rows.shape[0] - 2]
    balance = math.sqrt(math.sqrt(A.hh) / math.sqrt(A.gg))
    length = math.sqrt(0.5 * tau)
    _put(rows[0], length * balance, A.g)
    _put(rows[1], length / balance, A.h)
    _put(q, 0.0, A.g)
    inverse_D[0] = inverse_D[1] = 0.0
    multiply_symmetric(W, rows[0], rows[most], blas)
    multiply_symmetric(W, rows[1], rows[most + 1], blas)
    for j in range(n_nulls):
        _append_null(j, nulls, 2 + j, work)
    n = 2 + n_nulls
    _decompose(n, work)
    n = _cover(n, _ZERO * numbers[_MEAN], nulls.shape[1], work)
    if n < 0:
        return 1.0
    if n > 2 + n_nulls:
        _decompose(n, work)
    surplus = 1 + n_nulls - n
    for j in range(n):
        if beta[j] > 0.0:
            surplus += 1
    if surplus != 1:
        return 0.0 if surplus == 0 else 1.0
    _lanczos(n, q, work)
    value, residual = _rayleigh(M, A, tau, q, y, blas)
    return 1.0 if residual > _RESIDUAL * numbers[_NORM] or value >= 0.0 else value


@helper
def _changing_rows(nulls, n_nulls, value, work):
    """Decompose F for the rows by which W moves: the step, idle rows of Z, the clipped direction, others to be covered.

    Returns the number of rows of Z that stay, listed in ``work.short``, the first new row in F, and the number of rows
    of F; that is negative if they would be too many.
    """
    rows, short, mean, blas = work.rows, work.short, work.numbers[_MEAN], work.blas
    room = nulls.shape[1]
    order = short[2 * _most(short) + 5]
    n = 2
    kept = 0
    for j in range(n_nulls):
        left = 1.0 - dot(nulls[0, j], nulls[1, j], blas)
        if n < 2 + _GOING and left > _IDLE * _NEAR * mean * dot(nulls[1, j], nulls[1, j], blas):
            _append_null(j, nulls, n, work)
            n += 1
        else:
            order[kept] = j
            kept += 1
    first = n
    if value != 0.0:
        if kept == room:
            return kept, first, -1
        _append(rows[rows.shape[0] - 1], math.sqrt(mean - value), n, work)
        n += 1
    _decompose(n, work)
    covered = _cover(n, _NEAR * mean, room - kept - (n - first), work)
    if covered > n:
        _decompose(covered, work)
    return kept, first, covered


@helper
def _move_inverse(nulls, kept, first, n, value, work):
    """``W -= R' diag(1/beta) R`` for the n rows of F, with Z and ``Z W`` after it."""
    W, rows, short, mean, blas = work.W, work.rows, work.short, work.numbers[_MEAN], work.blas
    most = _most(short)
    beta, order = short[2 * most], short[2 * most + 5]
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
            share = math.sqrt(mean / (mean - value)) if row == first else 1.0  # the clipped direction comes first
            _put(z, share, rows[row])
            _put(Wz, share, rows[most + row])
        for i in range(n):
            R = rows[2 * most + i]
            add(Wz, beta[i] * dot(R, z, blas), R, blas)
