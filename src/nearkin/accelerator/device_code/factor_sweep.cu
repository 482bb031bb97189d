// Low-rank steps of many small learners side by side: a thread block each, L in registers from first to last.
//
// The thread block takes TOGETHER triplets at a time. All warps map their vectors, each by the columns of L that it holds,
// and later add their steps to L. In between the first warp goes from step to step with mapped vectors alone, since a step
// L + g u' + h v' adds u (g.x) + v (h.x) to the mapped vector of x; the others prepare the next vectors and their
// products.
//
// A lane holds DEEP features, four neighbours at a time, of COLUMNS columns; ACROSS lanes share a column.
//
// Real, DEEP (a multiple of 4), COLUMNS (a power of two, 8 at most), IS_DISTANCE and N_HQ are defined by the
// compiler call.

#include "factored_step.cuh"

constexpr int TOGETHER = 8, VECTORS = 2 * TOGETHER, WARPS = 8, OTHERS = WARPS - 1, ACROSS = 16;
constexpr int THREADS = LANES * WARPS;
constexpr int DEPTH = ACROSS * DEEP;           // features, filled up with zeros
constexpr int WIDE = 2 * WARPS * COLUMNS;    // components, likewise
constexpr int RANK = (WIDE + LANES - 1) / LANES;
constexpr int AT_ONCE = 32 / COLUMNS < VECTORS ? 32 / COLUMNS : VECTORS;  // vectors mapped side by side

struct alignas(sizeof(Real) * 4 > 16 ? 16 : sizeof(Real) * 4) Four { Real x[4]; };

__device__ __forceinline__ Four four(const Real* from) { return *(const Four*)from; }

// Sums over 2 FAR lanes of N numbers each; afterwards every lane has N / (2 FAR) of them, the first the first ones.
template <int N, int FAR, int M> __device__ __forceinline__ void add_up(Real (&x)[M], int lane) {
    constexpr int HALF = N / 2;
    const bool upper = lane & FAR;
#pragma unroll
    for (int i = 0; i < HALF; i++) {
        Real kept = upper ? x[i + HALF] : x[i], given = upper ? x[i] : x[i + HALF];
        x[i] = kept + __shfl_xor_sync(EVERY, given, FAR);
    }
    if constexpr (FAR > 1) add_up<HALF, FAR / 2>(x, lane);
}

// L after the steps of some triplets.
__device__ __forceinline__ void take(
    Real (&L)[DEEP][COLUMNS], const Real* vectors, const Real* moves, int column, int across
) {
#pragma unroll 2
    for (int j = 0; j < VECTORS; j++) {
        Real u[COLUMNS];
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) u[c] = moves[j * WIDE + column + c];
#pragma unroll
        for (int k = 0; k < DEEP; k += 4) {
            Four x = four(vectors + j * DEPTH + ACROSS * k + 4 * across);
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int c = 0; c < COLUMNS; c++) L[k + i][c] += x.x[i] * u[c];
        }
    }
}

// Vectors mapped by L.
__device__ __forceinline__ void map(
    const Real (&L)[DEEP][COLUMNS], const Real* vectors, Real* mapped, int column, int across, int lane
) {
    constexpr int LEFT = AT_ONCE * COLUMNS / ACROSS;
#pragma unroll 1
    for (int first = 0; first < VECTORS; first += AT_ONCE) {
        Real sum[AT_ONCE * COLUMNS];
#pragma unroll
        for (int i = 0; i < AT_ONCE * COLUMNS; i++) sum[i] = 0;
#pragma unroll
        for (int k = 0; k < DEEP; k += 4)
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) {
                Four x = four(vectors + (first + j) * DEPTH + ACROSS * k + 4 * across);
#pragma unroll
                for (int i = 0; i < 4; i++)
#pragma unroll
                    for (int c = 0; c < COLUMNS; c++) sum[j * COLUMNS + c] += x.x[i] * L[k + i][c];
            }
        add_up<AT_ONCE * COLUMNS, ACROSS / 2>(sum, lane);
#pragma unroll
        for (int i = 0; i < LEFT; i++) {
            int one = LEFT * across + i;
            mapped[(first + one / COLUMNS) * WIDE + column + one % COLUMNS] = sum[i];
        }
    }
}

// g and h of some triplets, zeros after the last; `first` and `stride` are the number of this warp and of all.
__device__ __forceinline__ void direct(
    Real* vectors, const Real* rows, const Real* pool, const int* index, long long begin, long long end, int n, int d,
    int first, int stride, int lane
) {
    constexpr int PIECES = DEPTH / LANES;
    const long long mine = begin + lane % TOGETHER;
    const int place = lane < 3 * TOGETHER && mine < end ? index[(long long)(lane / TOGETHER) * n + mine] : 0;
#pragma unroll 6
    for (int piece = first; piece < TOGETHER * PIECES; piece += stride) {
        const int t = piece / PIECES, at = piece % PIECES * LANES + lane;
        const bool inside = begin + t < end && at < d;
        const long long anchor = __shfl_sync(EVERY, place, t), positive = __shfl_sync(EVERY, place, TOGETHER + t),
                        negative = __shfl_sync(EVERY, place, 2 * TOGETHER + t);
        Real a = inside ? rows[anchor * d + at] : 0, p = inside ? pool[positive * d + at] : 0,
             q = inside ? pool[negative * d + at] : 0;
        Real* g = vectors + 2 * t * DEPTH + at;
        g[0] = IS_DISTANCE ? (a - p) + (a - q) : a;  // differences first, so that a common offset costs no digits
        g[DEPTH] = p - q;
    }
}

// Inner products of all pairs of vectors, by tiles of TILE times TILE; pairs below the diagonal's tiles are not needed.
__device__ __forceinline__ void multiply(const Real* vectors, Real* products, int first, int stride, int lane) {
    constexpr int TILE = 4, TILES = VECTORS / TILE;
#pragma unroll 1
    for (int tile = first; tile < TILES * (TILES + 1) / 2; tile += stride) {
        int row = 0, column = tile;
        for (int width = TILES; column >= width; width--) column -= width, row++;
        column += row;
        row *= TILE, column *= TILE;
        Real sum[TILE * TILE];
#pragma unroll
        for (int i = 0; i < TILE * TILE; i++) sum[i] = 0;
#pragma unroll 2
        for (int at = 4 * lane; at < DEPTH; at += 4 * LANES) {
            Four x[TILE], y[TILE];
#pragma unroll
            for (int i = 0; i < TILE; i++)
                x[i] = four(vectors + (row + i) * DEPTH + at), y[i] = four(vectors + (column + i) * DEPTH + at);
#pragma unroll
            for (int i = 0; i < TILE * TILE; i++)
#pragma unroll
                for (int k = 0; k < 4; k++) sum[i] += x[i / TILE].x[k] * y[i % TILE].x[k];
        }
        __syncwarp();
        add_up<TILE * TILE, TILE * TILE / 2>(sum, lane);
        Real total = sum[0] + __shfl_xor_sync(EVERY, sum[0], TILE * TILE);
        int one = lane % (TILE * TILE);
        products[(row + one / TILE) * VECTORS + column + one % TILE] = total;
    }
}

__device__ __forceinline__ Products products_of(const Real* products, int t, int j) {
    const Real *g = products + 2 * t * VECTORS + 2 * j, *h = g + VECTORS;
    return {g[0], g[1], h[0], h[1]};
}

template <int N> __device__ __forceinline__ void sum_over_lanes(Real (&x)[N]) {
#pragma unroll
    for (int far = LANES / 2; far > 0; far /= 2)
#pragma unroll
        for (int i = 0; i < N; i++) x[i] += __shfl_xor_sync(EVERY, x[i], far);
}

// From step to step. The sums for the next triplet do not wait for the present step; they are corrected by it.
__device__ __forceinline__ void walk(
    const Real* mapped, const Real* products, const Triplet* triplets, Real* moves, Real* share, signed char* moved,
    int left, Real cap, Real rate, int lane
) {
    Real x[VECTORS][RANK], own[3] = {0, 0, 0}, told = 0;
    bool has_moved = false;
#pragma unroll
    for (int j = 0; j < VECTORS; j++)
#pragma unroll
        for (int i = 0; i < RANK; i++) x[j][i] = lane + LANES * i < WIDE ? mapped[j * WIDE + LANES * i + lane] : 0;
#pragma unroll
    for (int i = 0; i < RANK; i++)
        own[0] += x[0][i] * x[0][i], own[1] += x[1][i] * x[1][i], own[2] += x[0][i] * x[1][i];
    sum_over_lanes(own);
    Square now = {own[0], own[1], own[2]};
    Triplet here = triplets[0];
#pragma unroll
    for (int t = 0; t < TOGETHER; t++) {
        // Read before anything is written; the compiler would not move reads across writes.
        Triplet coming = triplets[(t + 1) % TOGETHER];
        Products g[TOGETHER];
#pragma unroll
        for (int j = t + 1; j < TOGETHER; j++) g[j] = products_of(products, t, j);
        Real sum[7] = {0, 0, 0, 0, 0, 0, 0};
        if (t + 1 < TOGETHER) {
#pragma unroll
            for (int i = 0; i < RANK; i++) {
                Real p = x[2 * t][i], q = x[2 * t + 1][i];
                Real next_p = x[(2 * t + 2) % VECTORS][i], next_q = x[(2 * t + 3) % VECTORS][i];
                sum[0] += next_p * next_p, sum[1] += next_q * next_q, sum[2] += next_p * next_q;
                sum[3] += p * next_p, sum[4] += q * next_p, sum[5] += p * next_q, sum[6] += q * next_q;
            }
            sum_over_lanes(sum);
        }
        Step s = step_of(here, now, cap, rate);
        if (lane == t) told = s.share, has_moved = fabs(s.a1) + fabs(s.a2) + fabs(s.b2) > 0;
        if (t + 1 < TOGETHER)
            now = after(s, g[(t + 1) % TOGETHER], now, {sum[0], sum[1], sum[2]}, {sum[3], sum[4], sum[5], sum[6]});
#pragma unroll
        for (int i = 0; i < RANK; i++) {
            Real u = s.a1 * x[2 * t][i] + s.a2 * x[2 * t + 1][i], v = s.a2 * x[2 * t][i] + s.b2 * x[2 * t + 1][i];
            if (lane + LANES * i < WIDE) {
                moves[2 * t * WIDE + LANES * i + lane] = u;
                moves[(2 * t + 1) * WIDE + LANES * i + lane] = v;
            }
#pragma unroll
            for (int j = t + 1; j < TOGETHER; j++) {
                x[2 * j][i] += u * g[j].gg + v * g[j].hg;
                x[2 * j + 1][i] += u * g[j].gh + v * g[j].hh;
            }
        }
        here = coming;
    }
    if (lane < left && lane < TOGETHER) share[lane] = told, moved[lane] = has_moved;
}

// L has shape (learners, d, r); `bounds` holds the first of the n triplets of each learner.
extern "C" __global__ void __launch_bounds__(THREADS, 1) factor_sweep(
    Real* factors, const Real* rows, const Real* pool, const int* index, const long long* bounds, const Real* settings,
    Real* share, signed char* moved, int n, int d, int r
) {
    SHARED_MEMORY(memory);
    Real* vectors = (Real*)memory;                              // of two turns, (2, VECTORS, DEPTH)
    Real* mapped = vectors + 2 * VECTORS * DEPTH;               // (VECTORS, WIDE)
    Real* moves = mapped + VECTORS * WIDE;                      // (VECTORS, WIDE)
    Real* products = moves + VECTORS * WIDE;                    // of two turns, (2, VECTORS, VECTORS)
    Triplet* triplets = (Triplet*)(products + 2 * VECTORS * VECTORS);
    const int lane = threadIdx.x % LANES, warp = __shfl_sync(EVERY, (int)(threadIdx.x / LANES), 0);
    const long long begin = bounds[blockIdx.x], end = bounds[blockIdx.x + 1];
    if (begin >= end) return;
    const Real cap = settings[2 * blockIdx.x], rate = settings[2 * blockIdx.x + 1];
    const int turns = (int)((end - begin + TOGETHER - 1) / TOGETHER);
    const int across = lane % ACROSS, column = (2 * warp + lane / ACROSS) * COLUMNS;
    factors += (long long)blockIdx.x * d * r;
    Real L[DEEP][COLUMNS];
#pragma unroll
    for (int k = 0; k < DEEP; k++)
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            int at = ACROSS * (k / 4 * 4) + 4 * across + k % 4;
            L[k][c] = at < d && column + c < r ? factors[(long long)at * r + column + c] : 0;
        }
    direct(vectors, rows, pool, index, begin, end, n, d, warp, WARPS, lane);
    __syncthreads();
    multiply(vectors, products, warp, WARPS, lane);
    __syncthreads();
#pragma unroll 1
    for (int turn = 0; turn < turns; turn++) {
        const long long first = begin + (long long)turn * TOGETHER;
        Real *here = vectors + turn % 2 * VECTORS * DEPTH, *other = vectors + (turn + 1) % 2 * VECTORS * DEPTH;
        Real *own = products + turn % 2 * VECTORS * VECTORS, *next = products + (turn + 1) % 2 * VECTORS * VECTORS;
        if (warp == 0 && lane < TOGETHER) triplets[lane] = described(products_of(own, lane, lane), cap);
        if (turn > 0) take(L, other, moves, column, across);
        map(L, here, mapped, column, across, lane);
        __syncthreads();
        if (warp == 0) {
            const int left = end - first < TOGETHER ? (int)(end - first) : TOGETHER;
            walk(mapped, own, triplets, moves, share + first, moved + first, left, cap, rate, lane);
        } else {
            direct(other, rows, pool, index, first + TOGETHER, end, n, d, warp - 1, OTHERS, lane);
            meet_of<LANES * OTHERS>();
            multiply(other, next, warp - 1, OTHERS, lane);
        }
        __syncthreads();
    }
    take(L, vectors + (turns - 1) % 2 * VECTORS * DEPTH, moves, column, across);
#pragma unroll
    for (int k = 0; k < DEEP; k++)
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            int at = ACROSS * (k / 4 * 4) + 4 * across + k % 4;
            if (at < d && column + c < r) factors[(long long)at * r + column + c] = L[k][c];
        }
}
