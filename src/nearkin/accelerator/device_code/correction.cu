// past += cross steps for small matrices, with low latency: (n, n) times (n, r).
//
// A thread block has ROWS rows and 32 columns; its warps share the n products of each and add up their parts.
//
// Real, ROWS and WARPS are defined by the compiler call; n is a multiple of 4 WARPS.

constexpr int LANES = 32;

struct alignas(sizeof(Real) * 4 > 16 ? 16 : sizeof(Real) * 4) Four { Real x[4]; };

extern "C" __global__ void __launch_bounds__(LANES * WARPS) correction(
    Real* past, const Real* cross, const Real* steps, int n, int r
) {
    SHARED_MEMORY(memory);
    Real* parts = (Real*)memory;  // (WARPS, ROWS, 32)
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    const int first = blockIdx.x % (n / ROWS) * ROWS, column = blockIdx.x / (n / ROWS) * LANES + lane;
    const bool inside = column < r;
    Real sum[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; i++) sum[i] = 0;
#pragma unroll 4
    for (int k = warp * (n / WARPS); k < (warp + 1) * (n / WARPS); k += 4) {
        Real s[4];
#pragma unroll
        for (int j = 0; j < 4; j++) s[j] = inside ? steps[(long long)(k + j) * r + column] : 0;
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            Four c = *(const Four*)(cross + (long long)(first + i) * n + k);
#pragma unroll
            for (int j = 0; j < 4; j++) sum[i] += c.x[j] * s[j];
        }
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++) parts[(warp * ROWS + i) * LANES + lane] = sum[i];
    __syncthreads();
    for (int i = warp; i < ROWS; i += WARPS) {
        Real total = inside ? past[(long long)(first + i) * r + column] : 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) total += parts[(w * ROWS + i) * LANES + lane];
        if (inside) past[(long long)(first + i) * r + column] = total;
    }
}
