"""One BLAS thread while the core runs.

Small products gain nothing from more, and results must not depend on how many there are.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]

_lock = threading.RLock()
_controller: ThreadpoolController | None = None
_owner: int | None = None
_depth = 0
_limit: Any = None


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
    global _controller, _owner, _depth, _limit
    me = threading.get_ident()
    with _lock:
        if _controller is None:
            import scipy.linalg.cython_blas  # noqa: F401  its library must be loaded to be found

            _controller = ThreadpoolController()
        if _owner is None:
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
