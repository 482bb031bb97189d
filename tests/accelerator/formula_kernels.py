"""Kernels that apply one formula to numbers in memory, for `test_formulas`."""

import triton
import triton.language as tl

from nearkin.accelerator.kernels.formulas import factored_step


@triton.jit
def factored(x_ptr, out_ptr, N_HQ: tl.constexpr):
    x = x_ptr + 8 * tl.program_id(0)
    out = out_ptr + 4 * tl.program_id(0)
    a1, a2, b2, share = factored_step(
        tl.load(x), tl.load(x + 1), tl.load(x + 2), tl.load(x + 3), tl.load(x + 4), tl.load(x + 5),
        tl.load(x + 6), tl.load(x + 7), N_HQ,
    )  # fmt: skip
    tl.store(out, a1)
    tl.store(out + 1, a2)
    tl.store(out + 2, b2)
    tl.store(out + 3, share)
