"""The exact learners on a graphics processor: the same steps in the same order.

Nothing here loads torch before a learner with ``device="cuda"`` learns. `find` returns a usable device or says what is
missing. The modules `matrix_sweep` and `factor_sweeps` hold the sweeps, `cuda` starts device code in CUDA C,
`pipeline` keeps a device busy, and `device_search` maps rows and finds neighbours.
"""

from nearkin.accelerator.device import find

__all__ = ["find"]
