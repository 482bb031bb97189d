"""ODML and Robust-ODML: a full Mahalanobis distance (Algorithm 2)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from nearkin.checks import OneOf, Rule
from nearkin.learners._device import DeviceLearner
from nearkin.learners._docs import documented
from nearkin.learners._preset import with_defaults
from nearkin.losses import Loss
from nearkin.measures import DISTANCE
from nearkin.parameters import FullMatrix
from nearkin.rows import Rows
from nearkin.triplets import TripletSource

__all__ = ["ODML", "RobustODML"]


@documented
class ODML(DeviceLearner):
    """Online Mahalanobis distance ``d2(x, y) = (x - y)' M (x - y)`` by passive-aggressive steps on the cone ``M >= 0``.

    One update costs O(d^2); where a step leaves the cone, some ten to fifty products with a d x d matrix that is kept
    beside M and follows it, the inverse of M away from its null directions. Memory is these two matrices however
    long the stream. For d in the thousands see `LODML`.

    Parameters
    ----------
    {steps}
    psd : {"project", "exact", "end", "none"}, default="project"
        "project" clips the negative eigenvalue after each triplet (Algorithm 2); "exact" takes the minimiser of
        Eq. (24) on
        the cone, which is slow and meant for comparison; "end" clips what is shown, not what is learned on; "none"
        never clips.
    {stream}
    {device}

    Attributes
    ----------
    {fitted}

    See Also
    --------
    RobustODML : The same with the rescaled hinge.
    LODML : The same with a low-rank matrix.

    Notes
    -----
    Steps of Eq. (25) from the identity. A step followed by a projection is what the literature runs, but not the
    minimiser of Eq. (24): the exact one never takes a smaller step. The projection comes after the half-quadratic
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

    _measure = DISTANCE
    _rules: ClassVar[dict[str, tuple[Rule, ...]]] = {
        **DeviceLearner._rules,
        "psd": (OneOf(("project", "exact", "end", "none")),),
    }
    _on_device: ClassVar[dict[str, tuple[Any, ...]]] = {"psd": ("end", "none")}

    def __init__(
        self,
        C: float = 0.1,
        *,
        loss: str | Loss = "hinge",
        eta: float = 1.0,
        max_hq_iter: int = 3,
        psd: str = "project",
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
        self.psd = psd
        self.triplets = triplets
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.scale = scale
        self.rescore = rescore
        self.device = device
        self.random_state = random_state

    def _begin(self, rows: Rows, rng: np.random.Generator) -> FullMatrix:
        return FullMatrix(rows.n_features, rows.dtype, self._measure, self.psd)


@documented
@with_defaults(loss="rescaled_hinge")
class RobustODML(ODML):
    """`ODML` with the rescaled hinge (Algorithm 2): implausible triplets move the metric little or not at all.

    Parameters
    ----------
    {steps}
    psd : {"project", "exact", "end", "none"}, default="project"
        See `ODML`.
    {stream}
    {device}

    Attributes
    ----------
    {fitted}

    See Also
    --------
    ODML : The same with the plain hinge.

    Notes
    -----
    Algorithm 2 can be read as accumulating the inner updates on M or as restarting each from M before the triplet.
    Eq. (24) measures the distance to the latter, so we restart; only then does the objective never rise.

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
