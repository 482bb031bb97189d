"""OAHU: one embedding per layer with adaptive bounds, and Hedge to weigh the layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch import Tensor

from nearkin.arrays import Array
from nearkin.deep.learner import DeepLearner, DeepSettings
from nearkin.deep.network import LayeredPlan
from nearkin.deep.rescaled_hinge import rescale
from nearkin.deep.trainer import Losses, Members
from nearkin.losses import Loss, RescaledHinge
from nearkin.settings import Function, Instance, Integer, Numbers, OneOf, Real, check_settings, declare, setting
from nearkin.steps import hedge

__all__ = ["OAHU", "AdaptiveBounds", "RobustOAHU"]

#: Added to squared distances, whose root has no slope at zero.
_TINY = 1e-8

#: Largest distance between two unit vectors.
_FARTHEST = 2.0


def exponential(share: Tensor) -> Tensor:
    """``(exp(2 t) - 1) / (exp(2) - 1)``: ``a exp(D) + b`` with fixed ends."""
    return torch.expm1(_FARTHEST * share) / math.expm1(_FARTHEST)


def linear(share: Tensor) -> Tensor:
    """``t``."""
    return share


CURVES: dict[str, Callable[[Tensor], Tensor]] = {"exponential": exponential, "linear": linear}


@declare
class AdaptiveBounds(BaseEstimator):
    """Targets for the distances of similar and dissimilar pairs, which move with the distances.

    The bound of a similar pair grows from 0 at distance 0 to `margin` at distance 2, that of a dissimilar pair from
    ``2 - margin`` to 2, so every pair has something to learn.

    Parameters
    ----------
    {settings}

    Notes
    -----
    The ends are those of the article; the course of the bounds between them is uncertain here. The exponential curve is
    the article's, as remembered; a public implementation uses a straight line. Bounds are constants for autograd.

    Examples
    --------
    >>> bounds = AdaptiveBounds(0.1, curve="linear")
    >>> [round(one, 3) for one in bounds.similar(torch.tensor([0.0, 1.0, 2.0])).tolist()]
    [0.0, 0.05, 0.1]
    >>> [round(one, 3) for one in bounds.dissimilar(torch.tensor([0.0, 1.0, 2.0])).tolist()]
    [1.9, 1.95, 2.0]
    >>> round(float(bounds.loss(torch.tensor(2.0), torch.tensor(0.0))), 3)  # the worst possible triplet
    0.95
    """

    margin: float = setting(
        0.1, Real(0.0, 2.0 / 3.0, open_low=True, open_high=True), kw_only=False, doc="m, in (0, 2/3).",
    )  # fmt: skip
    curve: str | Callable[[Tensor], Tensor] = setting(
        "exponential", OneOf(tuple(CURVES)), Function("callable"), kind='{"exponential", "linear"} or callable',
        kw_only=False,
        doc="""How bounds grow between their ends: an increasing map of tensors from [0, 1] to itself that keeps both
        ends.""",
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_settings(self)

    def similar(self, distance: Tensor) -> Tensor:
        """Target of a similar pair at this distance."""
        return self._grow(distance / _FARTHEST)

    def dissimilar(self, distance: Tensor) -> Tensor:
        """Target of a dissimilar pair at this distance."""
        return _FARTHEST - self._grow(1.0 - distance / _FARTHEST)

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

    def _grow(self, share: Tensor) -> Tensor:
        curve = CURVES[self.curve] if isinstance(self.curve, str) else self.curve
        return self.margin * curve(share.detach().clamp(0.0, 1.0))


@dataclass(frozen=True)
class LayerObjective:
    """The adaptive-bound loss summed over the layers by their weights, which follow Hedge."""

    loss: RescaledHinge
    bounds: AdaptiveBounds
    beta: float
    floor: float

    def by_layer(self, members: Members, n_layers: int) -> Tensor:
        """Return the adaptive-bound loss of every triplet in every layer, of shape (n_triplets, n_layers)."""
        layers = torch.stack(members).unflatten(2, (n_layers, -1))
        # Means of unit vectors are shorter than 1.
        layers = layers / layers.square().sum(dim=3, keepdim=True).add(_TINY).sqrt()
        near, far = (layers[:1] - layers[1:]).square().sum(dim=3).add(_TINY).sqrt()
        return self.bounds.loss(near, far)

    def losses(self, members: Members, shares: Array | None, is_robust: bool) -> Losses:
        """Return the losses of triplets, their plausibility, and their losses by layer."""
        assert shares is not None
        by_layer = self.by_layer(members, len(shares))
        plain = by_layer @ torch.from_numpy(shares).to(by_layer)
        losses, plausibility = rescale(plain, self.loss)
        return Losses(losses if is_robust else plain, plausibility, by_layer.detach())

    def reweigh(self, losses: Losses, shares: Array | None) -> Array | None:
        """Hedge: the weight of a layer falls with its mean loss, in which implausible triplets count little."""
        assert shares is not None and losses.by_group is not None
        trust = losses.plausibility
        shares = shares.copy()
        hedge(shares, ((trust @ losses.by_group) / trust.sum()).double().cpu().numpy(), self.beta)
        shares = np.maximum(shares, self.floor / len(shares))
        return shares / shares.sum()


@declare
class LayeredNetwork(DeepSettings):
    """What `OAHU` and `RobustOAHU` share: settings, and a network with one embedding per layer."""

    # Every row is compared with the five nearest prototypes of other classes, however far they are.
    _octg: ClassVar[dict[str, Any]] = {"margin": 4.0, "max_impostors": 5}

    loss: str | Loss = "hinge"
    eta: float = 4.0
    hidden: tuple[int, ...] = setting(
        (128, 128, 128), Numbers(range(1, 1000), "one or more whole numbers in [1, 100000]"), kind="tuple of int",
        kw_only=False, doc="Widths of the hidden layers.",
    )  # fmt: skip
    n_components: int = setting(
        32, Integer(1, 100_000),
        doc="Length of the embedding of each layer; `transform` returns all of them side by side.",
    )  # fmt: skip
    bounds: AdaptiveBounds | None = setting(
        None, Instance((AdaptiveBounds, type(None)), "AdaptiveBounds or None"), kind="AdaptiveBounds or None",
        doc="Targets of the distances; None for ``AdaptiveBounds()``.",
    )  # fmt: skip
    beta: float = setting(
        0.99, Real(0.0, 1.0, open_low=True, open_high=True),
        doc="Factor of a layer's weight for a loss of 1, in (0, 1).",
    )  # fmt: skip
    floor: float = setting(0.1, Real(0.0, 1.0), doc="Smallest weight of a layer, times the number of layers.")

    @property
    def layer_weights_(self: Any) -> Array:
        """Weights of the embeddings of the layers."""
        return self._fitted.parameter.shares

    def _objective(self) -> LayerObjective:
        bounds = AdaptiveBounds() if self.bounds is None else self.bounds
        return LayerObjective(self._robust_loss(), bounds, float(self.beta), float(self.floor))

    def _plan(self, n_features: int) -> LayeredPlan:
        return LayeredPlan(n_features, int(self.n_components), tuple(int(one) for one in self.hidden))

    def _groups(self) -> tuple[int, Array | None]:
        n_layers = len(self.hidden) + 1
        return n_layers, np.full(n_layers, 1.0 / n_layers)


@declare
class OAHU(LayeredNetwork, DeepLearner):
    """Online metric learning with adaptive complexity: one embedding per layer, weighed by Hedge.

    A deep network learns slowly from a stream, and a shallow one soon has nothing left to learn. OAHU embeds the input
    and every hidden layer, each with the adaptive-bound triplet loss, and lets the weight of a layer fall with its
    loss. The distance is the weighted sum of the layers' distances.

    Parameters
    ----------
    {settings}

    Attributes
    ----------
    layer_weights_ : ndarray of shape (n_layers,)
        Weights of the embeddings, that of the input first; they sum to 1.
    plausibility_ : ndarray of shape (n_samples,)
        All 1 with ``loss="hinge"``.

    See Also
    --------
    RobustOAHU : The same with the rescaled hinge.
    nearkin.Hedge : The rule for the weights.

    Notes
    -----
    Known of the method at second hand: layers, unit length, the ends of the bounds, beta and the floor. Uncertain: the
    course of the bounds between their ends, which `bounds` lets you choose, and the source of the triplets, which
    `triplets` does. Prototypes in the place of rows, of unit length in every layer, are ours: "octg" here also has
    ``margin=4, max_impostors=5`` and compares every row with the five nearest prototypes of other classes.

    References
    ----------
    Gao, Li, Chandra, Khan, Thuraisingham: Towards self-adaptive metric learning on the fly. WWW 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = OAHU(hidden=(32, 32), n_components=8, n_epochs=10, random_state=0).fit(X, y)
    >>> model.transform(X).shape, len(model.layer_weights_)
    ((150, 24), 3)
    """


@declare
class RobustOAHU(LayeredNetwork, DeepLearner):
    """`OAHU` with the rescaled hinge of the loss summed over layers: implausible triplets count little, for Hedge too.

    Parameters
    ----------
    {settings}

    Attributes
    ----------
    layer_weights_, plausibility_
        As in `OAHU`; the plausibility of a label lies in (0, 1].

    Notes
    -----
    Not in the article: the half-quadratic weight and the memory of `DeepMetric`, applied to the loss of `OAHU`. As this
    loss never exceeds 1, `eta` is larger than there.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> wrong = y.copy()
    >>> wrong[0] = 2
    >>> model = RobustOAHU(hidden=(32, 32), n_epochs=20, random_state=0).fit(X, wrong)
    >>> bool(model.plausibility_[0] < 0.5 * model.plausibility_.mean())
    True
    """

    loss: str | Loss = "rescaled_hinge"
