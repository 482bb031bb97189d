"""One BLAS thread while the core runs, and work in parts that do not touch each other.

Small products gain nothing from more threads inside BLAS, and results must not depend on how many there are. Where work
falls into parts whose results do not depend on each other, the threads that BLAS would have had share them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread", "worker_pool"]

_lock = threading.RLock()
_controller: ThreadpoolController | None = None
_owner: int | None = None
_depth = 0
_limit: Any = None
_allowed = 1


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside the block.

    The setting belongs to the process, and only the thread that set it can be trusted to put it back: the first
    thread inside sets it and restores it when it leaves; others inside meanwhile leave it alone.

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
            # Only inside is BLAS limited, so this is what the user, the environment or joblib allows.
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
    """``run(work, parts)`` gives ``[work(part) for part in parts]``, by as many threads as BLAS is allowed.

    Work must release the interpreter lock to gain from it, and write nothing that another part reads or writes.

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
