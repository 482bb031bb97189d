"""A distance in the space of a network."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from nearkin.arrays import Array
from nearkin.deep.learner import DeepLearner
from nearkin.deep.network import ConvPlan, MlpPlan, Plan
from nearkin.deep.rescaled_hinge import rescale, triplet_margins
from nearkin.deep.trainer import Losses, Members
from nearkin.errors import InputError
from nearkin.losses import RescaledHinge
from nearkin.rows import Scaling
from nearkin.settings import BOOLEAN, Function, Instance, Integer, Numbers, OneOf, declare, setting

__all__ = ["DeepMetric"]


_SHAPE = Numbers(range(2, 4), "(height, width) or (channels, height, width)")


@dataclass(frozen=True)
class HingeObjective:
    """The hinge of the margin between squared distances, rescaled where it is robust."""

    loss: RescaledHinge

    def losses(self, members: Members, shares: Array | None, is_robust: bool) -> Losses:
        """Return the losses of triplets and their plausibility."""
        hinge = torch.relu(1.0 - triplet_margins(*members, True))
        losses, plausibility = rescale(hinge, self.loss)
        return Losses(losses if is_robust else hinge, plausibility)

    def reweigh(self, losses: Losses, shares: Array | None) -> Array | None:
        """There is a single group of columns."""
        return shares


@declare
class DeepMetric(DeepLearner):
    """Euclidean distance between the embeddings of a network, learned so that wrong labels count little.

    What `RobustLODML` does with a linear map, by batches: rows are anchors, and the prototypes of the classes (OCTG in
    the space of the embeddings, moving online) are positives and negatives. The larger the loss of a triplet, the less
    it weighs. From pass to pass the learner remembers how plausible each label was, which keeps a network from learning
    wrong labels by heart.

    Parameters
    ----------
    {settings}

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
    "octg" is ``OCTG(update_centers=True, forget_after=30)`` here: prototypes that follow the network. The loss of a
    batch is the sum over its triplets divided by its rows. `partial_fit` has no earlier plausibility of a row, so each
    triplet has only its own weight. Networks compute in float32; embeddings have the type of the rows. A network built
    here is small and learns in one thread; a module of yours uses as many threads as torch has.

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

    module: nn.Module | Callable[[int], nn.Module] | None = setting(
        None, OneOf((None,)), Instance(nn.Module, "an nn.Module"),
        Function("a function of the number of features that makes one"),
        kind="nn.Module, callable or None", kw_only=False,
        doc="""Maps rows of shape (n, n_features), or images with `image_shape`, to embeddings of shape
        (n, n_components). A module is copied and never trained in place; a callable takes the number of features and
        returns a module. None builds two hidden layers of 256, or a small convolutional network for images.""",
    )  # fmt: skip
    image_shape: tuple[int, ...] | None = setting(
        None, OneOf((None,)), _SHAPE, kind="tuple of int or None",
        doc="""``(height, width)`` or ``(channels, height, width)``, if rows are flattened images. ``scale="auto"`` then
        scales all pixels by one number.""",
    )  # fmt: skip
    n_components: int = setting(64, Integer(1, 100_000), doc="Length of an embedding, if `module` is None.")
    normalize: bool = setting(
        True, BOOLEAN,
        doc="Bring embeddings to unit length, for which the margin 1 between squared distances is meant.",
    )  # fmt: skip

    def _objective(self) -> HingeObjective:
        return HingeObjective(self._robust_loss())

    def _groups(self) -> tuple[int, Array | None]:
        return int(self.normalize), None

    def _plan(self, n_features: int) -> Plan | nn.Module:
        shape = self._shape()
        if shape is not None and np.prod(shape) != n_features:
            raise InputError(
                f"image_shape={self.image_shape!r} has {np.prod(shape)} numbers, rows have {n_features}; it must be "
                "(height, width) or (channels, height, width) of the flattened images.",
                owner=self,
            )
        if self.module is None:
            n = int(self.n_components)
            return MlpPlan(n_features, n) if shape is None else ConvPlan(shape, n)
        module = copy.deepcopy(self.module) if isinstance(self.module, nn.Module) else self.module(n_features)
        if not isinstance(module, nn.Module):
            raise InputError(f"`module` must make an nn.Module; it made {type(module).__name__}.", owner=self)
        return module if shape is None else nn.Sequential(nn.Unflatten(1, shape), module)

    def _shape(self) -> tuple[int, int, int] | None:
        """Channels, height and width."""
        if self.image_shape is None:
            return None
        *channels, height, width = (int(one) for one in self.image_shape)
        return (channels[0] if channels else 1, height, width)

    def _learn_scaling(self, X: Array) -> Scaling:
        if self.image_shape is None or self.scale != "auto":
            return super()._learn_scaling(X)
        # One number for all pixels: an edge that never changes must not become noise.
        mean, std = float(X.mean(dtype=np.float64)), float(X.std(dtype=np.float64))
        factor = 0.0 if std == 0.0 else 1.0 / (std * (2.0 * X.shape[1]) ** 0.5)
        return Scaling(np.full(X.shape[1], mean, X.dtype), np.full(X.shape[1], factor, X.dtype))
