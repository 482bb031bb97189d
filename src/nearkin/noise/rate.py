"""How many labels are wrong, from what voters say."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearkin.noise._votes import survey

__all__ = ["certain_rate", "estimate_noise_rate", "most_noise", "smoothed_rate"]

Array = NDArray[np.floating]
Codes = NDArray[np.integer]

#: Shares of the most certain rows that are asked; the smaller answer is taken.
_CERTAIN = (0.25, 0.5)

#: Share of the rows over which the smoothed answer is averaged.
_MOST_CERTAIN = 0.1


def estimate_noise_rate(votes: Array, codes: Codes) -> float:
    """Share of labels that are contradicted, among the rows about which voters are most certain.

    Near a boundary voters also contradict right labels, so only rows are asked about which they are certain: there a
    contradiction is a wrong label. The answer is the mean of two that err in opposite directions: the share among the
    most certain quarter or half, whichever is smaller, and the share at the most certain tenth after a monotone fit of
    contradiction to certainty, which lies at most one standard error below the other.

    Parameters
    ----------
    votes : ndarray of shape (n_samples, n_classes)
        Shares of the votes about each row, its own label left out.
    codes : ndarray of shape (n_samples,)
        Column of each row's label.

    Returns
    -------
    float
        Between 0 and 0.9 times the rate at which labels would say nothing, ``1 - 1 / n_classes``.

    Notes
    -----
    Assumes that wrong labels do not follow the features. Votes must come from voters that have not seen the label in
    question: a learned space agrees with its labels too well. Where classes truly overlap everywhere, that shows as
    noise.

    Examples
    --------
    >>> votes = np.array([[0.9, 0.1]] * 4 + [[0.1, 0.9]] * 4 + [[0.6, 0.4]] * 8)
    >>> codes = np.array([1, 0, 0, 0] + [1] * 4 + [0] * 8)
    >>> estimate_noise_rate(votes, codes)
    0.09375
    """
    n_classes = votes.shape[1]
    predicted, certainty = survey(votes.__getitem__, len(codes), n_classes)
    return certain_rate(predicted != codes, certainty, n_classes)


def most_noise(n_classes: int) -> float:
    """Largest rate that is believed; at ``1 - 1 / n_classes`` labels would say nothing.

    Examples
    --------
    >>> most_noise(2)
    0.45
    """
    return 0.9 * (1.0 - 1.0 / n_classes)


def certain_rate(is_contradicted: NDArray[np.bool_], certainty: Array, n_classes: int) -> float:
    """The same, from how certain voters are and whether they contradict the label."""
    order = np.argsort(-certainty, kind="stable")
    wrong = is_contradicted[order].astype(float)
    sharp = min(wrong[: int(np.ceil(share * len(wrong)))].mean() for share in _CERTAIN)
    # Where classes lie apart the smoothed share is but the luckiest of many; so far below the other it does not go.
    chance = np.sqrt(sharp * (1.0 - sharp) / (_CERTAIN[0] * len(wrong)))
    smooth = max(smoothed_rate(is_contradicted, certainty), sharp - chance)
    return float(min((sharp + smooth) / 2.0, most_noise(n_classes)))


def smoothed_rate(is_contradicted: NDArray[np.bool_], certainty: Array) -> float:
    """Share of contradicted labels at the most certain tenth, after a fit that falls with certainty."""
    from sklearn.isotonic import IsotonicRegression

    fit = IsotonicRegression(increasing=False).fit(certainty, is_contradicted.astype(float)).predict(certainty)
    return float(np.sort(fit)[: max(1, int(_MOST_CERTAIN * len(fit)))].mean())
