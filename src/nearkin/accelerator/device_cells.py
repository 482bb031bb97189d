"""Nearest rows by scaled distances on a device: of all rows in the cells that are nearest to a query."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.accelerator.device import full_precision, to_device, to_host
from nearkin.arrays import Array, Index

__all__ = ["DeviceCells"]

#: Scores at a time; several threads may ask.
_SCORES = 1 << 27


class DeviceCells:
    """Rows in cells on a device, which compares every query with all of them and counts those of the nearest cells.

    It finds what `LocalNeighbours` finds on the processor, up to rounding.

    Parameters
    ----------
    rows, norms, factors, numbers : ndarray
        Rows cell by cell, their squared lengths, the factors of squared distances to them, and their numbers.
    centres, sizes : ndarray
        Mean of the rows of each cell, and their number.
    device : torch.device
        Where.

    Examples
    --------
    >>> import torch
    >>> rows, ones = np.array([[0.0], [1.0], [5.0], [6.0]]), np.ones(4)
    >>> cells = np.array([[0.5], [5.5]]), np.array([2, 2])
    >>> there = DeviceCells(rows, rows[:, 0] ** 2, ones, np.arange(4), *cells, torch.device("cpu"))
    >>> there.nearest(np.array([[1.2]]), np.array([-1]), 2, 1)[1].tolist()
    [[1, 0]]
    """

    def __init__(
        self, rows: Array, norms: Array, factors: Array, numbers: Index, centres: Array, sizes: Index, device: Any
    ):
        self.device = device
        self.rows, self.norms, self.factors, self.centres = (
            to_device(one, device) for one in (rows, norms, factors, centres)
        )
        self.numbers = to_device(numbers.astype(np.int32), device)
        self.cell = to_device(np.repeat(np.arange(len(sizes)), sizes), device)
        self.lengths = (self.centres * self.centres).sum(1)

    def nearest(self, queries: Array, own: Index, k: int, n_probes: int) -> tuple[Array, NDArray[np.int32]]:
        """Values and numbers of the k nearest rows in the ``n_probes`` nearest cells of every query, except its own.

        Queries whose cells hold fewer than k rows are compared with all of them.
        """
        import torch

        step = max(1, _SCORES // len(self.rows))
        values, found = np.empty((len(queries), k), queries.dtype), np.empty((len(queries), k), np.int32)
        with full_precision(), torch.no_grad():
            for start in range(0, len(queries), step):
                part = slice(start, start + step)
                some, mine = to_device(queries[part], self.device), to_device(own[part], self.device)
                best, which = self._search(some, mine, k, n_probes)
                few = ~torch.isfinite(best[:, -1])
                if bool(few.any()):
                    best[few], which[few] = self._search(some[few], mine[few], k, len(self.centres))
                values[part], found[part] = to_host(best), to_host(self.numbers[which])
        return values, found

    def _search(self, queries: Any, own: Any, k: int, n_probes: int) -> tuple[Any, Any]:
        import torch

        scores = torch.addmm(self.norms, queries, self.rows.mT, alpha=-2.0)
        scores += (queries * queries).sum(1, keepdim=True)
        scores.clamp_(min=0.0).mul_(self.factors)
        if n_probes < len(self.centres):
            far = torch.addmm(self.lengths, queries, self.centres.mT, alpha=-2.0)
            near = far.topk(n_probes, dim=1, largest=False, sorted=False).indices
            is_probed = torch.zeros(far.shape, dtype=torch.bool, device=self.device).scatter_(1, near, True)
            scores.masked_fill_(~is_probed[:, self.cell], float("inf"))
        if bool((own >= 0).any()):
            scores.masked_fill_(own[:, None] == self.numbers, float("inf"))
        found = scores.topk(k, dim=1, largest=False)
        return found.values, found.indices
