"""How plausible every label is, from what voters say and how labels get wrong."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearkin.noise._votes import LeftOut, parts
from nearkin.noise.model import Flips

__all__ = ["judged"]

Array = NDArray[np.floating]
Codes = NDArray[np.int64]

#: Times that voters are asked, each time with the weights found before.
_ROUNDS = 3


def judged(left_out: LeftOut, codes: Codes, flips: Flips, n_rounds: int = _ROUNDS) -> tuple[Array, Array]:
    """Probability that a label is right, and a score by which labels are ranked.

    Votes v of noisy labels tell about the true class p: under uniform flips ``p = (v - b) / (1 - rate - b)`` with
    ``b = rate / (n_classes - 1)``, in general p is v times the inverse of the matrix of flips. The label y is right
    with probability ``p_y P(y | y) / sum over k of p_k P(y | k)``, by Bayes' rule. Voters are then asked again, with
    these probabilities as weights; such votes need no correction.

    Parameters
    ----------
    left_out : callable
        ``left_out(weights)(part)`` gives shares of shape (n_part, n_classes), about every row by all others.
    codes : ndarray of int64 of shape (n_samples,)
        Column of each row's label.
    flips : Flips
        How labels get wrong; at rate 0 every label is taken as right, and voters are asked once.
    n_rounds : int, default=3
        How often voters are asked.

    Returns
    -------
    plausibility : ndarray of shape (n_samples,)
        Probability that the label is right, in (0, 1].
    score : ndarray of shape (n_samples,)
        Votes for the label against those for the best other one, between 0 and 1; below 1/2 another label has more. It
        tells rows apart that are equally implausible.

    Examples
    --------
    >>> shares = np.array([[0.9, 0.1], [0.9, 0.1], [0.5, 0.5]])
    >>> plausibility, score = judged(lambda weights: shares.__getitem__, np.array([0, 1, 0]), Flips(0.1, 2))
    >>> plausibility.round(2).tolist(), score.round(2).tolist()
    ([0.99, 0.5, 0.9], [0.9, 0.1, 0.5])
    """
    n, n_classes = len(codes), flips.n_classes
    plausibility, score = np.ones(n), np.empty(n)
    for asked in range(n_rounds if flips.rate > 0.0 else 1):
        ask, found = left_out(plausibility), np.ones(n)
        for part in parts(n, n_classes):
            votes = ask(part)
            shares = flips.settled(votes) if asked or flips.rate <= 0.0 else flips.true_shares(votes)
            if flips.rate > 0.0:
                found[part] = np.maximum(flips.right(shares, codes[part]), np.finfo(float).tiny)
            # Shares that were corrected are cut at zero, where votes still tell rows apart.
            told = shares if flips.matrix is not None else flips.settled(votes)
            score[part] = _against_best_other(flips.likely(told, codes[part]), codes[part])
        plausibility = found
    return plausibility, score


def _against_best_other(shares: Array, codes: Codes) -> Array:
    others, at = shares.copy(), np.arange(len(codes))
    own = shares[at, codes]
    others[at, codes] = 0.0
    both = own + others.max(axis=1)
    found: Array = np.divide(own, both, out=np.full(len(own), 0.5), where=both > 0)
    return found
