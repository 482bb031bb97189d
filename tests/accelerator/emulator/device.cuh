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

// All thread blocks run side by side.
struct Warp { Real told[2][32]; bool said[2][32]; int counted[2][32], n_here, turn; };
struct Meeting { int n_here, turn; };
struct Block { Meeting of_all, of_some; alignas(64) unsigned char memory[1 << 18]; };
static int n_threads, n_blocks, now;
static ucontext_t home, *contexts;
static bool* is_done;
static Warp* warps;
static Block* blocks;
#define SHARED_MEMORY(name) unsigned char* name = blocks[blockIdx.x].memory

static void go_to(int thread) { now = thread, blockIdx.x = thread / n_threads, threadIdx.x = thread % n_threads; }
static void others() {
    int me = now, next = now;
    do next = (next + 1) % (n_threads * n_blocks); while (is_done[next]);
    if (next != me) {
        go_to(next);
        swapcontext(&contexts[me], &contexts[next]);
    }
    go_to(me);
}

// Wait until all threads of the warp are here; what they tell is kept for two turns.
static Warp& own_warp() { return warps[now / 32]; }
static int met(Real told, bool said, int counted = 0) {
    Warp& warp = own_warp();
    int turn = warp.turn;
    warp.told[turn % 2][threadIdx.x % 32] = told, warp.said[turn % 2][threadIdx.x % 32] = said;
    warp.counted[turn % 2][threadIdx.x % 32] = counted;
    if (++warp.n_here == 32) warp.n_here = 0, warp.turn++;
    else while (warp.turn == turn) others();
    return turn % 2;
}
static void __syncwarp() { met(0, false); }
static Real __shfl_xor_sync(unsigned, Real x, int far) {
    int turn = met(x, false);
    return own_warp().told[turn][threadIdx.x % 32 ^ far];
}
static Real __shfl_sync(unsigned, Real x, int lane) {
    int turn = met(x, false);
    return own_warp().told[turn][lane];
}
static int __shfl_sync(unsigned, int x, int lane) {
    int turn = met(0, false, x);
    return own_warp().counted[turn][lane];
}
static bool __any_sync(unsigned, bool said) {
    int turn = met(0, said);
    for (int i = 0; i < 32; i++)
        if (own_warp().said[turn][i]) return true;
    return false;
}
static void meet(Meeting& meeting, int n) {
    int turn = meeting.turn;
    if (++meeting.n_here == n) meeting.n_here = 0, meeting.turn++;
    else while (meeting.turn == turn) others();
}
static void __syncthreads() { meet(blocks[blockIdx.x].of_all, n_threads); }
template <int N> static void meet_of() { meet(blocks[blockIdx.x].of_some, N); }

static Real most(Real a, Real b) { return a > b ? a : b; }
static Real least(Real a, Real b) { return a < b ? a : b; }
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

template <typename Body> static void run(int n, int threads, Body body) {
    constexpr size_t SIZE = 1 << 15;
    static Body* work;
    work = &body;
    n_threads = threads, n_blocks = n;
    contexts = (ucontext_t*)calloc(n * threads, sizeof(ucontext_t));
    is_done = (bool*)calloc(n * threads, sizeof(bool));
    warps = (Warp*)calloc(n * threads / 32, sizeof(Warp));
    blocks = (Block*)aligned_alloc(64, n * sizeof(Block));
    char* stacks = (char*)malloc(n * threads * SIZE);
    struct Start {
        static void thread() {
            (*work)();
            is_done[now] = true;
            for (int i = 1; i < n_threads * n_blocks; i++) {
                int next = (now + i) % (n_threads * n_blocks);
                if (is_done[next]) continue;
                go_to(next);
                setcontext(&contexts[next]);
            }
            setcontext(&home);
        }
    };
    for (int i = 0; i < n; i++) blocks[i].of_all = blocks[i].of_some = {0, 0}, memset(blocks[i].memory, 0xab, 1 << 18);
    for (int i = 0; i < n * threads; i++) {
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_sp = stacks + i * SIZE, contexts[i].uc_stack.ss_size = SIZE;
        makecontext(&contexts[i], Start::thread, 0);
    }
    go_to(0);
    swapcontext(&home, &contexts[0]);
    free(contexts), free(is_done), free(warps), free(blocks), free(stacks);
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
        run(blocks, threads, [&] { called(kernel, at); }); \
    }
