"""Sequential sweep over triplets for similarities in the feature spaces of kernels (OKS and OMKS).

For every kernel k there is an operator, a sum of at most ``capacity`` terms, and

    ``S_k(x, y) = k(x, y) + sum_i tau_i k(x, x_i) [k(x_i+, y) - k(x_i-, y)]``.

A triplet asks for five kernel values per term: its anchor with x_i, its positive and its negative with x_i+ and x_i-.
The inner products of a term are taken in one pass over its three rows; the kernel follows for all terms at once.
"""

import math

import numpy as np

from nearkin import mercer
from nearkin.kernels.machine.compile import body, helper, kernel, step
from nearkin.kernels.machine.exponential import exponentials
from nearkin.kernels.scalar import exponential_weight, half_quadratic, hedge, linear_kink, linear_z

__all__ = ["sweep", "sweep_with"]

_SMALLEST = float(np.finfo(np.float64).tiny)

_linear = step(mercer.linear)
_poly = step(mercer.poly)
_rbf_exponent = step(mercer.rbf_exponent)
_cosine = step(mercer.cosine)


@helper
def _dot(x, y):
    """In double precision whatever the rows are: the size of a step is a difference of these."""
    total = 0.0
    for k in range(x.shape[0]):
        total += np.float64(x[k]) * np.float64(y[k])
    return total


@helper
def _term_dots(rows, n, x, positive, negative, dots):
    """Five rows of inner products: x with x_i; x+ with x_i+ and x_i-; x- with x_i+ and x_i-.

    Two terms at a time share what is read of the triplet; of an odd number the last is taken twice.
    """
    first, second, third = rows[0], rows[1], rows[2]
    for i in range(0, n, 2):
        j = i + 1 if i + 1 < n else i
        x_i, p_i, n_i = first[i], second[i], third[i]
        x_j, p_j, n_j = first[j], second[j], third[j]
        s_0 = s_1 = s_2 = s_3 = s_4 = rows.dtype.type(0.0)
        t_0 = t_1 = t_2 = t_3 = t_4 = rows.dtype.type(0.0)
        for k in range(x.shape[0]):
            s_0 += x[k] * x_i[k]
            s_1 += positive[k] * p_i[k]
            s_2 += positive[k] * n_i[k]
            s_3 += negative[k] * p_i[k]
            s_4 += negative[k] * n_i[k]
            t_0 += x[k] * x_j[k]
            t_1 += positive[k] * p_j[k]
            t_2 += positive[k] * n_j[k]
            t_3 += negative[k] * p_j[k]
            t_4 += negative[k] * n_j[k]
        dots[0, i], dots[1, i], dots[2, i], dots[3, i], dots[4, i] = s_0, s_1, s_2, s_3, s_4
        dots[0, j], dots[1, j], dots[2, j], dots[3, j], dots[4, j] = t_0, t_1, t_2, t_3, t_4


@helper
def _values(kind, numbers, dots, square, squares, n, work):
    """Replace inner products with a row of squared length ``square`` by the kernel's values."""
    gamma, coef0, degree = numbers[0], numbers[1], numbers[2]
    if kind == 1:
        for i in range(n):
            dots[i] = _poly(dots[i], square, squares[i], gamma, coef0, degree)
    elif kind == 2:
        for i in range(n):
            dots[i] = _rbf_exponent(dots[i], square, squares[i], gamma)
        exponentials(dots, n, work)
    elif kind == 3:
        for i in range(n):
            dots[i] = _cosine(dots[i], square, squares[i], gamma, coef0, degree)


@helper
def _value(kind, numbers, dot, left, right):
    """The kernel of one pair."""
    gamma, coef0, degree = numbers[0], numbers[1], numbers[2]
    if kind == 1:
        return _poly(dot, left, right, gamma, coef0, degree)
    if kind == 2:
        return math.exp(_rbf_exponent(dot, left, right, gamma))
    if kind == 3:
        return _cosine(dot, left, right, gamma, coef0, degree)
    return _linear(dot, left, right, gamma, coef0, degree)


@helper
def _learned(kind, numbers, taus, rows, squares, n, x, positive, negative, own, dots):
    """What the terms add to the margin; ``own`` are the squared lengths of the triplet's rows."""
    _term_dots(rows, n, x, positive, negative, dots)
    _values(kind, numbers, dots[0], own[0], squares[0], n, dots[5])
    _values(kind, numbers, dots[1], own[1], squares[1], n, dots[5])
    _values(kind, numbers, dots[2], own[1], squares[2], n, dots[5])
    _values(kind, numbers, dots[3], own[2], squares[1], n, dots[5])
    _values(kind, numbers, dots[4], own[2], squares[2], n, dots[5])
    total = 0.0
    for i in range(n):
        total += taus[i] * dots[0, i] * ((dots[1, i] - dots[2, i]) - (dots[3, i] - dots[4, i]))
    return total


@helper
def _append(taus, rows, squares, at, tau, x, positive, negative, own):
    """Write a term, over the oldest one where there is no more room."""
    taus[at] = tau
    for k in range(x.shape[0]):
        rows[0, at, k], rows[1, at, k], rows[2, at, k] = x[k], positive[k], negative[k]
    for role in range(3):
        squares[role, at] = own[role]


@body
def sweep_with(
    terms,
    kinds,
    numbers,
    theta,
    discount,
    anchors,
    positives,
    negatives,
    ia,
    ip,
    ineg,
    C,
    params,
    max_hq_iter,
    plausibility,
    weight,
):
    """Every kernel learns by itself; its weight in ``theta`` falls when it ranks a triplet wrongly (Hedge).

    ``terms`` are the step sizes (K, capacity), the rows (K, 3, capacity, d), their squared lengths (K, 3, capacity) and
    how many terms each kernel ever had; a new one takes the place of the oldest.
    """
    taus, rows, squares, seen = terms
    K, capacity = taus.shape
    dots = np.empty((6, capacity))
    own = np.empty(3)
    wrong = np.empty(K)
    full_weight = weight(0.0, params[0], params[1])
    n_updates = 0
    for t in range(ia.shape[0]):
        x, positive, negative = anchors[ia[t]], positives[ip[t]], negatives[ineg[t]]
        own[0], own[1], own[2] = _dot(x, x), _dot(positive, positive), _dot(negative, negative)
        xp, xn, pn = _dot(x, positive), _dot(x, negative), _dot(positive, negative)
        mean = 0.0
        moved = False
        for k in range(K):
            kind, these = kinds[k], numbers[k]
            z = _value(kind, these, xp, own[0], own[1]) - _value(kind, these, xn, own[0], own[2])
            n = min(seen[k], capacity)
            z += _learned(kind, these, taus[k], rows[k], squares[k], n, x, positive, negative, own, dots)
            w = full_weight
            if z < 1.0:
                w = weight(1.0 - z, params[0], params[1])
                sq_norm = _value(kind, these, own[0], own[0], own[0]) * (
                    _value(kind, these, own[1], own[1], own[1])
                    - 2.0 * _value(kind, these, pn, own[1], own[2])
                    + _value(kind, these, own[2], own[2], own[2])
                )
                if sq_norm > 0.0:
                    curve = (z, sq_norm)
                    tau, w = half_quadratic(linear_z, curve, linear_kink(curve), C[t], weight, params, max_hq_iter)
                    if tau > 0.0:
                        _append(taus[k], rows[k], squares[k], seen[k] % capacity, tau, x, positive, negative, own)
                        seen[k] += 1
                        moved = True
            mean += theta[k] * min(1.0, max(w / full_weight, _SMALLEST))
            wrong[k] = 1.0 if z < 0.0 else 0.0
        plausibility[t] = min(1.0, mean)
        hedge(theta, wrong, discount)
        if moved:
            n_updates += 1
    return n_updates


@kernel
def sweep(
    terms, kinds, numbers, theta, discount, anchors, positives, negatives, ia, ip, ineg, C, params, max_hq_iter,
    plausibility,
):  # fmt: skip
    """Rescaled-hinge sweep: (Robust-)OKS for one kernel, (Robust-)OMKS for several."""
    return sweep_with(
        terms, kinds, numbers, theta, discount, anchors, positives, negatives, ia, ip, ineg, C, params, max_hq_iter,
        plausibility, exponential_weight,
    )  # fmt: skip
