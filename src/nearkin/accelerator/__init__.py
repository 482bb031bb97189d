"""The exact learners on a graphics processor: the same steps in the same order, by other hands.

Nothing here loads torch before a learner with ``device="cuda"`` learns. `find` says whether a device can be used. The
modules `full` and `lowrank` hold the sweeps, `pipeline` what keeps a device busy, `nearest` the search for neighbours.
"""

from nearkin.accelerator.device import find, is_accelerator

__all__ = ["find", "is_accelerator"]
