"""Vectors of 64 bytes as values of compiled loops, for sums that must stay in registers.

A loop that adds to a row of an array stores and loads that row again and again, because the compiler must allow for
other arrays in the same place. A `Vector` has no place. `load`, `spread` and `store` move it, and ``+``, ``-`` and
``*`` work lane by lane. 64 bytes are one register of AVX-512; the compiler splits them
for machines with shorter ones.

A product that is added may be fused with its sum; nothing else is relaxed, so differences round as they are written.
"""

import operator

from llvmlite import ir
from numba import types
from numba.core.cgutils import get_or_insert_function
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

__all__ = ["BYTES", "Vector", "lanes", "load", "prefetch", "spread", "store", "total", "zeros"]

BYTES = 64


class Vector(types.Type):
    """As many numbers of one type as fill `BYTES`."""

    def __init__(self, dtype):
        self.dtype = dtype
        super().__init__(name=f"Vector({dtype})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, vector):
        number = {types.float32: ir.FloatType(), types.float64: ir.DoubleType()}[vector.dtype]
        super().__init__(manager, vector, ir.VectorType(number, BYTES * 8 // vector.dtype.bitwidth))


@intrinsic
def lanes(typing_context, array):
    """How many of the array's numbers make a vector, as a constant."""

    def generate(context, builder, sig, args):
        return context.get_constant(types.intp, BYTES * 8 // array.dtype.bitwidth)

    return types.intp(array), generate


@intrinsic
def load(typing_context, array, start):
    """The numbers of a flat array from ``start`` on."""

    def generate(context, builder, sig, args):
        place = _place(context, builder, sig, args, sig.return_type)
        return builder.load(place, align=array.dtype.bitwidth // 8)

    return Vector(array.dtype)(array, types.intp), generate


@intrinsic
def spread(typing_context, array, i):
    """Number ``i`` of a flat array in every lane."""

    def generate(context, builder, sig, args):
        number = builder.load(_address(context, builder, sig, args))
        shape = context.get_value_type(sig.return_type)
        index = ir.IntType(32)
        nothing = ir.Constant(shape, ir.Undefined)
        first = builder.insert_element(nothing, number, index(0))
        return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(index, shape.count), None))

    return Vector(array.dtype)(array, types.intp), generate


@intrinsic
def store(typing_context, array, start, vector):
    """Write the vector into a flat array from ``start`` on."""

    def generate(context, builder, sig, args):
        builder.store(args[2], _place(context, builder, sig, args, vector), align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), generate


@intrinsic
def prefetch(typing_context, array, i):
    """Have the memory around number ``i`` of an array brought near, without waiting for it."""

    def generate(context, builder, sig, args):
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        bring = get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), (byte, word, word, word)), "llvm.prefetch.p0i8"
        )
        place = builder.bitcast(_address(context, builder, sig, args), byte)
        builder.call(bring, (place, word(0), word(2), word(1)))  # to read, into the second cache, as data
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@intrinsic
def zeros(typing_context, array):
    """The vector of zeros of the array's type."""

    def generate(context, builder, sig, args):
        return ir.Constant(context.get_value_type(sig.return_type), None)

    return Vector(array.dtype)(array), generate


@intrinsic
def total(typing_context, vector):
    """Sum of the lanes, in an order that is the same for every call."""

    def generate(context, builder, sig, args):
        shape = context.get_value_type(vector)
        add = get_or_insert_function(
            builder.module,
            ir.FunctionType(shape.element, (shape.element, shape)),
            f"llvm.vector.reduce.fadd.v{shape.count}f{vector.dtype.bitwidth}",
        )
        return builder.call(add, (shape.element(-0.0), args[0]), fastmath=("reassoc",))

    return vector.dtype(vector), generate


def _address(context, builder, sig, args):
    """Address of number ``args[1]`` of the array ``args[0]``; no index is negative here."""
    array = context.make_array(sig.args[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]], inbounds=True)


def _place(context, builder, sig, args, vector):
    """The same, as the address of a vector."""
    return builder.bitcast(_address(context, builder, sig, args), context.get_value_type(vector).as_pointer())


def _operator(symbol, instruction):
    """Teach numba ``symbol`` for two vectors of the same type."""

    @infer_global(symbol)
    class Typing(AbstractTemplate):
        def generic(self, args, kws):
            return signature(args[0], *args) if isinstance(args[0], Vector) and args[0] == args[-1] else None

    @lower_builtin(symbol, Vector, Vector)
    def generate(context, builder, sig, args):
        return getattr(builder, instruction)(*args, flags=("contract",))


_operator(operator.add, "fadd")
_operator(operator.iadd, "fadd")
_operator(operator.sub, "fsub")
_operator(operator.mul, "fmul")
