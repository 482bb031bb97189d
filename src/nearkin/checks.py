"""Rules for parameters as data beside the class, and one routine that words the error."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

__all__ = ["Instance", "Integer", "OneOf", "Real", "Rule", "check_parameters", "generator"]


class Rule(Protocol):
    """Says whether a value is allowed, and how to put the rule in words."""

    def allows(self, value: Any) -> bool:
        """Whether the value is allowed."""


@dataclass(frozen=True)
class Real:
    """A number in an interval; both ends belong to it unless said otherwise."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def allows(self, value: Any) -> bool:
        """NaN and booleans are never allowed."""
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
            return False
        value = float(value)
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return above and below

    def __str__(self) -> str:
        return f"a number in {'(' if self.open_low else '['}{self.low:g}, {self.high:g}{')' if self.open_high else ']'}"


@dataclass(frozen=True)
class Integer:
    """A whole number, at least ``low``."""

    low: int = 1

    def allows(self, value: Any) -> bool:
        """Booleans are not numbers here."""
        return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= self.low

    def __str__(self) -> str:
        return f"a whole number >= {self.low}"


@dataclass(frozen=True)
class OneOf:
    """One of a few values, compared with their type (so that 0 is not False)."""

    values: tuple[Any, ...]

    def allows(self, value: Any) -> bool:
        """Membership by type and value."""
        return any(type(value) is type(one) and value == one for one in self.values)

    def __str__(self) -> str:
        return ", ".join(repr(one) for one in self.values)


@dataclass(frozen=True)
class Instance:
    """An object of some kind."""

    kind: type | tuple[type, ...]
    words: str

    def allows(self, value: Any) -> bool:
        """Whether it is one."""
        return isinstance(value, self.kind)

    def __str__(self) -> str:
        return self.words


def check_parameters(owner: object, rules: Mapping[str, tuple[Rule, ...]]) -> None:
    """Raise a `ValueError` naming owner, parameter, rule and value for the first parameter that no rule allows."""
    for name, allowed in rules.items():
        value = getattr(owner, name)
        if not any(rule.allows(value) for rule in allowed):
            words = " or ".join(str(rule) for rule in allowed)
            raise ValueError(f"{type(owner).__name__}: parameter `{name}` must be {words}; got {value!r}.")


def generator(random_state: Any) -> np.random.Generator:
    """Random generator from a seed, a generator, a legacy `RandomState` or None; never the global one.

    Examples
    --------
    >>> int(generator(0).integers(100)) == int(generator(0).integers(100))
    True
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1, size=4))
    if random_state is None or Integer(0).allows(random_state):
        return np.random.default_rng(None if random_state is None else int(random_state))
    raise ValueError(
        f"random_state must be None, a whole number >= 0, numpy.random.Generator or RandomState; got {random_state!r}."
    )
