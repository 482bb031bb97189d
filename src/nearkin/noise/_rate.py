"""How many labels are wrong, from what neighbours say."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["estimate_noise_rate"]

#: Shares of the most certain rows of each predicted class that are asked; the smaller answer is taken.
_CERTAIN = (0.25, 0.5)


def estimate_noise_rate(votes: NDArray[np.floating], codes: NDArray[np.integer]) -> float:
    """Share of labels that neighbours contradict, among the rows about which neighbours are most certain.

    Near a boundary neighbours also contradict right labels, so only the most certain rows of each predicted class are
    asked: there a contradiction is a wrong label. Asked are the upper quarter and the upper half; the smaller answer
    counts.

    Parameters
    ----------
    votes : ndarray of shape (n_samples, n_classes)
        Shares of the votes of each row's neighbours, the row itself left out.
    codes : ndarray of shape (n_samples,)
        Column of each row's label.

    Returns
    -------
    float
        Between 0 and 0.9 times the rate at which labels would say nothing, ``1 - 1 / n_classes``.

    Notes
    -----
    Assumes that wrong labels do not follow the features. Votes must come from a space that was not learned from the
    same labels: a learned one agrees with its labels too well. Where classes truly overlap, that shows as noise.

    Examples
    --------
    >>> votes = np.array([[0.9, 0.1]] * 4 + [[0.1, 0.9]] * 4 + [[0.6, 0.4]] * 8)
    >>> codes = np.array([1, 0, 0, 0] + [1] * 4 + [0] * 8)
    >>> estimate_noise_rate(votes, codes)  # one of the eight most certain rows is contradicted
    0.125
    """
    n_classes = votes.shape[1]
    predicted = votes.argmax(axis=1)
    # Most certain first within each predicted class; rank as a share of its class.
    order = np.lexsort((-votes.max(axis=1), predicted))
    size = np.bincount(predicted, minlength=n_classes)
    first = np.cumsum(size) - size
    place = np.arange(len(order)) - first[predicted[order]]
    wrong = predicted[order] != codes[order]
    answers = [wrong[place < np.ceil(share * size[predicted[order]])].mean() for share in _CERTAIN]
    return float(min(*answers, 0.9 * (1.0 - 1.0 / n_classes)))
