"""Sweeps for a full matrix on a device: products for a block of triplets, and device code for its chain of steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearkin.accelerator import cuda
from nearkin.accelerator.device import to_host
from nearkin.accelerator.pipeline import BlockSweep, Feed, Stage
from nearkin.arrays import Array

__all__ = ["FullSweep"]

#: Triplets in a block, and blocks of a stage. The table of a longer block costs more; the products of a shorter one
#: are slow.
BLOCK = 256
STAGE = 16

#: Features of a distance from which on blocks are twice as long and follow each other: the chain takes less time than
#: the tables between blocks.
_WIDE = 1536

#: Rows and columns of a tile of M, and numbers of a row that a program takes at once.
_TILE, _COLUMNS = 32, 1024

#: Triplets side by side in a warp, and warps that walk a block in turn.
_LANES, _WARPS = 32, 8


class FullSweep(BlockSweep):
    """M on a device; products for a block of triplets are its margins."""

    @property
    def looks_ahead(self) -> bool:
        """Not for a distance of many features."""
        return not self.is_distance or len(self.numbers) < _WIDE

    def block_for(self, n: int) -> tuple[int, int]:
        """Shorter blocks for few triplets."""
        block = BLOCK if self.looks_ahead else 2 * BLOCK
        return min(block, max(_LANES, 1 << (n - 1).bit_length())), STAGE

    def plan(self, C: float, n_hq: int) -> None:
        """Memory for a block of rows, all margins and, for a distance, a step of M."""
        d = len(self.numbers)
        self._chain = cuda.device_function(
            "full_block", self.device, self.block * self.numbers.element_size(), WARPS=_WARPS, N_HQ=n_hq,
            UNBOUNDED=int(np.inf == C), **cuda.real(self.numbers),
        )  # fmt: skip
        self._rows, self._z = self.make(self.block, d), self.make(self.n_blocks, self.block)
        self._moved = self.make(d, d) if self.is_distance else None

    def make_stage(self) -> Stage:
        """``moved`` holds the sizes of the steps."""
        blocks, block, d = self.n_blocks, self.block, len(self.numbers)
        return Stage(
            g=self.make(blocks, block, d), h=self.make(blocks, block, d), table=self.make(blocks, block, block),
            cross=self.make(blocks, block, block), moved=self.make(blocks, block), share=self.make(blocks, block),
        )  # fmt: skip

    def prepare(self, feed: Feed, stage: Stage, start: int) -> None:
        """Tables ``<A_t, A_s>`` of each block and of neighbouring blocks."""
        g, h, d = stage.g, stage.h, len(self.numbers)
        feed.directions(start, g.view(-1, d), h.view(-1, d))
        self._products(g, h, g, h, stage.table)
        if self.looks_ahead:
            self._products(g[1:], h[1:], g[:-1], h[:-1], stage.cross[1:])

    def _products(self, g: Any, h: Any, other_g: Any, other_h: Any, out: Any) -> None:
        import torch

        torch.bmm(h, other_h.mT, out=out)
        out *= torch.bmm(g, other_g.mT)
        if self.is_distance:
            mixed = torch.bmm(g, other_h.mT)
            out += mixed * (mixed.mT if other_g is g else torch.bmm(h, other_g.mT))
            out *= 0.5

    def project(self, stage: Stage, number: int) -> None:
        """``z = g' M h``."""
        import torch

        from nearkin.accelerator.triton_code import multiply_rows

        torch.mm(stage.g[number], self.numbers, out=self._rows)
        multiply_rows[(self.block,)](self._rows, stage.h[number], self._z[number], len(self.numbers), COLUMNS=_COLUMNS)

    def chain(self, stage: Stage, number: int) -> None:
        """Eqs. (22) and (25), triplet by triplet."""
        z = self._z[number]
        if number and self.looks_ahead:
            z.addmv_(stage.cross[number], stage.moved[number - 1])
        given = z, stage.table[number], self.settings, stage.moved[number], stage.share[number]
        self._chain(1, _LANES * _WARPS, *given, self.block)

    def apply(self, stage: Stage, number: int) -> None:
        """``M += sum_t tau_t A_t``."""
        import torch

        from nearkin.accelerator.triton_code import add_symmetric, scale_rows

        d, g = len(self.numbers), stage.g[number]
        grid = self.block, -(-d // _COLUMNS)
        scale_rows[grid](stage.h[number], stage.moved[number], self._rows, d, COLUMNS=_COLUMNS)
        if self._moved is None:
            self.numbers.addmm_(g.mT, self._rows)
        else:
            torch.mm(g.mT, self._rows, out=self._moved)
            tiles = -(-d // _TILE)
            add_symmetric[(tiles, tiles)](self.numbers, self._moved, d, SIZE=_TILE, num_warps=4)

    @property
    def result(self) -> Array:
        """M as an array."""
        return to_host(self.numbers)
