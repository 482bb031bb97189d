"""The exponential of many numbers at once, in a form that compilers vectorise, unlike a library call per number."""

import numpy as np

from nearkin.kernels.machine.compile import exact_helper

__all__ = ["exponentials"]

#: Added to a number below 2^51 it leaves the nearest whole number in the last bits.
_ROUND = 1.5 * 2.0**52

#: log2(e); ln 2 in two parts, of which products with the first and a whole number are exact; the smallest argument.
_PER_DOUBLING = 1.4426950408889634
_HIGH, _LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_LOWEST = -708.0


@exact_helper
def exponentials(x, n, work):
    """Replace the first n numbers by their exponentials, at least ``exp(-708)``; correct to a last digit or two.

    ``exp(x) = 2^k exp(r)`` with ``|r| <= ln(2) / 2``, where Taylor's series has the digits. ``work`` is as long as x.
    """
    for i in range(n):
        value = max(x[i], _LOWEST)
        shifted = value * _PER_DOUBLING + _ROUND
        k = shifted - _ROUND
        r = (value - k * _HIGH) - k * _LOW
        p = 1.0 / 6227020800.0
        p = p * r + 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        x[i] = p * r + 1.0
        work[i] = shifted
    bits = work.view(np.int64)
    for i in range(n):
        bits[i] = (bits[i] << 52) + (1023 << 52)  # k becomes the exponent of 2^k
    for i in range(n):
        x[i] *= work[i]
