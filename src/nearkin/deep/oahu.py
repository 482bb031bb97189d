"""OAHU: a network of which every layer is asked, and Hedge to say how far to trust each."""

from __future__ import annotations

import os
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearkin.checks import Instance, Real, Rule
from nearkin.deep.architectures import LayeredPlan
from nearkin.deep.bounds import AdaptiveBounds
from nearkin.deep.learner import DeepLearner
from nearkin.deep.network import Plan, unit
from nearkin.deep.rescaled_hinge import rescaled
from nearkin.deep.state import DeepState
from nearkin.learners._preset import with_defaults
from nearkin.losses import RescaledHinge
from nearkin.steps import hedge
from nearkin.triplets import OCTG, TripletSource

__all__ = ["OAHU", "RobustOAHU"]

#: Added to squared distances, whose root has no slope at zero.
_TINY = 1e-8


class _Widths:
    """Widths of hidden layers."""

    def allows(self, value: Any) -> bool:
        """At least one."""
        return (
            isinstance(value, (tuple, list))
            and len(value) > 0
            and all(isinstance(one, (int, np.integer)) and one >= 1 for one in value)
        )

    def __str__(self) -> str:
        return "one or more whole numbers >= 1"


class OAHU(DeepLearner):
    """Online metric learning with adaptive complexity: one embedding per layer, weighed by Hedge.

    A deep network learns slowly from a stream and a shallow one soon has nothing to learn. OAHU embeds the input and
    every hidden layer, each with the adaptive-bound triplet loss, and lets the weight of a layer fall with its loss.
    The distance is the weighted sum of those of the layers.

    Parameters
    ----------
    hidden : tuple of int, default=(128, 128, 128)
        Widths of the hidden layers.
    n_components : int, default=32
        Length of the embedding of each layer; `transform` puts all of them side by side.
    bounds : AdaptiveBounds or None, default=None
        Targets of the distances; None for ``AdaptiveBounds()``.
    beta : float, default=0.99
        What a loss of 1 leaves of a layer's weight, in (0, 1).
    floor : float, default=0.1
        No layer's weight falls below this over the number of layers.
    C, loss, eta, warm_up, memory, n_epochs, batch_size, shuffle, scale, rescore
        See `DeepMetric`; "hinge" is the article's loss here, "rescaled_hinge" its robust form.
    triplets : "octg", "one_pass", "batch", "random" or TripletSource, default="octg"
        "octg" is ``OCTG(margin=4, max_impostors=5, update_centers=True, forget_after=30)``: every row is compared with
        the five nearest prototypes of other classes, however near they are.
    optimizer, learning_rate, weight_decay, n_steps, proximity
        See `DeepMetric`.
    device, precision, deterministic, distributed, checkpoint, random_state
        See `DeepMetric`.

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
    Known of the method at second hand: layers, unit length, the ends of the bounds, beta and the floor. Not certain:
    how bounds run between their ends, which is what `bounds` lets you choose, and where triplets come from, which is
    what `triplets` does. Prototypes in the place of rows, of unit length in every layer, are ours.

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

    _rules: ClassVar[dict[str, tuple[Rule, ...]]] = {
        **DeepLearner._rules,
        "hidden": (_Widths(),),
        "bounds": (Instance((AdaptiveBounds, type(None)), "AdaptiveBounds or None"),),
        "beta": (Real(0.0, 1.0, open_low=True, open_high=True),),
        "floor": (Real(0.0, 1.0),),
    }

    def __init__(
        self,
        hidden: tuple[int, ...] = (128, 128, 128),
        *,
        n_components: int = 32,
        bounds: AdaptiveBounds | None = None,
        beta: float = 0.99,
        floor: float = 0.1,
        C: float = 1.0,
        loss: str | RescaledHinge = "hinge",
        eta: float = 4.0,
        warm_up: int = 64,
        memory: float = 0.8,
        triplets: str | TripletSource = "octg",
        n_epochs: int = 40,
        batch_size: int = 64,
        shuffle: bool = True,
        scale: str | None = "auto",
        rescore: bool = False,
        optimizer: str = "adamw",
        learning_rate: float = 0.001,
        weight_decay: float = 0.0001,
        n_steps: int = 1,
        proximity: float = 1.0,
        device: str = "cpu",
        precision: str = "float32",
        deterministic: bool = False,
        distributed: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: Any = None,
    ):
        self.hidden = hidden
        self.n_components = n_components
        self.bounds = bounds
        self.beta = beta
        self.floor = floor
        self.C = C
        self.loss = loss
        self.eta = eta
        self.warm_up = warm_up
        self.memory = memory
        self.triplets = triplets
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.scale = scale
        self.rescore = rescore
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.n_steps = n_steps
        self.proximity = proximity
        self.device = device
        self.precision = precision
        self.deterministic = deterministic
        self.distributed = distributed
        self.checkpoint = checkpoint
        self.random_state = random_state

    @property
    def layer_weights_(self) -> NDArray[np.floating]:
        """Weights of the embeddings of the layers."""
        return self._shares(self._fitted)

    def _plan(self, n_features: int) -> Plan:
        return LayeredPlan(n_features, int(self.n_components), tuple(int(one) for one in self.hidden))

    def _n_groups(self) -> int:
        return len(self.hidden) + 1

    def _make_source(self) -> TripletSource:
        source = super()._make_source()
        if isinstance(self.triplets, str) and isinstance(source, OCTG):
            source.set_params(margin=4.0, max_impostors=5)
        return source

    def _shares(self, state: DeepState) -> NDArray[np.floating]:
        n = state.parameter.n_groups
        return np.full(n, 1.0 / n) if state.parameter.shares is None else state.parameter.shares

    def _by_layer(self, members: tuple[Tensor, Tensor, Tensor], n_layers: int) -> Tensor:
        """Adaptive-bound loss of every triplet in every layer, of shape (n_triplets, n_layers)."""
        # Means of unit vectors are shorter than 1.
        a, p, n = (unit(one, n_layers).unflatten(1, (n_layers, -1)) * n_layers**0.5 for one in members)
        bounds = AdaptiveBounds() if self.bounds is None else self.bounds
        near, far = ((a - one).square().sum(dim=2).add(_TINY).sqrt() for one in (p, n))
        return bounds.loss(near, far)

    def _losses(
        self, state: DeepState, members: tuple[Tensor, Tensor, Tensor], is_robust: bool
    ) -> tuple[Tensor, Tensor]:
        by_layer = self._by_layer(members, state.parameter.n_groups)
        plain = by_layer @ torch.from_numpy(self._shares(state)).to(by_layer)
        losses, plausibility = rescaled(plain, self._robust_loss())
        return (losses if is_robust else plain), plausibility

    def _after_batch(self, state: DeepState, members: tuple[Tensor, Tensor, Tensor]) -> None:
        """Hedge: the weight of a layer falls with its mean loss, in which wrong labels count as little as elsewhere."""
        if len(members[0]) == 0:
            return
        with torch.no_grad():
            by_layer = self._by_layer(members, state.parameter.n_groups)
            _, trust = self._losses(state, members, True)
            losses = (trust[:, None] * by_layer).sum(dim=0) / trust.sum()
        shares = self._shares(state).copy()
        hedge(shares, losses.double().cpu().numpy(), float(self.beta))
        shares = np.maximum(shares, self.floor / len(shares))
        state.parameter.shares = shares / shares.sum()


@with_defaults(loss="rescaled_hinge")
class RobustOAHU(OAHU):
    """`OAHU` with the rescaled hinge of the loss summed over layers: implausible triplets count little, for Hedge too.

    Parameters
    ----------
    hidden, n_components, bounds, beta, floor
        See `OAHU`.
    C, loss, eta, warm_up, memory, n_epochs, batch_size, shuffle, scale, rescore
        See `DeepMetric`. `eta` is larger here, since this loss never exceeds 1.
    triplets, optimizer, learning_rate, weight_decay, n_steps, proximity
        See `OAHU` and `DeepMetric`.
    device, precision, deterministic, distributed, checkpoint, random_state
        See `DeepMetric`.

    Attributes
    ----------
    layer_weights_ : ndarray of shape (n_layers,)
        Weights of the embeddings, that of the input first; they sum to 1.
    plausibility_ : ndarray of shape (n_samples,)
        How plausible the label of each row of the last `fit` is, in (0, 1].

    See Also
    --------
    OAHU : The same with the plain loss.

    Notes
    -----
    Not in the article: the half-quadratic weight and the memory of `DeepMetric`, applied to its loss.

    References
    ----------
    Gao, Li, Chandra, Khan, Thuraisingham: Towards self-adaptive metric learning on the fly. WWW 2019.

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
