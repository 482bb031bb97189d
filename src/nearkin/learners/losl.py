"""LOSL and Robust-LOSL: a low-rank bilinear similarity (Algorithm 3)."""

from __future__ import annotations

from nearkin.learners.base import OnlineLearner
from nearkin.learners.groups import DeviceSettings, StepSettings, StreamSettings
from nearkin.learners.lowrank import LowRankMixin
from nearkin.learners.maps import MapMixin
from nearkin.losses import Loss
from nearkin.measures import SIMILARITY
from nearkin.settings import declare

__all__ = ["LOSL", "RobustLOSL"]


@declare
class LOSL(LowRankMixin, DeviceSettings, StreamSettings, StepSettings, MapMixin, OnlineLearner):
    """Online low-rank similarity ``S(x, y) = (L'x)'(L'y)``, L of shape d x r.

    One update costs O(dr), memory is L however long the stream.

    Parameters
    ----------
    {settings}

    Attributes
    ----------
    {fitted}

    See Also
    --------
    RobustLOSL : The same with the rescaled hinge.
    OASIS : The same with a full matrix.

    Notes
    -----
    ``solver="exact"`` takes the global minimiser of the proximal problem of Eq. (31) in closed form, up to one
    scalar root; the paper leaves step size and number of its sub-gradient steps open. A step with step size 1 is
    its first-order expansion.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> LOSL(n_components=2, random_state=0).fit(X, y).transform(X).shape
    (150, 2)
    """

    measure = SIMILARITY


@declare
class RobustLOSL(LOSL):
    """`LOSL` with the rescaled hinge (Algorithm 3): implausible triplets move the map little or not at all.

    Parameters
    ----------
    {settings}

    Attributes
    ----------
    {fitted}

    See Also
    --------
    LOSL : The same with the plain hinge.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RobustLOSL(n_components=2, random_state=0).fit(X, y)
    >>> model.query_map_ is model.item_map_
    True
    """

    loss: str | Loss = "rescaled_hinge"
