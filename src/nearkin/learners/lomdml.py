"""LOMDML and its robust form: one low-rank map per modality, weighted by Hedge."""

from __future__ import annotations

import numpy as np

from nearkin.arrays import Array, Index
from nearkin.errors import InputError
from nearkin.learners.base import OnlineLearner
from nearkin.learners.groups import HedgeSettings, StepSettings, StreamSettings, aggressiveness
from nearkin.learners.lowrank import principal_directions
from nearkin.learners.maps import MapMixin
from nearkin.learners.modal import ModalMixin
from nearkin.losses import Loss
from nearkin.measures import DISTANCE
from nearkin.parameters import ModalLowRank
from nearkin.rows import Rows
from nearkin.settings import Integer, OneOf, declare, setting

__all__ = ["LOMDML", "RobustLOMDML"]


@declare
class LOMDML(HedgeSettings, ModalMixin, StreamSettings, StepSettings, MapMixin, OnlineLearner):
    """Online low-rank multi-modal distance ``d2 = sum_k theta_k ||L_k'x_k - L_k'y_k||^2``, L_k of shape d_k x r.

    Positive semi-definite by construction. One update costs O(dr), memory is the maps however long the stream.

    Parameters
    ----------
    {settings}

    Attributes
    ----------
    {fitted}

    See Also
    --------
    RobustLOMDML : The same with the rescaled hinge.
    OMDML : The same with full matrices.
    LODML : One modality; with ``solver="subgradient"`` and ``margin=1`` the same learner.

    Notes
    -----
    Gate and weights are those of `OMDML`. Every modality with a hinge above 0 takes the gradient step
    ``L_k + 2 C A_k L_k`` (C is the article's learning rate); nothing bounds it but C, so that
    a large C makes the maps grow without end instead of removing the loss. The step is that of a public
    re-implementation; the article itself was not at hand. That a modality without a loss of its own stays where it is,
    the start at principal directions and the default C are our own choices.

    References
    ----------
    Wu, Hoi, Zhao, Miao, Liu: Online multi-modal distance metric learning with application to image retrieval. TKDE
    28(2), 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> model = LOMDML(2, modalities=[6, 7], random_state=0).fit(X, y)
    >>> model.transform(X).shape, model.weights_.shape
    ((178, 4), (2,))
    """

    n_components: int | None = setting(
        None,
        Integer(1),
        OneOf((None,)),
        kind="int or None",
        doc="Most components of each map; None for all features of a modality up to 128, else 64.",
        kw_only=False,
    )
    C: float = aggressiveness(kw_only=True)
    init: str = setting(
        "auto",
        OneOf(("auto", "pca", "identity")),
        kind='{"auto", "pca", "identity"}',
        doc="""Start of each map: "auto" is the identity when r equals the number of features, else the leading
        principal directions of the first batch; "identity" keeps the first r features, as in the re-implementation.""",
    )

    measure = DISTANCE

    def _begin(self, rows: Rows, rng: np.random.Generator) -> ModalLowRank:
        known = self._group(rows.n_features)
        largest = max(known.sizes)
        if self.n_components is not None and self.n_components > largest:
            raise InputError(
                f"n_components={self.n_components} exceeds the {largest} features of every modality; use at most "
                f"{largest}.",
                owner=self,
            )
        starts = [self._start(rows, columns, rng) for columns in known.columns]
        return ModalLowRank(known, starts, rows.dtype, self.beta, self.margin)

    def _start(self, rows: Rows, columns: Index, rng: np.random.Generator) -> Array:
        d = len(columns)
        r = min(d, self.n_components or (d if d <= 128 else 64))
        if self.init == "pca" or (self.init == "auto" and r < d):
            return principal_directions(rows, r, rng, columns)
        return np.eye(r, d)


@declare
class RobustLOMDML(LOMDML):
    """`LOMDML` with the rescaled hinge: implausible triplets move the maps little or not at all.

    Parameters
    ----------
    {settings}

    Attributes
    ----------
    {fitted}

    See Also
    --------
    LOMDML : The same with the plain hinge.

    Notes
    -----
    Our own combination of `LOMDML` with the loss of Eq. (10): each modality weighs a triplet by its own hinge.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> wrong = y.copy()
    >>> wrong[0] = 2
    >>> model = RobustLOMDML(modalities=[2, 2], random_state=0).fit(X, wrong)
    >>> bool(model.plausibility_[0] < 0.5 * model.plausibility_[1])
    True
    """

    loss: str | Loss = "rescaled_hinge"
