"""Rows that must not vouch for each other: copies, near copies, and members of a group that the user names.

A wrong label that was copied with its row looks right to every voter that may ask the copy. So one of several copies
votes for all of them and is judged for all of them. Members of a group all vote, but no voter judges a row with the
help of its own group.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np

from nearkin import progress
from nearkin.arrays import Array, Codes, Index, Mask
from nearkin.jury.local_scaling import LocalNeighbours, narrow, spread_rows
from nearkin.stored import ArrayOf, Count, stored

__all__ = ["Copies", "Groups", "find_copies", "is_surprising", "join_groups", "number_equal_rows"]

#: Neighbours whose distances tell how dense rows lie, and how many dimensions they fill: those beyond a few copies, and
#: those beyond many. Near copies are looked for among as many neighbours as the last number says.
_SCALES = ((7, 15), (30, 60))
_SEARCHED = 20

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

#: Labels of copies differ less than this part as often as those of the nearest other rows; where chance explains equal
#: rows, less than the second part, if that many would differ otherwise; those of near copies also less often than the
#: last. Where the nearest other rows tell hardly more than chance, near rows are all there is to ask.
_AGREE = 0.5
_HARDLY, _NEVER, _ENOUGH = 0.1, 0.03, 10.0
_DIFFER = 0.1
_INFORMED = 0.9

#: Fewest rows that a typical class keeps beside its near copies.
_LEAST_KEPT = 5

#: Most differences of rows held at once.
_AT_ONCE = 1 << 20

#: Neighbours with whose labels those of the nearest row are compared, and how much less often those of the nearest
#: differ. Labels of neighbours beyond several copies differ more often anyway.
_NEXT = ((slice(1, 4), _AGREE), (slice(7, 12), _HARDLY))

#: How often labels of other rows differ at least where sets of many are looked for: nothing is at stake otherwise.
_AT_STAKE = 0.1

#: By how many standard errors they must differ, and how often rows are joined two by two.
_CERTAIN = 3.0
_TURNS = 6


@stored(group=ArrayOf("n", of="codes", low=0, below="n"), n_groups=Count(2))
class Groups:
    """Groups of rows that may not vouch for each other.

    Parameters
    ----------
    group : ndarray of int64 of shape (n_samples,)
        Number of the group of each row, from 0 without gaps.

    Examples
    --------
    >>> groups = Groups(np.array([0, 1, 0, 2]))
    >>> groups.size.tolist(), groups.members(np.array([0, 1])).tolist()
    ([2, 1, 1], [0, 2, 1])
    """

    def __init__(self, group: Index):
        self.group = group
        self.n_groups = int(group.max()) + 1

    def check_stored(self) -> None:
        """Groups are numbered without gaps."""
        if len(np.unique(self.group)) != self.n_groups or int(self.group.max()) + 1 != self.n_groups:
            raise ValueError("groups of rows are not numbered without gaps")

    @cached_property
    def size(self) -> Index:
        """Number of rows of each group."""
        return np.bincount(self.group)

    @cached_property
    def is_alone(self) -> Mask:
        """Whether a row is the only one of its group."""
        alone: Mask = self.size[self.group] == 1
        return alone

    @cached_property
    def order(self) -> Index:
        """Rows, group after group."""
        return np.argsort(self.group, kind="stable")

    def members(self, rows: Index) -> Index:
        """All rows of the groups of some rows, group after group."""
        which = np.unique(self.group[rows])
        size, start = self.size[which], (np.cumsum(self.size) - self.size)[which]
        at = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
        return self.order[np.repeat(start, size) + at]


@stored(
    group_of_row=ArrayOf("n", of="codes", low=0, below="m"),
    first=ArrayOf("m", of="codes", low=0, below="n"),
    n_exact=Count(),
    n_near=Count(),
)
class Copies:
    """Which rows are copies of each other, and which one stands for them.

    Parameters
    ----------
    group_of_row : ndarray of int64 of shape (n_samples,)
        Number of the set of copies that a row belongs to, from 0.
    first : ndarray of int64 of shape (n_sets,)
        The row that stands for each set: the first with the label that most of them have.
    n_exact, n_near : int
        Rows that are not needed because an equal row stands for them, and because a near copy does.

    Examples
    --------
    >>> copies = Copies(np.array([0, 1, 0, 2]), np.array([0, 1, 3]), n_exact=1)
    >>> np.array(["a", "b", "a", "c"])[copies.first].tolist()
    ['a', 'b', 'c']
    """

    def __init__(self, group_of_row: Index, first: Index, n_exact: int = 0, n_near: int = 0):
        self.group_of_row, self.first, self.n_exact, self.n_near = group_of_row, first, n_exact, n_near

    def reduce_groups(self, groups: Index) -> Index:
        """Groups of the rows that stand for sets; groups that share copies are one.

        Where that makes all groups one, nobody could judge: a set then belongs to the group of its first row.
        """
        joined = join_groups(self.group_of_row, groups)
        return np.unique((joined if joined.any() else groups)[self.first], return_inverse=True)[1].astype(np.int64)

    def among(self, rows: Index, others: Index) -> Copies:
        """The same copies among more rows: these are ``rows``, and the others have none."""
        group = np.empty(len(rows) + len(others), np.int64)
        group[rows], group[others] = self.group_of_row, len(self.first) + np.arange(len(others))
        return Copies(group, np.concatenate([rows[self.first], others]), self.n_exact, self.n_near)


def join_groups(one: Index, other: Index) -> Index:
    """Number of the finest group of each row that holds its groups of both kinds.

    Examples
    --------
    >>> join_groups(np.array([0, 0, 1, 2]), np.array([5, 6, 6, 7])).tolist()
    [0, 0, 0, 1]
    """
    from scipy import sparse

    first, second = (np.unique(each, return_inverse=True)[1] for each in (one, other))
    n = int(first.max()) + 1
    graph = sparse.coo_array((np.ones(len(one)), (first, n + second)), shape=(n + int(second.max()) + 1,) * 2)
    found = sparse.csgraph.connected_components(graph, directed=False)[1][first]
    return np.unique(found, return_inverse=True)[1].astype(np.int64)


def find_copies(rows: Array, codes: Codes) -> tuple[Copies | None, LocalNeighbours]:
    """Find copies, and return them, or None, with a search among the rows that stand for all.

    Rows that are equal in single precision may be copies, and so may rows much nearer than the density of their
    neighbourhood explains, where many rows have such a partner. Rows of few distinct values are equal by chance, and
    labels that were given independently are evidence whether rows are equal or not. So rows are copies only if their
    labels differ less than half as often as labels of the nearest other rows, and a tenth as often if independent
    columns explain as many equal rows.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_features)
        Scaled.
    codes : ndarray of int64 of shape (n_samples,)
        Labels as whole numbers.

    Notes
    -----
    With ``dim = log(15 / 7) / median log(d15 / d7)`` from the distances to the 7th and 15th neighbour, chance puts a
    neighbour nearer than ``eps d15`` to one row in a hundred if ``eps = (0.01 / 14)^(1 / dim)``. In few dimensions
    copies may be farther than that; there the labels tell: as long as the nearest row agrees much better than the next
    ones, rows that are nearest to each other are copies. The 30th and 60th neighbour tell where a row has many copies.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(100, 3))
    >>> found, _ = find_copies(np.concatenate([rows, rows]), np.tile(np.arange(100) % 2, 2))
    >>> found.n_exact, len(found.first)
    (100, 100)
    >>> find_copies(rows, np.arange(100) % 2)[0] is None
    True
    """
    n = len(codes)
    group, first = np.arange(n), np.arange(n)
    equal = number_equal_rows(rows)
    search = None
    if 0 < equal.max() < n - 1:
        own, its_first = _choose_first(equal, codes)
        search = LocalNeighbours(narrow(rows[its_first]))
        of_copies, of_others = _count_differences(own, codes, its_first, search.among)
        # Where chance explains equal rows, only labels that hardly ever differ tell that they were copied too.
        n_expected = of_others * np.count_nonzero(np.bincount(own) > 1)
        agree = _AGREE if is_surprising(rows, equal) else _HARDLY if n_expected >= _ENOUGH else -1.0
        if of_copies <= agree * of_others:
            group, first = own, its_first
        else:
            search = None
    n_exact = n - len(first)
    search = LocalNeighbours(narrow(rows)) if search is None else search
    # Where rows are often equal by chance, being near means nothing.
    is_discrete = len(first) == n and equal.max() + 1 < (1.0 - _LEAST_SHARE) * n
    near = None if is_discrete else _link_near_copies(rows[first], codes[first], search)
    if near is not None:
        group, first = _choose_first(near[group], codes)
        search = LocalNeighbours(narrow(rows[first]))
    if len(first) == n:
        return None, search
    return Copies(group, first, n_exact, n - n_exact - len(first)), search


def number_equal_rows(rows: Array) -> Index:
    """Number of the set of equal rows that each belongs to, from 0."""
    # Rows are compared by 64 bits each, which is faster than sorting rows.
    factors = np.random.default_rng(0).integers(1 << 62, size=rows.shape[1], dtype=np.uint64) * np.uint64(2)
    keys = np.empty(len(rows), np.uint64)
    for start in range(0, len(rows), _SAMPLE):
        part = slice(start, start + _SAMPLE)
        # Adding zero turns -0.0 into 0.0, so that equal numbers are equal bits.
        bits = (narrow(rows[part]) + np.float32(0.0)).view(np.uint32).astype(np.uint64)
        keys[part] = ((bits ^ (bits >> np.uint64(15))) * (factors + np.uint64(1))).sum(axis=1, dtype=np.uint64)
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)


def is_surprising(rows: Array, equal: Index) -> bool:
    """Whether there are many more pairs of equal rows than independent columns explain."""
    n, size = len(rows), np.bincount(equal)
    n_pairs = float((size * (size - 1.0)).sum()) / 2.0
    some = rows[spread_rows(n, _SAMPLE)]
    chance = 1.0
    for column in some.T:
        shares = np.unique(column, return_counts=True)[1] / len(some)
        chance *= float((shares * shares).sum())
    return n_pairs > _EXCESS * chance * n * (n - 1.0) / 2.0


def _choose_first(group: Index, codes: Codes) -> tuple[Index, Index]:
    """Sets numbered by the rows that stand for them, and these rows: the first with the most frequent label."""
    cells = np.unique(group * (int(codes.max()) + 1) + codes, return_inverse=True)[1]
    order = np.lexsort((np.arange(len(codes)), -np.bincount(cells)[cells], group))
    chosen = order[np.concatenate([[True], group[order][1:] != group[order][:-1]])]
    number = np.empty(len(chosen), np.int64)
    number[np.argsort(chosen)] = np.arange(len(chosen))
    return number[np.unique(group, return_inverse=True)[1]], np.sort(chosen)


def _count_differences(
    group: Index, codes: Codes, first: Index, among: Callable[[int, Index], Index]
) -> tuple[float, float]:
    """How often labels of copies differ, and those of the nearest other rows."""
    size = np.bincount(group)
    rows = np.flatnonzero(size[group] > 1)
    # Sets count alike, however many copies they have.
    weight = 1.0 / (size[group[rows]] - 1.0)
    own = float((weight * (codes[rows] != codes[first[group[rows]]])).sum() / np.count_nonzero(size > 1))
    asked = np.flatnonzero(size > 1)
    asked = asked[spread_rows(len(asked), _SAMPLE)]
    others = among(1, asked)[:, 0]
    return own, float(np.mean(codes[first[others]] != codes[first[asked]]))


def _link_near_copies(rows: Array, codes: Codes, search: LocalNeighbours) -> Index | None:
    """Number of the set of near copies of each row, or None where there are none to speak of."""
    n = len(rows)
    alone, linked = np.arange(n), None
    for scale in _SCALES:
        if linked is None and n > 2 * scale[1]:
            linked = _link_by_distance(rows, codes, search, scale)
    linked = _link_by_labels(alone if linked is None else linked, rows, codes, search)
    linked, first = _choose_first(linked, codes)
    size = np.bincount(codes[first], minlength=int(codes.max()) + 1)
    return None if len(first) == n or np.median(size[codes]) < _LEAST_KEPT else linked


def _link_by_distance(rows: Array, codes: Codes, search: LocalNeighbours, scale: tuple[int, int]) -> Index | None:
    """Sets of rows much nearer to each other than the distances to the neighbours of two ranks explain."""
    n, (near, far) = len(rows), scale
    distances, found = _nearest(rows, search, spread_rows(n, _SAMPLE), *scale)
    low, high = distances[:, -2], distances[:, -1]
    known = (low > 0.0) & (high > low)
    if not known.any():
        return None
    dim = math.log(far / near) / float(np.median(np.log(high[known] / low[known])))
    eps = min(_NEAREST, (_CHANCE / (far - 1)) ** (1.0 / dim))
    if float(np.mean(distances[:, 0] < eps * high)) <= _LEAST_SHARE:
        return None
    distances, found = _nearest(rows, search, np.arange(n), *scale)
    reach = eps * distances[:, -1]
    i, j = np.nonzero(distances[:, :-2] < reach[:, None])
    j, d = found[i, j], distances[i, j]
    own, first = _choose_first(_stars(i[d < reach[j]], j[d < reach[j]], n), codes)

    def nearest_of_others(_: int, which: Index) -> Index:
        sets = own[search.candidates()[first[which]]]
        return sets[np.arange(len(which)), (sets != which[:, None]).argmax(axis=1)][:, None]

    if len(first) == n:
        return None
    differ, others = _count_differences(own, codes, first, nearest_of_others)
    # Small clusters look like sets of many copies, so their labels must hardly ever differ.
    n_expected = others * np.count_nonzero(np.bincount(own) > 1)
    if scale != _SCALES[0] and (differ > _HARDLY * others or n_expected < _ENOUGH or others < _AT_STAKE):
        return None
    return own if _are_copied(differ, others, codes) else None


def _link_by_labels(linked: Index, rows: Array, codes: Codes, search: LocalNeighbours) -> Index:
    """Join sets that are nearest to each other as long as labels say that such rows were copied."""
    n = len(rows)
    if n <= 2 * _SCALES[0][1]:
        return linked
    # Repeated measurements agree nearly as copies do, so it is tried again only if distances have shown copies, or if
    # labels of the nearest rows all but never differ.
    is_certain = bool((linked != np.arange(n)).any())
    for turn in range(_TURNS):
        own, first = _choose_first(linked, codes)
        is_sampled = turn == 0 and len(first) == n
        asked = spread_rows(n, _SAMPLE) if is_sampled else first
        if len(asked) < 2 * _SCALES[0][1]:
            break
        near = _nearest(rows, search, asked)[1] if len(first) == n else _nearest_first(search.candidates(), own, first)
        is_alone = np.bincount(own) == 1
        alone = is_alone[own[asked]]
        may = np.ones(len(first), bool)
        if not _nearest_agrees(near, codes, asked, turn):
            if not _nearest_agrees(near[alone], codes, asked[alone], turn):
                break
            may = is_alone
        if is_sampled and len(asked) < n:
            near = _nearest(rows, search, first)[1]
            if not _nearest_agrees(near, codes, first, turn):
                break
        pair = np.where(near[:, 0] < 0, first, near[:, 0])  # the row that stands for the nearest set
        partner = own[pair]
        sets = np.arange(len(first))
        i = np.flatnonzero((partner[partner] == sets) & (partner != sets) & (may | may[partner]))
        if not len(i):
            break
        is_certain = is_certain or _nearest_agrees(near, codes, first, turn, _NEVER)
        sets[i] = np.minimum(sets[i], partner[i])
        linked = sets[own]
        if not is_certain:
            break
    return linked


def _nearest_first(candidates: Index, own: Index, first: Index) -> Index:
    """Of the neighbours of rows that stand for sets those that stand for others, the nearest first; -1 for none."""
    found = candidates[first]
    is_other = (first[own[found]] == found) & (own[found] != np.arange(len(first))[:, None])
    order = np.argsort(~is_other, axis=1, kind="stable")[:, :_SEARCHED]
    chosen = np.take_along_axis(np.where(is_other, found, -1), order, axis=1)
    return chosen


def _nearest_agrees(found: Index, codes: Codes, asked: Index, turn: int, most: float = 1.0) -> bool:
    """Whether labels of the nearest rows differ much less often than those of some that follow, beyond chance."""
    if len(asked) < 2 * _SCALES[0][1]:
        return False
    differ = codes[found] != codes[asked][:, None]
    for some, part in _NEXT:
        known = (found[:, : some.stop] >= 0).all(axis=1)
        if found.shape[1] < some.stop or np.count_nonzero(known) < 2 * _SCALES[0][1]:
            continue
        nearest, following = float(differ[known, 0].mean()), float(differ[known, some].mean())
        error = math.sqrt((nearest * (1.0 - nearest) + following * (1.0 - following)) / np.count_nonzero(known))
        is_less = following - nearest > _CERTAIN * error and nearest <= min(part, most) * following
        is_at_stake = (turn == 0 and part == _AGREE and most == 1.0) or following >= _AT_STAKE
        if is_less and is_at_stake and _are_copied(nearest, following, codes):
            return True
    return False


def _are_copied(own: float, others: float, codes: Codes) -> bool:
    """Whether labels of near copies differ so rarely that they were copied too, and other rows know about them."""
    shares = np.bincount(codes) / len(codes)
    chance = 1.0 - float((shares * shares).sum())
    return own <= min(_AGREE * others, _DIFFER) and others <= _INFORMED * chance


def _nearest(rows: Array, search: LocalNeighbours, which: Index, *ranks: int) -> tuple[Array, Index]:
    """Distances of some rows to their nearest others, in order, and to those of some ranks; and who the nearest are."""
    found = search.candidates()[which]
    at = [*range(min(_SEARCHED, found.shape[1])), *(rank - 1 for rank in ranks)]
    n_near, found = len(at) - len(ranks), found[:, at]
    distances, step = np.empty(found.shape), max(1, _AT_ONCE // (found.shape[1] * rows.shape[1]))
    for start in range(0, len(which), step):
        progress.pause()
        part = slice(start, start + step)
        difference = rows[found[part]] - rows[which[part], None]
        distances[part] = np.sqrt(np.einsum("ijk,ijk->ij", difference, difference))
    order = np.argsort(distances[:, :n_near], axis=1, kind="stable")
    near, far = np.take_along_axis(distances, order, axis=1), distances[:, n_near:]
    # Neighbours are in the order of locally scaled distances; within the first ones that of plain ones is known.
    far = np.stack([near[:, r - 1] if r <= n_near else far[:, i] for i, r in enumerate(ranks)], 1) if ranks else far
    return np.concatenate([near, far], axis=1), np.take_along_axis(found, order, axis=1)


def _stars(i: Index, j: Index, n: int) -> Index:
    """Sets of linked rows, each around one of them: chains of links would join rows that are far from each other."""
    number, is_taken = np.arange(n), np.zeros(n, bool)
    order = np.argsort(i, kind="stable")
    j = j[order]
    ends = np.searchsorted(i[order], np.arange(n + 1))
    for one in np.flatnonzero(np.diff(ends)):
        if not is_taken[one]:
            its = j[ends[one] : ends[one + 1]]
            its = its[~is_taken[its]]
            number[its], is_taken[its], is_taken[one] = one, True, True
    return number
