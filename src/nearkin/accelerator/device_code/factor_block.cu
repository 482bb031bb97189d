// Low-rank steps of one block of triplets, one after the other.
//
// Rows 2t and 2t + 1 of `past` are p = L0'g and q = L0'h of triplet t, with L0 the factor before the block, and `gram`
// holds the inner products of all g and h in the same order. A step L + g u' + h v' adds u (g.x) + v (h.x) to the row of
// every later vector x, so that the block needs vectors of length r alone.
//
// One thread block per learner takes the steps. Its first warp solves for them, with scalars only. Its second adds up partial
// sums. Every other warp holds the rows of TOGETHER triplets in its registers, RANK numbers a lane, and computes u and v of a
// solved step, the rows after it, and partial sums. It computes the sums for the next triplet before the present step is
// solved, and corrects them by that step with a few scalars afterwards: no warp waits for long.
//
// Other thread blocks, one for TOGETHER triplets, keep rows that are far from their turn up to date, in memory.
//
// All messages go through memory, and a number shows by itself that it has arrived: before, its place holds a pattern
// that no arithmetic produces. Thread blocks start in order, and each waits only for earlier ones.
//
// Real, RANK, TOGETHER, WARPS (that hold rows) and N_HQ are defined by the compiler call.

#include "factored_step.cuh"

constexpr int AHEAD = 8;                                // rows of products being copied
constexpr int SLOTS = 8;                                // triplets with unfinished sums
constexpr int LAG = TOGETHER < 16 ? 32 / TOGETHER : 2;  // groups of triplets whose steps other thread blocks skip
constexpr int SEGMENTS = TOGETHER >= 2 ? 2 : 1;         // of the steps of a warp; in later ones fewer rows are left
constexpr int THREADS = LANES * (WARPS + 2);
constexpr int WIDE = LANES * RANK, ROW = TOGETHER + 1;

struct alignas(2 * sizeof(Real)) Pair { Real x, y; };

// Partial sums for the next triplet.
__device__ __forceinline__ void tell_parts(volatile Real* to, const Real (&x)[2 * ROW][RANK], int lane) {
    Real sum[7] = {0, 0, 0, 0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < RANK; i++) {
        Real p = x[0][i], q = x[1][i], next_p = x[2][i], next_q = x[3][i];
        sum[0] += next_p * next_p, sum[1] += next_q * next_q, sum[2] += next_p * next_q;
        sum[3] += p * next_p, sum[4] += q * next_p, sum[5] += p * next_q, sum[6] += q * next_q;
    }
#pragma unroll
    for (int i = 0; i < 7; i++) to[LANES * i + lane] = sum[i];
}

// Prefetch the products of the triplet at `row` with N triplets from `first` on.
template <int N>
__device__ __forceinline__ void ask(Products* to, const Real* gram, int row, int first, int size, int lane) {
#pragma unroll
    for (int one = lane; one < 2 * N; one += LANES) {
        int of_h = one / N, j = one % N;
        const Real* from = gram + (long long)(2 * row + of_h) * 2 * size + 2 * (first + j);
        copy_aside((Pair*)(to + j) + of_h, (const Pair*)from);
    }
}

// Memory that all warps share.
struct Board {
    volatile Real* moves;    // u and v of every triplet, (2 size, WIDE)
    volatile Real* found;    // Step of every triplet, (size, 4)
    volatile Real* sums;     // Square of every triplet and Cross with the one before, (size, 8)
    volatile Real* parts;    // parts of the same, one of every lane, for some triplets, (SLOTS, 8, LANES)
    Triplet* triplets;       // (size + 1)
    Products* next;          // products of every triplet with the one before, (size + 1)
};

// The first warp: from step to step.
__device__ __forceinline__ void solve(const Board& board, Real cap, Real rate, int size, int lane) {
    Real x[8];
    Square now = {0, 0, 0};
    Step s = {0, 0, 0, 0};
    Triplet here = board.triplets[0];
    Products with = {0, 0, 0, 0};
#pragma unroll 1
    for (int t = 0; t < size; t++) {
        do read_again(board.sums + 8 * t, x);
        while (__any_sync(EVERY, lacks_one(x)));
        now = after(s, with, now, {x[0], x[1], x[2]}, {x[3], x[4], x[5], x[6]});
        Triplet coming = board.triplets[t + 1];
        with = board.next[t + 1];
        s = step_of(here, now, cap, rate);
        tell(board.found + 4 * t, s.a1, s.a2, s.b2, s.share);
        here = coming;
    }
}

// The second warp: four lanes for each of eight sums, of which seven are needed.
__device__ __forceinline__ void add(const Board& board, int size, int lane) {
#pragma unroll 1
    for (int t = 0; t < size; t++) {
        volatile Real* from = board.parts + (t % SLOTS * 8 * LANES + lane * 8);
        Real x[8];
        do read_again(from, x);
        while (__any_sync(EVERY, lane < 28 && lacks_one(x)));
        Real sum = lane < 28 ? ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7])) : 0;
        sum += __shfl_xor_sync(EVERY, sum, 2);
        sum += __shfl_xor_sync(EVERY, sum, 1);
        if (lane % 4 == 0) board.sums[8 * t + lane / 4] = sum;
        tell(from, missing(), missing(), missing(), missing());
        tell(from + 4, missing(), missing(), missing(), missing());
    }
}

// Wait for u and v of a triplet; a warp far from its turn may sleep.
__device__ __forceinline__ void hear(const volatile Real* from, Real (&u)[RANK], Real (&v)[RANK], bool is_far) {
    while (true) {
#pragma unroll
        for (int i = 0; i < RANK; i++) u[i] = from[LANES * i], v[i] = from[LANES * (RANK + i)];
        if (!__any_sync(EVERY, lacks_one(u) | lacks_one(v))) return;
        rest_a_while(is_far ? 500 : 0);
    }
}

// Rows FROM and on, of LEFT triplets, take a step; they move up by one triplet.
template <int FROM, int LEFT>
__device__ __forceinline__ void apply(
    Real (&x)[2 * ROW][RANK], const Real (&u)[RANK], const Real (&v)[RANK], const Products* g
) {
#pragma unroll
    for (int j = FROM; j < LEFT; j++)
#pragma unroll
        for (int i = 0; i < RANK; i++) {
            x[2 * j][i] = x[2 * j + 2][i] + u[i] * g[j].gg + v[i] * g[j].hg;
            x[2 * j + 1][i] = x[2 * j + 3][i] + u[i] * g[j].gh + v[i] * g[j].hh;
        }
}

// The own steps of a warp, with LEFT triplets after the first: those of a segment, then the others. Numbers that the
// first warp waits for come first.
template <int LEFT>
__device__ __forceinline__ void take(
    const Board& board, const Products* row, Real* steps, Real (&x)[2 * ROW][RANK], int first, int end, int r, int lane
) {
    constexpr int LENGTH = TOGETHER / SEGMENTS, SOON = LEFT < 2 ? LEFT : 2;
#pragma unroll 1
    for (int t = first; t < first + LENGTH; t++, row += ROW) {
        Products g[LEFT];
#pragma unroll
        for (int j = 0; j < LEFT; j++) g[j] = row[j];
        Real s[4], u[RANK], v[RANK];
        do read_again(board.found + 4 * t, s);
        while (__any_sync(EVERY, lacks_one(s)));
#pragma unroll
        for (int i = 0; i < RANK; i++)
            u[i] = s[0] * x[0][i] + s[1] * x[1][i], v[i] = s[1] * x[0][i] + s[2] * x[1][i];
        apply<0, SOON>(x, u, v, g);
        if (t + 2 < end) tell_parts(board.parts + (t + 2) % SLOTS * 8 * LANES, x, lane);
        volatile Real* moves = board.moves + 2 * t * WIDE + lane;
#pragma unroll
        for (int i = 0; i < RANK; i++) {
            moves[LANES * i] = u[i];
            moves[LANES * (RANK + i)] = v[i];
            if (lane + LANES * i < r) {
                steps[LANES * i] = u[i];
                steps[r + LANES * i] = v[i];
            }
        }
        steps += 2 * r;
        apply<SOON, LEFT>(x, u, v, g);
    }
    if constexpr (LEFT > LENGTH) take<LEFT - LENGTH>(board, row, steps, x, first + LENGTH, end, r, lane);
}

// Any other warp: the triplets from `first` on, and that before, which moves them first of all.
__device__ __forceinline__ void move(
    const Board& board, Products* own, const Real* past, const Real* ready, const Real* gram, Real* steps, int first,
    int size, int r, int lane
) {
    const int known = first > LAG * TOGETHER ? first - LAG * TOGETHER : 0;  // steps that the rows contain when they arrive
    Products* ring = own + (ROW + 1) * TOGETHER;
    Real x[2 * ROW][RANK], u[RANK], v[RANK];
    for (int t = first > 0 ? 0 : 1; t < ROW; t++) ask<TOGETHER>(own + t * TOGETHER, gram, first - 1 + t, first, size, lane);
    sent();
    for (int s = known; s < known + AHEAD - 1; s++) {
        if (s < first - 1) ask<ROW>(ring + s % AHEAD * ROW, gram, s, first - 1, size, lane);
        sent();
    }
    if (known > 0) {
        const volatile Real* from = ready + (long long)(first / TOGETHER) * 2 * ROW * WIDE + lane;
        bool lacks;
        do {
            lacks = false;
#pragma unroll
            for (int c = 0; c < 2 * ROW; c++) {
#pragma unroll
                for (int i = 0; i < RANK; i++) x[c][i] = from[c * WIDE + LANES * i];
                lacks |= lacks_one(x[c]);
            }
        } while (__any_sync(EVERY, lacks));
    } else {
#pragma unroll
        for (int c = 0; c < 2 * ROW; c++)
#pragma unroll
            for (int i = 0; i < RANK; i++) {
                int at = lane + LANES * i;
                x[c][i] = at < r && (c >= 2 || first > 0) ? past[(long long)(2 * first - 2 + c) * r + at] : 0;
            }
    }
#pragma unroll 1
    for (int s = known; s < first - 1; s++) {
        wait_for_all_but<AHEAD - 2>();
        __syncwarp();
        Products g[ROW];
#pragma unroll
        for (int j = 0; j < ROW; j++) g[j] = ring[s % AHEAD * ROW + j];
        int asked = s + AHEAD - 1;
        if (asked < first - 1) ask<ROW>(ring + asked % AHEAD * ROW, gram, asked, first - 1, size, lane);
        sent();
        hear(board.moves + 2 * s * WIDE + lane, u, v, first - s > 2 * TOGETHER);
#pragma unroll
        for (int j = 0; j < ROW; j++)
#pragma unroll
            for (int i = 0; i < RANK; i++) {
                x[2 * j][i] += u[i] * g[j].gg + v[i] * g[j].hg;
                x[2 * j + 1][i] += u[i] * g[j].gh + v[i] * g[j].hh;
            }
    }
    wait_for_all_but<0>();
    __syncwarp();
    tell_parts(board.parts + first % SLOTS * 8 * LANES, x, lane);
    if (first == 0) {
#pragma unroll
        for (int i = 0; i < RANK; i++) u[i] = v[i] = 0;
        for (int j = lane; j < TOGETHER; j += LANES) own[j] = {0, 0, 0, 0};
        __syncwarp();
    } else {
        hear(board.moves + 2 * (first - 1) * WIDE + lane, u, v, false);
    }
    apply<0, TOGETHER>(x, u, v, own);
    if (TOGETHER > 1) tell_parts(board.parts + (first + 1) % SLOTS * 8 * LANES, x, lane);
    steps += (long long)(2 * first) * r + lane;
    take<TOGETHER>(board, own + ROW, steps, x, first, first + TOGETHER, r, lane);
}

// Another thread block: the rows of a group and of the triplet before, until a warp takes them over.
__device__ __forceinline__ void keep(
    Real* memory, const Real* past, Real* ready, const Real* gram, const Real* steps, int group, int size, int r, int lane,
    int warp
) {
    constexpr int SHARE = (2 * ROW + WARPS + 1) / (WARPS + 2);  // rows of a warp
    const int first = group * TOGETHER;
    Real* moves = memory;                              // (2 TOGETHER, WIDE)
    Real* products = memory + 2 * TOGETHER * WIDE;     // (2 TOGETHER, 2 ROW)
    Real x[SHARE][RANK];
#pragma unroll
    for (int j = 0; j < SHARE; j++)
#pragma unroll
        for (int i = 0; i < RANK; i++) {
            int row = warp + j * (WARPS + 2), at = lane + LANES * i;
            x[j][i] = row < 2 * ROW && at < r ? past[(long long)(2 * first - 2 + row) * r + at] : 0;
        }
#pragma unroll 1
    for (int start = 0; start < first - LAG * TOGETHER; start += TOGETHER) {
        __syncthreads();
        for (int at = threadIdx.x; at < 2 * TOGETHER * 2 * ROW; at += THREADS)
            products[at] = gram[(long long)(2 * start + at / (2 * ROW)) * 2 * size + 2 * first - 2 + at % (2 * ROW)];
        for (int at = threadIdx.x; at < 2 * TOGETHER * WIDE; at += THREADS) {
            int column = at % WIDE;
            Real one[1] = {0};
            if (column < r) {
                const volatile Real* from = steps + (long long)(2 * start + at / WIDE) * r + column;
                for (one[0] = *from; lacks_one(one); one[0] = *from) rest_a_while(100);
            }
            moves[at] = one[0];
        }
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < 2 * TOGETHER; k++)
#pragma unroll
            for (int j = 0; j < SHARE; j++) {
                int row = warp + j * (WARPS + 2);
                Real g = products[k * 2 * ROW + (row < 2 * ROW ? row : 0)];
#pragma unroll
                for (int i = 0; i < RANK; i++) x[j][i] += g * moves[k * WIDE + LANES * i + lane];
            }
    }
    ready += (long long)group * 2 * ROW * WIDE;
#pragma unroll
    for (int j = 0; j < SHARE; j++)
#pragma unroll
        for (int i = 0; i < RANK; i++) {
            int row = warp + j * (WARPS + 2);
            if (row < 2 * ROW) ready[row * WIDE + LANES * i + lane] = x[j][i];
        }
}

// `steps` and `ready`, of shapes (learners, 2 size, r) and (learners, size / TOGETHER, 2 ROW, WIDE), must be missing.
extern "C" __global__ void __launch_bounds__(THREADS, 1) factor_block(
    const Real* past, const Real* gram, const Real* settings, Real* steps, Real* ready, Real* share, signed char* moved,
    int size, int r, int learners
) {
    constexpr int OWN = (ROW + 1) * TOGETHER + AHEAD * ROW;
    SHARED_MEMORY(memory);
    const int lane = threadIdx.x % LANES, warp = __shfl_sync(EVERY, (int)(threadIdx.x / LANES), 0);
    const long long learner = blockIdx.x % learners;
    past += learner * 2 * size * r, steps += learner * 2 * size * r, gram += learner * 4 * size * size;
    share += learner * size, moved += learner * size, ready += learner * (size / TOGETHER) * 2 * ROW * WIDE;
    if (blockIdx.x >= learners) {
        keep((Real*)memory, past, ready, gram, steps, LAG + blockIdx.x / learners, size, r, lane, warp);
        return;
    }
    Board board;
    board.moves = (volatile Real*)memory;
    board.found = board.moves + 2 * size * WIDE;
    board.sums = board.found + 4 * size;
    board.parts = board.sums + 8 * size;
    const int told = (2 * WIDE + 12) * size + SLOTS * 8 * LANES;
    board.next = (Products*)((Real*)memory + told);
    Products* products = board.next + size + 1;
    board.triplets = (Triplet*)(products + WARPS * OWN);
    const Real cap = settings[2 * learner], rate = settings[2 * learner + 1];
    for (int i = threadIdx.x; i < told; i += THREADS) board.moves[i] = missing();
    for (int t = threadIdx.x; t < size; t += THREADS) {
        const Real *g = gram + (long long)(2 * t) * (2 * size + 1), *h = g + 2 * size;
        Products self = {g[0], g[1], h[0], h[1]};
        board.triplets[t] = described(self, cap);
        if (t + 1 < size) board.next[t + 1] = {g[2], g[3], h[2], h[3]};
    }
    __syncthreads();
    if (warp == 0) solve(board, cap, rate, size, lane);
    else if (warp == 1) add(board, size, lane);
    else
        for (int first = (warp - 2) * TOGETHER; first < size; first += WARPS * TOGETHER)
            move(board, products + (warp - 2) * OWN, past, ready, gram, steps, first, size, r, lane);
    __syncthreads();
    for (int t = threadIdx.x; t < size; t += THREADS) {
        const volatile Real* s = board.found + 4 * t;
        share[t] = s[3], moved[t] = fabs(s[0]) + fabs(s[1]) + fabs(s[2]) > 0;
    }
}
