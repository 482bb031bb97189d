// Functions of the device; the tests have a version of this file for the processor.

#ifdef REAL_IS_DOUBLE
typedef double Real;
__device__ __forceinline__ double fast_exp2(double x) { return exp2(x); }
__device__ __forceinline__ double fast_inverse(double x) { return 1.0 / x; }
__device__ __forceinline__ double infinite() { return __longlong_as_double(0x7ff0000000000000LL); }
__device__ __forceinline__ double missing() { return __longlong_as_double(-1LL); }
__device__ __forceinline__ unsigned long long bits_of(double x) { return __double_as_longlong(x); }
template <int N> __device__ __forceinline__ void read_again(const volatile double* from, double (&x)[N]) {
    unsigned at = (unsigned)__cvta_generic_to_shared((const void*)from);
#pragma unroll
    for (int i = 0; i < N; i += 2)
        asm volatile("ld.volatile.shared.v2.f64 {%0, %1}, [%2];" : "=d"(x[i]), "=d"(x[i + 1]) : "r"(at + 8 * i));
}
#else
typedef float Real;
__device__ __forceinline__ float fast_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float fast_inverse(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float infinite() { return __int_as_float(0x7f800000); }
__device__ __forceinline__ float missing() { return __int_as_float(-1); }
__device__ __forceinline__ unsigned bits_of(float x) { return __float_as_uint(x); }
template <int N> __device__ __forceinline__ void read_again(const volatile float* from, float (&x)[N]) {
    unsigned at = (unsigned)__cvta_generic_to_shared((const void*)from);
#pragma unroll
    for (int i = 0; i < N; i += 4)
        asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(x[i]), "=f"(x[i + 1]), "=f"(x[i + 2]), "=f"(x[i + 3]) : "r"(at + 4 * i));
}
#endif

#define SHARED_MEMORY(name) extern __shared__ __align__(16) unsigned char name[]

__device__ __forceinline__ Real most(Real a, Real b) { return a > b ? a : b; }
__device__ __forceinline__ Real least(Real a, Real b) { return a < b ? a : b; }

// Whether a number has not arrived yet: the pattern of `missing` is the largest.
template <int N> __device__ __forceinline__ bool lacks_one(const Real (&x)[N]) {
    auto worst = bits_of(x[0]);
#pragma unroll
    for (int i = 1; i < N; i++) worst = worst > bits_of(x[i]) ? worst : bits_of(x[i]);
    return worst == bits_of(missing());
}

__device__ __forceinline__ void tell(volatile Real* to, Real a, Real b, Real c, Real d) {
    to[0] = a;
    to[1] = b;
    to[2] = c;
    to[3] = d;
}

// Asynchronous copies to shared memory.
template <typename Chunk> __device__ __forceinline__ void copy_aside(Chunk* to, const Chunk* from) {
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(sizeof(Chunk)) : "memory");
}
__device__ __forceinline__ void sent() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT> __device__ __forceinline__ void wait_for_all_but() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
// Wait until N threads of the thread block are here; the others never come.
template <int N> __device__ __forceinline__ void meet_of() { asm volatile("bar.sync 1, %0;" ::"n"(N) : "memory"); }
__device__ __forceinline__ void rest_a_while(unsigned nanoseconds) {
    if (nanoseconds) __nanosleep(nanoseconds);
}
