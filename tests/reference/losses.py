"""The hinge, the rescaled hinge and its half-quadratic weight (sec. 2.2). eta = 0 is the hinge (A8)."""

from typing import Any

import numpy as np

Value = Any  # a float or an array of floats


def hinge(z: Value) -> Value:
    """l(z) = max(0, 1 - z), Eq. (8)."""
    return np.maximum(0.0, 1.0 - z)


def beta(eta: float) -> float:
    """beta = 1 / (1 - exp(-eta)), text below Eq. (10); needs eta > 0."""
    return float(-1.0 / np.expm1(-eta))


def rescaled_hinge(z: Value, eta: float) -> Value:
    """l_rh(z) = beta [1 - exp(-eta l(z))], Eq. (10); the hinge when eta = 0 (A8)."""
    if eta == 0.0:
        return hinge(z)
    return -beta(eta) * np.expm1(-eta * hinge(z))


def plausibility(hinge_value: Value, eta: float) -> Value:
    """omega = -v = exp(-eta l) in (0, 1], Eq. (17) (A5)."""
    return np.exp(-eta * np.asarray(hinge_value))[()]


def weight(hinge_value: Value, eta: float) -> Value:
    """beta eta omega, so that C_t = C * weight, text below Eq. (19); 1 when eta = 0 (A7, A8)."""
    if eta == 0.0:
        return np.ones_like(np.asarray(hinge_value, dtype=np.float64))[()]
    return beta(eta) * eta * plausibility(hinge_value, eta)
