"""Votes of a jury on a device: neighbours ranked and counted, regressions, and leaves of trees.

The formulas are those of the voters in `nearkin.jury`, with the same results up to rounding. Arrays go in and come out;
`nearkin.accelerator.keep_there` keeps the objects here as long as the voters whose arrays they hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from nearkin.accelerator.device import full_precision, send, to_device, to_host
from nearkin.arrays import Array, Codes, Index, Mask

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["DeviceFeatures", "DeviceSpace", "DeviceTrees", "count_ranks"]

#: Numbers of a block of work.
_AT_ONCE = 1 << 27


def _blocks(n: int, width: int) -> Iterator[slice]:
    """Parts of n rows, each of which needs ``width`` numbers."""
    step = max(1, _AT_ONCE // max(1, width))
    return (slice(start, start + step) for start in range(0, n, step))


def count_ranks(index: Index, codes: Codes, weights: Array, n_classes: int, bandwidth: float, device: Any) -> Array:
    """Count the votes of neighbours as `nearkin.jury.rank_votes` does."""
    ranked, own, weight = (send(one, device) for one in (index, codes, np.asarray(weights, dtype=np.float64)))
    votes = weight.new_zeros(len(index), n_classes)
    falling = torch.exp(-torch.arange(index.shape[1], device=device, dtype=torch.float64) / bandwidth)
    for part in _blocks(len(index), 4 * index.shape[1]):
        some = ranked[part].long()
        cast, code = falling * weight[some], own[some]
        # One rank after the other: sums in a fixed order have the same bits in every run.
        for j in range(index.shape[1]):
            votes[part].scatter_add_(1, code[:, j : j + 1], cast[:, j : j + 1])
    return to_host(_normalise(votes))


def _normalise(votes: Tensor) -> Tensor:
    """Votes of every row that sum to 1; equal shares where there are none."""
    total = votes.sum(1, keepdim=True)
    return torch.where(total > 0.0, votes / torch.where(total > 0.0, total, 1.0), 1.0 / votes.shape[1])


class DeviceSpace:
    """Training rows in a learned space, on a device; see `nearkin.jury.LearnedSpace`."""

    def __init__(self, rows: Array, space: Array, center: Array, device: Any):
        self.device = device
        self.rows, self.space, self.center = (to_device(one, device) for one in (rows, space, center))

    def map_rows(self, queries: Array) -> Tensor:
        """Scaled rows in the space."""
        rows = send(queries, self.device)
        with full_precision():
            return (rows - self.center.to(rows.dtype)) @ self.space.mT.to(rows.dtype)

    def rank(self, candidates: Index, mapped: Any, k: int) -> NDArray[np.int32]:
        """The k candidates of every mapped row that are nearest to it, the nearest first."""
        if isinstance(mapped, np.ndarray):
            mapped = send(mapped, self.device)
        among = send(candidates, self.device)
        chosen = torch.empty(len(among), k, dtype=torch.int32, device=self.device)
        for part in _blocks(len(among), 2 * among.shape[1] * self.rows.shape[1]):
            some = among[part]
            apart = self.rows[some.long()]
            apart -= mapped[part, None, :]
            nearest = apart.square_().sum(2).topk(k, dim=1, largest=False).indices
            chosen[part] = some.gather(1, nearest).int()
        return to_host(chosen)

    def are_far(self, mapped: Tensor, most: float) -> Mask:
        """Whether the squared length of mapped rows is beyond ``most`` times that of the longest training row."""
        norms, largest = mapped.square().sum(1), self.rows.square().sum(1).max()
        return to_host(~(norms <= most * largest.clamp(min=torch.finfo(norms.dtype).tiny)))


class DeviceFeatures:
    """Standardised features of training rows, of a `nearkin.jury.RidgeVoter`, on a device.

    They are made of landmarks, the matrix that turns the nearness to them, and the rate at which it falls; without
    landmarks they are the rows, or their products with that matrix. Then follow the shift, the factor and the constant
    that standardise them.
    """

    def __init__(
        self, rows: Array, codes: Codes, made_of: tuple[Array | None, Array | None, float, Array, float, float],
        device: Any,
    ):  # fmt: skip
        marks, turn, self.rate, shift, self.factor, self.constant = made_of
        self.device = device
        self.marks, self.turn = (None if one is None else to_device(one, device) for one in (marks, turn))
        self.shift, self.codes = to_device(shift, device), to_device(codes, device)
        self.made = self._of(to_device(rows, device))

    def _of(self, rows: Tensor) -> Tensor:
        with full_precision():
            if self.marks is not None:
                apart = torch.addmm((self.marks * self.marks).sum(1), rows, self.marks.mT, alpha=-2.0)
                apart += (rows * rows).sum(1, keepdim=True)
                rows = torch.exp(apart.clamp_(min=0.0).mul_(-self.rate))
            if self.turn is not None:
                rows = rows @ self.turn
        made = torch.empty(len(rows), rows.shape[1] + 1, dtype=torch.float32, device=self.device)
        made[:, :-1] = (rows - self.shift) * self.factor
        made[:, -1] = self.constant
        return made

    def fit(self, queries: Array, coefficients: Array) -> Array:
        """Products of the features of new rows with coefficients."""
        rows, there = send(queries, self.device), to_device(coefficients, self.device)
        fits = []
        for part in _blocks(len(rows), 4 * len(coefficients)):
            made = self._of(rows[part])
            with full_precision():
                fits.append(made @ there)
        return to_host(torch.cat(fits)) if fits else np.empty((0, coefficients.shape[1]), np.float32)

    def leverages(self, at: Index, inverse: Array, coefficients: Array) -> tuple[Array, Array]:
        """``x' inverse x`` of some training rows x, and their products with coefficients."""
        there, known = (to_device(one, self.device) for one in (inverse, coefficients))
        X = self.made[to_device(at, self.device)]
        with full_precision():
            return to_host(((X @ there) * X).sum(1)), to_host(X @ known)

    def sums(self, weights: Array | None, n_classes: int) -> tuple[Array, Array]:
        """``X' W X`` and the sums of the weighted rows of every class, in double precision; None weighs all alike."""
        width = self.made.shape[1]
        gram = torch.zeros(width, width, dtype=torch.float64, device=self.device)
        right = torch.zeros(n_classes, width, dtype=torch.float64, device=self.device)
        roots = None if weights is None else to_device(np.sqrt(weights).astype(np.float32), self.device)
        for part in _blocks(len(self.made), (width + n_classes) << 6):  # short sums lose less to rounding
            some = self.made[part]
            if roots is not None:
                some = some * roots[part, None]
            member = torch.zeros(len(some), n_classes, dtype=some.dtype, device=self.device)
            member.scatter_(1, self.codes[part, None], 1.0 if roots is None else roots[part, None])
            with full_precision():
                gram += some.mT @ some
                right += member.mT @ some
        return to_host(gram), to_host(right)


class DeviceTrees:
    """Trees of a `nearkin.jury.ForestVoter` on a device."""

    def __init__(self, feature: Index, threshold: Array, child: Index, n_trees: int, device: Any):
        self.device, self.n_trees = device, n_trees
        self.feature, self.threshold, self.child = (to_device(one, device) for one in (feature, threshold, child))

    def _follow(self, rows: Tensor) -> Tensor:
        node = torch.arange(self.n_trees, device=self.device).expand(len(rows), self.n_trees)
        while True:
            first = self.child[node]
            is_inner = first > 0
            if not bool(is_inner.any()):
                return node
            # What is not a number goes on to the second child.
            is_second = ~(rows.gather(1, self.feature[node]) <= self.threshold[node])
            node = torch.where(is_inner, first + is_second, node)

    def find_leaves(self, rows: Array) -> NDArray[np.int32]:
        """Node in which each row ends in each tree."""
        there, leaves = send(rows, self.device), np.empty((len(rows), self.n_trees), np.int32)
        for part in _blocks(len(rows), 8 * self.n_trees):
            leaves[part] = to_host(self._follow(there[part]).int())
        return leaves

    def votes(self, rows: Array, seen: Array | None, table: Array) -> Array:
        """Mean votes of leaves, ``table[leaf]``, in the trees that have not seen a row, a bit of ``seen`` each."""
        there, cast = send(rows, self.device), to_device(table, self.device)
        words = None if seen is None else to_device(seen.view(np.int64), self.device)
        votes = cast.new_zeros(len(rows), cast.shape[1])
        for part in _blocks(len(rows), 8 * self.n_trees + 4 * cast.shape[1]):
            leaves = self._follow(there[part])
            for t in range(self.n_trees):
                some = cast[leaves[:, t]]
                votes[part] += some if words is None else some * (1 - (words[part] >> t & 1))[:, None]
        return to_host(_normalise(votes))
