"""Low-rank sweeps of many small learners side by side: one program each, L in registers from first to last."""

import triton
import triton.language as tl

from nearkin.accelerator.kernels.formulas import factored_step

__all__ = ["factor_sweep", "grams"]


@triton.jit
def _places(index_ptr, n, t):
    """Where the anchor, the positive and the negative of triplet t lie."""
    return tl.load(index_ptr + t), tl.load(index_ptr + n + t), tl.load(index_ptr + 2 * n + t)


@triton.jit
def _members(rows_ptr, pool_ptr, anchor, positive, negative, d, at):
    """Vectors of one triplet."""
    a = tl.load(rows_ptr + anchor.to(tl.int64) * d + at, mask=at < d, other=0.0)
    p = tl.load(pool_ptr + positive.to(tl.int64) * d + at, mask=at < d, other=0.0)
    return a, p, tl.load(pool_ptr + negative.to(tl.int64) * d + at, mask=at < d, other=0.0)


@triton.jit
def _directions(a, p, n, IS_DISTANCE: tl.constexpr):
    """``g`` and ``h``; differences first, so that a common offset costs no digits."""
    g = a
    if IS_DISTANCE:
        g = (a - p) + (a - n)
    return g, p - n


@triton.jit
def _plus_outer(L, x, y):
    """``L + x y'``, fused; left to the compiler it takes half as many instructions again."""
    return tl.fma(tl.broadcast_to(x[:, None], L.shape), tl.broadcast_to(y[None, :], L.shape), L)


@triton.jit
def grams(rows_ptr, pool_ptr, index_ptr, out_ptr, n, d, WIDE: tl.constexpr, IS_DISTANCE: tl.constexpr):
    """``g.g, h.h, g.h`` of every triplet; one program each."""
    t = tl.program_id(0)
    at = tl.arange(0, WIDE)
    anchor, positive, negative = _places(index_ptr, n, t)
    a, p, other = _members(rows_ptr, pool_ptr, anchor, positive, negative, d, at)
    g, h = _directions(a, p, other, IS_DISTANCE)
    gg, hh, gh = tl.sum(g * g, axis=0), tl.sum(h * h, axis=0), tl.sum(g * h, axis=0)
    tl.store(out_ptr + 3 * t, gg)
    tl.store(out_ptr + 3 * t + 1, hh)
    tl.store(out_ptr + 3 * t + 2, gh)


@triton.jit
def factor_sweep(
    L_ptr,
    rows_ptr,
    pool_ptr,
    index_ptr,
    gram_ptr,
    bounds_ptr,
    settings_ptr,
    share_ptr,
    moved_ptr,
    n,
    d,
    r,
    DEEP: tl.constexpr,
    WIDE: tl.constexpr,
    IS_DISTANCE: tl.constexpr,
    N_HQ: tl.constexpr,
):
    """The triplets of every learner in order; L of shape (d, r) per learner stays in registers from first to last.

    ``bounds`` says which of the n triplets belong to each learner. What a triplet needs from memory is asked for one
    turn ahead, where it lies two turns ahead, and first touched in its own turn: nothing waits for memory.
    """
    learner = tl.program_id(0)
    begin = tl.load(bounds_ptr + learner)
    end = tl.load(bounds_ptr + learner + 1)
    cap = tl.load(settings_ptr + 2 * learner)
    rate = tl.load(settings_ptr + 2 * learner + 1)
    deep = tl.arange(0, DEEP)
    wide = tl.arange(0, WIDE)
    L_ptr += learner.to(tl.int64) * d * r
    inside = (deep[:, None] < d) & (wide[None, :] < r)
    L = tl.load(L_ptr + deep[:, None] * r + wide[None, :], mask=inside, other=0.0)
    if begin < end:
        anchor, positive, negative = _places(index_ptr, n, begin)
        next_a, next_p, next_n = _members(rows_ptr, pool_ptr, anchor, positive, negative, d, deep)
        anchor, positive, negative = _places(index_ptr, n, tl.minimum(begin + 1, end - 1))
        next_gg, next_hh, next_gh = (
            tl.load(gram_ptr + 3 * begin), tl.load(gram_ptr + 3 * begin + 1), tl.load(gram_ptr + 3 * begin + 2)
        )  # fmt: skip
        for t in range(begin, end):
            g, h = _directions(next_a, next_p, next_n, IS_DISTANCE)
            gg, hh, gh = next_gg, next_hh, next_gh
            after = tl.minimum(t + 1, end - 1)
            next_a, next_p, next_n = _members(rows_ptr, pool_ptr, anchor, positive, negative, d, deep)
            anchor, positive, negative = _places(index_ptr, n, tl.minimum(t + 2, end - 1))
            gram = gram_ptr + 3 * after
            next_gg, next_hh, next_gh = tl.load(gram), tl.load(gram + 1), tl.load(gram + 2)
            p, q = tl.sum(L * g[:, None], axis=0), tl.sum(L * h[:, None], axis=0)
            pp, qq, pq = tl.sum(p * p, axis=0), tl.sum(q * q, axis=0), tl.sum(p * q, axis=0)
            a1, a2, b2, share = factored_step(gg, hh, gh, pp, qq, pq, cap, rate, N_HQ)
            tl.store(share_ptr + t, share)
            tl.store(moved_ptr + t, (tl.abs(a1) + tl.abs(a2) + tl.abs(b2) > 0.0).to(tl.int8))
            along_g = a1 * p + a2 * q
            along_h = a2 * p + b2 * q
            L = _plus_outer(L, g, along_g)
            L = _plus_outer(L, h, along_h)
        tl.store(L_ptr + deep[:, None] * r + wide[None, :], L, mask=inside)
