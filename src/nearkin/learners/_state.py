"""What a learner holds, and how it is kept whole when something fails."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from nearkin.labels import Labels, as_labels
from nearkin.learners._parameters import Parameter
from nearkin.measures import Measure
from nearkin.rows import Scaling
from nearkin.triplets import TripletSource

__all__ = ["State", "all_or_nothing", "unchanged_on_error"]

Array = NDArray[np.floating]
Method = TypeVar("Method", bound=Callable[..., Any])


@dataclass
class State:
    """Everything learned; replaced as a whole, so that a rejected batch leaves the old one."""

    scaling: Scaling
    parameter: Parameter
    labels: Labels
    dtype: np.dtype
    source: TripletSource | None = None
    n_rows: int = 0
    n_triplets: int = 0
    n_updates: int = 0

    @property
    def measure(self) -> Measure:
        """For the triplet source."""
        return self.parameter.measure

    def scores(self, left: Array, right: Array) -> Array:
        """For the triplet source: pairs under the metric learned so far."""
        return self.parameter.scores(left, right)

    def frozen(self) -> Parameter:
        """For the triplet source: the metric as it is now."""
        return self.parameter.copy()

    def scaled(self, X: ArrayLike) -> Array:
        """For the triplet source: raw rows on the learner's scale."""
        return self.scaling.apply(np.asarray(X, dtype=self.dtype))

    def codes_of(self, labels: ArrayLike) -> NDArray[np.int64]:
        """For the triplet source: numbers of labels."""
        return self.labels.encode(as_labels(labels, "OCTG"), "OCTG")

    def forget(self) -> None:
        """Forget the labels of classes that the triplet source has given up, if it does that."""
        living = None if self.source is None else self.source.living
        if living is not None and len(living) < len(self.labels.codes):
            self.labels.keep(living.tolist())

    def copy(self) -> State:
        """A state that can learn while this one stays."""
        return State(
            self.scaling, self.parameter.copy(), self.labels.copy(), self.dtype,
            None if self.source is None else self.source.copy(), self.n_rows, self.n_triplets, self.n_updates,
        )  # fmt: skip


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
