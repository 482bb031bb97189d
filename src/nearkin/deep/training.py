"""How a network takes a step: settings, device, precision, optimiser and processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from torch import Tensor, distributed, nn

from nearkin.accelerator import find
from nearkin.arrays import Array, Index
from nearkin.errors import InputError
from nearkin.settings import BOOLEAN, Instance, Integer, OneOf, Real, declare, setting

if TYPE_CHECKING:
    from nearkin.deep.network import Network

__all__ = ["Engine", "Processes", "Training", "computing", "find_device", "not_finite", "reproducible"]

_FINITE = Real(0.0, np.inf, open_high=True)


@declare
class Training(BaseEstimator):
    """How a network is trained.

    Parameters
    ----------
    {settings}

    Notes
    -----
    ``set_params(training__learning_rate=0.01)`` of a learner changes a single setting, also in a grid search.

    Examples
    --------
    >>> from nearkin.deep import DeepMetric
    >>> model = DeepMetric(training=Training(learning_rate=0.01, batch_size=128))
    >>> model.set_params(training__optimizer="sgd").training
    Training(batch_size=128, learning_rate=0.01, optimizer='sgd')
    """

    optimizer: str = setting("adamw", OneOf(("adamw", "adam", "sgd")), doc='Optimiser of torch; "sgd" has no momentum.')
    learning_rate: float = setting(
        0.001, Real(0.0, np.inf, open_low=True, open_high=True), doc="Learning rate of the optimiser.",
    )  # fmt: skip
    weight_decay: float = setting(0.0001, _FINITE, kind="float", doc="Weight decay of the optimiser.")
    batch_size: int = setting(64, Integer(2, 1_000_000_000), doc="Rows per step.")
    n_steps: int = setting(1, Integer(1, 1000), doc="Steps per batch; each computes the weights of the triplets again.")
    proximity: float = setting(
        1.0, _FINITE, kind="float",
        doc="""Factor of half the squared distance from the parameters before the batch, the paper's proximity term. Its
        gradient is zero at the first step of a batch, so it has an effect from ``n_steps=2`` on.""",
    )  # fmt: skip
    warm_up: int = setting(
        64, Integer(0, 1_000_000_000),
        doc="""Number of first batches that use the plain loss, because the losses of an untrained network say nothing
        about labels. In `fit` at most a quarter of all batches.""",
    )  # fmt: skip
    memory: float = setting(
        0.8, Real(0.0, 1.0, open_high=True), kind="float in [0, 1)",
        doc="""Share of the earlier passes in the running plausibility of a row, in `fit`. That plausibility weighs all
        triplets of the row.""",
    )  # fmt: skip
    precision: str = setting(
        "float32", OneOf(("float32", "bfloat16", "float16")),
        doc="Precision of the layers while learning; losses are always computed in float32.",
    )  # fmt: skip
    deterministic: bool = setting(
        False, BOOLEAN,
        doc="""Refuse operations whose results can differ between runs. On the processor every operation used here gives
        the same bits each time.""",
    )  # fmt: skip
    distributed: bool = setting(
        False, BOOLEAN,
        doc="""Divide every batch among the processes of torchrun; each of them needs all rows. The steps equal those of
        one process up to rounding.""",
    )  # fmt: skip
    checkpoint: str | os.PathLike[str] | None = setting(
        None, OneOf((None,)), Instance((str, os.PathLike), "a path"), kind="path or None",
        doc="""File that `fit` writes after every pass. If it exists, `fit` continues from it and ends with the same
        bits. A lock beside it keeps other processes away.""",
    )  # fmt: skip


Weights = dict[str, NDArray[Any]]

_OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": partial(torch.optim.AdamW, fused=True),
    "adam": partial(torch.optim.Adam, fused=True),
    "sgd": torch.optim.SGD,
}

_HALF = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def find_device(name: str, owner: str) -> torch.device:
    """Return the device of that name, or raise on behalf of its owner; nothing moves to the processor by itself."""
    device: torch.device = torch.device(name) if name == "cpu" else find(name, owner, needs_triton=False)
    return device


@contextmanager
def computing(n_threads: int | None, is_deterministic: bool) -> Iterator[None]:
    """Set the threads of torch (None keeps them) and whether every operation must give the same bits each time.

    The program's own settings come back after the block.
    """
    threads = torch.get_num_threads()
    algorithms, benchmark = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    torch.set_num_threads(n_threads or threads)
    if is_deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when a GPU is first used
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        if is_deterministic:
            torch.use_deterministic_algorithms(algorithms)
            torch.backends.cudnn.benchmark = benchmark


@contextmanager
def reproducible(rng: np.random.Generator, device: torch.device) -> Iterator[None]:
    """Seed the draws of torch inside the block; those of the rest of the program stay as they were."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(int(rng.integers(2**63)))
        yield


@dataclass(frozen=True)
class Processes:
    """One process among those that learn together."""

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls, training: Training, device: torch.device, owner: str) -> Processes:
        """Join the processes that torchrun has started, if the training is distributed."""
        if not training.distributed:
            return cls()
        is_ready = distributed.is_available() and distributed.is_initialized()
        if not is_ready and not (distributed.is_available() and distributed.is_torchelastic_launched()):
            raise RuntimeError(
                f"{owner}: distributed=True needs several processes: start the program with torchrun, or call "
                "torch.distributed.init_process_group first."
            )
        if not is_ready:
            distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        return cls(distributed.get_rank(), distributed.get_world_size())

    def share(self, n: int) -> Index:
        """Return the rows of a batch that this process embeds."""
        return np.arange(self.rank, n, self.size)

    def gather(self, embedding: Tensor, n: int) -> Tensor:
        """Gather the embeddings of a whole batch: this process's own with gradients, the others as constants."""
        if self.size == 1:
            return embedding
        padded = embedding.new_zeros((-(-n // self.size), embedding.shape[1]))
        padded[: len(embedding)] = embedding.detach()
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        distributed.all_gather(parts, padded)
        whole = torch.stack(parts, dim=1).flatten(0, 1)[:n]
        return whole.index_copy(0, torch.from_numpy(self.share(n)).to(embedding.device), embedding)

    def agree_on(self, digest: str, device: torch.device) -> bool:
        """Whether all processes have the same digest."""
        mine = torch.tensor(list(digest.encode()), dtype=torch.uint8, device=device)
        found = [torch.empty_like(mine) for _ in range(self.size)]
        distributed.all_gather(found, mine)
        return all(bool((one == mine).all()) for one in found)


class Engine:
    """The module of a network in training, with its optimiser; the network itself does not change."""

    def __init__(self, network: Network, training: Training, device: torch.device, owner: str):
        self.network, self.training, self.device, self.owner = network, training, device, owner
        self.processes = Processes.join(training, device, owner)
        self.module = network.build(device).train()
        decay = {} if training.weight_decay == 0.0 else {"weight_decay": float(training.weight_decay)}
        make = _OPTIMIZERS[training.optimizer]
        self.optimizer = make(self.module.parameters(), lr=float(training.learning_rate), **decay)
        _restore(self.optimizer, network.moments)
        self._scaler = torch.amp.GradScaler(device.type, enabled=training.precision == "float16")
        self._forward: nn.Module = self.module
        if self.processes.size > 1:
            self._forward = nn.parallel.DistributedDataParallel(self.module)
        self._before: list[Tensor] = []

    def embed(self, X: Array) -> Tensor:
        """Embed a batch of scaled rows under autograd."""
        mine = X[self.processes.share(len(X))] if self.processes.size > 1 else X
        n_mine = len(mine)
        if n_mine == 0:  # every process must take part in every step
            mine = X[:1]
        x = self.network.tensor(mine, self.device)
        half = _HALF.get(self.training.precision)
        with torch.autocast(self.device.type, dtype=half, enabled=half is not None):
            raw = self._forward(x)
        if raw.ndim != 2 or len(raw) != len(mine):
            raise InputError(
                f"the module must map rows of shape {tuple(x.shape)} to embeddings of shape ({len(mine)}, "
                f"n_components); it returned {tuple(raw.shape)}.",
                owner=self.owner,
            )
        embedding = self.processes.gather(self.network.shape(raw)[:n_mine], len(X))
        if not bool(torch.isfinite(embedding).all()):
            raise not_finite("an embedding", self.owner)
        return embedding

    def begin_batch(self) -> None:
        """Remember the parameters, to which the proximity term of later steps refers."""
        if self.training.n_steps > 1 and self.training.proximity > 0.0:  # the first step has no such gradient
            self._before = [one.detach().clone() for one in self.module.parameters()]

    def step(self, loss: Tensor) -> None:
        """Take one step of the optimiser down the loss of a whole batch."""
        if not bool(torch.isfinite(loss)):
            raise not_finite("the loss", self.owner)
        near = loss.new_zeros(())
        for now, before in zip(self.module.parameters(), self._before, strict=False):
            near = near + (now - before).square().sum()
        # Processes average their gradients, each of which covers its own rows; the sum is wanted.
        total = loss * self.processes.size + 0.5 * self.training.proximity * near
        if not total.requires_grad:
            return
        self.optimizer.zero_grad(set_to_none=True)
        self._scaler.scale(total).backward()
        self._scaler.step(self.optimizer)
        self._scaler.update()

    def arrays(self) -> tuple[Weights, Weights]:
        """Return the weights as they are now, and the state of the optimiser."""
        weights = arrays_of(self.module)
        for name, values in weights.items():
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                raise not_finite(f"weight {name!r} of the network", self.owner)
        return weights, _moments(self.optimizer)


def arrays_of(module: nn.Module) -> Weights:
    """Copy the weights and buffers of a module into arrays."""
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in module.state_dict().items()}


def not_finite(what: str, owner: str) -> InputError:
    """Error for numbers that have left their range."""
    return InputError(
        f"{what} is no longer finite. Lower `learning_rate`, keep precision='float32', or check the network for a "
        "division by zero.",
        owner=owner,
    )


def _moments(optimizer: torch.optim.Optimizer) -> Weights:
    """State of an optimiser as arrays, ``3.exp_avg`` being that of its fourth parameter."""
    return {
        f"{number}.{name}": torch.as_tensor(value).detach().cpu().numpy().copy()
        for number, entries in optimizer.state_dict()["state"].items()
        for name, value in entries.items()
        if value is not None
    }


def check_moments(moments: Weights, parameters: Sequence[Tensor]) -> None:
    """Raise a ValueError unless each moment belongs to a parameter and has its shape: torch would not look."""
    for name, value in moments.items():
        number, _, key = name.partition(".")
        if not number.isdecimal() or int(number) >= len(parameters):
            raise ValueError(f"the state {name!r} of the optimiser belongs to no parameter")
        one = parameters[int(number)]
        expected = ((), torch.float32) if key == "step" else (tuple(one.shape), one.dtype)
        if key not in ("step", "exp_avg", "exp_avg_sq") or (value.shape, torch.from_numpy(value).dtype) != expected:
            raise ValueError(f"the state {name!r} of the optimiser is {value.dtype} of shape {value.shape}")


def _restore(optimizer: torch.optim.Optimizer, moments: Weights) -> None:
    check_moments(moments, [one for group in optimizer.param_groups for one in group["params"]])
    state: dict[int, dict[str, Any]] = {}
    for name, value in moments.items():
        number, _, key = name.partition(".")
        state.setdefault(int(number), {})[key] = torch.from_numpy(value.copy())
    if state:
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
