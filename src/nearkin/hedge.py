"""Hedge: weights of several experts that fall with their losses."""

from __future__ import annotations

import math
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.errors import InputError
from nearkin.settings import Integer, Real, check_argument
from nearkin.steps import hedge

__all__ = ["Hedge"]

Array = NDArray[np.float64]


class Hedge:
    """Weights over K experts, ``theta_k <- theta_k beta^loss_k`` and normalised, equal at first.

    Whoever follows the experts with these weights loses little more than the best of them, whatever the losses are;
    see `bound`.

    Parameters
    ----------
    n_experts : int
        K.
    beta : float, default=0.9
        What a loss of 1 leaves of a weight, in (0, 1).

    Attributes
    ----------
    weights_ : ndarray of shape (n_experts,)
        At least 0, with sum 1.
    loss_ : float
        What following the weights has cost so far.
    losses_ : ndarray of shape (n_experts,)
        What each expert has lost so far.

    See Also
    --------
    nearkin.OMDML : Weighs modalities so.
    nearkin.steps.hedge : The rule, as compiled loops use it.

    Notes
    -----
    The rule and its bound are those of the article (quoted from memory, the bound tested on random losses); the
    multi-modal learners feed 0 for a right and 1 for a wrong order of a triplet.

    References
    ----------
    Freund, Schapire: A decision-theoretic generalization of on-line learning and an application to boosting. Journal
    of Computer and System Sciences 55(1), 1997.

    Examples
    --------
    >>> experts = Hedge(2, beta=0.5)
    >>> experts.update([0.0, 1.0]).weights_.round(3).tolist()
    [0.667, 0.333]
    >>> experts.loss_ <= experts.bound
    True
    """

    def __init__(self, n_experts: int, beta: float = 0.9):
        check_argument(self, "n_experts", n_experts, Integer(1, 100_000_000))
        check_argument(self, "beta", beta, Real(0.0, 1.0, open_low=True, open_high=True))
        self.n_experts = n_experts
        self.beta = beta
        self.weights_: Array = np.full(n_experts, 1.0 / n_experts)
        self.losses_: Array = np.zeros(n_experts)
        self.loss_ = 0.0

    def update(self, losses: ArrayLike) -> Self:
        """One round.

        Parameters
        ----------
        losses : array-like of shape (n_experts,)
            Of each expert, in [0, 1].

        Returns
        -------
        self
            With new weights.
        """
        given = np.asarray(losses, dtype=np.float64)
        if given.shape != (self.n_experts,) or not np.all((given >= 0.0) & (given <= 1.0)):
            raise InputError(f"`losses` must be {self.n_experts} numbers in [0, 1]; got {losses!r}.", owner=self)
        self.loss_ += float(self.weights_ @ given)
        self.losses_ += given
        hedge(self.weights_, given, self.beta)
        return self

    @property
    def bound(self) -> float:
        """What `loss_` never exceeds: ``(ln K + min(losses_) ln(1 / beta)) / (1 - beta)``."""
        best = float(self.losses_.min())
        return (math.log(self.n_experts) - best * math.log(self.beta)) / (1.0 - self.beta)
