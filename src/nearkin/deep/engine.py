"""Device, precision, optimiser and processes: how a network takes a step."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed, nn

from nearkin.deep.network import Network, Weights, arrays_of

__all__ = ["Engine", "Settings", "deterministic", "find_device", "threads"]

_OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": partial(torch.optim.AdamW, fused=True),
    "adam": partial(torch.optim.Adam, fused=True),
    "sgd": torch.optim.SGD,
}


def find_device(name: str, owner: str) -> torch.device:
    """The device of that name; nothing falls back to the processor by itself.

    Parameters
    ----------
    name : str
        "cpu", "cuda" or "cuda:N".
    owner : str
        Who asks, for the message.

    Examples
    --------
    >>> find_device("cpu", "my program")
    device(type='cpu')
    """
    found = torch.device(name)
    if found.type == "cpu":
        return found
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        raise RuntimeError(
            f"{owner}: device={name!r}, but torch {torch.__version__} sees no NVIDIA GPU on this machine. "
            "Use device='cpu'."
        )
    if found.index is not None and found.index >= count:
        raise RuntimeError(f"{owner}: device={name!r}, but this machine has {count}, numbered from 0.")
    return found


@contextmanager
def deterministic(wanted: bool) -> Iterator[None]:
    """Only operations that give the same bits every time, where wanted; the program's own setting comes back."""
    if not wanted:
        yield
        return
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when a GPU is first used
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.backends.cudnn.benchmark = before[1]


@contextmanager
def threads(wanted: int | None) -> Iterator[None]:
    """So many threads of torch, or as many as the program has; its own number comes back."""
    before = torch.get_num_threads()
    torch.set_num_threads(wanted or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class Settings:
    """What a learner's parameters say about steps."""

    owner: str
    device: torch.device
    optimizer: str = "adamw"
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    precision: str = "float32"
    proximity: float = 0.0
    is_distributed: bool = False


@dataclass
class Processes:
    """One process among those that learn together."""

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the one that writes files."""
        return self.rank == 0

    def mine(self, n: int) -> NDArray[np.int64]:
        """Rows of a batch that are this process's."""
        return np.arange(self.rank, n, self.size)

    def joined(self, embedding: Tensor, n: int) -> Tensor:
        """Embeddings of a whole batch, those of this process with their gradient, the others as constants."""
        if self.size == 1:
            return embedding
        most = -(-n // self.size)
        padded = embedding.new_zeros((most, embedding.shape[1]))
        padded[: len(embedding)] = embedding.detach()
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        distributed.all_gather(parts, padded)
        whole = torch.stack(parts, dim=1).flatten(0, 1)[:n]
        mine = torch.from_numpy(self.mine(n)).to(embedding.device)
        return whole.index_copy(0, mine, embedding)

    def agree(self, digest: str, device: torch.device) -> bool:
        """Whether all processes say the same."""
        said = torch.tensor(list(digest.encode()), dtype=torch.uint8, device=device)
        heard = [torch.empty_like(said) for _ in range(self.size)]
        distributed.all_gather(heard, said)
        return all(bool((one == said).all()) for one in heard)


def processes(settings: Settings) -> Processes:
    """Who learns together; begins the talk between processes that torchrun has started."""
    if not settings.is_distributed:
        return Processes()
    if not distributed.is_available() or not (distributed.is_initialized() or distributed.is_torchelastic_launched()):
        raise RuntimeError(
            f"{settings.owner}: distributed=True needs several processes: start the program with torchrun, or call "
            "torch.distributed.init_process_group first."
        )
    if not distributed.is_initialized():
        distributed.init_process_group("nccl" if settings.device.type == "cuda" else "gloo")
    return Processes(distributed.get_rank(), distributed.get_world_size())


@dataclass
class Engine:
    """A network that is being trained, with its optimiser.

    Parameters
    ----------
    network : Network
        Where to begin; stays as it is.
    moments : dict of ndarray
        State of the optimiser, empty at first.
    settings : Settings
        How to take steps.
    """

    network: Network
    moments: Weights
    settings: Settings
    module: nn.Module = field(init=False)
    optimizer: torch.optim.Optimizer = field(init=False)

    def __post_init__(self) -> None:
        s = self.settings
        self.group = processes(s)
        self.module = self.network.build(s.device).train()
        decay = {} if s.weight_decay == 0.0 else {"weight_decay": s.weight_decay}
        self.optimizer = _OPTIMIZERS[s.optimizer](self.module.parameters(), lr=s.learning_rate, **decay)
        _restore(self.optimizer, self.moments)
        self._scaler = torch.amp.GradScaler(s.device.type, enabled=s.precision == "float16")
        self._forward: nn.Module = self.module
        if self.group.size > 1:
            self._forward = nn.parallel.DistributedDataParallel(self.module)
        self._before: list[Tensor] = []

    def embed(self, X: NDArray[np.floating]) -> Tensor:
        """Embeddings of a batch of scaled rows, under autograd."""
        mine = X[self.group.mine(len(X))] if self.group.size > 1 else X
        n_mine = len(mine)
        if n_mine == 0:  # every process must take part in every step
            mine = X[:1]
        x = self.network.tensor(mine, self.settings.device)
        half = {"float16": torch.float16, "bfloat16": torch.bfloat16}.get(self.settings.precision)
        with torch.autocast(self.settings.device.type, dtype=half, enabled=half is not None):
            raw = self._forward(x)
        if raw.ndim != 2 or len(raw) != len(mine):
            raise ValueError(
                f"{self.settings.owner}: the module must map rows of shape {tuple(x.shape)} to embeddings of shape "
                f"({len(mine)}, n_components); it gave {tuple(raw.shape)}."
            )
        return self.group.joined(self.network.shaped(raw)[:n_mine], len(X))

    def begin(self) -> None:
        """Remember where the parameters stand: a step keeps near to that, if the learner asks for it."""
        if self.settings.proximity > 0.0:
            self._before = [one.detach().clone() for one in self.module.parameters()]

    def step(self, loss: Tensor) -> None:
        """One step of the optimiser down a loss of the whole batch."""
        near = loss.new_zeros(())
        for now, before in zip(self.module.parameters(), self._before, strict=False):
            near = near + (now - before).square().sum()
        # Processes average their gradients; each holds those of its own rows, which are to be added.
        total = loss * self.group.size + 0.5 * self.settings.proximity * near
        if not total.requires_grad:
            return
        self.optimizer.zero_grad(set_to_none=True)
        self._scaler.scale(total).backward()
        self._scaler.step(self.optimizer)
        self._scaler.update()

    def finish(self) -> tuple[Network, Weights]:
        """The network as it has become, and the state of the optimiser."""
        network = self.network.copy()
        network.device, network.weights = self.network.device, arrays_of(self.module)
        for name, values in network.weights.items():
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                raise ValueError(too_large(self.settings.owner, f"weight {name!r} of the network"))
        self.network = network
        return network, _moments(self.optimizer)


def too_large(owner: str, what: str) -> str:
    """What to say where numbers have left the range."""
    return (
        f"{owner}: {what} is no longer finite. Lower `learning_rate`, keep precision='float32', or look at the network "
        "for a division by something that can be zero."
    )


def _moments(optimizer: torch.optim.Optimizer) -> Weights:
    """State of an optimiser as arrays, ``3.exp_avg`` being that of its fourth parameter."""
    found: Weights = {}
    for number, entries in optimizer.state_dict()["state"].items():
        for name, value in entries.items():
            if value is not None:
                found[f"{number}.{name}"] = torch.as_tensor(value).detach().cpu().numpy().copy()
    return found


def _restore(optimizer: torch.optim.Optimizer, moments: Weights) -> None:
    state: dict[int, dict[str, Any]] = {}
    for name, value in moments.items():
        number, _, key = name.partition(".")
        state.setdefault(int(number), {})[key] = torch.from_numpy(value.copy())
    if state:
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
