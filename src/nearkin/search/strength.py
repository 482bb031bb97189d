"""How strongly a learned map is used, decided by feedback that it has not learned from yet."""

from __future__ import annotations

import numpy as np

from nearkin.arrays import Array
from nearkin.search.ranking import Interval

__all__ = ["NO_GAIN", "STRENGTHS", "choose_strength", "compare_orders", "keep_newest"]

#: Strengths to choose from.
STRENGTHS = (0.03, 0.1, 0.2, 0.3, 0.5, 1.0)
#: The gain before anything was measured.
NO_GAIN = Interval(0.0, 0.0, 0.0)

#: Least share of the best gain with which a weaker, and so safer, strength is taken.
_GOOD = 2 / 3
#: Most triplets of a batch that vote.
_PROBE = 512
#: Votes that count: the newest ones, once there are enough of them.
_WINDOW = 4096
_ENOUGH = 30


def compare_orders(
    x: Array, mean: Array, clicked: Array, skipped: Array, metric: Array, strengths: tuple[float, ...]
) -> Array:
    """Let queries vote: which share of their pairs do the identity and each strength put in the right order?

    ``x`` are queries without their mean, and ``metric`` is M, learned from earlier batches. A query has one vote (a row
    of shape 1 + n_strengths), however many clicks it has.
    """
    at = np.unique(np.linspace(0, len(x) - 1, min(_PROBE, len(x))).astype(np.intp))
    x, gap = x[at], clicked[at] - skipped[at]
    plain = ((x + mean) * gap).sum(axis=1)  # the identity also sees the mean
    extra = ((x @ metric - x) * gap).sum(axis=1)
    in_order = [0.5 * (np.sign(plain + a * extra) + 1.0) for a in (0.0, *strengths)]  # a tie is half right
    direction = np.random.default_rng(0).normal(size=x.shape[1])  # along it only equal queries are equal
    _, number = np.unique((x @ direction).astype(np.float32), return_inverse=True)
    return np.column_stack([np.bincount(number, one) for one in in_order]) / np.bincount(number)[:, None]


def choose_strength(votes: Array, strengths: tuple[float, ...]) -> tuple[float, Interval]:
    """Return the weakest strength with most of the best gain, or 0 if its gain is not surely positive; and the gain."""
    if len(votes) < _ENOUGH:
        return 0.0, NO_GAIN
    gains = votes[:, 1:] - votes[:, :1]
    means = gains.mean(axis=0)
    at = int((means >= min(_GOOD * means.max(), means.max())).argmax())
    gain = gains[:, at]
    half = 1.96 * gain.std(ddof=1) / np.sqrt(len(gain))
    found = Interval(float(gain.mean()), float(gain.mean() - half), float(gain.mean() + half))
    return (strengths[at] if found.low > 0 else 0.0), found


def keep_newest(votes: list[Array]) -> Array:
    """Return the votes that still count."""
    return np.concatenate(votes)[-_WINDOW:]
