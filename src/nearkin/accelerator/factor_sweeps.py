"""Sweeps for factors L on a device: one in blocks, or many small ones side by side, each in registers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nearkin.accelerator import cuda
from nearkin.accelerator.device import (
    full_precision,
    name_of_type,
    shared_memory,
    step_settings,
    to_device,
    to_host,
)
from nearkin.accelerator.pipeline import Aside, Feed, Pipeline, Stage
from nearkin.arrays import Array

__all__ = ["FactorSweep", "ManyFactors", "held"]

#: Bytes of L that a thread's registers hold beside everything else.
_REGISTERS = 512

#: Blocks of a stage.
STAGE = 32

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
        """Learn the triplets of all learners, each in order; all arguments are on the device.

        Parameters
        ----------
        rows, pool : tensor of shape (n, d)
            Vectors of all learners.
        index : int32 tensor of shape (3, n_triplets)
            Anchor (in rows), positive and negative (in pool) of every triplet, those of the first learner first.
        bounds : int64 tensor of shape (n_learners + 1,)
            First triplet of each learner, and the end.
        settings : tensor of shape (n_learners, 2)
            `step_settings` of each.
        n_hq : int
            Half-quadratic iterations.

        Returns
        -------
        share, moved : tensor of shape (n_triplets,)
            Plausibility of every triplet, and whether it moved L.
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


class FactorSweep:
    """One factor of any size in blocks; see `ManyFactors` for the parameters.

    While one block runs, L takes the steps of the block before and projects the vectors of the block after. These
    products lack the steps of the running block, which the inner products of both blocks' vectors add:
    ``L1'x = L0'x + sum_s u_s (g_s.x) + v_s (h_s.x)``.
    """

    def __init__(self, components: Array, is_distance: bool, device: Any):
        if len(components) > MOST_COMPONENTS:
            raise ValueError(
                f"a device learns at most {MOST_COMPONENTS} components; got {len(components)}. Use device='cpu'."
            )
        self.is_distance = is_distance
        self.device = device
        self.L = to_device(components.T, device)
        self._pipelines: dict[Any, Pipeline] = {}
        self._walk = walk_of(len(components), self.L.element_size(), shared_memory(device), BLOCK)

    def learn(self, vectors: Any, C: float, params: tuple[float, float], n_hq: int) -> tuple[Array, int]:
        """Learn from triplets (`TripletRows`) in order; returns their plausibilities and the number of updates."""
        import torch

        n, d = len(vectors.anchor), self.L.shape[0]
        step = self._walk.size * min(STAGE, -(-n // self._walk.size))
        key = step, C, params, n_hq
        if key not in self._pipelines:
            self._pipelines = {key: self._pipeline(*key)}
        feed = Feed(vectors, self.device, self.is_distance)
        share = torch.empty(-(-n // step) * step, dtype=self.L.dtype, device=self.device)
        moved = torch.empty_like(share, dtype=torch.int8)

        def prepare(stage: Stage, start: int) -> None:
            both = stage.vectors.view(step, 2, d)
            feed.directions(start, both[:, 0], both[:, 1])
            torch.bmm(stage.vectors, stage.vectors.mT, out=stage.gram)
            torch.bmm(stage.vectors[1:], stage.vectors[:-1].mT, out=stage.cross[1:])

        with full_precision():
            for start, stage in self._pipelines[key].run(range(0, n, step), prepare):
                share[start : start + step] = stage.share.view(-1)
                moved[start : start + step] = stage.moved.view(-1)
        return to_host(share[:n].double()), int(moved[:n].sum())

    def _pipeline(self, step: int, C: float, params: tuple[float, float], n_hq: int) -> Pipeline:
        import torch

        (d, r), walk = self.L.shape, self._walk
        blocks, wide = step // walk.size, 2 * walk.size
        settings = to_device(step_settings(C, params).astype(name_of_type(self.L)), self.device)
        chain = cuda.device_function(
            "factor_block", self.device, walk.shared, N_HQ=n_hq, **walk.constants, **cuda.real(self.L)
        )
        rows, warps = 4, min(16, wide // 4)
        correction = cuda.device_function(
            "correction", self.device, 32 * rows * warps * self.L.element_size(), ROWS=rows, WARPS=warps,
            **cuda.real(self.L),
        )  # fmt: skip

        def make(*shape: int) -> Any:
            return torch.empty(*shape, dtype=self.L.dtype, device=self.device)

        def stage() -> Stage:
            return Stage(
                vectors=make(blocks, wide, d), gram=make(blocks, wide, wide), cross=make(blocks, wide, wide),
                share=make(blocks, walk.size), moved=make(blocks, walk.size).to(torch.int8),
            )  # fmt: skip

        past, steps, aside = make(blocks, wide, r), make(blocks, wide, r), Aside(self.device)
        ready = make(blocks, walk.size // walk.together, 2 * (walk.together + 1), 32 * walk.rank)
        missing = torch.int64 if self.L.element_size() == 8 else torch.int32

        def work(stage: Stage) -> None:
            met: dict[int, Any] = {}

            def meet(block: int) -> None:
                if block < blocks:
                    torch.mm(stage.vectors[block], self.L, out=past[block])
                met[block] = aside.mark()

            for told in (steps, ready):
                told.view(missing).fill_(-1)
            with aside.work():
                meet(0)
                meet(1)
            for block in range(blocks):
                aside.wait(met[block])
                if block:
                    places = wide // rows * -(-r // 32)
                    correction(places, 32 * warps, past[block], stage.cross[block], steps[block - 1], wide, r)
                chain(
                    1 + walk.keepers, 32 * (_WARPS + 2), past[block], stage.gram[block], settings, steps[block],
                    ready[block], stage.share[block], stage.moved[block], walk.size, r, 1,
                )  # fmt: skip
                with aside.work():
                    self.L.addmm_(stage.vectors[block].mT, steps[block])
                    meet(block + 2)
            aside.wait(met[blocks + 1])

        return Pipeline(self.device, stage, work)

    @property
    def result(self) -> Array:
        """L' as an array."""
        return np.ascontiguousarray(to_host(self.L).T)


#: Warps that walk a block of low-rank steps in turn, and the longest block.
_WARPS = 6
BLOCK = 128
