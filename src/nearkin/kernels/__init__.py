"""Compiled loops: one module per sweep of the paper, above `nearkin.kernels.machine`.

A module of this package loads numba when it is imported; the package itself does not. It holds what callers share: the
two structures that every sweep takes, and the threads that run beside compiled loops.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

__all__ = ["StepRule", "TripletRows", "one_blas_thread", "worker_pool"]


class TripletRows(NamedTuple):
    """Rows of a set of triplets and, for every triplet, the numbers of its three rows."""

    anchors: NDArray[np.floating]
    positives: NDArray[np.floating]
    negatives: NDArray[np.floating]
    anchor: NDArray[np.int64]
    positive: NDArray[np.int64]
    negative: NDArray[np.int64]


class StepRule(NamedTuple):
    """Limits of a step: ``C`` of every triplet, the loss's parameters and the number of half-quadratic iterations."""

    C: NDArray[np.float64]
    params: tuple[float, float]
    max_hq_iter: int


_lock = threading.RLock()
_controller: ThreadpoolController | None = None
_owner: int | None = None
_depth = 0
_limit: Any = None
_allowed = 1


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside the block: small products gain nothing from more, and results must not differ.

    The setting belongs to the process. The first thread inside sets it and restores it on leaving; other threads that
    enter meanwhile do not touch it.

    Examples
    --------
    >>> with one_blas_thread():
    ...     pass
    """
    global _controller, _owner, _depth, _limit, _allowed
    me = threading.get_ident()
    with _lock:
        if _controller is None:
            import scipy.linalg.cython_blas  # noqa: F401  its library must be loaded to be found

            _controller = ThreadpoolController()
        if _owner is None:
            # BLAS is limited only inside, so this is the number that the user, the environment or joblib allows.
            _allowed = max((one.num_threads or 1 for one in _controller.lib_controllers), default=1)
            _owner, _limit = me, _controller.limit(limits=1, user_api="blas")
        _depth += _owner == me
    try:
        yield
    finally:
        with _lock:
            if _owner == me:
                _depth -= 1
                if _depth == 0:
                    _owner = None
                    _limit.restore_original_limits()


@contextmanager
def worker_pool() -> Iterator[Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]]:
    """Yield ``run(work, parts)``: ``[work(part) for part in parts]``, computed by as many threads as BLAS may use.

    Work must release the interpreter lock to run faster, and write nothing that another part reads or writes.

    Examples
    --------
    >>> with worker_pool() as run:
    ...     run(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    with one_blas_thread():
        if _allowed == 1:
            yield lambda work, parts: [work(part) for part in parts]
            return
        with ThreadPoolExecutor(_allowed) as pool:
            yield lambda work, parts: list(pool.map(work, parts))
