"""Full matrices: OASIS of a similarity, ODML of a distance, and their robust forms (Algorithms 1 and 2)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from nearkin.learners.base import OnlineLearner
from nearkin.learners.groups import DeviceSettings, InnerSettings, StartSettings, StepSettings, StreamSettings
from nearkin.learners.maps import MapMixin
from nearkin.losses import Loss
from nearkin.measures import DISTANCE, SIMILARITY
from nearkin.parameters import FullMatrix
from nearkin.rows import Rows
from nearkin.settings import OneOf, declare, setting

__all__ = ["OASIS", "ODML", "RobustOASIS", "RobustODML"]


@declare
class OASIS(InnerSettings, DeviceSettings, StartSettings, StreamSettings, StepSettings, MapMixin, OnlineLearner):
    """Online bilinear similarity ``S(x, y) = x' M y`` by passive-aggressive steps; M is any matrix.

    One update costs O(d^2). Memory is one d x d matrix, and three more for the start, however long the stream. For d in
    the thousands see `LOSL`.

    {sections}

    See Also
    --------
    RobustOASIS : The same with the rescaled hinge.
    LOSL : The same with a low-rank matrix.

    Notes
    -----
    Steps of Eq. (22) from the identity, by default in the space of the discriminant start; ``init="identity",
    triplets="octg", C=0.1`` is the paper's form. The similarity is the bilinear form itself, not its square. M need not
    be symmetric, so there is no single embedding whose inner product is the score: `query_map_` and `item_map_` give
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
    n_matrices = 2.0
    on_device: ClassVar[dict[str, tuple[Any, ...]]] = {"hq": ("anchored",)}

    def _begins_alike(self, d: int) -> bool:
        """At the identity."""
        return True

    def _begin(self, rows: Rows, rng: np.random.Generator) -> FullMatrix:
        return FullMatrix(rows.n_features, rows.dtype, self.measure)


@declare
class RobustOASIS(OASIS):
    """`OASIS` with the rescaled hinge (Algorithm 1): implausible triplets move M little or not at all.

    {sections}

    See Also
    --------
    OASIS : The same with the plain hinge.

    Notes
    -----
    The half-quadratic loop starts from M before the triplet in every iteration (Eq. 19 measures the distance to
    it) and weighs first, then steps. Algorithm 1 can also be read as adding up the inner steps: ``hq="cumulative"``.

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


@declare
class ODML(InnerSettings, DeviceSettings, StartSettings, StreamSettings, StepSettings, MapMixin, OnlineLearner):
    """Online Mahalanobis distance ``d2(x, y) = (x - y)' M (x - y)`` by passive-aggressive steps on the cone ``M >= 0``.

    One update costs O(d^2); where a step leaves the cone, some ten to fifty products with a d x d matrix that is kept
    beside M and follows it, the inverse of M away from its null directions. Memory is these two matrices, and three
    more for the start, however long the stream. For d in the thousands see `LODML`.

    {sections}

    See Also
    --------
    RobustODML : The same with the rescaled hinge.
    LODML : The same with a low-rank matrix.

    Notes
    -----
    Steps of Eq. (25) from the identity, by default in the space of the discriminant start; ``init="identity",
    triplets="octg", C=0.1`` is the paper's form. A step followed by a projection is what the literature runs, but not
    the minimiser of Eq. (24): the exact one never takes a smaller step. The projection comes after the half-quadratic
    loop, once per triplet.

    References
    ----------
    Wu, Hoi, Zhao, Miao, Liu: Online multi-modal distance metric learning. TKDE 28(2), 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ODML(random_state=0).fit(X, y)
    >>> model.metric_.shape, bool(np.linalg.eigvalsh(model.metric_)[0] > -1e-12)
    ((4, 4), True)
    """

    psd: str = setting(
        "project", OneOf(("project", "exact", "end", "none")),
        doc=""""project" clips the negative eigenvalue after each triplet (Algorithm 2); "exact" takes the minimiser of
        Eq. (24) on the cone, which is slow and meant for comparison; "end" clips what is shown, not what is learned on;
        "none" never clips.""",
    )  # fmt: skip

    measure = DISTANCE
    n_matrices = 2.0
    on_device: ClassVar[dict[str, tuple[Any, ...]]] = {"psd": ("end", "none"), "hq": ("anchored",)}

    def _memory_for(self, d: int, itemsize: int) -> float:
        return 3.0 * d**2 * 8 if self.psd in ("project", "exact") else super()._memory_for(d, itemsize)

    def _seconds_of_step(self, d: int) -> float:
        if self.psd == "exact":
            return 1e-8 * d**3  # some ten eigendecompositions
        return 1.5e-9 * d**2 if self.psd == "project" else super()._seconds_of_step(d)

    def _begins_alike(self, d: int) -> bool:
        """At the identity."""
        return True

    def _begin(self, rows: Rows, rng: np.random.Generator) -> FullMatrix:
        return FullMatrix(rows.n_features, rows.dtype, self.measure, self.psd)


@declare
class RobustODML(ODML):
    """`ODML` with the rescaled hinge (Algorithm 2): implausible triplets move the metric little or not at all.

    {sections}

    See Also
    --------
    ODML : The same with the plain hinge.

    Notes
    -----
    Algorithm 2 can be read as accumulating the inner updates on M or as restarting each from M before the triplet.
    Eq. (24) measures the distance to the latter, so we restart; only then does the objective never rise. The other
    reading is ``hq="cumulative"``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> wrong = y.copy()
    >>> wrong[0] = 2
    >>> model = RobustODML(random_state=0).fit(X, wrong)
    >>> bool(model.plausibility_[0] < 0.5 * model.plausibility_[1])
    True
    """

    loss: str | Loss = "rescaled_hinge"
