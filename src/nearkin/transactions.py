"""Learning methods that change an estimator wholly or not at all."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

__all__ = ["all_or_nothing", "unchanged_on_error"]

Method = TypeVar("Method", bound=Callable[..., Any])


@contextmanager
def unchanged_on_error(estimator: BaseEstimator) -> Iterator[None]:
    """Put every attribute back if the block raises, an interrupt included, and the seed if it is a generator."""
    before = dict(vars(estimator))
    seed = before.get("random_state")
    kept = copy.deepcopy(seed) if isinstance(seed, (np.random.Generator, np.random.RandomState)) else None
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # results that are not finite are refused by name
            yield
    except BaseException as error:
        vars(estimator).clear()
        vars(estimator).update(before)
        if isinstance(seed, np.random.Generator) and isinstance(kept, np.random.Generator):
            seed.bit_generator.state = kept.bit_generator.state
        elif isinstance(seed, np.random.RandomState) and isinstance(kept, np.random.RandomState):
            seed.set_state(kept.get_state())
        if isinstance(error, SystemError) and isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None  # an interrupt inside compiled code comes out wrapped
        raise


def all_or_nothing(method: Method) -> Method:
    """Make a learning method leave the estimator as it was when it raises."""

    @functools.wraps(method)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        with unchanged_on_error(self):
            return method(self, *args, **kwargs)

    return wrapped  # type: ignore[return-value]
