"""OMKS and its robust form: similarities in the feature spaces of several kernels, weighed by how well they do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.learners.base import OnlineLearner
from nearkin.learners.groups import StepSettings, StreamSettings
from nearkin.learners.oks import OKS, KernelMixin, scale_gamma
from nearkin.losses import Loss
from nearkin.mercer import MercerKernel
from nearkin.parameters import Supports
from nearkin.rows import Rows
from nearkin.settings import Real, check_settings, declare, setting

__all__ = ["OMKS", "RobustOMKS"]

#: Widths of the default rbf kernels, as multiples of gamma="scale".
_WIDTHS = (0.25, 1.0, 4.0)


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

    Parameters
    ----------
    {settings}

    Attributes
    ----------
    weights_ : ndarray of shape (n_kernels,)
        Weights theta of the kernels, at least 0, with sum 1.
    n_terms_ : ndarray of shape (n_kernels,)
        Terms of each kernel's sum.
    {fitted}

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

    kernels: Sequence[str | dict[str, Any]] | None = setting(
        None,
        _Kernels(),
        kind="list or None",
        doc="""Each a name or a dictionary of settings of `OKS`, such as ``{"kernel": "rbf", "gamma": 0.5}``. None is
        "rbf" with a quarter of, once and four times the gamma of "scale", "linear" and "poly".""",
    )
    beta: float = setting(
        0.9,
        Real(0.0, 1.0, open_low=True, open_high=True),
        kind="float",
        doc="What a wrong order leaves of a kernel's weight, in (0, 1).",
    )

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

    Parameters
    ----------
    {settings}

    Attributes
    ----------
    weights_ : ndarray of shape (n_kernels,)
        Weights theta of the kernels.
    n_terms_ : ndarray of shape (n_kernels,)
        Terms of each kernel's sum.
    {fitted}

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
