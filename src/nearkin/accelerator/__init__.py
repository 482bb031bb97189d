"""The exact learners on a graphics processor: the same steps in the same order.

Nothing here loads torch before a learner with ``device="cuda"`` learns. `find` returns a usable device or says what is
missing. The modules `matrix_sweep` and `factor_sweeps` hold the sweeps, `cuda` starts device code in CUDA C,
`pipeline` keeps a device busy, `device_search` maps rows and finds neighbours. `device_cells` finds those of a jury,
and `device_votes` counts its votes.
"""

from nearkin.accelerator.device import computing_device, computing_on, find, keep_device, keep_there, sending_once

__all__ = ["computing_device", "computing_on", "find", "keep_device", "keep_there", "sending_once"]
