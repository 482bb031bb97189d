"""What a deep learner learns: the weights of a network, kept as arrays."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nearkin.arrays import Array
from nearkin.losses import Loss
from nearkin.measures import DISTANCE
from nearkin.triplets import Triplets

__all__ = ["Network", "Plan", "arrays_of", "reproducible", "unit"]

Weights = dict[str, NDArray[Any]]

#: Rows that are embedded at once.
_AT_ONCE = 1024

#: Added to squared lengths, so that an embedding of length 0 has a gradient.
_TINY = 1e-8


class Plan(Protocol):
    """Something that builds a network."""

    def build(self) -> nn.Module:
        """A fresh network."""


@contextmanager
def reproducible(seed: int, device: torch.device) -> Iterator[None]:
    """Draws of torch inside the block follow the seed; those of the rest of the program are as if it had not been."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def unit(embedding: Tensor, n_groups: int) -> Tensor:
    """Every group of columns divided by its length, and all by the root of the number of groups.

    Examples
    --------
    >>> [round(one, 3) for one in unit(torch.tensor([[3.0, 4.0, 0.0, 2.0]]), 2)[0].tolist()]
    [0.424, 0.566, 0.0, 0.707]
    """
    groups = embedding.unflatten(1, (n_groups, -1))
    length = groups.square().sum(dim=2, keepdim=True).add(_TINY).sqrt()
    return (groups / (length * n_groups**0.5)).flatten(1)


def arrays_of(module: nn.Module) -> Weights:
    """Weights and buffers of a module as arrays of their own."""
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in module.state_dict().items()}


class Network:
    """A network in place of the map L: what `LowRank` is to the linear learners.

    Arrays are replaced, never written to, so that copies share them. The module itself is built when somebody maps
    rows.

    Parameters
    ----------
    plan : Plan, nn.Module or None
        How to build the network; of a module a copy is taken. None while it is on its way to a file.
    weights : dict of ndarray
        By the names of torch.
    n_features : int
        Length of a row.
    gain : float
        Factor that brings scaled rows to numbers around 1.
    n_groups : int
        Groups of columns that are brought to unit length; 0 for none.
    """

    # The module that maps rows and where it does; made when asked for, not saved.
    _transient = ("_module", "device")
    _module: nn.Module | None = None
    device: str = "cpu"

    measure = DISTANCE
    shares: Array | None = None  # of the groups in the distance; None for equal ones

    def __init__(self, plan: Plan | nn.Module | None, weights: Weights, n_features: int, gain: float, n_groups: int):
        self.plan = plan
        self.weights = weights
        self.n_features = n_features
        self.gain = gain
        self.n_groups = n_groups

    def build(self, device: torch.device) -> nn.Module:
        """The network as it is now, for learning or for use."""
        assert self.plan is not None
        module = copy.deepcopy(self.plan) if isinstance(self.plan, nn.Module) else self.plan.build()
        module.load_state_dict({name: torch.from_numpy(one.copy()) for name, one in self.weights.items()})
        return module.to(device)

    def tensor(self, X: Array, device: torch.device) -> Tensor:
        """Scaled rows as the network takes them."""
        return torch.from_numpy(np.multiply(X, self.gain, dtype=np.float32)).to(device)

    def shaped(self, raw: Tensor) -> Tensor:
        """What the module says as an embedding."""
        raw = raw.float()
        return unit(raw, self.n_groups) if self.n_groups else raw

    def represent(self, X: Array) -> Array:
        """Scaled rows in the space of the prototypes."""
        device = torch.device(self.device)
        if self._module is None:
            self._module = self.build(device).eval()
        module = self._module.to(device)
        with torch.no_grad():
            found = [
                self.shaped(module(self.tensor(X[start : start + _AT_ONCE], device))).cpu().numpy()
                for start in range(0, len(X), _AT_ONCE)
            ]
        return np.concatenate(found).astype(X.dtype, copy=False)

    def embed(self, X: Array) -> Array:
        """Scaled rows mapped: the learned distance is Euclidean there."""
        found = self.represent(X)
        if self.shares is None:
            return found
        factor = np.sqrt(self.shares * self.n_groups).astype(X.dtype)
        return found * np.repeat(factor, found.shape[1] // self.n_groups)

    def margins(self, triplets: Triplets) -> Array:
        """``z`` of triplets of scaled rows."""
        rows = np.concatenate([self.embed(block) for _, block in triplets.rows.blocks()])
        pool = np.concatenate([self.embed(block) for _, block in triplets.pool.blocks()])
        return triplets.of(rows, pool).margins(self.measure)

    def scores(self, left: Array, right: Array) -> Array:
        """All pairs of scaled rows, larger is closer."""
        return self.measure.scores(self.embed(left), self.embed(right))

    def copy(self) -> Network:
        """A network that can be replaced while this one stays."""
        other = copy.copy(self)
        for made in self._transient:
            vars(other).pop(made, None)
        return other

    def learn(self, triplets: Triplets, C: float, loss: Loss, max_hq_iter: int) -> NoReturn:
        """Never called: a network learns in the hands of its learner, which has the optimiser."""
        raise TypeError("a network is trained by its learner.")

    @property
    def n_components(self) -> int:
        """Columns of an embedding."""
        return self.embed(np.zeros((1, self.n_features), dtype=np.float32)).shape[1]

    def _no_matrix(self) -> NoReturn:
        raise AttributeError("the learned map is a network and has no matrix: use transform().")

    @property
    def metric(self) -> Array:
        """A network has none."""
        self._no_matrix()

    components = query_map = item_map = metric
