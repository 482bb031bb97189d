"""Compiled loops: one module per sweep of the paper, above `nearkin.kernels.machine`.

A module of this package loads numba when it is imported; the package itself does not.
"""

from nearkin.kernels.arguments import StepRule, TripletRows
from nearkin.kernels.machine.threads import one_blas_thread, worker_pool

__all__ = ["StepRule", "TripletRows", "one_blas_thread", "worker_pool"]
