"""A forest of extremely randomised trees: a voter that judges each row by the trees that were grown without it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nearkin import progress
from nearkin.arrays import Array, Codes, Index
from nearkin.jury.copies import Groups
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

#: Most pairs of rows and trees that are followed at once, and whose leaves are kept.
_AT_ONCE = 1 << 16
_KEPT = 1 << 22

#: Most numbers in a full table of the votes of leaves, and in one that is kept.
_FULL = 1 << 22
_KEPT_VOTES = 1 << 20


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
        while growth.is_active:
            growth.split(n_tried, rng)
        trees.feature, trees.threshold, trees.child = growth.nodes
        return trees

    def find_leaves(self, rows: Array) -> NDArray[np.int32]:
        """Node in which each row ends in each tree, of shape (n_rows, n_trees)."""
        n = len(rows)
        with np.errstate(over="ignore"):  # beyond every threshold
            flat = np.ascontiguousarray(rows, np.float32).ravel()
        found = np.empty((n, self.n_trees), np.int32)
        step = max(1, _AT_ONCE // self.n_trees)
        for start in range(0, n, step):
            progress.pause()
            size = min(step, n - start)
            ends = np.tile(np.arange(self.n_trees), size)
            # Pairs of a row and a tree that are still on their way, the places of their rows, and the nodes.
            open_, node = np.arange(len(ends)), ends.copy()
            first = np.repeat(np.arange(start, start + size) * self.n_features, self.n_trees)
            while len(open_):
                inner = np.flatnonzero(self.child[node])
                open_, first, node = open_[inner], first[inner], node[inner]
                goes_on = ~(flat[first + self.feature[node]] <= self.threshold[node])
                node = self.child[node] + goes_on
                ends[open_] = node
            found[start : start + size] = ends.reshape(size, self.n_trees)
        return found


class _Growth:
    """Trees while they grow: the nodes so far, and the rows of those that may still be split, node after node."""

    def __init__(self, rows: Array, codes: Codes, n_classes: int, samples: Sequence[Index]):
        # Column after column: items of a node are compared by one of them.
        self.columns, self.codes, self.n_classes = rows.T.ravel(), codes, n_classes
        self.n = len(rows)
        # Features that are the same in all rows are no choice.
        self.varying = np.flatnonzero(rows.max(axis=0, initial=-np.inf) > rows.min(axis=0, initial=np.inf))
        n_trees, self.items = len(samples), np.concatenate(samples)
        self.node, self.size = np.arange(n_trees), np.array([len(one) for one in samples])
        self.tried = np.zeros(n_trees, np.int64)
        self._feature, self._child = [np.zeros(n_trees, np.int64)], [np.zeros(n_trees, np.int64)]
        self._threshold = [np.zeros(n_trees, np.float32)]
        self.n_nodes = n_trees
        self._settle()

    @property
    def is_active(self) -> bool:
        return len(self.node) > 0

    @property
    def nodes(self) -> tuple[Index, Array, Index]:
        """Feature, threshold and first child of all nodes."""
        return self._feature[0], self._threshold[0], self._child[0]

    def _settle(self) -> None:
        """Keep the nodes that may be split: large enough, and of several classes."""
        seg = np.repeat(np.arange(len(self.node)), self.size)
        cells = seg * self.n_classes + self.codes[self.items]
        counts = np.bincount(cells, minlength=len(self.node) * self.n_classes).reshape(-1, self.n_classes)
        may = (self.size >= 2 * _LEAST_IN_LEAF) & (counts.max(axis=1, initial=0) < self.size) & (self.tried < _ATTEMPTS)
        if not may.all():
            kept = np.repeat(may, self.size)
            self.items, cells = self.items[kept], cells[kept]
            self.node, self.size, self.tried, counts = self.node[may], self.size[may], self.tried[may], counts[may]
            seg = np.repeat(np.arange(len(self.node)), self.size)
            cells = seg * self.n_classes + self.codes[self.items]
        self.cells, self.counts = cells, counts
        self.start = np.cumsum(self.size) - self.size

    def split(self, n_tried: int, rng: np.random.Generator) -> None:
        """Try random cuts of all nodes and split those for which one is found."""
        n = len(self.node)
        best, feature, cut = np.full(n, -1.0), np.zeros(n, np.int64), np.zeros(n, np.float32)
        goes_left, n_left = np.zeros(len(self.items), bool), np.zeros(n, np.int64)
        for _ in range(n_tried):
            progress.pause()
            one = self.varying[rng.integers(len(self.varying), size=n)]
            values = self.columns.take(self.items + np.repeat(one * self.n, self.size))
            low, high = np.minimum.reduceat(values, self.start), np.maximum.reduceat(values, self.start)
            # Halves, so that the largest numbers do not overflow.
            at = (low + 2.0 * rng.random(n) * (0.5 * high - 0.5 * low)).astype(np.float32)
            at = np.where(at < high, np.maximum(at, low), low)
            left = values <= np.repeat(at, self.size)
            counts = np.bincount(self.cells[left], minlength=n * self.n_classes).reshape(n, self.n_classes)
            size = counts.sum(axis=1)
            other = self.counts - counts
            is_valid = (size >= _LEAST_IN_LEAF) & (self.size - size >= _LEAST_IN_LEAF)
            purity = np.full(n, -1.0)
            np.divide((counts * counts).sum(axis=1), size, out=purity, where=is_valid)
            purity += np.divide((other * other).sum(axis=1), self.size - size, out=np.zeros(n), where=is_valid)
            better = purity > best
            best = np.maximum(best, purity)
            feature, cut, n_left = (np.where(better, *pair) for pair in ((one, feature), (at, cut), (size, n_left)))
            np.copyto(goes_left, left, where=np.repeat(better, self.size))
        progress.pause()
        self._split_at(best >= 0.0, feature, cut, goes_left, n_left)

    def _split_at(self, is_split: Any, feature: Index, cut: Array, goes_left: Any, n_left: Index) -> None:
        split = np.flatnonzero(is_split)
        children = self.n_nodes + 2 * np.arange(len(split))
        self._feature, self._threshold, self._child = (
            [np.concatenate([*old, np.zeros(2 * len(split), old[0].dtype)])]
            for old in (self._feature, self._threshold, self._child)
        )
        at = self.node[split]
        self._feature[0][at], self._threshold[0][at], self._child[0][at] = feature[split], cut[split], children
        self.n_nodes += 2 * len(split)
        # A node that could not be split counts as one side.
        goes_left |= np.repeat(~is_split, self.size)
        n_left = np.where(is_split, n_left, self.size)
        before = np.cumsum(goes_left) - goes_left  # items before each that go left
        start = np.repeat(self.start, self.size)
        lefts = before - np.repeat(before[self.start], self.size)
        rank = np.arange(len(self.items)) - start
        to = start + np.where(goes_left, lefts, np.repeat(n_left, self.size) + rank - lefts)
        moved = np.empty_like(self.items)
        moved[to] = self.items
        self.items = moved
        sides, first = np.where(is_split, 2, 1), np.zeros(len(self.node), np.int64)
        first[split] = children
        which = np.repeat(np.arange(len(self.node)), sides)
        is_second = np.concatenate([[False], which[1:] == which[:-1]])
        self.node = np.where(is_split, first, self.node)[which] + is_second
        self.tried = np.where(is_split, 0, self.tried + 1)[which]
        self.size = np.where(is_second, (self.size - n_left)[which], n_left[which])
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

    # Leaves of the rows, where they are not too many to keep; pairs of a leaf and a row that votes in it; votes at
    # equal weights. Found again when needed, and not stored.
    _leaves: NDArray[np.int32] | None = None
    _members: tuple[NDArray[np.int32], Index] | None = None
    _said: Array | None = None
    _equal: Any = None

    def __init__(self, name: str, rows: Array, codes: Codes, n_classes: int, groups: Groups | None = None):
        self.name, self._rows, self._codes, self._n_classes = name, rows, codes, n_classes
        rng = np.random.default_rng(0)
        group, n_groups = (np.arange(len(codes)), len(codes)) if groups is None else (groups.group, groups.n_groups)
        n_drawn = min(max(1, round(_IN_BAG * n_groups)), max(1, n_groups - 1))
        n_drawn = min(n_drawn, max(1, math.ceil(_MOST_IN_BAG * n_groups / len(codes))))
        progress.pause()
        self._in_bag, samples = np.zeros(len(codes), np.uint64), []
        for t in range(N_TREES):
            is_drawn = np.zeros(n_groups, bool)
            is_drawn[rng.choice(n_groups, n_drawn, replace=False, shuffle=False)] = True
            drawn = np.flatnonzero(is_drawn[group])
            self._in_bag[drawn] |= np.uint64(1) << np.uint64(t)
            samples.append(drawn if len(drawn) <= 2 * _MOST_IN_BAG else rng.permutation(drawn)[:_MOST_IN_BAG])
        progress.pause()
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
        table = self._table(weights)

        def votes(part: Any) -> Array:
            return self._count(self._find_leaves(part), ~self._is_in_bag(part), table)

        if not is_equal or len(self._codes) * self._n_classes > _FULL:
            return votes
        self._said = np.concatenate([votes(part) for part in split_rows(len(self._codes), self._n_classes)])
        return self._said.__getitem__

    def answers(self, queries: Array, weights: Array) -> Array:
        """Votes on new scaled rows by all trees, of shape (n_queries, n_classes)."""
        leaves = self.trees.find_leaves(queries)
        return self._count(leaves, np.ones(leaves.shape, bool), self._table(weights))

    def _is_in_bag(self, part: Any) -> Any:
        """Which trees have seen some rows, of shape (n_rows, n_trees)."""
        return (self._in_bag[part, None] >> np.arange(self.trees.n_trees, dtype=np.uint64)) & np.uint64(1) != 0

    def _find_leaves(self, part: Any) -> NDArray[np.int32]:
        if self._leaves is None and len(self._codes) * self.trees.n_trees <= _KEPT:
            self._leaves = self.trees.find_leaves(self._rows).astype(np.int32)
        return self.trees.find_leaves(self._rows[part]) if self._leaves is None else self._leaves[part]

    def _table(self, weights: Array) -> Any:
        """Votes of every node, of shape (n_nodes, n_classes); those of a leaf with weights sum to 1."""
        is_small = len(self.trees.child) * self._n_classes <= _KEPT_VOTES
        if not is_small or not (weights == 1.0).all():
            return self._count_by_leaf(weights)
        if self._equal is None:  # these are needed again and again
            self._equal = self._count_by_leaf(weights)
        return self._equal

    def _count_by_leaf(self, weights: Array) -> Any:
        if self._members is None:
            step = max(1, _KEPT // self.trees.n_trees)
            found = []
            for start in range(0, len(self._codes), step):
                part = slice(start, start + step)
                row, tree = np.nonzero(self._is_in_bag(part))
                found.append((self._find_leaves(part)[row, tree], row + start))
            self._members = np.concatenate([one for one, _ in found]), np.concatenate([one for _, one in found])
        progress.pause()
        leaf, row = self._members
        n, cast = len(self.trees.child), weights[row]
        total = np.bincount(leaf, cast, n)
        cast = np.divide(cast, total[leaf], out=np.zeros(len(leaf)), where=total[leaf] > 0)
        if n * self._n_classes <= _FULL:
            cells = leaf * self._n_classes + self._codes[row]
            return np.bincount(cells, cast, n * self._n_classes).reshape(n, self._n_classes)
        return sparse.csr_array((cast, (leaf, self._codes[row])), shape=(n, self._n_classes))

    def _count(self, leaves: NDArray[np.int32], is_asked: Any, table: Any) -> Array:
        """Mean votes of the leaves of some trees; equal shares where none has any."""
        ends = np.concatenate([[0], np.cumsum(is_asked.sum(axis=1))])
        which = leaves[is_asked]
        asked = sparse.csr_array((np.ones(len(which)), which, ends), shape=(len(leaves), table.shape[0]))
        votes = asked @ table
        votes = votes.toarray() if sparse.issparse(votes) else votes
        total = votes.sum(axis=1, keepdims=True)
        votes /= np.where(total > 0.0, total, 1.0)
        votes[total[:, 0] <= 0.0] = 1.0 / self._n_classes
        return votes
