"""The learner that does not learn: the baseline of every comparison."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearkin.learners.base import OnlineLearner
from nearkin.losses import Loss
from nearkin.measures import DISTANCE
from nearkin.parameters import Identity
from nearkin.rows import Rows
from nearkin.triplets import TripletSource

__all__ = ["Euclidean"]


class Euclidean(OnlineLearner):
    """Euclidean distance on scaled features, with plausibilities from the same triplets as the learners.

    Shows what the triplets and the kNN rule give without any metric learning.

    Parameters
    ----------
    loss : {"hinge", "rescaled_hinge"} or Loss, default="rescaled_hinge"
        Turns a triplet's margin into its plausibility.
    eta : float, default=1.0
        How fast plausibility falls with the hinge.
    triplets, scale, random_state
        As in every learner; see `RobustLODML`.

    Attributes
    ----------
    plausibility_ : ndarray of shape (n_samples,)
        How plausible the label of each row of the last `fit` is, in (0, 1].

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> Euclidean().fit(X, y).n_updates_
    0
    """

    _measure = DISTANCE

    def __init__(
        self,
        *,
        loss: str | Loss = "rescaled_hinge",
        eta: float = 1.0,
        triplets: str | TripletSource = "octg",
        scale: str | None = "auto",
        random_state: Any = None,
    ):
        self.loss = loss
        self.eta = eta
        self.triplets = triplets
        self.scale = scale
        self.random_state = random_state

    # One unshuffled pass is enough where nothing moves.
    C = 0.0
    max_hq_iter = 1
    n_epochs = 1
    shuffle = False
    rescore = True

    def _begin(self, rows: Rows, rng: np.random.Generator) -> Identity:
        return Identity(rows.n_features, rows.dtype, self._measure)
