"""Sweeps for a full matrix on a device: products for a block of triplets, and device code for its chain of steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearkin.accelerator import cuda
from nearkin.accelerator.device import full_precision, name_of_type, step_settings, to_device, to_host
from nearkin.accelerator.pipeline import Aside, Feed, Pipeline, Stage
from nearkin.arrays import Array

__all__ = ["FullSweep"]

#: Triplets in a block, and blocks of a stage. The table of a longer block costs more; the products of a shorter one
#: are slow.
BLOCK = 256
STAGE = 16

#: Rows and columns of a tile of M.
_TILE = 32

#: Triplets side by side in a warp, and warps that walk a block in turn.
_LANES, _WARPS = 32, 8


class FullSweep:
    """M on a device, which learns there.

    While the chain of one block runs, M takes the steps of the block before and computes the margins of the block
    after. These margins lack the steps of the running block; a table of products of both blocks adds them.
    """

    def __init__(self, M: Array, is_distance: bool, device: Any):
        self.is_distance = is_distance
        self.device = device
        self.M = to_device(M, device)
        self._pipelines: dict[Any, Pipeline] = {}

    def learn(self, vectors: Any, C: float, params: tuple[float, float], n_hq: int) -> tuple[Array, int]:
        """Learn from triplets (`TripletRows`) in order; returns their plausibilities and the number of updates."""
        import torch

        n, d = len(vectors.anchor), self.M.shape[0]
        block = min(BLOCK, max(_LANES, 1 << (n - 1).bit_length()))
        step = block * min(STAGE, -(-n // block))
        key = step, block, C, params, n_hq
        if key not in self._pipelines:
            self._pipelines = {key: self._pipeline(*key)}  # others are not needed again
        feed = Feed(vectors, self.device, self.is_distance)
        share = torch.empty(-(-n // step) * step, dtype=self.M.dtype, device=self.device)
        tau = torch.empty_like(share)

        def prepare(stage: Stage, start: int) -> None:
            g, h = stage.g, stage.h
            feed.directions(start, g.view(-1, d), h.view(-1, d))
            self._products(g, h, g, h, stage.table)
            self._products(g[1:], h[1:], g[:-1], h[:-1], stage.cross[1:])

        with full_precision():
            for start, stage in self._pipelines[key].run(range(0, n, step), prepare):
                share[start : start + step] = stage.share.view(-1)
                tau[start : start + step] = stage.tau.view(-1)
        return to_host(share[:n].double()), int((tau[:n] > 0).sum())

    def _products(self, g: Any, h: Any, other_g: Any, other_h: Any, out: Any) -> None:
        """Tables ``<A_t, A_s>`` of the triplets of blocks with those of other blocks; they do not depend on M."""
        import torch

        torch.bmm(h, other_h.mT, out=out)
        out *= torch.bmm(g, other_g.mT)
        if self.is_distance:
            mixed = torch.bmm(g, other_h.mT)
            out += mixed * (mixed.mT if other_g is g else torch.bmm(h, other_g.mT))
            out *= 0.5

    def _pipeline(self, step: int, block: int, C: float, params: tuple[float, float], n_hq: int) -> Pipeline:
        import torch

        from nearkin.accelerator.triton_code import add_symmetric

        d = self.M.shape[0]
        tiles = -(-d // _TILE)
        settings = to_device(step_settings(C, params).astype(name_of_type(self.M)), self.device)
        chain = cuda.device_function(
            "full_block", self.device, block * self.M.element_size(), WARPS=_WARPS, N_HQ=n_hq,
            UNBOUNDED=int(np.inf == C), **cuda.real(self.M),
        )  # fmt: skip

        def make(*shape: int) -> Any:
            return torch.empty(*shape, dtype=self.M.dtype, device=self.device)

        blocks = step // block

        def stage() -> Stage:
            return Stage(
                g=make(blocks, block, d), h=make(blocks, block, d), table=make(blocks, block, block),
                cross=make(blocks, block, block), tau=make(blocks, block), share=make(blocks, block),
            )  # fmt: skip

        rows, z, aside = make(block, d), make(blocks, block), Aside(self.device)
        moved = make(d, d) if self.is_distance else None

        def walk(stage: Stage) -> None:
            met: dict[int, Any] = {}

            def meet(number: int) -> None:
                if number < blocks:
                    torch.mm(stage.g[number], self.M, out=rows)
                    rows.mul_(stage.h[number])
                    torch.sum(rows, 1, out=z[number])
                met[number] = aside.mark()

            with aside.work():
                meet(0)
                meet(1)
            for number in range(blocks):
                g, h, tau = stage.g[number], stage.h[number], stage.tau[number]
                aside.wait(met[number])
                if number:
                    z[number].addmv_(stage.cross[number], stage.tau[number - 1])
                chain(1, _LANES * _WARPS, z[number], stage.table[number], settings, tau, stage.share[number], block)
                with aside.work():
                    torch.mul(h, tau[:, None], out=rows)
                    if moved is None:
                        self.M.addmm_(g.mT, rows)
                    else:
                        torch.mm(g.mT, rows, out=moved)
                        add_symmetric[(tiles, tiles)](self.M, moved, d, SIZE=_TILE, num_warps=4)
                    meet(number + 2)
            aside.wait(met[blocks + 1])

        return Pipeline(self.device, stage, walk)

    @property
    def result(self) -> Array:
        """M as an array."""
        return to_host(self.M)
