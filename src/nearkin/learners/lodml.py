"""LODML and Robust-LODML: a low-rank Mahalanobis distance (Algorithm 4)."""

from __future__ import annotations

from nearkin.learners.base import OnlineLearner
from nearkin.learners.groups import DeviceSettings, StepSettings, StreamSettings
from nearkin.learners.lowrank import LowRankMixin
from nearkin.learners.maps import MapMixin
from nearkin.losses import Loss
from nearkin.measures import DISTANCE
from nearkin.settings import declare

__all__ = ["LODML", "RobustLODML"]


@declare
class LODML(LowRankMixin, DeviceSettings, StreamSettings, StepSettings, MapMixin, OnlineLearner):
    """Online low-rank distance ``d2(x, y) = ||L'x - L'y||^2``, L of shape d x r.

    Positive semi-definite by construction. One update costs O(dr), memory is L however long the stream.

    Parameters
    ----------
    {settings}

    Attributes
    ----------
    {fitted}

    See Also
    --------
    RobustLODML : The same with the rescaled hinge.
    ODML : The same with a full matrix.

    Notes
    -----
    ``solver="exact"`` takes the global minimiser of the proximal problem behind Eq. (33) in closed form, up to one
    scalar root; the paper leaves step size and number of its sub-gradient steps open. If L is orthogonal to the
    direction that a triplet asks for, no step along this curve can remove its loss: the step then stops just below
    the bound where L would become infinite.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> LODML(n_components=2, random_state=0).fit(X, y).transform(X).shape
    (150, 2)
    """

    measure = DISTANCE


@declare
class RobustLODML(LODML):
    """`LODML` with the rescaled hinge (Algorithm 4): implausible triplets move the map little or not at all.

    The paper's best method, and the default of `RobustKNeighborsClassifier`.

    Parameters
    ----------
    {settings}

    Attributes
    ----------
    {fitted}

    See Also
    --------
    LODML : The same with the plain hinge.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> wrong = y.copy()
    >>> wrong[0] = 2
    >>> model = RobustLODML(random_state=0).fit(X, wrong)
    >>> bool(model.plausibility_[0] < 0.5 * model.plausibility_[1])
    True
    """

    loss: str | Loss = "rescaled_hinge"
