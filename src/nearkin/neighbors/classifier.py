"""The classifier: a jury by default, Algorithm 5 where the number of neighbours is given."""

from __future__ import annotations

import copy
import warnings
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from nearkin.accelerator import computing_on
from nearkin.arrays import Array, Codes, Index
from nearkin.errors import InputError, owned_by
from nearkin.jury import JuryDecision, Votes
from nearkin.jury.cost import announce_cost
from nearkin.jury.decision import check_size, decide
from nearkin.jury.learned_spaces import default_learner
from nearkin.jury.local_scaling import narrow
from nearkin.jury.outside import check_models, check_probabilities
from nearkin.jury.voters import WIDE
from nearkin.kernels import worker_pool
from nearkin.labels import Labels, as_labels, as_names, check_labels, sorted_classes
from nearkin.learners import Euclidean, OnlineLearner, join_modalities
from nearkin.neighbors.gathering import Gathered
from nearkin.neighbors.robust_knn import RobustKNN, estimate_rate
from nearkin.noise import NoiseModel
from nearkin.parameters import MappedParameter
from nearkin.reservoir import Reservoir
from nearkin.rows import Rows, Scaling, check_range, check_rows
from nearkin.settings import (
    DEVICE,
    SEED,
    Integer,
    OneOf,
    Real,
    all_or_nothing,
    check_argument,
    check_settings,
    declare,
    exclusive,
    generator,
    setting,
)
from nearkin.stored import ArrayOf, Maybe, Number, Part, Type, stored
from nearkin.tables import encode_rows

__all__ = ["RobustKNeighborsClassifier"]

#: Neighbours where "auto" cannot have a jury.
_FEW = 3

#: Rows that are scaled at the same time.
_AT_ONCE = 1 << 13

#: Most rows that `partial_fit` holds.
_HELD = 10_000

#: What a decision brings with it.
_DECIDED = ("decision_", "_dtype", "_scaling", "_learner", "noise_rate_", "plausibility_", "score_", "kept_")


@stored(
    instead={
        "voters": (
            (),
            "models in `voters` cannot stand in a file: their votes on the training rows are kept, and a "
            "loaded classifier predicts without them",
        )
    },
    together=("decision_", "n_features_in_", "classes_", "_dtype", "_scaling", "noise_rate_", "plausibility_", "kept_"),
    classes_=ArrayOf("k", of="labels"),
    _dtype=Type(),
    _scaling=Maybe(Part(Scaling, d="d")),
    _learner=Part(OnlineLearner, d="d"),
    decision_=Part(JuryDecision, RobustKNN, n="n", c="c", d="d"),
    noise_rate_=Number(0.0, 1.0),
    plausibility_=ArrayOf("n", low=0.0, high=1.0),
    score_=ArrayOf("n", low=0.0, high=1.0),
    kept_=ArrayOf(None, of="codes", low=0, below="n"),
    _columns=ArrayOf("c", of="codes", low=0, below="k"),
    row_numbers_=ArrayOf("n", of="codes", low=0),
    _gathered=Part(Gathered, d="d"),
)
@declare
class RobustKNeighborsClassifier(ClassifierMixin, BaseEstimator):
    """Nearest neighbours under learned measures, robust to wrong labels.

    Parameters
    ----------
    {settings}

    Attributes
    ----------
    noise_rate_ : float
        Share of wrong labels, given or estimated.
    noise_rates_ : ndarray of shape (n_classes,)
        The same for the rows of every class; all equal unless labels clearly say otherwise.
    plausibility_ : ndarray of shape (n_samples,)
        Of every training row; from the jury it is the probability that its label is right.
    score_ : ndarray of shape (n_samples,)
        Only with a jury: votes for the label as given against those for the best other one.
    kept_ : ndarray of int
        Training rows whose labels are not called wrong: with a jury those worth a look are kept
        (``decision_.is_suspect`` has both tiers).
    learner_ : OnlineLearner
        The fitted learner that decides; absent for ``learner="auto"`` with a jury, which learns two spaces of its own
        (see ``decision_.jury.voters``).
    decision_ : JuryDecision or RobustKNN
        What decides.
    classes_ : ndarray
        Sorted classes.
    n_features_in_ : int
        Number of features.
    row_numbers_ : ndarray of int
        Only after `partial_fit`: the rows of the stream, counted from 0, that the attributes above speak of.

    See Also
    --------
    nearkin.audit_labels : The same with reasons, suggestions and a page.

    Notes
    -----
    With a number of neighbours this is Algorithm 5: sort by weight, drop the lowest `noise_rate` share, vote among the
    `n_neighbors` nearest of the rest with the weights as votes. A row with plausibility 1 is never dropped. Equal votes
    go to the class of the nearest neighbour among them. Similarities, also asymmetric ones, work like distances. Where
    a learner has no single map (`LPAODML`, which compares by the metric of the training row's class, and the kernel
    similarities `OKS` and `OMKS`), queries and training rows are compared in blocks, at a cost of n_queries * n_samples
    scores.

    With ``n_neighbors="auto"`` a jury votes (`nearkin.jury.Jury`), and no row has a say about itself. For
    ``learner="auto"`` features beyond two standard deviations from their mean grow by the logarithm only, so that heavy
    tails do not decide who is near.

    - neighbours in the input space; distances are scaled locally, votes fall by rank, with a bandwidth chosen by
      agreement with the labels as given;
    - neighbours in the space of your learner; for ``learner="auto"`` in two spaces, each learned by `RobustLODML` from
      half of the rows, and each judging the other half;
    - ridge regression on the features, and on nearness to landmarks;
    - a forest of random trees, each grown on a part of the rows and judging the others.

    Of several copies of a row one stands for all (`nearkin.jury.find_copies`), so copies do not vouch for each other.

    Their shares lie half way between equal ones and those with which they predict the labels best. Where the jury is
    most certain, contradicted labels are wrong ones: their share is `noise_rate_`, and it depends on the class where
    the most certain rows of the classes say so (`nearkin.noise.estimate_noise_model`). A label's plausibility is its
    posterior probability given the votes, whose certainty is fitted to the labels (`nearkin.noise.rate_labels`).
    Suspects are outvoted labels: those so likely wrong that flagging them serves precision and recall best, and the
    least plausible ones up to a tenth of the rows or so, since wrong labels that follow the features hide from the
    rate; a given rate alone decides how many. No class has many more suspects than flips explain, and a fifth of it
    where it is not rare, and the best two rows of a class never are
    (`nearkin.jury.SuspectRules`). Predictions are the true classes that the votes speak for. Memory is bounded; the
    cost is that of comparing all pairs of rows.

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
    >>> model.votes(X_test[:1]).voters
    ('input space', 'learned spaces', 'ridge on features', 'ridge on landmarks', 'forest')
    """

    learner: str | OnlineLearner | None = setting(
        "auto", kind='"auto", OnlineLearner or None', kw_only=False,
        doc="""Measure to learn: "auto" is `RobustLODML`, None the plain Euclidean distance (on scaled features). A
        learner that is fitted already is used as it is (wrap it in scikit-learn's `FrozenEstimator` to keep it so
        through `clone`); any other is cloned and fitted.""",
    )  # fmt: skip
    n_neighbors: int | str = setting(
        "auto", Integer(1, 1_000_000_000), OneOf(("auto",)), kind='int or "auto"',
        doc="""A number gives Algorithm 5 with that many neighbours; 3 in the paper. "auto" lets a jury vote: up to 60
        neighbours in each of several spaces, two ridge regressions and a forest (see Notes). It needs dense rows and
        a learner of a distance with one map; for others it means 3.""",
    )  # fmt: skip
    noise_rate: float | str = setting(
        "auto", Real(0.0, 1.0, open_high=True), OneOf(("auto",)), kind='float in [0, 1) or "auto"',
        doc="""Share of wrong labels (the eta of Algorithm 5). "auto" estimates it, and whether it depends on the
        class.""",
    )  # fmt: skip
    weights: str = setting(
        "auto", OneOf(("auto", "plausibility", "uniform")), kind='{"auto", "plausibility", "uniform"}',
        doc="""What a label counts in a vote. "plausibility": wrong labels are dropped and others count by their
        plausibility, as in Algorithm 5. "uniform": wrong labels are dropped and others count alike. "auto" with
        ``n_neighbors="auto"``: all count, alike; with a number of neighbours: "plausibility" where `noise_rate` is a
        number, otherwise "uniform". Trust all labels with ``noise_rate=0, weights="uniform"``.""",
    )  # fmt: skip
    random_state: Any = setting(None, SEED, doc="Seed for a learner that has none of its own.")
    voters: Any = setting(
        (), kind="sequence of classifiers",
        doc="""More voters of the jury: any scikit-learn classifiers. Each is fitted five times on scaled rows, to judge
        rows that it has not seen, and once on all rows for `predict`. Files keep their votes on the training rows, but
        not the models themselves.""",
    )  # fmt: skip
    device: str = setting(
        "cpu", DEVICE,
        doc=""""cuda" or "cuda:N" lets the jury of many rows search on an NVIDIA GPU, which needs torch and Triton; the
        votes are those of "cpu" up to rounding.""",
    )  # fmt: skip

    @classmethod
    def algorithm5(
        cls, learner: str | OnlineLearner | None = "auto", *, noise_rate: float | str = "auto",
        weights: str = "plausibility", **parameters: Any,
    ) -> RobustKNeighborsClassifier:  # fmt: skip
        """Return the paper's own form: three neighbours, votes by instance weight.

        Examples
        --------
        >>> RobustKNeighborsClassifier.algorithm5(noise_rate=0.1)
        RobustKNeighborsClassifier(n_neighbors=3, noise_rate=0.1,
                           weights='plausibility')
        """
        return cls(learner, n_neighbors=3, noise_rate=noise_rate, weights=weights, **parameters)

    @staticmethod
    def default_learner(random_state: Any = None) -> OnlineLearner:
        """Return what ``learner="auto"`` stands for, as a learner whose parameters can be changed.

        Examples
        --------
        >>> RobustKNeighborsClassifier.default_learner()
        RobustLODML()
        """
        return default_learner(random_state)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, ``learner__C`` and the like for those of a learner that is given."""
        inner = [name for name in params if name.startswith("learner__")]
        if inner and not isinstance(params.get("learner", self.learner), BaseEstimator):
            raise InputError(
                f"{inner[0]} cannot be set while learner={self.learner!r}; "
                "give a learner first, for example learner=RobustKNeighborsClassifier.default_learner().",
                owner=self,
            )
        return super().set_params(**params)

    # ------------------------------------------------------------------ learning

    @all_or_nothing
    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, groups: ArrayLike | None = None,
        pred_probs: ArrayLike | None = None,
    ) -> Self:  # fmt: skip
        """Learn the measures from raw features (dense or CSR), judge the labels and find the suspects.

        Parameters
        ----------
        X : array-like, CSR matrix or frame of shape (n_samples, n_features)
            Rows. A frame with categories, dates, texts or gaps is encoded by a `TableEncoder`, kept as ``encoder_``.
        y : array-like of shape (n_samples,)
            Labels, some of which may be wrong.
        groups : array-like of shape (n_samples,) or None, default=None
            Group of each row, for example a patient or a document. Rows of a group do not vouch for each other.
        pred_probs : array-like of shape (n_samples, n_classes) or None, default=None
            Probabilities from a model of your own for rows that it has not seen, columns in the order of the sorted
            classes. They vote on the training rows; on new rows the other voters decide.

        Returns
        -------
        self
            Fitted.
        """
        learner, models = self._check_learner(), check_models(self.voters, self)
        check_settings(self)
        X = encode_rows(self, X, reset=True)
        rows = self._check_rows(X, reset=True)
        labels, codes = self._check_labels(y, rows.shape[0])
        self._dtype, self._scaling = rows.dtype, None
        may_have_jury = isinstance(self.n_neighbors, str) and not sparse.issparse(rows)
        if may_have_jury:
            check_size(rows, len(self.classes_), self)
        settings = self.classes_, self.noise_rate, self.weights, self.random_state
        outside: dict[str, Any] = {
            "groups": None if groups is None else self._number_groups(groups, codes),
            "pred_probs": None
            if pred_probs is None
            else check_probabilities(pred_probs, rows.shape[0], self.classes_.tolist(), self),
            "models": models,
        }
        self.decision_: JuryDecision | RobustKNN
        if may_have_jury and isinstance(self.learner, str):
            rows = np.ascontiguousarray(rows)  # sums of a frame, column by column, would round differently
            self._scaling = replace(Scaling.learn(rows, "pairs"), is_tame=True)
            # The decision holds the scaled rows no longer than it needs them.
            with owned_by(self), announce_cost(len(rows), rows.shape[1], len(self.classes_)), self._computing():
                self.decision_ = decide(self._scale_narrow(rows, self._scaling), codes, *settings, **outside)
            self.__dict__.pop("_learner", None)  # of an earlier fit
        else:
            self._learner = self._fit_learner(learner, X, labels)
            parameter = self._learner.state_.parameter
            may_have_jury &= parameter.has_one_space and self._learner.measure.is_distance
            if may_have_jury and isinstance(parameter, MappedParameter):
                has_start = self._learner.state_.start is not None  # which is part of the map
                is_matrix = parameter.has_matrix and (rows.shape[1] <= WIDE or has_start)
                space = self._learner.components_ if is_matrix else parameter.copy()
                with owned_by(self), self._computing():
                    scaled = self._scale_narrow(rows, self._learner.scaling_)
                    self.decision_ = decide(scaled, codes, *settings, space, **outside)
            else:
                self._refuse_outside(outside)
                self.decision_ = self._drop_and_vote(X, rows, labels, codes)
        for name in ("score_", "history_", "_gathered", "_columns", "row_numbers_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if isinstance(self.decision_, JuryDecision):
            self.score_ = self.decision_.score
        self.noise_rate_ = self.decision_.noise.rate
        self.plausibility_ = self.decision_.plausibility
        self.kept_ = self.decision_.kept
        return self

    @all_or_nothing
    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Take up the next labelled rows of a stream, in bounded memory; after `fit`, with a warning, from nothing.

        Up to 10,000 rows are held, every row of a class with the same probability, and equally many of each class if
        there are more. The model is that which `fit` makes of the rows held, made anew after the first call and
        whenever the stream has grown by a quarter; a class that is new waits for half as long. Rows that came since
        do not vote yet. So one row costs on average a few times its part of a `fit`, and some calls take as long as a
        `fit` of the rows held. After the first call the model does not depend on how rows come in batches.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Raw features, dense. A first batch with categories, dates, texts or gaps says how all frames are encoded.
        y : array-like of shape (n_samples,)
            Labels; a class may appear here for the first time.
        classes : array-like or None, default=None
            At the first call: all classes there will be, which `predict_proba` then has columns for. Labels outside
            are refused.

        Returns
        -------
        self
            While all rows are of one class, or fewer than `n_neighbors`, `predict_proba` gives the shares of the
            classes among them.

        See Also
        --------
        nearkin.streams.fit_stream : Files; a learner of your own learns from every row there, here from those held.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> order = np.random.default_rng(0).permutation(150)
        >>> model = RobustKNeighborsClassifier(random_state=0)
        >>> for part in np.split(order, 5):
        ...     _ = model.partial_fit(X[part], y[part], classes=[0, 1, 2])
        >>> bool(model.score(X, y) > 0.9), len(model.row_numbers_)
        (True, 137)
        """
        check_settings(self)
        name, is_first = type(self).__name__, "_gathered" not in vars(self)
        if is_first and "decision_" in vars(self):
            warnings.warn(
                f"{name}.partial_fit begins anew: fit keeps no rows to go on from. Begin with partial_fit, or tell the "
                "rows with nearkin.streams.hold_rows(model, X, y) and go on with nearkin.streams.fit_stream.",
                stacklevel=4,
            )
        X = encode_rows(self, X, reset=is_first)
        if sparse.issparse(X):
            raise InputError("partial_fit holds dense rows; give X.toarray(), or learn in a learner.", owner=self)
        rows = self._check_rows(X, reset=is_first, dtype=None if is_first else self._gathered.held.rows.dtype)
        labels = check_labels(y, rows.shape[0], name)
        gathered = self._start(classes) if is_first else self._gathered.copy()
        if not is_first and classes is not None:
            gathered.numbering.check_declared(as_labels(classes, name).tolist(), name)
        due = gathered.add(rows, labels, name)
        if is_first:
            self._forget_decision()
        made = self._decide_from(due, gathered) if due is not None and self._is_enough(due) else {}
        known = made.pop("classes_") if made else self._known_classes()
        places = {one: at for at, one in enumerate(gathered.numbering.classes.tolist())}
        made["_columns"] = np.array([places[one] for one in known], dtype=np.int64)
        self.__dict__.update(made, _gathered=gathered, classes_=gathered.numbering.classes)
        return self

    def _start(self, classes: ArrayLike | None) -> Gathered:
        name = type(self).__name__
        numbering = Labels(None if classes is None else as_labels(classes, name).tolist())
        return Gathered(Reservoir(_HELD, _HELD, generator(copy.deepcopy(self.random_state))), numbering)

    def _is_enough(self, held: Reservoir) -> bool:
        """Whether rows held are enough to decide from."""
        return len(held.seen) > 1 and len(held) >= (2 if isinstance(self.n_neighbors, str) else self.n_neighbors)

    def _decide_from(self, held: Reservoir, gathered: Gathered) -> dict[str, Any]:
        """Fit a classifier with these settings to rows held, and return what is to be taken from it."""
        other = type(self)(**self.get_params(deep=False)).fit(held.rows, gathered.labels_of(held))
        self._forget_decision()
        made = {name: value for name, value in vars(other).items() if name in _DECIDED}
        return {**made, "classes_": other.classes_.tolist(), "row_numbers_": held.numbers}

    def _forget_decision(self) -> None:
        for name in (*_DECIDED, "history_", "row_numbers_"):
            self.__dict__.pop(name, None)

    def _known_classes(self) -> list[Any]:
        """Classes that the decision knows."""
        return self.classes_[self._columns].tolist() if "decision_" in vars(self) else []

    def _refuse_outside(self, outside: dict[str, Any]) -> None:
        given = [name for name, one in outside.items() if one is not None and (name != "models" or one)]
        if given:
            name = "voters" if given[0] == "models" else given[0]
            raise InputError(f"`{name}` needs a jury: fit dense rows with n_neighbors='auto'.", owner=self)

    def _number_groups(self, groups: ArrayLike, codes: Codes) -> Index:
        """Groups as whole numbers; rows of a class must be left when one of its groups is left out."""
        n_rows = len(codes)
        with owned_by(self):
            names = as_names(groups, "groups")
        if len(names) != n_rows:
            raise InputError(f"X has {n_rows} rows but `groups` has {len(names)}.", owner=self)
        number = sorted_classes(names)[1]
        if number.max() == 0:
            raise InputError(
                f"all rows are in one group, {names[0]!r}, so no row may judge another; give at least two groups.",
                owner=self,
            )
        if len(np.unique(np.column_stack([number, codes]), axis=0)) == codes.max() + 1:
            raise InputError(
                "every class lies in one group, so no row of its class is left to judge another; is `groups` the "
                "label? Give groups that hold several classes or several groups of each.",
                owner=self,
            )
        return number

    def _drop_and_vote(self, X: ArrayLike, rows: Any, labels: NDArray[Any], codes: Codes) -> RobustKNN:
        k = _FEW if isinstance(self.n_neighbors, str) else self.n_neighbors
        is_given = self._learner is getattr(self.learner, "estimator", self.learner)
        plausibility = self._learner.plausibility(X, labels) if is_given else self._learner.plausibility_
        if isinstance(self.noise_rate, str):
            rate, is_weighted = estimate_rate(self._learner, rows, codes, len(self.classes_)), False
        else:
            rate, is_weighted = self.noise_rate, self.weights == "auto"
        return RobustKNN(
            self._learner, X, labels, codes, plausibility, NoiseModel(rate, len(self.classes_)), k,
            is_weighted=is_weighted or self.weights == "plausibility",
        )  # fmt: skip

    # ------------------------------------------------------------------ deciding

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class with most votes; equal votes go to the nearest neighbour among them."""
        model = self._as_fitted()
        return model.classes_[model._find_shares(X).argmax(axis=1)]

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the share of the votes of each class, in the order of `classes_`; rows sum to 1."""
        return self._as_fitted()._find_shares(X)

    def kneighbors(self, X: ArrayLike, n_neighbors: int | None = None) -> tuple[Array, Index]:
        """Return the training rows that decide about each row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_queries, n_features)
            Raw features.
        n_neighbors : int or None
            How many; None for the parameter of the classifier, with a jury for the number that holds most of the votes
            in the input space. There are never more than rows that vote, which are 60 with a jury.

        Returns
        -------
        values : ndarray of shape (n_queries, n_neighbors)
            With a jury: the part of the jury's vote that each row casts through all voters by neighbours, the largest
            first. Otherwise distances, or similarities, the nearest first.
        index : ndarray of shape (n_queries, n_neighbors)
            Training rows, as positions in the X of `fit`. Fewer neighbours are always the first of more.
        """
        model = self._as_decided()
        wanted = model.decision_.n_neighbors if n_neighbors is None else n_neighbors
        check_argument(self, "n_neighbors", wanted, Integer(1, 1_000_000_000))
        return model.decision_.kneighbors(model._ready(X), wanted)

    def votes(self, X: ArrayLike) -> Votes:
        """Return what every voter of the jury says about new rows.

        `predict_proba` undoes the estimated noise in the mixture of these votes, ``votes(X).total``.
        """
        model = self._as_decided()
        return model._jury_decision("votes").votes(model._ready(X))

    def left_out_votes(self, rows: ArrayLike | None = None) -> Votes:
        """Return what every voter of the jury says about training rows without seeing their labels.

        ``rows`` are positions, None is all. Other rows count by their plausibility, as when the labels were judged.
        """
        decision = self._as_decided()._jury_decision("left_out_votes")
        n = len(decision.plausibility)
        which = np.arange(n) if rows is None else np.asarray(rows).ravel()
        if which.dtype.kind not in "iu" or (len(which) and (which.min() < 0 or which.max() >= n)):
            raise InputError(f"`rows` must be positions of training rows, from 0 to {n - 1}; got {rows!r}.", owner=self)
        return decision.left_out_votes(which)

    def embed(self, X: ArrayLike) -> Array:
        """Map rows into the learned space that votes; for the default jury into both, side by side."""
        model = self._as_decided()
        return model.decision_.embed(model._ready(X))

    @property
    def noise_rates_(self) -> Array:
        """Share of wrong labels of every class."""
        check_is_fitted(self)
        return self.decision_.noise.rates

    @property
    def learner_(self) -> OnlineLearner:
        """The fitted learner that decides, where there is one."""
        if "_learner" in self.__dict__:
            return self._learner
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"{type(self).__name__} has no learner_ before fit.")
        raise AttributeError(
            f"{type(self).__name__} has no learner_: its jury learned two spaces, each from half of the rows; see "
            "embed(X) and decision_.jury.voters, or give a learner of your own."
        )

    def __sklearn_tags__(self) -> Any:
        """Takes sparse rows."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is something that decides."""
        return "decision_" in self.__dict__ or "_gathered" in self.__dict__

    def check_stored(self) -> None:
        """Refuse classes that the decision does not know, unless a stream says which it knows."""
        if "_columns" not in vars(self) and len(self.classes_) != self.decision_.noise.n_classes:
            raise ValueError("the classes are not those of the decision")

    # ------------------------------------------------------------------ inside

    def _as_fitted(self) -> Self:
        """Return the classifier as its last fit left it; a fit that runs in another thread is waited for."""
        with exclusive(self):
            check_is_fitted(self)
            return copy.copy(self)

    def _as_decided(self) -> Self:
        model = self._as_fitted()
        if "decision_" not in vars(model):
            raise InputError("the rows so far are too few or of one class, so nothing is decided yet.", owner=self)
        return model

    def _find_shares(self, X: ArrayLike) -> Array:
        if "decision_" not in vars(self):
            n_rows, seen = self._check_rows(encode_rows(self, X, reset=False), reset=False).shape[0], self._gathered
            counts = dict(zip(seen.numbering.codes, seen.held.seen.tolist(), strict=True))
            share = [counts.get(one, 0) / seen.held.n_rows_seen for one in self.classes_.tolist()]
            return np.tile(np.array(share), (n_rows, 1))
        with self._computing():
            shares = self.decision_.predict_proba(self._ready(X))
        if "_columns" not in vars(self):
            return shares
        wide = np.zeros((len(shares), len(self.classes_)))
        wide[:, self._columns] = shares
        return wide

    def _computing(self) -> AbstractContextManager[None]:
        return computing_on(self.device, type(self).__name__)

    def _jury_decision(self, method: str) -> JuryDecision:
        if not isinstance(self.decision_, JuryDecision):
            raise AttributeError(
                f"{type(self).__name__}.{method} needs a jury: fit dense rows with n_neighbors='auto'."
            )
        return self.decision_

    def _ready(self, X: ArrayLike) -> Any:
        """Rows as the decision takes them: scaled for a jury, as given for Algorithm 5, whose learner maps them."""
        X = encode_rows(self, X, reset=False)
        rows = self._check_rows(X, reset=False)
        if isinstance(self.decision_, RobustKNN):
            return rows if "_gathered" in vars(self) else X
        if self._scaling is None:
            rows, scaling = self._learner.check_rows(X), self._learner.scaling_
        else:
            scaling = self._scaling
        scaled = Rows(rows, scaling)
        check_range(scaled, self, "Is that value right?")
        return np.ascontiguousarray(scaled.take(slice(None)))

    def _scale_narrow(self, rows: Array, scaling: Scaling) -> Array:
        """Scaled rows in single precision; no more than a block of them is held in any other."""
        scaled = np.empty(rows.shape, np.float32)

        def scale(start: int) -> None:
            part = Rows(rows[start : start + _AT_ONCE], scaling)
            check_range(part, self, "Is that value right?", start)
            scaled[start : start + _AT_ONCE] = narrow(part.dense)

        with worker_pool() as run:
            run(scale, range(0, len(rows), _AT_ONCE))
        return scaled

    def _check_rows(self, X: ArrayLike, *, reset: bool, dtype: Any = None) -> Any:
        with owned_by(self):
            whole = join_modalities(X)
        if dtype is None:
            dtype = [np.float64, np.float32] if reset or vars(self).get("_scaling") is None else self._dtype
        return check_rows(self, whole, dtype=dtype, reset=reset)

    def _check_labels(self, y: ArrayLike | None, n_rows: int) -> tuple[NDArray[Any], Codes]:
        labels = check_labels(y, n_rows, type(self).__name__)
        self.classes_, codes = sorted_classes(labels)
        if len(self.classes_) < 2:
            raise InputError(
                f"at least two classes are needed; y holds one class, {self.classes_.tolist()}.", owner=self
            )
        if not isinstance(self.n_neighbors, str) and self.n_neighbors > n_rows:
            raise InputError(f"n_neighbors={self.n_neighbors} exceeds the {n_rows} training rows.", owner=self)
        return labels, codes

    def _check_learner(self) -> OnlineLearner | str | None:
        """The learner as given, without the `FrozenEstimator` that may hold a fitted one."""
        learner = getattr(self.learner, "estimator", self.learner)
        if not isinstance(learner, OnlineLearner) and learner is not None and learner != "auto":
            raise InputError(
                f"parameter `learner` must be 'auto', None or a learner of nearkin; got {self.learner!r}.", owner=self
            )
        return learner

    def _fit_learner(self, learner: Any, X: ArrayLike, labels: NDArray[Any]) -> OnlineLearner:
        """The learner, fitted if it is not."""
        if isinstance(learner, OnlineLearner) and learner.__sklearn_is_fitted__():
            if (known := learner.state_.labels).codes:
                known.encode(labels, type(learner).__name__, grow=False)  # others are refused
            return learner
        if not isinstance(learner, OnlineLearner):
            make = Euclidean if learner is None else default_learner
            learner = make(random_state=self.random_state)
        fresh = clone(learner)
        if fresh.random_state is None:
            fresh.set_params(random_state=self.random_state)
        return fresh.fit(X, labels)
