"""Vectors as values of compiled loops, for sums that must stay in registers and for comparisons of many numbers.

A loop that adds to a row of an array stores and loads that row again and again, because the compiler must allow for
other arrays at the same address. A `Vector` has no address. `load`, `spread`, `fill` and `store` move it; ``+``, ``-``
and ``*`` work lane by lane; comparisons return one bit per lane. Vectors of any length are legal on every target, so
the lengths chosen here matter for speed only.

All arrays are C-ordered. A position in an array is its element number, counted from the first element.

A product that is added may be fused with its sum; nothing else is relaxed, so differences round as they are written.
"""

import operator

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

from nearkin.kernels.machine import LANES
from nearkin.kernels.machine.compile import body, exact_helper

_features = llvmlite.binding.get_host_cpu_features()

#: Bytes of a whole vector: one register of AVX-512; the compiler splits it for processors with shorter ones.
BYTES = 64

#: Bytes of the longest register of this processor, and whether it has as many as 32 of them.
REGISTER_BYTES = 64 if _features.get("avx512f") else 32 if _features.get("avx") else 16
WIDE_REGISTERS = bool(_features.get("avx512f") or _features.get("neon"))

_FUSE = ("contract",)
_WORD = ir.IntType(64)
_INDEX = ir.IntType(32)


class VectorCode:
    """Builder of vector instructions for numbers of one type; all vector code is made of these."""

    def __init__(self, context, builder, dtype):
        self.context = context
        self.builder = builder
        self.size = dtype.bitwidth // 8
        self.number = context.get_data_type(dtype)

    def address(self, kind, array, at):
        """Address of element ``at`` of an array."""
        if kind.layout != "C":
            raise ValueError(f"vectors need C-ordered arrays, got {kind}")
        data = self.context.make_array(kind)(self.context, self.builder, array).data
        return self.builder.gep(data, [at], inbounds=True)

    def ahead(self, pointer, *terms):
        """Pointer moved by a sum of numbers and of products of two."""
        for term in terms:
            if isinstance(term, tuple):
                factor, times = term
                term = self.builder.mul(_WORD(factor) if isinstance(factor, int) else factor, times)
            pointer = self.builder.gep(pointer, [_WORD(term) if isinstance(term, int) else term])
        return pointer

    def load(self, pointer, lanes):
        """Vector that begins at an address."""
        vector = ir.VectorType(pointer.type.pointee, lanes)
        return self.builder.load(self.builder.bitcast(pointer, vector.as_pointer()), align=self.size)

    def store(self, value, pointer):
        """Write a vector to an address."""
        self.builder.store(value, self.builder.bitcast(pointer, value.type.as_pointer()), align=self.size)

    def pick(self, first, second, places):
        """Vector of the lanes at ``places`` of two vectors side by side."""
        mask = ir.Constant(ir.VectorType(_INDEX, len(places)), list(places))
        return self.builder.shuffle_vector(first, second, mask)

    def fill(self, value, lanes):
        """The same value in every lane."""
        undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
        return self.pick(self.builder.insert_element(undefined, value, _INDEX(0)), undefined, [0] * lanes)

    def registers(self, values):
        """Variables for sums; LLVM keeps them in registers."""
        places = []
        for value in values:
            places.append(cgutils.alloca_once(self.builder, value.type))
            self.builder.store(value, places[-1])
        return places

    def zeros(self, lanes, n):
        """``n`` variables for sums that begin at zero."""
        return self.registers([ir.Constant(ir.VectorType(self.number, lanes), [0.0] * lanes)] * n)

    def add_product(self, place, x, y):
        """Add ``x * y`` to a variable."""
        product = self.builder.fmul(x, y, flags=_FUSE)
        self.builder.store(self.builder.fadd(self.builder.load(place), product, flags=_FUSE), place)

    def bits(self, truth):
        """Truth values of all lanes as the lowest bits of a word."""
        return self.builder.zext(self.builder.bitcast(truth, ir.IntType(truth.type.count)), _WORD)

    def call(self, name, result, *arguments, **options):
        """Call a function of LLVM."""
        kind = ir.FunctionType(result, [one.type for one in arguments])
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), arguments, **options)


class Vector(types.Type):
    """Some numbers of one type."""

    def __init__(self, dtype, count):
        self.dtype = dtype
        self.count = count
        super().__init__(name=f"Vector({dtype}, {count})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, vector):
        number = {types.float32: ir.FloatType(), types.float64: ir.DoubleType()}[vector.dtype]
        super().__init__(manager, vector, ir.VectorType(number, vector.count))


def _whole(array):
    """Type of the vector of `BYTES` bytes of an array's numbers."""
    return Vector(array.dtype, BYTES * 8 // array.dtype.bitwidth)


def _generator(emit):
    """Code generator for numba from ``emit(code, types of the arguments, arguments)``; None stands for no result."""

    def generate(context, builder, sig, args):
        number = next(one.dtype for one in sig.args if isinstance(one, (types.Array, Vector)))
        result = emit(VectorCode(context, builder, number), sig.args, args)
        return context.get_dummy_value() if result is None else result

    return generate


@intrinsic
def lanes(typing_context, array):
    """Number of the array's numbers in a whole vector, as a constant."""
    return types.intp(array), _generator(lambda code, kinds, args: _WORD(_whole(array).count))


def _load(array, count):
    def emit(code, kinds, args):
        return code.load(code.address(kinds[0], args[0], args[1]), count)

    return _generator(emit)


@intrinsic
def load(typing_context, array, start):
    """Whole vector of an array from element ``start`` on."""
    vector = _whole(array)
    return vector(array, types.intp), _load(array, vector.count)


@intrinsic(prefer_literal=True)
def load_few(typing_context, array, start, count):
    """The same for a vector of ``count`` numbers, a constant."""
    return Vector(array.dtype, count.literal_value)(array, types.intp, count), _load(array, count.literal_value)


@intrinsic
def spread(typing_context, array, i):
    """Element ``i`` of an array in every lane."""

    def emit(code, kinds, args):
        return code.fill(code.builder.load(code.address(kinds[0], args[0], args[1])), _whole(array).count)

    return _whole(array)(array, types.intp), _generator(emit)


@intrinsic
def fill(typing_context, like, value):
    """``value`` in every lane of a vector like another."""
    emit = _generator(lambda code, kinds, args: code.fill(args[1], like.count))
    return like(like, like.dtype), emit


@intrinsic
def zeros(typing_context, array):
    """The vector of zeros of the array's type."""
    vector = _whole(array)

    def emit(code, kinds, args):
        return ir.Constant(ir.VectorType(code.number, vector.count), None)

    return vector(array), _generator(emit)


@intrinsic
def store(typing_context, array, start, vector):
    """Write the vector into an array from element ``start`` on."""

    def emit(code, kinds, args):
        code.store(args[2], code.address(kinds[0], args[0], args[1]))

    return types.void(array, types.intp, vector), _generator(emit)


def _prefetcher(to_write, locality):
    """Function of an array and i that prefetches element i."""

    @intrinsic
    def prefetch_element(typing_context, array, i):
        def emit(code, kinds, args):
            pointer = code.builder.bitcast(code.address(kinds[0], args[0], args[1]), ir.IntType(8).as_pointer())
            code.call("llvm.prefetch.p0i8", ir.VoidType(), pointer, _INDEX(to_write), _INDEX(locality), _INDEX(1))

        return types.void(array, types.intp), _generator(emit)

    return prefetch_element


prefetch = _prefetcher(0, 2)  # for reading, into the second cache
prefetch_to_write = _prefetcher(1, 3)  # for writing, into the nearest cache


@intrinsic
def total(typing_context, vector):
    """Sum of the lanes, in an order that is the same for every call."""

    def emit(code, kinds, args):
        name = f"llvm.vector.reduce.fadd.v{vector.count}f{vector.dtype.bitwidth}"
        return code.call(name, code.number, code.number(-0.0), args[0], fastmath=("reassoc",))

    return vector.dtype(vector), _generator(emit)


def _operator(symbol, instruction):
    """Teach numba ``symbol`` for two vectors of the same type."""

    @infer_global(symbol)
    class Typing(AbstractTemplate):
        def generic(self, args, kws):
            return signature(args[0], *args) if isinstance(args[0], Vector) and args[0] == args[-1] else None

    @lower_builtin(symbol, Vector, Vector)
    def generate(context, builder, sig, args):
        return getattr(builder, instruction)(*args, flags=_FUSE)


_operator(operator.add, "fadd")
_operator(operator.iadd, "fadd")
_operator(operator.sub, "fsub")
_operator(operator.mul, "fmul")


def _comparison(compare, sign):
    """Function of a vector and a number: a word whose bit k says whether the comparison holds for lane k."""

    @intrinsic
    def compare_lanes(typing_context, vector, number):
        def emit(code, kinds, args):
            other = code.fill(args[1], vector.count)
            return code.bits(getattr(code.builder, compare)(sign, args[0], other))

        return types.uint64(vector, vector.dtype), _generator(emit)

    return compare_lanes


above = _comparison("fcmp_ordered", ">")
equal = _comparison("fcmp_ordered", "==")
not_below = _comparison("fcmp_unordered", ">=")  # NaN is not smaller than anything


@intrinsic
def largest(typing_context, vector, n):
    """Largest of the first n lanes, of all if there are fewer."""

    def emit(code, kinds, args):
        count, builder = vector.count, code.builder
        place = ir.Constant(ir.VectorType(_INDEX, count), list(range(count)))
        inside = builder.icmp_signed("<", place, code.fill(builder.trunc(args[1], _INDEX), count))
        values = builder.select(inside, args[0], ir.Constant(args[0].type, [float("-inf")] * count))
        while count > 1:
            count //= 2
            low, high = (code.pick(values, values, range(at, at + count)) for at in (0, count))
            values = builder.select(builder.fcmp_ordered(">", low, high), low, high)
        return builder.extract_element(values, _INDEX(0))

    return vector.dtype(vector, types.intp), _generator(emit)


@intrinsic
def larger(typing_context, one, other):
    """The larger number of every lane of two vectors."""

    def emit(code, kinds, args):
        return code.builder.select(code.builder.fcmp_ordered(">", *args), *args)

    return one(one, other), _generator(emit)


@intrinsic
def lowest_bit(typing_context, word):
    """Number of the lowest bit that is set; 64 if none is."""
    return types.intp(types.uint64), lambda context, builder, sig, args: builder.cttz(args[0], ir.IntType(1)(0))


@intrinsic
def count_bits(typing_context, word):
    """Number of bits that are set."""
    return types.intp(types.uint64), lambda context, builder, sig, args: builder.ctpop(args[0])


#: Added to a number below 2^51 it leaves the nearest whole number in the last bits.
_ROUND = 1.5 * 2.0**52

#: log2(e); ln 2 in two parts, of which products with the first and a whole number are exact; the smallest argument.
_PER_DOUBLING = 1.4426950408889634
_HIGH, _LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_LOWEST = -708.0


@body
def low_bits(n):
    """Word with its lowest n bits set, of `LANES` at most."""
    return (np.uint64(1) << np.uint64(n if n < LANES else LANES)) - np.uint64(1)


@exact_helper
def exponentials(x, n, work):
    """Replace the first n numbers by their exponentials, at least ``exp(-708)``; correct to a last digit or two.

    Compilers vectorise this loop, unlike a library call per number. ``exp(x) = 2^k exp(r)`` with ``|r| <= ln(2) / 2``,
    where Taylor's series has the digits. ``work`` is as long as x.
    """
    for i in range(n):
        value = max(x[i], _LOWEST)
        shifted = value * _PER_DOUBLING + _ROUND
        k = shifted - _ROUND
        r = (value - k * _HIGH) - k * _LOW
        p = 1.0 / 6227020800.0
        p = p * r + 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        x[i] = p * r + 1.0
        work[i] = shifted
    bits = work.view(np.int64)
    for i in range(n):
        bits[i] = (bits[i] << 52) + (1023 << 52)  # k becomes the exponent of 2^k
    for i in range(n):
        x[i] *= work[i]
