"""Settings of estimators, each declared once: its default, its rule and its description side by side.

A group of settings is a class under `declare`; an estimator inherits the groups it needs and adds its own. `declare`
writes the constructor, which only stores its arguments, so scikit-learn's ``clone``, ``get_params`` and signatures
work as for a constructor written by hand. `check_settings` applies the rules. In a docstring ``{settings}`` becomes the
Parameters section, and ``{fitted}`` what the class and those it inherits from say in ``fitted``.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import numbers
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from nearkin.errors import InputError

__all__ = [
    "BOOLEAN",
    "DEVICE",
    "Function",
    "Instance",
    "Integer",
    "Numbers",
    "OneOf",
    "Real",
    "Rule",
    "Spelled",
    "again",
    "check_argument",
    "check_settings",
    "declare",
    "setting",
]

T = TypeVar("T")


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


@dataclass(frozen=True)
class Spelled:
    """A text of some spelling, given as a regular expression."""

    pattern: str
    words: str

    def allows(self, value: Any) -> bool:
        """Whether all of the text follows it."""
        return isinstance(value, str) and re.fullmatch(self.pattern, value) is not None

    def __str__(self) -> str:
        return self.words


#: True or False.
BOOLEAN = Instance((bool, np.bool_), "True or False")

#: Where to learn; learning finds out whether that device exists.
DEVICE = Spelled(r"cpu|cuda(:\d+)?", "'cpu', 'cuda' or 'cuda:N'")


def setting(default: Any, *rules: Rule, kind: str, doc: str, kw_only: bool = True) -> Any:
    """Declare a setting of an estimator.

    Parameters
    ----------
    default : object
        Value when the caller gives none.
    *rules : Rule
        The value must follow at least one of them; without rules anything is taken.
    kind : str
        What the value is, as numpydoc writes it: ``"float"`` or ``'{"hinge", "rescaled_hinge"} or Loss'``.
    doc : str
        What the value means.
    kw_only : bool, default=True
        Whether the constructor takes it by name only.
    """
    return dataclasses.field(default=default, kw_only=kw_only, metadata={"rules": rules, "kind": kind, "doc": doc})


def again(group: Any, name: str, default: Any) -> Any:
    """Declare a setting of a group that the class does not inherit, with another default."""
    was = group.__dataclass_fields__[name]
    return dataclasses.field(default=default, kw_only=was.kw_only, metadata=was.metadata)


def declare(cls: type[T]) -> type[T]:
    """Give a class a constructor for its settings and those it inherits, and fill ``{settings}`` in its docstring.

    A plain value (``C: float = 1.0``) gives an inherited setting another default and keeps its rules and description.

    Examples
    --------
    >>> @declare
    ... class Steps:
    ...     '''How far a step goes: {settings}'''
    ...
    ...     C: float = setting(0.1, Real(0.0), kind="float", doc="Aggressiveness.")
    >>> print(Steps.__doc__)
    How far a step goes: C : float, default=0.1
            Aggressiveness.
    >>> check_settings(Steps(C=-1.0))
    Traceback (most recent call last):
    nearkin.errors.InputError: Steps: parameter `C` must be a number in [0, inf]; got -1.0.
    >>> @declare
    ... class LargeSteps(Steps):
    ...     C: float = 10.0
    >>> LargeSteps().C
    10.0
    """
    _inherit_rules(cls)
    made = dataclasses.dataclass(eq=False, repr=False, kw_only=True)(cls)
    text = vars(made).get("__doc__") or ""
    if "{settings}" in text:
        text = text.replace("{settings}", "\n".join(_describe(made)).lstrip())
    fitted = [vars(one)["fitted"].strip() for one in made.__mro__ if "fitted" in vars(one)]
    made.__doc__ = text.replace("{fitted}", "\n    ".join(fitted))
    return made


def _inherit_rules(cls: type) -> None:
    """Turn plain values of inherited settings into settings with the rules and the description they inherit."""
    known = {one.name: one for base in cls.__mro__[:0:-1] for one in getattr(base, "__dataclass_fields__", {}).values()}
    for name in inspect.get_annotations(cls).keys() & known.keys() & vars(cls).keys():
        value = vars(cls)[name]
        if not isinstance(value, dataclasses.Field):
            was = known[name]
            setattr(cls, name, dataclasses.field(default=value, kw_only=was.kw_only, metadata=was.metadata))


def check_settings(owner: Any) -> None:
    """Raise an `InputError` that names the owner, the setting, its rules and its value if no rule allows it."""
    for one in _fields(type(owner)):
        check_argument(owner, one.name, getattr(owner, one.name), *one.metadata.get("rules", ()))


def check_argument(owner: object, name: str, value: Any, *rules: Rule) -> None:
    """Apply rules to an argument of a function or method, as `check_settings` does to settings.

    Examples
    --------
    >>> check_argument("adapt", "k", 0, Integer(1))
    Traceback (most recent call last):
    nearkin.errors.InputError: adapt: parameter `k` must be a whole number >= 1; got 0.
    """
    if rules and not any(rule.allows(value) for rule in rules):
        words = " or ".join(str(rule) for rule in rules)
        raise InputError(f"parameter `{name}` must be {words}; got {value!r}.", owner=owner)


def _fields(cls: type) -> list[dataclasses.Field[Any]]:
    """Settings in the order of the constructor, positional ones first; none of a class that declares nothing."""
    found = list(dataclasses.fields(cls)) if dataclasses.is_dataclass(cls) else []
    return [one for one in found if not one.kw_only] + [one for one in found if one.kw_only]


def _describe(cls: type) -> Iterator[str]:
    for one in _fields(cls):
        yield f"    {one.name} : {one.metadata['kind']}, default={_shown(one.default)}"
        yield textwrap.indent(textwrap.fill(" ".join(one.metadata["doc"].split()), 108), " " * 8)


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
