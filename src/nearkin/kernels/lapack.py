"""Questions about the spectrum of a symmetric matrix, by the routines that scipy carries, for compiled loops."""

import llvmlite.binding
import numpy as np
from numba import types
from numba.extending import get_cython_function_address, register_jitable

from nearkin.kernels._compile import copy_matrix

__all__ = ["exceeds", "smallest_eigenpair", "workspace"]


def _routine(name, n_arguments):
    """Routine as a symbol that compiled code links to by name."""
    symbol = f"nearkin_{name}"
    llvmlite.binding.add_symbol(symbol, get_cython_function_address("scipy.linalg.cython_lapack", name))
    return types.ExternalFunction(symbol, types.void(*[types.uintp] * n_arguments))


_dsyevr = _routine("dsyevr", 21)
_dpotrf = _routine("dpotrf", 5)

#: Numbers per feature that the routine asks for as scratch memory.
_SCRATCH = 26
_SCRATCH_INTS = 10


@register_jitable
def workspace(d):
    """Memory for `smallest_eigenpair`: a copy of the matrix, the eigenvector and scratch."""
    return (
        np.empty((d, d)),
        np.empty(d),
        np.empty(d),
        np.empty(_SCRATCH * d),
        np.empty(_SCRATCH_INTS * d, np.int32),
        np.empty(12, np.int32),
        np.empty(3),
        np.array([86, 73, 85], dtype=np.uint8),  # V, I, U: with vector, by index, upper part
    )


@register_jitable
def exceeds(M, level, work):
    """Whether all eigenvalues of a symmetric M are above ``level``, by an attempt at a Cholesky decomposition."""
    copy, ints, letters = work[0], work[5], work[7]
    copy_matrix(M, copy)
    for i in range(M.shape[0]):
        copy[i, i] -= level
    ints[0] = M.shape[0]
    i = ints.ctypes.data
    _dpotrf(letters.ctypes.data + 2, i, copy.ctypes.data, i, i + 20)
    return ints[5] == 0


@register_jitable
def smallest_eigenpair(M, work):
    """Smallest eigenvalue of a symmetric M and whether it was found; its vector is ``work[1]``, in double precision.

    Reads one triangle of M, a third of the work of all eigenpairs or less.
    """
    copy, vector, values, scratch, scratch_ints, ints, reals, letters = work
    d = M.shape[0]
    copy_matrix(M, copy)
    ints[0] = d  # order, leading dimension and length of the vector
    ints[1] = 1  # first and last eigenvalue asked for
    ints[2] = scratch.shape[0]
    ints[3] = scratch_ints.shape[0]
    reals[0] = reals[1] = reals[2] = 0.0  # bounds that are not used, and the default tolerance
    i, x, c = ints.ctypes.data, reals.ctypes.data, letters.ctypes.data
    _dsyevr(
        c, c + 1, c + 2, i, copy.ctypes.data, i, x, x + 8, i + 4, i + 4, x + 16, i + 16, values.ctypes.data,
        vector.ctypes.data, i, i + 24, scratch.ctypes.data, i + 8, scratch_ints.ctypes.data, i + 12, i + 20,
    )  # fmt: skip
    return values[0], ints[5] == 0 and ints[4] == 1
