"""Steps of one block of triplets on a full matrix, one after the other, from their margins before the block.

See `nearkin.kernels.blocks`: earlier steps of the block act on later margins through the table ``<A_s, A_t>`` alone.
"""

import triton
import triton.language as tl

from nearkin.accelerator.kernels.formulas import linear_step

__all__ = ["chain"]


@triton.jit
def _turn(z, turn, row, lane, norm, inverse, cap, rate, N_HQ: tl.constexpr, UNBOUNDED: tl.constexpr):
    """The margins after the step of the triplet whose turn it is; only later ones move."""
    tau, _ = linear_step(z, norm, inverse, cap, rate, N_HQ, UNBOUNDED)
    return tl.where(lane > turn, z + tl.gather(tau, lane * 0 + turn, axis=0) * row, z)


@triton.jit
def chain(
    z_ptr,
    table_ptr,
    settings_ptr,
    tau_ptr,
    share_ptr,
    SIZE: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    N_HQ: tl.constexpr,
    UNBOUNDED: tl.constexpr,
):
    """Step sizes and plausibilities of ``SIZE`` triplets; one program per learner.

    The block is walked in groups of ``WIDTH`` triplets that lie side by side in a warp: all solve for their own step,
    the one whose turn it is tells its step to the later ones. Steps of groups before are read ``ROWS`` at a time.
    """
    learner = tl.program_id(0)
    z_ptr += learner * SIZE
    table_ptr += learner.to(tl.int64) * SIZE * SIZE
    tau_ptr += learner * SIZE
    share_ptr += learner * SIZE
    cap = tl.load(settings_ptr + 2 * learner)
    rate = tl.load(settings_ptr + 2 * learner + 1)
    lane = tl.arange(0, WIDTH)
    some = tl.arange(0, ROWS)
    for start in range(0, SIZE, WIDTH):
        here = start + lane
        own = table_ptr + start * SIZE + here
        # Rows of the table are asked for four turns before they are needed.
        row_0, row_1 = tl.load(own), tl.load(own + SIZE)
        row_2, row_3 = tl.load(own + 2 * SIZE), tl.load(own + 3 * SIZE)
        norm = tl.load(table_ptr + here * (SIZE + 1))
        inverse = tl.where(norm > 0.0, 1.0 / tl.where(norm > 0.0, norm, 1.0), 0.0)
        z = tl.load(z_ptr + here)
        for first in range(0, start, ROWS):
            before = first + some
            known = before < start
            tau = tl.load(tau_ptr + before, mask=known, other=0.0)
            part = tl.load(table_ptr + before[:, None] * SIZE + here[None, :], mask=known[:, None], other=0.0)
            z += tl.sum(part * tau[:, None], axis=0)
        for turn in range(0, WIDTH, 4):
            ahead = own + tl.minimum(turn + 4, WIDTH - 4) * SIZE
            next_0, next_1 = tl.load(ahead), tl.load(ahead + SIZE)
            next_2, next_3 = tl.load(ahead + 2 * SIZE), tl.load(ahead + 3 * SIZE)
            z = _turn(z, turn, row_0, lane, norm, inverse, cap, rate, N_HQ, UNBOUNDED)
            z = _turn(z, turn + 1, row_1, lane, norm, inverse, cap, rate, N_HQ, UNBOUNDED)
            z = _turn(z, turn + 2, row_2, lane, norm, inverse, cap, rate, N_HQ, UNBOUNDED)
            z = _turn(z, turn + 3, row_3, lane, norm, inverse, cap, rate, N_HQ, UNBOUNDED)
            row_0, row_1, row_2, row_3 = next_0, next_1, next_2, next_3
        tau, share = linear_step(z, norm, inverse, cap, rate, N_HQ, UNBOUNDED)
        tl.store(tau_ptr + here, tau)
        tl.store(share_ptr + here, share)
        tl.debug_barrier()  # other threads read these steps next
