"""Arrays of different sizes in one argument: compiled loops take their addresses, and see them as they lie.

A tuple of arrays would be compiled anew for every length, and one flat copy would have to be written back. Whoever
hands over addresses keeps the arrays alive and C-ordered.
"""

import numpy as np
from numba import carray, types
from numba.extending import intrinsic, register_jitable

__all__ = ["addresses", "at"]


def addresses(*arrays):
    """Where the arrays begin."""
    assert all(array.flags.c_contiguous for array in arrays)
    return np.array([array.ctypes.data for array in arrays], dtype=np.intp)


@intrinsic
def _pointer(typing_context, address):
    def generate(context, builder, sig, args):
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.intp), generate


@register_jitable
def at(address, shape, like):
    """The array of this shape, and of the type of ``like``, that begins at an address."""
    return carray(_pointer(address), shape, like.dtype)
