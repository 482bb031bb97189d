// The low-rank step for numbers in memory, one triplet a thread block: gg, hh, gh, pp, qq, pq, cap, rate.

#include "factored_step.cuh"

extern "C" __global__ void factored(const Real* numbers, Real* out) {
    const Real* x = numbers + 8 * blockIdx.x;
    Step s = step_of(described({x[0], x[2], x[2], x[1]}, x[6]), {x[3], x[4], x[5]}, x[6], x[7]);
    tell(out + 4 * blockIdx.x, s.a1, s.a2, s.b2, s.share);
}
