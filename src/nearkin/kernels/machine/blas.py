"""BLAS for compiled loops: scipy's routines, linked by name so that kernels can be cached on disk.

All arrays are C-ordered with unit stride along the row; the number of elements between rows comes from their strides.
BLAS itself sees every array transposed, which only this module accounts for.
"""

import llvmlite.binding
import numpy as np
from numba import types
from numba.extending import get_cython_function_address, overload, register_jitable

__all__ = ["add", "dot", "link", "multiply_symmetric", "products", "vector_workspace", "workspace"]


def link(library, name, n_arguments, result=types.void):
    """Routine of a library as a symbol that compiled code links to by name."""
    symbol = f"nearkin_{name}"
    llvmlite.binding.add_symbol(symbol, get_cython_function_address(library, name))
    return types.ExternalFunction(symbol, result(*[types.uintp] * n_arguments))


_BLAS = "scipy.linalg.cython_blas"
_GEMM = {types.float32: link(_BLAS, "sgemm", 13), types.float64: link(_BLAS, "dgemm", 13)}
_ddot = link(_BLAS, "ddot", 5, types.float64)
_daxpy = link(_BLAS, "daxpy", 6)
_dsymv = link(_BLAS, "dsymv", 10)


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
