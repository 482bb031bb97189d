"""The half-quadratic loop of every system, stated once (sec. 2.3).

`full` and `lowrank` write the loop out beside Algorithms 1 to 4. The systems the paper compares with differ from those
only in what a step of size tau does, so here that is a function: `loss_after(tau)` rebuilds the parameters from the
ones before the triplet (A3) and returns the loss there.
"""

from collections.abc import Callable, Sequence

import numpy as np

from .common import Array, Run
from .losses import plausibility, weight


def half_quadratic(
    loss_after: Callable[[float], float], kink: float, C: float, eta: float, max_hq_iter: int
) -> tuple[float, float]:
    """tau <- min(C weight(l(tau)), kink), from tau = 0; returns tau and the plausibility before the step.

    The weight comes before the step (A6). With C = infinity no weight can hold the step back: it is the kink.
    """
    tau, omega = 0.0, float(plausibility(loss_after(0.0), eta))
    for _ in range(max_hq_iter):
        loss = loss_after(tau)
        tau = kink if np.inf == C else min(C * float(weight(loss, eta)), kink)
    return tau, omega


def as_run(parameter: Array, omegas: Sequence[float], taus: Sequence[float]) -> Run:
    """The result of a run from what was noted for each triplet."""
    tau = np.array(taus, dtype=np.float64)
    return Run(parameter, np.array(omegas, dtype=np.float64), tau, int(np.sum(tau > 0.0)))
