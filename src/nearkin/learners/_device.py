"""Learners that can learn on a graphics processor."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from nearkin.accelerator.device import DeviceRule, find, is_accelerator
from nearkin.arrays import Array
from nearkin.checks import Rule, named_errors
from nearkin.learners.base import OnlineLearner
from nearkin.learners.state import State
from nearkin.losses import Loss, as_loss, exponential_weight
from nearkin.rows import LARGEST
from nearkin.triplets import Triplets

__all__ = ["DeviceLearner"]


#: Kernels write out every half-quadratic iteration.
_MOST_HQ = 16

#: Numbers from which rows are mapped on the device.
_MANY_NUMBERS = 1 << 22


class DeviceLearner(OnlineLearner):
    """A learner with the parameter ``device``; its parameter must have `learn_on`."""

    _rules: ClassVar[dict[str, tuple[Rule, ...]]] = {**OnlineLearner._rules, "device": (DeviceRule(),)}

    #: Parameters of the learner, with the only values that a device knows.
    _on_device: ClassVar[dict[str, tuple[Any, ...]]] = {}

    device: str

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not is_accelerator(self.device):
            return
        where = f"{self._name}: device={self.device!r}"
        if as_loss(self.loss, self.eta).weight_of_hinge is not exponential_weight:
            raise ValueError(
                f"{where} knows the losses 'hinge' and 'rescaled_hinge'; for {self.loss!r} use device='cpu'."
            )
        if self.max_hq_iter > _MOST_HQ:
            raise ValueError(
                f"{where} takes max_hq_iter up to {_MOST_HQ}; got {self.max_hq_iter}. Or use device='cpu'."
            )
        for name, known in self._on_device.items():
            if getattr(self, name) not in known:
                words = " or ".join(f"{name}={one!r}" for one in known)
                raise ValueError(f"{where} needs {words}; got {name}={getattr(self, name)!r}. Or use device='cpu'.")
        find(self.device, self._name)

    def _embedded(self, X: ArrayLike) -> Array:
        """On the device where there are many rows; what is not as it should be is left to the processor to name."""
        if is_accelerator(self.device) and isinstance(X, np.ndarray) and X.size >= _MANY_NUMBERS:
            from nearkin.accelerator.device_map import map_rows

            rows = self._check_rows(X, reset=False)
            state = self._fitted
            limit = LARGEST[np.dtype(state.dtype)]
            with named_errors(self):
                components = state.parameter.components
            found = map_rows(rows, state.scaling, components, limit, find(self.device, self._name))
            if found is not None:
                return found
        return super()._embedded(X)

    def _learn_set(self, state: State, triplets: Triplets, loss: Loss) -> Array:
        if not is_accelerator(self.device):
            return super()._learn_set(state, triplets, loss)
        device = find(self.device, self._name)
        parameter: Any = state.parameter
        plausibility, updates = parameter.learn_on(device, triplets, self.C, loss, self.max_hq_iter)
        state.n_triplets += len(triplets)
        state.n_updates += updates
        return plausibility
