"""Similarities in the feature spaces of kernels: operators kept as bounded sums over triplets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array
from nearkin.kernels import StepRule, TripletRows
from nearkin.measures import SIMILARITY, Measure
from nearkin.mercer import MercerKernel
from nearkin.parameters.contract import LearningRule, Parameter, feed
from nearkin.stored import ArrayOf, Count, Items, Number, Part, stored
from nearkin.triplets import Triplets

__all__ = ["Supports"]


#: Most numbers of a table that is held at once while scores are computed.
_TABLE = 1 << 20

#: Room for terms to begin with.
_FIRST = 64


@stored(
    measure=Part(Measure),
    kernels=Items(Part(MercerKernel), "K", least=1),
    budget=Count(1),
    discount=Number(0.0, 1.0),
    theta=ArrayOf("K", of="doubles", low=0.0),
    seen=ArrayOf("K", of="codes", low=0, high=2**53),
    tau=ArrayOf("K", "m", of="doubles"),
    rows=ArrayOf("K", 3, "m", "d", dtype="T"),
    squares=ArrayOf("K", 3, "m", of="doubles"),
)
class Supports(Parameter):
    """One operator per kernel, each a sum of at most ``budget`` terms, and the weights theta of the kernels.

    ``S(x, y) = sum_k theta_k S_k(x, y)``, ``S_k(x, y) = k(x, y) + sum_i tau_i k(x, x_i) [k(x_i+, y) - k(x_i-, y)]``.
    Room grows with the terms up to the budget; from then on a new term takes the place of the oldest.
    """

    has_one_space = False
    moving: ClassVar[tuple[str, ...]] = ("theta", "seen", "tau", "rows", "squares")
    bounded: ClassVar[dict[str, float]] = {"tau": 0.5}

    def __init__(
        self, kernels: Sequence[MercerKernel], n_features: int, dtype: np.dtype, budget: int, discount: float = 1.0
    ):
        K = len(kernels)
        self.measure = SIMILARITY
        self.kernels = tuple(kernels)
        self.budget = int(budget)
        self.discount = float(discount)
        self.theta = np.full(K, 1.0 / K)
        self.seen = np.zeros(K, np.int64)
        self.tau = np.zeros((K, 0))
        self.rows = np.zeros((K, 3, 0, n_features), dtype)
        self.squares = np.zeros((K, 3, 0))

    def learn(self, triplets: Triplets, rule: LearningRule) -> tuple[Array, int]:
        """One sweep; every kernel takes its own step."""
        from nearkin.kernels import supports

        kinds = np.array([one.kind for one in self.kernels])
        numbers = np.array([one.numbers for one in self.kernels])
        spaces = supports.Spaces(kinds, numbers, self.theta, self.discount)

        def sweep(rows: TripletRows, step: StepRule, plausibility: Array) -> int:
            self._make_room(len(plausibility))
            terms = supports.Terms(self.tau, self.rows, self.squares, self.seen)
            return supports.sweep.run(rule.loss, terms, spaces, rows, step, plausibility)

        return feed(triplets, rule, sweep)

    def check_stored(self) -> None:
        """Refuse more terms than there is room for."""
        if not int(self.n_terms.max()) <= self.tau.shape[1] <= self.budget:
            raise ValueError(f"there are {self.n_terms.max()} terms in room for {self.tau.shape[1]}")

    def _make_room(self, n: int) -> None:
        """Let n more terms find a place; before the budget is reached nothing is ever overwritten."""
        room = self.tau.shape[1]
        needed = min(self.budget, int(self.seen.max()) + n)
        if needed <= room:
            return
        more = min(self.budget, max(needed, 2 * room, _FIRST)) - room
        self.tau = np.pad(self.tau, ((0, 0), (0, more)))
        self.rows = np.pad(self.rows, ((0, 0), (0, 0), (0, more), (0, 0)))
        self.squares = np.pad(self.squares, ((0, 0), (0, 0), (0, more)))

    @property
    def n_terms(self) -> NDArray[np.int64]:
        """Terms that each kernel holds."""
        return np.minimum(self.seen, self.budget)

    def terms_of(self, k: int) -> tuple[Array, Array]:
        """Step sizes (n,) and rows (3, n, d) of kernel k, the oldest term first."""
        n, room = int(self.n_terms[k]), max(1, self.tau.shape[1])
        order = (int(self.seen[k]) - n + np.arange(n)) % room
        return self.tau[k, order], self.rows[k][:, order]

    def margins(self, triplets: Triplets) -> Array:
        """``S(x, x+) - S(x, x-)``."""
        z = np.empty(len(triplets))
        for part, v in triplets.vectors():
            for inner in _pieces(part.stop - part.start, self._width):
                x = v.anchors[v.anchor[inner]]
                positive, negative = v.positives[v.positive[inner]], v.negatives[v.negative[inner]]
                here = slice(part.start + inner.start, part.start + inner.stop)
                z[here] = self.pair_scores(x, positive) - self.pair_scores(x, negative)
        return z

    def scores(self, left: Array, right: Array) -> Array:
        """``S`` of all pairs; the tables of kernel values with the terms are made in pieces."""
        total = np.zeros((len(left), len(right)), left.dtype)
        for inner in _pieces(len(right), self._width):
            for k, kernel in enumerate(self.kernels):
                n = int(self.n_terms[k])
                there = self._items(k, n, right[inner])
                for outer in _pieces(len(left), self._width):
                    part = kernel.table(left[outer], right[inner])
                    part += self._queries(k, n, left[outer]) @ there.T
                    total[outer, inner] += self.theta[k] * part
        return total

    def pair_scores(self, left: Array, right: Array) -> Array:
        """``S`` of row i of one with row i of the other."""
        total = np.zeros(len(left), left.dtype)
        for part in _pieces(len(left), self._width):
            for k, kernel in enumerate(self.kernels):
                n = int(self.n_terms[k])
                learned = (self._queries(k, n, left[part]) * self._items(k, n, right[part])).sum(axis=1)
                total[part] += self.theta[k] * (kernel.pairs(left[part], right[part]) + learned)
        return total

    def _queries(self, k: int, n: int, X: Array) -> Array:
        """``tau_i k(x, x_i)`` of every row."""
        return self.kernels[k].table(X, self.rows[k, 0, :n]) * self.tau[k, :n]

    def _items(self, k: int, n: int, X: Array) -> Array:
        """``k(x_i+, y) - k(x_i-, y)`` of every row."""
        return self.kernels[k].table(X, self.rows[k, 1, :n]) - self.kernels[k].table(X, self.rows[k, 2, :n])

    @property
    def _width(self) -> int:
        """Rows at a time."""
        return max(1, _TABLE // max(1, self.tau.shape[1], self.rows.shape[3]))


def _pieces(n: int, step: int) -> Iterator[slice]:
    for start in range(0, n, step):
        yield slice(start, min(n, start + step))
