"""Sweeps for factors L on a device: one in blocks, or many small ones side by side, each in registers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nearkin.accelerator import cuda
from nearkin.accelerator.device import shared_memory, to_device, to_host
from nearkin.accelerator.pipeline import BlockSweep, Feed, Stage
from nearkin.arrays import Array

__all__ = ["FactorSweep", "ManyFactors", "held"]

#: Bytes of L that a thread's registers hold beside everything else.
_REGISTERS = 512

#: Blocks of a stage, triplets of the longest block, and warps that walk a block in turn.
STAGE = 32
BLOCK = 128
_WARPS = 6

#: Rows of a tile of ``correction.cu``.
_ROWS = 4

#: Largest rank.
MOST_COMPONENTS = 1024


@dataclass(frozen=True)
class Held:
    """Layout of L in ``factor_sweep.cu``: features and components of a thread, bytes of a number."""

    deep: int
    columns: int
    itemsize: int

    @property
    def constants(self) -> dict[str, int]:
        """For the compiler."""
        return {"DEEP": self.deep, "COLUMNS": self.columns}

    @property
    def shared(self) -> int:
        """Bytes of shared memory: two sets of vectors and of their products, mapped vectors, steps, triplets."""
        turn = 16 * 16 * self.deep + 16 * 16
        return (2 * turn + 2 * 16 * 16 * self.columns + 8 * 12) * self.itemsize

    def fits(self, memory: int) -> bool:
        """Whether a thread's registers and ``memory`` bytes of shared memory are enough."""
        return self.deep * self.columns * self.itemsize <= _REGISTERS and self.columns <= 8 and self.shared <= memory


def held(d: int, r: int, itemsize: int) -> Held:
    """Layout for L of shape (d, r).

    Examples
    --------
    >>> held(512, 64, 4)
    Held(deep=32, columns=4, itemsize=4)
    >>> held(512, 64, 4).fits(99 << 10), held(1024, 64, 4).fits(227 << 10)
    (True, False)
    """
    return Held(4 * -(-d // 64), 1 << (-(-r // 16) - 1).bit_length(), itemsize)


class ManyFactors:
    """Several small factors of one shape that learn side by side, one multiprocessor each."""

    def __init__(self, components: Array, is_distance: bool, device: Any):
        self.is_distance = is_distance
        self.device = device
        self.L = to_device(np.swapaxes(components, 1, 2), device)

    def learn(self, rows: Any, pool: Any, index: Any, bounds: Any, settings: Any, n_hq: int) -> tuple[Any, Any]:
        """Learn the triplets of all learners, each in order; returns plausibilities and whether each moved L.

        All arguments are tensors on the device. ``index`` (3, n), of int32, has the anchor (in rows), the positive and
        the negative (in pool) of every triplet, those of the first learner first; ``bounds``, of int64, is the first
        triplet of each learner and the end; ``settings`` are the `step_settings` of each.
        """
        import torch

        learners, d, r = self.L.shape
        n, layout = index.shape[1], held(d, r, self.L.element_size())
        share = torch.empty(n, dtype=self.L.dtype, device=self.device)
        moved = torch.empty(n, dtype=torch.int8, device=self.device)
        sweep = cuda.device_function(
            "factor_sweep", self.device, layout.shared, N_HQ=n_hq, IS_DISTANCE=int(self.is_distance),
            **layout.constants, **cuda.real(self.L),
        )  # fmt: skip
        sweep(learners, 32 * 8, self.L, rows, pool, index, bounds, settings, share, moved, n, d, r)
        return share, moved

    @property
    def result(self) -> Array:
        """L' of every learner as an array."""
        return np.ascontiguousarray(np.swapaxes(to_host(self.L), 1, 2))


@dataclass(frozen=True)
class Walk:
    """Constants of ``factor_block.cu``, the size of its blocks, and the memory that it takes."""

    rank: int
    together: int
    size: int
    itemsize: int

    @property
    def constants(self) -> dict[str, int]:
        """For the compiler."""
        return {"RANK": self.rank, "TOGETHER": self.together, "WARPS": _WARPS}

    @property
    def shared(self) -> int:
        """Bytes of shared memory: published steps, products, and the description of every triplet."""
        row = self.together + 1
        products = self.size + 1 + _WARPS * ((row + 1) * self.together + 8 * row)
        told, known = (64 * self.rank + 12) * self.size + 8 * 8 * 32, 12 * (self.size + 1)
        return (told + 4 * products + known) * self.itemsize

    @property
    def keepers(self) -> int:
        """Thread blocks that keep rows up to date that are far from their turn."""
        lag = max(2, 32 // self.together)
        return max(0, self.size // self.together - 1 - lag)


def walk_of(r: int, itemsize: int, memory: int, most: int) -> Walk:
    """The longest walk up to ``most`` triplets that fits into ``memory`` bytes of shared memory.

    Examples
    --------
    >>> walk_of(64, 4, 232448, 128)
    Walk(rank=2, together=8, size=128, itemsize=4)
    """
    rank = -(-r // 32)
    together = 1 << (max(1, min(8, 64 // itemsize // rank)).bit_length() - 1)
    walk = Walk(rank, together, max(4, together), itemsize)
    while 2 * walk.size <= most and replace(walk, size=2 * walk.size).shared <= memory:
        walk = replace(walk, size=2 * walk.size)
    return walk


class FactorSweep(BlockSweep):
    """One factor of any size in blocks: ``L1'x = L0'x + sum_s u_s (g_s.x) + v_s (h_s.x)`` after the steps s."""

    def __init__(self, components: Array, is_distance: bool, device: Any):
        if len(components) > MOST_COMPONENTS:
            raise ValueError(
                f"a device learns at most {MOST_COMPONENTS} components; got {len(components)}. Use device='cpu'."
            )
        super().__init__(components.T, is_distance, device)
        self._layout = walk_of(len(components), self.numbers.element_size(), shared_memory(device), BLOCK)

    def block_for(self, n: int) -> tuple[int, int]:
        """As long as memory allows."""
        return self._layout.size, STAGE

    def plan(self, C: float, n_hq: int) -> None:
        """Memory for the mapped vectors of all blocks, their steps, and what warps tell each other."""
        walk, wide, r = self._layout, 2 * self.block, self.numbers.shape[1]
        real = cuda.real(self.numbers)
        self._chain = cuda.device_function(
            "factor_block", self.device, walk.shared, N_HQ=n_hq, **walk.constants, **real
        )
        self._warps = min(16, wide // _ROWS)
        memory = 32 * _ROWS * self._warps * self.numbers.element_size()
        self._correct = cuda.device_function("correction", self.device, memory, ROWS=_ROWS, WARPS=self._warps, **real)
        self._past, self._steps = self.make(self.n_blocks, wide, r), self.make(self.n_blocks, wide, r)
        turns = self.block // walk.together
        self._ready = self.make(self.n_blocks, turns, 2 * (walk.together + 1), 32 * walk.rank)

    def make_stage(self) -> Stage:
        """``g`` and ``h`` of each triplet side by side in ``vectors``."""
        import torch

        blocks, block, wide, d = self.n_blocks, self.block, 2 * self.block, len(self.numbers)
        return Stage(
            vectors=self.make(blocks, wide, d), gram=self.make(blocks, wide, wide), cross=self.make(blocks, wide, wide),
            share=self.make(blocks, block), moved=self.make(blocks, block).to(torch.int8),
        )  # fmt: skip

    def prepare(self, feed: Feed, stage: Stage, start: int) -> None:
        """Inner products of the vectors of each block and of neighbouring blocks."""
        import torch

        both = stage.vectors.view(self.n_blocks * self.block, 2, len(self.numbers))
        feed.directions(start, both[:, 0], both[:, 1])
        torch.bmm(stage.vectors, stage.vectors.mT, out=stage.gram)
        torch.bmm(stage.vectors[1:], stage.vectors[:-1].mT, out=stage.cross[1:])

    def begin(self) -> None:
        """Mark all numbers that warps wait for as missing."""
        import torch

        missing = torch.int64 if self.numbers.element_size() == 8 else torch.int32
        for told in (self._steps, self._ready):
            told.view(missing).fill_(-1)

    def project(self, stage: Stage, number: int) -> None:
        """``L'g`` and ``L'h``."""
        import torch

        torch.mm(stage.vectors[number], self.numbers, out=self._past[number])

    def chain(self, stage: Stage, number: int) -> None:
        """Eqs. (26)-(31), triplet by triplet."""
        past, wide, r = self._past[number], 2 * self.block, self.numbers.shape[1]
        if number:
            places = wide // _ROWS * -(-r // 32)
            self._correct(places, 32 * self._warps, past, stage.cross[number], self._steps[number - 1], wide, r)
        self._chain(
            1 + self._layout.keepers, 32 * (_WARPS + 2), past, stage.gram[number], self.settings, self._steps[number],
            self._ready[number], stage.share[number], stage.moved[number], self.block, r, 1,
        )  # fmt: skip

    def apply(self, stage: Stage, number: int) -> None:
        """``L += sum_s g_s u_s' + h_s v_s'``."""
        self.numbers.addmm_(stage.vectors[number].mT, self._steps[number])

    @property
    def result(self) -> Array:
        """L' as an array."""
        return np.ascontiguousarray(to_host(self.numbers).T)
