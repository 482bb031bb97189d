"""OPML, its cold-start form COPML, and their robust forms: a square map learned in one pass."""

from __future__ import annotations

import numpy as np

from nearkin.errors import InputError
from nearkin.learners.base import OnlineLearner
from nearkin.learners.groups import StartSettings, StepSettings, StreamSettings
from nearkin.learners.loop import State
from nearkin.learners.maps import MapMixin
from nearkin.losses import Loss
from nearkin.measures import DISTANCE
from nearkin.parameters import LowRank
from nearkin.rows import Rows
from nearkin.settings import BOOLEAN, declare, setting
from nearkin.triplets import OnePassTriplets, TripletSource, as_source

__all__ = ["OPML", "RobustOPML"]


@declare
class OPML(StartSettings, StreamSettings, StepSettings, MapMixin, OnlineLearner):
    """One-pass metric learning: ``d2(x, y) = ||L'x - L'y||^2`` with a square L.

    Positive semi-definite by construction. One update costs O(d^2), memory is L, a start of bounded size and, with its
    own triplets, one row per class.

    {sections}

    See Also
    --------
    RobustOPML : The same with the rescaled hinge.
    LODML : The same step for a map to fewer dimensions.
    OnePassTriplets : The triplets, with the cold start.

    Notes
    -----
    The article minimises ``||L - L_t||^2 / 2 + lambda / 2 * hinge`` and sets ``L = (I + lambda (u u' - v v'))^-1 L_t``.
    Here ``C = lambda / 2``, so that C means the same in every learner: its default of lambda = 0.001 is ``C=0.0005``.
    Formula, triplets, pair step and that default were checked against the authors' released code. They begin at the
    identity, which is ``init="identity"``; by default L begins there in the space of the discriminant start.

    Our own additions: the published step is the minimiser only while the loss after it is not negative, so
    ``exact=True`` stops at the kink, and is then `LODML` with all components. The published step stays a hair
    below the lambda at which L would become infinite (below 1/4 the article needs no guard on rows of length 1).
    The cold start takes a similar pair as the triplet ``(x, previous, x)``, which gives the authors' step with the same
    lambda for pairs and triplets; in the robust form its hinge is ``1 + ||L'(x - previous)||^2``.

    References
    ----------
    Li, Gao, Wang, Zhou, Huo, Shi: OPML: A one-pass closed-form solution for online metric learning. Pattern
    Recognition 75, 2018.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> OPML(random_state=0).fit(X, y).components_.shape
    (4, 4)
    >>> published = OPML(C=0.0005, init="identity", cold_start=True)
    >>> published = published.partial_fit(X[:40], y[:40])  # one class so far
    >>> published.partial_fit(X[40:], y[40:]).classes_.tolist()
    [0, 1, 2]
    """

    exact: bool = setting(
        False, BOOLEAN,
        doc="Whether a step stops where the loss is removed. False is the step as published, which may go beyond.",
    )  # fmt: skip
    cold_start: bool = setting(
        False, BOOLEAN,
        doc="Whether to learn from pairs while only one class has been seen (COPML); needs the one-pass triplets.",
    )  # fmt: skip
    triplets: str | TripletSource = "one_pass"

    measure = DISTANCE
    n_matrices = 2.0

    def _begin(self, rows: Rows, rng: np.random.Generator) -> LowRank:
        start = np.eye(rows.n_features, dtype=rows.dtype)
        return LowRank(start, self.measure, "exact" if self.exact else "published")

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.cold_start and not isinstance(as_source(self.triplets), OnePassTriplets):
            raise InputError(
                f"cold_start=True needs triplets='one_pass', whose first rows make pairs; got "
                f"triplets={self.triplets!r}.",
                owner=self,
            )

    def _make_source(self, state: State) -> TripletSource:
        source = super()._make_source(state)
        if self.cold_start:
            source.set_params(cold_start=True)
        return source


@declare
class RobustOPML(OPML):
    """`OPML` with the rescaled hinge: implausible triplets move the map little or not at all.

    {sections}

    See Also
    --------
    OPML : The same with the plain hinge.

    Notes
    -----
    Not in the article: ``lambda / 2`` is replaced by C times the triplet's half-quadratic weight, as in Algorithm 4.
    One-pass triplets compare a row with two others only, which may be wrong themselves, so `plausibility_` is a weak
    sign of wrong labels; with ``triplets="auto"`` it is as good as that of `RobustLODML`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> wrong = y.copy()
    >>> wrong[0] = 2
    >>> model = RobustOPML(rescore=False, shuffle=False, random_state=0).fit(X[::-1], wrong[::-1])
    >>> bool(model.plausibility_[-1] < model.plausibility_.mean())
    True
    """

    loss: str | Loss = "rescaled_hinge"
