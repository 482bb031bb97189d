"""OASIS and Robust-OASIS: a full bilinear similarity (Algorithm 1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearkin.learners._device import DeviceLearner
from nearkin.learners._docs import documented
from nearkin.learners._preset import with_defaults
from nearkin.losses import Loss
from nearkin.measures import SIMILARITY
from nearkin.parameters import FullMatrix
from nearkin.rows import Rows
from nearkin.triplets import TripletSource

__all__ = ["OASIS", "RobustOASIS"]


@documented
class OASIS(DeviceLearner):
    """Online bilinear similarity ``S(x, y) = x' M y`` by passive-aggressive steps; M is any matrix.

    One update costs O(d^2), memory is one d x d matrix however long the stream. For d in the thousands see `LOSL`.

    Parameters
    ----------
    {steps}
    {stream}
    {device}

    Attributes
    ----------
    {fitted}

    See Also
    --------
    RobustOASIS : The same with the rescaled hinge.
    LOSL : The same with a low-rank matrix.

    Notes
    -----
    Steps of Eq. (22) from the identity; the similarity is the bilinear form itself, not its square. M need not be
    symmetric, so there is no single embedding whose inner product is the score: `query_map_` and `item_map_` give
    its two sides, and `transform` maps by the nearest positive semi-definite matrix.

    References
    ----------
    Chechik, Sharma, Shalit, Bengio: Large scale online learning of image similarity through ranking. JMLR 11, 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = OASIS(random_state=0).fit(X, y)
    >>> bool(model.pair_score(X[:1], X[1:2])[0] > model.pair_score(X[:1], X[100:101])[0])
    True
    """

    _measure = SIMILARITY

    def __init__(
        self,
        C: float = 0.1,
        *,
        loss: str | Loss = "hinge",
        eta: float = 1.0,
        max_hq_iter: int = 3,
        triplets: str | TripletSource = "octg",
        n_epochs: int = 1,
        shuffle: bool = True,
        scale: str | None = "auto",
        rescore: bool = True,
        device: str = "cpu",
        random_state: Any = None,
    ):
        self.C = C
        self.loss = loss
        self.eta = eta
        self.max_hq_iter = max_hq_iter
        self.triplets = triplets
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.scale = scale
        self.rescore = rescore
        self.device = device
        self.random_state = random_state

    def _begin(self, rows: Rows, rng: np.random.Generator) -> FullMatrix:
        return FullMatrix(rows.n_features, rows.dtype, self._measure)


@documented
@with_defaults(loss="rescaled_hinge")
class RobustOASIS(OASIS):
    """`OASIS` with the rescaled hinge (Algorithm 1): implausible triplets move M little or not at all.

    Parameters
    ----------
    {steps}
    {stream}
    {device}

    Attributes
    ----------
    {fitted}

    See Also
    --------
    OASIS : The same with the plain hinge.

    Notes
    -----
    The half-quadratic loop starts from M before the triplet in every iteration (Eq. 19 measures the distance to
    it) and weighs first, then steps.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> wrong = y.copy()
    >>> wrong[0] = 2
    >>> model = RobustOASIS(random_state=0).fit(X, wrong)
    >>> bool(model.plausibility_[0] < 0.5 * model.plausibility_[1])
    True
    """
