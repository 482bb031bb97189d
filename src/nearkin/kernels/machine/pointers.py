"""Arrays of different sizes in one argument: compiled loops take their addresses and view the memory in place.

A tuple of arrays would be compiled anew for every length, and one flat copy would have to be written back. The caller
keeps the arrays alive and C-ordered.
"""

import numpy as np
from numba import carray, types
from numba.extending import intrinsic, register_jitable

__all__ = ["addresses", "view"]


def addresses(*arrays):
    """Addresses of the arrays."""
    assert all(array.flags.c_contiguous for array in arrays)
    return np.array([array.ctypes.data for array in arrays], dtype=np.intp)


@intrinsic
def _pointer(typing_context, address):
    def generate(context, builder, sig, args):
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.intp), generate


@register_jitable
def view(address, shape, like):
    """Array of this shape, and of the type of ``like``, at an address."""
    return carray(_pointer(address), shape, like.dtype)
