"""Votes on the rows of a jury, each by the other rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nearkin.neighbors import RobustKNeighborsClassifier
from nearkin.noise import Flips

__all__ = ["truths", "votes_on"]

Array = NDArray[np.floating]
Codes = NDArray[np.int64]


def votes_on(model: RobustKNeighborsClassifier) -> Callable[[Codes], Array]:
    """Shares of the true classes of some training rows, as plausible other rows have it."""
    assert model._jury is not None
    ask = model._jury.left_out(model.plausibility_)
    return lambda rows: model._flips.settled(ask(rows))


def truths(flips: Flips, shares: Array, codes: Codes) -> Array:
    """Shares of the true classes times the probability that a row of each is labelled as the row is."""
    return shares if flips.matrix is None else shares * flips.matrix[:, codes].T
