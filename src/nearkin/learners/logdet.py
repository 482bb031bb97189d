"""Distances with LogDet proximity: SLMOML of triplets, ITML of bounds on pairs, and their robust forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.errors import InputError
from nearkin.learners.base import OnlineLearner
from nearkin.learners.groups import StartSettings, StepSettings, StreamSettings
from nearkin.learners.maps import MapMixin
from nearkin.losses import Loss
from nearkin.measures import DISTANCE
from nearkin.parameters import LogDet, PairBounds
from nearkin.rows import Rows
from nearkin.settings import OneOf, Real, all_or_nothing, declare, setting

__all__ = ["ITML", "SLMOML", "RobustITML", "RobustSLMOML"]


@declare
class SLMOML(StartSettings, StreamSettings, StepSettings, MapMixin, OnlineLearner):
    """Online Mahalanobis distance whose steps are near in the LogDet divergence, so that M stays positive definite.

    One update costs O(d^2) for any C and needs no projection. Memory is one d x d matrix however long the stream.

    {sections}

    See Also
    --------
    RobustSLMOML : The same with the rescaled hinge.
    ODML : The same with Frobenius proximity, and a projection.
    ITML : The same proximity with bounds on pairs.

    Notes
    -----
    M begins at the identity, by default in the space of the discriminant start.
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
    n_matrices = 2.0

    def _begin(self, rows: Rows, rng: np.random.Generator) -> LogDet:
        return LogDet(rows.n_features, rows.dtype)


@declare
class RobustSLMOML(SLMOML):
    """`SLMOML` with the rescaled hinge: implausible triplets move the metric little or not at all.

    {sections}

    See Also
    --------
    SLMOML : The same with the plain hinge.

    Notes
    -----
    Not in the article: C is replaced by C times the triplet's half-quadratic weight, every iteration anew from M before
    the triplet, as in Algorithm 2.

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


@dataclass(frozen=True)
class _Bounds:
    """Two positive numbers, the second not below the first."""

    def allows(self, value: Any) -> bool:
        """A sequence of two."""
        number = Real(0.0, np.inf, open_low=True, open_high=True)
        if not isinstance(value, (tuple, list, np.ndarray)) or len(value) != 2:
            return False
        return all(number.allows(one) for one in value) and bool(value[0] <= value[1])

    def __str__(self) -> str:
        return "two finite numbers, 0 < similar <= dissimilar"


@declare
class ITML(StartSettings, StreamSettings, StepSettings, MapMixin, OnlineLearner):
    """Online Mahalanobis distance under which similar pairs are near, dissimilar ones far, each by a bound of its own.

    A triplet is its two pairs, taken one after the other: ``(anchor, positive)`` must lie within the first bound,
    ``(anchor, negative)`` beyond the second. M stays positive definite without a projection; a pair costs O(d^2).

    {sections}

    See Also
    --------
    RobustITML : The same with the rescaled hinge.
    SLMOML : The same proximity with triplets.

    Notes
    -----
    The article's algorithm visits a fixed set of pairs again and again and keeps a dual number for each. On a stream a
    pair is met once, which is its first visit: one pass here is one sweep there, exactly, with ``C`` as gamma; later
    passes have no duals and project anew. A pair ``e`` with ``p = e'Me`` moves by ``M^-1 + sigma tau e e'``. The
    projection was checked against metric-learn's; that takes percentiles of distances but compares them with squared
    ones, here both are squared. The hinge step, and taking a triplet as two pairs, are our own. A pair's hinge is what
    it lies beyond its bound; the plausibility of a triplet is that of its less plausible pair. With labelled rows all
    this happens in the space of the discriminant start, and bounds are measured there; ``init="identity"`` is the
    article's form.

    A member equal to the anchor makes no pair: ``(x, y, x)`` is the similar pair alone and ``(x, x, y)`` the dissimilar
    one, which is how `fit_pairs` works.

    References
    ----------
    Davis, Kulis, Jain, Sra, Dhillon: Information-theoretic metric learning. ICML 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ITML(random_state=0).fit(X, y)
    >>> model.metric_.shape, bool(np.linalg.eigvalsh(model.metric_)[0] > 0)
    ((4, 4), True)
    >>> model = ITML().fit_pairs(X[:-1], X[1:], y[:-1] == y[1:])
    >>> model.plausibility_.shape
    (149,)
    """

    fitted = """
    bounds_ : tuple of two floats
        Bounds in use.
    """

    C: float | str = setting(
        "auto", Real(0.0, np.inf), OneOf(("auto",)), kw_only=False,
        doc="""Weight of the slack, the article's gamma: with ``step="itml"`` a pair beyond its bound goes the share
        C / (C + 1) of the way back, counted in 1 / d2; with ``step="hinge"`` C caps the step. 0 never moves, infinity
        always reaches the bound. "auto" is 1; after a discriminant start, which leaves less to learn, 0.003.""",
    )  # fmt: skip
    step: str = setting(
        "itml", OneOf(("itml", "hinge")),
        doc=""""itml": the article's slack, a LogDet divergence between bounds. "hinge": a hinge on the bound, the pair
        form of `SLMOML`.""",
    )  # fmt: skip
    bounds: str | tuple[float, float] = setting(
        "auto", OneOf(("auto",)), _Bounds(), kind='"auto" or (float, float)',
        doc="""Largest squared distance of a similar and smallest of a dissimilar pair, on the learner's scale. "auto":
        the 5th and 95th percentile of the squared distances between rows of the first batch.""",
    )  # fmt: skip

    measure = DISTANCE
    n_matrices = 2.0
    C_from_identity = 1.0

    def _begin(self, rows: Rows, rng: np.random.Generator) -> LogDet:
        is_hinge = self.step == "hinge"
        if isinstance(self.bounds, str):
            bounds = PairBounds.measure(rows, is_hinge=is_hinge)
        else:
            bounds = PairBounds(float(self.bounds[0]), float(self.bounds[1]), is_hinge)
        return LogDet(rows.n_features, rows.dtype, bounds)

    @property
    def bounds_(self) -> tuple[float, float]:
        """Largest squared distance of a similar and smallest of a dissimilar pair."""
        bounds: Any = self._learned("bounds_").parameter.bounds
        return bounds.similar, bounds.dissimilar

    @all_or_nothing
    def fit_pairs(self, X1: ArrayLike, X2: ArrayLike, similar: ArrayLike) -> Self:
        """Learn from explicit pairs in the order given, forgetting everything learned before.

        Parameters
        ----------
        X1, X2 : array-like or CSR matrix of shape (n_pairs, n_features)
            Pair t is ``(X1[t], X2[t])``.
        similar : array-like of shape (n_pairs,)
            Whether its members should be near: True or False, or 1 and -1.

        Returns
        -------
        self
            `plausibility_` holds one number per pair.
        """
        self._forget()
        return self._learn_pairs(X1, X2, similar, self.n_epochs)

    @all_or_nothing
    def partial_fit_pairs(self, X1: ArrayLike, X2: ArrayLike, similar: ArrayLike) -> Self:
        """Learn from the next explicit pairs of a stream, once and in the order given; see `fit_pairs`."""
        return self._learn_pairs(X1, X2, similar, 1)

    def _learn_pairs(self, X1: ArrayLike, X2: ArrayLike, similar: ArrayLike, n_epochs: int) -> Self:
        self._check_settings()
        members = self._check_members(X1, X2)
        near = self._check_similar(similar)
        sizes = [members[0].shape[0], members[1].shape[0], len(near)]
        if len(set(sizes)) > 1:
            raise InputError(f"X1, X2 and similar must be equally long; got {sizes}.", owner=self)
        at = np.arange(len(near))
        other = at + len(near)
        return self._learn_among(members, (at, np.where(near, other, at), np.where(near, at, other)), n_epochs)

    def _check_similar(self, similar: ArrayLike) -> NDArray[np.bool_]:
        given = np.asarray(similar)
        known = any(np.isin(given, two).all() for two in ((-1, 1), (0, 1))) if given.dtype.kind in "biuf" else False
        if given.ndim == 1 and known:
            return given > 0
        raise InputError(
            f"`similar` must be True or False, 1 or 0, or 1 or -1, for each pair; got {similar!r}.", owner=self
        )


@declare
class RobustITML(ITML):
    """`ITML` with the rescaled hinge: pairs far beyond their bound move the metric little or not at all.

    {sections}

    See Also
    --------
    ITML : The same with the plain hinge.

    Notes
    -----
    Not in the article: C is replaced by C times the pair's half-quadratic weight, every iteration anew from M before
    the pair. For ``step="hinge"`` this minimises the rescaled hinge of the bound; for ``"itml"``, whose slack is no
    hinge, it is a reading.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> wrong = y.copy()
    >>> wrong[0] = 2
    >>> model = RobustITML(random_state=0).fit(X, wrong)
    >>> bool(model.plausibility_[0] < model.plausibility_[1])
    True
    """

    loss: str | Loss = "rescaled_hinge"
