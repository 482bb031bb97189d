// Steps of one block of triplets on a full matrix, one after the other, from their margins before the block.
//
// See nearkin.kernels.blocks: earlier steps of the block act on later margins through the table <A_s, A_t> alone. A warp has
// 32 triplets side by side. It applies the steps of earlier warps as they are published (see factor_block.cu), then all its
// lanes solve for their own step, again and again, and the lane whose turn it is shares its step with the others.
//
// Real, WARPS, N_HQ and UNBOUNDED (no cap on a step) are defined by the compiler call.

constexpr int LANES = 32;
constexpr unsigned EVERY = 0xffffffffu;

struct Step { Real tau, share; };

// `half_quadratic` of nearkin.steps with `linear_z`; `inverse` is 1 / norm, and 0 where the norm is: then no step is taken.
__device__ __forceinline__ Step step_of(Real z, Real slope, Real inverse, Real cap, Real rate) {
    Real kink = most((1 - z) * inverse, 0), start = z * rate - rate;
    Step s;
    Real share = s.share = fast_exp2(least(start, 0));  // before the step
#pragma unroll
    for (int i = 0; i < N_HQ; i++) {
        if (i > 0) share = fast_exp2(least(s.tau * slope + start, 0));
        s.tau = UNBOUNDED ? kink : least(cap * share, kink);
    }
    return s;
}

extern "C" __global__ void __launch_bounds__(LANES * WARPS, 1) full_block(
    const Real* margins, const Real* table, const Real* settings, Real* taus, Real* shares, int size
) {
    SHARED_MEMORY(memory);
    volatile Real* published = (volatile Real*)memory;
    const int lane = threadIdx.x % LANES, warp = __shfl_sync(EVERY, (int)(threadIdx.x / LANES), 0);
    const Real cap = settings[0], rate = settings[1];
    for (int i = threadIdx.x; i < size; i += LANES * WARPS) published[i] = missing();
    __syncthreads();

    for (int first = warp * LANES; first < size; first += WARPS * LANES) {
        const int here = first + lane;
        Real z = margins[here], norm = table[(long long)here * (size + 1)];
        Real inverse = norm > 0 ? 1 / norm : 0, slope = norm * rate;
        Real own[LANES], row[LANES];
#pragma unroll
        for (int t = 0; t < LANES; t++) own[t] = lane > t ? table[(long long)(first + t) * size + here] : 0;
        for (int start = 0; start < first; start += LANES) {
#pragma unroll
            for (int t = 0; t < LANES; t++) row[t] = table[(long long)(start + t) * size + here];
#pragma unroll
            for (int t = 0; t < LANES; t++) {
                Real tau = published[start + t];
                while (__any_sync(EVERY, bits_of(tau) == bits_of(missing()))) {
                    rest_a_while(first - start > LANES ? 200 : 0);
                    tau = published[start + t];
                }
                z += tau * row[t];
            }
        }
        Step s;
#pragma unroll
        for (int t = 0; t < LANES; t++) {
            s = step_of(z, slope, inverse, cap, rate);
            Real tau = __shfl_sync(EVERY, s.tau, t);
            z += tau * own[t];
            if (lane == t) published[here] = tau;
        }
        s = step_of(z, slope, inverse, cap, rate);
        taus[here] = s.tau, shares[here] = s.share;
    }
}
