"""OKS and its robust form: a similarity learned in the feature space of a kernel."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.checks import Integer, OneOf, Real, Rule
from nearkin.learners._docs import documented
from nearkin.learners._preset import with_defaults
from nearkin.learners.base import OnlineLearner
from nearkin.losses import Loss
from nearkin.measures import SIMILARITY
from nearkin.mercer import KERNELS, MercerKernel
from nearkin.parameters import Supports
from nearkin.rows import Rows
from nearkin.triplets import TripletSource

__all__ = ["OKS", "KernelLearner", "RobustOKS", "scale_gamma"]


class _NoMap:
    """Stands where other learners have what needs a finite map, and says what to use instead."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, learner: Any, owner: type | None = None) -> Any:
        if learner is None:
            return self
        raise AttributeError(
            f"{type(learner).__name__} has no {self.name}: a similarity in the feature space of a kernel has no matrix "
            "and no finite map. Use pair_score, or RobustKNeighborsClassifier for nearest neighbours."
        )


class KernelLearner(OnlineLearner, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """What the kernel similarities share: there is a score, but no matrix and no map.

    Examples
    --------
    >>> hasattr(OKS(), "transform"), hasattr(OKS(), "pair_score")
    (False, True)
    """

    _measure = SIMILARITY

    transform: Any = _NoMap()
    fit_transform: Any = _NoMap()
    set_output: Any = _NoMap()
    get_feature_names_out: Any = _NoMap()
    map_queries: Any = _NoMap()
    map_items: Any = _NoMap()
    metric_: Any = _NoMap()
    components_: Any = _NoMap()
    query_map_: Any = _NoMap()
    item_map_: Any = _NoMap()

    def pair_score(self, X1: ArrayLike, X2: ArrayLike) -> NDArray[np.floating]:
        """``S(x1, x2)`` of row i of X1 with row i of X2; larger is closer, and the order of the two matters.

        Returns
        -------
        ndarray of shape (n_samples,)
            Similarities.
        """
        parameter: Any = self._fitted.parameter
        left, right = self._mapped(X1, np.asarray), self._mapped(X2, np.asarray)
        self._check_pairs(left, right)
        return np.asarray(parameter.pair_scores(left, right))

    def __sklearn_tags__(self) -> Any:
        """No transformer."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags = None
        return tags


@documented
class OKS(KernelLearner):
    """Online kernel similarity: `OASIS` in the feature space of a kernel, kept as a bounded sum over triplets.

    ``S(x, y) = k(x, y) + sum_i tau_i k(x, x_i) [k(x_i+, y) - k(x_i-, y)]``. A triplet costs five kernel values per
    term, memory is at most ``budget`` terms of three rows however long the stream.

    Parameters
    ----------
    {steps}
    kernel : {"rbf", "linear", "poly", "cosine"}, default="rbf"
        ``exp(-gamma |x - y|^2)``, ``x'y``, ``(gamma x'y + coef0)^degree`` or ``x'y / (|x| |y|)``.
    gamma : "scale" or float, default="scale"
        Of "rbf" and "poly"; "scale" is 1 / (n_features * variance) of the first batch as it is learned from.
    degree : int, default=3
        Of "poly".
    coef0 : float, default=1.0
        Of "poly".
    budget : int, default=500
        Most terms that are kept. Beyond it the oldest is dropped, and with it what that triplet taught.
    {stream}

    Attributes
    ----------
    n_terms_ : int
        Terms of the sum.
    plausibility_ : ndarray of shape (n_samples,)
        How plausible the label of each row of the last `fit` is, in (0, 1].
    classes_ : ndarray
        Classes met so far.
    scaling_ : Scaling
        What was learned about scale at the first batch.
    triplet_source_ : TripletSource
        With its centres or remembered rows.
    n_features_in_, n_rows_seen_, n_triplets_seen_, n_updates_ : int
        Counters.

    See Also
    --------
    RobustOKS : The same with the rescaled hinge.
    OMKS : Several kernels at once, weighed by how well they do.
    OASIS : What OKS with ``kernel="linear"`` is while no term was dropped.
    RobustKNeighborsClassifier : Nearest neighbours by such a similarity.

    Notes
    -----
    The article's idea and its step, the passive-aggressive one with ``||A||^2 = k(x, x) [k(x+, x+) - 2 k(x+, x-) +
    k(x-, x-)]``, were derived anew and agree with `OASIS` for the linear kernel; its details were not available. Our
    own reading: the sum starts from the kernel itself (the identity operator) rather than from zero. The budget is
    ours too. To drop the oldest term is the simplest rule that adapts to a stream that changes; it forgets what was
    learned first, and the similarity tends back towards the kernel where nothing newer was learned.

    A feature space may have no finite dimension, so that there is no `transform`, `metric_`, `components_` or
    `map_queries`: use `pair_score`, or `RobustKNeighborsClassifier`, which compares in blocks.

    References
    ----------
    Xia, Hoi, Jin, Zhao: Online multiple kernel similarity learning for visual search. TPAMI 36(3), 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = OKS(random_state=0).fit(X, y)
    >>> bool(model.pair_score(X[:1], X[1:2]) > model.pair_score(X[:1], X[149:]))
    True
    """

    _rules: ClassVar[dict[str, tuple[Rule, ...]]] = {
        **OnlineLearner._rules,
        "kernel": (OneOf(tuple(KERNELS)),),
        "gamma": (OneOf(("scale",)), Real(0.0, np.inf, open_low=True, open_high=True)),
        "degree": (Integer(1),),
        "coef0": (Real(0.0, np.inf, open_high=True),),
        "budget": (Integer(1),),
    }

    def __init__(
        self,
        C: float = 0.1,
        *,
        loss: str | Loss = "hinge",
        eta: float = 1.0,
        max_hq_iter: int = 3,
        kernel: str = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        budget: int = 500,
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
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.budget = budget
        self.triplets = triplets
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.scale = scale
        self.rescore = rescore
        self.random_state = random_state

    @property
    def n_terms_(self) -> int:
        """Terms of the sum."""
        parameter: Any = self._learned("n_terms_").parameter
        return int(parameter.n_terms[0])

    def _begin(self, rows: Rows, rng: np.random.Generator) -> Supports:
        gamma = scale_gamma(rows) if isinstance(self.gamma, str) else float(self.gamma)
        kernel = MercerKernel(str(self.kernel), gamma, float(self.coef0), int(self.degree))
        return Supports([kernel], rows.n_features, rows.dtype, self.budget)


def scale_gamma(rows: Rows) -> float:
    """``1 / (n_features * variance)`` of scaled rows; 1 if they are all the same.

    Examples
    --------
    >>> scale_gamma(Rows(np.array([[1.0, 0.0], [-1.0, 0.0]])))
    1.0
    """
    total, squares, n = 0.0, 0.0, len(rows) * rows.n_features
    for _, block in rows.blocks():
        total += float(block.sum(dtype=np.float64))
        squares += float((block * block).sum(dtype=np.float64))
    variance = squares / n - (total / n) ** 2
    gamma = 1.0 / (rows.n_features * variance) if variance > 0.0 else 1.0
    return gamma if np.isfinite(gamma) else 1.0


@documented
@with_defaults(loss="rescaled_hinge")
class RobustOKS(OKS):
    """`OKS` with the rescaled hinge: an implausible triplet becomes a term of little weight.

    Parameters
    ----------
    {steps}
    kernel : {"rbf", "linear", "poly", "cosine"}, default="rbf"
        See `OKS`.
    gamma : "scale" or float, default="scale"
        See `OKS`.
    degree : int, default=3
        See `OKS`.
    coef0 : float, default=1.0
        See `OKS`.
    budget : int, default=500
        See `OKS`.
    {stream}

    Attributes
    ----------
    n_terms_ : int
        Terms of the sum.
    plausibility_ : ndarray of shape (n_samples,)
        How plausible the label of each row of the last `fit` is, in (0, 1].

    See Also
    --------
    OKS : The same with the plain hinge, and all other attributes.

    Notes
    -----
    C becomes ``C * weight``, as everywhere here; the paper does not name this form. A term of little weight still takes
    a place of the budget.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> wrong = y.copy()
    >>> wrong[0] = 2
    >>> model = RobustOKS(random_state=0).fit(X, wrong)
    >>> bool(model.plausibility_[0] < 0.5 * model.plausibility_[1])
    True
    """
