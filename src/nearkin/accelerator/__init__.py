"""The exact learners on a graphics processor: the same steps in the same order, by other hands.

Nothing here loads torch before a learner with ``device="cuda"`` learns. `find` says whether a device can be used. The
modules `full` and `lowrank` hold the sweeps, `cuda` starts kernels in CUDA C, `pipeline` keeps a device busy, and
`nearest` searches for neighbours.
"""

from nearkin.accelerator.device import find, is_accelerator

__all__ = ["find", "is_accelerator"]
