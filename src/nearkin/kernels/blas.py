"""BLAS for compiled loops: the routines that scipy carries, linked by name so that kernels can be cached on disk.

All arrays are C-ordered with unit stride along the row; the number of elements between rows is taken from their
strides. Each function is named after what it does to C-ordered arrays: BLAS itself sees every array transposed, which
is accounted for here and nowhere else. No function allocates arrays, and none needs the interpreter.
"""

import llvmlite.binding
import numpy as np
from numba import types
from numba.extending import get_cython_function_address, overload, register_jitable

__all__ = ["add_outer", "add_symmetric_outer", "gram", "multiply", "multiply_symmetric", "products", "workspace"]


def _routines(name, n_arguments):
    """Single and double precision routine as symbols that compiled code links to by name."""
    found = {}
    for dtype, letter in ((types.float32, "s"), (types.float64, "d")):
        symbol = f"nearkin_{letter}{name}"
        address = get_cython_function_address("scipy.linalg.cython_blas", letter + name)
        llvmlite.binding.add_symbol(symbol, address)
        found[dtype] = types.ExternalFunction(symbol, types.void(*[types.uintp] * n_arguments))
    return found


_GEMM = _routines("gemm", 13)
_SYMM = _routines("symm", 12)
_SYRK = _routines("syrk", 10)
_SYR2K = _routines("syr2k", 12)


@register_jitable
def workspace(like):
    """Memory for the arguments of one call, which BLAS takes by reference.

    The letters N, T, L and U, whole numbers, and two factors of the array's type.
    """
    return np.array([78, 84, 76, 85], dtype=np.uint8), np.empty(8, np.int32), np.empty(2, like.dtype)


def _gemm(first, second, out, turn_first, turn_second, sizes, add, work):
    """General product as BLAS sees it: ``sizes`` of the transposed result and of the sum, ``turn`` N (0) or T (1)."""


@overload(_gemm)
def _gemm_overload(first, second, out, turn_first, turn_second, sizes, add, work):
    gemm = _GEMM[out.dtype]

    def implementation(first, second, out, turn_first, turn_second, sizes, add, work):
        letters, ints, factors = work
        size = out.itemsize
        ints[0], ints[1], ints[2] = sizes
        ints[3], ints[4], ints[5] = first.strides[0] // size, second.strides[0] // size, out.strides[0] // size
        factors[0], factors[1] = 1, add
        i, f, letter = ints.ctypes.data, factors.ctypes.data, letters.ctypes.data
        gemm(letter + turn_first, letter + turn_second, i, i + 4, i + 8, f, first.ctypes.data, i + 12,
             second.ctypes.data, i + 16, f + size, out.ctypes.data, i + 20)  # fmt: skip

    return implementation


@register_jitable
def multiply(A, B, C, work):
    """``C = A B`` for A (m, k), B (k, n)."""
    _gemm(B, A, C, 0, 0, (B.shape[1], A.shape[0], A.shape[1]), 0, work)


@register_jitable
def products(A, B, C, work):
    """``C = A B'`` for A (m, k), B (n, k): all inner products of rows."""
    _gemm(B, A, C, 1, 0, (B.shape[0], A.shape[0], A.shape[1]), 0, work)


@register_jitable
def add_outer(A, B, C, work):
    """``C += A' B`` for A (k, m), B (k, n): the sum of the outer products of rows."""
    _gemm(B, A, C, 0, 1, (B.shape[1], A.shape[1], A.shape[0]), 1, work)


def multiply_symmetric(A, M, C, work):
    """``C = A M`` for A (b, d) and a symmetric M of which only the part on and below the diagonal is read."""


@overload(multiply_symmetric)
def _multiply_symmetric(A, M, C, work):
    symm = _SYMM[A.dtype]

    def implementation(A, M, C, work):
        letters, ints, factors = work
        size = A.itemsize
        ints[0], ints[1] = A.shape[1], A.shape[0]
        ints[2], ints[3], ints[4] = M.strides[0] // size, A.strides[0] // size, C.strides[0] // size
        factors[0], factors[1] = 1, 0
        i, f, letter = ints.ctypes.data, factors.ctypes.data, letters.ctypes.data
        symm(letter + 2, letter + 3, i, i + 4, f, M.ctypes.data, i + 8, A.ctypes.data, i + 12,
             f + size, C.ctypes.data, i + 16)  # fmt: skip

    return implementation


def add_symmetric_outer(A, B, M, work):
    """``M += A' B + B' A`` for A, B (k, d), the part on and below the diagonal only."""


@overload(add_symmetric_outer)
def _add_symmetric_outer(A, B, M, work):
    syr2k = _SYR2K[A.dtype]

    def implementation(A, B, M, work):
        letters, ints, factors = work
        size = A.itemsize
        ints[0], ints[1] = A.shape[1], A.shape[0]
        ints[2], ints[3], ints[4] = A.strides[0] // size, B.strides[0] // size, M.strides[0] // size
        factors[0], factors[1] = 1, 1
        i, f, letter = ints.ctypes.data, factors.ctypes.data, letters.ctypes.data
        syr2k(letter + 3, letter, i, i + 4, f, A.ctypes.data, i + 8, B.ctypes.data, i + 12,
              f + size, M.ctypes.data, i + 16)  # fmt: skip

    return implementation


def gram(A, C, work):
    """``C = A A'`` for A (b, d), the part on and above the diagonal only."""


@overload(gram)
def _gram(A, C, work):
    syrk = _SYRK[A.dtype]

    def implementation(A, C, work):
        letters, ints, factors = work
        size = A.itemsize
        ints[0], ints[1] = A.shape[0], A.shape[1]
        ints[2], ints[3] = A.strides[0] // size, C.strides[0] // size
        factors[0], factors[1] = 1, 0
        i, f, letter = ints.ctypes.data, factors.ctypes.data, letters.ctypes.data
        syrk(letter + 2, letter + 1, i, i + 4, f, A.ctypes.data, i + 8, f + size, C.ctypes.data, i + 12)

    return implementation
