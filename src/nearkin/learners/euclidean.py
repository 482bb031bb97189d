"""The learner that does not learn: the baseline of every comparison."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearkin.learners.base import OnlineLearner
from nearkin.learners.groups import StepSettings, StreamSettings
from nearkin.learners.maps import MapMixin
from nearkin.losses import Loss
from nearkin.measures import DISTANCE
from nearkin.parameters import Identity
from nearkin.rows import MovingScale, Rows
from nearkin.settings import again, declare
from nearkin.triplets import TripletSource

__all__ = ["Euclidean"]


@declare
class Euclidean(MapMixin, OnlineLearner):
    """Euclidean distance on scaled features, with plausibilities from the same triplets as the learners.

    Shows what the triplets and the kNN rule give without any metric learning.

    {sections}

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> Euclidean().fit(X, y).n_updates_
    0
    """

    loss: str | Loss = again(StepSettings, "loss", "rescaled_hinge")
    eta: float = again(StepSettings, "eta", 1.0)
    triplets: str | TripletSource = again(StreamSettings, "triplets", "octg")
    scale: str | MovingScale | None = again(StreamSettings, "scale", "auto")
    random_state: Any = again(StreamSettings, "random_state", None)

    measure = DISTANCE

    # One unshuffled pass is enough where nothing moves.
    C = 0.0
    max_hq_iter = 1
    n_epochs = 1
    shuffle = False
    rescore = True

    def _begin(self, rows: Rows, rng: np.random.Generator) -> Identity:
        return Identity(rows.n_features, rows.dtype, self.measure)
