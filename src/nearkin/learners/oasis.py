"""OASIS and Robust-OASIS: a full bilinear similarity (Algorithm 1)."""

from __future__ import annotations

import numpy as np

from nearkin.learners.base import OnlineLearner
from nearkin.learners.groups import DeviceSettings, StepSettings, StreamSettings
from nearkin.learners.maps import MapMixin
from nearkin.losses import Loss
from nearkin.measures import SIMILARITY
from nearkin.parameters import FullMatrix
from nearkin.rows import Rows
from nearkin.settings import declare

__all__ = ["OASIS", "RobustOASIS"]


@declare
class OASIS(DeviceSettings, StreamSettings, StepSettings, MapMixin, OnlineLearner):
    """Online bilinear similarity ``S(x, y) = x' M y`` by passive-aggressive steps; M is any matrix.

    One update costs O(d^2), memory is one d x d matrix however long the stream. For d in the thousands see `LOSL`.

    Parameters
    ----------
    {settings}

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

    measure = SIMILARITY

    def _begin(self, rows: Rows, rng: np.random.Generator) -> FullMatrix:
        return FullMatrix(rows.n_features, rows.dtype, self.measure)


@declare
class RobustOASIS(OASIS):
    """`OASIS` with the rescaled hinge (Algorithm 1): implausible triplets move M little or not at all.

    Parameters
    ----------
    {settings}

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

    loss: str | Loss = "rescaled_hinge"
