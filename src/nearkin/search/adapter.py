"""A learned similarity in front of an index: queries are mapped, items stay where they are."""

from __future__ import annotations

import copy
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from nearkin.checks import Instance, Integer, OneOf, Real, Rule, check_parameters
from nearkin.learners import RobustOASIS
from nearkin.losses import Loss
from nearkin.measures import SIMILARITY, Measure
from nearkin.search.ranking import Interval
from nearkin.search.vectors import as_vectors, zero_rows
from nearkin.transactions import all_or_nothing

__all__ = ["STRENGTHS", "SimilarityAdapter"]

Array = NDArray[np.floating]

#: How much of what was learned is used, from little to all; chosen by what held-out feedback says.
STRENGTHS = (0.03, 0.1, 0.2, 0.3, 0.5, 1.0)
#: Least share of the best gain with which a weaker, and so safer, strength is taken.
_GOOD = 2 / 3

#: Triplets learned at once, of which so many are looked at before.
_CHUNK = 2048
_PROBE = 512
#: Checks that are remembered, and how many are needed before they count.
_WINDOW = 4096
_ENOUGH = 30
#: The mean of the first queries is taken as if this many at the origin had come before them.
_PRIOR = 10


class SimilarityAdapter(TransformerMixin, BaseEstimator):
    """Query map learned from clicks, in front of an inner-product index that is not touched.

    Robust-OASIS learns M online from (query, clicked, skipped). A query is then sent to the index as
    ``q + strength (M' - I)(q - mean)``, so that inner products with the items as they are give the learned
    similarity. At strength 0 this is the query itself: the identity, which is kept until feedback that was not yet
    learned from says that the map is better.

    One triplet costs O(d^2), a query one product with a d x d matrix; memory is a few such matrices however long the
    stream.

    Parameters
    ----------
    C : float, default=0.1
        Aggressiveness: upper bound on a step before robust weighting.
    eta : float, default=0.5
        How fast the weight of a triplet falls with its loss; near 0 every click is trusted.
    loss : str or Loss, default="rescaled_hinge"
        As in `nearkin.RobustOASIS`.
    max_hq_iter : int, default=3
        Half-quadratic iterations per triplet.
    strength : "auto" or float in [0, 1], default="auto"
        How much of what was learned is used; "auto" chooses among six values.
    bad : {"raise", "skip"}, default="raise"
        What to do with triplets that hold a zero vector: an error that names the row, or leave them out and count
        them in `n_skipped_`.

    Attributes
    ----------
    kept_identity_ : bool
        Whether queries are passed on as they are, because no gain was shown.
    strength_ : float
        How much of what was learned is used; 0 if the identity is kept.
    gain_ : Interval
        Gain over the identity that decided: after `partial_fit` in the share of new triplets that are put in the right
        order before they are learned, after `nearkin.search.adapt` in its ranking measure on queries held out.
    query_map_ : ndarray of shape (n_features, n_features)
        Matrix A of ``map_queries(Q) == Q @ A.T + query_offset_``.
    query_offset_ : ndarray of shape (n_features,)
        Added to every mapped query.
    plausibility_ : ndarray of shape (n_triplets,)
        Of the triplets of the last call, in (0, 1]; small for clicks that look wrong. 1 for triplets left out.
    similarity_ : RobustOASIS
        Holds M, on the scale on which the margin 1 means something.
    n_triplets_seen_, n_skipped_ : int
        Triplets learned from, and left out.

    See Also
    --------
    adapt : From vectors and a table of feedback to a checked adapter.
    Index : Search with it.

    Notes
    -----
    Two shifts are free, since they change no ranking: items enter through their differences only, and the mean of the
    queries (of the first batch) is taken out before and put back after. Without that, vectors with a large common part
    teach which items are popular rather than which belong together.

    The check is progressive: some triplets of every batch are scored by the identity and by the learned map before the
    map learns from them, one vote per query and batch. The map is used while the lower end of the 95 % interval of its
    gain over the last 4,096 votes is above zero, at the smallest strength that has two thirds of the best gain: a
    right order of single pairs says little about the first ten results, where a strong map can do harm.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> items = rng.normal(size=(500, 8)).astype(np.float32)
    >>> turn = np.roll(np.eye(8, dtype=np.float32), 1, axis=0)  # queries live in another basis
    >>> clicked, skipped = rng.integers(0, 500, size=(2, 4000))
    >>> queries = items[clicked] @ turn
    >>> adapter = SimilarityAdapter().partial_fit(queries, items[clicked], items[skipped])
    >>> adapter.kept_identity_, adapter.map_queries(queries[:2]).shape
    (False, (2, 8))
    """

    _measure: ClassVar[Measure] = SIMILARITY
    _transient = ("_map",)
    _rules: ClassVar[dict[str, tuple[Rule, ...]]] = {
        "C": (Real(0.0, np.inf),),
        "eta": (Real(0.0, np.inf, open_high=True),),
        "loss": (OneOf(("hinge", "rescaled_hinge")), Instance(Loss, "a Loss object")),
        "max_hq_iter": (Integer(1),),
        "strength": (OneOf(("auto",)), Real(0.0, 1.0)),
        "bad": (OneOf(("raise", "skip")),),
    }

    _map: tuple[Array, Array] | None = None
    _tried: tuple[float, ...]
    _votes: Array
    similarity_: RobustOASIS
    n_triplets_seen_: int
    n_skipped_: int

    def __init__(
        self,
        C: float = 0.1,
        *,
        eta: float = 0.5,
        loss: str | Loss = "rescaled_hinge",
        max_hq_iter: int = 3,
        strength: str | float = "auto",
        bad: str = "raise",
    ):
        self.C = C
        self.eta = eta
        self.loss = loss
        self.max_hq_iter = max_hq_iter
        self.strength = strength
        self.bad = bad

    # ------------------------------------------------------------------ learning

    @all_or_nothing
    def fit(self, queries: ArrayLike, clicked: ArrayLike, skipped: ArrayLike) -> Self:
        """Learn from triplets, forgetting everything learned before; see `partial_fit`."""
        check_parameters(self, self._rules)
        for name in [name for name in vars(self) if name.endswith("_") or name in ("_tried", "_votes", "_map")]:
            delattr(self, name)
        return self._learn(queries, clicked, skipped)

    @all_or_nothing
    def partial_fit(self, queries: ArrayLike, clicked: ArrayLike, skipped: ArrayLike) -> Self:
        """Learn from the next triplets of a stream, once and in the order given; a batch that raises changes nothing.

        Parameters
        ----------
        queries, clicked, skipped : array-like of shape (n_triplets, n_features)
            Vectors as the index knows them. Row t says: for ``queries[t]``, ``clicked[t]`` is a better answer than
            ``skipped[t]``. Some rows may be wrong.

        Returns
        -------
        self
            `plausibility_` then holds one number per triplet.
        """
        check_parameters(self, self._rules)
        return self._learn(queries, clicked, skipped)

    def _learn(self, queries: ArrayLike, clicked: ArrayLike, skipped: ArrayLike) -> Self:
        Q, P, N = self._checked(queries, clicked, skipped)
        whole = self._whole(Q, P, N)
        if not hasattr(self, "similarity_"):
            self._begin(Q[whole], P[whole], N[whole])
        tried = STRENGTHS if self.strength == "auto" else (float(self.strength),)
        if tried != self._tried:
            self._tried = tried
            self._votes = self._no_votes
        learner, votes = copy.copy(self.similarity_), [self._votes]
        plausibility = np.ones(len(Q))
        rows = np.arange(len(Q)) if whole.all() else np.flatnonzero(whole)
        for start in range(0, len(rows), _CHUNK):
            part = rows[start : start + _CHUNK] if not whole.all() else slice(start, start + _CHUNK)
            x = (Q[part] - self.query_mean_) * self._query_unit
            p, n = P[part] * self._item_unit, N[part] * self._item_unit
            votes.append(self._compare(learner, x, p, n))
            learner.partial_fit_triplets(x, p, n)
            plausibility[part] = learner.plausibility_
        self.similarity_ = learner
        self._votes = np.concatenate(votes)[-_WINDOW:]
        self.plausibility_ = plausibility
        self.n_triplets_seen_ = self.n_triplets_seen_ + len(rows)
        self.n_skipped_ = self.n_skipped_ + len(Q) - len(rows)
        self._decide()
        return self

    def _checked(self, *members: ArrayLike) -> list[Array]:
        names = ("queries", "clicked", "skipped")
        first = not hasattr(self, "similarity_")
        width, dtype = (None, None) if first else (self.n_features_in_, self.query_mean_.dtype)
        checked: list[Array] = []
        for name, one in zip(names, members, strict=True):
            found = as_vectors(one, name, width, dtype)
            width, dtype = found.shape[1], found.dtype
            checked.append(found)
        sizes = [len(one) for one in checked]
        if len(set(sizes)) > 1:
            raise ValueError(
                f"SimilarityAdapter: queries, clicked and skipped must have equally many rows; got {sizes}."
            )
        if not sizes[0]:
            raise ValueError("SimilarityAdapter: no triplets came; nothing can be learned from none.")
        return checked

    def _whole(self, *members: Array) -> NDArray[np.bool_]:
        """Which triplets have a direction in all three vectors."""
        whole = np.ones(len(members[0]), dtype=bool)
        for name, one in zip(("queries", "clicked", "skipped"), members, strict=True):
            zero = zero_rows(one)
            if len(zero) and self.bad == "raise":
                raise ValueError(
                    f"SimilarityAdapter: row {zero[0]} of {name} is a zero vector, which has no direction "
                    f"({len(zero):,} such in {len(one):,}). Mend it, or leave such triplets out with bad='skip'."
                )
            whole[zero] = False
        if not whole.any():
            raise ValueError(f"SimilarityAdapter: all {len(whole):,} triplets hold a zero vector; none is left.")
        return whole

    def _begin(self, Q: Array, P: Array, N: Array) -> None:
        """Learn the shift and the units from the first batch."""
        dtype = Q.dtype
        with np.errstate(over="ignore"):
            mean = Q.sum(axis=0, dtype=np.float64) / (len(Q) + _PRIOR)
            spread = np.square(Q - mean, dtype=np.float64).sum(axis=1).mean()
            gap = np.square(P.astype(np.float64) - N).sum(axis=1).mean() / 2
        if not np.isfinite([spread, gap]).all():
            raise ValueError("SimilarityAdapter: the vectors are too long for their squares; divide them by a number.")
        self.n_features_in_ = Q.shape[1]
        self.query_mean_ = mean.astype(dtype)
        self._query_unit = dtype.type(1.0 / np.sqrt(spread) if spread > 0 else 1.0)
        self._item_unit = dtype.type(1.0 / np.sqrt(gap) if gap > 0 else 1.0)
        self.similarity_ = RobustOASIS(
            self.C, loss=self.loss, eta=self.eta, max_hq_iter=self.max_hq_iter, scale=None, random_state=0
        )
        self._tried, self._votes = (), np.empty((0, 1))
        self.n_triplets_seen_ = self.n_skipped_ = 0

    # ------------------------------------------------------------------ do no harm

    def _compare(self, learner: RobustOASIS, x: Array, p: Array, n: Array) -> Array:
        """Votes of queries: share of their triplets in the right order, by the identity and by each strength."""
        if not hasattr(learner, "_state"):
            return self._no_votes
        at = np.unique(np.linspace(0, len(x) - 1, min(_PROBE, len(x))).astype(np.intp))
        x, w = x[at], p[at] - n[at]
        plain = ((x + self.query_mean_ * self._query_unit) * w).sum(axis=1)  # the identity also sees the mean
        extra = ((x @ learner.metric_ - x) * w).sum(axis=1)
        right = np.column_stack([_order(plain + a * extra) for a in (0.0, *self._tried)])
        _, number = np.unique((x @ _probe_direction(x.shape[1])).astype(np.float32), return_inverse=True)
        return np.column_stack([np.bincount(number, one) for one in right.T]) / np.bincount(number)[:, None]

    @property
    def _no_votes(self) -> Array:
        return np.empty((0, 1 + len(self._tried)))

    def _decide(self) -> None:
        """Choose the strength by the votes so far."""
        if len(self._votes) < _ENOUGH:
            self.set_strength(0.0, Interval(0.0, 0.0, 0.0))
            return
        gains = self._votes[:, 1:] - self._votes[:, :1]
        means = gains.mean(axis=0)
        at = int((means >= min(_GOOD * means.max(), means.max())).argmax())
        gain = gains[:, at]
        half = 1.96 * gain.std(ddof=1) / np.sqrt(len(gain))
        found = Interval(float(gain.mean()), float(gain.mean() - half), float(gain.mean() + half))
        self.set_strength(self._tried[at] if found.low > 0 else 0.0, found)

    def set_strength(self, strength: float, gain: Interval) -> Self:
        """Use so much of what was learned until the next `partial_fit`; 0 keeps the identity.

        Parameters
        ----------
        strength : float
            In [0, 1].
        gain : Interval
            Why: the gain over the identity that was measured.

        Returns
        -------
        self
            With the new map.
        """
        check_is_fitted(self, "similarity_")
        if not Real(0.0, 1.0).allows(strength):
            raise ValueError(f"SimilarityAdapter: a strength must be {Real(0.0, 1.0)}; got {strength!r}.")
        self.strength_ = float(strength)
        self.kept_identity_ = self.strength_ == 0.0
        self.gain_ = gain
        self._map = None
        return self

    # ------------------------------------------------------------------ using what was learned

    def map_queries(self, Q: ArrayLike) -> Array:
        """Queries as they are to be sent to the index.

        Parameters
        ----------
        Q : array-like of shape (n_queries, n_features)
            Raw query vectors.

        Returns
        -------
        ndarray of shape (n_queries, n_features)
            Their inner products with the items are the scores.
        """
        check_is_fitted(self, "similarity_")
        Q = as_vectors(Q, "queries", self.n_features_in_, self.query_mean_.dtype)
        if self.kept_identity_:
            return Q.copy()
        A, b = self._affine
        out = Q @ A.T
        out += b
        return out

    def map_items(self, X: ArrayLike) -> Array:
        """Items as they are: the index need not change."""
        check_is_fitted(self, "similarity_")
        return as_vectors(X, "items", self.n_features_in_, self.query_mean_.dtype)

    def transform(self, X: ArrayLike) -> Array:
        """`map_queries`, under the name that pipelines and ``nearkin transform`` use."""
        return self.map_queries(X)

    @property
    def query_map_(self) -> Array:
        """Matrix of the map."""
        return self._affine[0]

    @property
    def query_offset_(self) -> Array:
        """Constant of the map."""
        return self._affine[1]

    @property
    def _affine(self) -> tuple[Array, Array]:
        check_is_fitted(self, "similarity_")
        if self._map is None:
            dtype = self.query_mean_.dtype
            moved = self.strength_ * (self.similarity_.metric_.T.astype(np.float64) - np.eye(self.n_features_in_))
            A = (np.eye(self.n_features_in_) + moved).astype(dtype)
            self._map = A, (-moved @ self.query_mean_).astype(dtype)
        return self._map

    def __sklearn_is_fitted__(self) -> bool:
        """Whether anything was learned."""
        return hasattr(self, "similarity_")


def _order(margins: Array) -> Array:
    """1 for a triplet in the right order, 0 for the wrong one, a half for neither."""
    return 0.5 * (np.sign(margins) + 1.0)


def _probe_direction(d: int) -> Array:
    """Fixed direction along which equal queries, and in practice only they, are equal."""
    return np.random.default_rng(0).normal(size=d)
