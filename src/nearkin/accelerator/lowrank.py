"""Sweeps for factors L on a device: small ones in registers, many side by side; a large one in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.accelerator.device import full_precision, name_of_type, step_settings, to_device, to_host
from nearkin.accelerator.pipeline import Feed, Pipeline, Stage

__all__ = ["FactorSweep", "ManyFactors", "SmallFactor", "factor_sweep_of", "fits_registers"]

Array = NDArray[np.floating]

#: Bytes of L that the registers of one multiprocessor hold beside everything else.
_REGISTERS = 1 << 17

#: Blocks of a stage, and most numbers of what a block remembers of its steps.
STAGE = 64
_PAST = 1 << 11

#: Largest rank.
MOST_COMPONENTS = 1024


def _power(n: int) -> int:
    """Smallest power of two from 16 on that holds n."""
    return max(16, 1 << (n - 1).bit_length())


def fits_registers(d: int, r: int, itemsize: int) -> bool:
    """Whether L of shape (d, r) can stay in registers.

    Examples
    --------
    >>> fits_registers(512, 64, 4), fits_registers(1024, 64, 4)
    (True, False)
    """
    return _power(d) * _power(r) * itemsize <= _REGISTERS


def factor_sweep_of(components: Array, is_distance: bool, device: Any) -> SmallFactor | FactorSweep:
    """The sweep for one factor L' of shape (r, d)."""
    r, d = components.shape
    small = fits_registers(d, r, components.itemsize) and d * r <= SMALL
    return (SmallFactor if small else FactorSweep)(components, is_distance, device)


#: Numbers of L up to which one learner alone is faster in registers than in blocks.
SMALL = 1 << 14


class ManyFactors:
    """Several small factors of one shape, which learn side by side, one multiprocessor each.

    Parameters
    ----------
    components : ndarray of shape (n_learners, r, d)
        L' of every learner before the sweep.
    is_distance : bool
        What ``g`` is.
    device : torch.device
        Where.
    """

    def __init__(self, components: Array, is_distance: bool, device: Any):
        self.is_distance = is_distance
        self.device = device
        self.L = to_device(np.swapaxes(components, 1, 2), device)

    def learn(self, rows: Any, pool: Any, index: Any, bounds: Any, settings: Any, n_hq: int) -> tuple[Any, Any]:
        """Learn the triplets of all learners, each in order; everything lies on the device and stays there.

        Parameters
        ----------
        rows, pool : tensor of shape (n, d)
            Vectors of all learners.
        index : int32 tensor of shape (3, n_triplets)
            Anchor (in rows), positive and negative (in pool) of every triplet, those of the first learner first.
        bounds : int64 tensor of shape (n_learners + 1,)
            Where each learner's triplets begin, and the end.
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

        from nearkin.accelerator.kernels.factor import factor_sweep, grams

        learners, d, r = self.L.shape
        n = index.shape[1]
        share = torch.empty(n, dtype=self.L.dtype, device=self.device)
        moved = torch.empty(n, dtype=torch.int8, device=self.device)
        products = torch.empty(n, 3, dtype=self.L.dtype, device=self.device)
        if n:
            wide = 1 << (d - 1).bit_length()
            grams[(n,)](
                rows, pool, index, products, n, d, WIDE=wide, IS_DISTANCE=self.is_distance, enable_fp_fusion=True
            )
            deep, wide = _power(d), _power(r)
            factor_sweep[(learners,)](
                self.L, rows, pool, index, products, bounds, settings, share, moved, n, d, r,
                DEEP=deep, WIDE=wide, IS_DISTANCE=self.is_distance, N_HQ=n_hq, enable_fp_fusion=True,
                **_warps(deep * wide * self.L.element_size()),
            )  # fmt: skip
        return share, moved

    @property
    def result(self) -> Array:
        """L' of every learner as an array."""
        return np.ascontiguousarray(np.swapaxes(to_host(self.L), 1, 2))


def _warps(n_bytes: int) -> dict[str, int]:
    """Warps that share L, one for every 8 KiB of it, and the registers that each thread may take."""
    return {"num_warps": min(8, max(1, n_bytes >> 13)), "maxnreg": 255}


class SmallFactor:
    """One factor in registers; see `ManyFactors`."""

    def __init__(self, components: Array, is_distance: bool, device: Any):
        self._one = ManyFactors(components[None], is_distance, device)

    def learn(self, vectors: Any, C: float, params: tuple[float, float], n_hq: int) -> tuple[Array, int]:
        """Learn the triplets of `nearkin.triplets.Vectors` in order; their plausibilities and the number of updates."""
        device = self._one.device
        settings = to_device(step_settings(C, params)[None].astype(name_of_type(self._one.L)), device)
        bounds = to_device(np.array([0, len(vectors.anchor)]), device)
        rows, pool, index = vectors.anchors, vectors.positives, np.stack(vectors[3:])
        if vectors.negatives is not pool:
            index[2] += len(pool)
            pool = np.concatenate([pool, vectors.negatives])
        places = to_device(index.astype(np.int32), device)
        share, moved = self._one.learn(to_device(rows, device), to_device(pool, device), places, bounds, settings, n_hq)
        return to_host(share.double()), int(moved.sum())

    @property
    def result(self) -> Array:
        """L' as an array."""
        return self._one.result[0]


class FactorSweep:
    """One factor of any size in blocks; see `ManyFactors` for the parameters."""

    def __init__(self, components: Array, is_distance: bool, device: Any):
        if len(components) > MOST_COMPONENTS:
            raise ValueError(
                f"a device learns at most {MOST_COMPONENTS} components; got {len(components)}. Use device='cpu'."
            )
        self.is_distance = is_distance
        self.device = device
        self.L = to_device(components.T, device)
        self._pipelines: dict[Any, Pipeline] = {}

    def learn(self, vectors: Any, C: float, params: tuple[float, float], n_hq: int) -> tuple[Array, int]:
        """Learn the triplets of `nearkin.triplets.Vectors` in order; their plausibilities and the number of updates."""
        import torch

        n, (d, r) = len(vectors.anchor), self.L.shape
        block = max(16, min(32, _PAST // _power(r)))
        step = block * min(STAGE, -(-n // block))
        key = step, block, C, params, n_hq
        if key not in self._pipelines:
            self._pipelines = {key: self._pipeline(*key)}
        feed = Feed(vectors, self.device, self.is_distance)
        share = torch.empty(-(-n // step) * step, dtype=self.L.dtype, device=self.device)
        moved = torch.empty_like(share, dtype=torch.int8)

        def prepare(stage: Stage, start: int) -> None:
            g, h = (torch.empty(step, d, dtype=self.L.dtype, device=self.device) for _ in range(2))
            feed.directions(start, g, h)
            stage.vectors[:, :block] = g.view(-1, block, d)
            stage.vectors[:, block:] = h.view(-1, block, d)
            torch.bmm(stage.vectors, stage.vectors.mT, out=stage.gram)

        with full_precision():
            for start, stage in self._pipelines[key].run(range(0, n, step), prepare):
                share[start : start + step] = stage.share.view(-1)
                moved[start : start + step] = stage.moved.view(-1)
        return to_host(share[:n].double()), int(moved[:n].sum())

    def _pipeline(self, step: int, block: int, C: float, params: tuple[float, float], n_hq: int) -> Pipeline:
        import torch

        from nearkin.accelerator.kernels.factor import factor_block

        d, r = self.L.shape
        settings = to_device(step_settings(C, params).astype(name_of_type(self.L)), self.device)

        def make(*shape: int) -> Any:
            return torch.empty(*shape, dtype=self.L.dtype, device=self.device)

        def stage() -> Stage:
            blocks = step // block
            return Stage(
                vectors=make(blocks, 2 * block, d), gram=make(blocks, 2 * block, 2 * block),
                share=make(blocks, block), moved=make(blocks, block).to(torch.int8),
            )  # fmt: skip

        before, steps = make(2 * block, r), make(2 * block, r)

        def walk(stage: Stage) -> None:
            for vectors, gram, share, moved in zip(stage.vectors, stage.gram, stage.share, stage.moved, strict=True):
                torch.mm(vectors, self.L, out=before)
                factor_block[(1,)](
                    before, gram, settings, steps, share, moved, r,
                    SIZE=block, WIDE=_power(r), N_HQ=n_hq, num_warps=WARPS, enable_fp_fusion=True,
                )  # fmt: skip
                self.L.addmm_(vectors.mT, steps)

        return Pipeline(self.device, stage, walk)

    @property
    def result(self) -> Array:
        """L' as an array."""
        return np.ascontiguousarray(to_host(self.L).T)


#: Warps that walk a block of low-rank steps.
WARPS = 4
