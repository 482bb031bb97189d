"""Say so when a first call has to compile for more than a moment."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["COMPILES", "announcing_compilation"]

#: What is said; the README says the same.
COMPILES = "compiles its loops for this machine, up to 20 seconds, once per kind of data"

#: Seconds of silence.
_PATIENCE = 2.0

_logger = logging.getLogger("nearkin")


@contextmanager
def announcing_compilation(kernel: Any) -> Iterator[None]:
    """Log one line if the block takes long and the kernel was not compiled in this process before.

    Examples
    --------
    >>> class Compiled:
    ...     signatures = ("float64",)
    >>> with announcing_compilation(Compiled()):
    ...     pass
    """
    if kernel.signatures:
        yield
        return
    timer = threading.Timer(_PATIENCE, _say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _say() -> None:
    _logger.warning("nearkin %s.", COMPILES)
