"""Columns that give the label away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nearkin.arrays import Array, Codes, Index
from nearkin.jury.copies import number_equal_rows

__all__ = ["find_leaks"]

#: Balanced accuracy of a leak, the most that any other column may reach, and the most that all others may reach
#: together. If more than one column in five is that good, the classes are easy to tell apart.
_GIVES_AWAY, _OTHERS_REACH, _REST_REACHES, _COLUMNS_PER_LEAK = 0.995, 0.9, 0.995, 5

#: Nearest rows that vote where all other columns are tried together.
_VOTING = 5


def find_leaks(rows: Array, codes: Codes, columns: Sequence[Index]) -> tuple[list[int], float]:
    """Return the columns that alone tell the label of rows they have not seen, and what the best other one reaches.

    A leak has a balanced accuracy of at least 0.995 in two halves of the rows, every other column one of at most 0.9,
    and all others together less than 0.995.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_features)
        A few thousand rows at most: the cost grows with the square of their number.
    codes : ndarray of int64 of shape (n_samples,)
        Labels as whole numbers from 0 without gaps; rows of a class stand together in random order.
    columns : sequence of ndarray of int
        Features that belong to each column.

    Examples
    --------
    >>> codes = np.repeat([0, 1], 50)
    >>> rows = np.random.default_rng(0).normal(size=(100, 3))
    >>> rows[:, 1] = 7.0 - 2.0 * codes
    >>> find_leaks(rows, codes, [np.array([0]), np.array([1]), np.array([2])])[0]
    [1]
    """
    reached = np.array([_balance(_tell_by_column(rows[:, at], codes), codes) for at in columns])
    leaks = np.flatnonzero(reached >= _GIVES_AWAY)
    others = np.flatnonzero(reached < _GIVES_AWAY)
    best = float(reached[others].max(initial=0.0))
    if not len(others) or best > _OTHERS_REACH or len(leaks) > max(1, len(columns) // _COLUMNS_PER_LEAK):
        return [], best
    rest = rows[:, np.concatenate([columns[one] for one in others.tolist()])]
    if len(leaks) and _balance(_tell_by_rows(rest, codes), codes) >= _REST_REACHES:
        return [], best
    return leaks.tolist(), best


def _halves(codes: Codes) -> Iterator[tuple[Index, Index]]:
    """Rows to learn from and rows to ask about, twice; rows of a class stand together in random order."""
    one, other = np.arange(0, len(codes), 2), np.arange(1, len(codes), 2)
    yield one, other
    yield other, one


def _tell_by_column(values: Array, codes: Codes) -> Codes:
    """Class of every row by its value in one column: that of the nearest value in the other half of the rows.

    A column that became several features tells the most frequent class of the rows that are equal in all of them.
    """
    told = np.full(len(codes), -1)
    equal = None if values.shape[1] == 1 else number_equal_rows(values)
    for known, asked in _halves(codes):
        if equal is not None:
            counts = np.zeros((int(equal.max()) + 1, int(codes.max()) + 1), np.int64)
            np.add.at(counts, (equal[known], codes[known]), 1)
            told[asked] = np.where(counts.any(axis=1), counts.argmax(axis=1), -1)[equal[asked]]
            continue
        order = known[np.argsort(values[known, 0], kind="stable")]
        ranked, wanted = values[order, 0], values[asked, 0]
        above = np.clip(np.searchsorted(ranked, wanted), 1, len(order) - 1)
        with np.errstate(over="ignore", invalid="ignore"):
            is_below = wanted - ranked[above - 1] < ranked[above] - wanted
        told[asked] = codes[order[above - is_below]]
    return told


def _tell_by_rows(rows: Array, codes: Codes) -> Codes:
    """Class of every row by the nearest rows of the other half, all features counting alike."""
    told = np.empty(len(codes), np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        spread = rows.std(axis=0)
        rows = np.nan_to_num((rows - rows.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0))
    for known, asked in _halves(codes):
        distance = (rows[known] ** 2).sum(axis=1) - 2.0 * (rows[asked] @ rows[known].T)
        near = codes[known][np.argpartition(distance, min(_VOTING, len(known)) - 1, axis=1)[:, :_VOTING]]
        told[asked] = (near[:, :, None] == np.arange(codes.max() + 1)).sum(axis=1).argmax(axis=1)
    return told


def _balance(told: Codes, codes: Codes) -> float:
    """Mean over the classes of the share that was told right."""
    return float(np.mean(np.bincount(codes, told == codes) / np.bincount(codes)))
