"""The rescaled hinge of embedded triplets, for autograd."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from nearkin.errors import InputError
from nearkin.losses import RescaledHinge
from nearkin.settings import OneOf, Real, check_argument

__all__ = ["RescaledHingeTripletLoss", "rescale", "triplet_margins"]


def triplet_margins(anchor: Tensor, positive: Tensor, negative: Tensor, is_distance: bool) -> Tensor:
    """Compute the margin ``z`` of every triplet, in single precision or better; larger is better."""
    if anchor.dtype in (torch.float16, torch.bfloat16):
        anchor, positive, negative = anchor.float(), positive.float(), negative.float()
    # z = g'h as in nearkin.measures keeps digits where positive and negative are near each other and far away.
    h = positive - negative
    g = (anchor - positive) + (anchor - negative) if is_distance else anchor
    return (g * h).sum(dim=-1)


def rescale(hinge: Tensor, loss: RescaledHinge) -> tuple[Tensor, Tensor]:
    """Compute loss and plausibility of triplets from their hinges.

    The loss has the value of Eq. (10). Its gradient is that of the hinge times the half-quadratic weight, which is a
    constant for autograd: the first derivative is that of Eq. (10), higher ones do not pass through the weight.
    """
    slope, eta = loss.params
    if eta == 0.0:
        return hinge, torch.ones_like(hinge.detach())
    fixed = hinge.detach()
    plausibility = torch.exp(-eta * fixed).clamp_min(torch.finfo(fixed.dtype).tiny)
    value = torch.expm1(-eta * fixed) / np.expm1(-eta)
    linear = slope * plausibility * hinge
    return value + (linear - linear.detach()), plausibility


class RescaledHingeTripletLoss(nn.Module):
    """Bounded triplet loss: the more a triplet contradicts what was learned, the less it counts.

    Use it like any other loss of torch; ``eta=0`` is the plain hinge. Gradients flow to the embeddings only: the
    half-quadratic weights are constants.

    Parameters
    ----------
    eta : float, default=1.0
        How fast a triplet loses its weight as its hinge grows; 0 is the plain hinge.
    margin : float, default=1.0
        Required gap between the squared distances (or between the similarities).
    measure : {"distance", "similarity"}, default="distance"
        Squared Euclidean distance or inner product of embeddings.
    C : float, default=1.0
        Factor of the loss.

    See Also
    --------
    nearkin.losses.RescaledHinge : The same loss of margins, in NumPy.
    nearkin.deep.metric_learning : The same for miners and reducers of pytorch-metric-learning.

    Notes
    -----
    With ``z = ||a - n||^2 - ||a - p||^2`` (or ``a'p - a'n``) and ``l = max(0, margin - z)`` the loss of a triplet is
    ``C beta (1 - exp(-eta l))``, ``beta = 1 / (1 - exp(-eta))``, its plausibility ``exp(-eta l)``. Half precision
    becomes float32 before distances are computed.

    Examples
    --------
    >>> loss = RescaledHingeTripletLoss(eta=1.0)
    >>> anchor = torch.tensor([[0.0], [0.0]], requires_grad=True)
    >>> value, plausibility = loss(anchor, torch.tensor([[0.1], [2.0]]), torch.tensor([[2.0], [0.1]]))
    >>> value.backward()
    >>> [round(one, 3) for one in plausibility.tolist()]  # the second triplet contradicts the distances
    [1.0, 0.007]
    """

    def __init__(self, eta: float = 1.0, margin: float = 1.0, measure: str = "distance", C: float = 1.0):
        super().__init__()
        for name, value in (("eta", eta), ("margin", margin), ("C", C)):
            check_argument(self, name, value, Real(0.0, np.inf, open_high=True))
        check_argument(self, "measure", measure, OneOf(("distance", "similarity")))
        self.eta, self.margin, self.measure, self.C = eta, margin, measure, C

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean loss, and the plausibility of every triplet.

        Parameters
        ----------
        anchor, positive, negative : Tensor of shape (n_triplets, n_components)
            Embeddings; row t says that ``anchor[t]`` should be closer to ``positive[t]`` than to ``negative[t]``.

        Returns
        -------
        loss : Tensor
            Scalar; 0 without triplets.
        plausibility : Tensor of shape (n_triplets,)
            In (0, 1], without gradient.
        """
        losses, plausibility = self.per_triplet(anchor, positive, negative)
        return losses.sum() / max(1, len(losses)), plausibility

    def per_triplet(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> tuple[Tensor, Tensor]:
        """Return loss and plausibility of every triplet."""
        if anchor.ndim != 2 or not anchor.shape == positive.shape == negative.shape:
            shapes = [tuple(one.shape) for one in (anchor, positive, negative)]
            raise InputError(
                f"anchor, positive and negative must have one shape (n_triplets, n_components); got {shapes}.",
                owner=self,
            )
        z = triplet_margins(anchor, positive, negative, self.measure == "distance")
        losses, plausibility = rescale(torch.relu(self.margin - z), RescaledHinge(float(self.eta)))
        return self.C * losses, plausibility

    def extra_repr(self) -> str:
        """Parameters, for the printed module."""
        return f"eta={self.eta}, margin={self.margin}, measure={self.measure!r}, C={self.C}"
