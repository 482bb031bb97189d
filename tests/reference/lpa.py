"""LPA-ODML, literally (sec. 3.4): the metric of class c is M_0 + M_c, a global and a local part.

min 1/2 ||M_0 - M_0t||_F^2 + mu/2 ||M_c - M_ct||_F^2 + C [1 - <A, M_0 + M_c>]_+ for an anchor of class c, then M_0 and
M_0 + M_c are projected. A step of another class may push M_0 + M_c out of the cone, so a class is also projected when
it is next used, and all are at the end: no metric that is ever read has a negative eigenvalue.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np

from .common import Array, distance_direction
from .full import psd_part
from .half_quadratic import half_quadratic
from .losses import hinge, plausibility


class LocalRun(NamedTuple):
    """Like `common.Run`, with M_0, and with M_c of every class that had a triplet."""

    global_part: Array
    local_parts: dict[Hashable, Array]
    plausibility: Array
    tau: Array
    n_updates: int

    def metric(self, label: Hashable) -> Array:
        """M_0 + M_c; M_0 for a class without a triplet."""
        return self.global_part + self.local_parts.get(label, np.zeros_like(self.global_part))


def into_cone(M_0: Array, M_c: Array) -> Array:
    """M_c moved so that M_0 + M_c is its own PSD part; as it is where nothing is negative."""
    total = M_0 + M_c
    projected = psd_part(total)
    return M_c if projected is total else projected - M_0


def lpa_odml(
    anchors: Array,
    positives: Array,
    negatives: Array,
    labels: Sequence[Hashable],
    C: float = 0.1,
    mu: float = 1.0,
    eta: float = 0.0,
    max_hq_iter: int = 3,
) -> LocalRun:
    """LPA-ODML; robust when eta > 0. `labels` are the classes of the anchors; mu = infinity is ODML.

    M_0 = I, M_c = 0. A local part moves by tau / mu, so the loss falls by tau (1 + 1/mu) ||A||^2.
    """
    d = anchors.shape[1]
    M_0 = np.eye(d)
    local: dict[Hashable, Array] = {}
    omegas, taus = [], []
    for x, x_plus, x_minus, label in zip(anchors, positives, negatives, labels, strict=True):
        A = distance_direction(x, x_plus, x_minus)
        M_c = into_cone(M_0, local.get(label, np.zeros((d, d))))
        loss_t, sq_norm = float(hinge(np.sum(A * (M_0 + M_c)))), float(np.sum(A * A))
        tau, omega = 0.0, float(plausibility(loss_t, eta))
        if loss_t > 0.0 and sq_norm > 0.0:
            kink = loss_t / ((1.0 + 1.0 / mu) * sq_norm)
            tau, omega = half_quadratic(_loss_along(M_0, M_c, A, mu), kink, C, eta, max_hq_iter)
            M_0 = psd_part(M_0 + tau * A)
            M_c = into_cone(M_0, M_c + tau / mu * A)
        local[label] = M_c
        omegas.append(omega)
        taus.append(tau)
    local = {label: into_cone(M_0, M_c) for label, M_c in local.items()}
    tau_array = np.array(taus)
    return LocalRun(M_0, local, np.array(omegas), tau_array, int(np.sum(tau_array > 0.0)))


def _loss_along(M_0: Array, M_c: Array, A: Array, mu: float) -> Callable[[float], float]:
    """The loss after both parts moved by tau, before any projection."""
    return lambda tau: float(hinge(np.sum(A * ((M_0 + tau * A) + (M_c + tau / mu * A)))))
