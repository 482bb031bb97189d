"""Checks that all rooms share: rows, seeds, and methods that change an estimator wholly or not at all."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from nearkin.errors import InputError
from nearkin.settings import Integer

__all__ = ["all_or_nothing", "check_rows", "check_seed", "generator", "unchanged_on_error"]

Method = TypeVar("Method", bound=Callable[..., Any])


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
