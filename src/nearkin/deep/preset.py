"""A learner under another name with other defaults; nothing else changes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["with_defaults"]

Class = TypeVar("Class", bound=type)


def with_defaults(**defaults: Any) -> Callable[[Class], Class]:
    """Give a class its parent's constructor with other default values, visible in its signature."""

    def decorate(cls: Class) -> Class:
        parent = cls.__init__  # type: ignore[misc]
        signature = inspect.signature(parent)
        unknown = set(defaults) - set(signature.parameters)
        if unknown:
            raise TypeError(f"{cls.__name__}: {sorted(unknown)} are no parameters of {parent.__qualname__}.")

        @functools.wraps(parent)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            try:
                given = signature.bind_partial(self, *args, **kwargs).arguments
            except TypeError as error:
                raise TypeError(f"{type(self).__name__}() {error}") from None
            parent(self, *args, **{**{k: v for k, v in defaults.items() if k not in given}, **kwargs})

        __init__.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[p.replace(default=defaults.get(n, p.default)) for n, p in signature.parameters.items()]
        )
        cls.__init__ = __init__  # type: ignore[misc]
        return cls

    return decorate
