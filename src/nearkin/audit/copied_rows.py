"""Rows that are copies of others, or nearly so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearkin.arrays import Array, Index
from nearkin.jury import JuryDecision, NeighbourVoter
from nearkin.jury.copies import is_surprising, join_groups, number_equal_rows
from nearkin.jury.local_scaling import spread_rows

__all__ = ["CopiedRows", "find_copied_rows"]

#: Rows by which columns are scaled before rows are compared, and rows that are scaled at once.
_SCALED_BY, _AT_ONCE = 2048, 1 << 14

#: Neighbours among which copies are looked for, and the rank of the one that tells how near neighbours usually are.
_AMONG, _RANK = 30, 10

#: Near copies: share of rows that chance gives one among those that the jury found, and how many times as many there
#: must be; how many chance gives all rows together where each counts by itself; and how near a copy is at most,
#: relative to the 10th neighbour.
_CHANCE, _MORE_THAN_CHANCE, _BY_CHANCE, _NEAR = 0.001, 5.0, 0.01, 0.3


@dataclass(frozen=True)
class CopiedRows:
    """Sets of copies: number of the set of each row, and how many of the copies are only nearly equal."""

    group: Index
    n_near: int


def find_copied_rows(decision: JuryDecision, rows: Array) -> CopiedRows | None:
    """Return sets of equal rows, unless chance explains them, and of near copies; None if there are none."""
    scaled = _standardise(rows)
    equal, alone = number_equal_rows(scaled), np.arange(len(rows))
    is_copied = equal.max() + 1 < len(rows) and is_surprising(scaled, equal)
    group, near = equal if is_copied else alone, _find_near_copies(decision, scaled)
    group = group if near is None else join_groups(group, near)
    first, group = np.unique(group, return_index=True, return_inverse=True)[1:]
    n_sets, group = len(first), np.argsort(np.argsort(first))[group]  # numbered in the order of their first rows
    if n_sets == len(rows):
        return None
    return CopiedRows(group, len(np.unique(group * (int(equal.max()) + 1) + equal)) - n_sets)


def _standardise(rows: Array) -> Array:
    """Columns of about the same scale around zero, so that single precision tells their values apart."""
    some = rows[spread_rows(len(rows), _SCALED_BY)].astype(np.float64)
    scaled = np.empty(rows.shape, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = some.mean(axis=0), some.std(axis=0)
        deviation = np.where(deviation > 0.0, deviation, 1.0)
        for start in range(0, len(rows), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            scaled[part] = np.nan_to_num((rows[part] - mean) / deviation)
        return np.nan_to_num(scaled, copy=False)


def _find_near_copies(decision: JuryDecision, scaled: Array) -> Index | None:
    """Sets of rows that are much nearer to each other than their surroundings explain.

    In ``dim`` dimensions chance puts one of nine neighbours nearer than ``eps`` times the 10th with the probability
    ``9 eps^dim``. A pair that chance would put into one table of a hundred is reported by itself. Where the jury
    found copies (it takes no risk where labels of the nearest rows agree suspiciously well, so its sets need not be
    any), those are reported that chance gives to one row in a thousand, if there are five times as many.
    """
    copies, judged = decision.jury.copies, decision.judged
    voter = next(iter(decision.neighbourhoods), None)
    if not isinstance(voter, NeighbourVoter) or voter.among.shape[1] < _AMONG:
        return None
    members = np.arange(len(scaled)) if judged is None else judged.members
    first = members if copies is None else members[copies.first]
    among = voter.among[:, :_AMONG]
    apart = voter.near.distances(among)
    low, growth, usual = _surroundings(apart)
    # Around some rows there are fewer dimensions than usual, so that chance puts rows nearer together.
    reach = _reach(_BY_CHANCE / len(first), np.maximum(growth, usual)) * low
    at, which = np.nonzero((apart <= reach[:, None]) & (apart > 0.0))
    pairs = [(first[at], first[among[at, which]])]
    if copies is not None and copies.n_near:
        low, _, usual = _surroundings(_distances(scaled, first, first[among]))
        own, reach = first[copies.group_of_row], _reach(_CHANCE, usual) * low
        is_near = _distances(scaled, members, own[:, None])[:, 0] <= reach[copies.group_of_row]
        is_near &= members != own
        if np.count_nonzero(is_near) >= _MORE_THAN_CHANCE * _CHANCE * len(members):
            pairs.append((members[is_near], own[is_near]))
    one, other = (np.concatenate(some) for some in zip(*pairs, strict=True))
    return _join_pairs(len(scaled), *_without_coincidences(scaled, one, other))


def _without_coincidences(scaled: Array, one: Index, other: Index) -> tuple[Index, Index]:
    """Pairs of rows without those that agree in most columns as often as independent columns would.

    Where columns have few values, rows that differ in one of them are near whatever the density.
    """
    if not len(one):
        return one, other
    n, some = len(scaled), scaled[spread_rows(len(scaled), _SCALED_BY)]
    shares = (np.unique(column, return_counts=True)[1] / len(some) for column in some.T)
    agree = np.log([float(share @ share) for share in shares])
    equal = scaled[one] == scaled[other]
    n_expected = np.exp(equal @ agree) * n * (n - 1.0) / 2.0
    is_sure = (n_expected < _BY_CHANCE) | (2 * np.count_nonzero(equal, axis=1) <= scaled.shape[1])
    return one[is_sure], other[is_sure]


def _surroundings(apart: Array) -> tuple[Array, Array, float]:
    """Distance of every row to its 10th neighbour, and log(2) / dim: its own (infinite where unknown) and the usual."""
    ranked = np.partition(apart, (_RANK - 1, 2 * _RANK - 1), axis=1)
    low, high = ranked[:, _RANK - 1].astype(np.float64), ranked[:, 2 * _RANK - 1]
    is_known = (low > 0.0) & (high > low) & np.isfinite(high)
    growth = np.full(len(low), np.inf)
    growth[is_known] = np.log(high[is_known] / low[is_known])
    return low, growth, float(np.median(growth[is_known])) if is_known.any() else np.inf


def _reach(chance: float, growth: Any) -> Any:
    """How near a row is by chance, relative to the 10th; ``growth`` is log(2) / dim."""
    return np.minimum(_NEAR, (chance / (_RANK - 1)) ** (growth / np.log(2.0)))


def _join_pairs(n: int, one: Index, other: Index) -> Index:
    """Number of the set of each of n rows, where pairs of rows belong together."""
    from scipy import sparse

    graph = sparse.coo_array((np.ones(len(one)), (one, other)), shape=(n, n))
    found: Index = sparse.csgraph.connected_components(graph, directed=False)[1].astype(np.int64)
    return found


def _distances(rows: Array, some: Index, others: Index) -> Array:
    """Distances of some rows to as many others each, a part at a time."""
    apart, step = np.empty(others.shape), max(1, (1 << 22) // (others.shape[1] * rows.shape[1]))
    for start in range(0, len(some), step):
        part = slice(start, start + step)
        difference = rows[others[part]] - rows[some[part], None]
        apart[part] = np.sqrt(np.einsum("ijk,ijk->ij", difference, difference))
    return apart
