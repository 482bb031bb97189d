// A thread block on the processor: every thread is a context of its own, and they take turns where they wait for each other.
// Threads of a warp meet wherever a kernel of CUDA C says that they do, so that what is told is what is heard.

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __shared__
#define __align__(n)

#ifdef REAL_IS_DOUBLE
typedef double Real;
typedef uint64_t Word;
#else
typedef float Real;
typedef uint32_t Word;
#endif

struct Place { int x; };
static Place threadIdx, blockIdx;
static int n_threads, now, n_inside[2], turn_of_all;
static ucontext_t home, *contexts;
static bool *is_done;
static struct { Real told[2][32]; bool said[2][32]; int n_here, turn; } *warps;
alignas(64) unsigned char memory[1 << 18];

static void others() {
    int me = now;
    do now = (now + 1) % n_threads; while (is_done[now]);
    if (now != me) {
        threadIdx.x = now;
        swapcontext(&contexts[me], &contexts[now]);
    }
    threadIdx.x = now = me;
}

// Wait until all threads of the warp are here; what they tell is kept for two turns.
static int met(Real told, bool said) {
    auto& warp = warps[threadIdx.x / 32];
    int turn = warp.turn;
    warp.told[turn % 2][threadIdx.x % 32] = told, warp.said[turn % 2][threadIdx.x % 32] = said;
    if (++warp.n_here == 32) warp.n_here = 0, warp.turn++;
    else while (warp.turn == turn) others();
    return turn % 2;
}
static void __syncwarp() { met(0, false); }
static Real __shfl_xor_sync(unsigned, Real x, int far) {
    int turn = met(x, false);
    return warps[threadIdx.x / 32].told[turn][threadIdx.x % 32 ^ far];
}
static Real __shfl_sync(unsigned, Real x, int lane) {
    int turn = met(x, false);
    return warps[threadIdx.x / 32].told[turn][lane];
}
static int __shfl_sync(unsigned, int x, int) { return x; }  // asked for what is alike only
static bool __any_sync(unsigned, bool said) {
    auto& warp = warps[threadIdx.x / 32];
    int turn = met(0, said);
    for (int i = 0; i < 32; i++)
        if (warp.said[turn][i]) return true;
    return false;
}
static void __syncthreads() {
    int turn = turn_of_all;
    if (++n_inside[turn % 2] == n_threads) n_inside[turn % 2] = 0, turn_of_all++;
    else while (turn_of_all == turn) others();
}

static Real fast_exp2(Real x) { return exp2(x); }
static Real fast_inverse(Real x) { return 1 / x; }
static Real infinite() { return INFINITY; }
static Real missing() { Word all = ~(Word)0; Real x; memcpy(&x, &all, sizeof x); return x; }
static Word bits_of(Real x) { Word bits; memcpy(&bits, &x, sizeof x); return bits; }
template <int N> static bool lacks_one(const Real (&x)[N]) {
    for (int i = 0; i < N; i++)
        if (bits_of(x[i]) == ~(Word)0) return true;
    return false;
}
template <int N> static void read_again(const volatile Real* from, Real (&x)[N]) {
    others();
    for (int i = 0; i < N; i++) x[i] = from[i];
}
static void tell(volatile Real* to, Real a, Real b, Real c, Real d) { to[0] = a, to[1] = b, to[2] = c, to[3] = d; }
template <typename Chunk> static void copy_aside(Chunk* to, const Chunk* from) { *to = *from; }
static void sent() {}
template <int> static void wait_for_all_but() {}
static void rest_a_while(unsigned) { others(); }

template <typename Body> static void run_block(int number, int threads, Body body) {
    constexpr size_t SIZE = 1 << 16;
    static Body* work;
    work = &body;
    n_threads = threads, blockIdx.x = number, turn_of_all = 0, n_inside[0] = n_inside[1] = 0;
    contexts = (ucontext_t*)calloc(threads, sizeof(ucontext_t));
    is_done = (bool*)calloc(threads, sizeof(bool));
    *(void**)&warps = calloc(threads / 32, sizeof *warps);
    char* stacks = (char*)malloc(threads * SIZE);
    memset(memory, 0xab, sizeof memory);
    struct Start {
        static void thread() {
            (*work)();
            is_done[now] = true;
            for (int i = 0; i < n_threads; i++)
                if (!is_done[(now + i) % n_threads]) {
                    threadIdx.x = now = (now + i) % n_threads;
                    setcontext(&contexts[now]);
                }
            setcontext(&home);
        }
    };
    for (int i = 0; i < threads; i++) {
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_sp = stacks + i * SIZE, contexts[i].uc_stack.ss_size = SIZE;
        makecontext(&contexts[i], Start::thread, 0);
    }
    threadIdx.x = now = 0;
    swapcontext(&home, &contexts[0]);
    free(contexts), free(is_done), free(*(void**)&warps), free(stacks);
}

template <int N, typename First, typename... Rest> struct Nth { typedef typename Nth<N - 1, Rest...>::Type Type; };
template <typename First, typename... Rest> struct Nth<0, First, Rest...> { typedef First Type; };

// Call a kernel with arguments that lie at some places, as the driver of a card does.
template <typename... All, typename... Got> static void called(void (*kernel)(All...), void** at, Got... got) {
    if constexpr (sizeof...(Got) == sizeof...(All)) kernel(got...);
    else called(kernel, at, got..., *(typename Nth<sizeof...(Got), All...>::Type*)at[sizeof...(Got)]);
}
#define STARTED(kernel) \
    extern "C" void start(int blocks, int threads, void** at) { \
        for (int i = 0; i < blocks; i++) run_block(i, threads, [&] { called(kernel, at); }); \
    }
