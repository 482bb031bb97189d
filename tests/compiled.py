"""Kernels' helpers, callable from Python.

A helper is compiled without a way in from Python (see `machine.compile`); to call one as it is would crash.
"""

from types import ModuleType

from numba import njit


class Compiled:
    """Module of which every function can be called from a test."""

    def __init__(self, module: ModuleType):
        self._module = module

    def __getattr__(self, name):
        function = getattr(self._module, name)
        wrapped = njit(lambda *arguments: function(*arguments))
        setattr(self, name, wrapped)
        return wrapped
