"""Linear algebra of compiled loops: scipy's BLAS and LAPACK, linked by name so that kernels can be cached on disk, and
loops over one triangle of a symmetric matrix.

All arrays are C-ordered with unit stride along the row; the number of elements between rows comes from their strides.
BLAS itself sees every array transposed, which only this module accounts for. Numba frees an array after its last use
by name, and an address is not a name: every array made here for a call is read once more after it.
"""

import math

import llvmlite.binding
import numpy as np
from numba import types
from numba.extending import get_cython_function_address, overload, register_jitable

from nearkin.kernels.machine.compile import body, helper


def _link(library, name, n_arguments, result=types.void):
    """Routine of a library as a symbol that compiled code links to by name."""
    symbol = f"nearkin_{name}"
    llvmlite.binding.add_symbol(symbol, get_cython_function_address(library, name))
    return types.ExternalFunction(symbol, result(*[types.uintp] * n_arguments))


_BLAS = "scipy.linalg.cython_blas"
_GEMM = {types.float32: _link(_BLAS, "sgemm", 13), types.float64: _link(_BLAS, "dgemm", 13)}
_ddot = _link(_BLAS, "ddot", 5, types.float64)
_daxpy = _link(_BLAS, "daxpy", 6)
_dsymv = _link(_BLAS, "dsymv", 10)


@register_jitable
def workspace(like):
    """Memory for the arguments of `products`, which BLAS takes by reference: letters N and T, integers, two factors."""
    return np.array([78, 84], dtype=np.uint8), np.empty(6, np.int32), np.empty(2, like.dtype)


def products(A, B, C, work):
    """``C = A B'`` for A (m, k), B (n, k): all inner products of rows."""


@overload(products)
def _products(A, B, C, work):
    gemm = _GEMM[C.dtype]

    def implementation(A, B, C, work):
        letters, ints, factors = work
        size = C.itemsize
        ints[0], ints[1], ints[2] = B.shape[0], A.shape[0], A.shape[1]
        ints[3], ints[4], ints[5] = B.strides[0] // size, A.strides[0] // size, C.strides[0] // size
        factors[0], factors[1] = 1, 0
        i, f, letter = ints.ctypes.data, factors.ctypes.data, letters.ctypes.data
        gemm(letter + 1, letter, i, i + 4, i + 8, f, B.ctypes.data, i + 12,
             A.ctypes.data, i + 16, f + size, C.ctypes.data, i + 20)  # fmt: skip

    return implementation


@register_jitable
def vector_workspace(d):
    """Memory for the arguments of `dot`, `add` and `multiply_symmetric` on vectors of d doubles without gaps.

    A function of many short loops over vectors takes long to compile; calls of these routines keep it short.
    """
    return np.array([d, 1, 0x55555555], np.int32), np.array([0.0, 1.0, 0.0])  # the last integer spells UUUU


@register_jitable
def dot(x, y, work):
    """``x' y``."""
    n = work[0].ctypes.data
    return _ddot(n, x.ctypes.data, n + 4, y.ctypes.data, n + 4)


@register_jitable
def add(y, a, x, work):
    """``y += a x``."""
    n = work[0].ctypes.data
    work[1][0] = a
    _daxpy(n, work[1].ctypes.data, x.ctypes.data, n + 4, y.ctypes.data, n + 4)


@register_jitable
def multiply_symmetric(W, x, y, work):
    """``y = W x``; of W only the part on and below the diagonal is read."""
    n, f = work[0].ctypes.data, work[1].ctypes.data
    _dsymv(n + 8, n, f + 8, W.ctypes.data, n, x.ctypes.data, n + 4, f + 16, y.ctypes.data, n + 4)


_LAPACK = "scipy.linalg.cython_lapack"
_dpotrf = _link(_LAPACK, "dpotrf", 5)
_dpotri = _link(_LAPACK, "dpotri", 5)
_dsyevr = _link(_LAPACK, "dsyevr", 21)


@register_jitable
def invert_positive_definite(A):
    """Replace A by its inverse, on and below the diagonal; returns whether A is positive definite."""
    return _call_by_triangle(_dpotrf, A) and _call_by_triangle(_dpotri, A)


@register_jitable
def is_positive_definite(A):
    """Whether A, read on and below the diagonal, is positive definite; A is overwritten by its factor."""
    return _call_by_triangle(_dpotrf, A)


@register_jitable
def _call_by_triangle(routine, A):
    """Call a routine that takes the part of A on and below the diagonal; returns whether it succeeded."""
    ints = np.zeros(2, np.int32)
    ints[0] = A.shape[0]
    letter = np.full(1, 85, np.uint8)  # U: below the diagonal here is above it for LAPACK
    i = ints.ctypes.data
    routine(letter.ctypes.data, i, A.ctypes.data, i, i + 4)
    return ints[1] == 0 and letter[0] == 85


@register_jitable
def negative_eigenpairs(A, values, vectors):
    """Write the negative eigenvalues of A to ``values`` and their vectors to rows of ``vectors``; returns their number.

    A is read on and below the diagonal and overwritten. A negative result means that LAPACK failed.
    """
    d = A.shape[0]
    square = 0.0
    for i in range(d):
        for k in range(i + 1):
            square += 2.0 * A[i, k] * A[i, k]
    letters = np.array([86, 86, 85], np.uint8)  # V: with vectors, V: an interval of values, U
    ints = np.zeros(8, np.int32)
    ints[0], ints[1], ints[2] = d, 26 * d, 10 * d
    numbers = np.zeros(3)
    numbers[0] = -1.0 - math.sqrt(square)
    support = np.zeros(2 * d, np.int32)
    work = np.zeros(26 * d)
    more = np.zeros(10 * d, np.int32)
    i, f, c = ints.ctypes.data, numbers.ctypes.data, letters.ctypes.data
    _dsyevr(c, c + 1, c + 2, i, A.ctypes.data, i, f, f + 8, i + 20, i + 20, f + 16, i + 12, values.ctypes.data,
            vectors.ctypes.data, i, support.ctypes.data, work.ctypes.data, i + 4, more.ctypes.data, i + 8,
            i + 16)  # fmt: skip
    if letters[0] != 86 or numbers[1] != 0.0 or support[0] < 0 or work[0] < 0.0 or more[0] < 0:
        return -1
    return ints[3] if ints[4] == 0 else -1


# ---------------------------------------------------------------- symmetric matrices
# Loops read and write only the part on and below the diagonal, which halves the memory traffic they wait for.


@helper
def multiply(W, x, y):
    """``y = W x``; four rows at a time share the elements read of x and y."""
    d = W.shape[0]
    for k in range(d):
        y[k] = 0.0
    whole = d - d % 4
    for i in range(0, whole, 4):
        x_0, x_1, x_2, x_3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        s_0 = s_1 = s_2 = s_3 = 0.0
        for k in range(i):
            w_0, w_1, w_2, w_3 = W[i, k], W[i + 1, k], W[i + 2, k], W[i + 3, k]
            s_0 += w_0 * x[k]
            s_1 += w_1 * x[k]
            s_2 += w_2 * x[k]
            s_3 += w_3 * x[k]
            y[k] += w_0 * x_0 + w_1 * x_1 + w_2 * x_2 + w_3 * x_3
        y[i] += s_0
        y[i + 1] += s_1
        y[i + 2] += s_2
        y[i + 3] += s_3
        for j in range(i, i + 4):
            for k in range(i, j):
                y[j] += W[j, k] * x[k]
                y[k] += W[j, k] * x[j]
            y[j] += W[j, j] * x[j]
    for i in range(whole, d):
        s_0 = 0.0
        x_0 = x[i]
        for k in range(i):
            s_0 += W[i, k] * x[k]
            y[k] += W[i, k] * x_0
        y[i] += s_0 + W[i, i] * x_0


@body
def multiply_between(W, x, y, Wy):
    """``x' W y``; also writes ``Wy``."""
    multiply(W, y, Wy)
    total = 0.0
    for k in range(x.shape[0]):
        total += x[k] * Wy[k]
    return total


@helper
def add_outer_products(W, columns, factors, n):
    """``W += sum_j factors[j] c_j c_j'`` for the first n rows c of ``columns``."""
    for i in range(W.shape[0]):
        row = W[i]
        j = 0
        while j < n:
            # Four rows per pass; those beyond the last have factor zero.
            c_0, c_1 = columns[j], columns[min(j + 1, n - 1)]
            c_2, c_3 = columns[min(j + 2, n - 1)], columns[min(j + 3, n - 1)]
            a_0 = factors[j] * c_0[i]
            a_1 = factors[j + 1] * c_1[i] if j + 1 < n else 0.0
            a_2 = factors[j + 2] * c_2[i] if j + 2 < n else 0.0
            a_3 = factors[j + 3] * c_3[i] if j + 3 < n else 0.0
            for k in range(i + 1):
                row[k] += a_0 * c_0[k] + a_1 * c_1[k] + a_2 * c_2[k] + a_3 * c_3[k]
            j += 4


@helper
def mirror(W):
    """Copy the part below the diagonal above it."""
    for i in range(W.shape[0]):
        for k in range(i):
            W[k, i] = W[i, k]


@helper
def eigen_small(B, n, vectors):
    """Eigen-decomposition of the leading n x n part by Jacobi's rotations; the values end on B's diagonal.

    Column j of ``vectors`` belongs to ``B[j, j]``. For a handful of rows, where a library call costs more.
    """
    for i in range(n):
        for j in range(n):
            vectors[i, j] = 1.0 if i == j else 0.0
    for _ in range(50):
        moved = False
        for p in range(n - 1):
            for q in range(p + 1, n):
                if abs(B[p, q]) <= 1e-17 * (abs(B[p, p]) + abs(B[q, q])):
                    continue
                moved = True
                slope = 0.5 * (B[q, q] - B[p, p]) / B[p, q]
                t = 1.0 / (abs(slope) + math.sqrt(1.0 + slope * slope))
                if slope < 0.0:
                    t = -t
                c = 1.0 / math.sqrt(1.0 + t * t)
                s = t * c
                for k in range(n):
                    a, b = B[k, p], B[k, q]
                    B[k, p] = c * a - s * b
                    B[k, q] = s * a + c * b
                for k in range(n):
                    a, b = B[p, k], B[q, k]
                    B[p, k] = c * a - s * b
                    B[q, k] = s * a + c * b
                for k in range(n):
                    a, b = vectors[k, p], vectors[k, q]
                    vectors[k, p] = c * a - s * b
                    vectors[k, q] = s * a + c * b
        if not moved:
            break


@helper
def smallest_of_tridiagonal(diagonal, off, m, above, fall):
    """Smallest eigenvalue of a tridiagonal matrix of order m, given that of its leading part of order m - 1.

    It is the root left of ``above`` of ``(diagonal[m-1] - x) p(x) = off[m-2]^2``. There p, the last pivot of the
    leading part less x, is nearly linear; with its tangent in its place the root solves a quadratic equation. ``fall``
    is minus the slope of p at ``above``: the squared length of the leading part's eigenvector that ends in 1.
    """
    if m == 1:
        return diagonal[0]
    square = off[m - 2] * off[m - 2]
    low = min(above, diagonal[m - 1]) - off[m - 2]
    high = above
    lead = diagonal[m - 1] - above
    spread = lead + math.sqrt(lead * lead + 4.0 * square / fall)
    x = max(low, above - 2.0 * square / fall / spread) if spread > 0.0 else low
    for _ in range(60):
        p = diagonal[0] - x
        slope = -1.0
        inside = p > 0.0
        for i in range(1, m - 1):
            if p <= 0.0:
                inside = False
                break
            ratio = off[i - 1] / p
            slope = -1.0 + ratio * ratio * slope
            p = diagonal[i] - x - off[i - 1] * ratio
        last = diagonal[m - 1] - x
        gap = last * p - square
        new = math.inf
        if inside and p > 0.0 and last > 0.0:
            if gap > 0.0:
                low = x
            else:
                high = x
            b = p - last * slope
            new = x + 2.0 * gap / (b + math.sqrt(max(0.0, b * b + 4.0 * slope * gap)))
        else:
            high = x
        if not low <= new <= high:
            new = 0.5 * (low + high)
        if abs(new - x) <= 2e-15 * abs(new):
            return new
        x = new
    return x
