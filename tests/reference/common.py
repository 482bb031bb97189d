"""What the learners share: the result of a run, the matrix A of a triplet, bisection."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Triplet = tuple[Array, Array, Array]  # (x, x_plus, x_minus)
Direction = Callable[[Array, Array, Array], Array]


class Run(NamedTuple):
    """What one pass over a sequence of triplets leaves behind.

    parameter : the final M (d, d) or L (d, r).
    plausibility : (n,) exp(-eta l) of the last half-quadratic iteration of each triplet, 1 where l = 0.
    tau : (n,) the step taken for each triplet, 0 where nothing was learned.
    n_updates : how many triplets have tau > 0.
    """

    parameter: Array
    plausibility: Array
    tau: Array
    n_updates: int


def similarity_direction(x: Array, x_plus: Array, x_minus: Array) -> Array:
    """A = x w', Eq. (22), so that <A, M> = S_M(x, x_plus) - S_M(x, x_minus), Eq. (6)."""
    w = x_plus - x_minus
    return np.outer(x, w)


def distance_direction(x: Array, x_plus: Array, x_minus: Array) -> Array:
    """A = v v' - u u', Eq. (25), so that <A, M> = d_M^2(x, x_minus) - d_M^2(x, x_plus), Eq. (7)."""
    u, v = x - x_plus, x - x_minus
    return np.outer(v, v) - np.outer(u, u)


def bisect_decreasing(curve: Callable[[float], float], upper: float) -> float:
    """Zero of a non-increasing curve with curve(0) > 0 on [0, upper]; `upper` if it stays positive.

    Halves the interval until its ends are neighbouring floating-point numbers.
    """
    if curve(upper) > 0.0:
        return upper
    low, high = 0.0, upper
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return high
        if curve(middle) > 0.0:
            low = middle
        else:
            high = middle
