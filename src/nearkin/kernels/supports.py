"""Similarities in the feature spaces of Mercer kernels: OKS and OMKS.

For every Mercer kernel k there is an operator, a sum of at most ``capacity`` terms, and

    ``S_k(x, y) = k(x, y) + sum_i tau_i k(x, x_i) [k(x_i+, y) - k(x_i-, y)]``.

A triplet needs five values per term: of its anchor with x_i, and of its positive and its negative with x_i+ and x_i-.
One pass over the three rows of a term computes its inner products; the kernel follows for all terms at once.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from nearkin import mercer
from nearkin.kernels.formulas import hedge, linear_step, members, plausibility_of, weight
from nearkin.kernels.machine.compile import Sweep, helper, step
from nearkin.kernels.machine.simd import exponentials

_linear = step(mercer.linear)
_poly = step(mercer.poly)
_rbf_exponent = step(mercer.rbf_exponent)
_cosine = step(mercer.cosine)


class Terms(NamedTuple):
    """Terms of K operators, in rings: a new term replaces the oldest."""

    #: Step sizes (K, capacity).
    tau: np.ndarray
    #: Anchors, positives and negatives (K, 3, capacity, d), and their squared lengths (K, 3, capacity).
    rows: np.ndarray
    squares: np.ndarray
    #: Number of terms that each operator ever had.
    seen: np.ndarray


class Spaces(NamedTuple):
    """Mercer kernels by kind and numbers, their weights, and the discount of one that ranks a triplet wrongly."""

    kinds: np.ndarray
    numbers: np.ndarray
    theta: np.ndarray
    discount: float


@partial(Sweep, shapes="k m, k 3 m d, k 3 m, k, k, k 3, k, *, n")
def sweep(terms, spaces, triplets, rule, plausibility):
    """Every kernel learns by itself; its weight falls when it ranks a triplet wrongly (Hedge)."""
    seen, theta = terms.seen, spaces.theta
    K, capacity = terms.tau.shape
    dots = np.empty((6, capacity))
    own = np.empty(3)
    wrong = np.empty(K)
    full_weight = weight(0.0, rule.params[0], rule.params[1])
    n_updates = 0
    for t in range(len(plausibility)):
        x, positive, negative = members(triplets, t)
        own[0], own[1], own[2] = _dot(x, x), _dot(positive, positive), _dot(negative, negative)
        xp, xn, pn = _dot(x, positive), _dot(x, negative), _dot(positive, negative)
        mean = 0.0
        moved = False
        for k in range(K):
            kind, these = spaces.kinds[k], spaces.numbers[k]
            z = _value(kind, these, xp, own[0], own[1]) - _value(kind, these, xn, own[0], own[2])
            _term_dots(terms.rows[k], min(seen[k], capacity), x, positive, negative, dots)
            z += _learned(kind, these, terms.tau[k], terms.squares[k], min(seen[k], capacity), own, dots)
            sq_norm = 0.0
            if z < 1.0:
                sq_norm = _value(kind, these, own[0], own[0], own[0]) * (
                    _value(kind, these, own[1], own[1], own[1])
                    - 2.0 * _value(kind, these, pn, own[1], own[2])
                    + _value(kind, these, own[2], own[2], own[2])
                )
            tau, w = linear_step(z, sq_norm, rule.C[t], rule, weight, full_weight)
            if tau > 0.0:
                terms.tau[k, seen[k] % capacity] = tau
                _write(terms.rows[k], terms.squares[k], seen[k] % capacity, x, positive, negative, own)
                seen[k] += 1
                moved = True
            mean += theta[k] * plausibility_of(w, full_weight)
            wrong[k] = 1.0 if z < 0.0 else 0.0
        plausibility[t] = min(1.0, mean)
        hedge(theta, wrong, spaces.discount)
        if moved:
            n_updates += 1
    return n_updates


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

    Two terms at a time share the elements read of the triplet; the last of an odd number is computed twice.
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
def _learned(kind, numbers, taus, squares, n, own, dots):
    """The terms' part of the margin from inner products; ``own`` are the squared lengths of the triplet's rows."""
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
def _write(rows, squares, at, x, positive, negative, own):
    """Write the rows of a term and their squared lengths."""
    for k in range(x.shape[0]):
        rows[0, at, k], rows[1, at, k], rows[2, at, k] = x[k], positive[k], negative[k]
    for role in range(3):
        squares[role, at] = own[role]
