"""A forest of extremely randomised trees: a voter that judges each row by the trees that were grown without it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearkin import progress
from nearkin.accelerator import computing_device, keep_there
from nearkin.arrays import Array, Codes, Index
from nearkin.jury.copies import Groups
from nearkin.kernels import FEW_ROWS, few_trees, worker_pool
from nearkin.noise.model import VotesOn, split_rows
from nearkin.stored import ArrayOf, Count, Part, Text, stored

__all__ = ["ForestVoter", "Trees"]

#: Trees, one for each bit of a word; the share of the groups of rows on which each is grown, and the most rows.
N_TREES = 64
_IN_BAG = 0.632
_MOST_IN_BAG = 2048

#: Fewest rows of a leaf.
_LEAST_IN_LEAF = 3

#: Most features of which a node tries a cut.
_MOST_TRIED = 10

#: How often random cuts are drawn for a node before it becomes a leaf: all cuts may leave one side too small.
_ATTEMPTS = 4

#: Most classes, or groups of classes, that are told apart when cuts are compared.
_GROUPS = 32

#: Rows that one thread follows to their leaves, most pairs of rows and trees whose leaves are kept, and most votes.
_AT_ONCE = 1 << 11
_KEPT = 1 << 22
_FULL = 1 << 22

#: Most votes of leaves, nodes times classes, that are written as one table for a device.
_TABLE = 1 << 26


@stored(
    n_trees=Count(1, size="t"),
    feature=ArrayOf("k", of="codes", low=0, below="d"),
    threshold=ArrayOf("k"),
    child=ArrayOf("k", of="codes", low=0, below="k"),
    n_features=Count(1, size="d"),
)
class Trees:
    """Binary trees in common arrays over their nodes; the first nodes are the roots.

    Attributes
    ----------
    n_trees, n_features : int
        Number of roots, and of features of a row.
    feature : ndarray of int64 of shape (n_nodes,)
        Feature that decides in each node.
    threshold : ndarray of float32 of shape (n_nodes,)
        A row goes to the first child if its value is at most this.
    child : ndarray of int64 of shape (n_nodes,)
        First of two neighbouring children; 0 for a leaf.

    Notes
    -----
    Geurts, Ernst and Wehenkel (Extremely randomized trees, 2006). All trees grow at the same time, level by level: each
    node tries one random cut of as many random features as the root of their number, and takes the one whose sides are
    the purest by Gini's index.

    Examples
    --------
    >>> rows, codes = np.array([[0.0], [1.0], [2.0], [9.0], [10.0], [11.0]], np.float32), np.array([0, 0, 0, 1, 1, 1])
    >>> trees = Trees.grow(rows, codes, 2, [np.arange(6)], np.random.default_rng(0))
    >>> trees.find_leaves(rows).ravel().tolist()
    [1, 1, 1, 2, 2, 2]
    """

    n_trees: int
    n_features: int
    feature: Index
    threshold: Array
    child: Index

    def check_stored(self) -> None:
        """Children come after their parents, so every way ends in a leaf."""
        inner = np.flatnonzero(self.child)
        if (self.child[inner] <= inner).any() or (self.child >= len(self.child) - 1).any():
            raise ValueError("a tree has a way that does not end in a leaf")
        if len(self.child) < self.n_trees:
            raise ValueError(f"{self.n_trees} trees have {len(self.child)} nodes")

    @classmethod
    def grow(
        cls, rows: Array, codes: Codes, n_classes: int, samples: Sequence[Index], rng: np.random.Generator
    ) -> Trees:
        """Grow one tree on each of some samples of the rows, given by their positions."""
        trees = cls()
        trees.n_trees, trees.n_features = len(samples), rows.shape[1]
        n_groups = min(n_classes, _GROUPS)
        # Groups stand for very many classes.
        growth = _Growth(np.ascontiguousarray(rows, np.float32), codes % n_groups, n_groups, samples)
        n_tried = min(math.isqrt(len(growth.varying) - 1) + 1, _MOST_TRIED) if len(growth.varying) else 0
        while n_tried and growth.is_active:
            growth.split(n_tried, rng)
            progress.pause()
        trees.feature, trees.threshold, trees.child = growth.nodes
        return trees

    def find_leaves(self, rows: Array, is_few: bool = False) -> NDArray[np.int32]:
        """Node in which each row ends in each tree, of shape (n_rows, n_trees); trees of few rows need no compiler."""
        with np.errstate(over="ignore"):  # beyond every threshold
            rows = np.ascontiguousarray(rows, np.float32)
        if (there := self.there()) is not None:
            return there.find_leaves(rows)
        follow = _loops(is_few).follow
        found = np.empty((len(rows), self.n_trees), np.int32)
        parts = [slice(start, start + _AT_ONCE) for start in range(0, len(rows), _AT_ONCE)]
        with worker_pool() as run:
            run(lambda part: follow(rows[part], self.feature, self.threshold, self.child, found[part]), parts)
        return found

    def there(self) -> Any:
        """The trees on the device where the jury computes; None on the processor."""
        if (device := computing_device()) is None:
            return None
        from nearkin.accelerator.device_votes import DeviceTrees

        return keep_there(self, "nodes", device, DeviceTrees, self.feature, self.threshold, self.child, self.n_trees)


def _loops(is_few: bool) -> ModuleType:
    """The loops over trees, compiled or not; both do the same."""
    if is_few:
        return few_trees
    from nearkin.kernels import trees

    return trees


class _Growth:
    """Trees while they grow: the nodes so far, and the rows of those that may still be split, node after node."""

    def __init__(self, rows: Array, codes: Codes, n_classes: int, samples: Sequence[Index]):
        # Column after column: items of a node are compared by one of them.
        self.columns, self.codes = np.ascontiguousarray(rows.T), codes
        # Features that are the same in all rows cannot split them.
        self.varying = np.flatnonzero(rows.max(axis=0, initial=-np.inf) > rows.min(axis=0, initial=np.inf))
        n_trees, self.items = len(samples), np.concatenate(samples)
        self.node, self.size = np.arange(n_trees), np.array([len(one) for one in samples])
        self.tried = np.zeros(n_trees, np.int64)
        cells = np.repeat(self.node, self.size) * n_classes + codes[self.items]
        self.counts = np.bincount(cells, minlength=n_trees * n_classes).reshape(n_trees, n_classes)
        self._feature, self._child = np.zeros(n_trees, np.int64), np.zeros(n_trees, np.int64)
        self._threshold = np.zeros(n_trees, np.float32)
        self._settle()

    @property
    def is_active(self) -> bool:
        return len(self.node) > 0

    @property
    def nodes(self) -> tuple[Index, Array, Index]:
        """Feature, threshold and first child of all nodes."""
        return self._feature, self._threshold, self._child

    def _settle(self) -> None:
        """Keep the nodes that may be split: large enough, and of several classes."""
        may = self.size >= 2 * _LEAST_IN_LEAF
        may &= (self.counts.max(axis=1, initial=0) < self.size) & (self.tried < _ATTEMPTS)
        if not may.all():
            self.items = self.items[np.repeat(may, self.size)]
            self.node, self.size, self.tried = self.node[may], self.size[may], self.tried[may]
            self.counts = self.counts[may]
        self.start = np.cumsum(self.size) - self.size

    def split(self, n_tried: int, rng: np.random.Generator) -> None:
        """Try random cuts of all nodes and split those for which one is found."""
        n = len(self.node)
        drawn = [(self.varying[rng.integers(len(self.varying), size=n)], rng.random(n)) for _ in range(n_tried)]
        purity, feature, cut = np.full(n, -1.0), np.zeros(n, np.int64), np.zeros(n, np.float32)
        n_left, of_left = np.zeros(n, np.int64), np.zeros_like(self.counts)
        features, draws = (np.array(each) for each in zip(*drawn, strict=True))
        _loops(len(self.codes) <= FEW_ROWS).split_nodes(
            self.columns, self.codes, features, draws, _LEAST_IN_LEAF, self.items, self.start, self.size, self.counts,
            purity, feature, cut, n_left, of_left,
        )  # fmt: skip
        is_split = purity >= 0.0
        split = np.flatnonzero(is_split)
        at, children = self.node[split], len(self._child) + 2 * np.arange(len(split))
        self._feature, self._threshold, self._child = (
            np.concatenate([old, np.zeros(2 * len(split), old.dtype)])
            for old in (self._feature, self._threshold, self._child)
        )
        self._feature[at], self._threshold[at], self._child[at] = feature[split], cut[split], children
        # A node that could not be split stays; the two sides of another follow each other.
        which = np.repeat(np.arange(n), np.where(is_split, 2, 1))
        is_second = np.concatenate([[False], which[1:] == which[:-1]])
        first = self.node.copy()
        first[split] = children
        n_left[~is_split], of_left[~is_split] = self.size[~is_split], self.counts[~is_split]
        self.node, self.tried = first[which] + is_second, np.where(is_split, 0, self.tried + 1)[which]
        self.size = np.where(is_second, (self.size - n_left)[which], n_left[which])
        self.counts = np.where(is_second[:, None], (self.counts - of_left)[which], of_left[which])
        self._settle()


@stored(
    name=Text(),
    _rows=ArrayOf("n", "d"),
    _codes=ArrayOf("n", of="codes", low=0, below="c"),
    _n_classes=Count(2, size="c"),
    trees=Part(Trees, d="d"),
    _in_bag=ArrayOf("n", of="words"),
)
class ForestVoter:
    """A forest whose trees judge the rows that they were grown without.

    Trees find what depends on few features, and on thresholds, which distances and regressions see late. Each tree is
    grown on a random part of the groups of rows. Its leaves vote with the labels of that part, on other groups only.

    Parameters
    ----------
    name : str
        Of the voter.
    rows : ndarray of shape (n_samples, n_features)
        Scaled.
    codes : ndarray of int64 of shape (n_samples,)
        Labels as whole numbers below ``n_classes``.
    n_classes : int
        Number of classes.
    groups : Groups or None, default=None
        Rows that are seen by a tree together or not at all.

    Notes
    -----
    Weights count in the votes of leaves; the trees are grown once, with equal weights. A tree sees at most 2,048 rows,
    so growing does not become dearer with more rows, and following them to their leaves is linear.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(200, 2))
    >>> codes = ((rows > 0).sum(axis=1) == 1).astype(np.int64)  # a chessboard, which no regression on features sees
    >>> voter = ForestVoter("forest", rows, codes, 2)
    >>> bool((voter.left_out(np.ones(200))(slice(None)).argmax(axis=1) == codes).mean() > 0.9)
    True
    >>> voter.answers(np.array([[1.0, 1.0], [1.0, -1.0]]), np.ones(200)).argmax(axis=1).tolist()
    [0, 1]
    """

    # Leaves of the rows, where they are not too many to keep; who votes in which leaf; votes at equal weights. Found
    # again when needed, and not stored.
    _leaves: NDArray[np.int32] | None = None
    _members: _Members | None = None
    _said: Array | None = None
    _equal: Array | None = None

    def __init__(self, name: str, rows: Array, codes: Codes, n_classes: int, groups: Groups | None = None):
        self.name, self._rows, self._codes, self._n_classes = name, rows, codes, n_classes
        rng = np.random.default_rng(0)
        group, n_groups = (np.arange(len(codes)), len(codes)) if groups is None else (groups.group, groups.n_groups)
        n_drawn = min(max(1, round(_IN_BAG * n_groups)), max(1, n_groups - 1))
        n_drawn = min(n_drawn, max(1, math.ceil(_MOST_IN_BAG * n_groups / len(codes))))
        self._in_bag, samples = np.zeros(len(codes), np.uint64), []
        for t in range(N_TREES):
            is_drawn = np.zeros(n_groups, bool)
            is_drawn[rng.choice(n_groups, n_drawn, replace=False, shuffle=False)] = True
            drawn = np.flatnonzero(is_drawn[group])
            self._in_bag[drawn] |= np.uint64(1) << np.uint64(t)
            samples.append(drawn if len(drawn) <= 2 * _MOST_IN_BAG else rng.permutation(drawn)[:_MOST_IN_BAG])
        self.trees = Trees.grow(rows, codes, n_classes, samples, rng)

    @property
    def votes_with(self) -> str:
        """What the votes rest on."""
        return f"leaves of {self.trees.n_trees} random trees, each grown without the rows it judges"

    def check_stored(self) -> None:
        """There is a bit for every tree."""
        if self.trees.n_trees > N_TREES:
            raise ValueError(f"a forest has {self.trees.n_trees} trees, more than {N_TREES}")

    def left_out(self, weights: Array) -> VotesOn:
        """Votes on training rows by the trees that were grown without them."""
        is_equal = bool((weights == 1.0).all())
        if is_equal and self._said is not None:
            return self._said.__getitem__
        cast = self._cast(weights)

        def votes(part: Any) -> Array:
            return self._vote(self._rows[part], self._in_bag[part], cast, lambda: self._find_leaves(part))

        if not is_equal or len(self._codes) * self._n_classes > _FULL:
            return votes
        self._said = np.concatenate([votes(part) for part in split_rows(len(self._codes), self._n_classes)])
        return self._said.__getitem__

    def answers(self, queries: Array, weights: Array) -> Array:
        """Votes on new scaled rows by all trees, of shape (n_queries, n_classes)."""
        nothing, cast = np.zeros(len(queries), np.uint64), self._cast(weights)
        return self._vote(queries, nothing, cast, lambda: self.trees.find_leaves(queries, self._is_few))

    def _vote(self, rows: Array, seen: Any, cast: Array, find_leaves: Callable[[], NDArray[np.int32]]) -> Array:
        """Mean votes on rows by the trees that have not seen them."""
        its, n_nodes = self._find_members(), len(self.trees.child)
        there = self.trees.there() if n_nodes * self._n_classes <= _TABLE else None
        if there is None:
            return self._count(find_leaves(), seen, cast)
        table = np.zeros((n_nodes, self._n_classes))
        table[its.leaf, its.code] = cast
        with np.errstate(over="ignore"):  # beyond every threshold
            rows = np.ascontiguousarray(rows, np.float32)
        return there.votes(rows, seen if seen.any() else None, table)

    @property
    def _is_few(self) -> bool:
        return len(self._codes) <= FEW_ROWS

    def _is_in_bag(self, part: Any) -> Any:
        """Which trees have seen some rows, of shape (n_rows, n_trees)."""
        return (self._in_bag[part, None] >> np.arange(self.trees.n_trees, dtype=np.uint64)) & np.uint64(1) != 0

    def _find_leaves(self, part: Any) -> NDArray[np.int32]:
        if self._leaves is None and len(self._codes) * self.trees.n_trees <= _KEPT:
            self._leaves = self.trees.find_leaves(self._rows, self._is_few)
        return self.trees.find_leaves(self._rows[part], self._is_few) if self._leaves is None else self._leaves[part]

    def _find_members(self) -> _Members:
        """Who votes in which leaf, found at the first use."""
        if self._members is None:
            step, found = max(1, _KEPT // self.trees.n_trees), []
            for start in range(0, len(self._codes), step):
                part = slice(start, start + step)
                row, tree = np.nonzero(self._is_in_bag(part))
                found.append((self._find_leaves(part)[row, tree], row + start))
            leaf, row = (np.concatenate(each) for each in zip(*found, strict=True))
            key = leaf * np.int64(self._n_classes) + self._codes[row]
            order = np.argsort(key, kind="stable")
            key, row = key[order], row[order]
            begins = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
            leaf, code = np.divmod(key[begins], self._n_classes)
            first = np.searchsorted(leaf, np.arange(len(self.trees.child) + 1))
            self._members = _Members(row, begins, leaf, code, first)
        return self._members

    def _cast(self, weights: Array) -> Array:
        """Vote of every leaf for each class among its members; those of a leaf with weights sum to 1."""
        is_equal = bool((weights == 1.0).all())
        if is_equal and self._equal is not None:
            return self._equal
        its = self._find_members()
        progress.pause()
        cast = np.add.reduceat(weights[its.rows], its.begins)
        total = np.bincount(its.leaf, cast, len(self.trees.child))[its.leaf]
        cast = np.divide(cast, total, out=np.zeros(len(cast)), where=total > 0.0)
        if is_equal:  # these are needed again and again
            self._equal = cast
        return cast

    def _count(self, leaves: NDArray[np.int32], seen: Any, cast: Array) -> Array:
        """Mean votes of the leaves in trees that have not seen a row; equal shares where none has any."""
        its, votes = self._find_members(), np.zeros((len(leaves), self._n_classes))
        leaves, seen = np.ascontiguousarray(leaves), np.ascontiguousarray(seen)
        _loops(self._is_few).add_votes(leaves, seen, its.first, its.code, cast, votes)
        total = votes.sum(axis=1, keepdims=True)
        votes /= np.where(total > 0.0, total, 1.0)
        votes[total[:, 0] <= 0.0] = 1.0 / self._n_classes
        return votes


class _Members(NamedTuple):
    """Training rows in the leaves of the trees that have seen them, leaf by leaf and class by class."""

    rows: Index
    #: Where the rows of each leaf and class begin, which leaf and class these are, and the first of every leaf.
    begins: Index
    leaf: Index
    code: Index
    first: Index
