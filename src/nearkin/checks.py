"""Rules for parameters as data beside the class, and one routine that words the error."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.utils.validation import validate_data

from nearkin.errors import InputError

__all__ = [
    "BOOLEAN",
    "Function",
    "Instance",
    "Integer",
    "Numbers",
    "OneOf",
    "Real",
    "Rule",
    "check_rows",
    "check_seed",
    "generator",
]


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
        return any(_same_kind(value, one) and bool(value == one) for one in self.values)

    def __str__(self) -> str:
        return ", ".join(repr(one) for one in self.values)


def _same_kind(value: Any, one: Any) -> bool:
    return isinstance(value, str) if isinstance(one, str) else type(value) is type(one)


@dataclass(frozen=True)
class Instance:
    """An object of some kind."""

    kind: type | tuple[type, ...]
    words: str

    def allows(self, value: Any) -> bool:
        """Whether it is one."""
        return isinstance(value, self.kind) and not isinstance(value, type)

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True)
class Function:
    """Anything that can be called, classes too."""

    words: str

    def allows(self, value: Any) -> bool:
        """Whether it can be called."""
        return callable(value)

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True)
class Numbers:
    """A tuple or list of whole numbers >= 1, of one of some lengths."""

    lengths: range
    words: str

    def allows(self, value: Any) -> bool:
        """Whether it is one."""
        is_row = isinstance(value, (tuple, list)) and len(value) in self.lengths
        return is_row and all(Integer(1).allows(one) for one in value)

    def __str__(self) -> str:
        return self.words


#: True or False.
BOOLEAN = Instance((bool, np.bool_), "True or False")


def check_rows(estimator: Any, X: Any, *, dtype: Any, reset: bool) -> Any:
    """Finite numbers as a dense array or CSR matrix, by scikit-learn's rules; every message names the estimator."""
    if _is_plain(X, dtype) and not hasattr(estimator, "feature_names_in_"):
        if reset:
            estimator.n_features_in_ = X.shape[1]
        if estimator.n_features_in_ == X.shape[1]:
            return X
    kinds = [] if hasattr(X, "iloc") else [str(one) for one in getattr(X, "dtypes", ())]
    if kinds and set(kinds) == {"Float32"} and isinstance(dtype, list):
        dtype = np.float32  # a polars frame, which would be widened
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return validate_data(estimator, X, accept_sparse="csr", dtype=dtype, reset=reset)
    except ValueError as error:
        is_named = type(estimator).__name__ in str(error)
        raise InputError(str(error), owner=None if is_named else estimator) from error


def _is_plain(X: Any, dtype: Any) -> bool:
    """Whether scikit-learn would find nothing to do or to say; asking it costs more than a small batch."""
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.size > 0
        and X.dtype in (dtype if isinstance(dtype, list) else (dtype,))
        and bool(np.isfinite(X).all())
    )


def generator(random_state: Any) -> np.random.Generator:
    """Random generator from a seed, a generator, a legacy `RandomState` or None; never the global one.

    Examples
    --------
    >>> int(generator(0).integers(100)) == int(generator(0).integers(100))
    True
    """
    check_seed(random_state)
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1, size=4))
    return np.random.default_rng(None if random_state is None else int(random_state))


def check_seed(random_state: Any) -> None:
    """Refuse what is not a seed, without drawing from it."""
    kinds = (np.random.Generator, np.random.RandomState)
    if not (random_state is None or isinstance(random_state, kinds) or Integer(0).allows(random_state)):
        raise InputError(
            "parameter `random_state` must be None, a whole number >= 0, numpy.random.Generator or RandomState; "
            f"got {random_state!r}."
        )
