"""OKS and OMKS with their robust forms: a similarity learned in the feature space of one kernel, or of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.arrays import Array
from nearkin.learners.base import OnlineLearner
from nearkin.learners.groups import StepSettings, StreamSettings
from nearkin.losses import Loss
from nearkin.measures import SIMILARITY
from nearkin.mercer import KERNELS, MercerKernel
from nearkin.parameters import Supports
from nearkin.rows import Rows
from nearkin.settings import Integer, OneOf, Real, at_one_moment, check_settings, declare, setting

__all__ = ["OKS", "OMKS", "KernelMixin", "RobustOKS", "RobustOMKS", "scale_gamma"]

#: Members of other learners that need a finite map.
_NEED_A_MAP = (
    "transform", "fit_transform", "set_output", "get_feature_names_out", "map_queries", "map_items", "pair_distance",
    "metric_", "components_", "query_map_", "item_map_",
)  # fmt: skip

#: Widths of the default rbf kernels, as multiples of gamma="scale".
_WIDTHS = (0.25, 1.0, 4.0)


@declare
class KernelMixin:
    """What the kernel similarities share: there is a score, but no matrix and no map.

    Examples
    --------
    >>> hasattr(OKS(), "transform"), hasattr(OKS(), "pair_score")
    (False, True)
    """

    budget: int = setting(
        500, Integer(1, 1_000_000),
        doc="Most terms that each kernel keeps. Beyond it the oldest is dropped, and with it what that triplet taught.",
    )  # fmt: skip

    measure = SIMILARITY
    remedy = "Lower `budget`, or reduce the features first."

    def _memory_for(self, d: int, itemsize: int) -> float:
        """Of all terms that may come."""
        return 3.0 * self.budget * d * itemsize * self._n_kernels

    _n_kernels = 1

    _fitted: ClassVar[Any]
    _check_pairs: ClassVar[Any]
    map_blocks: ClassVar[Any]

    @at_one_moment
    def pair_score(self, X1: ArrayLike, X2: ArrayLike) -> Array:
        """``S(x1, x2)`` of row i of X1 with row i of X2; larger is closer, and the order of the two matters.

        Returns
        -------
        ndarray of shape (n_samples,)
            Similarities.
        """
        left, right = self.map_blocks(X1, np.asarray), self.map_blocks(X2, np.asarray)
        self._check_pairs(left, right)
        return np.asarray(self._fitted.parameter.pair_scores(left, right))

    def __getattr__(self, name: str) -> Any:
        """Say what to use instead of a member that needs a map."""
        if name in _NEED_A_MAP:
            raise AttributeError(
                f"{type(self).__name__} has no {name}: a similarity in the feature space of a kernel has no matrix and "
                "no finite map. Use pair_score, or RobustKNeighborsClassifier for nearest neighbours."
            )
        return self.__getattribute__(name)


@declare
class OKS(KernelMixin, StreamSettings, StepSettings, OnlineLearner):
    """Online kernel similarity: `OASIS` in the feature space of a kernel, kept as a bounded sum over triplets.

    ``S(x, y) = k(x, y) + sum_i tau_i k(x, x_i) [k(x_i+, y) - k(x_i-, y)]``. A triplet costs five kernel values per
    term, memory is at most ``budget`` terms of three rows however long the stream.

    {sections}

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

    fitted = """
    n_terms_ : int
        Terms of the sum.
    """

    kernel: str = setting(
        "rbf", OneOf(tuple(KERNELS)), kind='{"rbf", "linear", "poly", "cosine"}',
        doc="""``exp(-gamma |x - y|^2)``, ``x'y``, ``(gamma x'y + coef0)^degree`` or ``x'y / (|x| |y|)``.""",
    )  # fmt: skip
    gamma: str | float = setting(
        "scale", OneOf(("scale",)), Real(0.0, np.inf, open_low=True, open_high=True),
        doc="""Of "rbf" and "poly"; "scale" is 1 / (n_features * variance) of the first batch as it is learned from.""",
    )  # fmt: skip
    degree: int = setting(3, Integer(1, 100), doc='Of "poly".')
    coef0: float = setting(1.0, Real(0.0, np.inf, open_high=True), doc='Of "poly".')

    @property
    def n_terms_(self) -> int:
        """Terms of the sum."""
        found: Any = self._learned("n_terms_").parameter
        return int(found.n_terms[0])

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


@declare
class RobustOKS(OKS):
    """`OKS` with the rescaled hinge: an implausible triplet becomes a term of little weight.

    {sections}

    See Also
    --------
    OKS : The same with the plain hinge.

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

    loss: str | Loss = "rescaled_hinge"


class _Kernels:
    """Names of kernels, or dictionaries of what `OKS` takes about one."""

    def allows(self, value: Any) -> bool:
        """At least one kernel, each with right numbers."""
        if value is None:
            return True
        if isinstance(value, (str, dict)) or not isinstance(value, Sequence) or not value:
            return False
        return all(self._is_right(one) for one in value)

    @staticmethod
    def _is_right(one: Any) -> bool:
        given = {"kernel": one} if isinstance(one, str) else one
        if not isinstance(given, dict) or not set(given) <= {"kernel", "gamma", "degree", "coef0"}:
            return False
        try:
            check_settings(OKS(**given))
        except ValueError:
            return False
        return True

    def __str__(self) -> str:
        return (
            "None or a list of kernels, each a name ('rbf', 'linear', 'poly', 'cosine') or a dictionary like "
            "{'kernel': 'rbf', 'gamma': 0.5}"
        )


@declare
class OMKS(KernelMixin, StreamSettings, StepSettings, OnlineLearner):
    """Online multiple kernel similarity: one `OKS` per kernel, ``S = sum_k theta_k S_k`` with weights by Hedge.

    Every kernel learns by itself; when it ranks a triplet wrongly its weight theta_k falls by beta. Costs are those of
    `OKS` times the number of kernels.

    {sections}

    See Also
    --------
    RobustOMKS : The same with the rescaled hinge.
    OKS : A single kernel, with the formulas.
    nearkin.hedge.Hedge : The rule of the weights.

    Notes
    -----
    One operator per kernel and Hedge over them are the article's; its details were not available. Our own reading:
    every kernel takes its own step whatever the others say, a mistake is a margin below zero before the step, mistakes
    are not weighed by plausibility, and the weight of a triplet while learning is the mean of its weights under the
    kernels, by theta before the triplet. See `OKS` for the budget and for what a kernel similarity cannot do.

    References
    ----------
    Xia, Hoi, Jin, Zhao: Online multiple kernel similarity learning for visual search. TPAMI 36(3), 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = OMKS(kernels=["linear", {"kernel": "rbf", "gamma": 2.0}], random_state=0).fit(X, y)
    >>> model.weights_.shape, round(float(model.weights_.sum()), 6)
    ((2,), 1.0)
    """

    fitted = """
    weights_ : ndarray of shape (n_kernels,)
        Weights theta of the kernels, at least 0, with sum 1.
    n_terms_ : ndarray of shape (n_kernels,)
        Terms of each kernel's sum.
    """

    kernels: Sequence[str | dict[str, Any]] | None = setting(
        None, _Kernels(), kind="list or None",
        doc="""Each a name or a dictionary of settings of `OKS`, such as ``{"kernel": "rbf", "gamma": 0.5}``. None is
        "rbf" with a quarter of, once and four times the gamma of "scale", "linear" and "poly".""",
    )  # fmt: skip
    beta: float = setting(
        0.9, Real(0.0, 1.0, open_low=True, open_high=True),
        doc="What a wrong order leaves of a kernel's weight, in (0, 1).",
    )  # fmt: skip

    @property
    def _n_kernels(self) -> int:  # type: ignore[override]
        return len(_WIDTHS) + 2 if self.kernels is None else len(self.kernels)

    @property
    def weights_(self) -> NDArray[np.floating]:
        """Weights theta of the kernels."""
        parameter: Any = self._learned("weights_").parameter
        return np.array(parameter.theta)

    @property
    def n_terms_(self) -> NDArray[np.int64]:
        """Terms of each kernel's sum."""
        parameter: Any = self._learned("n_terms_").parameter
        return np.array(parameter.n_terms)

    def _begin(self, rows: Rows, rng: np.random.Generator) -> Supports:
        scale = scale_gamma(rows)
        if self.kernels is None:
            made = [MercerKernel("rbf", width * scale) for width in _WIDTHS]
            made += [MercerKernel("linear", scale), MercerKernel("poly", scale)]
        else:
            made = [_made(one, scale) for one in self.kernels]
        return Supports(made, rows.n_features, rows.dtype, self.budget, self.beta)


def _made(one: str | dict[str, Any], scale: float) -> MercerKernel:
    like = OKS(kernel=one) if isinstance(one, str) else OKS(**one)
    gamma = scale if isinstance(like.gamma, str) else float(like.gamma)
    return MercerKernel(str(like.kernel), gamma, float(like.coef0), int(like.degree))


@declare
class RobustOMKS(OMKS):
    """`OMKS` with the rescaled hinge: an implausible triplet becomes a term of little weight in every kernel's sum.

    {sections}

    See Also
    --------
    OMKS : The same with the plain hinge.

    Notes
    -----
    C becomes ``C * weight`` for every kernel by itself, as everywhere here; the paper does not name this form. Hedge
    counts mistakes as `OMKS` does.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> wrong = y.copy()
    >>> wrong[0] = 2
    >>> model = RobustOMKS(random_state=0).fit(X, wrong)
    >>> bool(model.plausibility_[0] < 0.7 * model.plausibility_[1])
    True
    """

    loss: str | Loss = "rescaled_hinge"
