"""Mercer kernels: inner products in feature spaces that are never formed.

Each is a function of the inner product of two rows and their squared lengths, so that one matrix product serves them
all. The functions take arrays as well as numbers, and the compiled loops use them as they stand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearkin.arrays import SMALLEST, Array
from nearkin.stored import Count, Number, Text, stored

__all__ = ["KERNELS", "MercerKernel", "cosine", "linear", "poly", "rbf", "rbf_exponent"]


def linear(dot, left, right, gamma, coef0, degree):  # type: ignore[no-untyped-def]
    """``x'y``."""
    return dot


def poly(dot, left, right, gamma, coef0, degree):  # type: ignore[no-untyped-def]
    """``(gamma x'y + coef0)^degree``."""
    return (gamma * dot + coef0) ** int(degree)


def rbf(dot, left, right, gamma, coef0, degree):  # type: ignore[no-untyped-def]
    """``exp(-gamma |x - y|^2)``."""
    return np.exp(rbf_exponent(dot, left, right, gamma))


def rbf_exponent(dot, left, right, gamma):  # type: ignore[no-untyped-def]
    """``-gamma |x - y|^2``."""
    return -gamma * np.maximum(left + right - 2.0 * dot, 0.0)


def cosine(dot, left, right, gamma, coef0, degree):  # type: ignore[no-untyped-def]
    """``x'y / (|x| |y|)``, zero if one of them is."""
    return dot / np.maximum(np.sqrt(left) * np.sqrt(right), SMALLEST)


#: By name, in the order by which the compiled loops know them.
KERNELS = {"linear": linear, "poly": poly, "rbf": rbf, "cosine": cosine}


@stored(name=Text(*KERNELS), gamma=Number(), coef0=Number(), degree=Count(1))
@dataclass(frozen=True)
class MercerKernel:
    """A kernel with its numbers.

    Parameters
    ----------
    name : {"linear", "poly", "rbf", "cosine"}
        Which.
    gamma : float, default=1.0
        Of "rbf" and "poly".
    coef0 : float, default=1.0
        Of "poly".
    degree : int, default=3
        Of "poly".

    Examples
    --------
    >>> MercerKernel("poly", degree=2).table(np.array([[1.0, 2.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])).tolist()
    [[4.0, 9.0]]
    """

    name: str
    gamma: float = 1.0
    coef0: float = 1.0
    degree: int = 3

    @property
    def numbers(self) -> tuple[float, float, float]:
        """What the functions of this module take last."""
        return float(self.gamma), float(self.coef0), float(self.degree)

    @property
    def kind(self) -> int:
        """Place among `KERNELS`."""
        return list(KERNELS).index(self.name)

    def table(self, left: Array, right: Array) -> Array:
        """All pairs."""
        squares = (left * left).sum(axis=1)[:, None], (right * right).sum(axis=1)[None, :]
        return np.asarray(KERNELS[self.name](left @ right.T, *squares, *self.numbers))

    def pairs(self, left: Array, right: Array) -> Array:
        """Row i of one with row i of the other."""
        squares = (left * left).sum(axis=1), (right * right).sum(axis=1)
        return np.asarray(KERNELS[self.name]((left * right).sum(axis=1), *squares, *self.numbers))
