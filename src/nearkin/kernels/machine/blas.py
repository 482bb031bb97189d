"""BLAS for compiled loops: the routines that scipy carries, linked by name so that kernels can be cached on disk.

All arrays are C-ordered with unit stride along the row; the number of elements between rows is taken from their
strides. BLAS itself sees every array transposed, which is accounted for here and nowhere else.
"""

import llvmlite.binding
import numpy as np
from numba import types
from numba.extending import get_cython_function_address, overload, register_jitable

__all__ = ["add", "dot", "multiply_symmetric", "products", "vector_workspace", "workspace"]


def _routines(name, n_arguments):
    """Single and double precision routine as symbols that compiled code links to by name."""
    found = {}
    for dtype, letter in ((types.float32, "s"), (types.float64, "d")):
        symbol = f"nearkin_{letter}{name}"
        address = get_cython_function_address("scipy.linalg.cython_blas", letter + name)
        llvmlite.binding.add_symbol(symbol, address)
        found[dtype] = types.ExternalFunction(symbol, types.void(*[types.uintp] * n_arguments))
    return found


def _vector_routine(name, result, n_arguments):
    """Double precision routine on vectors."""
    symbol = f"nearkin_{name}"
    llvmlite.binding.add_symbol(symbol, get_cython_function_address("scipy.linalg.cython_blas", name))
    return types.ExternalFunction(symbol, result(*[types.uintp] * n_arguments))


_GEMM = _routines("gemm", 13)
_ddot = _vector_routine("ddot", types.float64, 5)
_daxpy = _vector_routine("daxpy", types.void, 6)
_dsymv = _vector_routine("dsymv", types.void, 10)


@register_jitable
def workspace(like):
    """Memory for the arguments of one call, which BLAS takes by reference.

    The letters N and T, whole numbers, and two factors of the array's type.
    """
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

    A function that would consist of many short loops over vectors takes long to compile; calls of these keep it short.
    """
    return np.array([d, 1, 0x55555555], np.int32), np.array([0.0, 1.0, 0.0])  # the last whole number spells UUUU


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
    """``y = W x``, of W only the part on and below the diagonal."""
    n, f = work[0].ctypes.data, work[1].ctypes.data
    _dsymv(n + 8, n, f + 8, W.ctypes.data, n, x.ctypes.data, n + 4, f + 16, y.ctypes.data, n + 4)
