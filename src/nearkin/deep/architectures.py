"""The networks that learners build themselves, described by plain numbers so that a file can hold them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from nearkin.stored import stored

__all__ = ["ConvPlan", "LayeredPlan", "MlpPlan"]

#: Images with at least this side are halved from the first layer on.
_LARGE = 16

#: Convolutions halve an image down to this side.
_SMALL = 4


@stored()
@dataclass(frozen=True)
class MlpPlan:
    """Hidden layers for plain features.

    Examples
    --------
    >>> MlpPlan(4, 2, (8,)).build()(torch.zeros(3, 4)).shape
    torch.Size([3, 2])
    """

    n_features: int
    n_components: int
    hidden: tuple[int, ...] = (256, 256)

    def build(self) -> nn.Module:
        """Build a fresh network."""
        widths = (self.n_features, *self.hidden)
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(widths[-1], self.n_components))


@stored()
@dataclass(frozen=True)
class ConvPlan:
    """A small convolutional network for images, whose ``shape`` is (channels, height, width).

    Each stage halves the image and doubles the channels until a side is 4; images under 16 keep their size in the first
    stage. Group normalisation, unlike that of batches, keeps rows independent of each other.

    Examples
    --------
    >>> ConvPlan((1, 8, 8), 2).build()(torch.zeros(3, 64)).shape
    torch.Size([3, 2])
    """

    shape: tuple[int, int, int]
    n_components: int

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


@stored()
@dataclass(frozen=True)
class LayeredPlan:
    """Hidden layers with one embedding of the input and one of every hidden layer (OAHU).

    Examples
    --------
    >>> LayeredPlan(4, 2, (8, 8)).build()(torch.zeros(3, 4)).shape
    torch.Size([3, 6])
    """

    n_features: int
    n_components: int
    hidden: tuple[int, ...]

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
