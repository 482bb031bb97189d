"""Random triplets, and a learner's parameter without the estimator around it."""

from __future__ import annotations

import numpy as np

from nearkin.rows import Rows
from nearkin.triplets import Triplets

#: Rows from which positives and negatives are drawn, as from the centres of OCTG.
POOL = 500

#: Most bytes of anchors.
MOST_BYTES = 48 << 20


def draw(d: int, n: int, dtype: str, *, pair: float = 0.5, seed: int = 0) -> Triplets:
    """Independent normal rows with mean squared distance ``pair``: nothing to learn, so nearly every triplet moves."""
    rng = np.random.default_rng(seed)
    n = min(n, max(64, MOST_BYTES // (d * np.dtype(dtype).itemsize)))
    size = np.sqrt(pair / (2 * d))
    rows = rng.standard_normal((n, d), dtype=dtype)
    pool = rng.standard_normal((POOL, d), dtype=dtype)
    rows *= size
    pool *= size
    positive = rng.integers(0, POOL, n)
    negative = (positive + rng.integers(1, POOL, n)) % POOL
    return Triplets(Rows(rows), Rows(pool), np.arange(n), positive, negative, np.arange(n), np.full(POOL, -1))


def part(triplets: Triplets, start: int, stop: int) -> Triplets:
    """Triplets from ``start`` on, without copies."""
    at = slice(start, stop)
    classes = None if triplets.classes is None else triplets.classes[at]
    return Triplets(
        triplets.rows, triplets.pool, triplets.anchor[at], triplets.positive[at], triplets.negative[at],
        triplets.row_origin, triplets.pool_origin, classes,
    )  # fmt: skip


def vectors(triplets: Triplets) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Anchors, positives and negatives as three matrices."""
    rows, pool = triplets.rows.dense, triplets.pool.dense
    return rows[triplets.anchor], pool[triplets.positive], pool[triplets.negative]


def placed(parameter, number: int):
    """A copy whose numbers begin, in round ``number``, 0, 16, 32 or 48 bytes after a multiple of 64.

    Compiled loops are up to a seventh faster on numbers that lie well, and NumPy promises 16 bytes only. So all
    competitors of a round get the same place, and the rounds go through all places.
    """
    copy = parameter.copy()
    name = next((name for name in ("M", "L") if isinstance(getattr(copy, name, None), np.ndarray)), None)
    if name is not None:
        values = getattr(copy, name)
        memory = np.empty(values.nbytes + 128, np.uint8)
        start = -memory.ctypes.data % 64 + 16 * (number % 4)
        there = memory[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
        there[:] = values
        setattr(copy, name, there)
    return copy


def begin(learner, d: int, dtype: str):
    """The learner's parameter before the first triplet."""
    return learner._begin(Rows(np.zeros((2, d), dtype)), np.random.default_rng(0))
