"""ITML online and Robust-ITML: bounds on the distances of similar and dissimilar pairs, with LogDet proximity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.checks import OneOf, Real, Rule
from nearkin.learners._docs import documented
from nearkin.learners._preset import with_defaults
from nearkin.learners.base import OnlineLearner, len_of
from nearkin.losses import Loss
from nearkin.measures import DISTANCE
from nearkin.parameters import PairBounds, pair_bounds
from nearkin.rows import Rows
from nearkin.transactions import all_or_nothing
from nearkin.triplets import TripletSource

__all__ = ["ITML", "RobustITML"]


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


@documented
class ITML(OnlineLearner):
    """Online Mahalanobis distance under which similar pairs are near, dissimilar ones far, each by a bound of its own.

    A triplet is its two pairs, taken one after the other: ``(anchor, positive)`` must lie within the first bound,
    ``(anchor, negative)`` beyond the second. M stays positive definite without a projection; a pair costs O(d^2).

    Parameters
    ----------
    C : float, default=1.0
        Weight of the slack, the article's gamma: with ``step="itml"`` a pair beyond its bound goes the share
        C / (C + 1) of the way back, counted in 1 / d2; with ``step="hinge"`` C caps the step. 0 never moves, infinity
        always reaches the bound.
    loss : {"hinge", "rescaled_hinge"} or Loss, default="hinge"
        "hinge" trusts every pair alike; "rescaled_hinge" bounds what one pair can do.
    eta : float, default=1.0
        How fast a pair's weight falls with its hinge, for "rescaled_hinge"; 0 is the plain hinge.
    max_hq_iter : int, default=3
        Half-quadratic iterations per pair.
    step : {"itml", "hinge"}, default="itml"
        "itml": the article's slack, a LogDet divergence between bounds. "hinge": a hinge on the bound, the pair form of
        `SLMOML`.
    bounds : "auto" or (float, float), default="auto"
        Largest squared distance of a similar and smallest of a dissimilar pair, on the learner's scale. "auto": the 5th
        and 95th percentile of the squared distances between rows of the first batch.
    {stream}

    Attributes
    ----------
    bounds_ : tuple of two floats
        Bounds in use.
    {fitted}

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
    it lies beyond its bound; the plausibility of a triplet is that of its less plausible pair.

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

    _measure = DISTANCE
    _rules: ClassVar[dict[str, tuple[Rule, ...]]] = {
        **OnlineLearner._rules,
        "step": (OneOf(("itml", "hinge")),),
        "bounds": (OneOf(("auto",)), _Bounds()),
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: str | Loss = "hinge",
        eta: float = 1.0,
        max_hq_iter: int = 3,
        step: str = "itml",
        bounds: str | tuple[float, float] = "auto",
        triplets: str | TripletSource = "octg",
        n_epochs: int = 1,
        shuffle: bool = True,
        scale: str | None = "auto",
        rescore: bool = True,
        random_state: Any = None,
    ):
        self.C = C
        self.loss = loss
        self.eta = eta
        self.max_hq_iter = max_hq_iter
        self.step = step
        self.bounds = bounds
        self.triplets = triplets
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.scale = scale
        self.rescore = rescore
        self.random_state = random_state

    def _begin(self, rows: Rows, rng: np.random.Generator) -> PairBounds:
        similar, dissimilar = pair_bounds(rows) if isinstance(self.bounds, str) else self.bounds
        return PairBounds(rows.n_features, rows.dtype, similar, dissimilar, self.step)

    @property
    def bounds_(self) -> tuple[float, float]:
        """Largest squared distance of a similar and smallest of a dissimilar pair."""
        parameter = self._learned("bounds_").parameter
        assert isinstance(parameter, PairBounds)
        return parameter.similar, parameter.dissimilar

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
        if hasattr(self, "_state"):
            del self._state
        return self._learn_pairs(X1, X2, similar, self.n_epochs)

    @all_or_nothing
    def partial_fit_pairs(self, X1: ArrayLike, X2: ArrayLike, similar: ArrayLike) -> Self:
        """Learn from the next explicit pairs of a stream, once and in the order given; see `fit_pairs`."""
        return self._learn_pairs(X1, X2, similar, 1)

    def _learn_pairs(self, X1: ArrayLike, X2: ArrayLike, similar: ArrayLike, n_epochs: int) -> Self:
        self._check_parameters()
        members = self._check_members(X1, X2)
        near = self._check_similar(similar)
        sizes = [len_of(members[0]), len_of(members[1]), len(near)]
        if len(set(sizes)) > 1:
            raise ValueError(f"{self._name}: X1, X2 and similar must be equally long; got {sizes}.")
        at = np.arange(len(near))
        other = at + len(near)
        return self._learn_among(members, at, np.where(near, other, at), np.where(near, at, other), n_epochs)

    def _check_similar(self, similar: ArrayLike) -> NDArray[np.bool_]:
        given = np.asarray(similar)
        known = any(np.isin(given, two).all() for two in ((-1, 1), (0, 1))) if given.dtype.kind in "biuf" else False
        if given.ndim == 1 and known:
            return given > 0
        raise ValueError(
            f"{self._name}: `similar` must be True or False, 1 or 0, or 1 or -1, for each pair; got {similar!r}."
        )


@documented
@with_defaults(loss="rescaled_hinge")
class RobustITML(ITML):
    """`ITML` with the rescaled hinge: pairs far beyond their bound move the metric little or not at all.

    Parameters
    ----------
    C : float, default=1.0
        See `ITML`.
    loss : {"hinge", "rescaled_hinge"} or Loss, default="rescaled_hinge"
        See `ITML`.
    eta : float, default=1.0
        See `ITML`.
    max_hq_iter : int, default=3
        See `ITML`.
    step : {"itml", "hinge"}, default="itml"
        See `ITML`.
    bounds : "auto" or (float, float), default="auto"
        See `ITML`.
    {stream}

    Attributes
    ----------
    bounds_ : tuple of two floats
        Bounds in use.
    {fitted}

    See Also
    --------
    ITML : The same with the plain hinge.

    Notes
    -----
    Not in the article: C is replaced by C times the pair's half-quadratic weight, every iteration anew from M before
    the pair. For ``step="hinge"`` this minimises the rescaled hinge of the bound; for ``"itml"``, whose slack is no
    hinge, it is a reading.

    References
    ----------
    Davis, Kulis, Jain, Sra, Dhillon: Information-theoretic metric learning. ICML 2007.

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
