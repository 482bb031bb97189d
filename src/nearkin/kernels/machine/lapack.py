"""LAPACK for compiled loops: scipy's routines, linked by name so that kernels can be cached on disk.

Numba frees an array after its last use by name, and an address is not a name: every array made here for a call is
read once more after it.
"""

import math

import numpy as np
from numba.extending import register_jitable

from nearkin.kernels.machine.blas import link

__all__ = ["invert_positive_definite", "is_positive_definite", "negative_eigenpairs"]


_LAPACK = "scipy.linalg.cython_lapack"
_dpotrf = link(_LAPACK, "dpotrf", 5)
_dpotri = link(_LAPACK, "dpotri", 5)
_dsyevr = link(_LAPACK, "dsyevr", 21)


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
