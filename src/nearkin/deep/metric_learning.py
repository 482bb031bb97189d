"""The rescaled hinge for pytorch-metric-learning, with its miners, distances and reducers.

Needs the package pytorch-metric-learning besides torch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nearkin.deep.rescaled_hinge import RescaledHingeTripletLoss, rescale
from nearkin.losses import RescaledHinge

try:
    from pytorch_metric_learning.distances import LpDistance
    from pytorch_metric_learning.losses import BaseMetricLossFunction
    from pytorch_metric_learning.reducers import MeanReducer
    from pytorch_metric_learning.utils import loss_and_miner_utils
except ImportError:
    raise ImportError(
        "nearkin.deep.metric_learning needs pytorch-metric-learning, which is not installed: pip install 'nearkin[pml]'"
    ) from None

__all__ = ["RescaledHingeMetricLoss"]


class RescaledHingeMetricLoss(BaseMetricLossFunction):
    """Rescaled hinge over the triplets of a batch, as a loss of pytorch-metric-learning.

    Call it as ``loss(embeddings, labels)``, or with a miner: ``loss(embeddings, labels, miner(embeddings, labels))``.

    Parameters
    ----------
    eta : float, default=1.0
        How fast a triplet loses its weight as its hinge grows; 0 is the plain hinge.
    margin : float, default=1.0
        Required gap between the distances (or the similarities).
    C : float, default=1.0
        Factor of the loss.
    **kwargs
        For the base class: `distance` (default: squared Euclidean distance of the unchanged embeddings), `reducer`
        (default: the mean over all triplets), `embedding_regularizer`.

    Attributes
    ----------
    plausibility : Tensor of shape (n_triplets,)
        Plausibilities of the triplets of the last call, in the order of `triplets`.
    triplets : tuple of Tensor
        Rows of anchors, positives and negatives of the last call.

    Examples
    --------
    >>> loss = RescaledHingeMetricLoss(eta=1.0)
    >>> embeddings, labels = torch.tensor([[0.0], [0.2], [1.0], [0.1]]), torch.tensor([0, 0, 1, 1])
    >>> float(loss(embeddings, labels)) > 0, len(loss.plausibility)
    (True, 8)
    """

    def __init__(self, eta: float = 1.0, margin: float = 1.0, C: float = 1.0, **kwargs: Any):
        super().__init__(**kwargs)
        checked = RescaledHingeTripletLoss(eta, margin, C=C)
        self.eta, self.margin, self.C = checked.eta, checked.margin, checked.C
        self.plausibility = torch.empty(0)
        self.triplets: tuple[Tensor, ...] = ()

    def compute_loss(
        self, embeddings: Any, labels: Any, indices_tuple: Any, ref_emb: Any, ref_labels: Any
    ) -> dict[str, Any]:
        """Return the losses of all triplets, for the reducer."""
        triplets = loss_and_miner_utils.convert_to_triplets(indices_tuple, labels, ref_labels, t_per_anchor="all")
        self.triplets, self.plausibility = triplets, torch.empty(0)
        anchor, positive, negative = triplets
        if len(anchor) == 0:
            return self.zero_losses()
        table = self.distance(embeddings, ref_emb)
        violation = self.distance.margin(table[anchor, positive], table[anchor, negative])
        losses, self.plausibility = rescale(torch.relu(self.margin + violation), RescaledHinge(float(self.eta)))
        return {"loss": {"losses": self.C * losses, "indices": triplets, "reduction_type": "triplet"}}

    def get_default_distance(self) -> Any:
        """Return the squared Euclidean distance."""
        return LpDistance(normalize_embeddings=False, p=2, power=2)

    def get_default_reducer(self) -> Any:
        """Return the mean over all triplets."""
        return MeanReducer()
