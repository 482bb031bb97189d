"""Classes whose objects may stand in a file, and which of their attributes do.

A class declares itself here; `nearkin.saving` writes and reads nothing else. A file names a class by its package and
public name, so that only what packages of nearkin export can be found again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeVar

__all__ = ["attributes_of", "stored"]

Class = TypeVar("Class", bound=type)

_ATTRIBUTES: dict[type, tuple[str, ...]] = {}


def stored(*attributes: str) -> Callable[[Class], Class]:
    """Let objects of a class be written to files with these attributes; without names, with the fields of a dataclass.

    Subclasses declare themselves.

    Examples
    --------
    >>> @stored("weights")
    ... class Votes:
    ...     pass
    >>> attributes_of(Votes)
    ('weights',)
    """

    def declare(cls: Class) -> Class:
        _ATTRIBUTES[cls] = attributes or tuple(one.name for one in dataclasses.fields(cls))
        return cls

    return declare


def attributes_of(cls: type) -> tuple[str, ...] | None:
    """Return the attributes that a class declared for files, or None if it declared nothing."""
    return _ATTRIBUTES.get(cls)
