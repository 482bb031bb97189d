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
from nearkin.jury.features import Landmarks, Leading
from nearkin.jury.learned_spaces import whitening
from nearkin.jury.local_scaling import LocalNeighbours
from nearkin.jury.ridge import RidgeVotes
from nearkin.jury.voters import CrossVotes, Jury, NeighbourVotes, Space, Voter, into, mixed, stacked
from nearkin.kernels import one_blas_thread
from nearkin.labels import as_labels, sorted_classes
from nearkin.learners import Euclidean, OnlineLearner, RobustLODML, joined
from nearkin.measures import Measure
from nearkin.neighbors._leave_one_out import leave_one_out_votes
from nearkin.neighbors.robust_knn import vote
from nearkin.neighbors.search import BlockSearch, NeighbourSearch
from nearkin.noise import Flips, estimate_flips, estimate_noise_rate, judged
from nearkin.transactions import all_or_nothing

__all__ = ["RobustKNeighborsClassifier"]

Array = NDArray[np.floating]

#: Most rows whose neighbours are asked for the noise rate.
_ASKED = 5000

#: How fast nearness falls with the distance, to choose from.
_SHARPNESS = (1.0, 3.0, 10.0, 30.0)

#: Neighbours where "auto" has no jury.
_FEW = 3

#: Features up to which matrices of all pairs of them are formed.
_WIDE = 1024

#: Most of a class that is doubted beyond what the rate says, and the score below which it is.
_BEYOND_RATE = 0.2
_CLEARLY_LESS = 1.0 / 3.0

#: How many times as many labels of a class are doubted as the estimated flips would have brought there.
_OF_EXPECTED = 1.25

#: Rows of every class that are never dropped, however little speaks for them.
_NEVER_DROPPED = 2

#: Most numbers of a sparse matrix that are made dense for it.
_SPARSE_NUMBERS = 1 << 24


class RobustKNeighborsClassifier(ClassifierMixin, BaseEstimator):
    """Nearest neighbours under a learned measure, robust to wrong labels.

    Parameters
    ----------
    learner : "auto", OnlineLearner or None, default="auto"
        Measure to learn: "auto" is `RobustLODML` with three passes, None the plain Euclidean distance (on scaled
        features). A learner that is fitted already is used as it is (wrap it in scikit-learn's `FrozenEstimator`
        to keep it so through `clone`); any other is cloned and fitted.
    n_neighbors : int or "auto", default="auto"
        "auto" lets up to 60 neighbours in each of several spaces and two smooth functions of the rows vote together
        (see Notes). A number gives Algorithm 5 with so many neighbours; 3 in the paper. "auto" needs dense rows and a
        learner of a distance with one map; for others it means 3.
    noise_rate : float in [0, 1) or "auto", default="auto"
        Share of wrong labels (the eta of Algorithm 5). "auto" estimates it, and whether it depends on the class.
    weights : {"auto", "plausibility", "uniform"}, default="auto"
        What a label counts in a vote. "plausibility": doubtful rows are dropped and others count by their plausibility,
        as in Algorithm 5. "uniform": doubtful rows are dropped and others count alike. "auto" with
        ``n_neighbors="auto"``: all count, alike; with a number of neighbours: "plausibility" where `noise_rate` is a
        number, otherwise "uniform". Trust all labels with ``noise_rate=0, weights="uniform"``.
    random_state : int, Generator, RandomState or None, default=None
        Seed for a learner that has none of its own.

    Attributes
    ----------
    learner_ : OnlineLearner
        Fitted learner.
    noise_rate_ : float
        Share of wrong labels, given or estimated.
    noise_rates_ : ndarray of shape (n_classes,)
        The same for the rows of every class; all equal unless labels say clearly otherwise.
    plausibility_ : ndarray of shape (n_samples,)
        Of every training row; with ``n_neighbors="auto"`` the probability that its label is right.
    score_ : ndarray of shape (n_samples,)
        Only with ``n_neighbors="auto"``: votes for the label as given against those for the best other one, by which
        rows are dropped.
    kept_ : ndarray of int
        Training rows that are not doubtful.
    classes_ : ndarray
        Sorted classes.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    nearkin.audit_labels : The same with reasons, suggestions and a page.

    Notes
    -----
    Algorithm 5: sort by weight, drop the lowest `noise_rate` share, vote among the `n_neighbors` nearest of the rest
    with the weights as votes. A row with plausibility 1 is never dropped. Equal votes go to the class of the nearest
    neighbour among them. Similarities, also asymmetric ones, work like distances. Where a learner has no one map
    (`LPAODML`, which compares by the metric of the training row's class, and the kernel similarities `OKS` and `OMKS`),
    queries and training rows are compared in blocks, at a cost of n_queries * n_samples scores.

    With ``n_neighbors="auto"`` a jury votes (`nearkin.jury.Jury`), in which no row has a say about itself:

    - neighbours in the input space; distances are scaled locally, votes fall by rank, with a bandwidth chosen by
      agreement with the labels as given;
    - neighbours in the space of the learner that was given; for ``learner="auto"`` in two spaces, each learned from
      half of the rows after whitening by the within-class covariance, and each judging the other half;
    - ridge regression on the features, and on nearness to landmarks.

    Their shares lie half way between equal ones and those with which they predict the labels best.
    Where the jury is most certain, contradicted labels are wrong ones: their share is `noise_rate_`, and their
    dependence on the class is taken up where it is significant (`nearkin.noise.estimate_flips`). A label's plausibility
    is its posterior probability given the votes (`nearkin.noise.judged`). Doubtful are rows of the lowest `score_` for
    which another label has more votes: as many as the geometric mean of the number of these and the `noise_rate_` share
    of all rows, no more than twice that share, or just that share where it cannot be told from none or was given.
    Of a class, no more than one and a quarter times as many are doubted as such flips would have brought there. Beyond
    that, up to a fifth of a class that is not rare is doubted where another label has twice the votes. The best two
    rows of a class never are. Predictions are the true classes that the votes speak for. Memory is bounded; the cost is
    that of comparing all pairs of rows.

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
    _jury: Jury | None = None
    score_: Array
    noise_rate_: float

    def __init__(
        self,
        learner: str | OnlineLearner | None = "auto",
        *,
        n_neighbors: int | str = "auto",
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
        RobustKNeighborsClassifier(n_neighbors=3, noise_rate=0.1,
                           weights='plausibility')
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

    @property
    def noise_rates_(self) -> Array:
        """Share of wrong labels of every class."""
        check_is_fitted(self)
        return np.full(len(self.classes_), self.noise_rate_) if self._jury is None else self._flips.rates

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
        self._jury = None
        for of_jury in ("score_", "_flips"):  # of an earlier fit
            self.__dict__.pop(of_jury, None)
        if self._has_jury(checked):
            with one_blas_thread():
                self._summon(checked, codes)
            self.kept_ = self._undoubted(codes)
        else:
            self.noise_rate_ = self._rate(checked, codes)
            # Nothing speaks against a row of plausibility 1, so the order of such rows must not decide.
            self.kept_ = _kept(self.plausibility_, self.noise_rate_, None, 1.0)
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
        check_is_fitted(self)
        if self._jury is not None:
            votes = self._jury.answers(self._scaled(X), self._jury_weights())
            # Where doubtful labels count less, what they would add is gone already.
            return self._flips.true_shares(votes) if self.weights == "auto" else self._flips.settled(votes)
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

    def _has_jury(self, X: Any) -> bool:
        """Whether "auto" can be more than a few neighbours: dense rows, and one map into a space with distances."""
        if not isinstance(self.n_neighbors, str) or sparse.issparse(X):
            return False
        return self._item_scores is None and self.learner_._measure.is_distance

    def _undoubted(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows whose labels are not doubtful; doubtful is only a label that has fewer votes than another one."""
        if not isinstance(self.noise_rate, str):
            return _kept(self.score_, self.noise_rate_, codes, 0.5)
        # The rate is a guess that sees few of the wrong labels that follow the features. Votes see more of them, but
        # also rows where classes overlap: the geometric mean of both is none on clean labels.
        share = float(np.sqrt(self.noise_rate_ * np.mean(self.score_ < 0.5)))
        # At most twice the rate, or just the rate where it cannot be told from none.
        chance = np.sqrt(self.noise_rate_ * (1.0 - self.noise_rate_) * 4.0 / len(codes))
        most = self.noise_rate_ + max(0.0, self.noise_rate_ - float(chance))
        kept = _kept(self.score_, min(most, share), codes, 0.5)
        size, ranks = np.bincount(codes), _ranks_within(self.score_, codes)
        # Where classes overlap, a small one loses most votes, right labels or not: it is doubted as far as flips from
        # the others would explain.
        expected = self._flips.expected_wrong(size)
        most_of_class = np.maximum(_OF_EXPECTED * expected, expected + np.sqrt(expected))
        kept = np.union1d(kept, np.flatnonzero(ranks >= most_of_class[codes]))
        # Where another label has twice the votes, it is doubted whatever the rate, but for no more than a share of a
        # class, and not in rare classes, whose rows have few neighbours of their own.
        of_class = np.where(size >= size.mean() / 2.0, np.floor(_BEYOND_RATE * size), 0.0)
        is_beyond = (self.score_ < _CLEARLY_LESS) & (ranks < of_class[codes])
        return np.setdiff1d(kept, np.flatnonzero(is_beyond), assume_unique=True)

    def _jury_weights(self) -> Array:
        """What each label counts. All count alike unless something else is asked for: voters look at many rows, so that
        wrong labels cancel, and to silence doubtful ones costs right ones near a boundary.
        """
        weights = np.ones(len(self.plausibility_))
        if self.weights != "auto":
            weights[:] = 0.0
            weights[self.kept_] = self.plausibility_[self.kept_] if self.weights == "plausibility" else 1.0
        return weights

    def _vote_weights(self) -> Array:
        """What the vote of each kept row counts."""
        weigh = self.weights == "plausibility" or (self.weights == "auto" and not isinstance(self.noise_rate, str))
        return self.plausibility_[self.kept_] if weigh else np.ones(len(self.kept_))

    def _summon(self, X: Any, codes: NDArray[np.int64]) -> None:
        """Let neighbours in several spaces and smooth functions of the rows vote on every label."""
        k, ones, is_wide = len(self.classes_), np.ones(len(codes)), X.shape[1] > _WIDE
        scaled = self.learner_.scaling_.apply(X)
        leading = Leading(scaled)
        near = NeighbourVotes(LocalNeighbours(scaled.astype(np.float32)), codes, k)
        smooth: list[Voter] = [
            RidgeVotes(scaled, codes, k, [leading]),
            RidgeVotes(scaled, codes, k, [Landmarks(scaled, one) for one in _SHARPNESS]),
        ]
        # These have not seen the label that they judge, so labels as given say how far to trust each, and what they
        # contradict says how many labels are wrong.
        asked = [voter.left_out(ones) for voter in (near, *smooth)]
        shares = stacked(asked, codes, k)
        given = self.noise_rate
        if isinstance(given, str):
            self._flips = estimate_flips(mixed(asked, shares), codes, k)
        else:
            self._flips = Flips(given, k)
        self.noise_rate_ = self._flips.rate
        shares = _half_way(shares)
        if isinstance(self.learner, str):
            # The voters so far say whose labels to trust. Of very many features the leading directions do.
            so_far = Jury([near, *smooth], shares.tolist(), codes, k)
            trust = judged(so_far.left_out, codes, self._flips, n_rounds=1)[0]
            learned: Voter = self._learned_apart(scaled, leading, codes, trust, near)
            shares = _half_way(stacked([asked[0], learned.left_out(ones), *asked[1:]], codes, k))
        else:
            # A network has no matrix.
            has_matrix = self.learner_._is_linear and not is_wide
            space = self.learner_.components_ if has_matrix else self.learner_._fitted.parameter.copy()
            learned = _voter(space, scaled, near)
            # This space has seen all labels: they do not say how far to trust it.
            shares = np.array([shares[0] / 2.0, shares[0] / 2.0, *shares[1:]])
        self._jury = Jury([near, learned, *smooth], shares.tolist(), codes, k)
        self.plausibility_, self.score_ = judged(self._jury.left_out, codes, self._flips)

    def _learned_apart(
        self, scaled: Array, leading: Leading, codes: NDArray[np.int64], trust: Array, near: NeighbourVotes
    ) -> CrossVotes:
        """Neighbours in two spaces, each learned from half of the rows, after the classes were made round."""
        is_wide = scaled.shape[1] > _WIDE
        few = leading.of(scaled) if is_wide else scaled
        # Every other row of a class, in an order that has nothing to do with the features.
        order = np.lexsort((np.random.default_rng(0).random(len(codes)), codes))
        judge = np.empty(len(codes), np.int64)
        judge[order] = np.arange(len(codes)) % 2
        voters = []
        for own in (0, 1):
            other = np.flatnonzero(judge != own)
            if len(np.unique(codes[other])) < 2:  # too few rows to halve
                other = np.arange(len(codes))
            white = whitening(few[other], codes[other], trust[other])
            again = self.default_learner(self.random_state).set_params(scale=None, rescore=False)
            space = again.fit(few[other] @ white.T, codes[other]).components_ @ white
            voters.append(_voter(space @ leading.axes if is_wide else space, scaled, near))
        return CrossVotes(voters, judge)

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
        usual = self.n_neighbors
        if isinstance(usual, str):
            usual = _FEW if self._jury is None else int(self._jury.neighbours[0].bandwidth)
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


def _half_way(shares: Array) -> Array:
    """Half way to equal shares: what was learned from few rows is not to be trusted wholly."""
    return (shares + 1.0 / len(shares)) / 2.0


def _voter(space: Array | Space, scaled: Array, near: NeighbourVotes) -> NeighbourVotes:
    """Neighbours in a learned space, with the bandwidth of the input space."""
    view = LocalNeighbours(into(space, scaled).astype(np.float32))
    return NeighbourVotes(view, near.codes, near.n_classes, near.bandwidth, space)


def _kept(doubt: Array, rate: float, codes: NDArray[np.int64] | None, below: float) -> NDArray[np.int64]:
    """Rows that are not among the ``rate`` share of lowest ``doubt``, which must also lie below a bound."""
    n = len(doubt)
    order = np.argsort(doubt, kind="stable")
    dropped = order[: min(int(np.floor(rate * n + 1e-9)), int(np.count_nonzero(doubt < below)))]
    is_kept = np.ones(n, dtype=bool)
    is_kept[dropped] = False
    if codes is not None:  # a class is not doubted away
        is_kept |= _ranks_within(doubt, codes) >= np.bincount(codes)[codes] - _NEVER_DROPPED
    return np.flatnonzero(is_kept)


def _ranks_within(values: Array, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Place of each row among those of its class, the smallest value first."""
    order = np.lexsort((values, codes))
    size = np.bincount(codes)
    ranks = np.empty(len(codes), np.int64)
    ranks[order] = np.arange(len(codes)) - (np.cumsum(size) - size)[codes[order]]
    return ranks


def _spread(n: int, most: int) -> NDArray[np.int64]:
    """At most ``most`` of n rows, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))
