"""OMDML and its robust form: one full matrix per modality, weighted by Hedge."""

from __future__ import annotations

import numpy as np

from nearkin.learners.base import OnlineLearner
from nearkin.learners.groups import HedgeSettings, StepSettings, StreamSettings
from nearkin.learners.maps import MapMixin
from nearkin.learners.modal import ModalMixin
from nearkin.losses import Loss
from nearkin.measures import DISTANCE
from nearkin.parameters import ModalFull
from nearkin.rows import Rows
from nearkin.settings import declare

__all__ = ["OMDML", "RobustOMDML"]


@declare
class OMDML(HedgeSettings, ModalMixin, StreamSettings, StepSettings, MapMixin, OnlineLearner):
    """Online multi-modal distance ``d2 = sum_k theta_k (x_k - y_k)' M_k (x_k - y_k)``, every ``M_k >= 0``.

    Each modality learns its own matrix by passive-aggressive steps and loses weight when it orders a triplet wrongly.
    One update costs O(sum of d_k^2); memory is two matrices per modality however long the stream.

    Parameters
    ----------
    {settings}

    Attributes
    ----------
    {fitted}

    See Also
    --------
    RobustOMDML : The same with the rescaled hinge.
    LOMDML : The same with low-rank matrices.
    ODML : One modality; with ``margin=1`` the same learner.

    Notes
    -----
    With ``f_k = d2_k(x, x+) - d2_k(x, x-)``: nothing happens unless ``sum_k theta_k f_k + margin > 0``; then
    ``theta_k <- theta_k beta`` where ``f_k > 0``, every modality takes the step of `ODML` with its own hinge, and the
    weights are normalised. This is the rule of a public re-implementation; the article itself was not at hand, so
    ``beta``, ``margin`` and ``C`` are our defaults, the margin such that one modality is `ODML`.

    Our own choices: the plausibility of a triplet is the mean over its modalities with the weights before it; Hedge
    counts wrong orders as they are, not by plausibility; ``scale="auto"`` brings every modality to mean squared
    distance 1, so that none rules by the number of its columns. A modality that never orders a triplet wrongly keeps
    its weight, and one that is constant is such a modality: weights say who errs, not who helps.

    References
    ----------
    Wu, Hoi, Zhao, Miao, Liu: Online multi-modal distance metric learning with application to image retrieval. TKDE
    28(2), 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> noise = np.random.default_rng(0).normal(size=(len(X), 5))
    >>> model = OMDML(random_state=0).fit({"wine": X, "noise": noise}, y)
    >>> bool(model.weights_[0] > model.weights_[1])
    True
    >>> model.transform({"wine": X, "noise": noise}).shape
    (178, 18)
    """

    measure = DISTANCE

    def _begin(self, rows: Rows, rng: np.random.Generator) -> ModalFull:
        return ModalFull(self._group(rows.n_features), rows.dtype, self.beta, self.margin)


@declare
class RobustOMDML(OMDML):
    """`OMDML` with the rescaled hinge: implausible triplets move the metrics little or not at all.

    Parameters
    ----------
    {settings}

    Attributes
    ----------
    {fitted}

    See Also
    --------
    OMDML : The same with the plain hinge.

    Notes
    -----
    Our own combination of `OMDML` with the loss of Eq. (10): each modality weighs a triplet by its own hinge.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> wrong = y.copy()
    >>> wrong[0] = 2
    >>> model = RobustOMDML(modalities={"sepal": [0, 1], "petal": [2, 3]}, random_state=0).fit(X, wrong)
    >>> bool(model.plausibility_[0] < 0.5 * model.plausibility_[1])
    True
    """

    loss: str | Loss = "rescaled_hinge"
