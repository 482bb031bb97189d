"""The estimator shell: validate, delegate, store.

What is learned lives in `nearkin.parameters`, what it is learned from in `nearkin.triplets`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from nearkin import progress
from nearkin.arrays import Array, Index
from nearkin.checks import (
    Instance,
    Integer,
    OneOf,
    Real,
    Rule,
    check_parameters,
    check_rows,
    check_seed,
    generator,
    named_errors,
)
from nearkin.errors import InputError
from nearkin.kernels import one_blas_thread
from nearkin.labels import Labels, as_labels
from nearkin.learners.state import State
from nearkin.losses import Loss, as_loss
from nearkin.measures import Measure
from nearkin.parameters import Parameter
from nearkin.rows import Rows, Scaling, check_range
from nearkin.transactions import all_or_nothing
from nearkin.triplets import Triplets, TripletSource, as_source

__all__ = ["OnlineLearner"]


#: Most features for which a matrix of all pairs of them is formed.
_WIDE = 1024


class OnlineLearner(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of the learners; a learner adds its constructor, its measure and `_begin`, which makes its parameter.

    Examples
    --------
    >>> from nearkin.learners import RobustODML
    >>> isinstance(RobustODML(), OnlineLearner)
    True
    """

    _measure: ClassVar[Measure]
    _by_class: ClassVar[bool] = False
    _is_linear: ClassVar[bool] = True
    _rules: ClassVar[dict[str, tuple[Rule, ...]]] = {
        "C": (Real(0.0, np.inf),),
        "loss": (OneOf(("hinge", "rescaled_hinge")), Instance(Loss, "a Loss object")),
        "eta": (Real(0.0, np.inf, open_high=True),),
        "max_hq_iter": (Integer(1),),
        "n_epochs": (Integer(1),),
        "shuffle": (Instance((bool, np.bool_), "True or False"),),
        "rescore": (Instance((bool, np.bool_), "True or False"),),
        "scale": (OneOf(("auto", "pairs", "unit", None)),),
    }

    C: float
    loss: str | Loss
    eta: float
    max_hq_iter: int
    triplets: str | TripletSource
    n_epochs: int
    shuffle: bool
    scale: str | None
    rescore: bool
    random_state: Any

    _state: State
    plausibility_: Array

    def _begin(self, rows: Rows, rng: np.random.Generator) -> Parameter:
        """Parameter before the first triplet, made from the scaled first batch."""
        raise TypeError(f"{type(self).__name__} must implement _begin().")

    # ------------------------------------------------------------------ learning

    @all_or_nothing
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn from labelled rows, forgetting everything learned before.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Raw features; float32 stays float32.
        y : array-like of shape (n_samples,)
            Labels of any hashable kind, some of which may be wrong.

        Returns
        -------
        self
            The fitted learner, with `plausibility_` for these rows.
        """
        self._check_parameters()
        X = self._check_rows(X, reset=True)
        y = self._check_labels(X, y)
        rng = generator(self.random_state)
        state, rows = self._first_state(X, rng, Labels())
        codes = state.labels.encode(y, self._name)
        self._start_source(state, rows, codes, rng)
        total = len(rows) * self.n_epochs
        with one_blas_thread():
            for epoch in range(self.n_epochs):
                order = rng.permutation(len(rows)) if self.shuffle else np.arange(len(rows))
                here = rows.reordered(order) if self.shuffle else rows
                weight = self._learn_rows(state, here, codes[order], epoch * len(rows), total)
            self._store(state)
            if self.rescore:
                self.plausibility_ = self._score_rows(state, rows, codes)
            else:
                self.plausibility_ = np.empty(len(rows))
                self.plausibility_[order] = weight
        return self

    @all_or_nothing
    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn from the next labelled rows of a stream, once and in the order given.

        The first call fixes what needs a batch: the scale, the centres, the start of a low-rank map. Feeding the same
        rows in other chunks afterwards gives the same model up to rounding. A batch that raises changes nothing.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Raw features.
        y : array-like of shape (n_samples,)
            Labels; a class may appear here for the first time.
        classes : array-like or None, default=None
            At the first call: all classes there will be. Labels outside are then refused. Needed only if the first
            batch holds a single class.

        Returns
        -------
        self
            `plausibility_` then holds the weights with which these rows were learned.
        """
        self._check_parameters()
        first = not self._is_begun
        X = self._check_rows(X, reset=first)
        y = self._check_labels(X, y)
        if first or self._state.source is None:  # nothing is drawn later
            rng = generator(self.random_state)
        if first:
            declared = None if classes is None else as_labels(classes, self._name).tolist()
            state, rows = self._first_state(X, rng, Labels(declared))
        else:
            state = self._state.copy()
            rows = self._scaled(X, state.scaling)
            if classes is not None:
                state.labels.check_declared(as_labels(classes, self._name).tolist(), self._name)
        codes = state.labels.encode(y, self._name)
        if state.source is None:
            self._start_source(state, rows, codes, rng)
        weight = self._learn_rows(state, rows, codes, 0, len(rows))
        self._store(state)
        self.plausibility_ = weight
        return self

    @all_or_nothing
    def fit_triplets(self, anchors: ArrayLike, positives: ArrayLike, negatives: ArrayLike) -> Self:
        """Learn from explicit triplets in the order given, forgetting everything learned before.

        Parameters
        ----------
        anchors, positives, negatives : array-like or CSR matrix of shape (n_triplets, n_features)
            Row t says: ``anchors[t]`` should be closer to ``positives[t]`` than to ``negatives[t]``.

        Returns
        -------
        self
            `plausibility_` holds one number per triplet.
        """
        if hasattr(self, "_state"):
            del self._state
        return self._learn_triplets(anchors, positives, negatives, self.n_epochs)

    @all_or_nothing
    def partial_fit_triplets(self, anchors: ArrayLike, positives: ArrayLike, negatives: ArrayLike) -> Self:
        """Learn from the next explicit triplets of a stream, once and in the order given; see `fit_triplets`."""
        return self._learn_triplets(anchors, positives, negatives, 1)

    def _learn_triplets(self, anchors: ArrayLike, positives: ArrayLike, negatives: ArrayLike, n_epochs: int) -> Self:
        self._check_parameters()
        members = self._check_members(anchors, positives, negatives)
        sizes = [len_of(one) for one in members]
        if len(set(sizes)) > 1:
            raise ValueError(
                f"{self._name}: anchors, positives and negatives must have equally many rows; got {sizes}."
            )
        at = np.arange(sizes[0])
        return self._learn_among(members, at, at + len(at), at + 2 * len(at), n_epochs)

    def _check_members(self, *members: ArrayLike) -> list[Any]:
        """Validated rows of explicit triplets; the first of them say how many features there are."""
        first = not self._is_begun
        return [self._check_rows(one, reset=first and i == 0) for i, one in enumerate(members)]

    def _learn_among(self, members: list[Any], anchor: Index, positive: Index, negative: Index, n_epochs: int) -> Self:
        """Learn from triplets given by their places in the rows of all members, the first of which hold the anchors."""
        together = _stacked(*members)
        if not self._is_begun:
            state, rows = self._first_state(together, generator(self.random_state), Labels())
        else:
            state = self._state.copy()
            rows = self._scaled(together, state.scaling)
        at = np.arange(len(rows))
        origin = np.where(at < len(anchor), at, -1)
        triplets = Triplets(rows, rows, anchor, positive, negative, origin, origin)
        loss = as_loss(self.loss, self.eta)
        with one_blas_thread():
            for _ in range(n_epochs):
                weight = self._learn_set(state, triplets, loss)
        self._check_finite(state.parameter)
        self._store(state)
        self.plausibility_ = weight
        return self

    # ------------------------------------------------------------------ using what was learned

    def transform(self, X: ArrayLike) -> Array:
        """Map rows so that the measure becomes Euclidean distance (or inner product): scaled X times `components_`'.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Raw features.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Mapped rows.
        """
        return self._embedded(X)

    def pair_score(self, X1: ArrayLike, X2: ArrayLike) -> Array:
        """Score of row i of X1 with row i of X2; larger is closer.

        Returns
        -------
        ndarray of shape (n_samples,)
            ``x1' M x2`` for similarities, minus `pair_distance` for distances.
        """
        if self._measure.is_distance:
            return -self.pair_distance(X1, X2)
        left, right = self.map_queries(X1), self.map_items(X2)
        self._check_pairs(left, right)
        return (left * right).sum(axis=1)

    def pair_distance(self, X1: ArrayLike, X2: ArrayLike) -> Array:
        """Distance between row i of X1 and row i of X2, ``sqrt((x1 - x2)' M (x1 - x2))`` (Eq. 1).

        Returns
        -------
        ndarray of shape (n_samples,)
            Distances; only for learners whose measure is one.
        """
        if not self._measure.is_distance:
            raise TypeError(f"{self._name} learns a similarity, which is no distance: use pair_score.")
        left, right = self._embedded(X1), self._embedded(X2)
        self._check_pairs(left, right)
        return np.sqrt(-self._measure.pair_scores(left, right))

    def map_queries(self, X: ArrayLike) -> Array:
        """Left side of the score: scaled X times `query_map_`'. Inner products with `map_items` are the scores."""
        parameter = self._fitted.parameter
        return self._embedded(X) if self._measure.is_distance else self._mapped(X, _times(parameter.query_map))

    def map_items(self, X: ArrayLike) -> Array:
        """Right side of the score: scaled X times `item_map_`'."""
        parameter = self._fitted.parameter
        return self._embedded(X) if self._measure.is_distance else self._mapped(X, _times(parameter.item_map))

    def plausibility(self, X: ArrayLike, y: ArrayLike) -> Array:
        """How plausible the labels of rows are under the learned metric.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Raw features, of rows seen before or new.
        y : array-like of shape (n_samples,)
            Their labels; all must have been in training.

        Returns
        -------
        ndarray of shape (n_samples,)
            In (0, 1]: the smallest weight of the row's triplets, 1 for a row without any (it lies well inside its
            class). With ``loss="hinge"`` every triplet weighs the same, so all are 1.
        """
        state = self._fitted
        if state.source is None:
            raise ValueError(
                f"{self._name} was fitted on explicit triplets and knows no classes; "
                "show it labelled rows with partial_fit first."
            )
        X = self._check_rows(X, reset=False)
        codes = state.labels.encode(self._check_labels(X, y), self._name, grow=False)
        return self._score_rows(state, self._scaled(X, state.scaling), codes)

    # ------------------------------------------------------------------ for neighbours and juries

    @property
    def measure(self) -> Measure:
        """Distance or similarity."""
        return self._measure

    @property
    def has_one_map(self) -> bool:
        """Whether one map serves all rows, so that a search among mapped rows finds neighbours."""
        return not hasattr(self._fitted.parameter, "item_scores")

    @property
    def embedding(self) -> Any:
        """Map of scaled rows: the matrix where there is one and it is not too wide, else an object with `embed`."""
        parameter = self._fitted.parameter
        return self.components_ if self._is_linear and self.n_features_in_ <= _WIDE else parameter.copy()

    def scale_rows(self, X: ArrayLike) -> Array:
        """Rows on the learner's scale, as a dense array."""
        return self._mapped(X, np.asarray)

    def encode_labels(self, labels: NDArray[Any]) -> NDArray[np.int64]:
        """Numbers of labels that were in training."""
        return self._fitted.labels.encode(labels, self._name, grow=False)

    def item_scores(self, queries: Array, items: Array, codes: NDArray[np.int64]) -> Array:
        """Scores of all pairs of scaled rows where no one map serves all; ``codes`` are those of the items."""
        parameter: Any = self._fitted.parameter
        return np.asarray(parameter.item_scores(queries, items, codes))

    # ------------------------------------------------------------------ fitted attributes

    @property
    def metric_(self) -> Array:
        """M on the learner's scale."""
        return self._learned("metric_").parameter.metric

    @property
    def components_(self) -> Array:
        """Map of shape (n_components, n_features); ``transform(X) == scaling_.apply(X) @ components_.T``."""
        with named_errors(self):
            return self._learned("components_").parameter.components

    @property
    def query_map_(self) -> Array:
        """Left side of the score, of shape (n_components, n_features)."""
        return self._learned("query_map_").parameter.query_map

    @property
    def item_map_(self) -> Array:
        """Right side of the score, of shape (n_components, n_features)."""
        return self._learned("item_map_").parameter.item_map

    @property
    def scaling_(self) -> Scaling:
        """Scaling learned at the first batch."""
        return self._learned("scaling_").scaling

    @property
    def triplet_source_(self) -> TripletSource | None:
        """Triplet source with its state; None before labelled rows were seen."""
        return self._learned("triplet_source_").source

    @property
    def classes_(self) -> NDArray[Any]:
        """Classes met so far (or declared), sorted."""
        return self._learned("classes_").labels.classes

    @property
    def n_rows_seen_(self) -> int:
        """Labelled rows learned, repeated passes counted."""
        return self._learned("n_rows_seen_").n_rows

    @property
    def n_triplets_seen_(self) -> int:
        """Triplets learned."""
        return self._learned("n_triplets_seen_").n_triplets

    @property
    def n_updates_(self) -> int:
        """Triplets that moved the metric."""
        return self._learned("n_updates_").n_updates

    # ------------------------------------------------------------------ scikit-learn's side

    def __sklearn_tags__(self) -> Any:
        """Needs labels, takes sparse rows, keeps float32."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Whether anything was learned."""
        return self._is_begun

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    # ------------------------------------------------------------------ inside

    @property
    def _name(self) -> str:
        return type(self).__name__

    @property
    def _is_begun(self) -> bool:
        return hasattr(self, "_state")

    @property
    def _fitted(self) -> State:
        check_is_fitted(self)
        return self._state

    def _learned(self, attribute: str) -> State:
        if not self._is_begun:
            raise AttributeError(f"{self._name} has no {attribute} before fit.")
        return self._state

    def _check_parameters(self) -> None:
        check_parameters(self, self._rules)
        with named_errors(self):
            self._make_source()
            check_seed(self.random_state)

    def _check_rows(self, X: ArrayLike, *, reset: bool) -> Array | sparse.csr_array:
        dtype = [np.float64, np.float32] if reset or not self._is_begun else self._state.dtype
        return check_rows(self, X, dtype=dtype, reset=reset)

    def _check_labels(self, X: Array | sparse.csr_array, y: ArrayLike | None) -> NDArray[Any]:
        if y is None:
            raise ValueError(f"{self._name} requires y to be passed, but the target y is None.")
        labels = as_labels(y, self._name)
        if len(labels) != len_of(X):
            raise ValueError(f"{self._name}: X has {len_of(X)} rows but y has {len(labels)} labels.")
        return labels

    def _check_pairs(self, left: Array, right: Array) -> None:
        if len(left) != len(right):
            raise ValueError(f"{self._name}: X1 and X2 must have equally many rows; got {len(left)} and {len(right)}.")

    def _first_state(self, X: Array | sparse.csr_array, rng: np.random.Generator, labels: Labels) -> tuple[State, Rows]:
        """State before the first triplet, and the scaled first batch."""
        scaling = self._learn_scaling(X)
        rows = self._scaled(X, scaling)
        return State(scaling, self._begin(rows, rng), labels, X.dtype), rows

    def _learn_scaling(self, X: Array | sparse.csr_array) -> Scaling:
        how = self.scale
        if how == "auto":
            how = "pairs" if self._measure.is_distance else "unit"
        return Scaling.learn(X, how)

    def _scaled(self, X: Array | sparse.csr_array, scaling: Scaling) -> Rows:
        rows = Rows(X, scaling)
        hint = "Use scale='auto', or rescale the data." if self.scale is None else "Is that value right?"
        check_range(rows, self._name, hint)
        return rows

    def _make_source(self) -> TripletSource:
        """A fresh triplet source, by the parameters."""
        return as_source(self.triplets)

    def _start_source(self, state: State, rows: Rows, codes: NDArray[np.int64], rng: np.random.Generator) -> None:
        source = self._make_source()
        source.start(rows, codes, state, rng)
        if len(state.labels.classes) < source.n_classes_needed:
            raise InputError(
                f"at least two classes are needed to form triplets; the first batch of {len(rows)} "
                f"rows holds one class, {state.labels.classes.tolist()}. "
                "Pass `classes=` to partial_fit, or rows of a second class.",
                owner=self,
            )
        state.source = source

    def _learn_rows(self, state: State, rows: Rows, codes: NDArray[np.int64], done: int, total: int) -> Array:
        """One pass over rows in order; returns each row's smallest triplet weight."""
        assert state.source is not None
        loss = as_loss(self.loss, self.eta)
        weight = np.ones(len(rows))
        first = state.source.n_rows_seen_
        with one_blas_thread():
            for triplets in state.source.generate(rows, codes, state):
                triplets = self._with_classes(triplets, codes, first)
                plausibility = self._learn_set(state, triplets, loss)
                state.source.receive(triplets, plausibility)
                np.minimum.at(weight, triplets.row_origin[triplets.anchor] - first, plausibility)
                progress.advance("learning", done + state.source.n_rows_seen_ - first, total)
        state.n_rows += len(rows)
        state.forget()
        self._check_finite(state.parameter)
        return weight

    def _with_classes(self, triplets: Triplets, codes: NDArray[np.int64], first: int) -> Triplets:
        """The triplets with the classes of their anchors, if the learner asks for them."""
        if not self._by_class:
            return triplets
        return replace(triplets, classes=codes[triplets.row_origin[triplets.anchor] - first])

    def _learn_set(self, state: State, triplets: Triplets, loss: Loss) -> Array:
        plausibility, updates = state.parameter.learn(triplets, self.C, loss, self.max_hq_iter)
        state.n_triplets += len(triplets)
        state.n_updates += int(updates)
        return plausibility

    def _check_finite(self, parameter: Parameter) -> None:
        """Refuse a parameter that is not finite, or so large that the distances it gives would not be."""
        one = getattr(parameter, "M", getattr(parameter, "L", None))
        for values in getattr(parameter, "sizes", () if one is None else (one,)):
            limit = float(np.finfo(values.dtype).max) ** (0.25 if hasattr(parameter, "L") else 0.5)
            if not np.abs(values).max(initial=0.0) <= limit:
                raise ValueError(self._grew(values.dtype))

    def _grew(self, dtype: np.dtype) -> str:
        names = [name for name in ("C", "step_size", "degree", "coef0") if hasattr(self, name)]
        scale = "" if self.scale in ("auto", "pairs", "unit") else ", or use scale='auto'"
        lower = " or ".join(f"`{name}`" for name in names)
        return f"{self._name}: the steps grew beyond what {np.dtype(dtype)} can hold. Lower {lower}{scale}."

    def _score_rows(self, state: State, rows: Rows, codes: NDArray[np.int64]) -> Array:
        """Plausibility of every row under the metric as it is; nothing is learned."""
        assert state.source is not None
        loss = as_loss(self.loss, self.eta)
        weight = np.ones(len(rows))
        first = state.source.n_rows_seen_
        with one_blas_thread():
            for triplets in state.source.probe(rows, codes, state):
                triplets = self._with_classes(triplets, codes, first)
                now = loss.plausibility(state.parameter.margins(triplets))
                if np.isnan(now).any():
                    raise ValueError(self._grew(state.dtype))
                np.minimum.at(weight, triplets.row_origin[triplets.anchor] - first, now)
        return weight

    def _store(self, state: State) -> None:
        self._state = state

    def _embedded(self, X: ArrayLike) -> Array:
        """`transform` as a plain array, whatever output scikit-learn was told to make of it."""
        with named_errors(self):
            return self._mapped(X, self._fitted.parameter.embed)

    def _mapped(self, X: ArrayLike, mapping: Callable[[Array], Array]) -> Array:
        state = self._fitted
        rows = self._scaled(self._check_rows(X, reset=False), state.scaling)
        return np.concatenate([mapping(block) for _, block in rows.blocks()])


def len_of(X: Any) -> int:
    """Number of rows of a dense or sparse matrix."""
    return int(X.shape[0])


def _times(matrix: Array) -> Callable[[Array], Array]:
    return lambda X: X @ matrix.T


def _stacked(*parts: Any) -> Any:
    if any(sparse.issparse(one) for one in parts):
        return sparse.vstack(parts, format="csr")
    return np.concatenate(parts)
