"""How this package compiles: one place for numba's options.

* `step` compiles a scalar formula of `nearkin.steps` so that it is inlined where it is used; functions may then be
  passed as arguments and the caller can still be cached on disk.
* `body` is a loop that takes such functions as arguments.
* `helper` is a function that kernels call; an `exact_helper` keeps its sums in the order written.
* `kernel` is an entry point: cached on disk, runs without the interpreter lock.

Sums may be reordered (the dot products are several times faster so), nothing else is relaxed: NaN and infinity keep
their meaning.
"""

from typing import Any

from numba import njit

_REORDER = {"reassoc", "contract", "nsz"}

# Only compiled code may call a helper (from Python it would crash): without a way in from there it compiles in three
# quarters of the time.
_INSIDE: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

step = njit(inline="always", error_model="numpy")
body = njit(inline="always", error_model="numpy", fastmath=_REORDER)
helper = njit(error_model="numpy", fastmath=_REORDER, **_INSIDE)
exact_helper = njit(error_model="numpy", fastmath=False, **_INSIDE)  # unset, it would inherit the caller's


@helper
def copy_matrix(source, target):
    """``target[:] = source`` by loops, which compile in a fraction of the time."""
    for i in range(source.shape[0]):
        for k in range(source.shape[1]):
            target[i, k] = source[i, k]


kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
