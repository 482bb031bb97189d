"""Comparisons of many numbers at once, as bits of a word.

Loops that stop at a comparison are not vectorised; these functions say what the vector instructions of any processor
can do in one go, through LLVM's own vectors. They read `LANES` (or `FEW`) numbers wherever they begin, so arrays need
that much room behind them.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["FEW", "LANES", "above", "highest", "how_many", "lowest", "not_below"]

#: Numbers looked at together, at most the bits of a word.
LANES = 32

#: Numbers that `above` looks at.
FEW = 16

_INT = ir.IntType(32)
_WORD = ir.IntType(64)


def _load(context, builder, kind, array, at, lanes, row=None):
    """``lanes`` numbers from ``array[at]`` or ``array[row, at]`` on, at any alignment."""
    parts = context.make_array(kind)(context, builder, array)
    start = parts.data
    if row is not None:
        offset = builder.mul(builder.extract_value(parts.strides, 0), row)
        start = builder.inttoptr(builder.add(builder.ptrtoint(start, offset.type), offset), start.type)
    vector = ir.VectorType(context.get_value_type(kind.dtype), lanes)
    loaded = builder.load(builder.bitcast(builder.gep(start, [at]), vector.as_pointer()))
    loaded.align = kind.dtype.bitwidth // 8
    return loaded


def _everywhere(builder, value, lanes):
    """The same value in every lane."""
    undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(_INT, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_INT, lanes), [0] * lanes))


def _bits(builder, truth, lanes):
    return builder.zext(builder.bitcast(truth, ir.IntType(lanes)), _WORD)


def _shifted(context, builder, signature, args):
    """``scores[row, at:at + LANES] - shift[at:at + LANES]``."""
    scores, row, shift, at = args[:4]
    left = _load(context, builder, signature.args[0], scores, at, LANES, row)
    return builder.fsub(left, _load(context, builder, signature.args[2], shift, at, LANES))


@intrinsic
def not_below(typing, scores, row, shift, at, bound):
    """Bit k: not ``bound > scores[row, at + k] - shift[at + k]``, for `LANES` bits."""

    def generate(context, builder, signature, args):
        bound = _everywhere(builder, args[4], LANES)
        return _bits(builder, builder.fcmp_unordered("<=", bound, _shifted(context, builder, signature, args)), LANES)

    return types.uint64(scores, types.intp, shift, types.intp, scores.dtype), generate


@intrinsic
def highest(typing, scores, row, shift, at, n):
    """Largest of ``scores[row, at + k] - shift[at + k]`` over k < n, of the first `LANES` only."""

    def generate(context, builder, signature, args):
        values = _shifted(context, builder, signature, args)
        place = ir.Constant(ir.VectorType(_INT, LANES), list(range(LANES)))
        inside = builder.icmp_signed("<", place, _everywhere(builder, builder.trunc(args[4], _INT), LANES))
        values = builder.select(inside, values, ir.Constant(values.type, [float("-inf")] * LANES))
        lanes = LANES
        while lanes > 1:
            lanes //= 2
            undefined, half = ir.Constant(values.type, ir.Undefined), ir.VectorType(_INT, lanes)
            low = builder.shuffle_vector(values, undefined, ir.Constant(half, list(range(lanes))))
            high = builder.shuffle_vector(values, undefined, ir.Constant(half, list(range(lanes, 2 * lanes))))
            values = builder.select(builder.fcmp_ordered(">", low, high), low, high)
        return builder.extract_element(values, ir.Constant(_INT, 0))

    return scores.dtype(scores, types.intp, shift, types.intp, types.intp), generate


@intrinsic
def above(typing, values, value):
    """Bits of the first `FEW` values that are larger, and of those that are equal."""

    def generate(context, builder, signature, args):
        few = _load(context, builder, signature.args[0], args[0], ir.Constant(_WORD, 0), FEW)
        one = _everywhere(builder, args[1], FEW)
        words = [_bits(builder, builder.fcmp_ordered(sign, few, one), FEW) for sign in (">", "==")]
        return context.make_tuple(builder, signature.return_type, words)

    return types.UniTuple(types.uint64, 2)(values, values.dtype), generate


@intrinsic
def lowest(typing, word):
    """Number of the lowest bit that is set; 64 if none is."""

    def generate(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.intp(types.uint64), generate


@intrinsic
def how_many(typing, word):
    """Number of bits that are set."""

    def generate(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.intp(types.uint64), generate
