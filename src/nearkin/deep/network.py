"""Networks in place of the linear map: those that learners build themselves, and the weights they learn, as arrays."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from nearkin.arrays import Array
from nearkin.deep.trainer import Trainer
from nearkin.deep.training import Weights, arrays_of, check_moments
from nearkin.errors import InputError
from nearkin.learners import State
from nearkin.measures import DISTANCE
from nearkin.parameters import LearningRule, MappedParameter
from nearkin.stored import Anything, ArrayOf, Count, Draws, Items, Maybe, Number, Part, Table, Text, stored
from nearkin.triplets import Triplets, TripletSource

__all__ = ["ConvPlan", "LayeredPlan", "MlpPlan", "Network", "Plan", "count_weights", "network_of", "to_unit_length"]

#: Images with at least this side are halved from the first layer on.
_LARGE = 16

#: Convolutions halve an image down to this side.
_SMALL = 4

#: Rows embedded at once.
_AT_ONCE = 1024

#: Added to squared lengths, so that an embedding of length 0 has a gradient.
_TINY = 1e-8


@stored(n_features=Count(1, size="d"), n_components=Count(1, size="s"), hidden=Items(Count(1)))
@dataclass(frozen=True)
class MlpPlan:
    """Hidden layers for plain features."""

    n_features: int
    n_components: int
    hidden: tuple[int, ...] = (256, 256)

    def build(self) -> nn.Module:
        """Build a fresh network."""
        widths = (self.n_features, *self.hidden)
        layers = [layer for pair in pairwise(widths) for layer in (nn.Linear(*pair), nn.ReLU())]
        return nn.Sequential(*layers, nn.Linear(widths[-1], self.n_components))


@stored(shape=Items(Count(1), least=3), n_components=Count(1, size="s"))
@dataclass(frozen=True)
class ConvPlan:
    """A small convolutional network for images, whose ``shape`` is (channels, height, width).

    Each stage halves the image and doubles the channels until a side is 4; images under 16 keep their size in the first
    stage. Group normalisation, unlike that of batches, keeps rows independent of each other.
    """

    shape: tuple[int, int, int]
    n_components: int

    def check_stored(self) -> dict[str, int]:
        """Return the length of a row."""
        return {"d": math.prod(self.shape)}

    def build(self) -> nn.Module:
        """Build a fresh network, which takes flat rows."""
        channels, height, width = self.shape
        layers: list[nn.Module] = [nn.Unflatten(1, self.shape)]
        wide, stride = (16, 2) if min(height, width) >= _LARGE else (32, 1)
        while True:
            layers += [nn.Conv2d(channels, wide, 3, stride, padding=1), nn.GroupNorm(4, wide), nn.ReLU()]
            channels, height, width = wide, math.ceil(height / stride), math.ceil(width / stride)
            if stride == 2 and min(height, width) <= _SMALL:
                break
            wide, stride = min(2 * wide, 256), 2
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * height * width, self.n_components))


@stored(n_features=Count(1, size="d"), n_components=Count(1), hidden=Items(Count(1), least=1))
@dataclass(frozen=True)
class LayeredPlan:
    """Hidden layers with one embedding of the input and one of every hidden layer (OAHU)."""

    n_features: int
    n_components: int
    hidden: tuple[int, ...]

    def check_stored(self) -> dict[str, int]:
        """Return the length of all embeddings together."""
        return {"s": self.n_components * (1 + len(self.hidden))}

    def build(self) -> nn.Module:
        """Build a fresh network, whose output holds the embeddings one after the other."""
        return _Layered(self)


class _Layered(nn.Module):
    def __init__(self, plan: LayeredPlan):
        super().__init__()
        widths = (plan.n_features, *plan.hidden)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.heads = nn.ModuleList(nn.Linear(width, plan.n_components) for width in widths)

    def forward(self, x: Tensor) -> Tensor:
        found = [self.heads[0](x)]
        for layer, head in zip(self.layers, list(self.heads)[1:], strict=True):
            x = torch.relu(layer(x))
            found.append(head(x))
        return torch.cat(found, dim=1)


class Plan(Protocol):
    """Describes a network and builds it."""

    def build(self) -> nn.Module:
        """Build a fresh network."""


def count_weights(plan: Plan) -> int:
    """Return how many weights a network will have, without any memory for them."""
    with torch.random.fork_rng([]), torch.device("meta"):
        return sum(one.numel() for one in plan.build().parameters())


def to_unit_length(embedding: Tensor, n_groups: int) -> Tensor:
    """Divide every group of columns by its length, and all by the root of the number of groups."""
    groups = embedding.unflatten(1, (n_groups, -1))
    length = groups.square().sum(dim=2, keepdim=True).add(_TINY).sqrt()
    return (groups / (length * n_groups**0.5)).flatten(1)


@stored(
    plan=Maybe(Part(MlpPlan, ConvPlan, LayeredPlan, d="d", s="s")),
    n_features=Count(1, size="d"),
    gain=Number(),
    rng=Draws(),
    n_groups=Count(size="g"),
    shares=Maybe(ArrayOf("g", low=0.0, high=1.0)),
    weights=Table(Text(), Anything()),
    moments=Table(Text(), Anything()),
    n_batches=Count(),
)
class Network(MappedParameter):
    """A network in place of the map L, with all that its training needs to continue.

    ``plan`` says how to build it, or is a module to copy; it is None in a file that holds only weights. ``gain`` brings
    the entries of scaled rows to about 1; ``n_groups`` groups of columns have unit length and weigh ``shares`` in the
    distance. Arrays are replaced and never written to, so copies share them.
    """

    measure = DISTANCE
    has_matrix = False

    # Made on demand and neither copied nor saved: the module that maps rows, its device, and the trainer.
    _module: nn.Module | None = None
    _device = torch.device("cpu")
    trainer: Trainer | None = None

    def __init__(
        self,
        plan: Plan | nn.Module | None,
        n_features: int,
        gain: float,
        rng: np.random.Generator,
        n_groups: int = 0,
        shares: Array | None = None,
    ):
        self.plan, self.n_features, self.gain, self.rng = plan, n_features, gain, rng
        self.n_groups, self.shares = n_groups, shares
        self.weights: Weights = {}
        self.moments: Weights = {}  # state of the optimiser
        self.n_batches = 0

    def check_stored(self) -> dict[str, None]:
        """Refuse weights and moments that do not fit the module, which is built without numbers.

        Without a plan the length of an embedding is unknown until the user gives the module.
        """
        for name, one in (*self.weights.items(), *self.moments.items()):
            if not isinstance(one, np.ndarray) or (one.dtype.kind == "f" and not np.isfinite(one).all()):
                raise ValueError(f"{name} of the network is not an array of finite numbers")
        if self.plan is None or isinstance(self.plan, nn.Module):
            return {"s": None}
        with torch.device("meta"):
            self.check_fit(self.plan.build())
        return {}

    def check_fit(self, module: nn.Module) -> None:
        """Raise a ValueError unless weights and moments have the names, types and shapes of a module's."""
        expected = {name: (tuple(one.shape), one.dtype) for name, one in module.state_dict().items()}
        found = {name: (one.shape, torch.from_numpy(one).dtype) for name, one in self.weights.items()}
        if self.weights and found != expected:
            raise ValueError(f"the weights {_difference(found, expected)} differ from those of the module")
        check_moments(self.moments, list(module.parameters()))

    def give_module(self, module: Plan | nn.Module, source: TripletSource | None) -> None:
        """Take the user's module again, which a file does not hold; a ValueError says that it is another one."""
        self.plan = module
        try:
            if isinstance(module, nn.Module) and not any(is_lazy(one) for one in module.parameters()):
                self.check_fit(module)
            width = self.n_components
        except (RuntimeError, TypeError) as error:
            raise ValueError(str(error)) from None
        remembered = getattr(source, "centers_", getattr(source, "newest_", None))
        if remembered is not None and remembered.shape[1] != width:
            raise ValueError(f"it embeds rows in {width} numbers, what was learned has {remembered.shape[1]}")

    def begin(self, rows: Array) -> None:
        """Draw the first weights, and check on a few scaled rows that the module is usable."""
        assert self.plan is not None
        module = self.plan if isinstance(self.plan, nn.Module) else self.plan.build()
        x = self.tensor(rows, torch.device("cpu"))
        module.to("cpu").eval()
        with torch.no_grad():  # this also makes the weights of lazy layers
            try:
                found = module(x)
            except (RuntimeError, TypeError) as error:
                raise InputError(f"the module does not take rows of shape {tuple(x.shape)}: {error}") from error
        if not isinstance(found, Tensor) or found.ndim != 2 or len(found) != len(x):
            returned = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise InputError(
                f"the module must map rows to embeddings of shape (n_rows, n_components); for {tuple(x.shape)} it "
                f"returned {returned}."
            )
        if not any(one.requires_grad for one in module.parameters()):
            raise InputError("the module has no parameters to learn.")
        self.weights = arrays_of(module)

    def build(self, device: torch.device) -> nn.Module:
        """Build the module with the present weights."""
        assert self.plan is not None
        module = copy.deepcopy(self.plan) if isinstance(self.plan, nn.Module) else self.plan.build()
        module.load_state_dict({name: torch.from_numpy(one.copy()) for name, one in self.weights.items()})
        return module.to(device)

    def on(self, device: torch.device | None) -> None:
        """Compute there from now on; None is the processor."""
        self._device = torch.device("cpu") if device is None else device

    def learn(self, triplets: Triplets, rule: LearningRule) -> tuple[Array, int]:
        """Hand triplets to the trainer, which knows the rule and the settings of the training."""
        assert self.trainer is not None
        return self.trainer.learn(triplets)

    def take_over(self) -> None:
        """Take the weights that the trainer has reached so far."""
        assert self.trainer is not None
        self.weights, self.moments = self.trainer.engine.arrays()
        self._module = None

    def tensor(self, X: Array, device: torch.device) -> Tensor:
        """Turn scaled rows into the input of the module."""
        return torch.from_numpy(np.multiply(X, self.gain, dtype=np.float32)).to(device)

    def shape(self, raw: Tensor) -> Tensor:
        """Turn the output of the module into an embedding."""
        raw = raw.float()
        return to_unit_length(raw, self.n_groups) if self.n_groups else raw

    def represent(self, X: Array) -> Array:
        """Map scaled rows to the space of the prototypes."""
        device = self._device
        if self._module is None:
            self._module = self.build(device).eval()
        module = self._module.to(device)
        with torch.no_grad():
            found = [
                self.shape(module(self.tensor(X[start : start + _AT_ONCE], device))).cpu().numpy()
                for start in range(0, len(X), _AT_ONCE)
            ]
        return np.concatenate(found).astype(X.dtype, copy=False)

    def embed(self, X: Array) -> Array:
        """Map scaled rows to the space where the learned distance is Euclidean."""
        found = self.represent(X)
        if self.shares is None:
            return found
        factor = np.sqrt(self.shares * self.n_groups).astype(X.dtype)
        return found * np.repeat(factor, found.shape[1] // self.n_groups)

    def copy(self) -> Self:
        """Copy the network, so that one can learn while the other stays."""
        other = copy.copy(self)
        for name in ("_module", "_device", "trainer"):
            vars(other).pop(name, None)
        other.rng = copy.deepcopy(self.rng)
        return other

    @property
    def n_components(self) -> int:
        """Columns of an embedding."""
        return self.embed(np.zeros((1, self.n_features), dtype=np.float32)).shape[1]

    @property
    def components(self) -> Array:
        """A network has no matrix."""
        raise AttributeError("the learned map is a network and has no matrix: use transform().")

    metric = components


def _difference(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))[:3]


def network_of(state: State) -> Network:
    """Return the network that a deep learner's state holds."""
    assert isinstance(state.parameter, Network)
    return state.parameter
