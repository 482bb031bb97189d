"""Sweeps for a full matrix on a device: products for a block of triplets, and one kernel for the chain of its steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.accelerator import cuda
from nearkin.accelerator.device import full_precision, name_of_type, step_settings, to_device, to_host
from nearkin.accelerator.pipeline import Feed, Pipeline, Stage

__all__ = ["FullSweep"]

Array = NDArray[np.floating]

#: Triplets in a block, and blocks of a stage. The table of a longer block costs more, the products of a shorter one are
#: slow.
BLOCK = 512
STAGE = 8

#: Triplets side by side in a warp, and warps that walk a block in turn.
_LANES, _WARPS = 32, 16


class FullSweep:
    """M on a device, and what it learns there.

    Parameters
    ----------
    M : ndarray of shape (d, d)
        Parameter before the sweep.
    is_distance : bool
        Whether a step is symmetric.
    device : torch.device
        Where.
    """

    def __init__(self, M: Array, is_distance: bool, device: Any):
        self.is_distance = is_distance
        self.device = device
        self.M = to_device(M, device)
        self._pipelines: dict[Any, Pipeline] = {}

    def learn(self, vectors: Any, C: float, params: tuple[float, float], n_hq: int) -> tuple[Array, int]:
        """Learn the triplets of `nearkin.triplets.Vectors` in order; their plausibilities and the number of updates."""
        import torch

        n, d = len(vectors.anchor), self.M.shape[0]
        block = min(BLOCK, max(_LANES, 1 << (n - 1).bit_length()))
        step = block * min(STAGE, -(-n // block))
        key = step, block, C, params, n_hq
        if key not in self._pipelines:
            self._pipelines = {key: self._pipeline(*key)}  # that of another size or setting is not needed again
        feed = Feed(vectors, self.device, self.is_distance)
        share = torch.empty(-(-n // step) * step, dtype=self.M.dtype, device=self.device)
        tau = torch.empty_like(share)

        def prepare(stage: Stage, start: int) -> None:
            g, h, table = stage.g, stage.h, stage.table
            feed.directions(start, g.view(-1, d), h.view(-1, d))
            # The tables <A_s, A_t> are the same whatever M is.
            torch.bmm(h, h.mT, out=table)
            table *= torch.bmm(g, g.mT)
            if self.is_distance:
                cross = torch.bmm(g, h.mT)
                table += cross * cross.mT
                table *= 0.5

        with full_precision():
            for start, stage in self._pipelines[key].run(range(0, n, step), prepare):
                share[start : start + step] = stage.share.view(-1)
                tau[start : start + step] = stage.tau.view(-1)
        return to_host(share[:n].double()), int((tau[:n] > 0).sum())

    def _pipeline(self, step: int, block: int, C: float, params: tuple[float, float], n_hq: int) -> Pipeline:
        import torch

        d = self.M.shape[0]
        settings = to_device(step_settings(C, params).astype(name_of_type(self.M)), self.device)
        chain = cuda.kernel(
            "full_block", self.device, block * self.M.element_size(), WARPS=_WARPS, N_HQ=n_hq,
            UNBOUNDED=int(np.inf == C), **cuda.real(self.M),
        )  # fmt: skip

        def make(*shape: int) -> Any:
            return torch.empty(*shape, dtype=self.M.dtype, device=self.device)

        def stage() -> Stage:
            blocks = step // block
            return Stage(
                g=make(blocks, block, d), h=make(blocks, block, d), table=make(blocks, block, block),
                tau=make(blocks, block), share=make(blocks, block),
            )  # fmt: skip

        rows, z = make(block, d), make(block)
        moved = make(d, d) if self.is_distance else None

        def walk(stage: Stage) -> None:
            for g, h, table, tau, share in zip(stage.g, stage.h, stage.table, stage.tau, stage.share, strict=True):
                torch.mm(g, self.M, out=rows)
                rows.mul_(h)
                torch.sum(rows, 1, out=z)
                chain(1, _LANES * _WARPS, z, table, settings, tau, share, block)
                torch.mul(h, tau[:, None], out=rows)
                if moved is None:
                    self.M.addmm_(g.mT, rows)
                else:
                    torch.mm(g.mT, rows, out=moved)
                    self.M.add_(moved + moved.mT, alpha=0.5)

        return Pipeline(self.device, stage, walk)

    @property
    def result(self) -> Array:
        """M as an array."""
        return to_host(self.M)
