"""A learned similarity in front of an index: queries are mapped, items stay where they are."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from nearkin.arrays import Array, Mask
from nearkin.errors import InputError, Option, Row
from nearkin.learners import RobustOASIS
from nearkin.losses import Loss
from nearkin.measures import SIMILARITY, Measure
from nearkin.search.held_out import HeldOut
from nearkin.search.inputs import as_vectors, check_lengths, zero_rows
from nearkin.search.ranking import Interval
from nearkin.search.versions import IDENTITY, NO_GAIN, MapVersion, ServedMap
from nearkin.settings import (
    Instance,
    Integer,
    OneOf,
    Real,
    all_or_nothing,
    check_argument,
    check_settings,
    declare,
    exclusive,
    setting,
    snapshot,
)
from nearkin.stored import ArrayOf, Count, Flag, Items, Maybe, Number, Part, stored

__all__ = ["STRENGTHS", "SimilarityAdapter", "changing"]

#: Triplets learned at once.
_CHUNK = 2048
#: The mean of the first queries is taken as if this many at the origin had come before them.
_PRIOR = 10

_MEMBERS = ("queries", "clicked", "skipped")

#: Strengths to choose from.
STRENGTHS = (0.03, 0.1, 0.2, 0.3, 0.5, 1.0)
#: Versions that are kept, beside the identity.
_KEPT = 5

#: Least share of the best gain with which a weaker, and so safer, strength is taken.
_GOOD = 2 / 3
#: Most triplets of a batch that vote.
_PROBE = 512
#: Votes that count: the newest ones, once there are enough of them.
_WINDOW = 4096
_ENOUGH = 30


@stored(
    but=("_served",),
    together=(
        "similarity_", "n_features_in_", "query_mean_", "_query_unit", "_item_unit", "_tried", "_votes", "strength_",
        "kept_identity_", "gain_", "n_triplets_seen_", "n_skipped_", "versions_",
    ),
    query_mean_=ArrayOf("d", dtype="T"),
    _query_unit=Number(),
    _item_unit=Number(),
    similarity_=Part(RobustOASIS, d="d"),
    _tried=Items(Number(0.0, 1.0), "t"),
    _votes=ArrayOf(None, "t+1"),
    n_triplets_seen_=Count(),
    n_skipped_=Count(),
    plausibility_=ArrayOf(None, low=0.0, high=1.0),
    strength_=Number(0.0, 1.0),
    kept_identity_=Flag(),
    gain_=Part(Interval),
    move_=Maybe(ArrayOf("d", "d", dtype="T")),
    softmax_=Maybe(ArrayOf("d", "d", dtype="T")),
    ridge_=Maybe(ArrayOf("d", "d", dtype="T")),
    n_clicks_=Maybe(Count()),
    held_out_=Maybe(Part(HeldOut, d="d", T="T")),
    versions_=Maybe(Items(Part(MapVersion, d="d", T="T"), least=1)),
    version_=Maybe(Count()),
)  # fmt: skip
@declare
class SimilarityAdapter(TransformerMixin, BaseEstimator):
    """Query map learned from clicks, in front of an inner-product index that stays as it is.

    Robust-OASIS learns M online from (query, clicked, skipped). Instead of a query q the index then gets
    ``q + strength (M' - I)(q - mean)``, so that inner products with the unchanged items are the learned similarity.
    Strength 0 is the identity, which the adapter keeps until new feedback shows that the map is better.

    A triplet costs O(d^2), a query one product with a d x d matrix; memory is a few such matrices.

    Parameters
    ----------
    {settings}

    Attributes
    ----------
    kept_identity_ : bool
        Whether queries pass unchanged, because no gain was shown.
    strength_ : float
        How much of what was learned is used; 0 for the identity.
    gain_ : Interval
        The gain over the identity that decided. After `partial_fit`: in the share of new triplets in the right order,
        measured before they are learned. After `nearkin.search.adapt`: in its ranking measure on held-out queries.
    query_map_ : ndarray of shape (n_features, n_features)
        Matrix A of ``map_queries(Q) == Q @ A.T + query_offset_``.
    query_offset_ : ndarray of shape (n_features,)
        Added to every mapped query.
    plausibility_ : ndarray of shape (n_triplets,)
        Of the triplets of the last call, in (0, 1]; small for clicks that look wrong, 1 for skipped triplets.
    similarity_ : RobustOASIS
        Holds M, on the scale on which the margin 1 means something.
    n_triplets_seen_, n_skipped_ : int
        Triplets learned from, and skipped: those with a zero vector, and those of held-out queries.
    move_ : ndarray of shape (n_features, n_features) or None
        Matrix D of the map ``q + strength_ D (q - mean)`` that `adapt` checked; None before, and D is then M' - I.
        `partial_fit` learns on, but leaves this map and its strength as they are until the next `adapt`.
    softmax_, ridge_ : ndarray of shape (n_features, n_features) or None
        The D that `adapt` learned by softmax, and by ridge regression, on all days, from `n_clicks_` clicks.
    held_out_ : HeldOut or None
        Queries that `adapt` keeps for its check, with their clicks; no method learns from them.
    versions_ : tuple of MapVersion
        The identity and the newest five maps of `adapt` and `keep_version`, oldest first; see `rollback`.
    version_ : int or None
        Number of the version in use; None while the map follows the stream.

    See Also
    --------
    adapt : From vectors and a table of feedback to a checked adapter.
    Index : Search with it.

    Notes
    -----
    Two shifts are free, since they change no ranking: items enter through their differences only, and the mean of the
    queries (of the first batch) is taken out before and put back after. Without that, vectors with a large common part
    teach which items are popular rather than which belong together.

    The check is progressive: the identity and the learned map score some triplets of every batch before the map learns
    from them, one vote per query and batch. The map is used while the lower end of the 95 % interval of its gain over
    the last 4,096 votes is above zero, at the smallest strength that has two thirds of the best gain: the right order
    of single pairs says little about the first ten results, where a strong map can do harm.

    Any number of threads may map queries while others learn or roll back: a call sees one whole version, and never
    waits. Calls that change the adapter take turns; one that raises changes nothing.

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

    measure: ClassVar[Measure] = SIMILARITY

    C: float = setting(
        0.1, Real(0.0, np.inf), kind="float", kw_only=False,
        doc="Aggressiveness: upper bound on a step before robust weighting.",
    )  # fmt: skip
    eta: float = setting(
        0.5, Real(0.0, np.inf, open_high=True), kind="float",
        doc="How fast the weight of a triplet falls with its loss; near 0 every click is trusted.",
    )  # fmt: skip
    loss: str | Loss = setting(
        "rescaled_hinge", OneOf(("hinge", "rescaled_hinge")), Instance(Loss, "a Loss object"), kind="str or Loss",
        doc="As in `nearkin.RobustOASIS`.",
    )  # fmt: skip
    max_hq_iter: int = setting(3, Integer(1, 1000), kind="int", doc="Half-quadratic iterations per triplet.")
    strength: str | float = setting(
        "auto", OneOf(("auto",)), Real(0.0, 1.0), kind='"auto" or float in [0, 1]',
        doc='How much of what was learned is used; "auto" chooses among six values.',
    )  # fmt: skip
    bad: str = setting(
        "raise", OneOf(("raise", "skip")), kind='{"raise", "skip"}',
        doc="What to do with triplets that hold a zero vector: raise an error that names the row, or skip them and "
            "count them in `n_skipped_`.",
    )  # fmt: skip

    # ------------------------------------------------------------------ learning

    @all_or_nothing
    def fit(self, queries: ArrayLike, clicked: ArrayLike, skipped: ArrayLike) -> Self:
        """Learn from triplets, forgetting everything learned before; see `partial_fit`."""
        check_settings(self)
        with changing(self) as new:
            for name in vars(new).keys() - new.get_params().keys():
                delattr(new, name)
            new._learn(queries, clicked, skipped)
        return self

    @all_or_nothing
    def partial_fit(self, queries: ArrayLike, clicked: ArrayLike, skipped: ArrayLike) -> Self:
        """Learn from the next triplets of a stream, once and in the order given; a batch that raises changes nothing.

        Parameters
        ----------
        queries, clicked, skipped : array-like of shape (n_triplets, n_features)
            Vectors as the index knows them. Row t says: for ``queries[t]``, ``clicked[t]`` is a better answer than
            ``skipped[t]``. Some rows may be wrong; `plausibility_` then says which look so.
        """
        check_settings(self)
        with changing(self) as new:
            new._learn(queries, clicked, skipped)
        return self

    def _begin(self, Q: Array, P: Array, N: Array) -> None:
        """Learn the shift and the units from the first batch."""
        dtype = Q.dtype
        with np.errstate(over="ignore"):
            mean = Q.sum(axis=0, dtype=np.float64) / (len(Q) + _PRIOR)
            spread = np.square(Q - mean, dtype=np.float64).sum(axis=1).mean()
            gap = np.square(P.astype(np.float64) - N).sum(axis=1).mean() / 2
        if not np.isfinite([spread, gap]).all():
            raise InputError("the squares of the vectors overflow; divide the vectors by a number.", owner=self)
        self.n_features_in_ = Q.shape[1]
        self.query_mean_ = mean.astype(dtype)
        self._query_unit = dtype.type(1.0 / np.sqrt(spread) if spread > 0 else 1.0)
        self._item_unit = dtype.type(1.0 / np.sqrt(gap) if gap > 0 else 1.0)
        self.similarity_ = RobustOASIS(
            self.C, loss=self.loss, eta=self.eta, max_hq_iter=self.max_hq_iter, scale=None, random_state=0
        )
        self._tried: tuple[float, ...] = ()
        self._votes: Array = np.empty((0, 1))
        self.n_triplets_seen_ = self.n_skipped_ = 0
        self.versions_: tuple[MapVersion, ...] = (IDENTITY,)

    def _learn(self, *triplets: ArrayLike) -> None:
        members = self._check_triplets(triplets)
        usable = self._find_usable(members)
        pool: HeldOut | None = getattr(self, "held_out_", None)
        if pool is not None:  # what tests must not teach
            usable &= pool.learns(members[0])
        if not usable.any():
            self.n_skipped_ += len(usable)
            self.plausibility_ = np.ones(len(usable))
            return
        Q, P, N = members if usable.all() else [one[usable] for one in members]
        if not hasattr(self, "similarity_"):
            self._begin(Q, P, N)
        tried = STRENGTHS if self.strength == "auto" else (float(self.strength),)
        if tried != self._tried:
            self._tried = tried
            self._votes = np.empty((0, 1 + len(tried)))
        learner, votes, plausibility = copy.copy(self.similarity_), [self._votes], []
        for start in range(0, len(Q), _CHUNK):
            part = slice(start, start + _CHUNK)
            x = (Q[part] - self.query_mean_) * self._query_unit
            p, n = P[part] * self._item_unit, N[part] * self._item_unit
            if learner.__sklearn_is_fitted__():
                votes.append(_compare_orders(x, self.query_mean_ * self._query_unit, p, n, learner.metric_, tried))
            learner.partial_fit_triplets(x, p, n)
            plausibility.append(learner.plausibility_)
        self.similarity_ = learner
        self._votes = np.concatenate(votes)[-_WINDOW:]
        self.plausibility_ = np.ones(len(usable))
        self.plausibility_[usable] = np.concatenate(plausibility)
        self.n_triplets_seen_ += len(Q)
        self.n_skipped_ += len(usable) - len(Q)
        if getattr(self, "move_", None) is None:
            self._use(*_choose_strength(self._votes, tried))

    def _check_triplets(self, triplets: tuple[ArrayLike, ...]) -> list[Array]:
        is_first = not hasattr(self, "similarity_")
        width, dtype = (None, None) if is_first else (self.n_features_in_, self.query_mean_.dtype)
        checked: list[Array] = []
        for name, one in zip(_MEMBERS, triplets, strict=True):
            found = as_vectors(one, name, width, dtype)
            check_lengths(found, name)
            width, dtype = found.shape[1], found.dtype
            checked.append(found)
        sizes = [len(one) for one in checked]
        if len(set(sizes)) > 1:
            raise InputError(f"queries, clicked and skipped must have equally many rows; got {sizes}.", owner=self)
        if not sizes[0]:
            raise InputError("there are no triplets to learn from.", owner=self)
        return checked

    def _find_usable(self, members: list[Array]) -> Mask:
        """Return which triplets have a direction in all three vectors."""
        usable = np.ones(len(members[0]), dtype=bool)
        for name, one in zip(_MEMBERS, members, strict=True):
            zero = zero_rows(one)
            if len(zero) and self.bad == "raise":
                raise InputError(
                    f"{{row}} of {name} is a zero vector, which has no direction ({len(zero):,} of {len(one):,} rows). "
                    "Correct it, or skip such triplets with {skip}.",
                    owner=self, row=Row(zero[0]), skip=Option("bad", "skip"),
                )  # fmt: skip
            usable[zero] = False
        if not usable.any():
            raise InputError(f"all {len(usable):,} triplets hold a zero vector.", owner=self)
        return usable

    # ------------------------------------------------------------------ which map is served

    @all_or_nothing
    def set_strength(self, strength: float, gain: Interval | None = None) -> Self:
        """Use this much of what was learned until the next decision; ``set_strength(0.0)`` takes a map back.

        ``gain`` is what justifies it; None leaves the last one.
        """
        check_is_fitted(self, "similarity_")
        check_argument(self, "strength", strength, Real(0.0, 1.0))
        with changing(self) as new:
            new._use(strength, getattr(self, "gain_", NO_GAIN) if gain is None else gain)
        return self

    @all_or_nothing
    def keep_version(self, measure: str = "") -> Self:
        """Keep the map in use as a version, to which `rollback` can return; `adapt` does it after its checks.

        ``measure`` is the name of what gained; empty stands for pairs put right in a stream.
        """
        check_is_fitted(self, "similarity_")
        with changing(self) as new:
            number = self.versions_[-1].number + 1
            looks = 0 if getattr(self, "held_out_", None) is None else self.held_out_.n_looks
            move = None if self.kept_identity_ else self._learned_move()
            made = MapVersion(number, looks, self.n_triplets_seen_, self.strength_, self.gain_, move, measure)
            new.versions_ = (IDENTITY, *(*self.versions_[1:], made)[-_KEPT:])
            new.version_ = number
        return self

    @all_or_nothing
    def rollback(self, to: int | None = None) -> Self:
        """Serve an earlier version of the map, at once and in all threads.

        The version is served until the next `adapt` decides, or `resume` is called; learning goes on meanwhile. Newer
        versions stay in `versions_`, so that one can also go forward again.

        Parameters
        ----------
        to : int or None, default=None
            Number of the version; None is the one before the version in use. 0, the identity, is always there.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> items, (clicked, skipped) = rng.normal(size=(500, 8)), rng.integers(0, 500, size=(2, 4000))
        >>> queries = np.roll(items[clicked], 1, axis=1)
        >>> adapter = SimilarityAdapter().fit(queries, items[clicked], items[skipped]).keep_version()
        >>> adapter.rollback().version_, adapter.kept_identity_
        (0, True)
        >>> adapter.rollback(1).version_, adapter.kept_identity_
        (1, False)
        """
        check_is_fitted(self, "similarity_")
        numbers = [one.number for one in self.versions_]
        if to is None:
            now = getattr(self, "version_", None)
            to = max((one for one in numbers if now is None or one < now), default=0)
        if isinstance(to, bool) or to not in numbers:
            raise InputError(f"there is no version {to!r}; {_list_numbers(numbers)}.", owner=self)
        found = self.versions_[numbers.index(to)]
        with changing(self) as new:
            zero = np.zeros((self.n_features_in_, self.n_features_in_), self.query_mean_.dtype)
            new.move_ = zero if found.move is None else found.move
            new._use(found.strength, found.gain)
            new.version_ = found.number
        return self

    @all_or_nothing
    def resume(self) -> Self:
        """Let the map follow the stream of `partial_fit` again, after a `rollback` or an `adapt`."""
        check_is_fitted(self, "similarity_")
        with changing(self) as new:
            new.move_ = None
            new._use(*_choose_strength(self._votes, self._tried))
        return self

    def _use(self, strength: float, gain: Interval) -> None:
        """Serve what was learned at a strength."""
        self.strength_ = float(strength)
        self.kept_identity_ = self.strength_ == 0.0
        self.gain_ = gain
        self.version_: int | None = None
        self._served = self._make_served()

    def _make_served(self) -> ServedMap:
        return ServedMap(self.query_mean_, self.strength_, None if self.kept_identity_ else self._learned_move())

    def _learned_move(self) -> Array:
        """Return D of the map ``q + strength D (q - mean)`` in use."""
        move: Array | None = getattr(self, "move_", None)
        if move is not None:
            return move
        metric = self.similarity_.metric_
        return np.ascontiguousarray(metric.T - np.eye(len(metric), dtype=metric.dtype), dtype=self.query_mean_.dtype)

    # ------------------------------------------------------------------ using what was learned

    def map_queries(self, Q: ArrayLike) -> Array:
        """Return raw queries as the index should get them: their inner products with the items are the scores."""
        return (vars(self).get("_served") or self._serve()).apply(Q)

    def map_items(self, X: ArrayLike) -> Array:
        """Return items as they are: the index need not change."""
        check_is_fitted(self, "similarity_")
        return as_vectors(X, "items", self.n_features_in_, self.query_mean_.dtype)

    def transform(self, X: ArrayLike) -> Array:
        """Apply `map_queries`, under the name that pipelines and ``nearkin transform`` use."""
        return self.map_queries(X)

    @property
    def query_map_(self) -> Array:
        """Matrix of the map."""
        return self._serve().matrix

    @property
    def query_offset_(self) -> Array:
        """Constant of the map."""
        return self._serve().offset

    def _serve(self) -> ServedMap:
        """Return the map in use; it is made here only after loading."""
        check_is_fitted(self, "similarity_")
        served: ServedMap | None = vars(self).get("_served")
        if served is None:
            with exclusive(self):  # so that it is not made of two versions
                served = self._served = self._make_served()
        return served

    def __sklearn_is_fitted__(self) -> bool:
        """Whether anything was learned."""
        return hasattr(self, "similarity_")


@contextmanager
def changing(adapter: SimilarityAdapter) -> Iterator[SimilarityAdapter]:
    """Change a copy, which takes the adapter's place at once, for all threads, unless the block raises."""
    with exclusive(adapter):
        new = snapshot(adapter)
        yield new
        adapter.__dict__ = new.__dict__


def _list_numbers(numbers: list[int]) -> str:
    return "kept are " + ", ".join(str(one) for one in numbers) if len(numbers) > 1 else "only the identity, 0, is kept"


# ---------------------------------------------------------------------- how strongly the map is used


def _compare_orders(
    x: Array, mean: Array, clicked: Array, skipped: Array, metric: Array, strengths: tuple[float, ...]
) -> Array:
    """Let queries vote: which share of their pairs do the identity and each strength put in the right order?

    ``x`` are queries without their mean, and ``metric`` is M, learned from earlier batches. A query has one vote (a row
    of shape 1 + n_strengths), however many clicks it has.
    """
    at = np.unique(np.linspace(0, len(x) - 1, min(_PROBE, len(x))).astype(np.intp))
    x, gap = x[at], clicked[at] - skipped[at]
    plain = ((x + mean) * gap).sum(axis=1)  # the identity also sees the mean
    extra = ((x @ metric - x) * gap).sum(axis=1)
    in_order = [0.5 * (np.sign(plain + a * extra) + 1.0) for a in (0.0, *strengths)]  # a tie is half right
    direction = np.random.default_rng(0).normal(size=x.shape[1])  # along it only equal queries are equal
    _, number = np.unique((x @ direction).astype(np.float32), return_inverse=True)
    return np.column_stack([np.bincount(number, one) for one in in_order]) / np.bincount(number)[:, None]


def _choose_strength(votes: Array, strengths: tuple[float, ...]) -> tuple[float, Interval]:
    """Return the weakest strength with most of the best gain, or 0 if its gain is not surely positive; and the gain."""
    if len(votes) < _ENOUGH:
        return 0.0, NO_GAIN
    gains = votes[:, 1:] - votes[:, :1]
    means = gains.mean(axis=0)
    at = int((means >= min(_GOOD * means.max(), means.max())).argmax())
    gain = gains[:, at]
    half = 1.96 * gain.std(ddof=1) / np.sqrt(len(gain))
    found = Interval(float(gain.mean()), float(gain.mean() - half), float(gain.mean() + half))
    return (strengths[at] if found.low > 0 else 0.0), found
