"""How many labels are wrong, from plausibilities alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.losses import Loss

__all__ = ["estimate_noise_rate", "margins_of"]

#: Shares of the most certain rows that are asked; the smaller answer is taken.
_CERTAIN = (0.25, 0.5)


def margins_of(plausibility: ArrayLike, loss: Loss) -> NDArray[np.floating]:
    """Margins ``z`` that would give these plausibilities, at most 1 (where the hinge ends).

    Examples
    --------
    >>> from nearkin.losses import RescaledHinge
    >>> margins_of([1.0, np.exp(-1.0)], RescaledHinge(1.0)).round(6).tolist()
    [1.0, 0.0]
    """
    grid = np.concatenate([-np.logspace(3, 0, 2001), np.linspace(-1, 1, 4001)[1:]])
    known = loss.plausibility(grid)
    rising = np.append(True, np.diff(known) > 0)
    return np.interp(np.log(np.asarray(plausibility)), np.log(known[rising]), grid[rising])


def estimate_noise_rate(plausibility: ArrayLike, loss: Loss) -> float:
    """Share of wrong labels among the rows whose class is most certain.

    A row with margin ``z < 0`` lies nearer to another class than to its own. Near a boundary that happens to
    rightly labelled rows too, so only rows with a large ``|z|`` are asked, whichever way they point: there a right
    label gives ``z > 0`` and a wrong one ``z < 0``. The share of the latter is taken among the most certain
    quarter and half; the smaller one counts.

    Parameters
    ----------
    plausibility : array-like of shape (n_samples,)
        In (0, 1], as learners give it.
    loss : Loss
        The loss behind it. With the plain hinge every plausibility is 1, which is no evidence: the answer is 0.

    Returns
    -------
    float
        In [0, 0.5].

    Notes
    -----
    Assumes that wrong labels do not follow the features. A first estimate: it sees a few class centres, not
    neighbourhoods.

    Examples
    --------
    >>> from nearkin.losses import RescaledHinge
    >>> z = np.array([0.9] * 8 + [-0.9] * 2 + [0.1, -0.1] * 5)
    >>> loss = RescaledHinge(1.0)
    >>> round(estimate_noise_rate(loss.plausibility(z), loss), 3)
    0.2
    """
    weights = np.asarray(plausibility, dtype=np.float64)
    if weights.size == 0 or weights.min() == weights.max():
        return 0.0
    z = margins_of(weights, loss)
    certainty = np.abs(z)
    answers = []
    for share in _CERTAIN:
        certain = certainty >= np.quantile(certainty, 1.0 - share)
        answers.append(float(np.mean(z[certain] < 0)))
    return min(0.5, *answers)
