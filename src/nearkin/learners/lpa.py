"""LPA-ODML and its robust form: a distance of its own for every class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.learners.base import OnlineLearner
from nearkin.learners.groups import StartSettings, StepSettings, StreamSettings
from nearkin.learners.maps import MapMixin
from nearkin.losses import Loss
from nearkin.measures import DISTANCE
from nearkin.parameters import LocalMetrics
from nearkin.rows import Rows
from nearkin.settings import Real, declare, setting

__all__ = ["LPAODML", "RobustLPAODML"]


@declare
class LPAODML(StartSettings, StreamSettings, StepSettings, MapMixin, OnlineLearner):
    """One Mahalanobis distance per class, ``M + L_c``: a global part that all classes share, and a local one.

    A triplet moves M and the local part of its anchor's class, by passive-aggressive steps on the cone. One update
    costs O(d^2) while the matrices stay inside the cone and O(d^3) where a class must be brought back to it; memory is
    n_classes + 1 matrices of d x d, and three for the start.

    {sections}

    See Also
    --------
    RobustLPAODML : The same with the rescaled hinge.
    ODML : One distance for all classes.
    RobustKNeighborsClassifier : Compares a row with a training row by the metric of the training row's class.

    Notes
    -----
    Of the article only the idea could be verified (its abstract, and what the paper says of it): several metrics, one
    per class, each a global plus a local part, learned together by passive-aggressive steps. The rest is our own
    consistent reading: for an anchor of class c we minimise

    ``1/2 ||M - M_t||^2 + mu/2 ||L_c - L_ct||^2 + C * loss(<A, M + L_c>)``,

    so that ``tau = min(C, hinge / ((1 + 1/mu) ||A||^2))``, ``M += tau A``, ``L_c += tau/mu A``; then M and ``M + L_c``
    are projected to the cone, the latter by changing ``L_c``, which itself need not be positive. A step of another
    class may push ``M + L_c`` out again; it is projected when class c is next used or shown. The article's dual random
    projection for many features is not included. M begins at the identity and every ``L_c`` at zero, by default in the
    space of the discriminant start.

    `metric_`, `transform`, `pair_distance` and `pair_score` know no class and use the global part M. `plausibility` and
    triplets use the metric of the anchor's class. The query of a nearest-neighbour search has no class yet: it is the
    training row whose class chooses the metric. Explicit triplets (`fit_triplets`) have no classes either and count as
    one nameless class, which has a local part that `class_metrics_` does not show.

    References
    ----------
    Hamdan, Zabihzadeh et al.: LPA-ODML, arXiv 1804.01900, 2018.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LPAODML(random_state=0).fit(X, y)
    >>> model.metric_.shape, model.class_metrics_.shape
    ((4, 4), (3, 4, 4))
    """

    fitted = """
    class_metrics_ : ndarray of shape (n_classes, n_features, n_features)
        ``M + L_c`` in the order of `classes_`, on the learner's scale.
    """

    mu: float = setting(
        1.0, Real(0.0, np.inf, open_low=True),
        doc="""How much more it costs to move a local part than the global one: it moves by 1 / mu of the global step.
        Infinity is `ODML`; near 0 every class learns almost alone.""",
    )  # fmt: skip

    measure = DISTANCE

    @property
    def class_metrics_(self) -> NDArray[np.floating]:
        """``M + L_c`` of every class, in the order of `classes_`."""
        state = self._learned("class_metrics_")
        parameter: Any = state.parameter
        codes = [state.labels.codes.get(one, len(state.labels.codes)) for one in state.labels.classes.tolist()]
        found = [self._metric_through_start(parameter.of_class(code).metric) for code in codes]
        return np.stack(found) if found else np.zeros((0, *self.metric_.shape), self.metric_.dtype)

    def _memory_for(self, d: int, itemsize: int) -> float:
        return 5.0 * d**2 * 8  # with the parts of two classes

    def _seconds_of_step(self, d: int) -> float:
        return 8e-10 * d**2

    def _begin(self, rows: Rows, rng: np.random.Generator) -> LocalMetrics:
        return LocalMetrics(rows.n_features, rows.dtype, self.mu)


@declare
class RobustLPAODML(LPAODML):
    """`LPAODML` with the rescaled hinge: implausible triplets move neither the global nor the local part much.

    {sections}

    See Also
    --------
    LPAODML : The same with the plain hinge.

    Notes
    -----
    The robust form replaces C by ``C * weight``, as everywhere here; the paper compares with LPA-ODML but does not
    give its robust form. See `LPAODML` for what is verified.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> wrong = y.copy()
    >>> wrong[0] = 2
    >>> model = RobustLPAODML(random_state=0).fit(X, wrong)
    >>> bool(model.plausibility_[0] < 0.5 * model.plausibility_[1])
    True
    """

    loss: str | Loss = "rescaled_hinge"
