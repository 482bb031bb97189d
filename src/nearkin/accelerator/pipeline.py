"""Sweeps in blocks, in two stages in turn: while the device works on one, the next is prepared beside it."""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from nearkin.accelerator.device import full_precision, name_of_type, step_settings, to_device, to_host
from nearkin.arrays import Array
from nearkin.kernels import TRIPLETS, check_shapes

__all__ = ["Aside", "BlockSweep", "Feed", "Pipeline", "Stage"]

#: Priority of a stream whose work goes first.
_FIRST = -1

#: Most bytes of an array that is sent whole.
_WHOLE = 1 << 25

#: Triplets and features of a tile of directions.
_ROWS, _COLUMNS = 16, 128


class Stage:
    """Tensors of one stage, and the recording of the work on them."""

    def __init__(self, **tensors: Any):
        self.tensors = tensors
        self.graph: Any = None
        self.n_walks = 0
        self.free: Any = None  # event after which the tensors may be written again

    def __getattr__(self, name: str) -> Any:
        try:
            return self.tensors[name]
        except KeyError:
            raise AttributeError(name) from None


class Pipeline:
    """Prepares stages and works on them; the work is recorded at its second use and replayed from then on.

    Launching its many short functions one by one would take the processor longer than the device needs for them.
    ``walk`` must allocate nothing that outlives it. On "cpu" everything happens in order.
    """

    def __init__(self, device: Any, make_stage: Callable[[], Stage], walk: Callable[[Stage], None]):
        self.device = device
        self.walk = walk
        self._stages = [make_stage(), make_stage()]
        self._aside: Any = None
        self._first: Any = None

    def run(self, pieces: range, prepare: Callable[[Stage, int], None]) -> Iterator[tuple[int, Stage]]:
        """Yield every piece with its finished stage; the caller queues all reads of it before the next piece."""
        if self.device.type == "cpu":
            for piece in pieces:
                prepare(self._stages[0], piece)
                self.walk(self._stages[0])
                yield piece, self._stages[0]
            return
        import torch

        now = torch.cuda.current_stream(self.device)
        self._aside = self._aside or torch.cuda.Stream(self.device)
        # A chain must not wait for the large products of the next stage.
        self._first = self._first or torch.cuda.Stream(self.device, priority=_FIRST)
        self._aside.wait_stream(now)
        self._first.wait_stream(now)
        ready = [self._prepared(0, pieces[0], prepare)] if len(pieces) else []
        for number, piece in enumerate(pieces):
            stage = self._stages[number % 2]
            with torch.cuda.stream(self._first):
                self._first.wait_event(ready.pop())
                self._walk(stage)
            now.wait_stream(self._first)
            yield piece, stage
            stage.free = now.record_event()
            if number + 1 < len(pieces):  # with the device busy
                ready.append(self._prepared(number + 1, pieces[number + 1], prepare))

    def _prepared(self, number: int, piece: int, prepare: Callable[[Stage, int], None]) -> Any:
        import torch

        stage = self._stages[number % 2]
        with torch.cuda.stream(self._aside):
            if stage.free is not None:
                self._aside.wait_event(stage.free)
            prepare(stage, piece)
            return self._aside.record_event()

    def _walk(self, stage: Stage) -> None:
        import torch

        stage.n_walks += 1
        if stage.n_walks == 1:  # compiles device code
            self.walk(stage)
            return
        if stage.graph is None:
            torch.cuda.synchronize(self.device)
            stage.graph = torch.cuda.CUDAGraph()
            # An old recording must not be freed while another is made.
            gc.collect()
            gc.disable()
            try:
                with torch.cuda.graph(stage.graph, stream=self._first):
                    self.walk(stage)
            finally:
                gc.enable()
        stage.graph.replay()


class Aside:
    """A second stream, for work that can finish later; on "cpu" everything happens in order."""

    def __init__(self, device: Any):
        self.device = device
        self._stream: Any = None

    @contextmanager
    def work(self) -> Iterator[None]:
        """Work queued inside begins after all work queued outside so far."""
        if self.device.type == "cpu":
            yield
            return
        import torch

        self._stream = self._stream or torch.cuda.Stream(self.device, priority=_FIRST)
        self._stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._stream):
            yield

    def mark(self) -> Any:
        """Mark for `wait`: the work aside so far."""
        return None if self.device.type == "cpu" else self._stream.record_event()

    def wait(self, mark: Any) -> None:
        """Work queued from now on begins after the marked work."""
        if mark is not None:
            import torch

            torch.cuda.current_stream(self.device).wait_event(mark)


class Feed:
    """Vectors of a piece of triplets for a device. Small arrays are sent whole, of large ones the rows of a stage."""

    def __init__(self, vectors: Any, device: Any, is_distance: bool):
        self.device = device
        self.is_distance = is_distance
        self._arrays = vectors[:3]
        self._places = vectors[3:]
        self._whole: dict[int, Any] = {}
        for array in self._arrays:
            if id(array) not in self._whole and array.nbytes <= _WHOLE:
                self._whole[id(array)] = to_device(array, device)
        # Sent at once: a copy from ordinary memory in mid-stream would wait for the work before it.
        self._index = to_device(np.stack(self._places), device)
        self._buffers: dict[Any, list[Any]] = {}

    def __len__(self) -> int:
        return len(self._places[0])

    def directions(self, start: int, g: Any, h: Any) -> None:
        """Write ``g`` and ``h`` of the triplets from ``start`` on, zeros after the last."""
        from nearkin.accelerator.triton_code import write_directions

        size, d = g.shape
        some = min(len(self) - start, size)
        vectors = [one for role in range(3) for one in self._rows(role, slice(start, start + some))]
        grid = -(-size // _ROWS), -(-d // _COLUMNS)
        write_directions[grid](
            *vectors, g, h, some, size, d, g.stride(0), IS_DISTANCE=self.is_distance, ROWS=_ROWS, COLUMNS=_COLUMNS
        )

    def _rows(self, role: int, part: slice) -> tuple[Any, Any]:
        """Rows on the device, and the places among them of some triplets in one role."""
        import torch

        array, at, index = self._arrays[role], self._places[role][part], self._index[role, part]
        if id(array) in self._whole:
            return self._whole[id(array)], index
        low, high = int(at.min()), int(at.max()) + 1
        if high - low <= len(at):  # neighbours, some of them several times
            return self._sent(role, array[low:high]), index - low
        return self._sent(role, array[at]), torch.arange(len(at), device=self.device)

    def _sent(self, role: int, rows: Any) -> Any:
        """Rows on the device, sent from page-locked memory while the processor goes on."""
        import torch

        if self.device.type == "cpu":
            return torch.from_numpy(np.ascontiguousarray(rows))
        size = rows.size
        pair = self._buffers.setdefault(role, [])
        if len(pair) < 2 or len(pair[0][0]) < size:
            pair[:] = [
                (torch.empty(size, dtype=torch.from_numpy(rows[:0]).dtype, pin_memory=True), torch.cuda.Event())
                for _ in range(2)
            ]
        buffer, sent = pair[0]
        pair.reverse()
        sent.synchronize()
        held = buffer[:size].view(rows.shape)
        held.copy_(torch.from_numpy(np.ascontiguousarray(rows)))
        there = held.to(self.device, non_blocking=True)
        sent.record()
        return there


class BlockSweep(ABC):
    """A parameter on a device that learns in blocks of triplets, some blocks a stage.

    While the chain of one block runs, the parameter takes the steps of the block before and meets the vectors of the
    block after. What these products lack, the steps of the running block, a table of products of both blocks adds.
    Where that table costs more time than it saves, one block follows the other.
    """

    def __init__(self, numbers: Array, is_distance: bool, device: Any):
        self.is_distance = is_distance
        self.device = device
        self.numbers = to_device(numbers, device)
        self._pipelines: dict[Any, Pipeline] = {}

    @property
    def looks_ahead(self) -> bool:
        """Whether a block is prepared while the one before is walked."""
        return True

    def learn(self, vectors: Any, C: float, params: tuple[float, float], n_hq: int) -> tuple[Array, int]:
        """Learn from triplets (`TripletRows`) in order; returns their plausibilities and the number of updates."""
        import torch

        check_shapes(TRIPLETS, vectors, d=len(self.numbers))
        n = len(vectors.anchor)
        block, most_blocks = self.block_for(n)
        step = block * min(most_blocks, -(-n // block))
        key = step, block, C, params, n_hq
        if key not in self._pipelines:
            self.block, self.n_blocks, self.aside = block, step // block, Aside(self.device)
            self.settings = to_device(step_settings(C, params).astype(name_of_type(self.numbers)), self.device)
            self.plan(C, n_hq)
            self._pipelines = {key: Pipeline(self.device, self.make_stage, self._walk)}  # others are not needed again
        feed = Feed(vectors, self.device, self.is_distance)
        share = torch.empty(-(-n // step) * step, dtype=self.numbers.dtype, device=self.device)
        moved = torch.empty_like(share, dtype=torch.int8)
        with full_precision():
            for start, stage in self._pipelines[key].run(range(0, n, step), partial(self.prepare, feed)):
                share[start : start + step] = stage.share.view(-1)
                moved[start : start + step] = stage.moved.view(-1) > 0
        return to_host(share[:n].double()), int(moved[:n].sum())

    def make(self, *shape: int) -> Any:
        """Return memory for numbers like the parameter's."""
        import torch

        return torch.empty(*shape, dtype=self.numbers.dtype, device=self.device)

    def _walk(self, stage: Stage) -> None:
        """Work on all blocks of a stage."""
        if not self.looks_ahead:
            self.begin()
            for number in range(self.n_blocks):
                self.project(stage, number)
                self.chain(stage, number)
                self.apply(stage, number)
            return
        met: dict[int, Any] = {}

        def meet(number: int) -> None:
            if number < self.n_blocks:
                self.project(stage, number)
            met[number] = self.aside.mark()

        self.begin()
        with self.aside.work():
            meet(0)
            meet(1)
        for number in range(self.n_blocks):
            self.aside.wait(met[number])
            self.chain(stage, number)
            with self.aside.work():
                self.apply(stage, number)
                meet(number + 2)
        self.aside.wait(met[self.n_blocks + 1])

    @abstractmethod
    def block_for(self, n: int) -> tuple[int, int]:
        """Return the size of a block and the most blocks of a stage for n triplets."""

    @abstractmethod
    def plan(self, C: float, n_hq: int) -> None:
        """Compile device code and make the memory that all stages share."""

    @abstractmethod
    def make_stage(self) -> Stage:
        """Return a stage with plausibilities, ``share``, and ``moved``, positive for a triplet that moved something."""

    @abstractmethod
    def prepare(self, feed: Feed, stage: Stage, start: int) -> None:
        """Write the vectors of the triplets from ``start`` on, and what does not depend on the parameter."""

    def begin(self) -> None:  # noqa: B027  only some have work here
        """Begin the work on a stage."""

    @abstractmethod
    def project(self, stage: Stage, number: int) -> None:
        """Let the parameter meet the vectors of a block."""

    @abstractmethod
    def chain(self, stage: Stage, number: int) -> None:
        """Add the steps of the block before to the products, and find the steps of this block one by one."""

    @abstractmethod
    def apply(self, stage: Stage, number: int) -> None:
        """Let the parameter take the steps of a block."""
