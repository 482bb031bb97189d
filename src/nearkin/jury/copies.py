"""Rows that must not vouch for each other: copies, near copies, and members of a group that the user names.

A wrong label that was copied with its row looks right to every voter that may ask the copy. So such rows share a group,
and no voter judges a row with the help of its own group.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from nearkin.arrays import Array, Codes, Index
from nearkin.jury.local_scaling import LocalNeighbours, spread_rows
from nearkin.stored import ArrayOf, Count, stored

__all__ = ["Copies", "find_copies"]

#: Neighbours whose distances tell how dense rows lie, and how many dimensions they fill.
_NEAR, _FAR = 7, 15

#: A near copy is as near as fewer than this many of a row's neighbours would come by chance; its distance is at most
#: this part of that to the last of them.
_CHANCE = 0.01
_NEAREST = 0.35

#: Least share of the rows with a near copy; fewer are chance.
_LEAST_SHARE = 0.05

#: Rows among which near copies are looked for first.
_SAMPLE = 2000

#: How many times as many equal rows as independent columns explain are copies.
_EXCESS = 4.0

#: Labels of copies differ less than this part as often as those of the nearest other rows.
_AGREE = 0.5


@stored(
    group=ArrayOf("n", of="codes", low=0),
    copy=ArrayOf("n", of="codes", low=0),
    n_exact=Count(),
    n_near=Count(),
    n_groups=Count(1),
)
class Copies:
    """Which rows may not vouch for each other.

    Parameters
    ----------
    group : ndarray of int64 of shape (n_samples,)
        Number of the group of each row, from 0 without gaps: its copies, and the members of groups that were given.
    copy : ndarray of int64 of shape (n_samples,)
        The same for copies alone.
    n_exact, n_near : int
        Rows that are equal to an earlier one, and further rows that are near copies of an earlier one.

    Attributes
    ----------
    n_groups : int
        Number of groups.

    Examples
    --------
    >>> copies = Copies(np.array([0, 1, 0, 2]), np.array([0, 1, 0, 2]), n_exact=1)
    >>> copies.first.tolist(), copies.members(np.array([0, 1])).tolist(), copies.largest
    ([0, 1, 3], [0, 1, 2], 2)
    """

    def __init__(self, group: Index, copy: Index, n_exact: int = 0, n_near: int = 0):
        self.group, self.copy, self.n_exact, self.n_near = group, copy, n_exact, n_near
        self.n_groups = int(group.max()) + 1

    def check_stored(self) -> None:
        """Groups are numbered without gaps."""
        if len(np.unique(self.group)) != self.n_groups or int(self.group.max()) + 1 != self.n_groups:
            raise ValueError("groups of rows are not numbered without gaps")

    @cached_property
    def first(self) -> Index:
        """One row of each set of copies: the others add nothing to a count."""
        return np.sort(np.unique(self.copy, return_index=True)[1])

    @cached_property
    def size(self) -> Index:
        """Number of rows of each group."""
        return np.bincount(self.group)

    @property
    def largest(self) -> int:
        """Rows of the largest group."""
        return int(self.size.max())

    @cached_property
    def is_alone(self) -> np.ndarray:
        """Whether a row is the only one of its group."""
        alone: np.ndarray = self.size[self.group] == 1
        return alone

    @cached_property
    def _order(self) -> tuple[Index, Index]:
        """Rows, group after group, and where each group begins."""
        return np.argsort(self.group, kind="stable"), np.concatenate([[0], np.cumsum(self.size)])

    def members(self, rows: Index) -> Index:
        """All rows of the groups of some rows, group after group."""
        order, start = self._order
        which = np.unique(self.group[rows])
        size = self.size[which]
        at = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
        return order[np.repeat(start[which], size) + at]


def find_copies(scaled: Array, codes: Codes, near: LocalNeighbours, groups: Index | None = None) -> Copies | None:
    """Find rows that may not vouch for each other; None if every row stands for itself.

    Rows that are equal in single precision are copies, and so are rows much nearer than the density of their
    neighbourhood explains, where many rows have such a partner. Rows of few distinct values are equal by chance, and
    labels that were given independently are evidence whether rows are equal or not. So copies are left out only if
    there are more equal rows than independent columns explain, and only if their labels differ less than half as often
    as labels of the nearest other rows.

    Parameters
    ----------
    scaled : ndarray of shape (n_samples, n_features)
        Rows.
    codes : ndarray of int64 of shape (n_samples,)
        Labels as whole numbers.
    near : LocalNeighbours
        Search among the rows.
    groups : ndarray of int64 of shape (n_samples,) or None
        Groups that the user names; these are never doubted.

    Notes
    -----
    With ``dim = log(15 / 7) / median log(d15 / d7)`` from the distances to the 7th and 15th neighbour, a neighbour at
    less than ``eps d15`` is one that chance would put there for one row in a hundred if ``eps = (0.01 / 14)^(1 / dim)``.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(100, 3))
    >>> twice, codes = np.concatenate([rows, rows]), np.tile(np.arange(100) % 2, 2)
    >>> found = find_copies(twice, codes, LocalNeighbours(twice))
    >>> found.n_exact, found.n_groups, found.largest
    (100, 100, 2)
    >>> find_copies(rows, codes[:100], LocalNeighbours(rows)) is None
    True
    """
    n = len(codes)
    equal = _number_equal_rows(scaled)
    exact = _believe(equal, codes, near, equal) if _is_surprising(scaled, equal) else np.arange(n)
    copy = _link_near_copies(scaled, codes, near, exact, equal)
    group = copy if groups is None else _join(copy, groups)
    n_exact = n - int(exact.max()) - 1
    n_near = n - n_exact - int(copy.max()) - 1
    return Copies(group, copy, n_exact, n_near) if group.max() + 1 < n else None


def _number_equal_rows(rows: Array) -> Index:
    """Number of the set of equal rows that each belongs to, from 0."""
    # Rows are compared by 64 bits each, which is faster than sorting rows.
    factors = np.random.default_rng(0).integers(1 << 62, size=rows.shape[1], dtype=np.uint64) * np.uint64(2)
    keys = np.empty(len(rows), np.uint64)
    for start in range(0, len(rows), _SAMPLE):
        part = slice(start, start + _SAMPLE)
        # Adding zero turns -0.0 into 0.0, so that equal numbers are equal bits.
        bits = (rows[part].astype(np.float32) + np.float32(0.0)).view(np.uint32).astype(np.uint64)
        keys[part] = ((bits ^ (bits >> np.uint64(15))) * (factors + np.uint64(1))).sum(axis=1, dtype=np.uint64)
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)


def _is_surprising(rows: Array, equal: Index) -> bool:
    """Whether there are many more pairs of equal rows than independent columns explain."""
    n, size = len(rows), np.bincount(equal)
    n_pairs = float((size * (size - 1.0)).sum()) / 2.0
    if n_pairs == 0.0:
        return False
    # One row of each pair of copies would do, but half as many rows only raise the shares of the other columns.
    some = rows[spread_rows(n, _SAMPLE)]
    chance = 1.0
    for column in some.T:
        shares = np.unique(column, return_counts=True)[1] / len(some)
        chance *= float((shares * shares).sum())
    return n_pairs > _EXCESS * chance * n * (n - 1.0) / 2.0


def _believe(linked: Index, codes: Codes, near: LocalNeighbours, equal: Index) -> Index:
    """Linked rows as sets of copies if their labels agree better than those of near rows; every row for itself if not."""
    size = np.bincount(linked)
    rows = np.flatnonzero(size[linked] > 1)
    if not len(rows):
        return np.arange(len(codes))
    order = rows[np.argsort(linked[rows], kind="stable")]
    is_pair = linked[order[1:]] == linked[order[:-1]]
    differ = codes[order[1:]] != codes[order[:-1]]
    # Sets count alike, however many copies they have.
    weight = 1.0 / (size[linked[order[1:]]] - 1.0)[is_pair]
    own = float((differ[is_pair] * weight).sum() / weight.sum())
    asked = rows[spread_rows(len(rows), _SAMPLE)]
    found = near.among(int(min(len(codes) - 1, np.partition(size, -1)[-1] + 1, 4 * _FAR)), asked)
    is_other = linked[found] != linked[asked][:, None]
    first = is_other.argmax(axis=1)
    has_other = is_other.any(axis=1)
    others = found[np.arange(len(asked)), first]
    other = float((codes[others] != codes[asked])[has_other].mean()) if has_other.any() else 1.0
    return linked if own <= _AGREE * other else np.arange(len(codes))


def _link_near_copies(scaled: Array, codes: Codes, near: LocalNeighbours, exact: Index, equal: Index) -> Index:
    """Number of the set of exact and near copies that each row belongs to."""
    n = len(codes)
    first = np.unique(equal, return_index=True)[1]
    if len(first) <= 2 * _FAR:
        return exact
    # Equal rows would pass for a dense spot, so distances are taken between rows that differ.
    rows = scaled[np.sort(first)]
    search = near if len(rows) == n else LocalNeighbours(rows.astype(np.float32))
    some = spread_rows(len(rows), _SAMPLE)
    distances = _nearest_distances(rows, search, some)[0]
    low, high = distances[:, _NEAR - 1], distances[:, _FAR - 1]
    known = (low > 0.0) & (high > low)
    if not known.any():
        return exact
    dim = math.log(_FAR / _NEAR) / float(np.median(np.log(high[known] / low[known])))
    eps = min(_NEAREST, (_CHANCE / (_FAR - 1)) ** (1.0 / dim))
    if np.mean(distances[:, 0] < eps * high) <= _LEAST_SHARE:
        return exact
    every = np.arange(len(rows))
    distances, found = _nearest_distances(rows, search, every)
    reach = eps * distances[:, _FAR - 1]
    i, j = np.nonzero(distances < reach[:, None])
    j = found[i, j]
    d2 = ((rows[i] - rows[j]) ** 2).sum(axis=1)
    is_mutual = d2 < reach[j] ** 2
    at = np.sort(first)
    linked = _join(_connect(at[i[is_mutual]], at[j[is_mutual]], n), exact)
    believed = _believe(linked, codes, near, equal)
    return linked if believed is linked else exact


def _nearest_distances(rows: Array, search: LocalNeighbours, which: Index) -> tuple[Array, Index]:
    """Distances of some rows to their nearest others, in order, and who these are."""
    found = search.among(_FAR + 5, which)
    distances = np.empty(found.shape)
    for start in range(0, len(which), _SAMPLE):
        part = slice(start, start + _SAMPLE)
        difference = rows[found[part]] - rows[which[part], None]
        distances[part] = np.sqrt(np.einsum("ijk,ijk->ij", difference, difference))
    order = np.argsort(distances, axis=1, kind="stable")
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(found, order, axis=1)


def _connect(i: Index, j: Index, n: int) -> Index:
    """Number of the connected component of each of n rows, where i and j are linked."""
    from scipy import sparse

    graph = sparse.coo_array((np.ones(len(i)), (i, j)), shape=(n, n))
    found: Index = sparse.csgraph.connected_components(graph, directed=False)[1]
    return _renumber(found)


def _join(one: Index, other: Index) -> Index:
    """The finest groups that hold the groups of both."""
    n = len(one)
    at = np.arange(n)
    firsts = [np.unique(each, return_index=True)[1][each] for each in (_renumber(one), _renumber(other))]
    return _connect(np.concatenate([at, at]), np.concatenate(firsts), n)


def _renumber(groups: Index) -> Index:
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)
