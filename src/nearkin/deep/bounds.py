"""The adaptive bounds of OAHU: targets for distances that move with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from nearkin.checks import Real, Rule, check_parameters

__all__ = ["CURVES", "AdaptiveBounds"]

#: Largest distance between two unit vectors.
_FARTHEST = 2.0


def exponential(share: Tensor) -> Tensor:
    """``(exp(2 t) - 1) / (exp(2) - 1)``: ``a exp(D) + b`` with its ends fixed.

    Examples
    --------
    >>> exponential(torch.tensor([0.0, 1.0])).tolist()
    [0.0, 1.0]
    """
    return torch.expm1(_FARTHEST * share) / torch.expm1(torch.tensor(_FARTHEST))


def linear(share: Tensor) -> Tensor:
    """``t``."""
    return share


CURVES: dict[str, Callable[[Tensor], Tensor]] = {"exponential": exponential, "linear": linear}


class AdaptiveBounds:
    """Where a similar pair is pulled to and a dissimilar one pushed to, given how far apart they are.

    The bound of a similar pair grows from 0 at distance 0 to `margin` at distance 2, that of a dissimilar one from
    ``2 - margin`` to 2, so that every pair has something to learn.

    Parameters
    ----------
    margin : float, default=0.1
        m, in (0, 2/3).
    curve : {"exponential", "linear"} or callable, default="exponential"
        How bounds grow between their ends: an increasing map of tensors from [0, 1] to itself that keeps both ends.

    Notes
    -----
    The ends are those of the article; how bounds run between them is not certain here. The exponential curve is the
    article's, as remembered; a public implementation takes a straight line. Bounds are constants for autograd.

    Examples
    --------
    >>> bounds = AdaptiveBounds(0.1, curve="linear")
    >>> [round(one, 3) for one in bounds.similar(torch.tensor([0.0, 1.0, 2.0])).tolist()]
    [0.0, 0.05, 0.1]
    >>> [round(one, 3) for one in bounds.dissimilar(torch.tensor([0.0, 1.0, 2.0])).tolist()]
    [1.9, 1.95, 2.0]
    >>> round(float(bounds.loss(torch.tensor(2.0), torch.tensor(0.0))), 3)  # the worst triplet there is
    0.95
    """

    _rules: ClassVar[dict[str, tuple[Rule, ...]]] = {"margin": (Real(0.0, 2.0 / 3.0, open_low=True, open_high=True),)}

    def __init__(self, margin: float = 0.1, curve: str | Callable[[Tensor], Tensor] = "exponential"):
        self.margin = margin
        self.curve = curve
        check_parameters(self, self._rules)
        if not callable(curve) and curve not in CURVES:
            raise ValueError(
                f"AdaptiveBounds: parameter `curve` must be one of {list(CURVES)} or callable; got {curve!r}."
            )

    def __repr__(self) -> str:
        return f"AdaptiveBounds(margin={self.margin!r}, curve={self.curve!r})"

    def _grown(self, share: Tensor) -> Tensor:
        curve = self.curve if callable(self.curve) else CURVES[self.curve]
        return self.margin * curve(share.detach().clamp(0.0, 1.0))

    def similar(self, distance: Tensor) -> Tensor:
        """Distance at which a similar pair is left alone."""
        return self._grown(distance / _FARTHEST)

    def dissimilar(self, distance: Tensor) -> Tensor:
        """Distance at which a dissimilar pair is left alone."""
        return _FARTHEST - self._grown(1.0 - distance / _FARTHEST)

    def loss(self, similar: Tensor, dissimilar: Tensor) -> Tensor:
        """Adaptive-bound triplet loss: the mean of both parts, in [0, 1].

        Parameters
        ----------
        similar, dissimilar : Tensor
            Distances in [0, 2] of the anchor to its positive and to its negative.
        """
        near = torch.relu(similar - self.similar(similar)) / _FARTHEST
        far = torch.relu(self.dissimilar(dissimilar) - dissimilar) / _FARTHEST
        return 0.5 * (near + far)
