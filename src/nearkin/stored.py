"""Classes whose objects may stand in a file, and which of their attributes do.

A class declares itself here, and its package exports it; `nearkin.saving` writes and reads no other class. Subclasses
declare themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["attributes_of", "is_stored", "state_of", "stored"]

Class = TypeVar("Class", bound=type)

#: For every class the attributes it names, and those it leaves out.
_DECLARED: dict[type, tuple[tuple[str, ...], tuple[str, ...]]] = {}


def stored(*attributes: str, but: tuple[str, ...] = ()) -> Callable[[Class], Class]:
    """Let objects of a class stand in files, with the named attributes, or with all that they have ``but`` some.

    Examples
    --------
    >>> @stored("weights")
    ... class Votes:
    ...     def __init__(self):
    ...         self.weights, self.cache = [0.5, 0.5], {}
    >>> state_of(Votes())
    {'weights': [0.5, 0.5]}
    """

    def declare(cls: Class) -> Class:
        _DECLARED[cls] = attributes, but
        return cls

    return declare


def is_stored(cls: type) -> bool:
    """Whether a class has declared itself."""
    return cls in _DECLARED


def attributes_of(cls: type) -> tuple[str, ...]:
    """Return the attributes that a class has named, which a file must hold."""
    return _DECLARED[cls][0]


def state_of(value: Any) -> dict[str, Any]:
    """Return the attributes of an object that a file holds, by name."""
    attributes, but = _DECLARED.get(type(value), ((), ()))
    if attributes:
        return {name: getattr(value, name) for name in attributes}
    return {name: one for name, one in vars(value).items() if name not in but}
