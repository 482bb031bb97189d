"""SLMOML and Robust-SLMOML: a full Mahalanobis distance with LogDet proximity."""

from __future__ import annotations

import numpy as np

from nearkin.learners.base import OnlineLearner
from nearkin.learners.groups import StepSettings, StreamSettings
from nearkin.learners.maps import MapMixin
from nearkin.losses import Loss
from nearkin.measures import DISTANCE
from nearkin.parameters import LogDet
from nearkin.rows import Rows
from nearkin.settings import declare

__all__ = ["SLMOML", "RobustSLMOML"]


@declare
class SLMOML(StreamSettings, StepSettings, MapMixin, OnlineLearner):
    """Online Mahalanobis distance whose steps are near in the LogDet divergence, so that M stays positive definite.

    One update costs O(d^2) for any C and needs no projection. Memory is one d x d matrix however long the stream.

    Parameters
    ----------
    {settings}

    Attributes
    ----------
    {fitted}

    See Also
    --------
    RobustSLMOML : The same with the rescaled hinge.
    ODML : The same with Frobenius proximity, and a projection.
    ITML : The same proximity with bounds on pairs.

    Notes
    -----
    Each triplet minimises ``tr(M M_t^-1) - log det(M M_t^-1) + C * hinge``. The minimiser is additive in the inverse,
    ``M^-1 = M_t^-1 - tau (v v' - u u')``, and we take it exactly: ``tau = min(C, kink)`` with the kink in closed form,
    always below the step at which M would stop being positive definite. Derived by ourselves and compared with a
    numerical minimiser; whether the article takes this step or a bounded learning rate with two successive rank-one
    updates could not be verified. The paper prints ``M_0`` in the determinant, which must be ``M_t``. M is kept as
    ``L L'`` and moved by square roots of its steps, so rounding cannot make it indefinite.

    References
    ----------
    Zhong, Zheng et al.: SLMOML: Online metric learning with global convergence. IEEE TCSVT, 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SLMOML(random_state=0).fit(X, y)
    >>> model.metric_.shape, bool(np.linalg.eigvalsh(model.metric_)[0] > 0)
    ((4, 4), True)
    """

    measure = DISTANCE

    def _begin(self, rows: Rows, rng: np.random.Generator) -> LogDet:
        return LogDet(rows.n_features, rows.dtype)


@declare
class RobustSLMOML(SLMOML):
    """`SLMOML` with the rescaled hinge: implausible triplets move the metric little or not at all.

    Parameters
    ----------
    {settings}

    Attributes
    ----------
    {fitted}

    See Also
    --------
    SLMOML : The same with the plain hinge.

    Notes
    -----
    Not in the article: C is replaced by C times the triplet's half-quadratic weight, every iteration anew from M before
    the triplet, as in Algorithm 2.

    References
    ----------
    Zhong, Zheng et al.: SLMOML: Online metric learning with global convergence. IEEE TCSVT, 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> wrong = y.copy()
    >>> wrong[0] = 2
    >>> model = RobustSLMOML(random_state=0).fit(X, wrong)
    >>> bool(model.plausibility_[0] < 0.5 * model.plausibility_[1])
    True
    """

    loss: str | Loss = "rescaled_hinge"
