"""Small pieces of matrix products that stay in the processor's registers, written in LLVM's vectors.

Products of a few rows with a matrix are too small for BLAS, which copies its arguments into order before it multiplies.
Here they lie in order already. Vectors of any length are legal on every target, so the lengths chosen here are a matter
of speed only. All arrays are C-ordered; a place in one is its number counted from the first.
"""

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = [
    "PAIR_ROWS", "PIECE", "TILE_ROWS", "VECTOR_BYTES",
    "add_row", "add_tile", "direction_rows", "fetch", "margin_tile", "scale_row", "step_tile",
]  # fmt: skip

_features = llvmlite.binding.get_host_cpu_features()

#: Bytes of the longest vector that the processor multiplies at once.
VECTOR_BYTES = 64 if _features.get("avx512f") else 32 if _features.get("avx") else 16

#: Numbers of a short vector; rows and columns in use are counted in pieces.
PIECE = 4

#: Rows of a tile, in pieces: with two vectors in each, the sums fit the registers.
TILE_ROWS = 3 * PIECE if _features.get("avx512f") or _features.get("neon") else PIECE

#: Triplets on both sides of a tile of `step_tile`.
PAIR_ROWS = 4

_FUSE = ("contract",)
_WHOLE = ir.IntType(64)
_INDEX = ir.IntType(32)
_DOUBLE = ir.DoubleType()


class _Code:
    """Builder of vector code for one type of numbers."""

    def __init__(self, context, builder, dtype):
        self.context = context
        self.builder = builder
        self.size = dtype.bitwidth // 8
        self.number = context.get_data_type(dtype)
        self.lanes = VECTOR_BYTES // self.size

    def pointer(self, kind, array, place):
        """Pointer to a number of an array."""
        if kind.layout != "C":
            raise ValueError(f"tiles need C-ordered arrays, got {kind}")
        data = self.context.make_array(kind)(self.context, self.builder, array).data
        return self.builder.gep(data, [place])

    def ahead(self, pointer, *terms):
        """Pointer moved by a sum of numbers and of products of two."""
        for term in terms:
            if isinstance(term, tuple):
                factor, times = term
                term = self.builder.mul(_WHOLE(factor) if isinstance(factor, int) else factor, times)
            pointer = self.builder.gep(pointer, [_WHOLE(term) if isinstance(term, int) else term])
        return pointer

    def load(self, pointer, lanes):
        vector = ir.VectorType(pointer.type.pointee, lanes)
        return self.builder.load(self.builder.bitcast(pointer, vector.as_pointer()), align=self.size)

    def store(self, value, pointer):
        self.builder.store(value, self.builder.bitcast(pointer, value.type.as_pointer()), align=self.size)

    def pick(self, first, second, places):
        mask = ir.Constant(ir.VectorType(_INDEX, len(places)), list(places))
        return self.builder.shuffle_vector(first, second, mask)

    def splat(self, value, lanes):
        undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
        one = self.builder.insert_element(undefined, value, _INDEX(0))
        return self.pick(one, undefined, [0] * lanes)

    def registers(self, values):
        """Places for sums; LLVM keeps them in registers."""
        places = []
        for value in values:
            places.append(cgutils.alloca_once(self.builder, value.type))
            self.builder.store(value, places[-1])
        return places

    def zeros(self, lanes, n):
        return self.registers([ir.Constant(ir.VectorType(self.number, lanes), [0.0] * lanes)] * n)

    def add_product(self, place, x, y):
        product = self.builder.fmul(x, y, flags=_FUSE)
        self.builder.store(self.builder.fadd(self.builder.load(place), product, flags=_FUSE), place)


def _tile_sums(code, sums, rows, lanes, A, a_row, a_step, B, b_step, n):
    """Add ``A B`` to the sums of ``rows`` rows, step by step along the inner dimension of length ``n``."""
    n_vectors = len(sums) // rows
    with cgutils.for_range(code.builder, n) as loop:
        right = code.ahead(B, (loop.index, b_step))
        factors = [code.load(code.ahead(right, v * lanes), lanes) for v in range(n_vectors)]
        left = code.ahead(A, (loop.index, a_step))
        for r in range(rows):
            x = code.splat(code.builder.load(code.ahead(left, (r, a_row))), lanes)
            for v, y in enumerate(factors):
                code.add_product(sums[r * n_vectors + v], x, y)


def _shape(code, n_vectors):
    """Vectors of a tile's row and their length: two whole ones or one, and for 0 a short one of `PIECE` numbers."""
    n = n_vectors.literal_value
    return (n, code.lanes) if n else (1, PIECE)


@intrinsic(prefer_literal=True)
def add_tile(typingctx, A, a_at, a_step, B, b_at, b_step, C, c_at, c_row, n, rows, n_vectors):
    """``C += A' B``: ``rows`` neighbouring columns of A, `_shape` columns of B."""
    i = types.int64
    signature = types.void(A, i, i, B, i, i, C, i, i, i, rows, n_vectors)

    def codegen(context, builder, signature, args):
        A, a_at, a_step, B, b_at, b_step, C, c_at, c_row, n, _, _ = args
        kinds = signature.args
        code = _Code(context, builder, kinds[6].dtype)
        columns, lanes = _shape(code, n_vectors)
        C = code.pointer(kinds[6], C, c_at)
        places = [code.ahead(C, (r, c_row), v * lanes) for r in range(rows.literal_value) for v in range(columns)]
        sums = code.registers([code.load(place, lanes) for place in places])
        _tile_sums(
            code, sums, rows.literal_value, lanes,
            code.pointer(kinds[0], A, a_at), _WHOLE(1), a_step, code.pointer(kinds[3], B, b_at), b_step, n,
        )  # fmt: skip
        for place, total in zip(places, sums, strict=True):
            code.store(builder.load(total), place)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic(prefer_literal=True)
def margin_tile(typingctx, A, a_at, h_at, row, B, b_at, b_step, parts, part_at, n, n_vectors):
    """Parts of ``g' B h``, one vector of them for each of `TILE_ROWS` rows: g lies at ``a_at``, h at ``h_at``."""
    i = types.int64
    signature = types.void(A, i, i, i, B, i, i, parts, i, i, n_vectors)

    def codegen(context, builder, signature, args):
        A, a_at, h_at, row, B, b_at, b_step, parts, part_at, n, _ = args
        kinds = signature.args
        code = _Code(context, builder, kinds[0].dtype)
        columns, lanes = _shape(code, n_vectors)
        sums = code.zeros(lanes, TILE_ROWS * columns)
        _tile_sums(
            code, sums, TILE_ROWS, lanes,
            code.pointer(kinds[0], A, a_at), row, _WHOLE(1), code.pointer(kinds[4], B, b_at), b_step, n,
        )  # fmt: skip
        H = code.pointer(kinds[0], A, h_at)
        parts = code.pointer(kinds[7], parts, part_at)
        for r in range(TILE_ROWS):
            place = code.ahead(parts, r * code.lanes)
            (total,) = code.registers([code.load(place, lanes)])
            for v in range(columns):
                h = code.load(code.ahead(H, (r, row), v * lanes), lanes)
                code.add_product(total, builder.load(sums[r * columns + v]), h)
            code.store(builder.load(total), place)
        return context.get_dummy_value()

    return signature, codegen


def _halved(code, values, block, unit):
    """Half as many vectors: in every block of each, neighbouring units are added, and two vectors share one."""
    n = code.lanes

    def places(first):
        starts = (source + at for at in range(0, n, block) for source in (0, n))
        return [at + j + k for at in starts for j in range(first * unit, block, 2 * unit) for k in range(unit)]

    return [
        code.builder.fadd(*(code.pick(x, y, places(first)) for first in (0, 1)))
        for x, y in zip(values[::2], values[1::2], strict=True)
    ]


def _inner_products(code, A, B, row, n):
    """Inner products of `PAIR_ROWS` rows with as many, in double precision, one vector for each row of A."""
    builder = code.builder
    sums = code.zeros(code.lanes, PAIR_ROWS * PAIR_ROWS)
    with cgutils.for_range(builder, n) as loop:
        here = (loop.index, _WHOLE(code.lanes))
        left, right = ([code.load(code.ahead(X, (r, row), here), code.lanes) for r in range(PAIR_ROWS)] for X in (A, B))
        for i, x in enumerate(left):
            for j, y in enumerate(right):
                code.add_product(sums[PAIR_ROWS * i + j], x, y)
    values = [builder.load(total) for total in sums]
    # Neighbours of two vectors are added side by side until every vector has shrunk to one number of a common one:
    # first within 16 bytes, where moves are cheap, then across.
    group = min(code.lanes, 16 // code.size)
    for _ in range(group.bit_length() - 1):
        values = _halved(code, values, group, 1)
    for _ in range((code.lanes // group).bit_length() - 1):
        values = _halved(code, values, code.lanes, group)
    while len(values) > PAIR_ROWS:  # vectors shorter than a row
        values = [
            code.pick(x, y, range(x.type.count + y.type.count)) for x, y in zip(values[::2], values[1::2], strict=True)
        ]
    per_vector = PAIR_ROWS // len(values)
    rows = [
        code.pick(value, value, range(PAIR_ROWS * k, PAIR_ROWS * (k + 1)))
        for value in values
        for k in range(per_vector)
    ]
    wide = ir.VectorType(_DOUBLE, PAIR_ROWS)
    return rows if code.size == 8 else [builder.fpext(one, wide) for one in rows]


@intrinsic(prefer_literal=True)
def step_tile(typingctx, V, g, h, apart, row, n, table, at, symmetric):
    """``<A_s, A_t>`` of `PAIR_ROWS` triplets s, whose vectors lie at g and h, with those of t, which lie ``apart``."""
    i = types.int64
    signature = types.void(V, i, i, i, i, i, table, i, symmetric)

    def codegen(context, builder, signature, args):
        V, g, h, apart, row, n, table, at, _ = args
        kinds = signature.args
        code = _Code(context, builder, kinds[0].dtype)
        G, H = (code.pointer(kinds[0], V, place) for place in (g, h))
        G_t, H_t = (code.ahead(place, apart) for place in (G, H))

        def multiplied(first, second):
            pairs = zip(_inner_products(code, *first, row, n), _inner_products(code, *second, row, n), strict=True)
            return [builder.fmul(x, y) for x, y in pairs]

        products = multiplied((G, G_t), (H, H_t))
        if symmetric.literal_value:
            half = code.splat(_DOUBLE(0.5), PAIR_ROWS)
            products = [
                builder.fmul(half, builder.fadd(x, y))
                for x, y in zip(products, multiplied((G, H_t), (H, G_t)), strict=True)
            ]
        out = context.make_array(kinds[6])(context, builder, table)
        size = cgutils.unpack_tuple(builder, out.shape)[1]
        place = builder.gep(out.data, [at])
        for r, product in enumerate(products):
            code.store(product, code.ahead(place, (r, size)))
        return context.get_dummy_value()

    return signature, codegen


def _along_row(code, n, emit):
    """``emit(k, lanes)`` for the whole vectors of a row of ``n`` numbers, then for the numbers that remain."""
    whole = code.builder.and_(n, _WHOLE(-code.lanes))
    for start, stop, lanes in ((_WHOLE(0), whole, code.lanes), (whole, n, 1)):
        with cgutils.for_range_slice(code.builder, start, stop, _WHOLE(lanes)) as (k, _):
            emit(k, lanes)


@intrinsic
def scale_row(typingctx, source, s_at, target, t_at, factor, n):
    """``target = factor * source`` for ``n`` numbers in a row; both may be the same, but not overlap otherwise."""
    i = types.int64
    signature = types.void(source, i, target, i, target.dtype, i)

    def codegen(context, builder, signature, args):
        source, s_at, target, t_at, factor, n = args
        kinds = signature.args
        code = _Code(context, builder, kinds[2].dtype)
        source, target = code.pointer(kinds[0], source, s_at), code.pointer(kinds[2], target, t_at)

        def emit(k, lanes):
            value = builder.fmul(code.splat(factor, lanes), code.load(code.ahead(source, k), lanes))
            code.store(value, code.ahead(target, k))

        _along_row(code, n, emit)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def add_row(typingctx, z, z_at, table, at, factor, n):
    """``z += factor * table`` for ``n`` times `PAIR_ROWS` numbers."""
    i = types.int64
    signature = types.void(z, i, table, i, types.float64, i)

    def codegen(context, builder, signature, args):
        z, z_at, table, at, factor, n = args
        kinds = signature.args
        code = _Code(context, builder, kinds[0].dtype)
        factors = code.splat(factor, PAIR_ROWS)
        z, table = code.pointer(kinds[0], z, z_at), code.pointer(kinds[2], table, at)
        with cgutils.for_range(builder, n) as loop:
            here = (loop.index, _WHOLE(PAIR_ROWS))
            place = code.ahead(z, here)
            (total,) = code.registers([code.load(place, PAIR_ROWS)])
            code.add_product(total, factors, code.load(code.ahead(table, here), PAIR_ROWS))
            code.store(builder.load(total), place)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic(prefer_literal=True)
def direction_rows(typingctx, anchors, a, positives, p, negatives, n, V, g, h, d, is_distance):
    """Rows g and h of `nearkin.kernels.direction`, ``d`` numbers each, at their places in V."""
    i = types.int64
    signature = types.void(anchors, i, positives, i, negatives, i, V, i, i, i, is_distance)

    def codegen(context, builder, signature, args):
        kinds = signature.args
        code = _Code(context, builder, kinds[6].dtype)
        places = ((0, 1), (2, 3), (4, 5), (6, 7), (6, 8))
        pointers = [code.pointer(kinds[array], args[array], args[place]) for array, place in places]

        def emit(k, lanes):
            x, positive, negative = (code.load(code.ahead(pointer, k), lanes) for pointer in pointers[:3])
            g = x
            if is_distance.literal_value:
                g = builder.fadd(builder.fsub(x, positive), builder.fsub(x, negative))
            code.store(g, code.ahead(pointers[3], k))
            code.store(builder.fsub(positive, negative), code.ahead(pointers[4], k))

        _along_row(code, args[9], emit)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def fetch(typingctx, array, at):
    """Ask for the line of the cache around a number that will be changed soon."""
    signature = types.void(array, types.int64)

    def codegen(context, builder, signature, args):
        array, at = args
        code = _Code(context, builder, signature.args[0].dtype)
        pointer = builder.bitcast(code.pointer(signature.args[0], array, at), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, _INDEX, _INDEX, _INDEX])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(prefetch, [pointer, _INDEX(1), _INDEX(3), _INDEX(1)])
        return context.get_dummy_value()

    return signature, codegen
