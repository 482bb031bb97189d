"""Products of a few rows with a matrix in panels (`machine.pack`), computed in tiles that stay in registers.

Such products are too small for BLAS, which rearranges its arguments before it multiplies. Here they are in order
already: vectors g and h are rows of one array, and a panel holds some columns of the matrix.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from nearkin.kernels.machine.compile import body, helper
from nearkin.kernels.machine.simd import REGISTER_BYTES, WIDE_REGISTERS, VectorCode, prefetch_to_write

#: Numbers of a short vector; rows and columns in use are counted in pieces.
PIECE = 4

#: Rows of a tile: with two vectors in each, the sums fit the registers.
_TILE_ROWS = 3 * PIECE if WIDE_REGISTERS else PIECE

#: Triplets on both sides of a tile of `_step_tile`.
PAIR_ROWS = 4

#: Bytes of a matrix that stays in a core's own caches; parts of a larger one are prefetched.
_NEAR = 1 << 18

_WORD = ir.IntType(64)
_DOUBLE = ir.DoubleType()


def _lanes(code):
    return REGISTER_BYTES // code.size


def _shape(code, n_vectors):
    """Vectors in a tile's row and their length: two registers or one, and for 0 a short vector of `PIECE` numbers."""
    n = n_vectors.literal_value
    return (n, _lanes(code)) if n else (1, PIECE)


def _tile_sums(code, sums, rows, lanes, A, a_row, a_step, B, b_step, n):
    """Add ``A B`` to the sums of ``rows`` rows, step by step along the inner dimension of length ``n``."""
    n_vectors = len(sums) // rows
    with cgutils.for_range(code.builder, n) as loop:
        right = code.ahead(B, (loop.index, b_step))
        factors = [code.load(code.ahead(right, v * lanes), lanes) for v in range(n_vectors)]
        left = code.ahead(A, (loop.index, a_step))
        for r in range(rows):
            x = code.fill(code.builder.load(code.ahead(left, (r, a_row))), lanes)
            for v, y in enumerate(factors):
                code.add_product(sums[r * n_vectors + v], x, y)


@intrinsic(prefer_literal=True)
def _add_tile(typing_context, V, a_at, b_at, v_row, C, c_at, c_row, n, rows, n_vectors):
    """``C += A' B``: ``rows`` columns of A and `_shape` columns of B, both with rows of V."""
    i = types.int64

    def generate(context, builder, signature, args):
        V, a_at, b_at, v_row, C, c_at, c_row, n = args[:8]
        kinds = signature.args
        code = VectorCode(context, builder, kinds[0].dtype)
        columns, lanes = _shape(code, n_vectors)
        C = code.address(kinds[4], C, c_at)
        places = [code.ahead(C, (r, c_row), v * lanes) for r in range(rows.literal_value) for v in range(columns)]
        sums = code.registers([code.load(place, lanes) for place in places])
        A, B = (code.address(kinds[0], V, at) for at in (a_at, b_at))
        _tile_sums(code, sums, rows.literal_value, lanes, A, _WORD(1), v_row, B, v_row, n)
        for place, total in zip(places, sums, strict=True):
            code.store(builder.load(total), place)
        return context.get_dummy_value()

    return types.void(V, i, i, i, C, i, i, i, rows, n_vectors), generate


@intrinsic(prefer_literal=True)
def _margin_tile(typing_context, V, g_at, h_at, v_row, B, b_at, b_step, parts, part_at, n, n_vectors):
    """Parts of ``g' B h``, one vector of them for each of `_TILE_ROWS` rows of V."""
    i = types.int64

    def generate(context, builder, signature, args):
        V, g_at, h_at, v_row, B, b_at, b_step, parts, part_at, n = args[:10]
        kinds = signature.args
        code = VectorCode(context, builder, kinds[0].dtype)
        columns, lanes = _shape(code, n_vectors)
        sums = code.zeros(lanes, _TILE_ROWS * columns)
        G, H = (code.address(kinds[0], V, at) for at in (g_at, h_at))
        B = code.address(kinds[4], B, b_at)
        _tile_sums(code, sums, _TILE_ROWS, lanes, G, v_row, _WORD(1), B, b_step, n)
        parts = code.address(kinds[7], parts, part_at)
        for r in range(_TILE_ROWS):
            place = code.ahead(parts, r * _lanes(code))
            (total,) = code.registers([code.load(place, lanes)])
            for v in range(columns):
                h = code.load(code.ahead(H, (r, v_row), v * lanes), lanes)
                code.add_product(total, builder.load(sums[r * columns + v]), h)
            code.store(builder.load(total), place)
        return context.get_dummy_value()

    return types.void(V, i, i, i, B, i, i, parts, i, i, n_vectors), generate


def _halve(code, values, block, unit):
    """Half as many vectors: in every block of each, neighbouring units are added, and two vectors share one."""
    n = _lanes(code)

    def places(first):
        starts = (source + at for at in range(0, n, block) for source in (0, n))
        return [at + j + k for at in starts for j in range(first * unit, block, 2 * unit) for k in range(unit)]

    return [
        code.builder.fadd(*(code.pick(x, y, places(first)) for first in (0, 1)))
        for x, y in zip(values[::2], values[1::2], strict=True)
    ]


def _inner_products(code, A, B, row, n):
    """Inner products of `PAIR_ROWS` rows with as many, in double precision, one vector for each row of A."""
    builder, lanes = code.builder, _lanes(code)
    sums = code.zeros(lanes, PAIR_ROWS * PAIR_ROWS)
    with cgutils.for_range(builder, n) as loop:
        here = (loop.index, _WORD(lanes))
        left, right = ([code.load(code.ahead(X, (r, row), here), lanes) for r in range(PAIR_ROWS)] for X in (A, B))
        for i, x in enumerate(left):
            for j, y in enumerate(right):
                code.add_product(sums[PAIR_ROWS * i + j], x, y)
    values = [builder.load(total) for total in sums]
    # Neighbours of two vectors are added side by side until every vector has shrunk to one number of a common one:
    # first within 16 bytes, where moves are cheap, then across.
    group = min(lanes, 16 // code.size)
    for _ in range(group.bit_length() - 1):
        values = _halve(code, values, group, 1)
    for _ in range((lanes // group).bit_length() - 1):
        values = _halve(code, values, lanes, group)
    while len(values) > PAIR_ROWS:  # vectors shorter than a row
        pairs = zip(values[::2], values[1::2], strict=True)
        values = [code.pick(x, y, range(x.type.count + y.type.count)) for x, y in pairs]
    starts = range(0, PAIR_ROWS * PAIR_ROWS // len(values), PAIR_ROWS)
    rows = [code.pick(value, value, range(at, at + PAIR_ROWS)) for value in values for at in starts]
    return rows if code.size == 8 else [builder.fpext(one, ir.VectorType(_DOUBLE, PAIR_ROWS)) for one in rows]


@intrinsic(prefer_literal=True)
def _step_tile(typing_context, V, g, h, apart, row, n, table, at, symmetric):
    """``<A_s, A_t>`` of `PAIR_ROWS` triplets s, with vectors at g and h, and those of t, ``apart`` elements later."""
    i = types.int64

    def generate(context, builder, signature, args):
        V, g, h, apart, row, n, table, at = args[:8]
        kinds = signature.args
        code = VectorCode(context, builder, kinds[0].dtype)
        G, H = (code.address(kinds[0], V, place) for place in (g, h))
        G_t, H_t = (code.ahead(place, apart) for place in (G, H))

        def multiply(first, second):
            pairs = zip(_inner_products(code, *first, row, n), _inner_products(code, *second, row, n), strict=True)
            return [builder.fmul(x, y) for x, y in pairs]

        products = multiply((G, G_t), (H, H_t))
        if symmetric.literal_value:
            half = code.fill(_DOUBLE(0.5), PAIR_ROWS)
            pairs = zip(products, multiply((G, H_t), (H, G_t)), strict=True)
            products = [builder.fmul(half, builder.fadd(x, y)) for x, y in pairs]
        out = context.make_array(kinds[6])(context, builder, table)
        size = cgutils.unpack_tuple(builder, out.shape)[1]
        place = builder.gep(out.data, [at])
        for r, product in enumerate(products):
            code.store(product, code.ahead(place, (r, size)))
        return context.get_dummy_value()

    return types.void(V, i, i, i, i, i, table, i, symmetric), generate


@body
def _columns(panels, p):
    """Columns in use of a panel, in pieces."""
    width = panels.shape[2]
    return min(width, panels.shape[1] - p * width)


@body
def add_products(vectors, left, right, n, panels, p, first):
    """``panel += A' B`` from row ``first`` on: ``n`` rows of ``vectors`` from ``left`` (A) and ``right`` (B) on."""
    width = panels.shape[2]
    columns = _columns(panels, p)
    done = 0
    if columns == width:
        _add_columns(vectors, left, right, n, panels, p, first, done, 2)
        done = width
    elif columns >= width >> 1:
        _add_columns(vectors, left, right, n, panels, p, first, done, 1)
        done = width >> 1
    for column in range(done, columns, PIECE):
        _add_columns(vectors, left, right, n, panels, p, first, column, 0)


@body
def _add_columns(vectors, left, right, n, panels, p, first, column, n_vectors):
    """The same for some columns."""
    rows = panels.shape[1]
    width = panels.shape[2]
    row = vectors.shape[1]
    a = left * row
    b = right * row + p * width + column
    c = p * rows * width + column
    whole = first + max(0, rows - first) // _TILE_ROWS * _TILE_ROWS
    far = n_vectors == 2 and panels.size * panels.itemsize > _NEAR
    for i in range(first, whole, _TILE_ROWS):
        if far:
            for k in range(2 * _TILE_ROWS):
                prefetch_to_write(panels, c + (i + 2 * _TILE_ROWS) * width + k * (width >> 1))
        _add_tile(vectors, a + i, b, row, panels, c + i * width, width, n, _TILE_ROWS, n_vectors)
    for i in range(whole, rows, PIECE):
        _add_tile(vectors, a + i, b, row, panels, c + i * width, width, n, PIECE, n_vectors)


@body
def add_margins(vectors, g, h, m, panels, p, first, parts):
    """Parts of ``g' T h`` for ``m`` rows of ``vectors`` from ``g`` and ``h`` on; T is a panel from row ``first`` on."""
    rows = panels.shape[1]
    width = panels.shape[2]
    row = vectors.shape[1]
    columns = _columns(panels, p)
    b = (p * rows + first) * width
    n = rows - first
    for t in range(0, m, _TILE_ROWS):
        a = (g + t) * row + first
        c = (h + t) * row + p * width
        at = t * parts.shape[1]
        done = 0
        if columns == width:
            _margin_tile(vectors, a, c, row, panels, b, width, parts, at, n, 2)
            done = width
        elif columns >= width >> 1:
            _margin_tile(vectors, a, c, row, panels, b, width, parts, at, n, 1)
            done = width >> 1
        for column in range(done, columns, PIECE):
            _margin_tile(vectors, a, c + column, row, panels, b + column, width, parts, at, n, 0)


@helper
def step_table(vectors, first, size, m, is_distance, table):
    """``<A_s, A_t>``, s up to t, of ``m`` triplets with g from row ``first`` on and h ``size`` rows later."""
    row = vectors.shape[1]
    n = row // (REGISTER_BYTES // vectors.itemsize)
    for s in range(0, m, PAIR_ROWS):
        g = (first + s) * row
        h = g + size * row
        for t in range(s, m, PAIR_ROWS):
            if is_distance:
                _step_tile(vectors, g, h, (t - s) * row, row, n, table, s * size + t, True)
            else:
                _step_tile(vectors, g, h, (t - s) * row, row, n, table, s * size + t, False)
