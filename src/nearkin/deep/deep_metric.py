"""A distance in the space of a network."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nearkin.checks import Instance, OneOf, Rule
from nearkin.deep.architectures import ConvPlan, MlpPlan
from nearkin.deep.learner import DeepLearner
from nearkin.deep.network import Plan
from nearkin.deep.rescaled_hinge import rescaled, triplet_margins
from nearkin.deep.state import DeepState
from nearkin.losses import RescaledHinge
from nearkin.rows import Scaling
from nearkin.triplets import TripletSource

__all__ = ["DeepMetric"]


class _Callable:
    """A function that makes a module."""

    def allows(self, value: Any) -> bool:
        """Also a class of modules."""
        return callable(value) and not isinstance(value, nn.Module)

    def __str__(self) -> str:
        return "a function of the number of features that makes one"


class _Shape:
    """Height and width of images, with channels before them or without."""

    def allows(self, value: Any) -> bool:
        """Two or three whole numbers."""
        return (
            isinstance(value, (tuple, list))
            and len(value) in (2, 3)
            and all(isinstance(one, (int, np.integer)) and one >= 1 for one in value)
        )

    def __str__(self) -> str:
        return "(height, width) or (channels, height, width)"


class DeepMetric(DeepLearner):
    """Euclidean distance between the embeddings of a network, learned so that wrong labels count little.

    What `RobustLODML` does with a linear map, by batches: rows are anchors, the prototypes of their classes (OCTG in
    the space of the embeddings, moving online) positives and negatives. A triplet weighs the less, the larger its loss;
    and from pass to pass the learner remembers how plausible each label was, which keeps a network from learning wrong
    labels by heart.

    Parameters
    ----------
    module : nn.Module, callable or None, default=None
        Maps rows of shape (n, n_features), or images if `image_shape` is given, to embeddings of shape
        (n, n_components). A module is copied, never trained in place; a callable is given the number of features and
        makes one. None builds two hidden layers of 256, or a small convolutional network for images.
    image_shape : tuple of int or None, default=None
        ``(height, width)`` or ``(channels, height, width)``, if rows are flattened images.
    n_components : int, default=64
        Length of an embedding, where `module` is None.
    normalize : bool, default=True
        Bring embeddings to unit length, on which the margin 1 between squared distances is meant.
    C : float, default=1.0
        Factor of the loss against the proximity term.
    loss : {"hinge", "rescaled_hinge"} or RescaledHinge, default="rescaled_hinge"
        "hinge" trusts every label alike.
    eta : float, default=2.0
        How fast a triplet's weight falls with its hinge, for "rescaled_hinge".
    warm_up : int, default=64
        Batches at the beginning that are learned with the plain hinge, until losses mean something; in `fit` at most a
        quarter of all.
    memory : float in [0, 1), default=0.8
        What a row's plausibility keeps of the passes before, in `fit`; it weighs all triplets of the row.
    triplets : "octg", "one_pass", "batch", "random" or TripletSource, default="octg"
        "octg" is ``OCTG(update_centers=True, forget_after=30)``: prototypes that follow the network.
    n_epochs : int, default=40
        Passes of `fit` over the rows.
    batch_size : int, default=64
        Rows per step.
    shuffle : bool, default=True
        Whether each pass of `fit` takes the rows in a new random order; `partial_fit` keeps the order given.
    scale : {"auto", "pairs", "unit", None}, default="auto"
        As in every learner; "auto" scales images by one number for all pixels.
    rescore : bool, default=False
        Whether `plausibility_` is that of the final network instead of the memory of all passes.
    optimizer : {"adamw", "adam", "sgd"}, default="adamw"
        Of torch, "sgd" without momentum.
    learning_rate, weight_decay : float, default=0.001 and 0.0001
        Of the optimiser.
    n_steps : int, default=1
        Steps per batch, each with weights taken anew.
    proximity : float, default=1.0
        Factor of half the squared distance from the parameters before the batch, the paper's proximity term. It has no
        effect on the first step of a batch, so that it counts from ``n_steps=2`` on.
    device : str, default="cpu"
        "cpu", "cuda" or "cuda:N".
    precision : {"float32", "bfloat16", "float16"}, default="float32"
        Of the network's layers while learning; losses are always taken in float32.
    deterministic : bool, default=False
        Refuse operations that do not give the same bits every time. On the processor all here do.
    distributed : bool, default=False
        Share out every batch among the processes of torchrun; all must be given the same rows. The steps are those of
        one process up to rounding.
    checkpoint : path or None, default=None
        File that `fit` writes after every pass and goes on from if it is there, to the same bits.
    random_state : int, Generator, RandomState or None, default=None
        Seed.

    Attributes
    ----------
    plausibility_ : ndarray of shape (n_samples,)
        How plausible the label of each row of the last `fit` is, in (0, 1].
    triplet_source_ : TripletSource
        With the prototypes, ``centers_``, in the space of the embeddings.
    classes_, scaling_, n_features_in_, n_rows_seen_, n_triplets_seen_, n_updates_
        As in every learner.

    See Also
    --------
    nearkin.RobustLODML : The same with a linear map, exact steps and no torch.
    nearkin.deep.save : Files of networks of your own.

    Notes
    -----
    The loss of a batch is the sum over its triplets divided by its rows. In `partial_fit` nothing is known of a row
    before, so that each triplet has only its own weight. Networks compute in float32; embeddings have the rows' type. A
    network that is built here is small and learns in one thread; a module of yours in as many as torch has.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearkin.noise import flip_labels
    >>> X, y = load_wine(return_X_y=True)
    >>> noisy, is_wrong = flip_labels(y, 0.2, random_state=0)
    >>> model = DeepMetric(n_epochs=20, random_state=0).fit(X, noisy)
    >>> model.transform(X).shape
    (178, 64)
    >>> bool(model.plausibility_[is_wrong].mean() < 0.5 * model.plausibility_[~is_wrong].mean())
    True
    """

    _rules: ClassVar[dict[str, tuple[Rule, ...]]] = {
        **DeepLearner._rules,
        "module": (OneOf((None,)), Instance(nn.Module, "an nn.Module"), _Callable()),
        "image_shape": (OneOf((None,)), _Shape()),
        "normalize": (Instance((bool, np.bool_), "True or False"),),
    }

    def __init__(
        self,
        module: nn.Module | Callable[[int], nn.Module] | None = None,
        *,
        image_shape: tuple[int, ...] | None = None,
        n_components: int = 64,
        normalize: bool = True,
        C: float = 1.0,
        loss: str | RescaledHinge = "rescaled_hinge",
        eta: float = 2.0,
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
        self.module = module
        self.image_shape = image_shape
        self.n_components = n_components
        self.normalize = normalize
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

    def _n_groups(self) -> int:
        return int(self.normalize)

    def _shape(self) -> tuple[int, int, int] | None:
        """Channels, height and width."""
        if self.image_shape is None:
            return None
        *channels, height, width = (int(one) for one in self.image_shape)
        return (*(channels or [1]), height, width)  # type: ignore[return-value]

    def _plan(self, n_features: int) -> Plan | nn.Module:
        shape = self._shape()
        if shape is not None and np.prod(shape) != n_features:
            raise ValueError(
                f"image_shape={self.image_shape!r} has {np.prod(shape)} numbers, rows have {n_features}; it must be "
                "(height, width) or (channels, height, width) of the flattened images."
            )
        if self.module is None:
            if shape is None:
                return MlpPlan(n_features, int(self.n_components))
            return ConvPlan(shape, int(self.n_components))
        module = copy.deepcopy(self.module) if isinstance(self.module, nn.Module) else self.module(n_features)
        if not isinstance(module, nn.Module):
            raise ValueError(f"`module` must make an nn.Module; it made {type(module).__name__}.")
        return module if shape is None else nn.Sequential(nn.Unflatten(1, shape), module)

    def _losses(
        self, state: DeepState, members: tuple[Tensor, Tensor, Tensor], is_robust: bool
    ) -> tuple[Tensor, Tensor]:
        hinge = torch.relu(1.0 - triplet_margins(*members, True))
        losses, plausibility = rescaled(hinge, self._robust_loss())
        return (losses if is_robust else hinge), plausibility

    def _learn_scaling(self, X: NDArray[np.floating]) -> Scaling:
        if self.image_shape is None or self.scale != "auto":
            return super()._learn_scaling(X)
        # One number for all pixels: an edge that never changes must not become noise.
        mean, std = float(X.mean(dtype=np.float64)), float(X.std(dtype=np.float64))
        factor = 0.0 if std == 0.0 else 1.0 / (std * (2.0 * X.shape[1]) ** 0.5)
        return Scaling(np.full(X.shape[1], mean, X.dtype), np.full(X.shape[1], factor, X.dtype))
