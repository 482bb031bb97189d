"""BLAS and LAPACK for compiled loops: scipy's routines, linked by name so that kernels can be cached on disk.

All arrays are C-ordered with unit stride along the row; the number of elements between rows comes from their strides.
BLAS itself sees every array transposed, which only this module accounts for.

Numba frees an array after its last use by name, and an address is not a name: every array made here for a call is
read once more after it.
"""

import math

import llvmlite.binding
import numpy as np
from numba import types
from numba.extending import get_cython_function_address, overload, register_jitable

__all__ = [
    "add", "dot", "invert_positive_definite", "is_positive_definite", "multiply_symmetric", "negative_eigenpairs",
    "products", "vector_workspace", "workspace",
]  # fmt: skip


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
    ints = np.zeros(2, np.int32)
    ints[0] = A.shape[0]
    letter = np.full(1, 85, np.uint8)  # U: below the diagonal here is above it for LAPACK
    i, a, c = ints.ctypes.data, A.ctypes.data, letter.ctypes.data
    _dpotrf(c, i, a, i, i + 4)
    if ints[1] != 0:
        return False
    _dpotri(c, i, a, i, i + 4)
    return ints[1] == 0 and letter[0] == 85


@register_jitable
def is_positive_definite(A):
    """Whether A, read on and below the diagonal, is positive definite; A is overwritten."""
    ints = np.zeros(2, np.int32)
    ints[0] = A.shape[0]
    letter = np.full(1, 85, np.uint8)
    i = ints.ctypes.data
    _dpotrf(letter.ctypes.data, i, A.ctypes.data, i, i + 4)
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
