"""LAPACK for compiled loops: the routines that scipy carries, linked by name so that kernels can be cached on disk."""

import llvmlite.binding
import numpy as np
from numba import types
from numba.extending import get_cython_function_address, register_jitable

__all__ = ["invert_positive_definite"]


def _routine(name, n_arguments):
    """Routine as a symbol that compiled code links to by name."""
    symbol = f"nearkin_{name}"
    llvmlite.binding.add_symbol(symbol, get_cython_function_address("scipy.linalg.cython_lapack", name))
    return types.ExternalFunction(symbol, types.void(*[types.uintp] * n_arguments))


_dpotrf = _routine("dpotrf", 5)
_dpotri = _routine("dpotri", 5)


@register_jitable
def invert_positive_definite(A):
    """Replace A by its inverse, both by the part on and below the diagonal only; whether A is positive definite."""
    ints = np.zeros(2, np.int32)
    ints[0] = A.shape[0]
    letter = np.full(1, 85, np.uint8)  # U: what lies below the diagonal here, LAPACK sees above it
    i, a, c = ints.ctypes.data, A.ctypes.data, letter.ctypes.data
    _dpotrf(c, i, a, i, i + 4)
    if ints[1] != 0:
        return False
    _dpotri(c, i, a, i, i + 4)
    return ints[1] == 0
