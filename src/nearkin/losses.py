"""Losses of a triplet as functions of its margin ``z``; larger ``z`` is always better.

``z = S(x, x+) - S(x, x-)`` for similarities (Eq. 6) and ``z = d2(x, x-) - d2(x, x+)`` for distances (Eq. 7).
The hinge ``max(0, 1 - z)`` is zero from ``z = 1`` on; at the kink every function here takes its value there.

A loss is three things: its `value`, the half-quadratic `weight` (minus its slope; what multiplies ``C`` in Eq. 19)
and the scalar function that compiled loops use for that weight, `weight_of_hinge`, with the numbers in `params`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.arrays import SMALLEST
from nearkin.stored import Number, stored

__all__ = ["Hinge", "Loss", "RescaledHinge", "as_loss", "exponential_weight", "hinge"]


def hinge(z: ArrayLike) -> NDArray[np.floating]:
    """Hinge of the margin, Eq. (8): ``max(0, 1 - z)``.

    Parameters
    ----------
    z : array-like
        Margins.

    Examples
    --------
    >>> hinge([-1.0, 0.0, 2.0]).tolist()
    [2.0, 1.0, 0.0]
    """
    return np.maximum(0.0, 1.0 - np.asarray(z))


def exponential_weight(hinge, slope, eta):  # type: ignore[no-untyped-def]
    """Half-quadratic weight ``beta * eta * exp(-eta * hinge)`` of one triplet; ``slope`` is ``beta * eta``.

    With ``slope = 1`` and ``eta = 0`` it is the constant weight of the plain hinge, to the bit.

    Parameters
    ----------
    hinge, slope, eta : float
        Hinge of the triplet, and the two `params` of the loss.

    Examples
    --------
    >>> exponential_weight(3.0, 1.0, 0.0)
    1.0
    """
    return slope * math.exp(-eta * hinge)


@runtime_checkable
class Loss(Protocol):
    """What a learner asks of a loss; write your own by following this shape.

    Examples
    --------
    >>> isinstance(RescaledHinge(2.0), Loss)
    True
    """

    @property
    def params(self) -> tuple[float, float]:
        """Two numbers handed to `weight_of_hinge` by the compiled loops."""

    @property
    def weight_of_hinge(self) -> Callable[[float, float, float], float]:
        """Scalar function ``(hinge, *params) -> weight`` that numba can compile."""

    def value(self, z: ArrayLike) -> NDArray[np.floating]:
        """Loss of the margin ``z``."""

    def weight(self, z: ArrayLike) -> NDArray[np.floating]:
        """Minus the slope of the loss in ``z``, for ``z < 1``."""

    def plausibility(self, z: ArrayLike) -> NDArray[np.floating]:
        """Weight as a share of the largest weight, in (0, 1]."""


@stored(eta=Number(0.0))
@dataclass(frozen=True)
class RescaledHinge:
    """Bounded hinge of Eq. (10): ``beta * (1 - exp(-eta * hinge(z)))``, ``beta = 1 / (1 - exp(-eta))``.

    The loss is 1 at ``z = 0`` and never above ``beta``, so one wrong triplet has a bounded say.

    Parameters
    ----------
    eta : float, default=1.0
        How fast a triplet loses its weight as its hinge grows; 0 is the plain hinge (the limit).

    Examples
    --------
    >>> loss = RescaledHinge(eta=1.0)
    >>> loss.value([0.0, 1.0]).tolist()
    [1.0, 0.0]
    >>> loss.plausibility([1.0, -1.0]).round(3).tolist()
    [1.0, 0.135]
    """

    eta: float = 1.0

    weight_of_hinge = staticmethod(exponential_weight)

    @property
    def slope(self) -> float:
        """``beta * eta``, at least 1; `expm1` keeps small ``eta`` exact."""
        return self.eta / -math.expm1(-self.eta) if self.eta > 0 else 1.0

    @property
    def params(self) -> tuple[float, float]:
        """``(beta * eta, eta)``."""
        return self.slope, self.eta

    def value(self, z: ArrayLike) -> NDArray[np.floating]:
        """Eq. (10)."""
        if self.eta == 0:
            return hinge(z)
        return np.expm1(-self.eta * hinge(z)) / math.expm1(-self.eta)

    def weight(self, z: ArrayLike) -> NDArray[np.floating]:
        """``C_t / C`` of Eq. (19): ``beta * eta * (-v)`` with ``v`` of Eq. (17); may exceed 1."""
        return self.slope * np.exp(-self.eta * hinge(z))

    def plausibility(self, z: ArrayLike) -> NDArray[np.floating]:
        """``-v`` of Eq. (17), kept above zero where the exponential underflows."""
        return np.maximum(np.exp(-self.eta * hinge(z)), SMALLEST)


@stored()
@dataclass(frozen=True)
class Hinge(RescaledHinge):
    """The plain hinge, Eq. (8): the rescaled hinge at ``eta = 0``, where every triplet weighs the same.

    Parameters
    ----------
    eta : float, default=0.0
        Stays 0; for another value use `RescaledHinge`.

    Examples
    --------
    >>> Hinge().value([-3.0, 0.5]).tolist(), Hinge().weight([-3.0, 0.5]).tolist()
    ([4.0, 0.5], [1.0, 1.0])
    """

    eta: float = 0.0


def as_loss(loss: str | Loss, eta: float) -> Loss:
    """Loss by name, or the loss itself.

    Parameters
    ----------
    loss : {"hinge", "rescaled_hinge"} or Loss
        What the learners take as their ``loss`` parameter.
    eta : float
        Used by "rescaled_hinge" only.

    Examples
    --------
    >>> as_loss("rescaled_hinge", 0.5)
    RescaledHinge(eta=0.5)
    """
    if isinstance(loss, str):
        if loss == "hinge":
            return Hinge()
        if loss == "rescaled_hinge":
            return RescaledHinge(float(eta))
        raise ValueError(f"unknown loss {loss!r}: use 'hinge', 'rescaled_hinge' or an object like nearkin.losses.Loss.")
    return loss
