"""Compiled loops: one module per sweep of the paper, above `nearkin.kernels.machine`.

A module of this package loads numba when it is imported; the package itself does not. It holds what callers share: the
two structures that every sweep takes, the check of arrays before compiled code, which trusts them, and the threads that
run beside compiled loops.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from nearkin import progress
from nearkin.errors import InputError

__all__ = ["FEW_ROWS", "StepRule", "TripletRows", "check_shapes", "one_blas_thread", "worker_pool"]


class TripletRows(NamedTuple):
    """Rows of a set of triplets and, for every triplet, the numbers of its three rows."""

    anchors: NDArray[np.floating]
    positives: NDArray[np.floating]
    negatives: NDArray[np.floating]
    anchor: NDArray[np.int64]
    positive: NDArray[np.int64]
    negative: NDArray[np.int64]


class StepRule(NamedTuple):
    """Limits of a step: ``C`` of every triplet, the loss's parameters, and the half-quadratic iterations.

    Each of these begins at a share ``carried`` of the step so far (`nearkin.steps.half_quadratic`).
    """

    C: NDArray[np.float64]
    params: tuple[float, float]
    max_hq_iter: int
    carried: float = 0.0


#: Most rows of a table that is judged without compiled code: compiling a loop would take longer than all the work. The
#: size alone decides, so results do not depend on what has been compiled before.
FEW_ROWS = 256

#: Shapes of `TripletRows`, for `check_shapes`.
TRIPLETS = "a d, p d, q d, n<a, n<p, n<q"

#: Sizes that may be zero: of rows, triplets, covered directions and an inverse that is not tracked.
_MAY_BE_ZERO: frozenset[int | str] = frozenset("apqnyz")


def check_shapes(shapes: str, *arguments: Any, **sizes: int) -> None:
    """Refuse arrays that do not fit together: compiled code would read beyond them.

    Parameters
    ----------
    shapes : str
        One entry per array: "r d" has r rows of d numbers, "n<m" n whole numbers from 0 to m - 1. A letter stands for
        the same size everywhere.
    *arguments : array or tuple or object
        Holds the arrays in this order, also inside tuples; other objects are skipped.
    **sizes : int
        Sizes known before.

    Raises
    ------
    InputError
        If an array has another shape, holds another number, or is not C-ordered without gaps.

    Examples
    --------
    >>> check_shapes("r d, n d, n<r", np.eye(2), np.zeros((3, 2)), np.array([0, 1, 1]))
    >>> check_shapes("r d, n d", np.eye(2), np.zeros((3, 4)))
    Traceback (most recent call last):
    nearkin.errors.InputError: ...an array of shape (3, 4) where (n, d) is needed, with d = 2, n = 3...
    """
    for (wanted, below), array in zip(_parse(shapes), _find_arrays(arguments), strict=True):
        if not _fits(array, wanted, below, sizes):
            known = ", ".join(f"{name} = {size}" for name, size in sizes.items() if name in (*wanted, below))
            holds = f" of whole numbers below {below}" if below else ""
            raise InputError(
                f"what was learned does not fit the rows: an array of shape {array.shape} where "
                f"({', '.join(map(str, wanted))}){holds} is needed, with {known}. Was its file changed? Fit it again."
            )


def _fits(array: NDArray[Any], wanted: list[int | str], below: str, sizes: dict[str, int]) -> bool:
    if array.ndim != len(wanted) or not array.flags.c_contiguous:
        return False
    for name, size in zip(wanted, array.shape, strict=True):
        if size != (name if isinstance(name, int) else sizes.setdefault(name, size)):
            return False
        if size == 0 and name not in _MAY_BE_ZERO:
            return False
    if not below or not len(array):
        return True
    # Without its sign, a negative number is a large one.
    return array.dtype == np.int64 and bool(array.view(np.uint64).max() < sizes[below])


@lru_cache(maxsize=64)
def _parse(shapes: str) -> list[tuple[list[int | str], str]]:
    entries = (one.partition("<") for one in shapes.split(","))
    return [([int(one) if one.isdigit() else one for one in dims.split()], below.strip()) for dims, _, below in entries]


def _find_arrays(arguments: Iterable[Any]) -> Iterator[NDArray[Any]]:
    for one in arguments:
        if isinstance(one, np.ndarray):
            yield one
        elif isinstance(one, tuple):
            yield from _find_arrays(one)


_lock = threading.RLock()
_controller: ThreadpoolController | None = None
_owner: int | None = None
_depth = 0
_limited: list[tuple[Any, int]] = []
_inside = threading.local()  # whether this thread works for a pool
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
    global _controller, _owner, _depth, _limited, _allowed
    me = threading.get_ident()
    with _lock:
        if _controller is None:
            import scipy.linalg.cython_blas  # noqa: F401  its library must be loaded to be found

            _controller = ThreadpoolController()
        if _owner is None:
            # BLAS is limited only inside, so this is the number that the user, the environment or joblib allows.
            counts = [(one, one.num_threads or 1) for one in _controller.lib_controllers]
            _allowed = max((n for _, n in counts), default=1)
            _owner, _limited = me, [(one, n) for one, n in counts if one.user_api == "blas" and n > 1]
            for one, _ in _limited:
                one.set_num_threads(1)
        _depth += _owner == me
    try:
        yield
    finally:
        with _lock:
            if _owner == me:
                _depth -= 1
                if _depth == 0:
                    _owner = None
                    for one, n in _limited:
                        one.set_num_threads(n)


@contextmanager
def worker_pool() -> Iterator[Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]]:
    """Yield ``run(work, parts)``: ``[work(part) for part in parts]``, computed by as many threads as BLAS may use.

    Work must release the interpreter lock to run faster, and write nothing that another part reads or writes. Pools
    inside work use no further threads.

    Examples
    --------
    >>> with worker_pool() as run:
    ...     run(abs, [-1, 2, -3])
    [1, 2, 3]
    """

    def run_here(work: Callable[[Any], Any], parts: Iterable[Any]) -> list[Any]:
        done = []
        for part in parts:
            progress.pause()
            done.append(work(part))
        return done

    with one_blas_thread():
        if _allowed == 1 or progress.pauses() or getattr(_inside, "a_pool", False):
            yield run_here
            return
        with ThreadPoolExecutor(_allowed, initializer=setattr, initargs=(_inside, "a_pool", True)) as pool:

            def run(work: Callable[[Any], Any], parts: Iterable[Any]) -> list[Any]:
                parts = list(parts)  # a thread takes longer to start than a small part
                if len(parts) < 2:
                    return run_here(work, parts)
                heeded = np.geterr()  # threads begin with NumPy's own settings

                def there(part: Any) -> Any:
                    with np.errstate(**heeded):
                        return work(part)

                return list(pool.map(there, parts))

            yield run
