"""Robust-kNN (Algorithm 5)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from nearkin.accelerator import find, is_accelerator
from nearkin.checks import Integer, OneOf, Real, Rule, check_parameters, check_rows, check_seed, named_errors
from nearkin.labels import as_labels, sorted_classes
from nearkin.learners import Euclidean, OnlineLearner, RobustLODML
from nearkin.learners._modalities import joined
from nearkin.learners._state import all_or_nothing
from nearkin.measures import Measure
from nearkin.neighbors._jury import Jury
from nearkin.neighbors._leave_one_out import leave_one_out_votes
from nearkin.neighbors._local import LocalNeighbours
from nearkin.neighbors._search import BlockSearch, NeighbourSearch
from nearkin.neighbors._vote import vote
from nearkin.neighbors._whitening import whitening
from nearkin.noise import estimate_noise_rate, own_share, posterior

__all__ = ["RobustKNeighborsClassifier"]

Array = NDArray[np.floating]

#: Most rows whose neighbours are asked for the noise rate.
_ASKED = 5000

#: Most numbers of a sparse matrix that are made dense for it.
_SPARSE_NUMBERS = 1 << 24


class RobustKNeighborsClassifier(ClassifierMixin, BaseEstimator):
    """Nearest neighbours under a learned measure, with implausible training rows dropped and the others' votes weighed.

    Parameters
    ----------
    learner : "auto", OnlineLearner or None, default="auto"
        Measure to learn: "auto" is `RobustLODML` with three passes, None the plain Euclidean distance (on scaled
        features). A learner that is fitted already is used as it is (wrap it in scikit-learn's `FrozenEstimator`
        to keep it so through `clone`); any other is cloned and fitted.
    n_neighbors : int or "auto", default=3
        Neighbours that vote; 3 in the paper. "auto" lets up to 60 neighbours vote in several spaces, with weights that
        fall by rank (see Notes); for dense rows and learners of a distance with one map.
    noise_rate : float in [0, 1) or "auto", default="auto"
        Share of training rows to drop, the least plausible first (the eta of Algorithm 5). "auto" estimates it from
        neighbours in the input space.
    weights : {"auto", "plausibility", "uniform"}, default="auto"
        What a vote counts: the row's plausibility, as in Algorithm 5, or the same for all. "auto" follows Algorithm 5
        where `noise_rate` is a number; with an estimated rate, rows that were not dropped vote alike, since weights
        would also silence right labels near a boundary. Trust all labels with ``noise_rate=0, weights="uniform"``.
    random_state : int, Generator, RandomState or None, default=None
        Seed for a learner that has none of its own.

    Attributes
    ----------
    learner_ : OnlineLearner
        Fitted learner.
    noise_rate_ : float
        Share of wrong labels, given or estimated.
    plausibility_ : ndarray of shape (n_samples,)
        Of every training row; with ``n_neighbors="auto"`` the probability that its label is right.
    score_ : ndarray of shape (n_samples,)
        Only with ``n_neighbors="auto"``: votes for the label as given against those for the best other one, by which
        rows are dropped.
    kept_ : ndarray of int
        Training rows that vote.
    classes_ : ndarray
        Sorted classes.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    nearkin.noise.estimate_noise_rate : What "auto" does.

    Notes
    -----
    Algorithm 5: sort by weight, drop the lowest `noise_rate` share, vote among the `n_neighbors` nearest of the rest
    with the weights as votes. A row with plausibility 1 is never dropped. Equal votes go to the class of the nearest
    neighbour among them. Similarities, also asymmetric ones, work like distances. Where a learner has no one map
    (`LPAODML`, which compares by the metric of the training row's class, and the kernel similarities `OKS` and `OMKS`),
    queries and training rows are compared in blocks, at a cost of n_queries * n_samples scores.

    With ``n_neighbors="auto"`` three things are added to Algorithm 5. Distances are scaled locally (`LocalNeighbours`).
    Votes fall by rank, with a bandwidth chosen by agreement with the labels as given. Neighbours in the input space, in
    the learned space and, for ``learner="auto"``, in a space learned after whitening by the within-class covariance
    vote together (`Jury`). A label's plausibility is its posterior probability given these votes and the rate
    (`nearkin.noise.posterior`); the `noise_rate` share of the lowest `score_` is dropped, and the others vote with the
    square of their plausibility.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import train_test_split
    >>> from nearkin.noise import flip_labels
    >>> X, X_test, y, y_test = train_test_split(*load_wine(return_X_y=True), random_state=0)
    >>> noisy, is_wrong = flip_labels(y, 0.2, random_state=0)
    >>> model = RobustKNeighborsClassifier(random_state=0).fit(X, noisy)
    >>> bool(model.score(X_test, y_test) > 0.9)
    True
    """

    _rules: ClassVar[dict[str, tuple[Rule, ...]]] = {
        "n_neighbors": (Integer(1), OneOf(("auto",))),
        "noise_rate": (Real(0.0, 1.0, open_high=True), OneOf(("auto",))),
        "weights": (OneOf(("auto", "plausibility", "uniform")),),
    }

    # The index over the voting rows, which is not saved.
    _transient = ("_search",)
    _search: Any = None
    score_: Array

    def __init__(
        self,
        learner: str | OnlineLearner | None = "auto",
        *,
        n_neighbors: int | str = 3,
        noise_rate: float | str = "auto",
        weights: str = "auto",
        random_state: Any = None,
    ):
        self.learner = learner
        self.n_neighbors = n_neighbors
        self.noise_rate = noise_rate
        self.weights = weights
        self.random_state = random_state

    @classmethod
    def algorithm5(
        cls, learner: str | OnlineLearner | None = "auto", *, noise_rate: float | str = "auto", **parameters: Any
    ) -> RobustKNeighborsClassifier:
        """The paper's own form: three neighbours, votes by instance weight.

        Examples
        --------
        >>> RobustKNeighborsClassifier.algorithm5(noise_rate=0.1)
        RobustKNeighborsClassifier(noise_rate=0.1, weights='plausibility')
        """
        return cls(learner, n_neighbors=3, noise_rate=noise_rate, weights="plausibility", **parameters)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, ``learner__C`` and the like for those of a learner that is given."""
        inner = [name for name in params if name.startswith("learner__")]
        if inner and not isinstance(params.get("learner", self.learner), BaseEstimator):
            raise ValueError(
                f"{type(self).__name__}: {inner[0]} cannot be set while learner={self.learner!r}; "
                "give a learner first, for example learner=RobustKNeighborsClassifier.default_learner()."
            )
        return super().set_params(**params)

    @staticmethod
    def default_learner(random_state: Any = None) -> OnlineLearner:
        """What ``learner="auto"`` stands for, as a learner whose parameters can be changed.

        Examples
        --------
        >>> RobustKNeighborsClassifier.default_learner()
        RobustLODML(n_epochs=3)
        """
        return RobustLODML(n_epochs=3, random_state=random_state)

    @all_or_nothing
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn the measure, weigh the rows and keep those that vote.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Raw features.
        y : array-like of shape (n_samples,)
            Labels, some of which may be wrong.

        Returns
        -------
        self
            The fitted classifier.
        """
        check_parameters(self, self._rules)
        owner = type(self).__name__
        with named_errors(self):
            check_seed(self.random_state)
            whole = joined(X)
        checked = check_rows(self, whole, dtype=[np.float64, np.float32], reset=True)
        if y is None:
            raise ValueError(f"{owner} requires y to be passed, but the target y is None.")
        labels = as_labels(y, owner)
        if len(labels) != checked.shape[0]:
            raise ValueError(f"{owner}: X has {checked.shape[0]} rows but y has {len(labels)} labels.")
        self.classes_, codes = sorted_classes(labels)
        if len(self.classes_) < 2:
            raise ValueError(f"{owner} needs at least two classes; y holds one class, {self.classes_.tolist()}.")
        if not isinstance(self.n_neighbors, str) and self.n_neighbors > len(labels):
            raise ValueError(f"{owner}: n_neighbors={self.n_neighbors} exceeds the {len(labels)} training rows.")
        self.learner_, self.plausibility_ = self._learn(X, labels)
        if isinstance(self.n_neighbors, str):
            self._summon(checked, codes)
            doubt = self.score_
        else:
            self.noise_rate_ = self._rate(checked, codes)
            doubt = self.plausibility_
        dropped = int(np.floor(self.noise_rate_ * len(labels) + 1e-9))
        # Nothing speaks against a row of plausibility 1, so the order of such rows must not decide.
        dropped = min(dropped, int(np.count_nonzero(doubt < 1.0)))
        self.kept_ = np.sort(np.argsort(doubt, kind="stable")[dropped:])
        has_map = self._item_scores is None
        self._items = (self.learner_.map_items(X) if has_map else self._scaled(X))[self.kept_]
        self._codes = codes[self.kept_]
        if not has_map:
            self._item_codes = self.learner_._fitted.labels.encode(labels, owner, grow=False)[self.kept_]
        self._search = self._index()
        return self

    def kneighbors(self, X: ArrayLike, n_neighbors: int | None = None) -> tuple[Array, NDArray[np.intp]]:
        """Nearest voting rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_queries, n_features)
            Raw features.
        n_neighbors : int or None
            How many; None for the parameter of the classifier, with "auto" for those that hold most of the votes. At
            most the number of voting rows is given.

        Returns
        -------
        values : ndarray of shape (n_queries, n_neighbors)
            Distances, or similarities; the nearest first.
        index : ndarray of shape (n_queries, n_neighbors)
            Numbers of training rows as given to `fit`.
        """
        values, index = self._neighbours(X, n_neighbors)
        return values, self.kept_[index]

    def predict_proba(self, X: ArrayLike) -> Array:
        """Share of the votes of each class, in the order of `classes_`.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_queries, n_features)
            Raw features.

        Returns
        -------
        ndarray of shape (n_queries, n_classes)
            Rows sum to 1.
        """
        if isinstance(self.n_neighbors, str):
            check_is_fitted(self)
            scaled = self._scaled(X)
            weights = np.zeros(len(self.plausibility_))
            weights[self.kept_] = self._vote_weights()
            return self._jury.votes_for([scaled if one is None else scaled @ one.T for one in self._maps], weights)
        _, index = self._neighbours(X, None)
        return vote(self._codes[index], self._vote_weights()[index], len(self.classes_))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Class with most votes; equal votes go to the nearest neighbour among them.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_queries, n_features)
            Raw features.

        Returns
        -------
        ndarray of shape (n_queries,)
            Classes.
        """
        shares = self.predict_proba(X)
        return self.classes_[shares.argmax(axis=1)]

    def __sklearn_tags__(self) -> Any:
        """Takes sparse rows."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there are rows that vote."""
        return hasattr(self, "_items")

    def _learn(self, X: ArrayLike, labels: NDArray[Any]) -> tuple[OnlineLearner, Array]:
        learner = getattr(self.learner, "estimator", self.learner)  # a FrozenEstimator holds a fitted one
        if learner is None:
            learner = Euclidean(random_state=self.random_state)
        elif isinstance(learner, str) and learner == "auto":
            learner = self.default_learner(self.random_state)
        elif not isinstance(learner, OnlineLearner):
            raise ValueError(
                f"{type(self).__name__}: parameter `learner` must be 'auto', None or a learner of nearkin; "
                f"got {self.learner!r}."
            )
        elif learner.__sklearn_is_fitted__():
            return learner, learner.plausibility(X, labels)
        fresh = clone(learner)
        if fresh.random_state is None:
            fresh.set_params(random_state=self.random_state)
        fitted = fresh.fit(X, labels)
        return fitted, fitted.plausibility_

    def _vote_weights(self) -> Array:
        """What the vote of each kept row counts."""
        if isinstance(self.n_neighbors, str) and self.weights == "auto":
            return self.plausibility_[self.kept_] ** 2
        weigh = self.weights == "plausibility" or (self.weights == "auto" and not isinstance(self.noise_rate, str))
        return self.plausibility_[self.kept_] if weigh else np.ones(len(self.kept_))

    def _summon(self, X: Any, codes: NDArray[np.int64]) -> None:
        """Let neighbours in several spaces vote on every label."""
        owner, k = type(self).__name__, len(self.classes_)
        if sparse.issparse(X) or self._item_scores is not None or not self.learner_._measure.is_distance:
            raise ValueError(
                f"{owner}: n_neighbors='auto' needs dense rows and a learner of a distance with one map; "
                "give a number of neighbours."
            )
        scaled = self.learner_.scaling_.apply(X)
        self._maps: list[Array | None] = [None]
        self._jury = Jury([LocalNeighbours(scaled)], codes, k)
        given = self.noise_rate
        rate = estimate_noise_rate(self._jury.votes(np.ones(len(codes))), codes) if isinstance(given, str) else given
        self.noise_rate_ = float(rate)
        self._join(scaled, self.learner_.components_)
        if isinstance(self.learner, str):
            weights = posterior(self._jury.votes, codes, self.noise_rate_)
            white = whitening(scaled, codes, weights)
            again = self.default_learner(self.random_state).set_params(scale=None, rescore=False)
            self._join(scaled, again.fit(scaled @ white.T, codes).components_ @ white)
        self.plausibility_ = posterior(self._jury.votes, codes, self.noise_rate_)
        self.score_ = own_share(self._jury.votes, codes)

    def _join(self, scaled: Array, space: Array) -> None:
        """One more space for the neighbours that vote: a linear map of scaled rows."""
        self._maps.append(space)
        self._jury.join(LocalNeighbours(scaled @ space.T))

    def _rate(self, X: Any, codes: NDArray[np.int64]) -> float:
        """Share to drop; "auto" asks the neighbours of at most 5,000 rows before any metric was learned."""
        if not isinstance(self.noise_rate, str):
            return float(self.noise_rate)
        if sparse.issparse(X):  # dense rows are needed: as many as fit into a bounded block
            some = _spread(len(codes), max(1000, _SPARSE_NUMBERS // X.shape[1]))
            X, codes = X[some], codes[some]
        which = _spread(len(codes), _ASKED)
        rows = self.learner_.scaling_.apply(X)
        votes = leave_one_out_votes(rows, codes, len(self.classes_), which=which, search=self._search_of)
        return estimate_noise_rate(votes, codes[which])

    def _neighbours(self, X: ArrayLike, n_neighbors: int | None) -> tuple[Array, NDArray[np.intp]]:
        check_is_fitted(self)
        usual = int(self._jury.bandwidth) if isinstance(self.n_neighbors, str) else self.n_neighbors
        wanted = usual if n_neighbors is None else n_neighbors
        if not Integer(1).allows(wanted):
            raise ValueError(f"{type(self).__name__}: `n_neighbors` must be {Integer(1)}; got {wanted!r}.")
        with named_errors(self):
            whole = joined(X)
        check_rows(self, whole, dtype=[np.float64, np.float32], reset=False)
        if self._search is None:  # after loading
            self._search = self._index()
        queries = self.learner_.map_queries(X) if self._item_scores is None else self._scaled(X)
        return self._search.query(queries, min(wanted, len(self._items)))

    def _search_of(self, items: Array, measure: Measure) -> Any:
        """Search among items where the learner learns: here, or on its device."""
        device = getattr(self.learner_, "device", "cpu")
        if not is_accelerator(device):
            return NeighbourSearch(items, measure)
        from nearkin.accelerator.nearest import DeviceSearch

        return DeviceSearch(items, measure, find(device, type(self).__name__))

    def _index(self) -> Any:
        if self._item_scores is None:
            return self._search_of(self._items, self.learner_._measure)
        return BlockSearch(self._items, self._item_codes, self._item_scores, self.learner_._measure)

    @property
    def _item_scores(self) -> Any:
        """How a learner without one map scores scaled rows against items; None if it has one."""
        return getattr(self.learner_._fitted.parameter, "item_scores", None)

    def _scaled(self, X: ArrayLike) -> Array:
        return self.learner_._mapped(X, np.asarray)


def _spread(n: int, most: int) -> NDArray[np.int64]:
    """At most ``most`` of n rows, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))
