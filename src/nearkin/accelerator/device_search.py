"""Rows mapped and nearest neighbours found on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.accelerator.device import full_precision, to_device, to_host
from nearkin.arrays import Array
from nearkin.errors import InputError
from nearkin.measures import Measure
from nearkin.rows import Scaling

__all__ = ["DeviceSearch", "map_rows"]

#: Items of a group; items, queries and groups of one program; scores at a time.
_GROUP = 64
_ITEMS = 1 << 16
_TILE, _SPAN = 128, 64
_SCORES = 1 << 29
_FOUND = 1 << 27

#: Numbers sent to the device at a time.
_NUMBERS = 1 << 26


class DeviceSearch:
    """All scores, a block at a time, as `NeighbourSearch` of `nearkin.neighbors` computes them on the processor.

    The first pass keeps only the best score of every group of 64 items. The k nearest items lie in the k groups with
    the best such scores; the second pass compares their items one by one.
    """

    def __init__(self, items: Array, measure: Measure, device: Any):
        import torch

        self.measure = measure
        self.device = device
        self.n_items = len(items)
        # Distances are taken from the mean, so that a common offset costs no digits.
        self.origin = items.mean(axis=0) if measure.is_distance else np.zeros_like(items[0])
        there = to_device(items, device) - to_device(self.origin, device)
        missing = -len(there) % _GROUP
        self.items = torch.cat([there, there.new_zeros(missing, there.shape[1])]) if missing else there
        half = (self.items * self.items).sum(1) * (0.5 if measure.is_distance else 0.0)
        half[self.n_items :] = float("inf")
        self.half = half

    def query(self, queries: Array, k: int) -> tuple[Array, NDArray[np.intp]]:
        """The k nearest items of every query, nearest first: distances, or similarities."""
        import torch

        if queries.shape[1] != self.items.shape[1]:  # device code would read beyond the shorter ones
            raise InputError(f"queries have {queries.shape[1]} numbers each, items {self.items.shape[1]}.")
        step = max(1, min(_SCORES // min(_ITEMS, len(self.items)), _FOUND // (self.items.shape[1] * _GROUP * (k + 1))))
        values = np.empty((len(queries), k), queries.dtype)
        index = np.empty((len(queries), k), np.intp)
        origin = to_device(self.origin.astype(queries.dtype), self.device)
        with full_precision(), torch.no_grad():
            for start in range(0, len(queries), step):
                part = slice(start, start + step)
                found, which = self._nearest(to_device(queries[part], self.device) - origin, k)
                values[part], index[part] = to_host(found), to_host(which)
        return values, index

    def _best_of_groups(self, queries: Any) -> Any:
        """Smallest ``|y|^2 / 2 - q'y`` (or ``-q'y``) of every group; infinite halves exclude the padding."""
        import torch

        if queries.dtype == torch.float32:
            from nearkin.accelerator.triton_code import group_best

            n_groups = len(self.items) // _GROUP
            best = queries.new_empty(n_groups, len(queries))
            group_best[(-(-n_groups // _SPAN), -(-len(queries) // _TILE))](
                queries.contiguous(), self.items, self.half, best, len(queries), n_groups, queries.shape[1],
                QUERIES=_TILE, GROUP=_GROUP, DEEP=32, SPAN=_SPAN, num_warps=4, enable_fp_fusion=True,
            )  # fmt: skip
            return best.mT.contiguous()
        parts = range(0, len(self.items), _ITEMS)
        blocks = (
            torch.addmm(self.half[at : at + _ITEMS], queries, self.items[at : at + _ITEMS].mT, alpha=-1.0)
            for at in parts
        )
        return torch.cat([one.view(len(queries), -1, _GROUP).amin(2) for one in blocks], dim=1)

    def _nearest(self, queries: Any, k: int) -> tuple[Any, Any]:
        import torch

        groups = self._best_of_groups(queries)
        # One group more than needed: rounding may swap scores of nearly the same size.
        best = groups.topk(min(k + 1, groups.shape[1]), dim=1, largest=False, sorted=False).indices
        near = (best.sort(1).values[:, :, None] * _GROUP + torch.arange(_GROUP, device=self.device)).flatten(1)
        rows = self.items[near]
        if self.measure.is_distance:
            rows -= queries[:, None, :]
            scores = (rows * rows).sum(2)
        else:
            scores = -torch.bmm(rows, queries[:, :, None])[:, :, 0]
        scores.masked_fill_(near >= self.n_items, float("inf"))
        found = scores.sort(dim=1, stable=True)  # the first of equal items
        which = near.gather(1, found.indices[:, :k])
        return (found.values[:, :k].sqrt() if self.measure.is_distance else -found.values[:, :k]), which


def map_rows(X: Array, scaling: Scaling, components: Array, limit: float, device: Any) -> Array | None:
    """``scaling.apply(X) @ components.T``, or None if a scaled number is beyond ``limit``."""
    import torch

    out = np.empty((len(X), len(components)), X.dtype)
    there = to_device(components.astype(X.dtype, copy=False), device)
    shift, factor = (None if one is None else to_device(one, device) for one in (scaling.shift, scaling.factor))
    step = max(1, _NUMBERS // X.shape[1])
    with full_precision():
        for start in range(0, len(X), step):
            rows = to_device(X[start : start + step], device)
            if shift is not None:
                rows = (rows - shift) * factor
            if scaling.unit_rows:
                largest = rows.abs().amax(1, keepdim=True)
                rows = rows / torch.where(largest > 0, largest, 1)
                norm = rows.norm(dim=1, keepdim=True)
                rows = rows / torch.where(norm > 0, norm, 1)
            if not bool((rows.abs() <= limit).all()):
                return None
            out[start : start + step] = to_host(rows @ there.mT)
    return out
