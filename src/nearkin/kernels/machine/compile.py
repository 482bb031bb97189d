"""How nearkin compiles: numba's options, sweeps that serve every loss, and a notice when compilation takes long.

* `step` compiles a scalar formula of `nearkin.steps` and inlines it where it is called. An inlined function can be
  passed to another one, and the caller can still be cached on disk.
* `body` is a loop that takes such functions as arguments.
* `helper` is a function that kernels call; an `exact_helper` keeps its sums in the order written.
* `kernel` is an entry point: cached on disk, runs without the interpreter lock.
* `Sweep` makes the entry points of a loop over triplets, one per loss.

Sums may be reordered, which makes dot products several times faster. Nothing else is relaxed: NaN and infinity keep
their meaning.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from types import FunctionType
from typing import Any

from numba import njit

from nearkin.kernels import TRIPLETS, check_shapes
from nearkin.kernels.machine.cache import LoopCache
from nearkin.losses import Loss, exponential_weight

_REORDER = {"reassoc", "contract", "nsz"}

# Only compiled code may call a helper; a call from Python would crash. Without an entry from Python it compiles in
# three quarters of the time.
_INSIDE: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

step = njit(inline="always", error_model="numpy")
body = njit(inline="always", error_model="numpy", fastmath=_REORDER)
helper = njit(error_model="numpy", fastmath=_REORDER, **_INSIDE)
exact_helper = njit(error_model="numpy", fastmath=False, **_INSIDE)  # unset, it would inherit the caller's
_uncached = njit(nogil=True, error_model="numpy", fastmath=_REORDER)

#: Text of the notice; the README says the same.
COMPILES = "compiles its loops for this machine, up to 20 seconds, once per kind of data"

#: Seconds before the notice appears.
_PATIENCE = 2.0


def kernel(function: Any) -> Any:
    """Compile an entry point: cached on disk (`nearkin.kernels.machine.cache`), runs without the interpreter lock."""
    compiled: Any = _uncached(function)
    compiled._cache = LoopCache(function)  # as ``cache=True`` sets numba's own
    return compiled


class Sweep:
    """A loop over triplets in plain Python, compiled from one source for every loss.

    The loop calls the loss's half-quadratic weight by the global name ``weight``, and may call other functions by
    global names of its module. For each loss this class compiles a copy of the loop in which these names have other
    values: the weight, and ``names``, which `step` or `body` compiled. Code for the built-in losses is cached on disk.

    ``shapes`` are those of all arrays among the arguments (`check_shapes`); "*" stands for triplets and their rule.
    """

    def __init__(self, loop: Any, shapes: str, **names: Any):
        self._loop = loop
        self._shapes = shapes.replace("*", f"{TRIPLETS}, n")
        self._names = names
        self._own: dict[Callable[..., float], Any] = {}

    def run(self, loss: Loss, *arguments: Any) -> int:
        """Run the loop with the loss's weight and return what the loop returns, the number of updates."""
        check_shapes(self._shapes, arguments)
        weight = loss.weight_of_hinge
        if weight is not exponential_weight:
            if weight not in self._own:
                self._own[weight] = _uncached(self._copy(weight=step(weight)))
            return self._own[weight](*arguments)
        if self.cached.signatures:
            return self.cached(*arguments)
        with notice_compilation():
            return self.cached(*arguments)

    @cached_property
    def cached(self) -> Any:
        """Kernel for the built-in losses."""
        return kernel(self._copy())

    def _copy(self, **names: Any) -> FunctionType:
        loop = FunctionType(self._loop.__code__, {**self._loop.__globals__, **self._names, **names})
        # Numba names files of its cache after the function.
        loop.__qualname__ = "_".join([loop.__qualname__, *(one.__name__ for one in self._names.values())])
        return loop


@contextmanager
def notice_compilation() -> Iterator[None]:
    """Log one line if the block, a first call of a kernel, takes long."""
    timer = threading.Timer(_PATIENCE, logging.getLogger("nearkin").warning, [f"nearkin {COMPILES}."])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
